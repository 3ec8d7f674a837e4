//! Whether people hear of a run.

use super::{
    definition::NotifyPolicy,
    run::{Report, RunOutcome},
};

/// Decides. `has_channel` is whether there is a place of its own to tell it in.
pub fn decide(
    policy: NotifyPolicy,
    outcome: RunOutcome,
    report: Option<&Report>,
    has_channel: bool,
) -> bool {
    match (outcome, policy) {
        (RunOutcome::Noop | RunOutcome::Cancelled | RunOutcome::Missed, _) => false,
        (_, NotifyPolicy::Never) => false,
        (_, NotifyPolicy::Always) => true,
        (outcome, NotifyPolicy::OnFailure) => outcome == RunOutcome::Failed,
        // A failure that asks for silence contradicts itself; without a report nobody decided.
        (RunOutcome::Failed, NotifyPolicy::Auto) => {
            has_channel || report.is_some_and(|report| report.notify)
        }
        (RunOutcome::Ok, NotifyPolicy::Auto) => report.map_or(has_channel, |report| report.notify),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheduler::run::ReportedOutcome;

    fn report(notify: bool) -> Report {
        Report { notify, outcome: ReportedOutcome::Ok, reason: String::new(), cursors: None }
    }

    /// TR-46, TR-79: a run that wants silence gets it, one that wants to be heard is heard, and so
    /// is one that does not say.
    #[test]
    fn the_run_decides_and_silence_about_it_is_told() {
        let told = |report: Option<&Report>, has_channel| {
            decide(NotifyPolicy::Auto, RunOutcome::Ok, report, has_channel)
        };

        assert!(!told(Some(&report(false)), true));
        assert!(told(Some(&report(true)), true));
        assert!(told(None, true));
        assert!(told(Some(&report(true)), false));
        assert!(!told(None, false));
    }

    /// TR-46
    #[test]
    fn the_other_policies_ignore_the_report() {
        let (yes, no) = (report(true), report(false));

        assert!(decide(NotifyPolicy::Always, RunOutcome::Ok, Some(&no), false));
        assert!(!decide(NotifyPolicy::Never, RunOutcome::Failed, Some(&yes), true));
        assert!(!decide(NotifyPolicy::OnFailure, RunOutcome::Ok, Some(&yes), true));
        assert!(decide(NotifyPolicy::OnFailure, RunOutcome::Failed, Some(&no), true));
        for policy in [NotifyPolicy::Auto, NotifyPolicy::Always, NotifyPolicy::OnFailure] {
            assert!(!decide(policy, RunOutcome::Noop, Some(&yes), true));
            assert!(!decide(policy, RunOutcome::Cancelled, None, true));
        }
    }

    /// TR-46: contradictory.
    #[test]
    fn a_failure_that_asks_for_silence_is_told() {
        let told = decide(NotifyPolicy::Auto, RunOutcome::Failed, Some(&report(false)), true);

        assert!(told);
    }
}
