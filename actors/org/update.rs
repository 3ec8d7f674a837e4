//! Update of a team: it takes on other things, or is described in other words.

use actix::{ActorFutureExt, Handler, WrapFuture};

use super::{
    Answered, Org, OrgError, Update, answered,
    names::{check_scope, check_size},
    record::TeamRecord,
    tree::By,
};
use crate::{ids::MAIN, store::records::Writes, tool::records::Answer};

impl Org {
    /// The record with other words in its scope.
    fn rescoped(&self, update: &Update) -> Result<TeamRecord, OrgError> {
        let mut team = self.tree.as_parent(&update.by, &update.name)?.clone();
        let (add, remove) = (check_scope(&update.add)?, check_scope(&update.remove)?);
        team.scope.extend(add);
        team.scope.retain(|word| !remove.contains(word));
        if let Some(capabilities) = &update.capabilities {
            if let By::Team(_) = update.by {
                return Err(OrgError::NotAuthorized {
                    team: team.name,
                    caller: update.by.as_str().to_owned(),
                    rule: "only operators change what a team may do beyond its tools",
                });
            }
            team.capabilities.clone_from(capabilities);
        }
        check_size(&team.scope)?;
        if team.scope.is_empty() && team.name.as_str() != MAIN {
            return Err(OrgError::ScopeEmpty(team.name));
        }
        Ok(team)
    }
}

impl Handler<Update> for Org {
    type Result = Answered<TeamRecord>;

    fn handle(&mut self, update: Update, _: &mut Self::Context) -> Self::Result {
        if let Err(error) = self.rescoped(&update) {
            return answered(Err(error));
        }
        let folders = self.parts.folders.clone();
        let described = match update.description.clone() {
            Some(text) => folders.describe(update.name.clone(), text),
            None => Box::pin(std::future::ready(Ok(()))),
        };
        Box::pin(described.into_actor(self).then(move |described, org, _| {
            // The team may have changed while its file was written.
            let changed = described
                .map_err(|error| OrgError::Folder(error.to_string()))
                .and_then(|()| org.rescoped(&update));
            let team = match changed {
                Ok(team) => team,
                Err(error) => return answered(Err(error)),
            };
            let writes = match &update.call {
                Some(call) => Writes::new().put_at(call, &Answer(&team)),
                None => Writes::new(),
            };
            // The next change begins from this one, whether or not it is on the disk yet.
            org.tree.put(team.clone());
            org.store(team, writes)
        }))
    }
}
