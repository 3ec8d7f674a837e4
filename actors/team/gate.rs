//! What the model says, on its way to the person: held back until their message is acknowledged.

use crate::live::event::Stream;

/// With which words a message is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// All that has been said.
    All,
    /// What has been said up to a good place to stop; without any, no ack.
    Settled,
    /// The same; without any, a fixed sentence.
    OrNone,
}

/// Holds text back until its message is acknowledged, and says with which words it can be.
#[derive(Debug, Default)]
pub(super) struct Gate {
    open: bool,
    /// The ack is on its way into the store.
    pub(super) storing: bool,
    held: String,
}

impl Gate {
    /// The gate of a message that may be acknowledged already.
    pub(super) fn new(acked: bool) -> Self {
        Self { open: acked, storing: false, held: String::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Nothing has been done about the ack yet.
    pub(super) fn is_waiting(&self) -> bool {
        !self.open && !self.storing
    }

    /// Text has begun and waits for the ack.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// A piece of text: what may go on to the client now.
    pub(super) fn pass(&mut self, piece: String) -> Option<String> {
        if self.open {
            return Some(piece);
        }
        self.held.push_str(&piece);
        None
    }

    /// The text so far is void.
    pub(super) fn reset(&mut self) {
        self.held.clear();
    }

    /// The words of an ack that is sent now: all, or up to the last sentence end, else up to the
    /// last word end.
    pub(super) fn words(&self, words: Words) -> &str {
        if words == Words::All {
            return &self.held;
        }
        let sentence = self
            .held
            .char_indices()
            .zip(self.held.chars().skip(1).chain([' ']))
            .filter(|((_, character), next)| {
                matches!(character, '.' | '!' | '?' | '。' | '！' | '？') && next.is_whitespace()
            })
            .map(|((place, character), _)| place + character.len_utf8())
            .last();
        let word = || self.held.rfind(char::is_whitespace);
        match sentence.or_else(word) {
            Some(end) => &self.held[..end],
            None => "",
        }
    }

    /// The ack is on its way: what was held follows it.
    pub(super) fn open(&mut self) -> String {
        self.open = true;
        std::mem::take(&mut self.held)
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
}

/// What the model writes in the present step and whoever watches has not been told yet.
#[derive(Default)]
pub(super) struct LiveStream {
    pub(super) thinking: bool,
    pub(super) unsent: String,
}

impl LiveStream {
    /// What is to be told now.
    pub(super) fn take(&mut self) -> Option<Stream> {
        let data = std::mem::take(&mut self.unsent);
        if data.is_empty() {
            return None;
        }
        Some(if self.thinking { Stream::Thinking { data } } else { Stream::Text { data } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CH-81
    #[test]
    fn an_ack_ends_at_the_last_sentence_else_at_the_last_word() {
        let mut gate = Gate::new(false);
        assert_eq!(gate.pass("I will look".into()), None);
        assert_eq!(gate.words(Words::Settled), "I will");

        gate.pass(" into it. Then we s".into());
        assert_eq!(gate.words(Words::OrNone), "I will look into it.");
        assert_eq!(gate.words(Words::All), "I will look into it. Then we s");
    }

    /// CH-81
    #[test]
    fn text_made_before_the_ack_follows_it() {
        let mut gate = Gate::new(false);
        gate.pass("Hello ".into());

        assert_eq!(gate.open(), "Hello ");
        assert_eq!(gate.pass("there".into()), Some("there".into()));
    }
}
