//! `hivewright inbox`: what the operator should know.

use clap::{Args, Subcommand};

use crate::{
    api::{
        endpoint::{ById, Empty},
        inbox::*,
    },
    cli::{
        answer::{Answer, Listing},
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, date},
        watch::Watched,
    },
};

/// See what happened that you should know
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright inbox\n  \
    hivewright inbox list --read\n  \
    hivewright inbox read n-61c8864680b583eb")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
}

/// What to do with notices.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List notices, newest first
    #[command(after_help = "Example:\n  hivewright inbox list --kind dead_task --json")]
    List {
        /// Also those that were read
        #[arg(long)]
        read: bool,
        #[command(flatten)]
        list: Watched<Listing<NoticeFilter>>,
    },
    /// Mark a notice as read, or all of them
    #[command(after_help = "Examples:\n  \
        hivewright inbox read n-61c8864680b583eb\n  \
        hivewright inbox read --all")]
    Read {
        /// The id of the notice
        #[arg(required_unless_present = "all")]
        id: Option<String>,
        /// All of them
        #[arg(long, conflicts_with = "id")]
        all: bool,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    let usual = || Action::List { read: false, list: Watched::default() };
    match arguments.action.unwrap_or_else(usual) {
        Action::List { read, mut list } => {
            list.list.filter.unread = !read;
            list.show(&LIST_NOTICES, context).await
        }
        Action::Read { id, all: _ } => {
            let what = match id {
                Some(id) => {
                    let path = ById { id };
                    service.at(&READ_NOTICE, &path).await?;
                    path.id
                }
                None => {
                    service.at(&READ_ALL_NOTICES, &Empty {}).await?;
                    "all".to_owned()
                }
            };
            Answer::naming("read", &what).tell(screen, |_| format!("read: {what}"))
        }
    }
}

columns!(NoticeRow {
    "ID" => |row| row.id.to_string(),
    "TIME" => |row| date(&row.last_at),
    "KIND" => |row| row.kind.to_string(),
    "TEAM" => |row| row.team.clone().unwrap_or_else(|| "-".to_owned()),
    "READ" => |row| if row.read { "yes" } else { "no" }.to_owned(),
    "TEXT" => |row| match row.count {
        1 => row.text.clone(),
        count => format!("{} ({count} times)", row.text),
    },
});

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// OP-39, OP-84
    #[test]
    fn notices_are_listed_with_their_count() {
        let rows: Vec<NoticeRow> = serde_json::from_value(json!([{
            "id": "n-1", "kind": "dead_task", "team": "main", "text": "given up", "count": 3,
            "links": [], "at": null, "last_at": "2026-11-14T23:46:40.000Z", "read": false,
        }]))
        .unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID   TIME                  KIND       TEAM  READ  TEXT\n\
             n-1  2026-11-14 23:46 UTC  dead_task  main  no    given up (3 times)\n"
        );
    }
}
