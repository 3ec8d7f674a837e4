//! `read`: the lines of a text file.

use std::{fmt::Write as _, fs::File, io::Read as _, path::PathBuf};

use hivewright_actors::tool::{Effect, ToolFault};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    about::About,
    answer, cap,
    contract::{Tool, ToolContext},
    error::ToolError,
    reach::Reach,
};
use crate::scrub::Scrubber;

/// The largest file that is looked at, in bytes.
const LARGEST: u64 = 50 << 20;
const LINES: usize = 2000;
/// The most bytes of a line that is cut, with what stands around it.
const WIDEST: usize = cap::WIDTH * 4 + 64;
/// An answer ends with a whole line before the host would cut it.
const ROOM: usize = cap::MOST - 4096;

pub(super) struct Read;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The file, absolute or relative to the workspace.
    file_path: String,
    /// The first line to show, counted from 1.
    #[schemars(range(min = 1))]
    offset: Option<usize>,
    /// How many lines to show; 2000 if not given.
    #[schemars(range(min = 1))]
    limit: Option<usize>,
}

impl Tool for Read {
    const ABOUT: About =
        About::new("read", "@files", "file.read", Effect::Pure).unbounded().paths(&["file_path"]);
    const DESCRIPTION: &'static str = "Reads a UTF-8 text file and shows its lines, each with its number. \
        Use `offset` and `limit` for a part of a long file. Binary files and files over 50 MiB are refused.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        vec![Reach::Read(args.file_path.clone())]
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        cx.blocking(move |cx| {
            let opened = text_of(cx, &args.file_path)?;
            cx.has_read(&opened.path, &opened.file);
            let shown = show(&opened.text, &args, &cx.grant.secrets.of(&cx.grant.team))?;
            if !cx.taints() {
                return Ok(shown);
            }
            Ok(answer::from_outside("a file that is not to be believed", &shown))
        })
        .await
    }
}

/// A text file that was read.
pub(super) struct TextFile {
    pub(super) text: String,
    pub(super) path: PathBuf,
    pub(super) file: File,
}

/// The whole text of a file, if it is one.
pub(super) fn text_of(cx: &ToolContext, path: &str) -> Result<TextFile, ToolError> {
    let opened = cx.grant.workspace.open_file(path, &|place| cx.admit(place))?;
    let mut bytes = Vec::new();
    (&opened.file)
        // One byte more than allowed tells a file that grew meanwhile.
        .take(LARGEST + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ToolError::failed(format!("{path} cannot be read: {error}")))?;
    let size = opened.size.max(bytes.len() as u64);
    if bytes.len() as u64 > LARGEST {
        let kind = kind(&bytes);
        return Err(ToolError::failed(format!(
            "{path} is too large to read: {kind}, {size} bytes; at most {LARGEST} are"
        )));
    }
    if bytes.contains(&0) {
        return Err(not_text(path, kind(&bytes), size));
    }
    let text = String::from_utf8(bytes);
    Ok(TextFile {
        text: text.map_err(|error| not_text(path, kind(error.as_bytes()), size))?,
        path: opened.path,
        file: opened.file,
    })
}

fn not_text(path: &str, kind: &str, size: u64) -> ToolError {
    ToolError::failed(format!("{path} is not a text file: {kind}, {size} bytes"))
}

/// What a file seems to be, by its first bytes.
fn kind(bytes: &[u8]) -> &'static str {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\x89PNG\r\n", "PNG image"),
        (b"\xff\xd8\xff", "JPEG image"),
        (b"GIF8", "GIF image"),
        (b"%PDF-", "PDF document"),
        (b"PK\x03\x04", "ZIP archive"),
        (b"\x1f\x8b", "gzip archive"),
        (b"\x7fELF", "ELF program"),
        (b"SQLite format 3\0", "SQLite database"),
    ];
    let known = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic));
    match known {
        Some((_, kind)) => kind,
        None if std::str::from_utf8(&bytes[..bytes.len().min(1024)]).is_ok()
            && !bytes.contains(&0) =>
        {
            "text"
        }
        None => "binary data",
    }
}

fn show(text: &str, args: &Args, scrubber: &Scrubber) -> Result<String, ToolError> {
    if text.is_empty() {
        return Ok("The file is empty.".to_owned());
    }
    let first = args.offset.unwrap_or(1);
    let limit = args.limit.unwrap_or(LINES);
    let total = text.lines().count();
    if first > total {
        return Err(ToolError::new(
            ToolFault::InvalidArguments,
            format!("`offset` {first} is past the end: the file has {total} lines"),
        ));
    }
    let mut shown = String::new();
    let mut next = first;
    for (number, line) in text.lines().enumerate().skip(first - 1).take(limit) {
        if shown.len() + line.len().min(WIDEST) > ROOM {
            break;
        }
        let number = number + 1;
        next = number + 1;
        // Writing to a string cannot fail.
        let _ = writeln!(shown, "{number:>6}│{}", cap::line(line, scrubber));
    }
    let left = total.saturating_sub(next - 1);
    if left > 0 {
        let _ = writeln!(shown, "[{left} more lines; continue with `offset` {next}]");
    }
    Ok(shown)
}
