//! Files: what people attach to messages, and what teams send back.

use hivewright_actors::file::FileRef;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    endpoint::{Method::Get, *},
    reply::*,
    scope::Scope::*,
};

pub const UPLOAD_FILE: Endpoint<Created<FileRef>, Empty, NewFile> =
    post("/api/v1/files", Chat, "Takes in a file, for a message to name.")
        .description(
            "The body is the file, whatever its type; it is known by its first bytes, and kept \
             under a harmless name. `limits.file` bounds it, `limits.files` all of one person. \
             One that no message names within a day is removed.",
        )
        .refuses(&[408, 413])
        .streamed();

pub const DOWNLOAD_FILE: Endpoint<Content, ById> = Endpoint::new(
    Get,
    "/api/v1/files/{id}",
    Needs::Login,
    "Gives a file back, as a download.",
)
.description(
    "To whoever brought it, to whoever's channel it was said in, and to those who may read the \
     transcripts of its team. No type that a browser could run is ever named.",
);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NewFile {
    /// What it is called; only what stands behind the last slash counts.
    #[schemars(length(max = 4096))]
    pub name: Option<String>,
}
