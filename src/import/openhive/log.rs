//! Log: its lines become a file beside the report, if they are wanted.

use serde_json::{Value, json};

use super::{
    plan::{Artifact, BEFORE, Planner},
    redact::Redactor,
    report::{Item, Kind},
    schema::row,
};

pub(super) const KIND: Kind = Kind::listed("log");

row! {
    /// A line of the log.
    LogRow in "log_entries" by "id" known by id on request {
        id: i64,
        level: String,
        message: String,
        context: Option<String>,
        duration_ms: Option<i64> = "NULL",
        created_at: String,
    }
}

const NAME: &str = "log_entries";

pub(super) fn plan(planner: &mut Planner<'_>) {
    let tables = &planner.found.tables;
    let rows = tables.of::<LogRow>();
    if let Some(last) = rows.last() {
        let mark = last.mark();
        let item = if planner.target.has(&mark) {
            Item::left(KIND, NAME, BEFORE)
        } else {
            let lines = rows.iter().map(|row| line(row, &planner.redactor)).collect();
            planner.make(KIND, None, mark, Artifact::Log(lines));
            Item::taken(KIND, NAME, &["written to a file beside the report".to_owned()])
        };
        planner.report(item.times(rows.len() as u64));
    } else if let Some(count) = tables.unread(NAME) {
        let item = Item::left(KIND, NAME, "taken with `--with-logs`");
        planner.report(item.times(count));
    }
}

/// A line of JSON without secrets.
fn line(row: &LogRow, redactor: &Redactor) -> String {
    let clean = |text: &String| {
        let mut text = text.clone();
        redactor.clean(&mut text, &mut Vec::new());
        text
    };
    let context = row.context.as_ref().map(|context| {
        let context = clean(context);
        serde_json::from_str(&context).unwrap_or(Value::String(context))
    });
    let line = json!({
        "id": row.id,
        "at": row.created_at,
        "level": row.level,
        "message": clean(&row.message),
        "context": context,
        "duration_ms": row.duration_ms,
    });
    format!("{line}\n")
}
