//! The one way in which triggers are made, changed, switched and removed.

use std::{collections::BTreeMap, fmt};

use actix::{ActorFutureExt, Context, Handler, Message, ResponseActFuture, WrapFuture};

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
pub const MOST: usize = 50;

/// Makes a trigger.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct Create {
    /// For whom.
    pub team: TeamKey,
    /// What.
    pub definition: Definition,
    /// It fires from the start.
    pub enable: bool,
    /// Who makes it.
    pub by: String,
}

/// Works out what a trigger becomes.
pub type Change = Box<dyn FnOnce(&Trigger) -> Result<Definition, Problems> + Send>;

/// Changes a trigger.
#[derive(Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct Update {
    /// Which one.
    pub which: Which,
    /// Into what.
    pub change: Change,
}

impl fmt::Debug for Update {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Update").field(&self.which).finish()
    }
}

/// Lets a trigger fire from now on.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct Enable {
    /// Which one.
    pub which: Which,
}

/// Lets a trigger fire no more.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct Disable {
    /// Which one.
    pub which: Which,
    /// Why.
    pub reason: String,
    /// Its task ends too.
    pub cancel_running: bool,
}

/// Removes a trigger. What runs goes on, and its runs are kept.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct Delete {
    /// Which one.
    pub which: Which,
}

/// Replaces what runs leave for one another.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<Trigger, Refusal>")]
pub struct SetCursors {
    /// Which one.
    pub which: Which,
    /// The new ones.
    pub cursors: BTreeMap<String, String>,
}

/// Removes all triggers of a team that is being shut down. Answers how many there were.
#[derive(Clone, Debug, Message)]
#[rtype(result = "usize")]
pub struct Forget {
    /// The team.
    pub team: TeamKey,
}

type Answered = ResponseActFuture<Scheduler, Result<Trigger, Refusal>>;

impl Scheduler {
    pub(super) fn find(&self, which: &Which) -> Result<&Trigger, Refusal> {
        let id = match which {
            Which::Id(id) => Some(id),
            Which::Named { team, name } => self.names.get(&(team.clone(), name.clone())),
        };
        id.and_then(|id| self.triggers.get(id)).ok_or(Refusal::NotFound)
    }

    /// A trigger becomes what it should be: it takes effect at once, and is answered when it is durable.
    fn put(&mut self, changed: Result<Trigger, Refusal>, ctx: &mut Context<Self>) -> Answered {
        let put = changed.and_then(|trigger| {
            let id = trigger.id.clone();
            if let Some(old) = self.triggers.get(&id) {
                self.names.remove(&old.name());
            }
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
            return Box::pin(std::future::ready(answer).into_actor(self));
        }
        let kept = self.keep(writes);
        Box::pin(kept.into_actor(self).map(move |kept, _, _| kept.and(answer)))
    }

    pub(super) fn create(&self, create: Create) -> Result<Trigger, Refusal> {
        let Create { team, definition, enable, by } = create;
        self.check(&definition, true)?;
        let name = &definition.name;
        if is_reserved(name) {
            return Err(Refusal::NameReserved(name.clone()));
        }
        self.check_name(&team, name)?;
        let many = self.triggers.values().filter(|trigger| trigger.team == team).count();
        if many >= MOST {
            return Err(Refusal::Limit { team: team.name.to_string(), most: MOST });
        }
        let now = self.now();
        let mut trigger = Trigger::new(self.to.ids.trigger(), team, definition, &by, now);
        if enable {
            trigger.enable(now);
        }
        Ok(trigger)
    }

    fn check_name(&self, team: &TeamKey, name: &str) -> Result<(), Refusal> {
        if self.names.contains_key(&(team.clone(), name.to_owned())) {
            Err(Refusal::NameTaken { team: team.name.to_string(), name: name.to_owned() })
        } else {
            Ok(())
        }
    }

    fn update(&self, which: &Which, change: Change) -> Result<Trigger, Refusal> {
        let old = self.find(which)?;
        if old.system.is_some() {
            return Err(Refusal::NameReserved(old.definition.name.clone()));
        }
        let definition = change(old)?;
        let same_time = definition.config == old.definition.config;
        self.check(&definition, !same_time)?;
        if definition.name != old.definition.name {
            if is_reserved(&definition.name) {
                return Err(Refusal::NameReserved(definition.name));
            }
            self.check_name(&old.team, &definition.name)?;
        }
        let now = self.now();
        let mut trigger = old.clone();
        trigger.definition = definition;
        if !same_time {
            // Other times begin now: none of them has been missed.
            trigger.move_cursor(now);
            trigger.anchor_at = trigger.anchor_at.map(|_| now);
            trigger.held_from = None;
            trigger.occurrence = None;
            if trigger.state == State::Finished {
                trigger.state = State::Pending;
            }
        }
        trigger.revise(now);
        Ok(trigger)
    }

    fn enable(&self, which: &Which) -> Result<Trigger, Refusal> {
        let mut trigger = self.find(which)?.clone();
        self.check(&trigger.definition, true)?;
        trigger.enable(self.now());
        trigger.revise(self.now());
        Ok(trigger)
    }

    fn disable(&self, which: &Which, reason: String) -> Result<Trigger, Refusal> {
        let mut trigger = self.find(which)?.clone();
        trigger.disable(reason);
        trigger.revise(self.now());
        Ok(trigger)
    }

    fn set_cursors(&self, set: SetCursors) -> Result<Trigger, Refusal> {
        check_cursors(&set.cursors).map_err(Problems::from)?;
        let mut trigger = self.find(&set.which)?.clone();
        trigger.cursors = set.cursors;
        trigger.cursors_label = Label::Trusted;
        trigger.revise(self.now());
        Ok(trigger)
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
        self.ears.attend(trigger, &*self.to.ports.expressions);
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
        let made = self.create(create);
        self.put(made, ctx)
    }
}

impl Handler<Update> for Scheduler {
    type Result = Answered;

    fn handle(
        &mut self,
        Update { which, change }: Update,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let changed = self.update(&which, change);
        self.put(changed, ctx)
    }
}

impl Handler<Enable> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, Enable { which }: Enable, ctx: &mut Self::Context) -> Self::Result {
        let enabled = self.enable(&which);
        self.put(enabled, ctx)
    }
}

impl Handler<Disable> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, disable: Disable, ctx: &mut Self::Context) -> Self::Result {
        let Disable { which, reason, cancel_running } = disable;
        let disabled = self.disable(&which, reason);
        let task = disabled.as_ref().ok().and_then(|trigger| trigger.active_task_id.clone());
        let answer = self.put(disabled, ctx);
        if let Some(task) = task.filter(|_| cancel_running) {
            let reason = "its trigger was disabled".to_owned();
            self.to.queue.do_send(CancelTask { task, reason });
        }
        answer
    }
}

impl Handler<Delete> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, Delete { which }: Delete, _: &mut Self::Context) -> Self::Result {
        let deleted = self.delete(&which);
        let writes = deleted.as_ref().map(removed).unwrap_or_default();
        self.answer(deleted, writes)
    }
}

impl Handler<SetCursors> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, set: SetCursors, ctx: &mut Self::Context) -> Self::Result {
        let changed = self.set_cursors(set);
        self.put(changed, ctx)
    }
}

impl Handler<Forget> for Scheduler {
    type Result = ResponseActFuture<Self, usize>;

    fn handle(&mut self, Forget { team }: Forget, _: &mut Self::Context) -> Self::Result {
        let gone = self.drop_all(|trigger| trigger.team == team);
        let count = gone.len();
        let kept = self.keep(gone.iter().map(removed).fold(Writes::new(), Writes::and));
        Box::pin(kept.into_actor(self).map(move |_, _, _| count))
    }
}
