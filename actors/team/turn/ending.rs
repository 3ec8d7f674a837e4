//! Ends: how a turn is over, or over for now.

use std::time::Duration;

use super::{CallState, End, Stop, Turn, Want, backoff};
use crate::{
    clock::Timestamp,
    engine::EngineFailure,
    event::{FRAME_TEXT, Progress, ProgressKind},
    excerpt,
    history::Fact,
    store::StoreError,
    task::{Code, Ending, MAX_ATTEMPTS},
    tool::{ToolFault, ToolReply},
};

impl Turn {
    pub(super) fn answer(&mut self, text: String, truncated: bool) -> Want {
        if text.trim().is_empty() {
            let tools = match self.tools_used.as_slice() {
                [] => "no tool ran".to_owned(),
                used => format!("tools that ran: {}", used.join(", ")),
            };
            let message = format!("the model answered with nothing ({tools})");
            return self.end(Ending::Failed, Some(Code::EmptyAnswer), Some(message), String::new());
        }
        self.ended = true;
        Want::End(
            Vec::new(),
            End { ending: Ending::Done, code: None, message: None, text, truncated },
        )
    }

    pub(super) fn failed(
        &mut self,
        failure: EngineFailure,
        said: bool,
        now: Timestamp,
    ) -> Vec<Want> {
        if let Some(reason) = backoff::reason(&failure) {
            let wait = backoff::wait(reason, &failure, self.times_waited(reason), now);
            return self.park(wait, said);
        }
        if failure.code == Code::ContextOverflow {
            return self.overflowed(failure, said);
        }
        let EngineFailure { code, message, .. } = failure;
        if code.is_transient() {
            return self.give_back(code, message);
        }
        vec![self.end(Ending::Failed, Some(code), Some(message), String::new())]
    }

    /// A passing failure: the task is tried again, up to its last attempt.
    pub(super) fn give_back(&mut self, code: Code, message: String) -> Vec<Want> {
        self.ended = true;
        let Some(pause) = pause_after(self.task.attempts) else {
            let message = format!("{message} (given up after {} attempts)", self.task.attempts);
            return vec![self.end(Ending::Dead, Some(code), Some(message), String::new())];
        };
        let seconds = pause.as_secs();
        let mut note =
            Progress::new(ProgressKind::Note, format!("{message}. Trying again in {seconds} s."));
        note.reset = true;
        vec![Want::Suspend(vec![Fact::TurnSuspended { code, message }], vec![note], pause)]
    }

    pub(super) fn stop(&mut self, stop: Stop, streaming: String) -> Vec<Want> {
        let mut facts = Vec::new();
        for slot in &mut self.calls {
            if !matches!(slot.state, CallState::Done(_)) && stop != Stop::Stalled {
                let reply = ToolReply::failed(ToolFault::Cancelled, "cancelled");
                facts.push(slot.result(&reply, Duration::ZERO).0);
            }
        }
        if !streaming.is_empty() {
            facts.push(Fact::AssistantText { text: streaming.clone(), step: self.step });
        }
        let mut wants = vec![Want::StopCalls];
        let (ending, code, message) = match stop {
            Stop::Cancelled => (Ending::Cancelled, Code::Cancelled, None),
            Stop::Interrupted => (Ending::Cancelled, Code::Interrupted, None),
            Stop::Deadline => {
                (Ending::Expired, Code::Deadline, Some("the turn ran out of time".to_owned()))
            }
            Stop::Stalled => {
                wants
                    .extend(self.give_back(Code::Stalled, "nothing moved for too long".to_owned()));
                return wants;
            }
        };
        if let Want::End(last, end) = self.end(ending, Some(code), message, streaming) {
            facts.extend(last);
            wants.push(Want::End(facts, end));
        }
        wants
    }

    /// An end that is not an answer keeps all that was said.
    pub(super) fn end(
        &mut self,
        ending: Ending,
        code: Option<Code>,
        message: Option<String>,
        streaming: String,
    ) -> Want {
        self.ended = true;
        let mut said = self.said.clone();
        if !streaming.trim().is_empty() {
            said.push(streaming);
        }
        Want::End(
            Vec::new(),
            End { ending, code, message, text: said.join("\n\n"), truncated: false },
        )
    }
}

impl Turn {
    /// The store does not take a step: the turn fails with what was said so far, as far as the store takes
    /// that.
    pub fn refused_by_store(&mut self, error: &StoreError) -> End {
        // Its end was refused too: then what was said is what is too much.
        let said = if self.refused { String::new() } else { self.said.join("\n\n") };
        self.ended = true;
        self.refused = true;
        let rest = "the store does not take them";
        End {
            ending: Ending::Failed,
            code: Some(Code::Internal),
            message: Some(format!("a step could not be stored: {error}")),
            text: excerpt::framed(&said, FRAME_TEXT, rest).0,
            truncated: false,
        }
    }
}

/// The pause before the next attempt; none if this was the last.
pub fn pause_after(attempts: u32) -> Option<Duration> {
    match attempts {
        0 | 1 => Some(Duration::from_secs(30)),
        made if made < MAX_ATTEMPTS => Some(Duration::from_secs(120)),
        _ => None,
    }
}
