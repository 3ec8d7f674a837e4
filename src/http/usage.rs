//! `/api/v1/usage`: what model calls have come to.

use std::collections::{HashMap, HashSet};

use hivewright_actors::{
    blocking,
    budget::{Caps, Day, Tally, records as spending},
    clock::Timestamp,
    storage::{Storage, StorageError},
    store::records::digest,
};

use super::{State, call::*, error::*, listing, listing::Gathering, query::Page};
use crate::api::{endpoint::*, reply::*, usage::*, when::When};

fn row(key: String, tally: Tally) -> UsageRow {
    UsageRow { key, tally, cached_share: tally.cached_share() }
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, UsageFilter>,
) -> ApiResult<Rows<UsageRow>> {
    let UsageFilter { group, from, to } = query;
    let first = day(&state, "from", from)?.unwrap_or(0);
    let last = day(&state, "to", to)?.unwrap_or(u32::MAX);
    if group == UsageGroup::Task {
        // Whose a task was is not counted.
        caller.all_teams()?;
        let days = state.days.clone();
        let rows = state.read(move |storage| {
            let day_of = |at| days.day_of(at).number;
            of_tasks(storage, (first, last), &day_of, &page)
        });
        return rows.await;
    }
    let reaches = caller.reach();
    let tallies = state.read(move |storage| {
        let mut tallies: HashMap<String, Tally> = HashMap::new();
        spending::each_call(storage, first, last, &mut |day, caller, tally| {
            if !reaches(caller.team.as_str()) {
                return;
            }
            let key = match group {
                UsageGroup::Team => caller.team.to_string(),
                UsageGroup::Profile => caller.profile,
                UsageGroup::Model => caller.model,
                UsageGroup::Day | UsageGroup::Task => date(day),
            };
            *tallies.entry(key).or_default() += tally;
        })?;
        Ok(tallies)
    });
    let rows = tallies.await?.into_iter().map(|(key, tally)| row(key, tally));
    listing::page(rows, &page, |row| row.key.clone())
}

/// What each task has come to. There may be very many: of those that are not on the page, a number
/// each is held.
fn of_tasks(
    storage: &dyn Storage,
    days: (u32, u32),
    day_of: &dyn Fn(Timestamp) -> u32,
    page: &Page,
) -> Result<Rows<UsageRow>, StorageError> {
    let mut seen = HashSet::new();
    let mut gathering = Gathering::new(page);
    // What is known of a task on a later day is the whole of it, and comes first.
    spending::each_task_calls(storage, days, day_of, &mut |place, task, tally| {
        if seen.insert(digest(task.as_str())) {
            let value = match page.sort.field {
                "key" => task.as_str().into(),
                "requests" => tally.requests.into(),
                _ => tally.usd.into(),
            };
            gathering.see_by(value, &format!("{task}\0{place}"));
        }
    })?;
    gathering.rows(page, |id| {
        let Some((task, place)) = id.split_once('\0') else {
            return Ok(None);
        };
        let tally = spending::task_calls_at(storage, place, task)?;
        Ok(tally.map(|tally| row(task.to_owned(), tally)))
    })
}

fn date(number: u32) -> String {
    Day { number, ends_at: Timestamp::default() }.date()
}

/// A day: a date such as `2026-01-31`, or a moment that is in it.
fn day(state: &State, field: &str, text: Option<String>) -> ApiResult<Option<u32>> {
    let Some(text) = text else {
        return Ok(None);
    };
    // A moment has a date in it too, which is not that of the operator's time zone.
    let date =
        text.parse().ok().filter(|_| text.len() == 10).and_then(|date: jiff::civil::Date| {
            let year = u32::try_from(date.year()).ok()?;
            let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
            Some(year * 10_000 + u32::from(month) * 100 + u32::from(day))
        });
    let within = |moment: When| state.days.day_of(moment.from(state.now())).number;
    let day = date.or_else(|| text.parse().ok().map(within));
    day.map(Some).ok_or_else(|| {
        let reason = "expected a day such as 2026-01-31, or a time ago such as 7d";
        ApiError::invalid_field(field, reason)
    })
}

pub(super) async fn list_budgets(
    Call { state, caller, page, .. }: Call,
) -> ApiResult<Rows<BudgetRow>> {
    let files = state.clone();
    let budgets = blocking::run(move || {
        let (org, tree) = (files.org(), files.org().view.now());
        let budgets = tree.iter().map(|team| BudgetRow {
            team: team.name.clone(),
            caps: org.live.team_now(&team.name).map_or_else(|_| Caps::default(), |it| it.budgets),
            spent: (org.spent)(&team.name),
        });
        budgets.collect::<Vec<_>>()
    });
    let budgets = budgets.await?.into_iter();
    let reached = budgets.filter(|budget| caller.reaches(budget.team.as_str()));
    listing::page(reached, &page, |budget| budget.team.to_string())
}
