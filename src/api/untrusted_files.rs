//! Untrusted files: what untrusted turns of a team wrote, and accepting it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, when::*};
use crate::taint::label::{Extent, UntrustedFile};

pub const LIST_UNTRUSTED_FILES: Endpoint<Rows<UntrustedFileRow>, ByName> = get(
    "/api/v1/teams/{name}/untrusted-files",
    Read,
    "Lists files that untrusted turns of a team wrote or changed.",
)
.description("A turn that reads one is untrusted from then on.")
.sorted(&["path", "-at"])
.scrubbed();

pub const ACCEPT_FILES: Endpoint<Data<AcceptedFiles>, ByName, Empty, AcceptFiles> =
    post("/api/v1/teams/{name}/untrusted-files/accept", Operate, "Accepts files as they are now.")
        .description(
            "By the `id` of each, which names one state of the file: one that was changed \
             since is refused, and none is accepted.",
        )
        .refuses(&[409])
        .example(r#"{"ids": ["0123456789abcdef"]}"#)
        .scrubbed();

row! {
    /// A label as answers show it.
    #[schemars(rename = "UntrustedFile")]
    pub struct UntrustedFileRow from (label, path): (&UntrustedFile, String) {
        /// Names this state of the file.
        pub id: String = label.id(),
        /// From the folder of the team, or absolute if it is elsewhere.
        pub path: String = path,
        /// Whether it is about a file or all that is below.
        pub extent: Extent = label.extent,
        pub task_id: String = label.task.to_string(),
        pub tool: String = label.tool.clone(),
        pub at: Option<Moment> = date(label.at),
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AcceptFiles {
    /// Labels by their `id`.
    pub ids: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct AcceptedFiles {
    /// The paths that count as trusted from now on.
    pub accepted: Vec<String>,
}
