//! The one way in which triggers are made, changed, switched and removed.

use std::{collections::BTreeMap, fmt};

use actix::{
    ActorFutureExt, Context, Handler, Message, MessageResult, ResponseActFuture, WrapFuture,
};

use super::{
    Refusal, Scheduler,
    definition::Definition,
    records::removed,
    run::Run,
    trigger::{State, Trigger},
    validation::{Problem, Problems, is_reserved},
};
use crate::{
    ids::{TaskId, TeamKey, TriggerId},
    notice::{Notice, NoticeKind},
    queue::submit::CancelTask,
    store::records::Writes,
    task::Label,
};

/// A team has at most this many.
pub const MOST: usize = 50;
/// A trigger keeps at most this many cursors …
pub const MOST_CURSORS: usize = 16;
/// … of at most this many bytes.
pub const LONGEST_CURSOR: usize = 4096;

/// A trigger by its id or by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// This one.
    Id(TriggerId),
    /// That of a team.
    Named {
        /// The team.
        team: TeamKey,
        /// The name.
        name: String,
    },
}

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

/// Shows triggers, by team and name.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Vec<Listed>")]
pub struct List {
    /// Of this team; none is all.
    pub team: Option<TeamKey>,
}

/// How many triggers there are.
#[derive(Clone, Copy, Debug, Message)]
#[rtype(result = "Counts")]
pub struct Count;

/// See [`Count`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub total: usize,
    /// Those that fire.
    pub active: usize,
    /// Those that were switched off.
    pub disabled: usize,
}

/// Shows a trigger.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Option<Listed>")]
pub struct Get {
    /// Which one.
    pub which: Which,
}

/// A trigger with its newest run.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// The trigger.
    pub trigger: Trigger,
    /// Its newest run.
    pub last_run: Option<Run>,
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
    pub(super) fn find(&self, which: &Which) -> Result<TriggerId, Refusal> {
        let id = match which {
            Which::Id(id) => Some(id),
            Which::Named { team, name } => self.names.get(&(team.clone(), name.clone())),
        };
        id.filter(|id| self.triggers.contains_key(*id)).cloned().ok_or(Refusal::NotFound)
    }

    fn answer(&self, answer: Result<Trigger, Refusal>) -> Answered {
        Box::pin(std::future::ready(answer).into_actor(self))
    }

    /// A trigger is as it should be: it takes effect at once, and is answered when it is durable.
    fn put(&mut self, trigger: Trigger, ctx: &mut Context<Self>) -> Answered {
        let id = trigger.id.clone();
        if let Some(old) = self.triggers.get(&id) {
            let name = (old.team.clone(), old.definition.name.clone());
            self.names.remove(&name);
        }
        self.take_in(trigger);
        self.arm(ctx);
        let Some(trigger) = self.triggers.get(&id).cloned() else {
            return self.answer(Err(Refusal::NotFound));
        };
        let kept = self.keep(Writes::new().put(&trigger));
        Box::pin(kept.into_actor(self).map(move |kept, _, _| kept.map(|()| trigger)))
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
        let id = self.find(which)?;
        let old = self.triggers.get(&id).ok_or(Refusal::NotFound)?;
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
        trigger.revision += 1;
        trigger.updated_at = now;
        Ok(trigger)
    }

    fn enable(&self, which: &Which) -> Result<Trigger, Refusal> {
        let id = self.find(which)?;
        let mut trigger = self.triggers.get(&id).ok_or(Refusal::NotFound)?.clone();
        self.check(&trigger.definition, true)?;
        let now = self.now();
        trigger.enable(now);
        trigger.revision += 1;
        trigger.updated_at = now;
        Ok(trigger)
    }

    fn disable(&self, which: &Which, reason: String) -> Result<(Trigger, Option<TaskId>), Refusal> {
        let id = self.find(which)?;
        let mut trigger = self.triggers.get(&id).ok_or(Refusal::NotFound)?.clone();
        let task = trigger.active_task_id.clone();
        trigger.disable(reason);
        trigger.revision += 1;
        trigger.updated_at = self.now();
        Ok((trigger, task))
    }

    /// A trigger that cannot be any more is switched off, and the operator hears of it once.
    pub(super) fn invalidate(&mut self, id: &TriggerId, problem: &str) {
        let now = self.now();
        let notice = self.to.ids.notice();
        let Some(trigger) = self.triggers.get_mut(id) else {
            return;
        };
        if !trigger.is_active() {
            return;
        }
        trigger.disable(problem);
        let notice = Notice {
            id: notice,
            kind: NoticeKind::InvalidTrigger,
            team: Some(trigger.team.name.clone()),
            text: format!(
                "trigger `{}` of team `{}` is no longer valid and was disabled: {problem}. Correct it and enable it again",
                trigger.definition.name, trigger.team.name
            ),
            refs: vec![trigger.id.to_string()],
            at: now,
            read: false,
        };
        let writes = Writes::new().put(trigger).put(&notice);
        let trigger = trigger.clone();
        self.ears.attend(&trigger, &*self.to.ports.expressions);
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

    fn listed(&self, trigger: &Trigger) -> Listed {
        Listed { trigger: trigger.clone(), last_run: self.last.get(&trigger.id).cloned() }
    }
}

/// Why cursors cannot be kept.
pub fn check_cursors(cursors: &BTreeMap<String, String>) -> Result<(), Problem> {
    if cursors.len() > MOST_CURSORS {
        let reason = format!("are more than {MOST_CURSORS}");
        return Err(Problem::new("cursors", reason));
    }
    let slug = |name: &str| {
        let good =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
        (1..=64).contains(&name.len()) && name.bytes().all(good)
    };
    for (name, value) in cursors {
        if !slug(name) {
            return Err(Problem::new("cursors", "a name has 1 to 64 of a-z, 0-9, `_` and `-`"));
        }
        if value.len() > LONGEST_CURSOR {
            let field = format!("cursors.{name}");
            return Err(Problem::new(field, format!("has more than {LONGEST_CURSOR} bytes")));
        }
    }
    Ok(())
}

impl Handler<Create> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, create: Create, ctx: &mut Self::Context) -> Self::Result {
        match self.create(create) {
            Ok(trigger) => self.put(trigger, ctx),
            Err(refusal) => self.answer(Err(refusal)),
        }
    }
}

impl Handler<Update> for Scheduler {
    type Result = Answered;

    fn handle(
        &mut self,
        Update { which, change }: Update,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        match self.update(&which, change) {
            Ok(trigger) => self.put(trigger, ctx),
            Err(refusal) => self.answer(Err(refusal)),
        }
    }
}

impl Handler<Enable> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, Enable { which }: Enable, ctx: &mut Self::Context) -> Self::Result {
        match self.enable(&which) {
            Ok(trigger) => self.put(trigger, ctx),
            Err(refusal) => self.answer(Err(refusal)),
        }
    }
}

impl Handler<Disable> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, disable: Disable, ctx: &mut Self::Context) -> Self::Result {
        let Disable { which, reason, cancel_running } = disable;
        let (trigger, task) = match self.disable(&which, reason) {
            Ok(disabled) => disabled,
            Err(refusal) => return self.answer(Err(refusal)),
        };
        let answer = self.put(trigger, ctx);
        if cancel_running && let Some(task) = task {
            self.to
                .queue
                .do_send(CancelTask { task, reason: "its trigger was disabled".to_owned() });
        }
        answer
    }
}

impl Handler<Delete> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, Delete { which }: Delete, _: &mut Self::Context) -> Self::Result {
        let id = match self.find(&which) {
            Ok(id) => id,
            Err(refusal) => return self.answer(Err(refusal)),
        };
        match self.triggers.get(&id) {
            Some(trigger) if trigger.system.is_some() => {
                let name = trigger.definition.name.clone();
                return self.answer(Err(Refusal::NameReserved(name)));
            }
            _ => {}
        }
        let Some(trigger) = self.drop_out(&id) else {
            return self.answer(Err(Refusal::NotFound));
        };
        let kept = self.keep(removed(&trigger));
        Box::pin(kept.into_actor(self).map(move |kept, _, _| kept.map(|()| trigger)))
    }
}

impl Handler<SetCursors> for Scheduler {
    type Result = Answered;

    fn handle(&mut self, set: SetCursors, ctx: &mut Self::Context) -> Self::Result {
        let checked = check_cursors(&set.cursors).map_err(|problem| Problems::from(problem).into());
        let found = checked.and_then(|()| self.find(&set.which));
        let trigger = found.map(|id| self.triggers.get(&id).cloned());
        match trigger {
            Ok(Some(mut trigger)) => {
                trigger.cursors = set.cursors;
                trigger.cursors_label = Label::Trusted;
                trigger.revision += 1;
                trigger.updated_at = self.now();
                self.put(trigger, ctx)
            }
            Ok(None) => self.answer(Err(Refusal::NotFound)),
            Err(refusal) => self.answer(Err(refusal)),
        }
    }
}

impl Handler<List> for Scheduler {
    type Result = MessageResult<List>;

    fn handle(&mut self, List { team }: List, _: &mut Self::Context) -> Self::Result {
        let mut found: Vec<&Trigger> = self
            .triggers
            .values()
            .filter(|trigger| team.as_ref().is_none_or(|team| trigger.team == *team))
            .collect();
        found.sort_by_key(|trigger| (&trigger.team, &trigger.definition.name));
        let listed = found.into_iter().map(|trigger| self.listed(trigger));
        MessageResult(listed.collect())
    }
}

impl Handler<Count> for Scheduler {
    type Result = MessageResult<Count>;

    fn handle(&mut self, Count: Count, _: &mut Self::Context) -> Self::Result {
        let of = |state: State| {
            let triggers = self.triggers.values();
            triggers.filter(|trigger| trigger.state == state).count()
        };
        MessageResult(Counts {
            total: self.triggers.len(),
            active: of(State::Active),
            disabled: of(State::Disabled),
        })
    }
}

impl Handler<Get> for Scheduler {
    type Result = MessageResult<Get>;

    fn handle(&mut self, Get { which }: Get, _: &mut Self::Context) -> Self::Result {
        let found = self.find(&which).ok();
        let trigger = found.and_then(|id| self.triggers.get(&id));
        MessageResult(trigger.map(|trigger| self.listed(trigger)))
    }
}

impl Handler<Forget> for Scheduler {
    type Result = ResponseActFuture<Self, usize>;

    fn handle(&mut self, Forget { team }: Forget, _: &mut Self::Context) -> Self::Result {
        let ids: Vec<TriggerId> = self
            .triggers
            .values()
            .filter(|trigger| trigger.team == team)
            .map(|trigger| trigger.id.clone())
            .collect();
        let count = ids.len();
        let gone: Vec<Trigger> = ids.iter().filter_map(|id| self.drop_out(id)).collect();
        let writes =
            gone.iter().fold(Writes::new(), |writes, trigger| writes.and(removed(trigger)));
        let kept = self.keep(writes);
        Box::pin(kept.into_actor(self).map(move |_, _, _| count))
    }
}
