//! Prompts: a confirmation before something that cannot be taken back, secrets, which are not shown while they are typed,
//! and what else comes on standard input.

use std::{
    io::{self, BufRead, IsTerminal, Read, Write},
    thread,
};

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use tokio::sync::mpsc;
use zeroize::Zeroizing;

use super::{
    context::Context,
    failure::{Exit, Failure},
    screen::complain,
};
use crate::vault::limit::LARGEST_VALUE;

/// Shows what is at stake and asks. With `--yes` nobody is asked.
///
/// Where nobody can answer, nothing happens: a script says `--yes` itself.
pub(super) fn confirm(context: &Context, what: &str, question: &str) -> Result<(), Failure> {
    if context.yes {
        return Ok(());
    }
    complain(what.trim_end());
    if !io::stdin().is_terminal() {
        let message = "nobody is there to ask, so nothing was done; say `--yes` to go on";
        return Err(Failure::usage(message));
    }
    match line_of(&format!("{question} Type `yes`:"))?.trim() {
        "yes" | "y" => Ok(()),
        _ => Err(Failure::new(Exit::Interrupted, "nothing was done")),
    }
}

/// One line of the person at the terminal. Blocks.
pub(super) fn line_of(question: &str) -> Result<String, Failure> {
    complain(question);
    let mut line = String::new();
    io::stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| Failure::system("the answer cannot be read", error))?;
    Ok(line)
}

/// The lines of standard input, until one cannot be read. Reading blocks, so it has a thread of its own, which ends with the
/// process.
pub(super) fn stdin_lines() -> mpsc::Receiver<io::Result<Vec<u8>>> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            let is_last = line.is_err();
            if sender.blocking_send(line).is_err() || is_last {
                return;
            }
        }
    });
    lines
}

/// A secret: typed at the terminal, or from standard input, where one line end at its end is not part of it.
pub(super) fn secret(question: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    if io::stdin().is_terminal() {
        return ask_hidden(question);
    }
    let mut secret = Zeroizing::new(Vec::new());
    // One byte more than the largest, and a line end: what is too large is refused by the service.
    io::stdin()
        .take(LARGEST_VALUE as u64 + 2)
        .read_to_end(&mut secret)
        .map_err(|error| Failure::system("standard input cannot be read", error))?;
    if secret.ends_with(b"\n") {
        secret.pop();
    }
    Ok(secret)
}

/// Asks the person at the terminal. Nothing they type is shown.
pub(super) fn ask_hidden(question: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let cannot = |error: io::Error| Failure::system("the terminal cannot be used", error);
    let silence = Silence::new().map_err(|error| cannot(error.into()))?;
    let mut out = io::stderr().lock();
    out.write_all(question.as_bytes()).and_then(|()| out.flush()).map_err(cannot)?;
    let line = line(io::stdin().lock()).map_err(cannot)?;
    drop(silence);
    // The line that was begun with the question ends here.
    let _gone = writeln!(out);
    line.ok_or_else(|| Failure::new(Exit::Interrupted, "nothing was set"))
}

/// Keeps the terminal from showing what is typed, and from ending us before it shows it again.
struct Silence(Termios);

impl Silence {
    fn new() -> rustix::io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        silent
            .local_modes
            .remove(LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        // A terminal that is gone needs no mending.
        let _ = tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}

/// One line as a terminal without its own editing sends it; none if it was broken off.
fn line(mut input: impl Read) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    const INTERRUPT: u8 = 0x03;
    const END: u8 = 0x04;
    const CLEAR: u8 = 0x15;
    let mut line = Zeroizing::new(Vec::with_capacity(256));
    // One byte at a time: what stands behind the line is not ours to take.
    let mut byte = Zeroizing::new([0; 1]);
    while input.read(&mut *byte)? == 1 {
        match byte[0] {
            b'\r' | b'\n' => return Ok(Some(line)),
            END if line.is_empty() => return Ok(None),
            END => return Ok(Some(line)),
            INTERRUPT => return Ok(None),
            CLEAR => line.clear(),
            0x08 | 0x7f => {
                // A character may have several bytes.
                while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte => line.push(byte),
        }
    }
    Ok((!line.is_empty()).then_some(line))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// MV-66
    #[test]
    fn a_line_is_read_as_it_was_meant() {
        let typed = |keys: &str| {
            let line = line(keys.as_bytes()).unwrap();
            line.map(|line| String::from_utf8(line.to_vec()).unwrap())
        };
        let some = |text: &str| Some(text.to_owned());

        assert_eq!(typed("hunter22\r"), some("hunter22"));
        assert_eq!(typed("huü\u{7f}nterx\u{8}22\nmore"), some("hunter22"));
        assert_eq!(typed("wrong\u{15}hunter22\n"), some("hunter22"));
        assert_eq!(typed("\u{7f}a\u{4}"), some("a"));
        assert_eq!(typed("hunter22\u{3}"), None);
        assert_eq!(typed("\u{4}"), None);
        assert_eq!(typed(""), None);
    }
}
