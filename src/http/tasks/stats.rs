//! How many tasks there are, by what they are.

use std::ops::ControlFlow;

use hivewright_actors::{
    store::reads::Range,
    task::{Task, records as tasks},
};

use crate::{
    api::{reply::*, tasks::*},
    http::{call::*, error::*},
};

/// So many tasks that have ended are counted, the last ones.
const MOST: usize = 2_000;

fn count(stats: &mut TaskStats, task: &Task) {
    let words = [
        (&mut stats.by_state, task.state().as_str()),
        (&mut stats.by_type, task.kind.as_str()),
        (&mut stats.by_priority, task.priority.as_str()),
        (&mut stats.by_team, task.lane.team.as_str()),
    ];
    for (counts, word) in words {
        *counts.entry(word.to_owned()).or_default() += 1;
    }
    stats.open += usize::from(task.outcome.is_none());
    stats.all += 1;
}

pub(in crate::http) async fn show(Call { state, caller, .. }: Call) -> ApiResult<Data<TaskStats>> {
    caller.all_teams()?;
    let stats = state.read(|storage| {
        let mut stats = TaskStats::default();
        Range::<Task>::all().for_each(storage, &mut |task| count(&mut stats, &task))?;
        let (since, mut ended) = (Default::default(), 0);
        tasks::each_ended(storage, since, |_| true, &mut |_, task| {
            if ended == MOST {
                stats.capped = true;
                return ControlFlow::Break(());
            }
            count(&mut stats, &task);
            ended += 1;
            ControlFlow::Continue(())
        })?;
        Ok(stats)
    });
    stats.await.map(Data)
}
