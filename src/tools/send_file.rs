//! `send_file`: a file of the workspace, for the person.

use std::{fs::File, io::Read as _, path::Path};

use hivewright_actors::{
    file::{FileRef, records::FileRow},
    task::{Label, Source},
    tool::{Effect, ToolFault},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    about::About,
    contract::{Tool, ToolContext},
    error::ToolError,
    made::tools,
    reach::Reach,
};
use crate::{
    files::{FileError, FileStore},
    taint::seen::Seen,
};

tools! {
    pub fn made(files: &FileStore) {
        SendFile(files.clone()),
    }
}

pub(super) struct SendFile(FileStore);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// The file, absolute or relative to the workspace.
    file_path: String,
    /// What it is called for the person. Left out: as it is.
    #[schemars(length(max = 200))]
    name: Option<String>,
}

/// A file that was read.
struct Content {
    bytes: Vec<u8>,
    label: Label,
}

impl Tool for SendFile {
    const ABOUT: About = About::new("send_file", "@files", "file.read", Effect::Idempotent)
        .unbounded()
        .paths(&["file_path"]);
    const DESCRIPTION: &'static str = "Gives a file of the workspace to the person you work for: pictures are \
        shown, all files can be downloaded. Make the file first, then send it once.";
    type Args = Args;

    fn reaches(args: &Args) -> Vec<Reach> {
        vec![Reach::Read(args.file_path.clone())]
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        if cx.caller.source.is_none() {
            let reason =
                "nobody waits for this work in a conversation, so there is nobody to send it to";
            return Err(ToolError::new(ToolFault::Conflict, reason));
        }
        let Args { file_path, name } = args;
        let name = name.unwrap_or_else(|| file_path.clone());
        let most = self.0.largest();
        let Content { bytes, label } = cx.blocking(move |cx| read(cx, &file_path, most)).await?;
        let file = keep(&self.0, cx, &name, &bytes, label).await?;
        let FileRef { name, mime, size, .. } = &file;
        let told = format!("Sent {name} ({mime}, {size} bytes).");
        cx.give(file);
        Ok(told)
    }
}

/// Keeps a file of the conversation with these bytes, for whoever is to have it.
pub(super) async fn keep(
    files: &FileStore,
    cx: &ToolContext,
    name: &str,
    bytes: &[u8],
    label: Label,
) -> Result<FileRef, ToolError> {
    let row = files.blank(name);
    let row = FileRow { team: Some(cx.grant.team.clone()), ..row };
    let mut incoming = files.begin(&row.account(), Some(bytes.len() as u64)).await?;
    incoming.write(bytes).await?;
    let (label, at, team) = (label.max(cx.label), row.at, cx.grant.team.clone());
    let row = match &cx.caller.source {
        Some(Source { channel, .. }) => row.named(channel, &team, label, at),
        None => FileRow { label, ..row },
    };
    Ok(files.keep(incoming, row).await?.file)
}

impl From<FileError> for ToolError {
    fn from(error: FileError) -> Self {
        if let FileError::Io(_) | FileError::Store(_) | FileError::Storage(_) = &error {
            tracing::error!(%error, "a file that a team sends cannot be kept; the call fails");
            return Self::failed("the file cannot be kept now; try again later");
        }
        Self::new(ToolFault::Conflict, error.to_string())
    }
}

/// The whole of a file that a person may be given. Blocks.
fn read(cx: &ToolContext, path: &str, most: u64) -> Result<Content, ToolError> {
    let opened = cx.grant.workspace.open_file(path, &|place| cx.admit(place))?;
    let mut bytes = Vec::new();
    (&opened.file)
        // One byte more than allowed tells a file that is too large.
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ToolError::failed(format!("{path} cannot be read: {error}")))?;
    if bytes.len() as u64 > most {
        return Err(FileError::TooLarge(most).into());
    }
    let secrets = cx.grant.secrets.of(&cx.grant.team);
    // What only looks like a credential is a file's own matter.
    if secrets.knows(&String::from_utf8_lossy(&bytes)) {
        let reason = format!("{path} holds the value of a secret; it is not sent");
        return Err(ToolError::new(ToolFault::SecretNotAllowed, reason));
    }
    let label = label(cx, &opened.path, &opened.file);
    Ok(Content { bytes, label })
}

fn label(cx: &ToolContext, place: &Path, file: &File) -> Label {
    let taint = &cx.grant.taint;
    let is_held = Seen::of(file).is_ok_and(|seen| taint.holds(place, &seen));
    if is_held { Label::Untrusted } else { Label::Trusted }
}
