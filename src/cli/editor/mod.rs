//! Line editor of a chat: history, completion, several lines, and a prompt that stays below what is printed.
//!
//! It blocks, so it has a thread of its own, and so has what prints above its prompt.

use std::{
    borrow::Cow,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::{Arc, mpsc as blocking},
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use rustyline::{
    Config, Context, ExternalPrinter, Helper,
    completion::{Completer, Pair},
    error::ReadlineError,
    highlight::Highlighter,
    hint::{Hint, Hinter},
    history::FileHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use super::{failure::Failure, prompt};
use known::Known;

pub(super) mod known;

/// So many lines are remembered.
const HISTORY: usize = 1000;
/// The last words before the end are waited for at most so long.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What the person did.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// Wrote a line, or several. `aim` is what a hint said that it decides.
    Line { text: String, aim: Option<String> },
    /// Pressed Ctrl-C; with words on the line, those are gone.
    Interrupt { cleared: bool },
    /// Has nothing more to say.
    End,
    /// Typed what must not be shown.
    Secret(Option<Zeroizing<String>>),
    /// The terminal cannot be read any more.
    Broken(String),
}

enum Ask {
    /// With this before it.
    Line(String),
    Secret(String),
}

enum Print {
    Text(String),
    /// Tells when all before it was printed.
    Mark(blocking::Sender<()>),
}

/// A person at a terminal.
#[derive(Debug)]
pub(super) struct Editor {
    inputs: mpsc::UnboundedReceiver<Input>,
    asks: blocking::Sender<Ask>,
    printer: Printer,
    known: Arc<Mutex<Known>>,
    /// The person was asked for something, and has not answered.
    is_asked: bool,
    before: Termios,
}

/// Prints above the prompt.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Printer(blocking::Sender<Print>);

impl Printer {
    /// Prints whole lines.
    pub(in crate::cli) fn print(&self, lines: String) {
        if !lines.is_empty() {
            // Without a terminal there is nobody to read them.
            let _ended = self.0.send(Print::Text(lines));
        }
    }
}

impl Editor {
    /// Takes the terminal; none if it is one that cannot be drawn on.
    pub(super) fn open(history: PathBuf, colour: bool) -> Result<Option<Self>, Failure> {
        let cannot =
            |error: &dyn std::fmt::Display| Failure::system("the terminal cannot be used", error);
        let before = tcgetattr(io::stdin()).map_err(|error| cannot(&error))?;
        let known = Arc::new(Mutex::new(Known::default()));
        let config = Config::builder()
            .max_history_size(HISTORY)
            .map_err(|error| cannot(&error))?
            .history_ignore_space(true)
            .completion_type(rustyline::CompletionType::List)
            .build();
        let mut lines = rustyline::Editor::<Assistant, FileHistory>::with_config(config)
            .map_err(|error| cannot(&error))?;
        lines.set_helper(Some(Assistant { known: known.clone(), colour }));
        let Ok(mut printer) = lines.create_external_printer() else { return Ok(None) };
        // Between two prompts, too, keys wait as they were pressed: the terminal's own editing would take a Ctrl-D for itself.
        let mut patient = before.clone();
        patient.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &patient).map_err(|error| cannot(&error))?;
        let (sender, inputs) = mpsc::unbounded_channel();
        let (asks, asked) = blocking::channel();
        let (prints, printed) = blocking::channel();
        let shared = known.clone();
        thread::spawn(move || read(lines, &history, &shared, &asked, &sender));
        thread::spawn(move || {
            for print in printed {
                // A terminal that is gone needs no words.
                let _gone = match print {
                    Print::Text(text) => printer.print(text).is_ok(),
                    Print::Mark(done) => done.send(()).is_ok(),
                };
            }
        });
        Ok(Some(Self { inputs, asks, printer: Printer(prints), known, is_asked: false, before }))
    }

    /// Shows the prompt, for the next line.
    pub(super) fn ask(&mut self, prompt: String) {
        self.is_asked = true;
        // One that has ended says so at the next input.
        let _ended = self.asks.send(Ask::Line(prompt));
    }

    /// Asks for something that is not shown while it is typed, and kept nowhere.
    pub(super) fn ask_secret(&mut self, question: String) {
        self.is_asked = true;
        let _ended = self.asks.send(Ask::Secret(question));
    }

    /// What the person did next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Input {
        let input = self.inputs.recv().await.unwrap_or(Input::End);
        self.is_asked = false;
        input
    }

    pub(super) fn printer(&self) -> Printer {
        self.printer.clone()
    }

    /// What completion and hints are made from.
    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let (done, printed) = blocking::channel();
        if self.printer.0.send(Print::Mark(done)).is_ok() {
            // Words that do not get through are not worth a process that does not end.
            let _late = printed.recv_timeout(LAST_WORDS);
        }
        if self.is_asked {
            // It is still being read: the prompt is taken back.
            let mut out = io::stdout().lock();
            let _gone = out.write_all(b"\r\x1b[J\x1b[?2004l").and_then(|()| out.flush());
        }
        // The terminal is left as it was found.
        let _gone = tcsetattr(io::stdin(), OptionalActions::Drain, &self.before);
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock()
}

/// Reads what is asked for until nobody asks any more.
fn read(
    mut lines: rustyline::Editor<Assistant, FileHistory>,
    history: &Path,
    known: &Mutex<Known>,
    asked: &blocking::Receiver<Ask>,
    inputs: &mpsc::UnboundedSender<Input>,
) {
    let is_kept = make_private(history).is_ok() && lines.load_history(history).is_ok();
    for ask in asked {
        let input = match ask {
            Ask::Line(prompt) => line(&mut lines, &prompt, known),
            Ask::Secret(question) => Input::Secret(secret(&question)),
        };
        if let Input::Line { text, .. } = &input
            && lock(known).may_keep(text)
            && lines.add_history_entry(text.as_str()).is_ok()
            && is_kept
        {
            // What a full disk does not keep is missed at the next chat and nowhere else.
            let _unkept = lines.append_history(history);
        }
        if inputs.send(input).is_err() {
            return;
        }
    }
}

fn line(
    lines: &mut rustyline::Editor<Assistant, FileHistory>,
    prompt: &str,
    known: &Mutex<Known>,
) -> Input {
    match lines.readline(prompt) {
        Ok(text) => Input::Line { text: joined(&text), aim: lock(known).aim.take() },
        Err(ReadlineError::Interrupted) => {
            Input::Interrupt { cleared: !lock(known).typed.trim().is_empty() }
        }
        Err(ReadlineError::Eof) => Input::End,
        Err(error) => Input::Broken(error.to_string()),
    }
}

fn secret(question: &str) -> Option<Zeroizing<String>> {
    let typed = prompt::ask_hidden(question).ok()?;
    let text = std::str::from_utf8(&typed).ok()?;
    (!text.is_empty()).then(|| Zeroizing::new(text.to_owned()))
}

/// A file that is for its owner alone.
fn make_private(path: &Path) -> io::Result<()> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).map(drop)
}

/// Lines that end with `\` go on: the mark itself is not said.
fn joined(text: &str) -> String {
    text.replace("\\\n", "\n")
}

/// Whether a line that was entered goes on: after a `\`, and in a block of code that has not ended.
fn goes_on(text: &str) -> bool {
    let fences = text.lines().filter(|line| line.trim_start().starts_with("```")).count();
    text.ends_with('\\') || fences % 2 == 1
}

/// What helps while a line is written.
struct Assistant {
    known: Arc<Mutex<Known>>,
    colour: bool,
}

impl Helper for Assistant {}

impl Completer for Assistant {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        place: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let (start, found) = lock(&self.known).completions(&line[..place]);
        let pair = |word: String| Pair { display: word.trim_end().to_owned(), replacement: word };
        Ok((start, found.into_iter().map(pair).collect()))
    }
}

/// Words behind the cursor, which are never inserted.
struct Remark(String);

impl Hint for Remark {
    fn display(&self) -> &str {
        &self.0
    }

    fn completion(&self) -> Option<&str> {
        None
    }
}

impl Hinter for Assistant {
    type Hint = Remark;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<Remark> {
        lock(&self.known).typing(line).map(|hint| Remark(format!("  {hint}")))
    }
}

impl Highlighter for Assistant {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(&'s self, prompt: &'p str, _: bool) -> Cow<'b, str> {
        self.faint(prompt)
    }

    fn highlight_hint<'h>(&self, hint: &'h str) -> Cow<'h, str> {
        self.faint(hint)
    }
}

impl Assistant {
    fn faint<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.colour { Cow::Owned(format!("\x1b[2m{text}\x1b[0m")) } else { Cow::Borrowed(text) }
    }
}

impl Validator for Assistant {
    fn validate(&self, line: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if goes_on(line.input()) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_on_after_a_backslash_and_within_code() {
        let on = ["a\\", "```rust\nfn", "a\n```"].map(goes_on);
        let over = ["a", "a\\\nb", "```\nfn\n```", ""].map(goes_on);

        assert_eq!((on, over), ([true; 3], [false; 4]));
        assert_eq!(joined("a\\\nb"), "a\nb");
    }
}
