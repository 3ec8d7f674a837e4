//! Notes: what an agent says beside its answer, within bounds.

use std::sync::Arc;

use hivewright_actors::{engine::EngineEvent, excerpt};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, BufReader},
    sync::mpsc,
};

use super::lines::{LONGEST as LONGEST_LINE, Line, Lines};

/// So many are told in the life of an agent; the rest is counted.
const MOST: usize = 50;
/// So many of them are told as a new try, which is a sign of life: one that never ends is none.
const MOST_TRIES: usize = 5;
/// So much of one is told, in characters.
const LONGEST: usize = 1_000;

/// The notes of one agent. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    told: usize,
    tries: usize,
    /// Those that were not told, and of which nothing was said yet.
    untold: usize,
    last: Option<String>,
}

impl Notes {
    /// What is told of a note; none if there were too many.
    pub(super) fn take(&self, text: &str) -> Option<String> {
        let text = excerpt::line(plain(text).trim(), LONGEST);
        if text.is_empty() {
            return None;
        }
        tracing::debug!(note = text, "an agent remarks");
        let mut taken = self.0.lock();
        taken.last = Some(text.clone());
        if taken.told == MOST {
            taken.untold += 1;
            return None;
        }
        taken.told += 1;
        Some(text)
    }

    /// What is told of a new try.
    pub(super) fn take_try(&self, reason: &str) -> Option<EngineEvent> {
        let reason = self.take(reason)?;
        let mut taken = self.0.lock();
        taken.tries += 1;
        let is_told = taken.tries <= MOST_TRIES;
        Some(if is_told { EngineEvent::Retry(reason) } else { EngineEvent::Note(reason) })
    }

    /// What is told of a line that is no JSON.
    pub(super) fn take_line(&self, line: &Line) -> Option<String> {
        match line {
            Line::Json(json) => self.take(&json.to_string()),
            Line::Other(text) => self.take(text),
            Line::TooLong => {
                let longest = LONGEST_LINE / (1 << 20);
                self.take(&format!("a line of more than {longest} MiB was passed over"))
            }
        }
    }

    /// What is said of those that were not told since this was last asked.
    pub(super) fn rest(&self) -> Option<String> {
        let untold = std::mem::take(&mut self.0.lock().untold);
        (untold > 0).then(|| format!("{untold} more notes of the agent are not shown"))
    }

    /// The last one, told or not: it may say why the agent ended.
    pub(super) fn last(&self) -> Option<String> {
        self.0.lock().last.clone()
    }

    /// Takes the lines of its error output, until that ends.
    pub(super) async fn follow(
        self,
        errors: impl AsyncRead + Unpin,
        told: mpsc::UnboundedSender<String>,
    ) {
        let mut lines = Lines::new(BufReader::new(errors));
        while let Ok(Some(line)) = lines.next().await {
            if let Some(note) = self.take_line(&line) {
                // At the end of the turn nobody listens any more.
                let _ = told.send(note);
            }
        }
    }
}

/// A text without the colours that are meant for a terminal, and on one line.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut pieces = text.split("\u{1b}[");
    plain.extend(pieces.next());
    for piece in pieces {
        // A sequence ends with its first letter.
        let end = piece.find(|c: char| c.is_ascii_alphabetic()).map_or(0, |end| end + 1);
        plain.push_str(&piece[end..]);
    }
    plain.replace(|c: char| c.is_control(), " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// EN-62, EN-63: a flood is counted, and its last line is known.
    #[actix::test]
    async fn so_many_notes_are_told_and_the_rest_is_counted() {
        let (notes, (sent, mut told)) = (Notes::default(), mpsc::unbounded_channel());
        let flood: String = (0..MOST + 3).map(|line| format!("line {line}\n\n")).collect();

        notes.clone().follow(flood.as_bytes(), sent).await;

        let mut heard = Vec::new();
        while let Some(note) = told.recv().await {
            heard.push(note);
        }
        assert_eq!((heard.len(), heard[0].as_str()), (MOST, "line 0"));
        assert_eq!(notes.rest().as_deref(), Some("3 more notes of the agent are not shown"));
        assert_eq!(notes.rest(), None);
        assert_eq!(notes.last().unwrap(), format!("line {}", MOST + 2));
    }

    /// EN-64, EN-82: an agent that tries for ever is not taken for one that works.
    #[test]
    fn only_so_many_new_tries_are_signs_of_life() {
        let notes = Notes::default();

        let told: Vec<_> =
            (0..MOST_TRIES + 2).filter_map(|_| notes.take_try("Reconnecting")).collect();

        let is_try = |event: &&EngineEvent| matches!(event, EngineEvent::Retry(_));
        assert_eq!((told.len(), told.iter().filter(is_try).count()), (MOST_TRIES + 2, MOST_TRIES));
        assert_eq!(told.last(), Some(&EngineEvent::Note("Reconnecting".to_owned())));
    }

    /// EN-62
    #[test]
    fn a_long_note_is_cut_and_a_line_that_is_too_long_is_told_of() {
        let notes = Notes::default();

        let long = notes.take(&"x".repeat(LONGEST + 1)).unwrap();
        let passed_over = notes.take_line(&Line::TooLong).unwrap();

        assert_eq!(long, format!("{}…", "x".repeat(LONGEST - 1)));
        assert_eq!(passed_over, "a line of more than 8 MiB was passed over");
        assert_eq!(notes.take(" \n"), None);
        let coloured = notes.take("\u{1b}[2m12:00\u{1b}[0m \u{1b}[31mERROR\u{1b}[0m a\tb");
        assert_eq!(coloured.as_deref(), Some("12:00 ERROR a b"));
    }
}
