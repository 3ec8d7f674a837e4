//! Backups: verified copies of everything but secrets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, jobs::StartedJob, reply::*, scope::Scope::*, when::*};

pub const LIST_BACKUPS: Endpoint<Rows<BackupRow>> =
    get("/api/v1/backups", Admin, "Lists the backups that are kept where all go.").sorted(&[
        "-created_at",
        "file",
        "bytes",
    ]);

pub const MAKE_BACKUP: Endpoint<Accepted<StartedJob>, Empty, Empty, NewBackup> =
    post("/api/v1/backups", Admin, "Makes a backup, as a job that goes on after the answer.")
        .description(
            "It goes where all go, and replaces nothing there. One with a `name` stays until \
             it is deleted by hand; of those without, the newest seven stay.",
        )
        .refuses(&[409])
        .example(r#"{"name": "before-the-move"}"#);

/// A backup as answers show it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Backup")]
pub struct BackupRow {
    pub file: String,
    pub bytes: u64,
    pub created_at: Option<Moment>,
    /// It was made before something that had become a secret was taken out of the store, and may still hold it.
    pub holds_redacted: bool,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct NewBackup {
    /// 1 to 64 of `A-Z a-z 0-9 . _ -`, the first a letter or digit; not `hivewright-…`.
    #[schemars(length(min = 1, max = 64), regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$"))]
    pub name: Option<String>,
}
