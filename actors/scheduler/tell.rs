//! Telling people of runs: in a channel, in the operator's inbox, now or when the quiet time is over.

use super::{
    Scheduler,
    config::Config,
    definition::Quiet,
    run::{Notified, Run, RunOutcome},
    trigger::{Place, Quieted, Trigger},
};
use crate::{
    channel::records::OutboxWrites,
    clock::Timestamp,
    event::{Notification, NotificationKind},
    excerpt,
    ids::{TaskId, TriggerId},
    notice::{Notice, NoticeKind},
    store::records::Writes,
    task::{Label, Outcome, Task},
};

/// What is held back through a quiet time: so many texts, of so many characters.
const MOST_HELD: usize = 50;
const LONGEST_HELD: usize = 4_000;

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
    let own = definition
        .notify_channel
        .as_ref()
        .map(|channel| Place { channel: channel.clone(), topic: definition.notify_topic.clone() });
    own.or_else(|| {
        let source = task.source.as_ref()?;
        Some(Place { channel: source.channel.clone(), topic: source.topic.clone() })
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
        let rest = match &run.task_id {
            Some(task) => excerpt::of_task(task),
            None => runs_of(trigger),
        };
        let Some(place) = &telling.place else {
            let config = &trigger.definition.config;
            if matches!(config, Config::Keyword(_) | Config::Message(_)) {
                let task = run.task_id.as_ref().map(TaskId::as_str);
                tracing::error!(trigger = %trigger.id, task, "the run of a trigger that listens has no channel to tell");
            }
            run.notified = Notified::Inbox;
            let text = excerpt::excerpt(&text, LONGEST_HELD, &rest);
            return writes.put(&self.report(trigger, run, text));
        };
        if self.is_quiet(trigger, now) {
            run.notified = Notified::Later;
            let quieted = Quieted {
                text: excerpt::excerpt(&text, LONGEST_HELD, &rest),
                place: place.clone(),
                label: telling.label,
            };
            if let Some(trigger) = self.triggers.get_mut(&run.trigger) {
                trigger.quieted.push(quieted);
                let over = trigger.quieted.len().saturating_sub(MOST_HELD);
                trigger.quieted.drain(..over);
                trigger.quieted_more += over as u64;
            }
            return writes;
        }
        run.notified = Notified::Channel { channel: place.channel.clone() };
        let notification = Notification {
            task_id: run.task_id.clone(),
            status: match run.outcome {
                Some(RunOutcome::Failed) => "failed",
                _ => "done",
            }
            .to_owned(),
            ..Notification::new(NotificationKind::Trigger, team.clone(), text, &rest)
        };
        writes.told(&place.channel, place.topic.clone(), telling.label, now, notification)
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
        let runs: Vec<String> = trigger.failed_runs.iter().map(ToString::to_string).collect();
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
        let writes = writes.put(&notice);
        let own = trigger.definition.notify_channel.is_some();
        match telling.place.as_ref().filter(|_| own) {
            Some(place) => {
                let team = trigger.team.name.clone();
                let rest = runs_of(trigger);
                let notification = Notification {
                    task_id: run.task_id.clone(),
                    status: "failed".to_owned(),
                    ..Notification::new(NotificationKind::Trigger, team, text, &rest)
                };
                writes.told(&place.channel, place.topic.clone(), telling.label, now, notification)
            }
            None => writes,
        }
    }

    fn report(&self, trigger: &Trigger, run: &Run, text: String) -> Notice {
        Notice {
            id: self.to.ids.notice(),
            kind: NoticeKind::Report,
            team: Some(trigger.team.name.clone()),
            text,
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
        let (from, to) = (quiet.from.0, quiet.to.0);
        if from <= to { (from..to).contains(&minute) } else { minute >= from || minute < to }
    }

    /// When something that is held back is to be told.
    pub(super) fn quiet_until(&self, trigger: &Trigger) -> Option<Timestamp> {
        if trigger.held.is_empty() && trigger.quieted.is_empty() {
            return None;
        }
        let now = self.now();
        match &trigger.definition.quiet {
            Some(quiet) if self.is_quiet(trigger, now) => {
                let zone = self.quiet_zone(quiet);
                self.to.ports.calendar.next_minute_of_day(quiet.to.0, zone, now)
            }
            _ => Some(now),
        }
    }

    /// The quiet time is over: what was held back is told, as one to each place.
    pub(super) fn speak(&mut self, id: &TriggerId) {
        let now = self.now();
        let notice = self.to.ids.notice();
        let Some(trigger) = self.triggers.get_mut(id) else {
            return;
        };
        let held = std::mem::take(&mut trigger.held);
        let mut quieted = std::mem::take(&mut trigger.quieted);
        let more = std::mem::take(&mut trigger.quieted_more);
        if held.is_empty() && quieted.is_empty() {
            return;
        }
        let mut writes = Writes::new().put(trigger);
        let trigger = trigger.clone();
        let rest = runs_of(&trigger);
        let own = trigger.definition.notify_channel.as_ref();
        let own = own.map(|channel| Place {
            channel: channel.clone(),
            topic: trigger.definition.notify_topic.clone(),
        });
        match own {
            Some(place) => quieted.extend(held.into_iter().map(|text| Quieted {
                text,
                place: place.clone(),
                // Former versions did not note it.
                label: Label::Untrusted,
            })),
            None if held.is_empty() => {}
            None => {
                writes = writes.put(&Notice {
                    id: notice,
                    kind: NoticeKind::Report,
                    team: Some(trigger.team.name.clone()),
                    text: held.join("\n\n"),
                    refs: vec![trigger.id.to_string()],
                    at: now,
                    read: false,
                });
            }
        }
        let mut left_out = match more {
            0 => None,
            more => Some(format!("({more} older ones are not shown: {rest})")),
        };
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
        self.plan_next(id);
        self.keep_quietly(writes);
    }
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
