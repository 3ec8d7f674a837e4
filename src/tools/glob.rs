//! `glob`: files by the shape of their paths.

use std::{
    cmp::Reverse,
    ffi::OsStr,
    fmt::Write as _,
    ops::ControlFlow,
    path::{Component, Path},
};

use globset::{GlobBuilder, GlobMatcher};
use hivewright_actors::tool::{Effect, ToolFault};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    about::About,
    contract::{Tool, ToolContext},
    error::ToolError,
    reach::Reach,
};

/// Paths that are listed.
const MOST: usize = 1000;

pub(super) struct Glob;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// For example `**/*.rs` or `src/*.{js,ts}`. `*` stays within a folder, `**` does not.
    pattern: String,
    /// The folder to look in; the workspace if not given.
    path: Option<String>,
}

impl Tool for Glob {
    const ABOUT: About =
        About::new("glob", "@files", "file.read", Effect::Pure).unbounded().paths(&["path"]);
    const DESCRIPTION: &'static str = "Finds files by a pattern of their paths and lists them absolute, newest first. \
        Names that begin with a dot are found only if the pattern names them. Links are not followed.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        // A pattern that cannot be split finds nothing.
        let base = split(&args.pattern).ok().and_then(|(base, _)| base);
        let base = base.or(args.path.clone());
        vec![Reach::Search(base.unwrap_or_else(|| ".".to_owned()))]
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        cx.blocking(move |cx| find(&args, cx)).await
    }
}

fn find(args: &Args, cx: &ToolContext) -> Result<String, ToolError> {
    let (base, pattern) = split(&args.pattern)?;
    let base = base.or(args.path.clone()).unwrap_or_else(|| ".".to_owned());
    let folder = cx.grant.workspace.open_dir(&base, &|place| cx.admit(place))?;
    let names = Names::new(&pattern)?;
    let mut found = Vec::new();
    folder.walk(&|name| names.may_enter(name), &mut |file| {
        if names.matcher.is_match(file.path) {
            cx.has_named(&folder.real_path().join(file.path), file.entry());
            found.push((Reverse(file.modified()), folder.path().join(file.path)));
        }
        if cx.cancel.is_cancelled() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    found.sort();
    let mut shown = String::new();
    for (_, path) in found.iter().take(MOST) {
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "{}", path.display());
    }
    if found.len() > MOST {
        let _ = writeln!(shown, "[{} more files]", found.len() - MOST);
    }
    if cx.cancel.is_cancelled() {
        return Err(ToolError::stopped(shown));
    }
    if found.is_empty() {
        return Ok("No files matched the pattern.".to_owned());
    }
    Ok(shown)
}

/// The folder that an absolute pattern begins in, and the pattern from there on.
///
/// A pattern that climbs is refused; whether the folder is the team's is for the boundary to say.
fn split(pattern: &str) -> Result<(Option<String>, String), ToolError> {
    if Path::new(pattern).components().any(|part| part == Component::ParentDir) {
        let message = format!("Access denied: {pattern} is outside the workspace");
        return Err(ToolError::new(ToolFault::OutsideWorkspace, message));
    }
    if !pattern.starts_with('/') {
        let relative = pattern.strip_prefix("./").unwrap_or(pattern);
        return Ok((None, relative.to_owned()));
    }
    let plain = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    let end = pattern[..plain].rfind('/').unwrap_or(0);
    let base = &pattern[..end.max(1)];
    Ok((Some(base.to_owned()), pattern[end + 1..].to_owned()))
}

/// A compiled pattern, with the hidden names it speaks of.
pub(super) struct Names {
    pub(super) matcher: GlobMatcher,
    hidden: Vec<GlobMatcher>,
}

impl Names {
    pub(super) fn new(pattern: &str) -> Result<Self, ToolError> {
        let matcher = compile(pattern)?;
        let parts = pattern.split('/');
        let parts = parts.filter(|part| part.starts_with('.') || part.starts_with("{."));
        // A part of `{.a/b,c}` is no pattern of its own, but `.a` is.
        let names = pattern.split(['/', '{', ',', '}']).filter(|name| name.starts_with('.'));
        let hidden = parts.chain(names).filter_map(|part| compile(part).ok());
        Ok(Self { matcher, hidden: hidden.collect() })
    }

    /// Whether a name on the way is one to look at: a hidden one only if the pattern names it.
    pub(super) fn may_enter(&self, name: &OsStr) -> bool {
        !name.as_encoded_bytes().starts_with(b".")
            || self.hidden.iter().any(|hidden| hidden.is_match(name))
    }
}

fn compile(pattern: &str) -> Result<GlobMatcher, ToolError> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    Ok(glob.map_err(|error| ToolError::invalid(format!("`pattern`: {error}")))?.compile_matcher())
}
