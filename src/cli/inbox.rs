//! `hivewright inbox`: what the operator should know.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    approvals::safe,
    failure::Failure,
    service::{Service, data},
    table::{moment, table},
};

/// See what happened that you should know
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright inbox\n  \
    hivewright inbox list --all\n  \
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
        all: bool,
        /// Only of this kind, such as dead_task
        #[arg(long)]
        kind: Option<String>,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
    /// Mark a notice as read, or all of them
    #[command(after_help = "Examples:\n  \
        hivewright inbox read n-61c8864680b583eb\n  \
        hivewright inbox read --all")]
    Read {
        /// Its id
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
    let action = arguments.action.unwrap_or(Action::List { all: false, kind: None, limit: 50 });
    match action {
        Action::List { all, kind, limit } => {
            let fields = [
                ("unread", Some((!all).to_string())),
                ("kind", kind),
                ("limit", Some(limit.to_string())),
            ];
            let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let answer = service.search("/api/v1/inbox", fields).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&listed(&answer)?);
        }
        Action::Read { id, all: _ } => {
            let path = match &id {
                Some(id) => format!("/api/v1/inbox/{}/read", safe(id)?),
                None => "/api/v1/inbox/read-all".to_owned(),
            };
            service.act(Method::POST, &path).await?;
            let what = id.unwrap_or_else(|| "all".to_owned());
            if screen.json {
                return screen.document(&json!({"data": {"read": what}}));
            }
            screen.remark(&format!("read: {what}"));
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    kind: String,
    team: Option<String>,
    text: String,
    count: u64,
    last_at: Option<String>,
    read: bool,
}

fn listed(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let count = match row.count {
            1 => String::new(),
            count => format!(" ({count} times)"),
        };
        [
            row.id,
            row.last_at.as_deref().map(moment).unwrap_or_default(),
            row.kind,
            row.team.unwrap_or_else(|| "-".to_owned()),
            if row.read { "yes" } else { "no" }.to_owned(),
            format!("{}{count}", row.text.replace('\n', " ")),
        ]
    });
    Ok(table(["ID", "TIME", "KIND", "TEAM", "READ", "TEXT"], rows))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-39, OP-84
    #[test]
    fn notices_are_listed_with_their_count() {
        let answer = json!({"data": [{
            "id": "n-1", "kind": "dead_task", "team": "main", "text": "given up", "count": 3,
            "links": [], "at": null, "last_at": "2026-11-14T23:46:40.000Z", "read": false,
        }]});

        assert_eq!(
            listed(&answer).unwrap(),
            "ID   TIME                  KIND       TEAM  READ  TEXT\n\
             n-1  2026-11-14 23:46 UTC  dead_task  main  no    given up (3 times)\n"
        );
    }
}
