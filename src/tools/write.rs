//! `write`: a whole file.

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    about::About,
    contract::{Tool, ToolContext},
    error::ToolError,
    provenance::Scope,
    reach::Reach,
};

/// The most that can be written at once, in bytes.
const LARGEST: usize = 1 << 20;

pub(super) struct Write;

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The file, absolute or relative to the workspace. Its folders are made if need be.
    file_path: String,
    /// The whole new content, at most 1 MiB.
    content: String,
}

impl Tool for Write {
    const ABOUT: About = About::new("write", "@files", "file.write", Effect::Idempotent)
        .unbounded()
        .exclusive()
        .paths(&["file_path"])
        .refuses_secrets();
    const DESCRIPTION: &'static str = "Writes a whole file, replacing what was there. Makes missing folders. \
        To change a part of a file use `edit`.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        vec![Reach::Write(args.file_path.clone())]
    }

    fn accept(args: &Args) -> Result<(), String> {
        match args.content.len() {
            0..=LARGEST => Ok(()),
            size => Err(format!("`content`: {size} bytes; at most {LARGEST} are allowed")),
        }
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let path = args.file_path.clone();
        let written = cx.change(Self::ABOUT.name, &path, Scope::Whole, move |cx| {
            let Args { file_path, content } = args;
            let written = cx.write(&file_path, content.as_bytes())?;
            Ok((format!("Wrote {} bytes to {file_path}", content.len()), Some(written)))
        });
        written.await
    }
}
