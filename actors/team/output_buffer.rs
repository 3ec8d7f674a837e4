//! Output buffer: what the model says, held back until the message of the person is acknowledged, then merged to pieces.

use std::time::Duration;

use tokio::{sync::oneshot, time::Instant};

use crate::live::event::Stream;

/// Pieces of text are merged to at most one frame, and one event, in this time.
const MERGE_WINDOW: Duration = Duration::from_millis(50);

/// Holds text back until its message is acknowledged.
#[derive(Debug, Default)]
pub(super) struct OutputBuffer {
    released: bool,
    /// The ack is on its way into the store.
    pub(super) storing: bool,
    /// Ends when an ack with a commit of its own has gone out, or cannot any more.
    pub(super) sending: Option<oneshot::Receiver<()>>,
    held: String,
}

impl OutputBuffer {
    /// The buffer for a message that may be acknowledged already.
    pub(super) fn new(acked: bool) -> Self {
        Self { released: acked, ..Self::default() }
    }

    pub(super) fn is_released(&self) -> bool {
        self.released
    }

    /// Nothing has been done about the ack yet.
    pub(super) fn awaits_ack(&self) -> bool {
        !self.released && !self.storing
    }

    /// There are words for an ack. White space alone is none.
    pub(super) fn has_words(&self) -> bool {
        !self.held.trim_start().is_empty()
    }

    /// What waits for the ack, all of it: the words of an ack that is made now.
    pub(super) fn held(&self) -> &str {
        &self.held
    }

    /// A piece of text: what may go on to the client now.
    pub(super) fn pass(&mut self, piece: String) -> Option<String> {
        if self.released {
            return Some(piece);
        }
        self.held.push_str(&piece);
        None
    }

    /// The text so far is void.
    pub(super) fn reset(&mut self) {
        self.held.clear();
    }

    /// The ack is on its way: what was held follows it.
    pub(super) fn release(&mut self) -> String {
        self.released = true;
        std::mem::take(&mut self.held)
    }
}

/// Pace of a stream: what comes after a silence goes out at once, what comes soon after it together.
#[derive(Debug, Default)]
pub(super) struct Pace {
    sent_at: Option<Instant>,
}

impl Pace {
    /// How long a piece that comes now waits for others.
    pub(super) fn pause(&self) -> Duration {
        self.sent_at.map_or(Duration::ZERO, |sent| MERGE_WINDOW.saturating_sub(sent.elapsed()))
    }

    /// Something goes out now.
    pub(super) fn sent(&mut self) {
        self.sent_at = Some(Instant::now());
    }
}

/// The text of the present step, on its way to the person.
#[derive(Default)]
pub(super) struct TextStream {
    /// All that the model has said in the step.
    pub(super) said: String,
    /// What of it has not been sent yet.
    pub(super) unsent: String,
    /// So often the person is not told yet that what was said before is void.
    pub(super) voiding: u32,
    /// A block of it is complete, and nothing else was told since.
    pub(super) block_ended: bool,
    pub(super) pace: Pace,
}

impl TextStream {
    /// A piece of text as it stands in the answer, where each block begins a line.
    pub(super) fn apart(&mut self, piece: String) -> String {
        let begins = std::mem::take(&mut self.block_ended) && !self.said.is_empty();
        if begins { format!("\n{piece}") } else { piece }
    }
}

/// What the model writes in the present step and whoever watches has not been told yet.
#[derive(Default)]
pub(super) struct LiveStream {
    pub(super) thinking: bool,
    pub(super) unsent: String,
    pub(super) pace: Pace,
}

impl LiveStream {
    /// What is to be told now.
    pub(super) fn take(&mut self) -> Option<Stream> {
        let data = std::mem::take(&mut self.unsent);
        if data.is_empty() {
            return None;
        }
        self.pace.sent();
        Some(if self.thinking { Stream::Thinking { data } } else { Stream::Text { data } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CH-81
    #[test]
    fn the_words_of_an_ack_are_all_that_is_held() {
        let mut buffer = OutputBuffer::new(false);
        assert_eq!(buffer.pass("\n ".into()), None);
        assert!(!buffer.has_words());

        buffer.pass("I will look. Then I wri".into());
        assert!(buffer.has_words());
        assert_eq!(buffer.held(), "\n I will look. Then I wri");

        buffer.reset();
        assert!(!buffer.has_words());
    }

    /// CH-81
    #[test]
    fn text_made_before_the_ack_follows_it() {
        let mut buffer = OutputBuffer::new(false);
        buffer.pass("Hello ".into());

        assert_eq!(buffer.release(), "Hello ");
        assert_eq!(buffer.pass("there".into()), Some("there".into()));
    }

    /// CH-61
    #[tokio::test(start_paused = true)]
    async fn a_piece_waits_only_if_one_went_out_just_before() {
        let mut pace = Pace::default();
        let at_first = pace.pause();

        pace.sent();
        tokio::time::advance(Duration::from_millis(20)).await;
        let soon = pace.pause();
        tokio::time::advance(Duration::from_millis(30)).await;
        let later = pace.pause();

        assert_eq!([at_first, later], [Duration::ZERO; 2]);
        assert_eq!(soon, Duration::from_millis(30));
    }
}
