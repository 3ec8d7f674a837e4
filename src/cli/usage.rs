//! `hivewright usage`: what model calls have come to.

use clap::{Args, ValueEnum};
use serde::Deserialize;
use serde_json::Value;

use super::{
    Context,
    failure::Failure,
    service::{Service, data, given},
    table::table,
};

/// Show what model calls have come to, and what teams may spend
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright usage --by day --from 7d\n  \
    hivewright usage --by model --from 2026-01-01 --to 2026-01-31\n  \
    hivewright usage --budgets")]
pub(super) struct Arguments {
    /// What calls are told apart by
    #[arg(long, value_enum, default_value = "team")]
    by: Group,
    /// The first day, such as 2026-01-31, or so long ago, such as 7d
    #[arg(long, value_name = "DAY")]
    from: Option<String>,
    /// The last day
    #[arg(long, value_name = "DAY")]
    to: Option<String>,
    /// How many rows, 1 to 200
    #[arg(long, default_value_t = 50)]
    limit: u32,
    /// What each team may spend, and has spent today
    #[arg(long, conflicts_with_all = ["by", "from", "to"])]
    budgets: bool,
}

/// What calls can be told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    Team,
    Profile,
    Model,
    Day,
    Task,
}

impl Group {
    fn as_str(self) -> &'static str {
        match self {
            Self::Team => "team",
            Self::Profile => "profile",
            Self::Model => "model",
            Self::Day => "day",
            Self::Task => "task",
        }
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let limit = ("limit", Some(arguments.limit.to_string()));
    let answer = if arguments.budgets {
        let path = "/api/v1/usage/budgets";
        service.search(path, given([limit])).await?
    } else {
        let fields = [
            ("group", Some(arguments.by.as_str().to_owned())),
            ("from", arguments.from),
            ("to", arguments.to),
            limit,
        ];
        service.search("/api/v1/usage", given(fields)).await?
    };
    if context.screen.json {
        return context.screen.document(&answer);
    }
    let text = if arguments.budgets { budgets(&answer)? } else { calls(&answer, arguments.by)? };
    context.screen.write(&text);
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Calls {
    key: String,
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
    requests: u64,
    usd: f64,
    cached_share: f64,
}

fn calls(answer: &Value, by: Group) -> Result<String, Failure> {
    let rows = data::<Vec<Calls>>(answer)?.into_iter().map(|row| {
        [
            row.key,
            row.requests.to_string(),
            (row.input + row.cache_read + row.cache_write).to_string(),
            format!("{:.0} %", row.cached_share * 100.0),
            row.output.to_string(),
            format!("{:.4}", row.usd),
        ]
    });
    let key = by.as_str().to_uppercase();
    let heading = [&key, "CALLS", "READ", "CACHED", "WRITTEN", "USD"];
    Ok(table(heading, rows))
}

#[derive(Debug, Deserialize)]
struct Budget {
    team: String,
    caps: Caps,
    spent: Spent,
}

#[derive(Debug, Deserialize)]
struct Caps {
    usd_per_day: Option<f64>,
    tokens_per_day: Option<u64>,
    usd_per_task: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Spent {
    usd: f64,
    tokens: u64,
}

fn budgets(answer: &Value) -> Result<String, Failure> {
    let money = |cap: Option<f64>| cap.map_or("-".to_owned(), |cap| format!("{cap:.2}"));
    let rows = data::<Vec<Budget>>(answer)?.into_iter().map(|row| {
        [
            row.team,
            format!("{:.4}", row.spent.usd),
            money(row.caps.usd_per_day),
            row.spent.tokens.to_string(),
            row.caps.tokens_per_day.map_or("-".to_owned(), |cap| cap.to_string()),
            money(row.caps.usd_per_task),
        ]
    });
    let heading = ["TEAM", "USD TODAY", "OF", "TOKENS TODAY", "OF", "USD A TASK"];
    Ok(table(heading, rows))
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    /// OP-84, OP-124
    #[test]
    fn what_was_spent_and_may_be_is_shown_in_columns() {
        let spent = json!({"data": [
            {"key": "2026-11-14", "input": 100, "output": 20, "cache_read": 300, "cache_write": 0,
             "requests": 2, "usd": 0.01234, "cached_share": 0.75},
        ]});
        let capped = json!({"data": [
            {"team": "main", "caps": {"usd_per_day": 5.0, "tokens_per_day": null, "usd_per_task": 0.5},
             "spent": {"usd": 0.25, "tokens": 420}},
        ]});

        assert_eq!(
            calls(&spent, Group::Day).unwrap(),
            "DAY         CALLS  READ  CACHED  WRITTEN  USD\n\
             2026-11-14  2      400   75 %    20       0.0123\n"
        );
        assert_eq!(
            budgets(&capped).unwrap(),
            "TEAM  USD TODAY  OF    TOKENS TODAY  OF  USD A TASK\n\
             main  0.2500     5.00  420           -   0.50\n"
        );
    }
}
