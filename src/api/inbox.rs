//! Inbox: what the operator should know, until it was read.

use clap::Args;
use hivewright_actors::{
    ids::NoticeId,
    notice::{Gathered, NoticeKind},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};

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

row! {
    /// Equal notices of ten minutes, as answers show them.
    #[schemars(rename = "Notice")]
    pub struct NoticeRow from gathered: Gathered {
        pub id: NoticeId = gathered.first.id,
        pub kind: NoticeKind = gathered.first.kind,
        pub team: Option<String> = gathered.first.team.map(|team| team.to_string()),
        pub text: String = gathered.first.text,
        /// How often it was said.
        pub count: usize = gathered.ids.len(),
        /// Ids of tasks, runs, triggers and approvals that it is about.
        pub links: Vec<String> = gathered.first.refs,
        pub at: Option<Moment> = date(gathered.first.at),
        pub last_at: Option<Moment> = date(gathered.last_at),
        pub read: bool = gathered.read,
    }
}
