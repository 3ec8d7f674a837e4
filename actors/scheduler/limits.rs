//! Limits of firings: one beside an unfinished task, and too many in too short a time.

use std::{collections::HashMap, time::Duration};

use super::trigger::definition::OverlapPolicy;
use crate::{
    clock::Timestamp,
    ids::{TaskId, TeamKey},
    sliding_window::SlidingWindow,
};

/// A team and subagent get so many tasks from triggers …
pub(super) const MOST_FIRES: usize = 10;
/// … within this time.
pub(super) const FIRES_WITHIN: Duration = Duration::from_secs(60);

/// What becomes of a firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// It goes ahead.
    Go,
    /// It does not.
    Skip,
    /// It takes the place of the unfinished task.
    Replace(TaskId),
}

/// Decides, with the new count of firings that were skipped in a row.
pub(super) fn overlap(
    policy: OverlapPolicy,
    unfinished: Option<&TaskId>,
    skipped: u32,
) -> (Overlap, u32) {
    let Some(task) = unfinished else {
        return (Overlap::Go, 0);
    };
    match policy {
        OverlapPolicy::Allow => (Overlap::Go, 0),
        OverlapPolicy::AlwaysSkip => (Overlap::Skip, skipped.saturating_add(1)),
        OverlapPolicy::AlwaysReplace => (Overlap::Replace(task.clone()), 0),
        OverlapPolicy::SkipThenReplace if skipped == 0 => (Overlap::Skip, 1),
        OverlapPolicy::SkipThenReplace => (Overlap::Replace(task.clone()), 0),
    }
}

/// Times of firings, by team and subagent.
#[derive(Debug, Default)]
pub(super) struct Fires(HashMap<(TeamKey, Option<String>), SlidingWindow<Timestamp>>);

impl Fires {
    /// One more.
    pub(super) fn count(&mut self, team: &TeamKey, subagent: Option<String>, at: Timestamp) {
        let fires = self.0.entry((team.clone(), subagent));
        fires.or_insert_with(|| SlidingWindow::new(FIRES_WITHIN)).push(at);
    }

    /// How many there were within the time that counts.
    pub(super) fn lately(
        &mut self,
        team: &TeamKey,
        subagent: Option<String>,
        now: Timestamp,
    ) -> usize {
        let key = (team.clone(), subagent);
        let count = self.0.get_mut(&key).map_or(0, |fires| fires.count(now));
        if count == 0 {
            self.0.remove(&key);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-36 to TR-39
    #[test]
    fn each_policy_has_its_way_with_an_unfinished_task() {
        let task = TaskId::from("task-1");
        let of = |policy, skipped| overlap(policy, Some(&task), skipped);
        let replaces = (Overlap::Replace(task.clone()), 0);

        assert_eq!(of(OverlapPolicy::Allow, 0), (Overlap::Go, 0));
        assert_eq!(of(OverlapPolicy::AlwaysSkip, 4), (Overlap::Skip, 5));
        assert_eq!(of(OverlapPolicy::AlwaysReplace, 0), replaces);
        assert_eq!(of(OverlapPolicy::SkipThenReplace, 0), (Overlap::Skip, 1));
        assert_eq!(of(OverlapPolicy::SkipThenReplace, 1), replaces);
    }

    /// TR-39: a finished task begins the count anew.
    #[test]
    fn without_an_unfinished_task_it_goes_ahead() {
        assert_eq!(overlap(OverlapPolicy::SkipThenReplace, None, 1), (Overlap::Go, 0));
    }

    /// TR-34: in any 60 s, by team and subagent.
    #[test]
    fn firings_count_for_a_minute_by_team_and_subagent() {
        let mut fires = Fires::default();
        let team = TeamKey::first("news");
        let editor = || Some("editor".to_owned());
        for second in 0..10 {
            fires.count(&team, editor(), Timestamp(second * 1_000));
        }

        assert_eq!(fires.lately(&team, editor(), Timestamp(59_999)), 10);
        assert_eq!(fires.lately(&team, editor(), Timestamp(60_000)), 9);
        assert_eq!(fires.lately(&team, None, Timestamp(10_000)), 0);
        assert_eq!(fires.lately(&team, editor(), Timestamp(100_000)), 0);
    }
}
