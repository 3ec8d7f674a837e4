//! Pause: an operator lets teams rest, or work again. What is wanted survives restarts.

use actix::{ActorFutureExt, Handler, ResponseActFuture, WrapFuture};

use super::{
    Org, OrgError, Pause,
    record::{TeamRecord, TeamState},
};
use crate::{ids::TeamName, store::records::Writes};

impl Org {
    /// The teams that change, and those that are as wanted already.
    fn repaused(&self, pause: &Pause) -> Result<(Vec<TeamRecord>, Vec<TeamName>), OrgError> {
        let wanted = if pause.paused { TeamState::Paused } else { TeamState::Active };
        let meant: Vec<&TeamRecord> = match &pause.team {
            Some(name) => {
                let team = self.tree.known(name)?;
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
            .filter(|team| team.state != wanted)
            .map(|team| TeamRecord { state: wanted, rested_at: None, ..team.clone() });
        Ok((changed.collect(), names))
    }
}

impl Handler<Pause> for Org {
    type Result = ResponseActFuture<Self, Result<Vec<TeamName>, OrgError>>;

    fn handle(&mut self, pause: Pause, _: &mut Self::Context) -> Self::Result {
        let (changed, names) = match self.repaused(&pause) {
            Ok(found) => found,
            Err(error) => return Box::pin(std::future::ready(Err(error)).into_actor(self)),
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
        let committed = self.parts.store.commit(writes);
        Box::pin(committed.into_actor(self).map(move |result, org, _| {
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
