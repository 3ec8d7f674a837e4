//! Team events: what became of a team, for the inbox of each lane that waits for work of it.

use actix::Context;
use serde_json::json;

use super::{Queue, entries::Entry};
use crate::{
    ids::{TaskId, TeamName},
    inbox::InboxEvent,
    store::records::Writes,
    task::{Audience, Label, WaitReason, records::LaneKey},
    words,
};

words! {
    /// What became of a team.
    pub(super) enum TeamEvent {
        Paused = "team_paused",
        Resumed = "team_resumed",
        Crashed = "team_crashed",
        NeedsLogin = "needs_login",
        LoggedIn = "logged_in",
        ConfigFailed = "config_failed",
        ConfigApplied = "config_applied",
    }
}

impl TeamEvent {
    /// A team cannot work for this reason, if it is one that concerns all its work.
    pub(super) fn hindered(reason: WaitReason) -> Option<Self> {
        match reason {
            WaitReason::Login => Some(Self::NeedsLogin),
            WaitReason::Config => Some(Self::ConfigFailed),
            _ => None,
        }
    }

    /// The same is no more.
    pub(super) fn cured(reason: WaitReason) -> Option<Self> {
        match reason {
            WaitReason::Login => Some(Self::LoggedIn),
            WaitReason::Config => Some(Self::ConfigApplied),
            _ => None,
        }
    }
}

/// A lane that waits for work, on behalf of somebody.
struct Asker {
    lane: LaneKey,
    audience: Audience,
    tasks: Vec<TaskId>,
}

impl Queue {
    /// Puts an event into the inboxes of those who wait, one each. No model is called for it.
    pub(super) fn tell_askers(&self, team: &TeamName, event: TeamEvent, ctx: &mut Context<Self>) {
        let mut askers: Vec<Asker> = Vec::new();
        for Entry { task, .. } in self.tasks.of_team(team) {
            let Some(lane) = task.reply_to.clone() else { continue };
            let (lane, audience) = (LaneKey { lane, generation: task.asker }, task.audience());
            let is_same = |asker: &&mut Asker| asker.lane == lane && asker.audience == audience;
            match askers.iter_mut().find(is_same) {
                Some(asker) => asker.tasks.push(task.id.clone()),
                None => askers.push(Asker { lane, audience, tasks: vec![task.id.clone()] }),
            }
        }
        if askers.is_empty() {
            return;
        }
        let mut writes = Writes::new();
        let mut told = Vec::new();
        for Asker { lane, audience, mut tasks } in askers {
            tasks.sort();
            let arrival = self.ids.arrival();
            let text = json!({ "event": event.as_str(), "team": team, "task_ids": tasks });
            let row = InboxEvent {
                id: format!("{team}:{}:{arrival}", event.as_str()),
                text: format!("[system] {text}"),
                label: Label::Trusted,
                at: self.clock.now(),
                audience: Some(audience),
            };
            writes = writes.put_at(&(lane.clone(), arrival), &row);
            told.push(lane);
        }
        self.commit_then(writes, ctx, move |queue, _| queue.inboxes.extend(told));
    }
}
