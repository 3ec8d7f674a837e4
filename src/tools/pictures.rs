//! Pictures that calls answer with: kept as files of the conversation, for models that see and for the person.

use hivewright_actors::file::{MOST_FILES, is_picture};

use super::{contract::ToolContext, send_file};
use crate::{
    files::{FileStore, sniff},
    mcp::result::Answer,
};

/// An answer of a program outside as text. Its images are shown.
pub(super) async fn told(files: &FileStore, cx: &ToolContext, answer: Answer) -> String {
    let Answer { text, images, .. } = answer;
    let named = |bytes: Vec<u8>| {
        let kind = mime(&bytes).trim_start_matches("image/");
        (format!("picture.{kind}"), bytes)
    };
    let images: Vec<_> = images.into_iter().map(named).collect();
    let lines = show(files, cx, &images).await;
    std::iter::once(text).chain(lines).collect::<Vec<_>>().join("\n")
}

/// Shows pictures, each with a name. Returns what is to be said of them.
pub(super) async fn show(
    files: &FileStore,
    cx: &ToolContext,
    pictures: &[(String, Vec<u8>)],
) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen = 0;
    for (name, bytes) in pictures.iter().take(MOST_FILES) {
        if !is_picture(mime(bytes)) {
            lines.push("A picture is of no kind that can be shown.".to_owned());
            continue;
        }
        match send_file::keep(files, cx, name, bytes, cx.label).await {
            Ok(file) => {
                seen += 1;
                if cx.caller.source.is_some() {
                    cx.give(file.clone());
                }
                cx.show(file);
            }
            Err(error) => lines.push(format!("A picture cannot be shown: {}.", error.message)),
        }
    }
    if let more @ 1.. = pictures.len().saturating_sub(MOST_FILES) {
        lines.push(format!("{more} more pictures are not shown."));
    }
    if seen > 0 && cx.caller.source.is_some() {
        lines.push(format!("The person sees {}.", if seen == 1 { "it" } else { "them" }));
    }
    lines
}

fn mime(bytes: &[u8]) -> &'static str {
    sniff::mime(&bytes[..bytes.len().min(sniff::HEAD)])
}
