//! Buffer of engine events: what an engine has said and its session has not heard yet.
//!
//! Engines say a word at a time, often many before the team has the time to hear one. Together they are one message.

use std::sync::Arc;

use actix::{Message, Recipient};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::lease::SessionKey;
use crate::engine::{EngineEvent, EventSink};

/// An engine has begun to say something about a running step.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub(super) struct Spoke {
    pub(super) session: SessionKey,
    /// What it has said by the time that this is heard.
    pub(super) speech: Arc<Speech>,
}

/// Events that wait, each with the moment when the engine had it. What follows on words of the same kind is joined to them.
#[derive(Debug, Default)]
pub(super) struct Speech(Mutex<Vec<(EngineEvent, Instant)>>);

impl Speech {
    /// Takes what an engine says, as far as it passes the filter, to the session of a team.
    pub(super) fn sink(
        team: Recipient<Spoke>,
        session: SessionKey,
        is_heard: fn(&EngineEvent) -> bool,
    ) -> EventSink {
        let speech = Arc::new(Self::default());
        Arc::new(move |event| {
            if is_heard(&event) && speech.add(event, Instant::now()) {
                team.do_send(Spoke { session: session.clone(), speech: speech.clone() });
            }
        })
    }

    /// Returns whether nothing else waits: the team must be told then.
    pub(super) fn add(&self, event: EngineEvent, at: Instant) -> bool {
        let mut waiting = self.0.lock();
        let event = match waiting.last_mut() {
            Some((last, _)) => last.join(event),
            None => Some(event),
        };
        let Some(event) = event else { return false };
        waiting.push((event, at));
        waiting.len() == 1
    }

    /// All that waits.
    pub(super) fn take(&self) -> Vec<(EngineEvent, Instant)> {
        std::mem::take(&mut *self.0.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_wait_are_joined_and_told_of_once() {
        let speech = Speech::default();
        let text = |text: &str| EngineEvent::Text(text.to_owned());
        let thought = |text: &str| EngineEvent::Thinking(text.to_owned());
        let told = |said: Vec<EngineEvent>| -> Vec<bool> {
            said.into_iter().map(|event| speech.add(event, Instant::now())).collect()
        };
        let heard =
            || -> Vec<EngineEvent> { speech.take().into_iter().map(|(event, _)| event).collect() };

        let first = told(vec![
            text("a "),
            text("b"),
            EngineEvent::Reset,
            text("c"),
            thought("d"),
            thought("e"),
        ]);
        let first_heard = heard();
        let second = told(vec![thought("f")]);

        assert_eq!((first, second), (vec![true, false, false, false, false, false], vec![true]));
        assert_eq!(first_heard, [text("a b"), EngineEvent::Reset, text("c"), thought("de")]);
        assert_eq!(heard(), [thought("f")]);
        assert!(heard().is_empty());
    }
}
