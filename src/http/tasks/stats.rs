//! How many tasks there are, by what they are.

use std::{collections::BTreeMap, ops::ControlFlow};

use actix_web::web;
use hivewright_actors::{
    store::reads::Range,
    task::{Task, records as tasks},
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::http::{
    State,
    arguments::{Caller, Read},
    error::ApiError,
    reply::Data,
};

/// So many tasks that have ended are counted, the last ones.
const MOST: usize = 2_000;

/// Counts by word.
type Counts = BTreeMap<String, usize>;

/// How many tasks there are.
#[derive(Debug, Default, Serialize, ToSchema)]
#[schema(as = TaskStats)]
pub(super) struct Stats {
    by_state: BTreeMap<String, usize>,
    by_type: BTreeMap<String, usize>,
    by_priority: BTreeMap<String, usize>,
    by_team: BTreeMap<String, usize>,
    open: usize,
    /// With those that ended lately.
    all: usize,
    /// More have ended than are counted.
    capped: bool,
}

impl Stats {
    fn count(&mut self, task: &Task) {
        let mut add = |counts: fn(&mut Self) -> &mut Counts, word: &str| {
            *counts(self).entry(word.to_owned()).or_default() += 1;
        };
        let priority = serde_json::to_value(task.priority).unwrap_or_default();
        add(|stats| &mut stats.by_state, task.state());
        add(|stats| &mut stats.by_type, task.kind.as_str());
        add(|stats| &mut stats.by_priority, priority.as_str().unwrap_or_default());
        add(|stats| &mut stats.by_team, task.lane.team.as_str());
        self.open += usize::from(task.outcome.is_none());
        self.all += 1;
    }
}

pub(super) async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
) -> Result<Data<Stats>, ApiError> {
    caller.all_teams()?;
    let stats = state.spine.store.read(|storage| {
        let mut stats = Stats::default();
        Range::<Task>::all().for_each(storage, &mut |task| stats.count(&task))?;
        let (since, mut ended) = (Default::default(), 0);
        tasks::each_ended(storage, since, |_| true, &mut |_, task| {
            if ended == MOST {
                stats.capped = true;
                return ControlFlow::Break(());
            }
            stats.count(&task);
            ended += 1;
            ControlFlow::Continue(())
        })?;
        Ok(stats)
    });
    stats.await.map(Data).map_err(ApiError::internal)
}
