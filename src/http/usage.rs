//! `/api/v1/usage`: what model calls have come to.

use std::collections::{HashMap, HashSet};

use actix_web::web;
use hivewright_actors::{
    budget::{Caps, Day, Spent, Tally, records as spending},
    clock::Timestamp,
    ids::TeamName,
    storage::{Storage, StorageError},
    store::records::digest,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    State,
    arguments::{Caller, Read},
    error::ApiError,
    listing::{self, Gathering},
    operation::{Field, Operation, words},
    query::{Page, Query},
    reply::Rows,
    routes::{Resource, at},
    teams::parts,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/usage").get(
            Operation::new("Says what model calls have come to.")
                .description("The most expensive come first, days in their order.")
                .query(
                    const {
                        &[
                            Field::word(
                                "group",
                                || words(&GROUPS),
                                "What calls are told apart by; `team` if it is not given.",
                            ),
                            Field::text(
                                "from",
                                "The first day, such as `2026-01-31`, or `7d` ago.",
                            ),
                            Field::text("to", "The last day."),
                        ]
                    },
                )
                .pages(&["-usd", "key", "requests"]),
            list,
        ),
        at("/api/v1/usage/budgets").get(
            Operation::new("Lists what teams may spend, and have spent today.").pages(&["team"]),
            list_budgets,
        ),
    ]
}

/// What calls are told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    Team,
    Profile,
    Model,
    Day,
    Task,
}

const GROUPS: [(&str, Group); 5] = [
    ("team", Group::Team),
    ("profile", Group::Profile),
    ("model", Group::Model),
    ("day", Group::Day),
    ("task", Group::Task),
];

/// What calls of one kind have come to.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Usage")]
struct Row {
    /// The name of a team, a profile, a model or a task, or a day.
    key: String,
    /// Tokens read by the model, cached ones not counted.
    input: u64,
    /// Tokens written by the model.
    output: u64,
    cache_read: u64,
    cache_write: u64,
    /// How many calls.
    requests: u64,
    /// As far as prices are known.
    usd: f64,
    /// Which part of what was read came from the cache.
    cached_share: f64,
}

impl Row {
    fn new(key: String, tally: Tally) -> Self {
        Self {
            key,
            input: tally.input,
            output: tally.output,
            cache_read: tally.cache_read,
            cache_write: tally.cache_write,
            requests: tally.requests,
            usd: tally.usd,
            cached_share: tally.cached_share(),
        }
    }
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let query = &caller.query;
    let group = query.word("group", &GROUPS).unwrap_or(Group::Team);
    let page = match group {
        Group::Day => query.page_by("key")?,
        _ => query.page()?,
    };
    let now = state.access.auth.now();
    let first = day(&state, query, "from", now)?.unwrap_or(0);
    let last = day(&state, query, "to", now)?.unwrap_or(u32::MAX);
    // Whose a task was is not counted.
    if group == Group::Task {
        caller.all_teams()?;
    }
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    if group == Group::Task {
        let days = state.days.clone();
        let rows = state.spine.store.read(move |storage| {
            let day_of = |at| days.day_of(at).number;
            of_tasks(storage, (first, last), &day_of, &page)
        });
        return rows.await.map_err(ApiError::internal);
    }
    let tallies = state.spine.store.read(move |storage| {
        let mut tallies: HashMap<String, Tally> = HashMap::new();
        spending::each_call(storage, first, last, &mut |day, caller, tally| {
            let is = |name: &String| caller.team.as_str() == name;
            if !teams.as_ref().is_none_or(|teams| teams.iter().any(is)) {
                return;
            }
            let key = match group {
                Group::Team => caller.team.to_string(),
                Group::Profile => caller.profile,
                Group::Model => caller.model,
                Group::Day | Group::Task => date(day),
            };
            *tallies.entry(key).or_default() += tally;
        })?;
        Ok(tallies)
    });
    let tallies = tallies.await.map_err(ApiError::internal)?;
    let rows = tallies.into_iter().map(|(key, tally)| Row::new(key, tally));
    listing::page(rows, &page, |row| row.key.clone())
}

/// What each task has come to. There may be very many: of those that are not on the page, a number
/// each is held.
fn of_tasks(
    storage: &dyn Storage,
    days: (u32, u32),
    day_of: &dyn Fn(Timestamp) -> u32,
    page: &Page,
) -> Result<Rows<Row>, StorageError> {
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
        Ok(tally.map(|tally| Row::new(task.to_owned(), tally)))
    })
}

fn date(number: u32) -> String {
    let day = Day { number, ends_at: Timestamp::default() };
    day.date()
}

/// A day: a date such as `2026-01-31`, or a moment that is in it.
fn day(state: &State, query: &Query, name: &str, now: Timestamp) -> Result<Option<u32>, ApiError> {
    let date = query.text(name).and_then(|text| {
        let date: jiff::civil::Date = text.parse().ok()?;
        let year = u32::try_from(date.year()).ok()?;
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        Some(year * 10_000 + u32::from(month) * 100 + u32::from(day))
    });
    // A moment has a date in it too, which is not that of the operator's time zone.
    match date.filter(|_| query.text(name).is_some_and(|text| text.len() == 10)) {
        Some(date) => Ok(Some(date)),
        None => {
            let moment = query.moment(name, now);
            if moment.is_none() && query.text(name).is_some() {
                let reason = "expected a day such as 2026-01-31, or a time ago such as 7d";
                return Err(ApiError::invalid_field(name, reason));
            }
            Ok(moment.map(|moment| state.days.day_of(moment).number))
        }
    }
}

/// What a team may spend, and has.
#[derive(Serialize, JsonSchema)]
struct Budget {
    team: TeamName,
    caps: Caps,
    /// By it and all teams below it, today.
    spent: Spent,
}

async fn list_budgets(
    state: web::Data<State>,
    caller: Caller<Read>,
) -> Result<Rows<Budget>, ApiError> {
    let page = caller.query.page()?;
    let files = state.clone();
    let read = tokio::task::spawn_blocking(move || {
        let parts = parts(&files);
        let tree = parts.view.now();
        let budgets = tree.iter().map(|team| Budget {
            team: team.name.clone(),
            caps: match parts.live.team_now(&team.name) {
                Ok(file) => file.budgets,
                Err(_) => Caps::default(),
            },
            spent: (parts.spent)(&team.name),
        });
        budgets.collect::<Vec<_>>()
    });
    let mut budgets = read.await.map_err(ApiError::internal)?;
    budgets.retain(|budget| caller.reaches(budget.team.as_str()));
    listing::page(budgets, &page, |budget| budget.team.to_string())
}
