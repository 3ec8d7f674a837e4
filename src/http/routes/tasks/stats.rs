//! Task statistics: how many tasks there are, by what they are.

use std::collections::HashSet;

use hivewright_actors::{
    store::reads::Range,
    task::{Task, ended::count_ended, query::TaskFacet},
};

use crate::{
    api::{reply::*, tasks::*},
    http::kit::{call::*, error::*},
};

fn add(stats: &mut TaskStats, facet: &TaskFacet, count: usize) {
    let TaskFacet { team, kind, state, priority } = facet;
    let words = [
        (&mut stats.by_state, state.as_str()),
        (&mut stats.by_type, kind.as_str()),
        (&mut stats.by_priority, priority.as_str()),
        (&mut stats.by_team, team.as_str()),
    ];
    for (counts, word) in words {
        *counts.entry(word.to_owned()).or_default() += count;
    }
    stats.all += count;
}

pub(in crate::http) async fn show(Call { state, caller, .. }: Call) -> ApiResult<Data<TaskStats>> {
    caller.all_teams()?;
    let stats = state.read(|storage| {
        let (mut stats, mut open) = (TaskStats::default(), HashSet::new());
        Range::<Task>::all().for_each(storage, &mut |task: Task| {
            add(&mut stats, &TaskFacet::from(&task), 1);
            stats.open += usize::from(task.outcome.is_none());
            open.insert(task.id);
        })?;
        // What ends meanwhile is counted once.
        for (facet, count) in count_ended(storage, open)? {
            add(&mut stats, &facet, count);
        }
        Ok(stats)
    });
    stats.await.map(Data)
}
