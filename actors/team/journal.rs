//! Journal of a turn: facts become its events, with the records that follow from them.

use std::borrow::Cow;

use super::session::Session;
use crate::{
    audit::{Audit, CallAudit, Decision, TOOL_CALL, beginning},
    budget::{
        Caller, Tally,
        records::{self as spending, DayKey, TaskCalls},
    },
    clock::Timestamp,
    engine::Paid,
    history::{Fact, HistoryEvent, Meta, Origin, THIS_TURN},
    ids::{CallId, TeamKey},
    inbox::{InboxEvent, PartlyShown, ShownKey},
    journal::told::told,
    store::records::Writes,
    tool::ToolFault,
    usage::Usage,
};

impl Session {
    /// Adds facts to the lane's journal, in a commit under the lease of the turn.
    pub(super) fn journal(&mut self, facts: Vec<Fact>) -> Writes {
        let now = self.cx.now();
        let today = self.cx.recipe.days.day_of(now);
        self.settling = facts.iter().filter_map(result_of).collect();
        let ends = facts.iter().any(|fact| matches!(fact, Fact::TurnEnd { .. }));
        let taken_in = self.take_in(&facts);
        let news = self.events(facts, now);
        let events: Vec<HistoryEvent> = self.begun.iter().cloned().chain(news).collect();
        let task = &self.leased.task;
        let mut writes = self.leased.guard().and(taken_in);
        if let Some(event) = &self.inbox.kept {
            let key = ShownKey(task.lane_key(), event.id.clone());
            writes = writes.put_at(&key, &PartlyShown(Cow::Borrowed(event)));
        }
        for audit in events.iter().filter_map(|event| self.audit(event)) {
            writes = writes.put(&audit);
        }
        let team = task.team();
        for (caller, usage) in events.iter().filter_map(|event| called(&team, event)) {
            if let Some((tally, own)) = self.cx.recipe.ledger.count(&caller, usage, today) {
                writes = writes.and(spending::calls(today, &caller, &tally, &own));
                // At its end the task says so itself.
                if !ends {
                    let of_turn = Tally::of(&self.turn.usage, self.turn.requests());
                    let key = (DayKey(today.number), task.id.clone());
                    writes = writes.put_at(&key, &TaskCalls(of_turn));
                }
            }
        }
        let lane = task.lane_key();
        let seen = self.inbox.seen.iter().map(|number| (lane.clone(), *number));
        let writes = seen.fold(writes, |writes, key| writes.delete::<InboxEvent>(&key));
        let writes = writes.events_behind(self.begun.len(), &task.lane, task.generation, &events);
        self.recording = events;
        writes
    }

    /// Messages whose words become part of the turn go on and end with its task from now on.
    fn take_in(&mut self, facts: &[Fact]) -> Writes {
        let mut writes = Writes::new();
        for fact in facts {
            let Fact::User { origin: Origin::Steer, task_id, .. } = fact else { continue };
            let joined = self.joined.iter_mut().find(|(task, _)| task.id == *task_id);
            if let Some((task, _)) = joined {
                task.joined_to = Some(self.leased.task.id.clone());
                writes = writes.put(task);
            }
        }
        writes
    }

    /// The turn begins: whoever watches is told, and what is to be stored of it waits for the first
    /// commit that there is. Until then the leased task says the same.
    pub(super) fn begin(&mut self, facts: Vec<Fact>) {
        self.begun = self.events(facts, self.cx.now());
        let task = &self.leased.task;
        let told = told(&task.lane, task.generation, Some(&task.id), &self.begun);
        self.cx.recipe.live.publish_all(told);
    }

    /// Whether nothing of the turn is stored yet.
    pub(super) fn is_unrecorded(&self) -> bool {
        !self.begun.is_empty()
    }

    /// What was to be recorded is stored.
    pub(super) fn recorded(&mut self) {
        let recorded = std::mem::take(&mut self.recording);
        if let Some(last) = recorded.last() {
            self.history.next_seq = last.seq + 1;
            self.begun.clear();
            self.inbox.stored();
        }
        recorded.into_iter().for_each(|event| self.fold.on(event));
        for (call, tool) in std::mem::take(&mut self.settling) {
            self.brief.tools.settled(&call, &tool, &self.caller);
        }
    }

    /// The next events of the journal. A compaction is told where the steps, or the turn, begin that it keeps.
    fn events(&mut self, facts: Vec<Fact>, timestamp: Timestamp) -> Vec<HistoryEvent> {
        let turn = &self.leased.turn;
        let first_seq = self.fold.first_seq().unwrap_or(self.history.next_seq);
        let event = |(seq, fact)| {
            let turn = turn.clone();
            let mut event = HistoryEvent { seq, turn, timestamp, fact, redacted: false };
            self.steps.note(&event);
            if let Fact::Meta(Meta::Compaction(compaction)) = &mut event.fact {
                if let Some(step) = compaction.keep_from_step {
                    compaction.keep_from_seq = self.steps.place_of(step);
                } else if compaction.keep_from_seq == Some(THIS_TURN) {
                    compaction.keep_from_seq = Some(first_seq);
                }
            }
            event
        };
        let first = self.history.next_seq + self.begun.len() as u64;
        (first..).zip(facts).map(event).collect()
    }

    /// The line of the audit for a call that an event tells the end of.
    fn audit(&self, event: &HistoryEvent) -> Option<Audit> {
        let Fact::ToolResult { id, name, content, fault, duration_ms, rule, approved, .. } =
            &event.fact
        else {
            return None;
        };
        let (turn, task) = (&event.turn, &self.leased.task);
        let decision = Decision::of(*fault, *approved, rule.is_some());
        let check = |fault: ToolFault| fault.as_str().to_owned();
        let refused_by = fault.filter(|_| decision == Decision::Refuse).map(check);
        Some(Audit {
            // A turn has no two results of one call: written again, it is the same line.
            id: format!("{turn}-{id}"),
            at: event.timestamp,
            actor: format!("team:{}", task.lane.team).into(),
            action: TOOL_CALL.to_owned(),
            target: name.clone(),
            from: task.id.to_string(),
            outcome: fault.map_or("ok", ToolFault::as_str).to_owned(),
            call: Some(Box::new(CallAudit {
                team: task.lane.team.clone(),
                task: task.id.clone(),
                turn: turn.clone(),
                tool: name.clone(),
                decision,
                rule: rule.clone().or(refused_by),
                duration_ms: *duration_ms,
                ok: fault.is_none(),
                arguments: beginning(&self.turn.arguments_of(id).unwrap_or_default()),
                result: beginning(content),
            })),
        })
    }
}

/// The model call that an event tells of.
fn called<'a>(team: &TeamKey, event: &'a HistoryEvent) -> Option<(Caller, &'a Usage)> {
    let (profile, model, usage) = match &event.fact {
        Fact::Meta(
            Meta::Usage { profile, model, usage, .. } | Meta::Spent { profile, model, usage },
        ) => (profile, model, usage),
        Fact::Meta(Meta::Compaction(compaction)) => {
            let Paid { profile, model, usage } = compaction.paid.as_ref()?;
            (profile, model, usage)
        }
        _ => return None,
    };
    let caller = Caller { team: team.clone(), profile: profile.clone(), model: model.clone() };
    Some((caller, usage))
}

/// The call that a fact is the result of, with its tool.
fn result_of(fact: &Fact) -> Option<(CallId, String)> {
    match fact {
        Fact::ToolResult { id, name, .. } => Some((id.clone(), name.clone())),
        _ => None,
    }
}
