//! Inbox: what the operator should know, until it was read.

use clap::Args;
use hivewright_actors::{ids::NoticeId, notice::NoticeKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*};

pub const LIST_NOTICES: Endpoint<Rows<NoticeRow>, Empty, NoticeFilter> =
    get("/api/v1/inbox", Operate, "Lists notices: what the operator should know.")
        .description("Equal notices within ten minutes are one row.")
        .sorted(&["-last_at", "at"]);

pub const READ_ALL_NOTICES: Endpoint<Done> =
    post("/api/v1/inbox/read-all", Operate, "Marks all notices as read.");

pub const READ_NOTICE: Endpoint<Done, ById> =
    post("/api/v1/inbox/{id}/read", Operate, "Marks a notice as read.");

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct NoticeFilter {
    /// Only those not read yet.
    #[arg(skip)]
    pub unread: bool,
    /// Only of this kind.
    #[arg(long, value_parser = words::<NoticeKind>())]
    pub kind: Option<NoticeKind>,
}

/// Equal notices of ten minutes, as answers show them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Notice")]
pub struct NoticeRow {
    pub id: NoticeId,
    pub kind: NoticeKind,
    pub team: Option<String>,
    pub text: String,
    /// How often it was said.
    pub count: usize,
    /// Ids of tasks, runs, triggers and approvals that it is about.
    pub links: Vec<String>,
    pub at: Option<String>,
    pub last_at: Option<String>,
    pub read: bool,
}
