//! The model's message on its way: its blocks, and its calls, of which an agent tells and which it makes, in any order.

use std::time::Duration;

use hivewright_actors::{
    engine::{Block, ToolOutput},
    ids::CallId,
    tool::{Args, ToolCall},
};
use tokio::{sync::oneshot, time::Instant};

use super::bridge::BridgeCall;

/// An agent that makes a call has told of it by then.
const TOLD: Duration = Duration::from_secs(2);

/// A call that was handed to the turn.
pub(super) struct OpenCall {
    pub(super) id: CallId,
    /// What the agent calls it.
    pub(super) told: CallId,
    pub(super) name: String,
    /// The agent waits for it.
    pub(super) answer: Option<oneshot::Sender<ToolOutput>>,
    pub(super) result: Option<ToolOutput>,
}

impl OpenCall {
    /// Answers it, if it has been made and has its result.
    pub(super) fn settle(&mut self) -> bool {
        let (Some(_), Some(_)) = (&self.answer, &self.result) else { return false };
        if let (Some(answer), Some(result)) = (self.answer.take(), self.result.take()) {
            // An agent that is gone is noticed by its end.
            let _ = answer.send(result);
        }
        true
    }
}

/// The model's message on its way.
#[derive(Default)]
pub(super) struct MessageSoFar {
    /// All blocks of the step.
    pub(super) blocks: Vec<Block>,
    /// How many are of messages before.
    pub(super) begun: usize,
    /// Calls that the agent has told of.
    pub(super) announced: Vec<ToolCall>,
    /// Calls that the turn took before the agent told of them: by what it calls them, and by their tools.
    pub(super) untold: Vec<(CallId, String)>,
    /// Calls that it has made, and when the last one came.
    made: Vec<BridgeCall>,
    since: Option<Instant>,
    /// All its calls have been told of.
    pub(super) has_ended: bool,
    /// What is said next is of another one.
    pub(super) is_over: bool,
    pub(super) stop_reason: Option<String>,
}

impl MessageSoFar {
    /// When the step ends that these calls end, if there are any.
    pub(super) fn due(&self) -> Option<Instant> {
        let since = self.since?;
        Some(if self.has_ended { since } else { since + TOLD })
    }

    /// The agent tells of a call. One that the turn took before is not run again.
    pub(super) fn announce(&mut self, call: ToolCall) {
        let is_same = |(told, name): &(CallId, String)| {
            *told == call.id || (told.as_str().is_empty() && *name == call.name)
        };
        match self.untold.iter().position(is_same) {
            Some(place) => drop(self.untold.remove(place)),
            None => self.announced.push(call),
        }
    }

    pub(super) fn call(&mut self, call: BridgeCall) {
        self.made.push(call);
        self.since = Some(Instant::now());
    }

    /// Takes the calls out of it, in the order of the message: with what the agent waits on, if it has made the call.
    ///
    /// Some make the second call of a message when the first is answered, and all are wanted by then.
    pub(super) fn take_calls(&mut self) -> Vec<(ToolCall, Option<oneshot::Sender<ToolOutput>>)> {
        self.since = None;
        // A call that comes now is of another message, or was not told of.
        self.has_ended = false;
        let mut made = std::mem::take(&mut self.made);
        let mut calls = Vec::new();
        for told in std::mem::take(&mut self.announced) {
            let place = made.iter().position(|call| call.has(&told.id));
            let place = place.or_else(|| made.iter().position(|call| call.name == told.name));
            calls.push(match place.map(|place| made.remove(place)) {
                // What it calls with counts, not what it says that it will.
                Some(BridgeCall { args, answer, .. }) => {
                    (ToolCall { args: Args::Json(args), ..told }, Some(answer))
                }
                None => (told, None),
            });
        }
        for BridgeCall { id, name, args, answer } in made {
            let id: CallId = id.unwrap_or_default().into();
            self.untold.push((id.clone(), name.clone()));
            calls.push((ToolCall { id, name, args: Args::Json(args) }, Some(answer)));
        }
        calls
    }
}

impl BridgeCall {
    pub(super) fn has(&self, id: &CallId) -> bool {
        self.id.as_ref().is_some_and(|own| own == id.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn told(id: &str, name: &str) -> ToolCall {
        ToolCall { id: id.into(), name: name.into(), args: Args::Json(json!({})) }
    }

    fn made(id: Option<&str>, name: &str) -> BridgeCall {
        let (answer, _) = oneshot::channel();
        let (id, name) = (id.map(str::to_owned), name.to_owned());
        BridgeCall { id, name, args: json!({}), answer }
    }

    fn names(calls: Vec<(ToolCall, Option<oneshot::Sender<ToolOutput>>)>) -> Vec<String> {
        calls.into_iter().map(|(call, _)| call.name).collect()
    }

    /// A message takes longer than a call of it waits to be told of: the step is over by then.
    #[actix::test]
    async fn a_call_that_is_told_of_late_is_not_run_again() {
        for id in [Some("a"), None] {
            let mut message = MessageSoFar::default();

            message.call(made(id, "write"));
            let first = names(message.take_calls());
            message.announce(told("a", "write"));
            message.announce(told("b", "write"));
            message.call(made(Some("b"), "write"));
            let second = message.take_calls();

            assert_eq!(first, ["write"]);
            let ids: Vec<_> = second.iter().map(|(call, _)| call.id.as_str()).collect();
            assert_eq!(ids, ["b"], "{id:?}");
        }
    }

    #[actix::test]
    async fn calls_of_a_message_that_were_told_of_are_taken_with_the_first() {
        let mut message = MessageSoFar::default();

        message.announce(told("a", "write"));
        message.announce(told("b", "read"));
        message.call(made(Some("a"), "write"));

        assert_eq!(names(message.take_calls()), ["write", "read"]);
        assert_eq!(names(message.take_calls()), [""; 0]);
    }
}
