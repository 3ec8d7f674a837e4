//! Telling people of runs: in a channel, in the operator's inbox, now or when the quiet time is over.

use super::{
    Scheduler,
    run::{Notified, Run, RunOutcome},
    trigger::{Quiet, Trigger},
};
use crate::{
    briefing::Speaker,
    clock::Timestamp,
    event::{Body, Frame, Notification},
    ids::{ChannelId, TriggerId},
    notice::{Notice, NoticeKind},
    store::records::{Interaction, Said, Writes},
    task::{Label, Outcome, Task, TopicRef},
};

/// A frame's text has at most this many characters.
const LONGEST: usize = 100_000;
/// What is held back through a quiet time: so many texts, of so many characters.
const MOST_HELD: usize = 50;
const LONGEST_HELD: usize = 4_000;

/// Where people are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) channel: ChannelId,
    pub(super) topic: Option<TopicRef>,
}

/// Whether people are told of a run, and where.
pub(super) struct Telling {
    pub(super) wanted: bool,
    pub(super) place: Option<Place>,
    /// How far what the run says may be believed.
    pub(super) label: Label,
}

/// The trigger's own channel, or that of the message which it fired for.
pub(super) fn place(trigger: &Trigger, task: &Task) -> Option<Place> {
    let definition = &trigger.definition;
    let own = definition.notify_channel.as_ref().map(|channel| Place {
        channel: channel.clone(),
        topic: definition.notify_topic.clone(),
    });
    own.or_else(|| {
        let source = task.source.as_ref()?;
        Some(Place {
            channel: source.channel.clone(),
            topic: source.topic.clone(),
        })
    })
}

impl Scheduler {
    /// Tells of a run, if that is wanted.
    pub(super) fn tell_run(
        &mut self,
        writes: Writes,
        run: &mut Run,
        outcome: &Outcome,
        telling: &Telling,
    ) -> Writes {
        if !telling.wanted {
            return writes;
        }
        let now = self.now();
        let Some(trigger) = self.triggers.get(&run.trigger) else {
            return writes;
        };
        let team = &trigger.team.name;
        let text = match run.outcome {
            Some(RunOutcome::Failed) => {
                let error = run.reason.as_deref().unwrap_or("no reason known");
                format!("[{team}] {} failed: {error}", trigger.definition.name)
            }
            _ => format!("[{team}] {}", said(outcome, run)),
        };
        let Some(place) = &telling.place else {
            run.notified = Notified::Inbox;
            return writes.notice(&self.report(trigger, run, text));
        };
        if self.is_quiet(trigger, now) {
            run.notified = Notified::Later;
            let id = run.trigger.clone();
            if let Some(trigger) = self.triggers.get_mut(&id) {
                trigger.held.push(text.chars().take(LONGEST_HELD).collect());
                let over = trigger.held.len().saturating_sub(MOST_HELD);
                trigger.held.drain(..over);
            }
            return writes;
        }
        run.notified = Notified::Channel {
            channel: place.channel.clone(),
        };
        let status = match run.outcome {
            Some(RunOutcome::Failed) => "failed",
            _ => "done",
        };
        tell(
            writes,
            trigger,
            run,
            (place, telling.label),
            text,
            status,
            now,
        )
    }

    /// A switch that fell is told everywhere, whatever the policy and the hour.
    pub(super) fn tell_breaker(
        &self,
        writes: Writes,
        run: &Run,
        reason: &str,
        telling: &Telling,
    ) -> Writes {
        let Some(trigger) = self.triggers.get(&run.trigger) else {
            return writes;
        };
        let runs: Vec<String> = trigger
            .failed_runs
            .iter()
            .map(ToString::to_string)
            .collect();
        let text = format!(
            "[{}] trigger `{}` was disabled after {reason} (runs {}). Enable it again once the cause is gone.",
            trigger.team.name,
            trigger.definition.name,
            runs.join(", ")
        );
        let now = self.now();
        let mut refs = vec![trigger.id.to_string()];
        refs.extend(runs);
        let notice = Notice {
            id: self.to.ids.notice(),
            kind: NoticeKind::Breaker,
            team: Some(trigger.team.name.clone()),
            text: text.clone(),
            refs,
            at: now,
            read: false,
        };
        let writes = writes.notice(&notice);
        let own = trigger.definition.notify_channel.is_some();
        match telling.place.as_ref().filter(|_| own) {
            Some(place) => {
                let place = (place, telling.label);
                tell(writes, trigger, run, place, text, "failed", now)
            }
            None => writes,
        }
    }

    fn report(&self, trigger: &Trigger, run: &Run, text: String) -> Notice {
        Notice {
            id: self.to.ids.notice(),
            kind: NoticeKind::Report,
            team: Some(trigger.team.name.clone()),
            text: text.chars().take(LONGEST_HELD).collect(),
            refs: vec![trigger.id.to_string(), run.id.to_string()],
            at: self.now(),
            read: false,
        }
    }

    fn quiet_zone<'a>(&'a self, quiet: &'a Quiet) -> &'a str {
        quiet.timezone.as_deref().unwrap_or(&self.to.ports.timezone)
    }

    fn is_quiet(&self, trigger: &Trigger, now: Timestamp) -> bool {
        let Some(quiet) = &trigger.definition.quiet else {
            return false;
        };
        let calendar = &self.to.ports.calendar;
        let minute = calendar.minute_of_day(self.quiet_zone(quiet), now);
        match quiet.from <= quiet.to {
            true => (quiet.from..quiet.to).contains(&minute),
            false => minute >= quiet.from || minute < quiet.to,
        }
    }

    /// When something that is held back is to be told.
    pub(super) fn quiet_until(&self, trigger: &Trigger) -> Option<Timestamp> {
        if trigger.held.is_empty() {
            return None;
        }
        let now = self.now();
        match &trigger.definition.quiet {
            Some(quiet) if self.is_quiet(trigger, now) => {
                let zone = self.quiet_zone(quiet);
                self.to
                    .ports
                    .calendar
                    .next_minute_of_day(quiet.to, zone, now)
            }
            _ => Some(now),
        }
    }

    /// The quiet time is over: what was held back is told as one.
    pub(super) fn speak(&mut self, id: &TriggerId) {
        use super::records::TriggerRows;
        let now = self.now();
        let notice = self.to.ids.notice();
        let Some(trigger) = self.triggers.get_mut(id) else {
            return;
        };
        let held = std::mem::take(&mut trigger.held);
        if held.is_empty() {
            return;
        }
        let text = held.join("\n\n");
        let mut writes = Writes::new().trigger(trigger);
        let trigger = trigger.clone();
        match &trigger.definition.notify_channel {
            Some(channel) => {
                let frame = Frame {
                    topic: trigger.definition.notify_topic.clone(),
                    ts: now,
                    body: Body::Notification(Notification {
                        content: text.chars().take(LONGEST).collect(),
                        team: trigger.team.name.clone(),
                        task_id: None,
                        status: "done".to_owned(),
                        kind: "trigger".to_owned(),
                        ref_id: None,
                    }),
                };
                writes = writes.frame(channel, frame);
            }
            None => {
                writes = writes.notice(&Notice {
                    id: notice,
                    kind: NoticeKind::Report,
                    team: Some(trigger.team.name.clone()),
                    text: text.chars().take(LONGEST).collect(),
                    refs: vec![trigger.id.to_string()],
                    at: now,
                    read: false,
                });
            }
        }
        self.plan_next(id);
        self.keep_quietly(writes);
    }
}

/// What a run has to say: its answer, or its reason where there is none.
fn said<'a>(outcome: &'a Outcome, run: &'a Run) -> &'a str {
    match outcome.text.trim() {
        "" => run.reason.as_deref().unwrap_or("done"),
        text => text,
    }
}

fn tell(
    writes: Writes,
    trigger: &Trigger,
    run: &Run,
    (place, label): (&Place, Label),
    text: String,
    status: &str,
    now: Timestamp,
) -> Writes {
    let text: String = text.chars().take(LONGEST).collect();
    let team = &trigger.team.name;
    let mut writes = writes;
    if let Some(task) = &run.task_id {
        let speaker = Speaker::Team(team.to_string());
        writes = writes.interaction(&Interaction {
            channel: place.channel.clone(),
            topic: place.topic.as_ref().map(|topic| topic.id.clone()),
            task: Some(task.clone()),
            at: now,
            said: vec![Said::new(now, speaker, &text, label)],
            trust_decision: None,
        });
    }
    writes.frame(
        &place.channel,
        Frame {
            topic: place.topic.clone(),
            ts: now,
            body: Body::Notification(Notification {
                content: text,
                team: team.clone(),
                task_id: run.task_id.clone(),
                status: status.to_owned(),
                kind: "trigger".to_owned(),
                ref_id: None,
            }),
        },
    )
}
