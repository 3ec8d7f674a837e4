//! Scrubbed event sink: what a model says on its way out, without secrets, and taken back if the call breaks.

use hivewright_actors::{
    engine::{Block, EngineEvent, EventSink},
    tool::{Args, ToolCall},
};

use crate::scrub::{Scrubber, json, stream::StreamScrubber};

pub(super) struct ScrubbedSink {
    sink: EventSink,
    /// What the team must not see, and nobody of it.
    pub(super) scrubber: Scrubber,
    text: StreamScrubber,
    thinking: StreamScrubber,
    spoke: bool,
}

impl ScrubbedSink {
    pub(super) fn new(sink: EventSink, scrubber: Scrubber) -> Self {
        let (text, thinking) = (scrubber.stream(), scrubber.stream());
        Self { sink, scrubber, text, thinking, spoke: false }
    }

    pub(super) fn say(&mut self, event: EngineEvent) {
        match event {
            EngineEvent::Text(piece) => {
                self.end_thinking();
                let clean = self.text.push(&piece);
                self.tell(EngineEvent::Text(clean));
            }
            EngineEvent::TextEnd => {
                self.end_text();
                self.tell(EngineEvent::TextEnd);
            }
            EngineEvent::Thinking(piece) => {
                self.end_text();
                let clean = self.thinking.push(&piece);
                self.tell(EngineEvent::Thinking(clean));
            }
            EngineEvent::Reset => self.reset(),
            EngineEvent::Retry(reason) => (self.sink)(EngineEvent::Retry(self.scrub(&reason))),
            EngineEvent::Fallback(reason) => {
                (self.sink)(EngineEvent::Fallback(self.scrub(&reason)));
            }
            EngineEvent::Note(text) => (self.sink)(EngineEvent::Note(self.scrub(&text))),
            other @ (EngineEvent::Spent(_) | EngineEvent::InLine) => (self.sink)(other),
        }
    }

    pub(super) fn scrub(&self, text: &str) -> String {
        self.scrubber.scrub(text).into_owned()
    }

    pub(super) fn end(&mut self) {
        self.end_thinking();
        self.end_text();
    }

    /// Takes back what was said, if anything was.
    pub(super) fn reset(&mut self) {
        self.text.finish();
        self.thinking.finish();
        if std::mem::take(&mut self.spoke) {
            (self.sink)(EngineEvent::Reset);
        }
    }

    fn end_text(&mut self) {
        let rest = self.text.finish();
        self.tell(EngineEvent::Text(rest));
    }

    fn end_thinking(&mut self) {
        let rest = self.thinking.finish();
        self.tell(EngineEvent::Thinking(rest));
    }

    fn tell(&mut self, event: EngineEvent) {
        if let EngineEvent::Text(piece) | EngineEvent::Thinking(piece) = &event
            && piece.is_empty()
        {
            return;
        }
        self.spoke = true;
        (self.sink)(event);
    }
}

/// Blocks without secrets.
pub(super) fn clean_blocks(blocks: Vec<Block>, scrubber: &Scrubber) -> Vec<Block> {
    let clean = |text: String| scrubber.scrub(&text).into_owned();
    blocks
        .into_iter()
        .map(|block| match block {
            Block::Text { text } => Block::Text { text: clean(text) },
            Block::Thinking { text, block } => Block::Thinking {
                text: clean(text),
                // It is signed, so it goes back as it is or not at all.
                // Signatures look like anything, so only the known values count.
                block: block
                    .filter(|block| !json::texts(block).iter().any(|text| scrubber.knows(text))),
            },
            Block::Call(call) => Block::Call(ToolCall {
                args: match call.args {
                    // They keep what only looks like a credential: a tool may need it, and it is not ours.
                    // They also keep values of the vault until the call has been looked at: some tools
                    // refuse them.
                    Args::Json(value) => Args::Json(json::replaced(&value, &|text| {
                        scrubber.scrub_hidden(text).into_owned()
                    })),
                    Args::Unreadable { unreadable, reason } => {
                        Args::Unreadable { unreadable: clean(unreadable), reason }
                    }
                },
                name: clean(call.name),
                ..call
            }),
        })
        .collect()
}

#[cfg(test)]
mod tests {

    use std::sync::{Arc, Mutex};

    use serde_json::json;

    use super::*;

    const KEY: &str = "very-secret-key";

    fn scrubbed() -> (ScrubbedSink, Arc<Mutex<Vec<EngineEvent>>>) {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let sink: EventSink = Arc::new(move |event| ear.lock().unwrap().push(event));
        (ScrubbedSink::new(sink, Scrubber::new([KEY])), heard)
    }

    fn text(piece: &str) -> EngineEvent {
        EngineEvent::Text(piece.into())
    }

    /// SE-136, MV-50
    #[test]
    fn a_secret_that_is_split_between_pieces_does_not_get_out() {
        let (mut scrubbed, heard) = scrubbed();

        for piece in ["it is very-", "secret", "-key!"] {
            scrubbed.say(text(piece));
        }
        scrubbed.say(EngineEvent::TextEnd);

        assert_eq!(
            *heard.lock().unwrap(),
            [text("it is "), text("[REDACTED]!"), EngineEvent::TextEnd]
        );
    }

    /// SE-125
    #[test]
    fn only_what_was_said_is_taken_back() {
        let (mut scrubbed, heard) = scrubbed();

        scrubbed.reset();
        scrubbed.say(text("hello very-"));
        scrubbed.reset();
        scrubbed.say(text("again"));
        scrubbed.end();

        assert_eq!(*heard.lock().unwrap(), [text("hello "), EngineEvent::Reset, text("again")]);
    }

    /// SE-136
    #[test]
    fn finished_blocks_hold_no_secret() {
        let blocks = vec![
            Block::Text { text: format!("a {KEY}") },
            Block::Thinking { text: KEY.into(), block: Some(json!({"thinking": KEY})) },
            Block::Call(ToolCall {
                id: "1".into(),
                name: "read".into(),
                args: Args::Json(json!({"list": [KEY], "query": "token=mine"})),
            }),
        ];

        assert_eq!(
            clean_blocks(blocks, &Scrubber::new([KEY])),
            [
                Block::Text { text: "a [REDACTED]".into() },
                Block::Thinking { text: "[REDACTED]".into(), block: None },
                Block::Call(ToolCall {
                    id: "1".into(),
                    name: "read".into(),
                    args: Args::Json(json!({"list": ["[REDACTED]"], "query": "token=mine"})),
                }),
            ]
        );
    }
}
