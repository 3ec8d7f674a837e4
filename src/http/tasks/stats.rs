//! How many tasks there are, by what they are.

use std::collections::BTreeMap;

use actix_web::{HttpRequest, HttpResponse, http::StatusCode, web};
use hivewright_actors::{store::reads, task::Task};
use serde::Serialize;

use super::MOST;
use crate::http::{State, auth::scope::Scope, error::ApiError, json};

/// Counts by word.
type Counts = BTreeMap<String, usize>;

/// How many tasks there are.
#[derive(Debug, Default, Serialize)]
struct Stats {
    by_state: Counts,
    by_type: Counts,
    by_priority: Counts,
    by_team: Counts,
    open: usize,
    /// With those that ended lately.
    all: usize,
}

impl Stats {
    fn count(&mut self, task: &Task) {
        let mut add = |counts: fn(&mut Self) -> &mut Counts, word: &str| {
            *counts(self).entry(word.to_owned()).or_default() += 1;
        };
        let priority = serde_json::to_value(task.priority).unwrap_or_default();
        add(|stats| &mut stats.by_state, task.state());
        add(|stats| &mut stats.by_type, task.kind.as_str());
        add(
            |stats| &mut stats.by_priority,
            priority.as_str().unwrap_or_default(),
        );
        add(|stats| &mut stats.by_team, task.lane.team.as_str());
        self.open += usize::from(task.outcome.is_none());
        self.all += 1;
    }
}

pub(super) async fn show(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let stats = state.spine.store.read(|storage| {
        let mut stats = Stats::default();
        for task in reads::open_tasks(storage)?.rows {
            stats.count(&task);
        }
        let since = Default::default();
        for task in reads::ended_tasks(storage, since, MOST, |_| true, |_| true)? {
            stats.count(&task);
        }
        Ok(stats)
    });
    let stats = stats.await.map_err(ApiError::internal)?;
    Ok(json::data(StatusCode::OK, stats))
}
