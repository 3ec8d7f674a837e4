//! `hivewright topics`: conversations of all channels.

use clap::Subcommand;

use super::{
    Context,
    answer::Listing,
    failure::Failure,
    service::Service,
    table::{self, columns, date},
};
use crate::api::{
    endpoint::{ById, Empty},
    topics::{
        CHANGE_TOPIC, LIST_TOPICS, SHOW_TOPIC, TopicChange, TopicFilter, TopicRow, WantedState,
    },
};

/// See, rename, close and reopen conversations
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright topics list\n  \
    hivewright topics close t-4c756a07e8af79c2\n  \
    hivewright chat --topic t-4c756a07e8af79c2")]
pub(super) enum Action {
    /// List conversations of all channels, newest first
    #[command(after_help = "Examples:\n  \
        hivewright topics list --state active\n  \
        hivewright topics list --words billing --json")]
    List(Listing<TopicFilter>),
    /// Show one
    #[command(after_help = "Example:\n  hivewright topics show t-4c756a07e8af79c2")]
    Show {
        /// Its id
        id: String,
    },
    /// Give one another name
    #[command(after_help = "Example:\n  hivewright topics rename t-4c756a07e8af79c2 billing")]
    Rename {
        /// Its id
        id: String,
        /// The new name
        name: String,
    },
    /// Close one: it takes no more messages, and what was said stays
    #[command(after_help = "Example:\n  hivewright topics close t-4c756a07e8af79c2")]
    Close {
        /// Its id
        id: String,
    },
    /// Open one again that was closed
    #[command(after_help = "Example:\n  hivewright topics reopen t-4c756a07e8af79c2")]
    Reopen {
        /// Its id
        id: String,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let (service, screen) = (Service::find(context)?, context.screen);
    let (id, change) = match action {
        Action::List(list) => return service.list(&LIST_TOPICS, &list).await?.table(screen),
        Action::Show { id } => {
            return service.at(&SHOW_TOPIC, &ById { id }).await?.show(screen, |row| one(&row));
        }
        Action::Rename { id, name } => (id, TopicChange { name: Some(name), state: None }),
        Action::Close { id } => (id, TopicChange { name: None, state: Some(WantedState::Done) }),
        Action::Reopen { id } => (id, TopicChange { name: None, state: Some(WantedState::Active) }),
    };
    let changed = service.call(&CHANGE_TOPIC, &ById { id }, &Empty {}, &change).await?;
    changed.tell(screen, |row| format!("{} \"{}\" is {}", row.id, row.name, row.state))
}

columns!(TopicRow {
    "ID" => |row| row.id.to_string(),
    "STATE" => state,
    "CHANNEL" => |row| row.channel_type.clone(),
    "LAST" => |row| date(&row.last_activity),
    "NAME" => |row| row.name.clone(),
});

fn state(row: &TopicRow) -> String {
    match (row.running, row.queued) {
        (false, 0) => row.state.to_string(),
        (false, queued) => format!("{}, {queued} waiting", row.state),
        (true, 0) => "running".to_owned(),
        (true, queued) => format!("running, {queued} waiting"),
    }
}

fn one(row: &TopicRow) -> String {
    table::fields(
        10,
        [
            ("id", row.id.to_string()),
            ("name", row.name.clone()),
            ("state", state(row)),
            ("channel", format!("{} ({})", row.channel_id, row.channel_type)),
            ("begun", date(&row.created_at)),
            ("last", date(&row.last_activity)),
            ("session", row.session_id.clone()),
        ],
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// OP-84
    #[test]
    fn topics_are_listed_with_what_goes_on_in_them() {
        let row = |running: bool, queued: usize| {
            json!({
                "id": "t-1", "channel_id": "ws:1", "channel_type": "cli", "name": "billing",
                "state": "active", "created_at": null, "last_activity": "2026-11-14T23:46:40.000Z",
                "queued": queued, "running": running, "session_id": "main:t-1",
            })
        };
        let rows: Vec<TopicRow> =
            serde_json::from_value(json!([row(false, 0), row(true, 2)])).unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID   STATE               CHANNEL  LAST                  NAME\n\
             t-1  active              cli      2026-11-14 23:46 UTC  billing\n\
             t-1  running, 2 waiting  cli      2026-11-14 23:46 UTC  billing\n"
        );
        assert!(one(&rows[0]).contains("channel   ws:1 (cli)\n"));
    }
}
