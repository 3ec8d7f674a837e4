//! `hivewright topics`: conversations of all channels.

use clap::{Args, Subcommand};

use crate::{
    api::{endpoint::ById, topics::*},
    cli::{
        answer::Listing,
        client::Service,
        context::Context,
        failure::Failure,
        prompt::confirm,
        table::{self, columns, date},
        watch::Watched,
    },
};

/// See, rename, pin, archive, reopen and delete conversations
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright topics list\n  \
    hivewright topics archive t-4c756a07e8af79c2\n  \
    hivewright chat --topic t-4c756a07e8af79c2")]
pub(super) enum Action {
    /// List conversations of all channels, newest first
    #[command(after_help = "Examples:\n  \
        hivewright topics list --state active\n  \
        hivewright topics list --query billing --json")]
    List(Watched<Listing<TopicFilter>>),
    /// Show a topic: its name, state, channel and session
    #[command(after_help = "Example:\n  hivewright topics show t-4c756a07e8af79c2")]
    Show(Which),
    /// Give a topic another name
    #[command(after_help = "Example:\n  hivewright topics rename t-4c756a07e8af79c2 billing")]
    Rename {
        #[command(flatten)]
        which: Which,
        /// The new name
        name: String,
    },
    /// Put a topic before the others in the lists of people; `--off` lets it stand among them again
    #[command(after_help = "Examples:\n  \
        hivewright topics pin t-4c756a07e8af79c2\n  \
        hivewright topics pin t-4c756a07e8af79c2 --off")]
    Pin {
        #[command(flatten)]
        which: Which,
        /// Let it stand among the others again
        #[arg(long)]
        off: bool,
    },
    /// Archive a topic: what runs in it is stopped, it takes no more messages, and what was said stays
    #[command(
        visible_alias = "close",
        after_help = "Example:\n  hivewright topics archive t-4c756a07e8af79c2"
    )]
    Archive(Which),
    /// Open a topic again that was archived, or left for long
    #[command(after_help = "Example:\n  hivewright topics reopen t-4c756a07e8af79c2")]
    Reopen(Which),
    /// Delete a topic for good, with its branches and what was said in them; other teams keep what they did for it
    #[command(aliases = ["remove", "rm"], after_help = "Example:\n  hivewright topics delete t-4c756a07e8af79c2 --yes")]
    Delete(Which),
}

// A doc comment here would become that of every command that has it.
#[derive(Debug, PartialEq, Args)]
pub(super) struct Which {
    /// The id of the topic
    id: String,
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let (service, screen) = (Service::find(context)?, context.screen);
    let none = TopicChange::default;
    let (Which { id }, change) = match action {
        Action::List(list) => return list.show(&LIST_TOPICS, context).await,
        Action::Show(Which { id }) => {
            return service.at(&SHOW_TOPIC, &ById { id }).await?.show(screen, |row| one(&row));
        }
        Action::Delete(Which { id }) => return delete(&service, ById { id }, context).await,
        Action::Rename { which, name } => (which, TopicChange { name: Some(name), ..none() }),
        Action::Pin { which, off } => (which, TopicChange { pinned: Some(!off), ..none() }),
        Action::Archive(which) => (which, TopicChange { state: Some(WantedState::Done), ..none() }),
        Action::Reopen(which) => {
            (which, TopicChange { state: Some(WantedState::Active), ..none() })
        }
    };
    let changed = service.send(&CHANGE_TOPIC, &ById { id }, &change).await?;
    changed.tell(screen, |row| format!("{} \"{}\" is {}", row.id, row.name, state(&row)))
}

async fn delete(service: &Service, path: ById, context: &Context) -> Result<(), Failure> {
    let found = service.at(&SHOW_TOPIC, &path).await?.data()?;
    let question = "Delete it for good, with its branches and all that was said in them?";
    confirm(context, &one(&found), question)?;
    let deleted = service.at(&DELETE_TOPIC, &path).await?;
    deleted.tell(context.screen, |_| format!("{} \"{}\" is deleted", found.id, found.name))
}

columns!(TopicRow {
    "ID" => |row| row.id.to_string(),
    "STATE" => state,
    "CHANNEL" => |row| row.channel_type.clone(),
    "LAST" => |row| date(&row.last_activity),
    "NAME" => |row| row.name.clone(),
});

fn state(row: &TopicRow) -> String {
    let word = if row.running { "running" } else { row.state.as_str() };
    let queued = (row.queued > 0).then(|| format!("{} waiting", row.queued));
    let pinned = row.pinned.then(|| "pinned".to_owned());
    [Some(word.to_owned()), queued, pinned].into_iter().flatten().collect::<Vec<_>>().join(", ")
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
        let row = |running: bool, queued: usize, pinned: bool| {
            json!({
                "id": "t-1", "channel_id": "ws:1", "channel_type": "cli", "name": "billing",
                "state": "active", "created_at": null, "last_activity": "2026-11-14T23:46:40.000Z",
                "queued": queued, "running": running, "session_id": "main:t-1", "pinned": pinned,
            })
        };
        let rows: Vec<TopicRow> =
            serde_json::from_value(json!([row(false, 0, true), row(true, 2, false)])).unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID   STATE               CHANNEL  LAST                  NAME\n\
             t-1  active, pinned      cli      2026-11-14 23:46 UTC  billing\n\
             t-1  running, 2 waiting  cli      2026-11-14 23:46 UTC  billing\n"
        );
        assert!(one(&rows[0]).contains("channel   ws:1 (cli)\n"));
    }
}
