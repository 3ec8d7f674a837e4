//! Trigger management: the one way in which triggers are made, changed, switched and removed.

use std::collections::BTreeMap;

use actix::{Context, Handler, Message, ResponseFuture};
use futures_util::FutureExt;

use super::{
    Refusal, Scheduler,
    records::removed,
    trigger::{
        State, Trigger, Which,
        definition::Definition,
        validation::{Problems, check_cursors, is_reserved},
    },
};
use crate::{
    ids::{TeamKey, TriggerId},
    notice::NoticeKind,
    queue::submit::CancelTask,
    store::records::Writes,
    task::Label,
};

/// A team has at most this many.
pub const MAX_TRIGGERS_PER_TEAM: usize = 50;

#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct Create {
    pub team: TeamKey,
    pub definition: Definition,
    pub enable: bool,
    pub by: String,
}

/// Changes a trigger. Answered with what it is then, or was, once that is durable.
#[derive(Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct Manage {
    pub which: Which,
    pub change: Change,
}

pub enum Change {
    /// Another definition, worked out of the present one.
    Define(Define),
    Enable,
    Disable {
        reason: String,
        /// Its tasks end too.
        cancel_running: bool,
    },
    /// What its runs leave for one another is replaced.
    SetCursors(BTreeMap<String, String>),
    /// It is removed. What runs goes on, and its runs are kept.
    Delete,
}

/// Works out what a trigger becomes.
pub type Define = Box<dyn FnOnce(&Trigger) -> Result<Definition, Problems> + Send>;

/// Removes all triggers of a team that is being shut down. Answers how many there were.
#[derive(Clone, Debug, Message)]
#[rtype(result = "usize")]
pub struct Forget {
    pub team: TeamKey,
}

type Answered = ResponseFuture<Result<Trigger, Refusal>>;

impl Scheduler {
    pub(super) fn find(&self, which: &Which) -> Result<&Trigger, Refusal> {
        let found = match which {
            Which::Id(id) => self.triggers.get(id),
            Which::Named { team, name } => self.named(team, name),
        };
        found.ok_or(Refusal::NotFound)
    }

    pub(super) fn named(&self, team: &TeamKey, name: &str) -> Option<&Trigger> {
        let mut triggers = self.triggers.values();
        triggers.find(|trigger| trigger.definition.name == name && trigger.team == *team)
    }

    /// A trigger becomes what it should be: it takes effect at once, and is answered when it is durable.
    fn put(&mut self, changed: Result<Trigger, Refusal>, ctx: &mut Context<Self>) -> Answered {
        let put = changed.and_then(|trigger| {
            let id = trigger.id.clone();
            self.take_in(trigger);
            self.arm(ctx);
            self.triggers.get(&id).cloned().ok_or(Refusal::NotFound)
        });
        let writes = put.as_ref().map(|trigger| Writes::new().put(trigger)).unwrap_or_default();
        self.answer(put, writes)
    }

    /// Answers once the rows are durable.
    fn answer(&self, answer: Result<Trigger, Refusal>, writes: Writes) -> Answered {
        if answer.is_err() {
            return Box::pin(std::future::ready(answer));
        }
        let kept = self.keep(writes);
        Box::pin(async move { kept.await.and(answer) })
    }

    pub(super) fn create(&self, create: Create) -> Result<Trigger, Refusal> {
        let Create { team, definition, enable, by } = create;
        self.check(&definition, true)?;
        let name = &definition.name;
        if is_reserved(name) {
            return Err(Refusal::NameReserved(name.clone()));
        }
        self.check_name(&team, name)?;
        if self.triggers.values().filter(|trigger| trigger.team == team).count()
            >= MAX_TRIGGERS_PER_TEAM
        {
            return Err(Refusal::Limit {
                team: team.name.to_string(),
                most: MAX_TRIGGERS_PER_TEAM,
            });
        }
        let now = self.now();
        let mut trigger = Trigger::new(self.to.ids.trigger(), team, definition, &by, now);
        if enable {
            trigger.enable(now);
        }
        Ok(trigger)
    }

    fn check_name(&self, team: &TeamKey, name: &str) -> Result<(), Refusal> {
        if self.named(team, name).is_some() {
            Err(Refusal::NameTaken { team: team.name.to_string(), name: name.to_owned() })
        } else {
            Ok(())
        }
    }

    /// The trigger with an edit that someone made.
    fn edited(
        &self,
        which: &Which,
        edit: impl FnOnce(&mut Trigger) -> Result<(), Refusal>,
    ) -> Result<Trigger, Refusal> {
        let mut trigger = self.find(which)?.clone();
        edit(&mut trigger)?;
        trigger.revise(self.now());
        Ok(trigger)
    }

    fn redefine(&self, trigger: &mut Trigger, define: Define) -> Result<(), Refusal> {
        let old = &trigger.definition;
        if trigger.system.is_some() {
            return Err(Refusal::NameReserved(old.name.clone()));
        }
        let definition = define(trigger)?;
        let same_time = definition.config == old.config;
        self.check(&definition, !same_time)?;
        if definition.name != old.name {
            if is_reserved(&definition.name) {
                return Err(Refusal::NameReserved(definition.name));
            }
            self.check_name(&trigger.team, &definition.name)?;
        }
        trigger.definition = definition;
        if !same_time {
            // Other times begin now: none of them has been missed.
            let now = self.now();
            trigger.move_cursor(now);
            trigger.anchor_at = trigger.anchor_at.map(|_| now);
            trigger.held_from = None;
            trigger.occurrence = None;
            if trigger.state == State::Finished {
                trigger.state = State::Pending;
            }
        }
        Ok(())
    }

    fn delete(&mut self, which: &Which) -> Result<Trigger, Refusal> {
        let trigger = self.find(which)?;
        if trigger.system.is_some() {
            return Err(Refusal::NameReserved(trigger.definition.name.clone()));
        }
        let id = trigger.id.clone();
        self.drop_out(&id).ok_or(Refusal::NotFound)
    }

    /// A trigger that cannot be any more is switched off, and the operator hears of it once.
    pub(super) fn invalidate(&mut self, id: &TriggerId, problem: &str) {
        let now = self.now();
        let Some(trigger) = self.triggers.get_mut(id).filter(|trigger| trigger.is_active()) else {
            return;
        };
        trigger.disable(problem);
        let text = format!(
            "trigger `{}` of team `{}` is no longer valid and was disabled: {problem}. Correct it and enable it again",
            trigger.definition.name, trigger.team.name
        );
        let notice = trigger.notice(&self.to.ids, NoticeKind::InvalidTrigger, text, [], now);
        let writes = Writes::new().put(trigger).put(&notice);
        self.message_triggers.attend(trigger, &*self.to.ports.expressions);
        self.plan_next(id);
        self.keep_quietly(writes);
    }

    /// Stored triggers that an upgrade has made invalid never stop the start.
    pub(super) fn revalidate(&mut self) {
        let invalid: Vec<(TriggerId, String)> = self
            .triggers
            .values()
            .filter(|trigger| trigger.is_active())
            .filter_map(|trigger| {
                let problem = self.check(&trigger.definition, false).err()?;
                Some((trigger.id.clone(), problem.to_string()))
            })
            .collect();
        for (id, problem) in invalid {
            self.invalidate(&id, &problem);
        }
    }
}

impl Handler<Create> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, create: Create, ctx: &mut Self::Context) -> Self::Result {
        self.put(self.create(create), ctx)
    }
}

impl Handler<Manage> for Scheduler {
    type Result = Answered;

    fn handle(
        &mut self,
        Manage { which, change }: Manage,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let mut ends_tasks = false;
        let changed = match change {
            Change::Define(define) => self.edited(&which, |trigger| self.redefine(trigger, define)),
            Change::Enable => self.edited(&which, |trigger| {
                self.check(&trigger.definition, true)?;
                trigger.enable(self.now());
                Ok(())
            }),
            Change::Disable { reason, cancel_running } => {
                ends_tasks = cancel_running;
                self.edited(&which, |trigger| {
                    trigger.disable(reason);
                    Ok(())
                })
            }
            Change::SetCursors(cursors) => self.edited(&which, |trigger| {
                check_cursors(&cursors).map_err(Problems::from)?;
                trigger.cursors = cursors;
                trigger.cursors_label = Label::Trusted;
                Ok(())
            }),
            Change::Delete => {
                let deleted = self.delete(&which);
                let writes = deleted.as_ref().map(removed).unwrap_or_default();
                return self.answer(deleted, writes);
            }
        };
        let ended = changed.as_ref().ok().filter(|_| ends_tasks).map(|trigger| trigger.id.clone());
        for (task, run) in &self.runs {
            if ended.as_ref() == Some(&run.trigger) {
                let reason = "its trigger was disabled".to_owned();
                self.to.queue.do_send(CancelTask { task: task.clone(), reason });
            }
        }
        self.put(changed, ctx)
    }
}

impl Handler<Forget> for Scheduler {
    type Result = ResponseFuture<usize>;

    fn handle(&mut self, Forget { team }: Forget, _: &mut Self::Context) -> Self::Result {
        let gone = self.drop_all(|trigger| trigger.team == team);
        let count = gone.len();
        let kept = self.keep(gone.iter().map(removed).fold(Writes::new(), Writes::and));
        Box::pin(kept.map(move |_| count))
    }
}
