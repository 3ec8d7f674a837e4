//! Spawn of a team: the folder first, under a mark; then one commit makes it real.

use actix::{ActorFutureExt, Handler, WrapFuture};

use super::{
    Answered, Org, OrgError, Parts, Spawn, answered,
    folders::FolderError,
    names,
    record::{Phase, TeamRecord},
};
use crate::{
    ids::TeamKey,
    queue::{
        refusal::Refusal,
        submit::{Submission, Submit},
    },
    task::Task,
};

impl Org {
    /// The record of a team that may be made.
    fn admit(&self, spawn: &Spawn) -> Result<TeamRecord, OrgError> {
        let name =
            self.tree.check_spawn(&spawn.name, &spawn.parent, spawn.limits, self.making.iter())?;
        let scope = names::check_scope(&spawn.scope)?;
        if scope.is_empty() {
            return Err(OrgError::ScopeEmpty(name));
        }
        Ok(TeamRecord {
            generation: self.tree.next_generation(&name),
            name,
            parent: Some(spawn.parent.clone()),
            phase: Phase::Initializing,
            scope,
            created_by: spawn.by.as_str().to_owned(),
            bootstrap_task: Some(spawn.bootstrap.id.clone()),
            ..TeamRecord::main(self.parts.clock.now())
        })
    }
}

/// Makes the folder, then commits record, first work and all that belongs to it.
async fn make(parts: &Parts, record: &TeamRecord, spawn: Spawn) -> Result<(), OrgError> {
    let key = record.key();
    let made = parts.folders.make(key.clone(), spawn.plan).await;
    made.map_err(|error| match error {
        FolderError::Taken => OrgError::NameTaken(key.name.clone()),
        other => OrgError::Folder(format!("the folder of `{}`: {other}", key.name)),
    })?;
    let committed = async {
        let mut writes = spawn.writes.put(record);
        let mut then = None;
        if let Some(beside) = spawn.beside {
            let alongside = beside(key.clone()).await.map_err(OrgError::Beside)?;
            writes = writes.and(alongside.writes);
            then = Some(alongside.then);
        }
        let submitted = parts.work.submit(Submit {
            task: Task { generation: record.generation, ..spawn.bootstrap },
            writes,
            overlap: None,
            giver: spawn.giver,
        });
        match submitted.await? {
            Submission::Enqueued { .. } => {
                if let Some(then) = then {
                    then.await;
                }
                Ok(())
            }
            Submission::Skipped { .. } | Submission::NeedsConfirmation { .. } => {
                Err(OrgError::Busy(key.name.clone()))
            }
        }
    };
    let committed = committed.await;
    match &committed {
        Ok(()) => parts.folders.keep(key).await,
        // The process is about to end: the next start sees whether the commit was made.
        Err(OrgError::Refused(Refusal::Stopping)) => {}
        Err(_) => parts.folders.unmake(key).await,
    }
    committed
}

impl Handler<Spawn> for Org {
    type Result = Answered<TeamKey>;

    fn handle(&mut self, spawn: Spawn, _: &mut Self::Context) -> Self::Result {
        let record = match self.admit(&spawn) {
            Ok(record) => record,
            Err(error) => return answered(Err(error)),
        };
        let name = record.name.clone();
        self.making.insert(name.clone(), spawn.parent.clone());
        let (parts, settled) = (self.parts.clone(), self.is_settled());
        let made = actix::spawn(async move {
            settled.await;
            make(&parts, &record, spawn).await.map(|()| record)
        });
        Box::pin(made.into_actor(self).map(move |joined, org, ctx| {
            org.making.remove(&name);
            let record = joined.unwrap_or(Err(OrgError::Stopping))?;
            let key = record.key();
            tracing::info!(team = %key.name, parent = record.parent.as_ref().map(display), "team made");
            let first = record.bootstrap_task.clone();
            org.put(record);
            // Its end may have been quicker than the news that the team is there.
            if let Some(task) = first {
                org.look_at(task, ctx);
            }
            Ok(key)
        }))
    }
}
