//! Pause of teams: an operator lets them rest or work again, and one that keeps dying rests for a while. Both
//! survive restarts.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};
use futures_util::future::join_all;

use super::{
    Answered, Degrade, Org, OrgError, Pause, answered,
    record::{TeamRecord, TeamState},
    tree::By,
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
        let Some(team) = self.tree.get(name.as_str()).cloned() else { return };
        match (team.state, team.rested_at) {
            (TeamState::Degraded, Some(at)) if at <= now => {
                let active = TeamRecord { state: TeamState::Active, rested_at: None, ..team };
                self.change_state(active, Writes::new(), ctx);
            }
            // The clock was set back, or this was an earlier rest.
            _ => self.wake_when_rested(&team, ctx),
        }
    }

    pub(super) fn change_state(
        &mut self,
        team: TeamRecord,
        writes: Writes,
        ctx: &mut Context<Self>,
    ) {
        self.tree.put(team.clone());
        ctx.spawn(self.store(team, writes).map(|_, _, _| ()));
    }

    /// The teams that change, and those that are as wanted already.
    fn repaused(&self, pause: &Pause) -> Result<(Vec<TeamRecord>, Vec<TeamName>), OrgError> {
        let wanted = if pause.paused { TeamState::Paused } else { TeamState::Active };
        let paused_by = match &pause.by {
            By::Team(team) if pause.paused => Some(team.clone()),
            _ => None,
        };
        let meant: Vec<&TeamRecord> = match &pause.team {
            Some(name) => {
                let team = self.tree.as_keeper(&pause.by, name)?;
                if team.state == TeamState::Draining {
                    return Err(OrgError::Draining(name.clone()));
                }
                vec![team]
            }
            None => self.tree.iter().filter(|team| team.state != TeamState::Draining).collect(),
        };
        let names = meant.iter().map(|team| team.name.clone()).collect();
        let changed = meant
            .into_iter()
            .filter(|team| {
                team.state != wanted || (team.paused_by.is_some() && paused_by.is_none())
            })
            .map(|team| TeamRecord {
                state: wanted,
                rested_at: None,
                paused_by: paused_by.clone(),
                ..team.clone()
            });
        Ok((changed.collect(), names))
    }
}

impl Handler<Pause> for Org {
    type Result = Answered<Vec<TeamName>>;

    fn handle(&mut self, pause: Pause, _: &mut Self::Context) -> Self::Result {
        let (changed, names) = match self.repaused(&pause) {
            Ok(found) => found,
            Err(error) => return answered(Err(error)),
        };
        let mut writes = Writes::new();
        for team in changed {
            writes = writes.put(&team);
            if pause.paused {
                self.parts.work.set_state(&team.name, team.state);
            }
            self.tree.put(team);
        }
        if pause.now {
            for name in &names {
                self.parts.work.dismiss(name);
            }
        }
        let rests = pause.paused || pause.now;
        let resting = names.iter().filter(|_| rests).flat_map(|name| {
            self.parts.belongings.iter().map(move |belonging| belonging.rest(name, pause.now))
        });
        let resting = join_all(resting);
        let committed = self.parts.store.commit(writes);
        let done = async move {
            let result = committed.await;
            // Behind what was dismissed: no call is told that a program ended under it.
            resting.await;
            result
        };
        Box::pin(done.into_actor(self).map(move |result, org, _| {
            result.map_err(|_| OrgError::Stopping)?;
            org.parts.view.show(org.tree.clone());
            if !pause.paused {
                // As it stands now: a pause or a shutdown may have come between.
                for team in names.iter().filter_map(|name| org.tree.get(name.as_str())) {
                    org.parts.work.set_state(&team.name, team.state);
                    org.parts.work.retry(&team.name);
                }
            }
            Ok(names)
        }))
    }
}

impl Handler<Degrade> for Org {
    type Result = ();

    fn handle(&mut self, Degrade { team, deaths, within }: Degrade, ctx: &mut Self::Context) {
        let now = self.parts.clock.now();
        let text = format!(
            "Team `{team}` died {deaths} times within {minutes} minutes and rests for as long. Its \
             tasks wait; the log says what it died of.",
            minutes = within.as_secs() / 60
        );
        let (ids, kind) = (&self.parts.ids, NoticeKind::TeamDegraded);
        let writes = Writes::new().put(&Notice::of_team(ids, kind, &team, text, Vec::new(), now));
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
                ctx.spawn(self.parts.store.commit(writes).into_actor(self).map(|_, _, _| ()));
            }
        }
    }
}
