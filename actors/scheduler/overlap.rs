//! Overlap: what a firing does while the last task is unfinished.

use super::definition::OverlapPolicy;
use crate::ids::TaskId;

/// What becomes of a firing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// It goes ahead.
    Go,
    /// It does not.
    Skip,
    /// It takes the place of the unfinished task.
    Replace(TaskId),
}

/// Decides, with the new count of firings that were skipped in a row.
pub fn decide(policy: OverlapPolicy, unfinished: Option<&TaskId>, skipped: u32) -> (Overlap, u32) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-36 to TR-39
    #[test]
    fn each_policy_has_its_way_with_an_unfinished_task() {
        let task = TaskId::from("task-1");
        let of = |policy, skipped| decide(policy, Some(&task), skipped);
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
        assert_eq!(decide(OverlapPolicy::SkipThenReplace, None, 1), (Overlap::Go, 0));
    }
}
