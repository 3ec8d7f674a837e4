//! Bootstrap: the first work of a team, and whether it came to something.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};

use super::{
    Answered, Bootstrap, Org, OrgError, Parts, answered,
    record::{Phase, TeamRecord},
};
use crate::{
    channel::records::OutboxWrites,
    excerpt,
    frame::{Notification, NotificationKind},
    ids::{TaskId, TeamKey},
    notice::{Notice, NoticeKind},
    queue::{Ended, submit::Submit},
    store::records::Writes,
    task::{
        Kind, Task,
        outcome::{Ending, Outcome},
        records as tasks,
    },
};

impl Org {
    /// First works that ended while nobody listened.
    pub(super) fn look_at_bootstraps(&self, ctx: &mut Context<Self>) {
        for team in self.tree.iter() {
            if let (Phase::Initializing, Some(task)) = (team.phase, team.bootstrap_task.clone()) {
                self.look_at(task, ctx);
            }
        }
    }

    /// Reads a first work, and judges it if it has ended.
    pub(super) fn look_at(&self, task: TaskId, ctx: &mut Context<Self>) {
        let store = self.parts.store.clone();
        let row = async move {
            store.read(move |storage| tasks::find(storage, &task)).await.ok().flatten()
        };
        ctx.spawn(row.into_actor(self).map(|row, org, ctx| {
            if let Some(task) = row {
                org.judge(task, ctx);
            }
        }));
    }

    /// Judges the first work of a team, if it has ended.
    fn judge(&self, task: Task, ctx: &mut Context<Self>) {
        let (Some(team), Some(outcome)) = (self.waits_for(&task), task.outcome.clone()) else {
            return;
        };
        let (parts, key) = (self.parts.clone(), team.key());
        let settled = self.is_settled();
        let judged = crate::spawn::local(async move {
            settled.await;
            judge(&parts, &key, &outcome).await
        });
        ctx.spawn(judged.into_actor(self).map(move |judged, org, ctx| {
            let (Ok(why), Some(team)) = (judged, org.waits_for(&task)) else { return };
            let mut team = team.clone();
            let mut writes = org.told(&team, &task, why.as_deref());
            team.phase = match why {
                None => Phase::Ready,
                Some(why) => {
                    tracing::warn!(team = %team.name, error = %why, "the team could not set itself up");
                    writes = writes.put(&org.failed(&team, &task.id, &why));
                    Phase::Failed
                }
            };
            org.change_state(team, writes, ctx);
        }));
    }

    /// The team, if this was its first work and nothing has been made of that yet.
    fn waits_for(&self, task: &Task) -> Option<&TeamRecord> {
        let team = self.tree.get(task.lane.team.as_str())?;
        let is_it = team.generation == task.generation
            && team.bootstrap_task.as_ref() == Some(&task.id)
            && team.phase == Phase::Initializing;
        is_it.then_some(team)
    }

    /// The person who asked for the team hears how its first work ended.
    fn told(&self, team: &TeamRecord, task: &Task, why: Option<&str>) -> Writes {
        let Some(source) = &task.source else { return Writes::new() };
        let (text, status) = match why {
            None => ("Team is ready.".to_owned(), "done"),
            Some(why) => (format!("Team setup failed: {why}."), "failed"),
        };
        let notification = Notification {
            task_id: Some(task.id.clone()),
            status: status.to_owned(),
            ..Notification::new(
                NotificationKind::Bootstrap,
                team.name.clone(),
                format!("[{}] {text}", team.name),
                &excerpt::of_task(&task.id),
            )
        };
        let (topic, now) = (source.topic.clone(), self.parts.clock.now());
        Writes::new().told(&source.channel, topic, task.label, now, notification)
    }

    fn failed(&self, team: &TeamRecord, task: &TaskId, why: &str) -> Notice {
        let name = &team.name;
        let text = format!(
            "Team `{name}` could not set itself up: {why}. It takes tasks all the same; \
             `hivewright teams bootstrap {name}` lets it try again."
        );
        let (ids, kind, now) =
            (&self.parts.ids, NoticeKind::BootstrapFailed, self.parts.clock.now());
        Notice::of_team(ids, kind, name, text, vec![task.to_string()], now)
    }
}

/// Why a first work came to nothing; none if the team is ready.
async fn judge(parts: &Parts, team: &TeamKey, outcome: &Outcome) -> Option<String> {
    if outcome.ending != Ending::Done {
        let why = outcome.message.as_deref().unwrap_or("no reason was given");
        return Some(format!("its first task ended as {}: {why}", outcome.ending.as_str()));
    }
    if outcome.text.trim().is_empty() {
        return Some("its first task ended without a word".to_owned());
    }
    if parts.folders.is_furnished(team.name.clone()).await {
        return None;
    }
    for belonging in parts.belongings.iter() {
        if belonging.has_any(team).await {
            return None;
        }
    }
    Some("it has written no rule, no subagent and no memory".to_owned())
}

impl Handler<Ended> for Org {
    type Result = ();

    fn handle(&mut self, ended: Ended, ctx: &mut Self::Context) {
        if ended.kind == Kind::Bootstrap {
            self.look_at(ended.task, ctx);
        }
    }
}

impl Handler<Bootstrap> for Org {
    type Result = Answered<Option<TaskId>>;

    fn handle(&mut self, Bootstrap { task }: Bootstrap, _: &mut Self::Context) -> Self::Result {
        let mut team = match self.tree.known(&task.lane.team) {
            Ok(team) if team.phase == Phase::Ready => return answered(Ok(None)),
            Ok(team) => team.clone(),
            Err(error) => return answered(Err(error)),
        };
        let id = task.id.clone();
        let before = (team.phase, team.bootstrap_task.clone());
        team.phase = Phase::Initializing;
        team.bootstrap_task = Some(id.clone());
        let submitted = self.parts.work.submit(Submit {
            task: Task { kind: Kind::Bootstrap, generation: team.generation, ..task },
            writes: Writes::new().put(&team),
            overlap: None,
            giver: None,
        });
        // Its end may be told before the answer is: it must be waited for by then.
        let key = team.key();
        self.tree.put(team);
        Box::pin(submitted.into_actor(self).map(move |result, org, _| {
            let name = &key.name;
            if result.is_err()
                && let Some(team) = org.tree.get(name.as_str())
                && team.bootstrap_task.as_ref() == Some(&id)
            {
                let (phase, bootstrap_task) = before;
                org.tree.put(TeamRecord { phase, bootstrap_task, ..team.clone() });
            }
            org.parts.view.show(org.tree.clone());
            result.map(|_| Some(id)).map_err(OrgError::from)
        }))
    }
}
