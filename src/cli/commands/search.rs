//! `hivewright search`: what was said, done and answered, by its words.

use clap::Args;
use serde_json::Value;

use crate::{
    api::search::{SEARCH_HISTORY, SearchFilter, SearchHit},
    cli::{
        answer::Listing,
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, date},
    },
};

/// Find what was said, done and answered, newest first
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright search invoice\n  \
    hivewright search 'invoice \"of May\" pay*' --team billing --since 30d\n\n\
    `hivewright tasks show` shows a task whole, `hivewright history show SESSION --full --before EVENT` what led to a step.")]
pub(super) struct Arguments {
    #[command(flatten)]
    list: Listing<SearchFilter>,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let found = Service::find(context)?.list(&SEARCH_HISTORY, &arguments.list).await?;
    found.table(screen)?;
    if found.document["incomplete"] == Value::Bool(true) {
        screen.remark("what was said last could not be searched yet; try again in a moment");
    }
    Ok(())
}

columns!(SearchHit {
    "WHERE" => place,
    "AT" => |row| date(&row.at),
    "TEAM" => |row| row.team.to_string(),
    "WHAT" => |row| row.part.to_string(),
    "WORDS" => |row| row.excerpt.clone(),
});

/// What `tasks show` or `history show` take.
fn place(row: &SearchHit) -> String {
    match (&row.session_id, row.seq, &row.task_id) {
        (Some(session), Some(seq), _) => format!("{session} {seq}"),
        (_, _, Some(task)) => task.to_string(),
        (session, ..) => session.clone().unwrap_or_default(),
    }
}
