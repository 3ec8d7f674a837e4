//! `hivewright changes`: what teams changed about themselves, and the way back.

use clap::{Args, Subcommand};

use crate::{
    api::{
        changes::*,
        endpoint::{ById, OfTeam},
    },
    cli::{
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, date},
    },
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
    List(OfTeam),
    /// Put back the text from before a change
    #[command(after_help = "Example:\n  hivewright changes rollback chg-61c8864680b583eb")]
    Rollback {
        /// The id of the change
        id: String,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action.unwrap_or(Action::List(OfTeam::default())) {
        Action::List(filter) => service.all(&LIST_CHANGES, &filter).await?.table(screen),
        Action::Rollback { id } => {
            let path = ById { id };
            let put_back = service.at(&ROLL_BACK_CHANGE, &path).await?;
            put_back.tell(screen, |_| format!("put back: {}", path.id))
        }
    }
}

columns!(ChangeRow {
    "ID" => |row| row.id.clone(),
    "TIME" => |row| date(&row.at),
    "TEAM" => |row| row.team.clone(),
    "FILE" => |row| row.file.clone(),
    "BACK" => |row| if row.rolled_back_at.is_some() { "yes" } else { "no" }.to_owned(),
    "REASON" => |row| row.reason.clone(),
});

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// TR-67, OP-84
    #[test]
    fn changes_are_listed_with_what_became_of_them() {
        let rows: Vec<ChangeRow> = serde_json::from_value(json!([{
            "id": "chg-1", "team": "news", "file": "team-rules/work.md", "reason": "not checked",
            "before": "a", "after": "b", "task_id": "task-1", "at": "2026-11-14T23:46:40.000Z",
            "rolled_back_by": null, "rolled_back_at": null,
        }]))
        .unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID     TIME                  TEAM  FILE                BACK  REASON\n\
             chg-1  2026-11-14 23:46 UTC  news  team-rules/work.md  no    not checked\n"
        );
    }
}
