//! `/api/v1/usage`: what model calls have come to.

use std::collections::HashMap;

use actix_web::{HttpRequest, HttpResponse, Resource, web};
use hivewright_actors::{
    budget::{Caps, Day, Spent, Tally},
    clock::Timestamp,
    ids::TeamName,
    store::reads,
};
use serde::Serialize;

use super::{
    State,
    approvals::choice,
    auth::scope::Scope,
    error::ApiError,
    json,
    query::Query,
    routes::{self, Methods},
    teams::parts,
};

pub(super) fn resource() -> Resource {
    routes::resource("/api/v1/usage", Methods::new().get(list))
}

pub(super) fn budgets() -> Resource {
    routes::resource("/api/v1/usage/budgets", Methods::new().get(list_budgets))
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
#[derive(Debug, Serialize)]
struct Row {
    key: String,
    #[serde(flatten)]
    tally: Tally,
    /// Which part of what was read came from the cache.
    cached_share: f64,
}

/// The most expensive first; days in their order.
async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &["group", "from", "to", "limit", "offset"])?;
    let group = choice(&query, "group", &GROUPS)?.unwrap_or(Group::Team);
    let now = state.access.auth.now();
    let first = day(&state, &query, "from", now)?.unwrap_or(0);
    let last = day(&state, &query, "to", now)?.unwrap_or(u32::MAX);
    let page = query.page()?;
    let tallies = state.spine.store.read(move |storage| {
        let mut tallies: HashMap<String, Tally> = HashMap::new();
        if group == Group::Task {
            // What was called for a task on a later day is the whole of it.
            reads::task_calls(storage, first, last, &mut |task, tally| {
                tallies.insert(task.to_string(), tally);
            })?;
            return Ok(tallies);
        }
        reads::calls(storage, first, last, &mut |day, caller, tally| {
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
    let mut rows: Vec<Row> = tallies
        .into_iter()
        .map(|(key, tally)| Row {
            key,
            cached_share: tally.cached_share(),
            tally,
        })
        .collect();
    rows.sort_by(|one, other| match group {
        Group::Day => one.key.cmp(&other.key),
        _ => {
            let usd = other.tally.usd.total_cmp(&one.tally.usd);
            let tokens = |row: &Row| row.tally.spent().tokens;
            usd.then_with(|| tokens(other).cmp(&tokens(one)))
                .then_with(|| one.key.cmp(&other.key))
        }
    });
    Ok(json::page(&rows, page))
}

fn date(number: u32) -> String {
    let day = Day {
        number,
        ends_at: Timestamp::default(),
    };
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
        None => Ok(query
            .moment(name, now)?
            .map(|moment| state.days.day_of(moment).number)),
    }
}

/// What a team may spend, and has.
#[derive(Serialize)]
struct Budget {
    team: TeamName,
    caps: Caps,
    /// By it and all teams below it, today.
    spent: Spent,
}

async fn list_budgets(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let files = state.clone();
    let read = tokio::task::spawn_blocking(move || {
        let parts = parts(&files)?;
        let tree = parts.view.now();
        let budgets = tree.iter().map(|team| Budget {
            team: team.name.clone(),
            caps: match parts.live.team_now(&team.name) {
                Ok(file) => file.budgets,
                Err(_) => Caps::default(),
            },
            spent: (parts.spent)(&team.name),
        });
        Ok::<_, ApiError>(budgets.collect::<Vec<_>>())
    });
    let budgets = read.await.map_err(ApiError::internal)??;
    Ok(json::list(&budgets))
}
