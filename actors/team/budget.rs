//! Budget of a session: before each model call its estimate is set aside in all budgets that it draws on.

use std::{sync::Arc, time::Duration};

use serde_json::json;

use super::{
    SessionContext,
    held_calls::ApprovalRequests,
    session::Session,
    turn::{Input, Want, conversation::tokens},
};
use crate::{
    approvals::requests::CallRequest,
    budget::records::{DayKey, Warned},
    budget::{Overdrawn, Request, Spent, SpentRow},
    channel::records::OutboxWrites,
    engine::{Paid, SpendingLimit},
    frame::{Notification, NotificationKind},
    history::{Fact, Meta},
    ids::CallId,
    notice::NoticeKind,
    store::{keys::Life, records::Writes},
    task::{Ancestor, Label, Source, Wait, WaitReason},
    tool::Asking,
    usage::Usage,
};

/// What stands for a call in the request for more money.
const BUDGET: &str = "budget";

impl Session {
    /// Sets the next call's estimate aside. If it does not fit, the turn waits; returns whether it
    /// may be made.
    pub(super) fn afford(&mut self, ctx: &mut SessionContext<'_>) -> bool {
        let (line, tasks) = (&self.brief.budget, self.tasks_above());
        let ledger = &self.cx.recipe.ledger;
        match ledger.reserve(line, &tasks, self.estimate(), self.cx.today()) {
            Ok(reservation) => {
                self.spending.reserved = Some(reservation);
                true
            }
            Err(overdrawn) => {
                let wait = Input::Wait(Wait {
                    reason: WaitReason::Budget,
                    note: format!("Waiting: {overdrawn}."),
                    until: overdrawn.until,
                });
                self.spending.overdrawn = Some(overdrawn);
                // Not from within what is being performed.
                self.later(Duration::ZERO, ctx, |session, ctx| session.hear(wait, ctx));
                false
            }
        }
    }

    /// What an engine that makes several calls in a step may spend on them; none where nothing is limited. What is set aside
    /// for the step is what the next call may cost.
    pub(super) fn spending_limit(&self) -> Option<SpendingLimit> {
        let line = self.brief.budget.clone();
        if line.iter().all(|(_, caps)| caps.is_open()) {
            return None;
        }
        let recipe = &self.cx.recipe;
        let (ledger, days, clock) =
            (recipe.ledger.clone(), recipe.days.clone(), recipe.clock.clone());
        let tasks = self.tasks_above();
        Some(Arc::new(move |more| ledger.affords(&line, &tasks, more, days.day_of(clock.now()))))
    }

    /// A try of a model call has cost something and gave no answer.
    pub(super) fn lose(&mut self, lost: Paid) {
        let Paid { profile, model, usage } = lost;
        self.cx.recipe.meter.model_called(&self.cx.name, &profile, &usage);
        self.spending.tries += usage;
        self.turn.usage += usage;
        let fact = Fact::Meta(Meta::Spent { profile, model, usage });
        self.wants.push_front(Want::Record(vec![fact], Vec::new()));
    }

    /// Books the model calls of a step that is stopped, as far as they are over. Returns how many tokens they brought.
    pub(super) fn book_completed(&mut self) -> u64 {
        let completed = self.spending.unbooked.take();
        let output = completed.iter().map(|paid| paid.usage.output).sum();
        completed.into_iter().for_each(|paid| self.lose(paid));
        output
    }

    /// A call that had begun to answer is cut off: what it cost can only be estimated. `booked` tokens of what was heard in
    /// this step are paid for.
    pub(super) fn cut_off(&mut self, booked: u64) {
        let output = tokens(std::mem::take(&mut self.spending.heard)).saturating_sub(booked);
        if output == 0 {
            return;
        }
        let (input, price) = (self.turn.size(), &self.brief.price);
        let cost = input as f64 * price.input_usd + output as f64 * price.output_usd;
        self.lose(Paid {
            profile: self.brief.provider.clone(),
            model: self.brief.model.clone(),
            usage: Usage {
                input,
                output,
                cost_usd: (cost > 0.0).then_some(cost),
                estimated: true,
                ..Usage::default()
            },
        });
    }

    /// Replaces the estimate by what the call cost, with all its tries.
    pub(super) fn pay(&mut self) {
        let spending = &mut self.spending;
        let usage = std::mem::take(&mut spending.tries);
        let Some(reservation) = spending.reserved.take() else { return };
        let settled = self.cx.recipe.ledger.settle(reservation, Spent::of(&usage));
        if self.brief.budget.iter().any(|(_, caps)| !caps.is_open()) {
            let line = &self.brief.budget;
            spending.team = settled.team.map(|own| SpentRow::new(own, line));
        }
        spending.task = settled.task.or(spending.task.take());
        spending.near.extend(settled.near);
    }

    /// Adds to a commit what the last call cost. What is nearly spent is told to the operator and where
    /// the work comes from.
    pub(super) fn account(&mut self, mut writes: Writes) -> Writes {
        let now = self.cx.now();
        let day = self.cx.recipe.days.day_of(now);
        let task = &self.leased.task;
        if let Some(spent) = self.spending.team.take() {
            let key = (DayKey(day.number), Life(task.team()));
            writes = writes.put_at(&key, &spent);
        }
        if let Some(cost) = self.spending.task.take() {
            writes = writes.put(&cost);
        }
        for near in self.spending.near.drain(..) {
            let text = format!("{near}. Work waits when it is spent; raise the cap in time.");
            let notice = self.cx.notice(NoticeKind::Budget, &near.team, text, &task.id);
            let key = (DayKey(day.number), near.team.clone());
            writes = writes.put_at(&key, &Warned(true)).put(&notice);
            if let Some(source) = task.source.as_ref().map(Source::of_what_follows) {
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
    pub(super) fn ask_for_money(&mut self) -> ApprovalRequests {
        let mut requests = ApprovalRequests::default();
        let now = self.cx.now();
        let day = self.cx.recipe.days.day_of(now);
        let ledger = &self.cx.recipe.ledger;
        let is_new = |over: &Overdrawn| ledger.asks(&over.team, over.task.as_ref(), day);
        let Some(overdrawn) = self.spending.overdrawn.take().filter(is_new) else {
            return requests;
        };
        let life = self.cx.recipe.view.now().key(overdrawn.team.as_str());
        let arguments = json!(Request {
            team: overdrawn.team.clone(),
            generation: life.map_or(1, |life| life.generation),
            day: overdrawn.day,
            task: overdrawn.task.clone(),
            spent: overdrawn.what.clone(),
            waiting: self.leased.task.id.clone(),
        });
        let request = CallRequest {
            caller: &self.caller,
            turn: &self.leased.turn,
            label: self.turn.label,
            call: BUDGET,
            tool: BUDGET,
            arguments: &arguments,
            asking: &Asking {
                kind: BUDGET.to_owned(),
                summary: format!("{overdrawn}. Approve to allow as much once more."),
                ..Asking::default()
            },
        };
        let approval = self.cx.recipe.requests.request(request, now);
        let text = format!(
            "{overdrawn}. Work waits; approve {} to allow as much once more, or raise the cap.",
            approval.short_id
        );
        let notice = self.cx.notice(NoticeKind::Budget, &overdrawn.team, text, &approval.id);
        requests.add(&self.cx.recipe.requests, CallId::from(BUDGET), approval);
        requests.writes = requests.writes.put(&notice);
        requests
    }

    /// What the next call may cost at most; nothing where nothing is limited.
    fn estimate(&self) -> Spent {
        if self.brief.budget.iter().all(|(_, caps)| caps.is_open()) {
            return Spent::default();
        }
        let (input, price) = (self.turn.size(), &self.brief.price);
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
