//! Money: before each model call its estimate is set aside in all budgets that it draws on.

use actix::{AsyncContext, Context};
use serde_json::json;

use super::{
    Team,
    lanes::Running,
    turn::{Input, Want, conversation::tokens},
};
use crate::{
    approvals::{
        desk::{Desk, Wish},
        record::Approval,
    },
    budget::{
        Overdrawn, Request, Spent, SpentRow,
        records::{DayKey, Warned},
    },
    channel::records::OutboxWrites,
    engine::Paid,
    event::{Notification, NotificationKind},
    history::{Fact, Meta},
    ids::{CallId, TopicId, TurnId},
    notice::{Notice, NoticeKind},
    store::{keys::Life, records::Writes},
    task::{Ancestor, Label, Source, Wait, WaitReason},
    tool::Asking,
    usage::Usage,
};

/// What stands for a call in the request for more money.
const BUDGET: &str = "budget";

impl Team {
    /// Sets the next call's estimate aside. If it does not fit, the turn waits; returns whether it
    /// may be made.
    pub(super) fn afford(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        ctx: &mut Context<Self>,
    ) -> bool {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return false;
        };
        let day = self.recipe.days.day_of(now);
        let estimate = running.estimate();
        let tasks = running.tasks_above();
        match self.recipe.ledger.reserve(&running.brief.budget, &tasks, estimate, day) {
            Ok(reservation) => {
                running.reserved = Some(reservation);
                true
            }
            Err(overdrawn) => {
                let wait = Input::Wait(Wait {
                    reason: WaitReason::Budget,
                    note: format!("Waiting: {overdrawn}."),
                    until: overdrawn.until,
                });
                running.overdrawn = Some(overdrawn);
                // Not from within what is being performed.
                let (topic, turn) = (topic.clone(), turn.clone());
                ctx.run_later(std::time::Duration::ZERO, move |team, ctx| {
                    team.hear(&topic, &turn, wait, ctx);
                });
                false
            }
        }
    }

    /// A try of a model call has cost something and gave no answer.
    pub(super) fn lose(&mut self, topic: &Option<TopicId>, turn: &TurnId, lost: Paid) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let Paid { profile, model, usage } = lost;
        self.recipe.meter.model_called(&self.name, &profile, &usage);
        running.lost += usage;
        running.turn.spend(usage);
        let fact = Fact::Meta(Meta::Spent { profile, model, usage });
        running.wants.push_front(Want::Record(vec![fact], Vec::new()));
    }

    /// A call that had begun to answer is cut off: what it cost can only be estimated.
    pub(super) fn cut_off(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let output = tokens(std::mem::take(&mut running.heard));
        if output == 0 {
            return;
        }
        let (input, price) = (running.turn.size(), &running.brief.price);
        let cost = input as f64 * price.input_usd + output as f64 * price.output_usd;
        let lost = Paid {
            profile: running.brief.provider.clone(),
            model: running.brief.model.clone(),
            usage: Usage {
                input,
                output,
                cost_usd: (cost > 0.0).then_some(cost),
                estimated: true,
                ..Usage::default()
            },
        };
        self.lose(topic, turn, lost);
    }

    /// Replaces the estimate by what the call cost, with all its tries.
    pub(super) fn pay(&mut self, topic: &Option<TopicId>, turn: &TurnId) {
        let Some(running) = self.lanes.running(topic, turn) else {
            return;
        };
        let usage = std::mem::take(&mut running.lost);
        let Some(reservation) = running.reserved.take() else {
            return;
        };
        let settled = self.recipe.ledger.settle(reservation, Spent::of(&usage));
        let limited = running.brief.budget.iter().any(|(_, caps)| !caps.is_open());
        if limited {
            let line = &running.brief.budget;
            running.spent = settled.team.map(|own| SpentRow::new(own, line));
        }
        running.cost = settled.task.or(running.cost.take());
        running.near.extend(settled.near);
    }

    /// Adds to a commit what the last call cost. What is nearly spent is told to the operator and where
    /// the work comes from.
    pub(super) fn account(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        mut writes: Writes,
    ) -> Writes {
        let now = self.recipe.clock.now();
        let day = self.recipe.days.day_of(now);
        let Some(running) = self.lanes.running(topic, turn) else {
            return writes;
        };
        if let Some(spent) = running.spent.take() {
            let key = (DayKey(day.number), Life(running.charge.task.team()));
            writes = writes.put_at(&key, &spent);
        }
        if let Some(cost) = running.cost.take() {
            writes = writes.put(&cost);
        }
        for near in running.near.drain(..) {
            let notice = Notice {
                id: self.recipe.ids.notice(),
                kind: NoticeKind::Budget,
                team: Some(near.team.clone()),
                text: format!("{near}. Work waits when it is spent; raise the cap in time."),
                refs: vec![running.charge.task.id.to_string()],
                at: now,
                read: false,
            };
            let key = (DayKey(day.number), near.team.clone());
            writes = writes.put_at(&key, &Warned(true)).put(&notice);
            let source = running.charge.task.source.as_ref();
            if let Some(source) = source.map(Source::of_what_follows) {
                let text = format!("[{}] {near}.", near.team);
                let rest = "`hivewright usage`";
                let warning = Notification {
                    status: "warning".to_owned(),
                    ..Notification::new(NotificationKind::Budget, near.team, text, rest)
                };
                let label = Label::Trusted;
                writes = writes.told(&source.channel, source.topic, label, now, warning);
            }
        }
        writes
    }

    /// What becomes durable with a turn that waits for money: a notice, and a request to the
    /// operator, once a day for each team.
    pub(super) fn ask_for_money(
        &mut self,
        topic: &Option<TopicId>,
        turn: &TurnId,
        facts: &mut Vec<Fact>,
    ) -> (Writes, Vec<Approval>) {
        let now = self.recipe.clock.now();
        let Some(running) = self.lanes.running(topic, turn) else {
            return (Writes::new(), Vec::new());
        };
        let Some(overdrawn) = running.overdrawn.take() else {
            return (Writes::new(), Vec::new());
        };
        let day = self.recipe.days.day_of(now);
        let task = overdrawn.task.as_ref();
        if !self.recipe.ledger.asks(&overdrawn.team, task, day) {
            return (Writes::new(), Vec::new());
        }
        let life = self.recipe.view.now().key(overdrawn.team.as_str());
        let arguments = json!(Request {
            team: overdrawn.team.clone(),
            generation: life.map_or(1, |life| life.generation),
            day: overdrawn.day,
            task: overdrawn.task.clone(),
            spent: overdrawn.what.clone(),
            waiting: running.charge.task.id.clone(),
        });
        let wish = Wish {
            caller: &running.caller,
            turn,
            label: running.turn.label(),
            call: BUDGET,
            tool: BUDGET,
            arguments: &arguments,
            asking: &Asking {
                kind: BUDGET.to_owned(),
                summary: format!("{overdrawn}. Approve to allow as much once more."),
                ..Asking::default()
            },
        };
        let approval = self.recipe.desk.request(wish, now);
        facts.push(Fact::Meta(Meta::Approval {
            call: CallId::from(BUDGET),
            approval: approval.id.clone(),
        }));
        let notice = notice(&overdrawn, &approval, &self.recipe.ids, now);
        let writes = Desk::opening(&approval).put(&notice);
        (writes, vec![approval])
    }
}

impl Running {
    /// What the next call may cost at most; nothing where nothing is limited.
    fn estimate(&self) -> Spent {
        if self.brief.budget.iter().all(|(_, caps)| caps.is_open()) {
            return Spent::default();
        }
        let input = self.turn.size();
        let price = &self.brief.price;
        Spent {
            tokens: input + price.max_output,
            usd: input as f64 * price.input_usd + price.max_output as f64 * price.output_usd,
        }
    }

    /// The task of the turn and those it comes of, the first of all first.
    fn tasks_above(&self) -> Vec<Ancestor> {
        let line = &self.caller.lineage;
        let mut tasks = line.path.clone();
        // Whoever hears of the end of work stands beside the task that gave it, in the same team.
        if let Some(first) = tasks.first()
            && first.task != line.root
        {
            let (task, team) = (line.root.clone(), first.team.clone());
            tasks.insert(0, Ancestor { task, team });
        }
        tasks
    }
}

fn notice(
    overdrawn: &Overdrawn,
    approval: &Approval,
    ids: &crate::ids::Ids,
    now: crate::clock::Timestamp,
) -> Notice {
    Notice {
        id: ids.notice(),
        kind: NoticeKind::Budget,
        team: Some(overdrawn.team.clone()),
        text: format!(
            "{overdrawn}. Work waits; approve {} to allow as much once more, or raise the cap.",
            approval.short_id
        ),
        refs: vec![approval.id.to_string()],
        at: now,
        read: false,
    }
}
