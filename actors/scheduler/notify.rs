//! Notification of runs: whether people hear of one, in a channel or in the operator's inbox, now or
//! when the quiet time is over.

use super::{
    ports::View,
    run::{Notified, Report, Run, RunOutcome},
    trigger::{
        Place, Quieted, Trigger,
        config::Config,
        definition::{NotifyPolicy, Quiet},
    },
};
use crate::{
    channel::records::OutboxWrites,
    clock::Timestamp,
    excerpt,
    frame::{Notification, NotificationKind},
    ids::{Ids, TaskId},
    notice::NoticeKind,
    store::records::Writes,
    task::{Label, Task, outcome::Outcome},
};

/// What is held back through a quiet time: so many texts, of so many characters.
const MOST_HELD: usize = 50;
const LONGEST_HELD: usize = 4_000;

/// The end of a run: its task, how that ended, and what it said of itself.
#[derive(Clone, Copy)]
pub(super) struct End<'a> {
    pub(super) task: &'a Task,
    pub(super) outcome: &'a Outcome,
    pub(super) report: Option<&'a Report>,
}

/// The trigger's own channel, or that of the message which it fired for.
fn place(trigger: &Trigger, task: &Task) -> Option<Place> {
    own_place(trigger).or_else(|| {
        let source = task.source.as_ref()?;
        Some(Place { channel: source.channel.clone(), topic: source.topic.clone() })
    })
}

fn own_place(trigger: &Trigger) -> Option<Place> {
    let channel = trigger.definition.notify_channel.clone()?;
    Some(Place { channel, topic: trigger.definition.notify_topic.clone() })
}

/// Whether people hear of a run. `has_channel` is whether there is a place of its own to tell it in.
fn decide(
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

/// Tells of a run, if that is wanted.
pub(super) fn tell_run(
    trigger: &mut Trigger,
    run: &mut Run,
    end: End<'_>,
    ids: &Ids,
    view: View<'_>,
) -> Writes {
    let place = place(trigger, end.task);
    let policy = trigger.definition.notify;
    let decide = |outcome| decide(policy, outcome, end.report, place.is_some());
    if !run.outcome.is_some_and(decide) {
        return Writes::new();
    }
    let team = &trigger.team.name;
    let text = match run.outcome {
        Some(RunOutcome::Failed) => {
            let error = run.reason.as_deref().unwrap_or("no reason known");
            format!("[{team}] {} failed: {error}", trigger.definition.name)
        }
        _ => format!("[{team}] {}", said(end.outcome, run)),
    };
    let rest = run.task_id.as_ref().map_or_else(|| runs_of(trigger), excerpt::of_task);
    let Some(place) = place else {
        if matches!(trigger.definition.config, Config::Keyword(_) | Config::Message(_)) {
            let task = run.task_id.as_ref().map(TaskId::as_str);
            tracing::error!(trigger = %trigger.id, task, "the run of a trigger that listens has no channel to tell; its result is a notice");
        }
        run.notified = Notified::Inbox;
        let text = excerpt::excerpt(&text, LONGEST_HELD, &rest);
        let notice = trigger.notice(ids, NoticeKind::Report, text, [&run.id], view.now);
        return Writes::new().put(&notice);
    };
    let label = end.task.label;
    if is_quiet(trigger, view) {
        run.notified = Notified::Later;
        let text = excerpt::excerpt(&text, LONGEST_HELD, &rest);
        trigger.quieted.push(Quieted { text, place, label });
        let over = trigger.quieted.len().saturating_sub(MOST_HELD);
        trigger.quieted.drain(..over);
        trigger.quieted_more += over as u64;
        return Writes::new();
    }
    run.notified = Notified::Channel { channel: place.channel.clone() };
    let status = if run.outcome == Some(RunOutcome::Failed) { "failed" } else { "done" };
    let notification = Notification {
        task_id: run.task_id.clone(),
        status: status.to_owned(),
        ..Notification::new(NotificationKind::Trigger, team.clone(), text, &rest)
    };
    Writes::new().told(&place.channel, place.topic, label, view.now, notification)
}

/// A switch that fell is told everywhere, whatever the policy and the hour.
pub(super) fn tell_breaker(
    trigger: &Trigger,
    run: &Run,
    reason: &str,
    label: Label,
    ids: &Ids,
    now: Timestamp,
) -> Writes {
    let failed = &trigger.failed_runs;
    let runs: Vec<String> = failed.iter().map(ToString::to_string).collect();
    let text = format!(
        "[{}] trigger `{}` was disabled after {reason} (runs {}). Enable it again once the cause is gone.",
        trigger.team.name,
        trigger.definition.name,
        runs.join(", ")
    );
    let notice = trigger.notice(ids, NoticeKind::Breaker, text.clone(), failed, now);
    let writes = Writes::new().put(&notice);
    let Some(place) = own_place(trigger) else { return writes };
    let (team, rest) = (trigger.team.name.clone(), runs_of(trigger));
    let notification = Notification {
        task_id: run.task_id.clone(),
        status: "failed".to_owned(),
        ..Notification::new(NotificationKind::Trigger, team, text, &rest)
    };
    writes.told(&place.channel, place.topic, label, now, notification)
}

fn quiet_zone<'a>(quiet: &'a Quiet, view: View<'a>) -> &'a str {
    quiet.timezone.as_deref().unwrap_or(view.zone)
}

fn is_quiet(trigger: &Trigger, view: View<'_>) -> bool {
    let Some(quiet) = &trigger.definition.quiet else { return false };
    let minute = view.calendar.minute_of_day(quiet_zone(quiet, view), view.now);
    let (from, to) = (quiet.from.0, quiet.to.0);
    if from <= to { (from..to).contains(&minute) } else { minute >= from || minute < to }
}

/// When something that is held back is to be told.
pub(super) fn quiet_until(trigger: &Trigger, view: View<'_>) -> Option<Timestamp> {
    if trigger.held.is_empty() && trigger.quieted.is_empty() {
        return None;
    }
    match &trigger.definition.quiet {
        Some(quiet) if is_quiet(trigger, view) => {
            view.calendar.next_minute_of_day(quiet.to.0, quiet_zone(quiet, view), view.now)
        }
        _ => Some(view.now),
    }
}

/// The quiet time is over: what was held back is told, as one to each place.
pub(super) fn speak(trigger: &mut Trigger, ids: &Ids, now: Timestamp) -> Writes {
    let held = std::mem::take(&mut trigger.held);
    let mut quieted = std::mem::take(&mut trigger.quieted);
    let more = std::mem::take(&mut trigger.quieted_more);
    if held.is_empty() && quieted.is_empty() {
        return Writes::new();
    }
    let mut writes = Writes::new().put(&*trigger);
    let rest = runs_of(trigger);
    match own_place(trigger) {
        Some(place) => quieted.extend(held.into_iter().map(|text| Quieted {
            text,
            place: place.clone(),
            // Former versions did not note it.
            label: Label::Untrusted,
        })),
        None if held.is_empty() => {}
        None => {
            let text = held.join("\n\n");
            writes = writes.put(&trigger.notice(ids, NoticeKind::Report, text, [], now));
        }
    }
    let mut left_out = (more > 0).then(|| format!("({more} older ones are not shown: {rest})"));
    while let Some(Quieted { place, .. }) = quieted.first() {
        let place = place.clone();
        let (here, elsewhere) = quieted.into_iter().partition(|held| held.place == place);
        quieted = elsewhere;
        let here: Vec<Quieted> = here;
        let label = here.iter().map(|held| held.label).max().unwrap_or_default();
        let texts = here.into_iter().map(|held| held.text);
        let text: Vec<String> = left_out.take().into_iter().chain(texts).collect();
        let notification = Notification::new(
            NotificationKind::Trigger,
            trigger.team.name.clone(),
            text.join("\n\n"),
            &rest,
        );
        writes = writes.told(&place.channel, place.topic, label, now, notification);
    }
    writes
}

/// Where all runs of a trigger are told of.
fn runs_of(trigger: &Trigger) -> String {
    format!("`hivewright trigger runs {}`", trigger.id)
}

/// What a run has to say: its answer, or its reason where there is none.
fn said<'a>(outcome: &'a Outcome, run: &'a Run) -> &'a str {
    match outcome.text.trim() {
        "" => run.reason.as_deref().unwrap_or("done"),
        text => text,
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
