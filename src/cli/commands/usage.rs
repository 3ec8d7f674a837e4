//! `hivewright usage`: what model calls have come to.

use clap::Args;

use crate::{
    api::{
        endpoint::{Empty, pairs},
        usage::{
            BudgetRow, EXPORT_USAGE, LIST_BUDGETS, LIST_USAGE, UsageFilter, UsageGroup, UsageRow,
        },
    },
    cli::{
        answer::Listing,
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, table},
    },
};

/// Show what model calls have come to, and what teams may spend
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright usage --by day --from 7d\n  \
    hivewright usage --by model --from 2026-01-01 --to 2026-01-31\n  \
    hivewright usage --by task --csv > usage.csv\n  \
    hivewright usage --budgets")]
pub(super) struct Arguments {
    #[command(flatten)]
    list: Listing<UsageFilter>,
    /// What each team may spend, and has spent today
    #[arg(long, conflicts_with_all = ["group", "from", "to"])]
    budgets: bool,
    /// All rows, for a spreadsheet
    #[arg(long, conflicts_with_all = ["budgets", "limit", "all"])]
    csv: bool,
}

pub(super) async fn run(
    Arguments { list, budgets, csv }: Arguments,
    context: &Context,
) -> Result<(), Failure> {
    let (service, screen) = (Service::find(context)?, context.screen);
    if budgets {
        return service
            .limited(&LIST_BUDGETS, &Empty {}, &Empty {}, &list.limit)
            .await?
            .table(screen);
    }
    if csv {
        return service
            .pass_on(EXPORT_USAGE.path, pairs(&list.filter), |chunk| Ok(screen.put(chunk)))
            .await;
    }
    service.list(&LIST_USAGE, &list).await?.list(screen, |rows| by_group(rows, list.filter.group))
}

/// The first column is what calls are told apart by.
fn by_group(rows: Vec<UsageRow>, group: UsageGroup) -> String {
    let cells = rows.into_iter().map(|UsageRow { key, tally, cached_share }| {
        [
            key,
            tally.requests.to_string(),
            (tally.input + tally.cache_read + tally.cache_write).to_string(),
            format!("{:.0} %", cached_share * 100.0),
            tally.output.to_string(),
            format!("{:.4}", tally.usd),
        ]
    });
    table([&group.as_str().to_uppercase(), "CALLS", "TOKENS IN", "CACHED", "OUT", "USD"], cells)
}

columns!(BudgetRow {
    "TEAM" => |row| row.team.to_string(),
    "USD TODAY" => |row| format!("{:.4}", row.spent.usd),
    "OF" => |row| money(row.caps.usd_per_day),
    "TOKENS TODAY" => |row| row.spent.tokens.to_string(),
    "OF" => |row| row.caps.tokens_per_day.map_or("-".to_owned(), |cap| cap.to_string()),
    "USD A TASK" => |row| money(row.caps.usd_per_task),
});

fn money(cap: Option<f64>) -> String {
    cap.map_or("-".to_owned(), |cap| format!("{cap:.2}"))
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// OP-84, OP-124
    #[test]
    fn what_was_spent_and_may_be_is_shown_in_columns() {
        let spent = json!([
            {"key": "2026-11-14", "input": 100, "output": 20, "cache_read": 300, "cache_write": 0,
             "requests": 2, "usd": 0.01234, "cached_share": 0.75},
        ]);
        let capped = json!([
            {"team": "main", "caps": {"usd_per_day": 5.0, "tokens_per_day": null, "usd_per_task": 0.5},
             "spent": {"usd": 0.25, "tokens": 420}},
        ]);

        let spent = serde_json::from_value(spent).unwrap();
        let capped: Vec<BudgetRow> = serde_json::from_value(capped).unwrap();

        assert_eq!(
            by_group(spent, UsageGroup::Day),
            "DAY         CALLS  TOKENS IN  CACHED  OUT  USD\n\
             2026-11-14  2      400        75 %    20   0.0123\n"
        );
        assert_eq!(
            table::rows(&capped),
            "TEAM  USD TODAY  OF    TOKENS TODAY  OF  USD A TASK\n\
             main  0.2500     5.00  420           -   0.50\n"
        );
    }
}
