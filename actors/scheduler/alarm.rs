//! Timer of the scheduler: one sleep until the next thing is due, and what is done then.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, Message, WrapFuture};
use tokio::time::Instant;

use super::{
    Due, Scheduler, body,
    firing::{self, Findings, Pending},
    notify,
    records::removed,
    run::{Cause, Known, RunOutcome},
    schedule::{self, Agenda, Missed},
    trigger::{State, Trigger, config::Config, definition::OverlapPolicy},
    window::{self, Phase},
};
use crate::{
    clock::pause_until,
    ids::TriggerId,
    notice::NoticeKind,
    org::roster::Availability,
    repeats::is_known,
    store::records::{Keyed, Writes},
};

/// A clock that is off by more than this has jumped.
const MIN_CLOCK_JUMP: Duration = Duration::from_secs(60);

/// Rows that are removed at a time, so that others come in between.
const MOST_SWEPT: usize = 1_000;

/// Teams were paused, resumed or closed. Triggers of those that are gone go with them.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct TeamsChanged;

/// The time zone of the settings has changed: what names none of its own follows it from now on.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct SetZone {
    /// Its name in the IANA list.
    pub timezone: String,
}

/// No more firings: the process is about to stop.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "()")]
pub struct Drain;

impl Scheduler {
    /// Sets the alarm for what is due next.
    pub(super) fn arm(&mut self, ctx: &mut Context<Self>) {
        if let Some(handle) = self.alarm.take() {
            ctx.cancel_future(handle);
        }
        let now = self.now();
        self.set_at = (now, Instant::now());
        let Some((at, ..)) = self.due.first().filter(|_| !self.draining) else { return };
        self.alarm = Some(ctx.run_later(pause_until(*at, now), |scheduler, ctx| {
            scheduler.alarm = None;
            scheduler.notice_jump();
            scheduler.ring(ctx);
        }));
    }

    fn notice_jump(&self) {
        let (wall, monotonic) = self.set_at;
        let (now, slept) = (self.now(), monotonic.elapsed());
        let expected = wall + slept;
        let off = now.since(expected).max(expected.since(now));
        if off > MIN_CLOCK_JUMP {
            tracing::warn!(
                seconds = off.as_secs(),
                forward = now > expected,
                "the clock has jumped; times that it skipped count as missed, none is served twice"
            );
        }
    }

    /// Does what is due.
    pub(super) fn ring(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        while !self.draining
            && let Some((at, what, id)) = self.due.first().cloned()
            && at <= now
        {
            // Each of these sets the next time, or none.
            self.set_due(&id, what, None);
            match what {
                Due::Look => self.look_at(&id, ctx),
                Due::Speak => self.speak(&id),
            }
        }
        self.arm(ctx);
    }

    /// The quiet time of a trigger is over.
    fn speak(&mut self, id: &TriggerId) {
        let now = self.now();
        if let Some(trigger) = self.triggers.get_mut(id) {
            let writes = notify::speak(trigger, &self.to.ids, now);
            self.plan_next(id);
            self.keep_quietly(writes);
        }
    }

    /// Times that passed while a team rested are made up for once it works again.
    pub(super) fn look_at_held(&mut self, ctx: &mut Context<Self>) {
        let held: Vec<TriggerId> = self
            .triggers
            .values()
            .filter(|trigger| trigger.is_active() && trigger.held_from.is_some())
            .map(|trigger| trigger.id.clone())
            .collect();
        for id in held {
            self.look_at(&id, ctx);
        }
    }

    fn look_at(&mut self, id: &TriggerId, ctx: &mut Context<Self>) {
        let Some(trigger) = self.triggers.get(id) else { return };
        if !trigger.is_active() || self.draining || self.looking.contains(id) {
            return;
        }
        match &trigger.definition.config {
            Config::Schedule(schedule) => {
                let is_paused =
                    self.to.ports.roster.availability(&trigger.team) == Availability::Paused;
                let agenda = schedule::agenda(trigger, schedule, is_paused, self.view());
                self.follow(id, agenda, ctx);
            }
            Config::Window(_) => self.tick(id, ctx),
            _ => {}
        }
    }

    fn follow(&mut self, id: &TriggerId, agenda: Agenda, ctx: &mut Context<Self>) {
        let Some(trigger) = self.triggers.get_mut(id) else { return };
        let order = body::order(trigger);
        let pendings = match agenda {
            Agenda::Wait => Vec::new(),
            Agenda::Fire(due) => vec![Pending::timed(Cause::Schedule, due, order)],
            Agenda::Hold(due) => {
                trigger.held_from.get_or_insert(trigger.cursor());
                vec![Pending::timed(Cause::Schedule, due, order)]
            }
            Agenda::MakeUp(plan) => {
                let several = plan.serve.len() > 1;
                if plan.serve.is_empty() {
                    trigger.held_from = None;
                }
                if let Some(skipped) = plan.skipped {
                    self.skip(id, skipped);
                }
                let order = match plan.told {
                    Some(told) => self.tell_missed(id, order, told),
                    None => order,
                };
                let serve = plan.serve.into_iter().map(|due| Pending {
                    // They were due one after another, so none is in the way of the next.
                    overlap: several.then_some(OverlapPolicy::Allow),
                    ..Pending::timed(Cause::Missed, due, order.clone())
                });
                serve.collect()
            }
        };
        if pendings.is_empty() {
            self.plan_next(id);
            return self.arm(ctx);
        }
        self.prepare(id, pendings, ctx);
    }

    fn tell_missed(&self, id: &TriggerId, order: String, missed: Missed) -> String {
        if missed.count < 2 {
            return order;
        }
        let zone = self.triggers.get(id).and_then(|trigger| match &trigger.definition.config {
            Config::Schedule(schedule) => schedule.timezone.as_deref(),
            _ => None,
        });
        let zone = zone.unwrap_or(&self.to.ports.timezone);
        let since = self.to.ports.calendar.show(zone, missed.since);
        body::with_missed(order, missed, &since)
    }

    /// One row for times that are not served.
    fn skip(&mut self, id: &TriggerId, missed: Missed) {
        let now = self.now();
        let ids = self.to.ids.clone();
        let Some(trigger) = self.triggers.get_mut(id) else { return };
        trigger.move_cursor(missed.until);
        trigger.held_from = trigger.held_from.map(|_| missed.until);
        let mut run = firing::skipped_row(trigger, missed, now, ids.run());
        let mut writes = Writes::new();
        if trigger.definition.config.is_single() {
            trigger.state = State::Finished;
            run.outcome = Some(RunOutcome::Missed);
            let text = format!(
                "trigger `{}` of team `{}` was due more than a day ago and did not run: the service was down, the team was paused, or there was no room for its work; create it anew if it still matters",
                trigger.definition.name, trigger.team.name
            );
            writes = writes.put(&trigger.notice(&ids, NoticeKind::MissedRun, text, [&run.id], now));
        }
        self.plan_next(id);
        let writes = writes.put(&run).and(self.row_of(id));
        self.last.insert(id.clone(), run);
        self.keep_quietly(writes);
    }

    fn tick(&mut self, id: &TriggerId, ctx: &mut Context<Self>) {
        let view = self.to.view(self.since);
        let Some(trigger) = self.triggers.get_mut(id) else { return };
        let Config::Window(window) = &trigger.definition.config else { return };
        let last_task = trigger.active_task_id.as_ref();
        let in_flight = last_task.is_some_and(|task| self.runs.contains_key(task));
        let (before, cursor) = (trigger.occurrence.clone(), trigger.cursor());
        let tick = window::advance(view, window, &mut trigger.occurrence, cursor, in_flight);
        trigger.move_cursor(view.now);
        if let (Some(tick), Some(open)) = (tick, &trigger.occurrence) {
            let pending = Pending {
                key: format!("{}/{}", open.opened_at, tick.number),
                ..Pending::timed(Cause::Window, tick.due_at, body::order(trigger))
            };
            return self.prepare(id, vec![pending], ctx);
        }
        let changed = trigger.occurrence != before;
        self.plan_next(id);
        if changed {
            self.keep_quietly(self.row_of(id));
        }
    }

    /// Looks at what the firings depend on, and carries them out.
    fn prepare(&mut self, id: &TriggerId, pendings: Vec<Pending>, ctx: &mut Context<Self>) {
        let began = self.triggers.get(id).and_then(|trigger| trigger.anchor_at);
        self.looking.insert(id.clone());
        self.with_findings(
            id,
            move |scheduler, id, found, ctx| {
                scheduler.looking.remove(id);
                let trigger = scheduler.triggers.get(id);
                // It may have been enabled anew meanwhile: then none of this is due any more.
                if trigger.is_some_and(|trigger| trigger.anchor_at == began) {
                    scheduler.carry_out(id, pendings, found, ctx);
                }
                scheduler.plan_next(id);
                scheduler.arm(ctx);
            },
            ctx,
        );
    }

    fn carry_out(
        &mut self,
        id: &TriggerId,
        pendings: Vec<Pending>,
        found: &Findings,
        ctx: &mut Context<Self>,
    ) {
        let pendings = self.hold_back(id, pendings);
        let last = pendings.len().saturating_sub(1);
        for (place, pending) in pendings.into_iter().enumerate() {
            // What was held is served one by one, each in its commit.
            if let Some(trigger) = self.triggers.get_mut(id)
                && pending.cause == Cause::Missed
                && self.to.ports.roster.availability(&trigger.team) != Availability::Paused
            {
                let served = (place < last).then_some(pending.due_at);
                trigger.held_from = trigger.held_from.and(served);
            }
            drop(self.fire(id, pending, found, ctx));
        }
    }

    /// If the team was paused while its trigger was looked into, what is due is made up for once it works again.
    /// Of many times, the row of one is enough.
    fn hold_back(&mut self, id: &TriggerId, mut pendings: Vec<Pending>) -> Vec<Pending> {
        if let Some(trigger) = self.triggers.get_mut(id)
            && let Some(first) = pendings.first()
            && first.cause != Cause::Window
            && self.to.ports.roster.availability(&trigger.team) == Availability::Paused
        {
            let before = first.due_at - Duration::from_millis(1);
            trigger.held_from = Some(trigger.held_from.map_or(before, |held| held.min(before)));
            pendings.drain(..pendings.len() - 1);
        }
        pendings
    }

    pub(super) fn sweep(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        let is_old = |_: &_, known: &mut Known| !is_known(known.at, now);
        let old: Vec<Known> =
            self.known.extract_if(is_old).take(MOST_SWEPT).map(|(_, known)| known).collect();
        let may_be_more = old.len() >= MOST_SWEPT;
        let dropped = self.keep(
            old.iter().fold(Writes::new(), |writes, known| writes.delete::<Known>(&known.key())),
        );
        ctx.spawn(dropped.into_actor(self).map(move |dropped, scheduler, ctx| {
            if may_be_more && dropped.is_ok() {
                scheduler.sweep(ctx);
            }
        }));
    }

    /// A window whose last tick led to nothing is closed at once.
    pub(super) fn settle_window(&mut self, id: &TriggerId) {
        if let Some(trigger) = self.triggers.get_mut(id)
            && let Some(occurrence) = &mut trigger.occurrence
            && occurrence.phase == Phase::Closing
            && !trigger.active_task_id.as_ref().is_some_and(|task| self.runs.contains_key(task))
        {
            occurrence.phase = Phase::Closed;
        }
    }
}

impl Handler<TeamsChanged> for Scheduler {
    type Result = ();

    fn handle(&mut self, TeamsChanged: TeamsChanged, ctx: &mut Self::Context) {
        let roster = self.to.ports.roster.clone();
        let gone =
            self.drop_all(|trigger| roster.availability(&trigger.team) == Availability::Gone);
        self.keep_quietly(gone.iter().map(removed).fold(Writes::new(), Writes::and));
        self.look_at_held(ctx);
        self.arm(ctx);
    }
}

impl Handler<SetZone> for Scheduler {
    type Result = ();

    fn handle(&mut self, SetZone { timezone }: SetZone, ctx: &mut Self::Context) {
        self.to.ports.timezone = timezone;
        let shown = |trigger: &Trigger| (trigger.id.clone(), trigger.next_due_at);
        let before: Vec<_> = self.triggers.values().map(shown).collect();
        let mut moved = Writes::new();
        for (id, due) in before {
            self.plan_next(&id);
            moved = moved.put_all(self.triggers.get(&id).filter(|now| now.next_due_at != due));
        }
        self.keep_quietly(moved);
        self.arm(ctx);
    }
}

impl Handler<Drain> for Scheduler {
    type Result = ();

    fn handle(&mut self, Drain: Drain, _: &mut Self::Context) {
        self.draining = true;
    }
}
