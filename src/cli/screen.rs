//! Output of a command: results on standard output, everything else on standard error.

use std::{
    io::{self, IsTerminal, Write},
    sync::OnceLock,
};

use serde::Serialize;

use super::failure::{Exit, Failure};

/// How the output is to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Screen {
    pub(super) json: bool,
    /// Nothing beside results and errors.
    pub(super) quiet: bool,
    pub(super) colour: bool,
    /// A person reads the results as they come.
    pub(super) live: bool,
    /// Results may be drawn anew in place of those before.
    pub(super) redraws: bool,
    /// Long work may draw how far it has come.
    pub(super) bar: bool,
}

/// Why results could not be written, the first time.
static FAULT: OnceLock<io::Error> = OnceLock::new();

/// Why results could not be written, if they could not.
pub(super) fn fault() -> Option<&'static io::Error> {
    FAULT.get()
}

/// All results were written. A reader that has gone away has seen enough.
pub(super) fn written() -> Result<(), Failure> {
    match fault() {
        Some(fault) if fault.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system("the output cannot be written", fault))
        }
        _ => Ok(()),
    }
}

/// The columns that the terminal has now to which results go, if it is one and says so.
pub(super) fn width() -> Option<usize> {
    let size = is_live().then(|| rustix::termios::tcgetwinsize(io::stdout()).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Whether a person looks at the results as they come.
static LIVE: OnceLock<bool> = OnceLock::new();

/// Whether a person looks at the results as they come.
pub(super) fn is_live() -> bool {
    LIVE.get().copied().unwrap_or_default()
}

/// A colour with a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// As it should be.
    Good,
    /// Worth a look.
    Doubtful,
    /// Wrong.
    Bad,
    /// Beside the point.
    Faint,
}

impl Screen {
    /// What the flags, the environment and the streams say.
    pub(super) fn new(json: bool, quiet: bool, no_colour: bool) -> Self {
        let live = io::stdout().is_terminal();
        // Set once: a process has one screen.
        let _known = LIVE.set(live);
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        // One that only writes letters, such as the shell of an editor, would show escape sequences as they are.
        let dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        let plain = no_colour || unwanted || dumb;
        Self {
            json,
            quiet,
            colour: live && !plain,
            live,
            redraws: live && !dumb,
            bar: io::stderr().is_terminal() && !plain && !quiet && !json,
        }
    }

    /// Colours a text, if colours are welcome.
    pub(super) fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => 32,
            Tone::Doubtful => 33,
            Tone::Bad => 31,
            Tone::Faint => 2,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Text of a model or another person, without what could take over a terminal.
    pub(super) fn harmless(&self, text: &str) -> String {
        if !self.live {
            return text.to_owned();
        }
        printable(text)
    }

    pub(super) fn say(&self, line: &str) {
        self.write(&format!("{line}\n"));
    }

    /// A piece of the result, shown at once.
    pub(super) fn write(&self, text: &str) {
        self.put(text.as_bytes());
    }

    /// A line of a result that goes on, shown at once. False if it cannot be written any more.
    pub(super) fn follow(&self, line: &str) -> bool {
        self.put(format!("{line}\n").as_bytes())
    }

    /// A piece of the result as it is. What cannot be written is an error at the end of the command.
    pub(super) fn put(&self, bytes: &[u8]) -> bool {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush()).map_err(|fault| FAULT.set(fault)).is_ok()
    }

    /// The whole result, as one document on one line.
    pub(super) fn document(&self, document: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(document)
            .map_err(|error| Failure::system("the result cannot be shown", error))?;
        self.say(&text);
        Ok(())
    }

    /// The end of a command whose result has told what is wrong. Behind a document, words of ours would make it unreadable.
    pub(super) fn failure(&self, exit: Exit, message: String) -> Failure {
        Failure::new(exit, if self.json { String::new() } else { message })
    }

    /// Something beside the result, unless that is not wanted.
    pub(super) fn remark(&self, line: &str) {
        if !self.quiet {
            complain(line);
        }
    }
}

/// A line on standard error, wanted or not.
pub(super) fn complain(line: &str) {
    // A reader that has gone away is no reason to end otherwise than we would.
    let _gone = writeln!(io::stderr().lock(), "{}", printable(line));
}

/// Without control characters, except line ends and tabs, and without what turns the order of letters around: a call
/// would read otherwise than it runs.
pub(super) fn printable(text: &str) -> String {
    let is_turn = |c: &char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let harmless = |c: &char| matches!(c, '\n' | '\t') || !c.is_control() && !is_turn(c);
    text.chars().filter(harmless).collect()
}

#[cfg(test)]
impl Screen {
    /// As in a pipe.
    pub(super) const PLAIN: Self =
        Self { json: false, quiet: false, colour: false, live: false, redraws: false, bar: false };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-84
    #[test]
    fn colours_are_only_for_those_who_want_them() {
        let colourful = Screen { colour: true, ..Screen::PLAIN };

        assert_eq!(Screen::PLAIN.paint(Tone::Bad, "error"), "error");
        assert_eq!(colourful.paint(Tone::Bad, "error"), "\x1b[31merror\x1b[0m");
    }

    #[test]
    fn an_answer_cannot_take_over_a_terminal() {
        let live = Screen { live: true, ..Screen::PLAIN };
        let text = "a\x1b]0;title\x07b\r\u{9b}2J\n\tc";

        assert_eq!(live.harmless(text), "a]0;titleb2J\n\tc");
        assert_eq!(Screen::PLAIN.harmless(text), text);
    }
}
