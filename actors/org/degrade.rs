//! Degrade: a team that keeps dying rests, and works again once it has rested, over restarts too.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};

use super::{
    Degrade, Org,
    record::{TeamRecord, TeamState},
};
use crate::{
    ids::TeamName,
    notice::{Notice, NoticeKind},
    store::records::Writes,
};

impl Org {
    /// Sets the timer of a team that rests.
    pub(super) fn wake_when_rested(&self, team: &TeamRecord, ctx: &mut Context<Self>) {
        if let (TeamState::Degraded, Some(rested_at)) = (team.state, team.rested_at) {
            let name = team.name.clone();
            let left = rested_at.since(self.parts.clock.now());
            ctx.run_later(left, move |org, ctx| org.rested(&name, ctx));
        }
    }

    /// A timer ended. It may be of an earlier rest, or an operator may have decided otherwise.
    fn rested(&mut self, name: &TeamName, ctx: &mut Context<Self>) {
        let now = self.parts.clock.now();
        let Some(team) = self.tree.get(name.as_str()).cloned() else {
            return;
        };
        match (team.state, team.rested_at) {
            (TeamState::Degraded, Some(at)) if at <= now => {
                let active = TeamRecord { state: TeamState::Active, rested_at: None, ..team };
                self.change_state(active, Writes::new(), ctx);
            }
            // The clock was set back, or this was an earlier rest.
            _ => self.wake_when_rested(&team, ctx),
        }
    }

    fn change_state(&mut self, team: TeamRecord, writes: Writes, ctx: &mut Context<Self>) {
        self.tree.put(team.clone());
        let stored = self.store(team, writes);
        ctx.spawn(stored.map(|_, _, _| ()));
    }
}

impl Handler<Degrade> for Org {
    type Result = ();

    fn handle(&mut self, degrade: Degrade, ctx: &mut Self::Context) {
        let Degrade { team, deaths, within } = degrade;
        let now = self.parts.clock.now();
        let writes = Writes::new().put(&Notice {
            id: self.parts.ids.notice(),
            kind: NoticeKind::TeamDegraded,
            team: Some(team.clone()),
            text: format!(
                "Team `{team}` died {deaths} times within {minutes} minutes and rests for as long. Its \
                 tasks wait; the log says what it died of.",
                minutes = within.as_secs() / 60
            ),
            refs: Vec::new(),
            at: now,
            read: false,
        });
        let record = self.tree.get(team.as_str()).cloned();
        let may_rest =
            |team: &TeamRecord| matches!(team.state, TeamState::Active | TeamState::Degraded);
        match record.filter(may_rest) {
            Some(record) => {
                let resting = TeamRecord {
                    state: TeamState::Degraded,
                    rested_at: Some(now + within),
                    ..record
                };
                self.wake_when_rested(&resting, ctx);
                self.change_state(resting, writes, ctx);
            }
            None => {
                let committed = self.parts.store.commit(writes);
                ctx.spawn(committed.into_actor(self).map(|_, _, _| ()));
            }
        }
    }
}
