//! Log: its lines become a file beside the report, if they are wanted.

use serde_json::{Value, json};

use super::{
    plan::{Artifact, BEFORE, Planner},
    redact::Redactor,
    report::{Item, Kind},
    schema::LogRow,
};

const NAME: &str = "log_entries";

pub(super) fn plan(planner: &mut Planner<'_>) {
    let tables = &planner.found.tables;
    if let Some(last) = tables.log.last() {
        let mark = last.mark();
        let item = if planner.target.has(&mark) {
            Item::left(Kind::Log, NAME, BEFORE)
        } else {
            let lines = tables.log.iter().map(|row| line(row, &planner.redactor)).collect();
            planner.make(Kind::Log, None, mark, Artifact::Log(lines));
            Item::taken(Kind::Log, NAME, &["written to a file beside the report".to_owned()])
        };
        planner.report(item.times(tables.log.len() as u64));
    } else if tables.log_count > 0 && !planner.options.with_logs {
        let item = Item::left(Kind::Log, NAME, "taken with `--with-logs`");
        planner.report(item.times(tables.log_count));
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
