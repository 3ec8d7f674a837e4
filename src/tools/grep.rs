//! `grep`: lines that match a regular expression.

use std::{ffi::OsStr, fmt::Write as _, fs::File, io, ops::ControlFlow, path::Path};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use hivewright_actors::tool::Effect;
use ignore::types::{Types, TypesBuilder};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    about::About,
    cap,
    contract::{Tool, ToolContext},
    error::ToolError,
    glob::Names,
    reach::Reach,
};
use crate::{sandbox::workspace::WorkspaceError, scrub::Scrubber};

/// Matches shown of one file.
const PER_FILE: usize = 200;
/// Matches shown in all.
const MOST: usize = 2000;
/// Larger files are passed over, in bytes.
const LARGEST: u64 = 10 << 20;
/// Names of passed-over files that are shown.
const SKIPPED: usize = 20;

pub(super) struct Grep;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// A regular expression, matched line by line; no look-around and no back-references.
    pattern: String,
    /// The file or folder to search; the workspace if not given.
    path: Option<String>,
    /// Only files whose path or name fits, for example `*.rs` or `src/**/*.ts`.
    glob: Option<String>,
    /// Only files of this type, for example `rust`, `py` or `js`.
    r#type: Option<String>,
    /// Capital and small letters are the same.
    #[serde(default)]
    ignore_case: bool,
    /// Lines to show before and after each match, 0 to 10.
    #[serde(default)]
    #[schemars(range(min = 0, max = 10))]
    context: usize,
}

impl Tool for Grep {
    const ABOUT: About =
        About::new("grep", "@files", "file.read", Effect::Pure).unbounded().paths(&["path"]);
    const DESCRIPTION: &'static str = "Searches files for lines that match a regular expression, and shows them as \
        `path:line:text`. Shows at most 200 matches of a file and 2,000 in all. Binary files and files over 10 MiB \
        are passed over. Names that begin with a dot are searched only if `glob` or `path` names them.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        let path = args.path.as_deref().unwrap_or(".");
        vec![Reach::Search(path.to_owned())]
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        cx.blocking(move |cx| search(&args, cx)).await
    }
}

fn search(args: &Args, cx: &ToolContext) -> Result<String, ToolError> {
    let bad = |error: &dyn std::fmt::Display| ToolError::invalid(format!("`pattern`: {error}"));
    // The matcher wraps the pattern before it looks at it, and would point to the wrong place.
    regex_syntax::parse(&args.pattern).map_err(|error| bad(&error))?;
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|error| bad(&error))?;
    let mut hunt = Hunt {
        matcher,
        scrubber: cx.grant.secrets.of(&cx.grant.team),
        searcher: SearcherBuilder::new()
            .line_number(true)
            .before_context(args.context)
            .after_context(args.context)
            .binary_detection(BinaryDetection::quit(0))
            .build(),
        shown: String::new(),
        matches: 0,
        skipped: Vec::new(),
    };
    let wanted = Wanted::new(args)?;
    let path = args.path.as_deref().unwrap_or(".");
    match cx.grant.workspace.open_file(path, &|place| cx.admit(place)) {
        Ok(opened) => {
            if hunt.file(Path::new(path), &opened.file, opened.size) {
                cx.has_read(&opened.path, &opened.file);
            }
        }
        Err(error @ (WorkspaceError::Denied(_) | WorkspaceError::Elsewhere { .. })) => {
            return Err(error.into());
        }
        // A folder, or a failure that opening it as one tells better.
        Err(_) => {
            let folder = cx.grant.workspace.open_dir(path, &|place| cx.admit(place))?;
            folder.walk(&|name| wanted.may_enter(name), &mut |file| {
                if wanted.includes(file.path)
                    && let Ok((opened, size)) = file.open()
                    && hunt.file(&folder.path().join(file.path), &opened, size)
                {
                    cx.has_read(&folder.real_path().join(file.path), &opened);
                }
                if hunt.matches >= MOST || cx.cancel.is_cancelled() {
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            });
        }
    }
    let shown = hunt.conclude();
    if cx.cancel.is_cancelled() {
        return Err(ToolError::stopped(shown));
    }
    Ok(shown)
}

struct Wanted {
    names: Option<Names>,
    types: Option<Types>,
    /// A glob without a slash speaks of the name alone.
    by_name: bool,
}

impl Wanted {
    fn new(args: &Args) -> Result<Self, ToolError> {
        let types = match &args.r#type {
            None => None,
            Some(kind) => {
                let mut builder = TypesBuilder::new();
                builder.add_defaults().select(kind);
                let types = builder.build();
                Some(types.map_err(|error| ToolError::invalid(format!("`type`: {error}")))?)
            }
        };
        Ok(Self {
            names: args.glob.as_deref().map(Names::new).transpose()?,
            types,
            by_name: args.glob.as_ref().is_some_and(|glob| !glob.contains('/')),
        })
    }

    fn may_enter(&self, name: &OsStr) -> bool {
        match &self.names {
            Some(names) => names.may_enter(name),
            None => !name.as_encoded_bytes().starts_with(b"."),
        }
    }

    fn includes(&self, path: &Path) -> bool {
        let named = self.names.as_ref().is_none_or(|names| {
            let path = if self.by_name { path.file_name().map_or(path, Path::new) } else { path };
            names.matcher.is_match(path)
        });
        let typed = self.types.as_ref();
        named && typed.is_none_or(|types| types.matched(path, false).is_whitelist())
    }
}

struct Hunt {
    matcher: RegexMatcher,
    scrubber: Scrubber,
    searcher: Searcher,
    shown: String,
    matches: usize,
    skipped: Vec<String>,
}

impl Hunt {
    /// Searches a file. Says whether the answer tells something of it.
    fn file(&mut self, path: &Path, file: &File, size: u64) -> bool {
        if size > LARGEST {
            self.skipped.push(format!("{} (over 10 MiB)", path.display()));
            return true;
        }
        let mut page = Page {
            path,
            scrubber: &self.scrubber,
            left: PER_FILE.min(MOST - self.matches),
            shown: String::new(),
            matches: 0,
            binary: false,
        };
        match self.searcher.search_file(&self.matcher, file, &mut page) {
            Ok(()) if page.binary => self.skipped.push(format!("{} (binary)", path.display())),
            Ok(()) => {
                self.shown.push_str(&page.shown);
                self.matches += page.matches;
                return !page.shown.is_empty();
            }
            Err(error) => self.skipped.push(format!("{} ({error})", path.display())),
        }
        true
    }

    fn conclude(mut self) -> String {
        if self.matches == 0 {
            self.shown.push_str("No matches found.\n");
        }
        if self.matches >= MOST {
            // Writing to a string cannot fail.
            let _ = writeln!(self.shown, "[stopped after {MOST} matches]");
        }
        if !self.skipped.is_empty() {
            let names = &self.skipped[..self.skipped.len().min(SKIPPED)];
            let _ = write!(self.shown, "[passed over: {}", names.join(", "));
            if self.skipped.len() > SKIPPED {
                let _ = write!(self.shown, " and {} more", self.skipped.len() - SKIPPED);
            }
            self.shown.push_str("]\n");
        }
        self.shown.truncate(self.shown.trim_end().len());
        self.shown
    }
}

struct Page<'a> {
    path: &'a Path,
    scrubber: &'a Scrubber,
    left: usize,
    shown: String,
    matches: usize,
    binary: bool,
}

impl Page<'_> {
    fn line(&mut self, number: Option<u64>, mark: char, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches(['\r', '\n']);
        let text = cap::line(text, self.scrubber);
        let (path, number) = (self.path.display(), number.unwrap_or(0));
        let _ = writeln!(self.shown, "{path}{mark}{number}{mark}{text}");
    }
}

impl Sink for Page<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches == self.left {
            let path = self.path.display();
            let _ = writeln!(self.shown, "[more matches in {path}]");
            return Ok(false);
        }
        self.matches += 1;
        self.line(found.line_number(), ':', found.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        self.line(context.line_number(), '-', context.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.shown.push_str("--\n");
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> io::Result<bool> {
        self.binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, end: &SinkFinish) -> io::Result<()> {
        self.binary |= end.binary_byte_offset().is_some();
        Ok(())
    }
}
