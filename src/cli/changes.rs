//! `hivewright changes`: what teams changed about themselves, and the way back.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    approvals::safe,
    failure::Failure,
    service::{Service, data},
    table::{moment, table},
};

/// See what teams changed about themselves, and take it back
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright changes\n  \
    hivewright changes list --team news\n  \
    hivewright changes rollback chg-61c8864680b583eb")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
}

/// What to do with changes.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List changes, newest first
    #[command(after_help = "Example:\n  hivewright changes list --team news --json")]
    List {
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
    },
    /// Put back the text from before a change
    #[command(after_help = "Example:\n  hivewright changes rollback chg-61c8864680b583eb")]
    Rollback {
        /// Its id
        id: String,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action.unwrap_or(Action::List { team: None }) {
        Action::List { team } => {
            let team = team.map(|team| ("team", team));
            let answer = service.search("/api/v1/changes", team).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&listed(&answer)?);
        }
        Action::Rollback { id } => {
            let path = format!("/api/v1/changes/{}/rollback", safe(&id)?);
            let answer = service.post(&path, &json!({})).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.remark(&format!("put back: {id}"));
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    at: Option<String>,
    team: String,
    file: String,
    reason: String,
    rolled_back_at: Option<String>,
}

fn listed(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let back = match row.rolled_back_at {
            Some(_) => "yes",
            None => "no",
        };
        [
            row.id,
            row.at.as_deref().map(moment).unwrap_or_default(),
            row.team,
            row.file,
            back.to_owned(),
            row.reason.replace('\n', " "),
        ]
    });
    Ok(table(["ID", "TIME", "TEAM", "FILE", "BACK", "REASON"], rows))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// TR-67, OP-84
    #[test]
    fn changes_are_listed_with_what_became_of_them() {
        let answer = json!({"data": [{
            "id": "chg-1", "team": "news", "file": "team-rules/work.md", "reason": "not checked",
            "before": "a", "after": "b", "task_id": "task-1", "at": "2026-11-14T23:46:40.000Z",
            "rolled_back_by": null, "rolled_back_at": null,
        }]});

        assert_eq!(
            listed(&answer).unwrap(),
            "ID     TIME                  TEAM  FILE                BACK  REASON\n\
             chg-1  2026-11-14 23:46 UTC  news  team-rules/work.md  no    not checked\n"
        );
    }
}
