//! Context of a team: what its sessions need of it, so that they need nothing else of the actor.

use std::{sync::Arc, time::Duration};

use actix::{Addr, Recipient};

use crate::{
    approvals::{Opened, requests::RequestBuilder},
    briefing::{Briefing, OnHindrance},
    budget::{Day, Days, Ledger},
    channel::{Channel, Deliver},
    clock::{Clock, Timestamp},
    ids::{Ids, LeaseId, TaskId, TeamName},
    live::Publisher,
    meter::Meter,
    notice::{Notice, NoticeKind},
    org::view::OrgView,
    queue::{Queue, Return},
    store::{Numbered, StoreError, StoreHandle, records::Writes},
    task::Task,
};

/// All that a team is made of.
#[derive(Clone)]
pub(crate) struct Recipe {
    pub(crate) store: StoreHandle,
    pub(crate) channel: Addr<Channel>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Ids,
    pub(crate) briefing: Arc<dyn Briefing>,
    /// Told of turns that wait for settings to be put right.
    pub(crate) on_hindrance: OnHindrance,
    pub(crate) requests: RequestBuilder,
    pub(crate) approvals: Recipient<Opened>,
    pub(crate) view: OrgView,
    pub(crate) ledger: Ledger,
    pub(crate) days: Arc<dyn Days>,
    pub(crate) meter: Arc<dyn Meter>,
    /// Tells what happens to whoever watches.
    pub(crate) live: Publisher,
    /// A team with nothing to do for this long is put away.
    pub(crate) idle: Duration,
    /// Calls that do not stop when told are aborted after this.
    pub(crate) grace: Duration,
    /// A turn that cannot be prepared within this is tried again.
    pub(crate) preparation: Duration,
    /// A team that does not answer within this is replaced.
    pub(crate) answers_within: Duration,
}

/// Who a team is, what it is made of, and who gives it work.
pub(super) struct TeamContext {
    pub(super) name: TeamName,
    pub(super) recipe: Recipe,
    pub(super) queue: Addr<Queue>,
}

impl TeamContext {
    pub(super) fn now(&self) -> Timestamp {
        self.recipe.clock.now()
    }

    pub(super) fn today(&self) -> Day {
        self.recipe.days.day_of(self.now())
    }

    pub(super) fn deliver(&self, frames: Vec<Numbered>) {
        self.recipe.channel.do_send(Deliver { frames });
    }

    /// Delivers the frames of a commit once it is made. Returns whether it was.
    pub(super) async fn deliver_once(
        self: Arc<Self>,
        committed: impl Future<Output = Result<Vec<Numbered>, StoreError>>,
    ) -> bool {
        let frames = committed.await;
        frames.map(|frames| self.deliver(frames)).is_ok()
    }

    /// A task waits again, in front of its lane. The attempt does not count.
    pub(super) fn give_back(&self, task: Task) {
        self.queue.do_send(Return { task, after: None, uncounted: true });
    }

    /// The same for tasks that joined a turn, before its own: each goes to the front of the lane, so the first goes last.
    pub(super) fn give_back_joined(&self, joined: Vec<(Task, LeaseId)>) {
        for (task, _) in joined.into_iter().rev() {
            self.give_back(task);
        }
    }

    /// A notice to the operator about a team, which refers to a task or an approval.
    pub(super) fn notice(
        &self,
        kind: NoticeKind,
        team: &TeamName,
        text: String,
        about: &impl ToString,
    ) -> Notice {
        let refs = vec![about.to_string()];
        Notice::of_team(&self.recipe.ids, kind, team, text, refs, self.now())
    }

    /// Tells the operator what was done about work that stood still.
    pub(super) fn tell_of_stall(&self, task: &TaskId, done: String) {
        let ids = &self.recipe.ids;
        let notice = Notice::stall(ids, &self.name, Some(task), done, self.now());
        // The store takes it in now; nobody waits until it is safe.
        drop(self.recipe.store.commit(Writes::new().put(&notice)));
    }
}
