//! `hivewright audit`: who did what to the service.

use clap::Args;

use crate::{
    api::audit::{AuditFilter, AuditRow, LIST_AUDIT},
    cli::{
        answer::Listing,
        context::Context,
        failure::Failure,
        table::{columns, date},
        watch::Watched,
    },
};

/// List who did what to the service, newest first
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright audit --since 24h\n  \
    hivewright audit --actor ci --action tasks.cancel\n  \
    hivewright audit --team ops --tool bash --decision deny")]
pub(super) struct Arguments {
    #[command(flatten)]
    list: Watched<Listing<AuditFilter>>,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    arguments.list.show(&LIST_AUDIT, context).await
}

columns!(AuditRow {
    "AT" => |row| date(&row.at),
    "WHO" => |row| row.actor.clone(),
    "WHAT" => |row| row.action.clone(),
    "OF" => object,
    "FROM" => |row| row.from.clone(),
    "OUTCOME" => outcome,
});

/// What something was done to: of a tool call, with the beginning of its arguments.
fn object(row: &AuditRow) -> String {
    match &row.call {
        Some(call) => format!("{} {}", row.target, call.arguments),
        None => row.target.clone(),
    }
}

fn outcome(row: &AuditRow) -> String {
    let Some(call) = &row.call else {
        return row.outcome.clone();
    };
    match &call.rule {
        Some(rule) => format!("{} by {rule}, {}", call.decision, row.outcome),
        None => format!("{}, {}", call.decision, row.outcome),
    }
}
