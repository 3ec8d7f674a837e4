//! Parking: turns that were set aside. They hold no slot and go on from their journal.

use std::collections::BTreeSet;

use actix::{Context, Handler, Message};

use super::{Cure, Progressed, Queue, entries::Entry, schedule::Ticket, team_events::TeamEvent};
use crate::{
    approvals::record::{Resolved, Status},
    ids::{TaskId, TeamName},
    notice::{Notice, NoticeKind},
    policy::caution::Kind,
    store::records::Writes,
    task::{Parked, Task, Wait, WaitReason},
};

/// A turn sets its task aside until something outside has happened. No attempt is counted.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Park {
    pub(crate) task: Task,
    pub(crate) wait: Wait,
}

/// What tasks wait for may be there now: they try again, in the order in which they came.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct UnparkAll {
    pub reason: WaitReason,
    /// Whose they are; none is everyone's.
    pub team: Option<TeamName>,
}

/// Fact: a team cannot work, and why. The operator hears of it once.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct Hindered {
    pub(crate) team: TeamName,
    /// What its work waits for, if it can.
    pub(crate) reason: WaitReason,
    /// Why, in words for a person.
    pub(crate) note: String,
}

/// Whether a team works, and takes work.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub(crate) struct SetState {
    pub(crate) team: TeamName,
    pub(crate) paused: bool,
    /// It takes no new work from other teams.
    pub(crate) draining: bool,
}

impl Queue {
    /// A task that a former process had set aside.
    ///
    /// Settings and credentials may have been cured meanwhile: whoever waits for those tries again.
    pub(super) fn keep_parked(&mut self, mut task: Box<Task>) {
        let Some(parked) = task.parked.clone() else { return };
        if is_cured_by_settings(parked.reason) {
            self.told.insert((task.lane.team.clone(), parked.reason));
            task.parked = None;
            return self.wait(Entry::new(task));
        }
        if parked.reason.holds_lane() {
            self.schedule.push(&task.lane, Ticket::from(&*task));
        }
        self.hold_for(&task);
        self.expect(&task);
        self.tasks.insert(Entry::new(task));
    }

    /// A lane rests as long as its first task waits for a provider.
    fn hold_for(&mut self, task: &Task) {
        if let Some(parked) = &task.parked
            && parked.reason.holds_lane()
            && let Some(until) = parked.until
        {
            self.schedule.hold(&task.lane, until);
        }
    }

    /// Tasks whose turns were set aside, first come first.
    pub(super) fn parked(&self, meant: impl Fn(&Task, &Parked) -> bool) -> Vec<TaskId> {
        let is_meant = |task: &&Task| task.parked.as_ref().is_some_and(|of| meant(task, of));
        let tasks = self.tasks.all().map(|entry| &*entry.task);
        let mut parked: Vec<&Task> = tasks.filter(is_meant).collect();
        parked.sort_by_key(|task| task.arrival);
        parked.into_iter().map(|task| task.id.clone()).collect()
    }

    pub(super) fn unpark(&mut self, id: &TaskId, ctx: &mut Context<Self>) {
        let Some(entry) = self.tasks.get_mut(id) else { return };
        let Some(parked) = entry.task.parked.take() else {
            // It is on its way to be set aside: then it goes on at once.
            entry.unparked = true;
            return;
        };
        let task = Task::clone(&entry.task);
        if parked.reason.holds_lane() {
            self.schedule.unhold(&task.lane);
        } else {
            self.schedule.push(&task.lane, Ticket::from(&task));
        }
        self.expect(&task);
        self.commit(Writes::new().put(&task), ctx);
    }

    /// A team that rests, or whose tasks do, after it died starts turns again.
    fn wake(&mut self, team: &TeamName) {
        let now = self.clock.now();
        self.schedule.rest(team, now);
        for id in self.tasks.ids_of_team(team) {
            if let Some(Entry { task, .. }) = self.tasks.get_mut(&id)
                && task.parked.is_none()
                && task.not_before.take().is_some()
            {
                self.schedule.unhold(&task.lane);
            }
        }
    }

    /// Something was cured after a task was leased: it may have failed for what is no more.
    fn is_cured(&self, entry: &Entry, reason: WaitReason) -> bool {
        let team = &entry.task.lane.team;
        self.cures.iter().any(|cure| {
            cure.reason == reason
                && cure.moment > entry.leased
                && cure.team.as_ref().is_none_or(|of| of == team)
        })
    }

    /// What tells the operator that a team cannot work: once, until it works again.
    fn hindrance(&mut self, team: &TeamName, reason: WaitReason, note: &str) -> Option<Notice> {
        if !is_cured_by_settings(reason) || !self.told.insert((team.clone(), reason)) {
            return None;
        }
        let (kind, way_on) = match reason {
            WaitReason::Login => {
                (NoticeKind::Login, "goes on when the key is replaced, or when the team is resumed")
            }
            _ => (NoticeKind::ConfigInvalid, "goes on by itself when that is cured"),
        };
        let note = note.trim_end_matches('.');
        let text = format!("Team {team} cannot work: {note}. What can wait, waits; it {way_on}.");
        Some(Notice::of_team(&self.ids, kind, team, text, Vec::new(), self.clock.now()))
    }
}

impl Handler<Park> for Queue {
    type Result = ();

    fn handle(&mut self, Park { task, wait }: Park, ctx: &mut Self::Context) {
        let Some(entry) = self.tasks.get(&task.id).filter(|_| self.is_held(&task)) else { return };
        let mut task =
            Task { attempts: task.attempts.saturating_sub(1), redelivered: true, ..task };
        if entry.cancelled || entry.unparked || self.is_cured(entry, wait.reason) {
            return self.take_back(task, None, ctx);
        }
        if !entry.joined {
            self.schedule.finished(&task.lane, std::time::Duration::ZERO);
        }
        task.lease = None;
        task.parked =
            Some(Parked { reason: wait.reason, since: self.clock.now(), until: wait.until });
        if wait.reason.holds_lane() {
            self.schedule.put_back(&task.lane, Ticket::from(&task), None);
            self.hold_for(&task);
        }
        // Its turn may not have come to show what was in the inbox.
        self.inboxes.insert(task.lane_key());
        self.tell_progress(&task, Progressed::Returned);
        self.expect(&task);
        let team = task.lane.team.clone();
        let notice = self.hindrance(&team, wait.reason, &wait.note);
        self.commit(Writes::new().put(&task).put_all(&notice), ctx);
        self.tasks.insert(Entry::new(task));
        if let (Some(_), Some(event)) = (notice, TeamEvent::hindered(wait.reason)) {
            self.tell_askers(&team, event, ctx);
        }
        self.dispatch(ctx);
    }
}

impl Handler<Hindered> for Queue {
    type Result = ();

    fn handle(&mut self, Hindered { team, reason, note }: Hindered, ctx: &mut Self::Context) {
        if let Some(notice) = self.hindrance(&team, reason, &note) {
            self.commit(Writes::new().put(&notice), ctx);
            if let Some(event) = TeamEvent::hindered(reason) {
                self.tell_askers(&team, event, ctx);
            }
        }
    }
}

impl Handler<Resolved> for Queue {
    type Result = ();

    fn handle(&mut self, Resolved(approval): Resolved, ctx: &mut Self::Context) {
        if let Some(task) = &approval.task {
            self.unpark(task, ctx);
        }
        // One of those who wait for money has asked for all.
        if approval.kind == Kind::Budget && approval.status != Status::Denied {
            let reason = WaitReason::Budget;
            self.handle(UnparkAll { reason, team: None }, ctx);
        }
        self.dispatch(ctx);
    }
}

impl Handler<UnparkAll> for Queue {
    type Result = ();

    fn handle(&mut self, UnparkAll { reason, team }: UnparkAll, ctx: &mut Self::Context) {
        let of_team =
            |task: &Task| -> bool { team.as_ref().is_none_or(|team| task.lane.team == *team) };
        let waiting = self.parked(|task, parked| parked.reason == reason && of_team(task));
        if let Some(event) = TeamEvent::cured(reason) {
            let teams = waiting.iter().filter_map(|id| Some(&self.tasks.get(id)?.task.lane.team));
            for team in teams.collect::<BTreeSet<_>>() {
                self.tell_askers(team, event, ctx);
            }
        }
        for id in waiting {
            self.unpark(&id, ctx);
        }
        self.moment += 1;
        self.cures.retain(|cure| (cure.reason, &cure.team) != (reason, &team));
        self.cures.push(Cure { reason, team, moment: self.moment });
        self.dispatch(ctx);
    }
}

impl Handler<SetState> for Queue {
    type Result = ();

    fn handle(&mut self, SetState { team, paused, draining }: SetState, ctx: &mut Self::Context) {
        if self.schedule.is_paused(&team) != paused {
            let event = if paused { TeamEvent::Paused } else { TeamEvent::Resumed };
            self.tell_askers(&team, event, ctx);
        }
        self.schedule.pause(&team, paused);
        if !paused && !draining {
            self.wake(&team);
        }
        if draining {
            self.draining_teams.insert(team);
        } else {
            self.draining_teams.remove(&team);
        }
        self.dispatch(ctx);
    }
}

/// A file, a name or a key is wrong: whoever waits for it tries again when settings change.
fn is_cured_by_settings(reason: WaitReason) -> bool {
    matches!(reason, WaitReason::Config | WaitReason::Login)
}
