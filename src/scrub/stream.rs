//! Text that arrives in pieces, as models write it.

use super::Scrubber;

/// A stream never holds back more than this for the sake of a shape that does not end.
pub(super) const LONGEST_HELD: usize = 16 * 1024;

/// Scrubs text that arrives in pieces. What might be the beginning of a secret is held back until
/// more is known.
#[derive(Clone, Debug)]
pub struct StreamScrubber {
    scrubber: Scrubber,
    held: String,
    before: Option<char>,
}

impl StreamScrubber {
    pub(super) fn new(scrubber: Scrubber) -> Self {
        Self { scrubber, held: String::new(), before: None }
    }

    /// Takes the next piece and gives what can be let out.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        if let Some(cut) = self.scrubber.harmless_cut(&self.held) {
            return self.take(cut);
        }
        let most = LONGEST_HELD.max(self.scrubber.0.longest);
        let cut = match self.scrubber.safe_cut(self.before, &self.held) {
            cut if self.held.len() - cut > most => self.scrubber.known_cut(&self.held),
            cut => cut,
        };
        self.release(cut)
    }

    /// Gives what is left at the end of the text, and is ready for another.
    pub fn finish(&mut self) -> String {
        let rest = self.release(self.held.len());
        self.before = None;
        rest
    }

    fn release(&mut self, cut: usize) -> String {
        let before = self.before;
        let out = self.take(cut);
        if out.is_empty() { out } else { self.scrubber.scrub_after(before, &out).into_owned() }
    }

    /// What is before the cut, as it is.
    fn take(&mut self, cut: usize) -> String {
        let rest = self.held.split_off(cut);
        let out = std::mem::replace(&mut self.held, rest);
        self.before = out.chars().next_back().or(self.before);
        out
    }
}
