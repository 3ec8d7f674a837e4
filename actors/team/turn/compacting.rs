//! Compaction: a turn whose conversation does not fit leaves older parts of it out, and goes on.

use super::{
    Cut, PendingCompaction, Turn, Want,
    conversation::{LONG, LONG_AT_LAST, tokens},
    digest,
};
use crate::{
    engine::{EngineFailure, Message, Paid},
    frame::{Progress, ProgressKind},
    history::{Compaction, Fact, Meta, Trigger, summary_of_turns},
    task::outcome::Code,
    team::history::Past,
};

/// What helps where nothing else does.
const WAY_OUT: &str =
    "begin a new conversation with `/new`, or give the profile a larger `context_window`";

impl Turn {
    /// Calls the model, with a conversation that fits.
    pub(super) fn call(&mut self, trigger: Trigger, cause: Option<String>) -> Vec<Want> {
        let conversation = &mut self.conversation;
        let is_large = conversation.is_large();
        // Earlier turns that take too much are summarised before there are others.
        let has_much_before = self.step == 1 && conversation.has_much_before();
        if !is_large && !has_much_before {
            return vec![Want::CallModel];
        }
        let tokens_before = conversation.size();
        let shortened = is_large && conversation.shorten(LONG);
        let shortened_over = shortened.then_some(LONG);
        let mut pending =
            PendingCompaction { trigger, tokens_before, cut: None, shortened_over, cause };
        if (has_much_before || conversation.is_above_limit())
            && let Some(seq) = conversation.cut_earlier()
        {
            let old = conversation.earlier_before(seq);
            let request = digest::request(None, &old, conversation.most_of_summary());
            pending.cut = Some(Cut::Earlier(seq));
            self.compacting = Some(pending);
            return vec![Want::Summarise(request)];
        }
        if !conversation.is_above_limit() {
            return self.compacted(pending, None, None);
        }
        let Some(cut) = conversation.cut() else {
            return self.compact_at_last(pending, None, None);
        };
        let request = self.request(cut);
        pending.cut = Some(Cut::Own(cut));
        self.compacting = Some(pending);
        vec![Want::Summarise(request)]
    }

    /// A request to summarise what comes before a step, of a size that the model can read.
    fn request(&self, cut: u32) -> String {
        let messages = self.conversation.messages();
        let task = match messages.first() {
            Some(Message::User(text)) => Some(text.as_str()),
            _ => None,
        };
        let most = self.conversation.most_of_summary();
        digest::request(task, self.conversation.before(cut), most)
    }

    /// Summarises the past of a session: all that this turn does. Without one it says why.
    pub(in crate::team) fn compact(
        &mut self,
        start: Fact,
        past: Result<Past, String>,
    ) -> Vec<Want> {
        match past {
            Ok(mut past) => {
                let request = std::mem::take(&mut past.request);
                self.past = Some(past);
                vec![Want::Record(vec![start], Vec::new()), Want::Summarise(request)]
            }
            Err(why) => vec![Want::End(vec![start], self.done(why, false))],
        }
    }

    /// The summary of a session is there, or could not be had.
    fn past_summarised(&mut self, past: Past, text: Option<String>, paid: Option<Paid>) -> Want {
        let size = |text: &str| tokens(text.chars().count());
        let gone = past.tokens - past.kept;
        let Some(summary) = text.filter(|text| size(text) < gone) else {
            let facts = paid.into_iter().map(spent).collect();
            let message = "the model gave no summary that is shorter; nothing was changed";
            return Want::End(facts, self.fail(Code::ProviderError, message.to_owned()));
        };
        let compaction = Compaction {
            tokens_before: past.tokens,
            tokens_after: past.kept + size(&summary),
            summary: Some(summary),
            keep_from_seq: Some(past.keep_from_seq),
            keep_from_step: None,
            shortened_over: None,
            trigger: Trigger::Command,
            step: self.step,
            label: past.label,
            paid,
        };
        let text = compaction.words();
        let facts = vec![Fact::Meta(Meta::Compaction(Box::new(compaction)))];
        Want::End(facts, self.done(text, false))
    }

    /// The summary is there, or could not be had.
    pub(super) fn summarised(&mut self, text: Option<String>, paid: Option<Paid>) -> Vec<Want> {
        let text = text.map(|text| text.trim().to_owned());
        let text = text.filter(|text| !text.is_empty());
        if let Some(paid) = &paid {
            self.usage += paid.usage;
            self.summaries += 1;
        }
        if let Some(past) = self.past.take() {
            return vec![self.past_summarised(past, text, paid)];
        }
        let Some(pending) = self.compacting.take() else { return Vec::new() };
        match pending.cut {
            Some(Cut::Earlier(seq)) => self.earlier_summarised(pending, seq, text, paid),
            Some(Cut::Own(step)) => self.steps_summarised(pending, step, text, paid),
            None => Vec::new(),
        }
    }

    /// Without a summary earlier turns are left out all the same, of this turn; the next one tries again.
    fn earlier_summarised(
        &mut self,
        pending: PendingCompaction,
        seq: u64,
        text: Option<String>,
        paid: Option<Paid>,
    ) -> Vec<Want> {
        let gone: usize =
            self.conversation.earlier_before(seq).iter().map(Message::characters).sum();
        let summary = text.filter(|text| summary_of_turns(text).chars().count() < gone);
        self.conversation.leave_out(seq, summary.as_deref());
        let (trigger, cause) = (pending.trigger, pending.cause.clone());
        let record = self.record_compaction(pending, summary, paid);
        // What is still too much is made smaller too.
        self.conversation.retry();
        [record].into_iter().chain(self.call(trigger, cause)).collect()
    }

    fn steps_summarised(
        &mut self,
        pending: PendingCompaction,
        step: u32,
        text: Option<String>,
        paid: Option<Paid>,
    ) -> Vec<Want> {
        // One that is no shorter than what it stands for is of no use.
        let useful = text.filter(|text| self.conversation.is_shorter(text, step));
        let Some(summary) = useful else {
            let pending = PendingCompaction { cut: None, ..pending };
            self.conversation.leave();
            return self.compact_at_last(pending, None, paid);
        };
        self.conversation.summarise(step, &summary);
        if self.conversation.is_above_limit() {
            self.compact_at_last(pending, Some(summary), paid)
        } else {
            self.compacted(pending, Some(summary), paid)
        }
    }

    /// All that is left to do, and the end if that is not enough.
    fn compact_at_last(
        &mut self,
        mut pending: PendingCompaction,
        summary: Option<String>,
        paid: Option<Paid>,
    ) -> Vec<Want> {
        if self.conversation.shorten(LONG_AT_LAST) {
            pending.shortened_over = Some(LONG_AT_LAST);
        }
        if self.conversation.fits() {
            return self.compacted(pending, summary, paid);
        }
        let facts = paid.into_iter().map(spent).collect();
        let cause = pending.cause.unwrap_or_else(|| {
            format!(
                "the conversation is too long for the model: about {} tokens, also after older parts \
                 of it were left out",
                self.conversation.size()
            )
        });
        let message = format!("{cause}; {}", self.way_out());
        vec![Want::End(facts, self.fail(Code::ContextOverflow, message))]
    }

    /// What helps. A new conversation does not, where most of it is what every conversation has.
    fn way_out(&self) -> String {
        let overhead = self.conversation.overhead();
        if overhead < self.conversation.size() / 2 {
            return WAY_OUT.to_owned();
        }
        format!(
            "about {overhead} tokens of it are instructions and tools of the team: use a model that reads more, \
             with its `context_window` in the profile, or give the team fewer `allowed_tools`"
        )
    }

    /// The conversation is as small as it gets: that is recorded, and the model is called.
    fn compacted(
        &mut self,
        pending: PendingCompaction,
        summary: Option<String>,
        paid: Option<Paid>,
    ) -> Vec<Want> {
        if summary.is_none() && pending.shortened_over.is_none() {
            let spent: Vec<Fact> = paid.into_iter().map(spent).collect();
            let spent = (!spent.is_empty()).then(|| Want::Record(spent, Vec::new()));
            return spent.into_iter().chain([Want::CallModel]).collect();
        }
        vec![self.record_compaction(pending, summary, paid), Want::CallModel]
    }

    fn record_compaction(
        &mut self,
        pending: PendingCompaction,
        summary: Option<String>,
        paid: Option<Paid>,
    ) -> Want {
        let tokens_after = self.conversation.size();
        self.conversation.settle(tokens_after);
        let mut facts = Vec::new();
        let (keep_from_seq, keep_from_step) = match pending.cut {
            Some(Cut::Earlier(seq)) => (Some(seq), None),
            Some(Cut::Own(step)) => (None, summary.as_ref().map(|_| step)),
            None => (None, None),
        };
        let paid = if summary.is_some() {
            paid
        } else {
            facts.extend(paid.map(spent));
            None
        };
        let label = match keep_from_seq {
            // It was made of what such a turn is shown.
            Some(_) => self.reader,
            None => self.label,
        };
        let compaction = Compaction {
            summary,
            keep_from_seq,
            keep_from_step,
            shortened_over: pending.shortened_over,
            tokens_before: pending.tokens_before,
            tokens_after,
            trigger: pending.trigger,
            step: self.step,
            label,
            paid,
        };
        let note = Progress::new(ProgressKind::Note, compaction.words());
        facts.push(Fact::Meta(Meta::Compaction(Box::new(compaction))));
        Want::Record(facts, vec![note])
    }

    /// The provider says that the conversation is too long: it is made smaller and the step tried
    /// again, once.
    pub(super) fn overflowed(&mut self, failure: EngineFailure, said: bool) -> Vec<Want> {
        let EngineFailure { message, .. } = failure;
        if self.overflowed == Some(self.step) {
            let message = format!("{message}; {}", self.way_out());
            let end = self.fail(Code::ContextOverflow, message);
            return vec![Want::End(Vec::new(), end)];
        }
        self.overflowed = Some(self.step);
        self.conversation.overflowed();
        let mut wants = self.call(Trigger::Overflow, Some(message.clone()));
        if !self.ended {
            let mut note = Progress::new(
                ProgressKind::Note,
                format!("{message}. Older parts are left out, and it is tried again."),
            );
            note.reset = said;
            let retry = Fact::Meta(Meta::Retry(message));
            wants.insert(0, Want::Record(vec![retry], vec![note]));
        }
        wants
    }

    /// The same, as the journal tells it.
    pub(super) fn replay_compaction(&mut self, compaction: &Compaction) {
        if let Some(over) = compaction.shortened_over {
            self.conversation.shorten(over);
        }
        match (&compaction.summary, compaction.keep_from_step, compaction.keep_from_seq) {
            (Some(summary), Some(step), _) => self.conversation.summarise(step, summary),
            (summary, None, Some(seq)) => self.conversation.leave_out(seq, summary.as_deref()),
            _ => {}
        }
        self.conversation.settle(compaction.tokens_after);
        if compaction.keep_from_step.is_none() && compaction.keep_from_seq.is_some() {
            self.conversation.retry();
        }
        if let Some(paid) = &compaction.paid {
            self.usage += paid.usage;
            self.summaries += 1;
        }
        if compaction.trigger == Trigger::Overflow {
            self.overflowed = Some(compaction.step);
        }
    }
}

fn spent(Paid { profile, model, usage }: Paid) -> Fact {
    Fact::Meta(Meta::Spent { profile, model, usage })
}
