//! Ends of a turn: over, or over for now.

use std::time::Duration;

use super::{End, Stop, Turn, Want, backoff};
use crate::{
    clock::Timestamp,
    engine::EngineFailure,
    excerpt,
    frame::{FRAME_TEXT, Progress, ProgressKind},
    history::Fact,
    store::StoreError,
    task::{
        MAX_ATTEMPTS,
        outcome::{Code, Ending},
    },
    tool::{ToolFault, ToolReply},
};

/// So much of what an engine said last is told with a stall, in characters.
const MAX_REMARK_CHARACTERS: usize = 400;

impl Turn {
    /// The end with what the model said last.
    pub(super) fn answer(&mut self, text: String, truncated: bool) -> End {
        if !text.trim().is_empty() {
            return self.done(text, truncated);
        }
        let tools = match self.tools_used.as_slice() {
            [] => "no tool ran".to_owned(),
            used => format!("tools that ran: {}", used.join(", ")),
        };
        self.fail(Code::EmptyAnswer, format!("the model answered with nothing ({tools})"))
    }

    pub(super) fn done(&mut self, text: String, truncated: bool) -> End {
        self.ended = true;
        End { ending: Ending::Done, code: None, message: None, text, truncated }
    }

    pub(super) fn fail(&mut self, code: Code, message: String) -> End {
        self.end(Ending::Failed, code, Some(message), String::new())
    }

    /// An end that is not an answer keeps all that was said, and what was streaming.
    fn end(
        &mut self,
        ending: Ending,
        code: Code,
        message: Option<String>,
        streaming: String,
    ) -> End {
        self.ended = true;
        let mut said = self.said.clone();
        if !streaming.trim().is_empty() {
            said.push(streaming);
        }
        End { ending, code: Some(code), message, text: said.join("\n\n"), truncated: false }
    }

    pub(super) fn failed(
        &mut self,
        failure: EngineFailure,
        said: bool,
        now: Timestamp,
    ) -> Vec<Want> {
        if let Some(reason) = backoff::reason(&failure) {
            let (times, spread) = (self.times_waited(reason), backoff::spread(&self.id));
            let wait = backoff::wait(reason, &failure, times, spread, now);
            return self.park(wait, said);
        }
        if failure.code == Code::ContextOverflow {
            return self.overflowed(failure, said);
        }
        let EngineFailure { code, message, .. } = failure;
        if code.is_transient() {
            return vec![self.give_back(code, message)];
        }
        vec![Want::End(Vec::new(), self.fail(code, message))]
    }

    /// A passing failure: the task is tried again, up to its last attempt.
    fn give_back(&mut self, code: Code, message: String) -> Want {
        self.ended = true;
        let attempts = self.task.attempts;
        let Some(pause) = pause_after(attempts) else {
            let message = format!("{message} (given up after {attempts} attempts)");
            let end = self.end(Ending::Dead, code, Some(message), String::new());
            return Want::End(Vec::new(), end);
        };
        let seconds = pause.as_secs();
        let mut note =
            Progress::new(ProgressKind::Note, format!("{message}. Trying again in {seconds} s."));
        note.reset = true;
        Want::Suspend(vec![Fact::TurnSuspended { code, message }], vec![note], pause)
    }

    pub(super) fn stop(&mut self, stop: Stop, streaming: String) -> Vec<Want> {
        let (ending, code, message) = match stop {
            Stop::Cancelled => (Ending::Cancelled, Code::Cancelled, None),
            Stop::Interrupted => (Ending::Cancelled, Code::Interrupted, None),
            Stop::Deadline => (Ending::Expired, Code::Deadline, Some("the turn ran out of time")),
            Stop::Stalled => {
                let remark =
                    self.remark.take().map(|text| excerpt::line(&text, MAX_REMARK_CHARACTERS));
                let remark = remark.map(|text| format!("; the last that was heard: {text}"));
                let message = format!("nothing moved for too long{}", remark.unwrap_or_default());
                return vec![Want::StopCalls, self.give_back(Code::Stalled, message)];
            }
        };
        let cancelled = ToolReply::failed(ToolFault::Cancelled, "cancelled");
        let open = self.calls.iter().filter(|slot| !slot.is_done());
        let mut facts: Vec<Fact> =
            open.map(|slot| slot.result(&cancelled, Duration::ZERO).0).collect();
        if !streaming.is_empty() {
            facts.push(Fact::AssistantText { text: streaming.clone(), step: self.step });
        }
        let end = self.end(ending, code, message.map(ToOwned::to_owned), streaming);
        vec![Want::StopCalls, Want::End(facts, end)]
    }

    /// The store does not take a step: the turn fails with what was said so far, as far as the store takes
    /// that. None if it did not even take an end without words.
    pub(in crate::team) fn refused_by_store(&mut self, error: &StoreError) -> Option<End> {
        let end = self.fail(Code::Internal, format!("a step could not be stored: {error}"));
        self.refusals += 1;
        let said = match self.refusals {
            1 => &*end.text,
            // Its end was refused too: then what was said is what is too much.
            2 => "",
            _ => return None,
        };
        let text = excerpt::framed(said, FRAME_TEXT, "the store does not take them").0;
        Some(End { text, ..end })
    }
}

/// The pause before the next attempt; none if this was the last.
pub(in crate::team) fn pause_after(attempts: u32) -> Option<Duration> {
    match attempts {
        0 | 1 => Some(Duration::from_secs(30)),
        made if made < MAX_ATTEMPTS => Some(Duration::from_secs(120)),
        _ => None,
    }
}
