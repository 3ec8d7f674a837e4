//! A pseudo-terminal with a command on it, and somebody who types and reads.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::OwnedFd,
    process::{Child, Command},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};

use crate::service::PATIENCE;

/// A terminal on which a command runs. Ends with the test.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    /// The other side, as the command has it.
    line: OwnedFd,
    pieces: Receiver<Vec<u8>>,
    raw: Vec<u8>,
    /// All that was shown, without colours and movements.
    seen: String,
    /// So much of it was read.
    read: usize,
}

impl Terminal {
    /// Starts a command as its session's leader, so that keys and sizes of the terminal reach it.
    pub(crate) fn start(command: &Command, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, size(columns)).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let line = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).unwrap();
        let mut leader = Command::new("setsid");
        leader.args(["--ctty", "--wait"]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leader.env(name, value),
                None => leader.env_remove(name),
            };
        }
        leader.env("TERM", "xterm-256color").env_remove("NO_COLOR");
        leader.stdin(line.try_clone().unwrap());
        leader.stdout(line.try_clone().unwrap());
        leader.stderr(line.try_clone().unwrap());
        let (sender, pieces) = channel();
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count) = screen.read(&mut buffer) {
                if count == 0 || sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let child = leader.spawn().unwrap();
        let (raw, seen) = (Vec::new(), String::new());
        Self { child, keyboard, line, pieces, raw, seen, read: 0 }
    }

    pub(crate) fn resize(&self, columns: u16) {
        tcsetwinsize(&self.keyboard, size(columns)).unwrap();
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this is shown, behind what was waited for before. Returns what came before it.
    pub(crate) fn shows(&mut self, words: &str) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(place) = self.seen[self.read..].find(words) {
                let before = self.seen[self.read..self.read + place].to_owned();
                self.read += place + words.len();
                return before;
            }
            let left = end.saturating_duration_since(Instant::now());
            let Ok(piece) = self.pieces.recv_timeout(left) else {
                panic!("`{words}` was not shown: {:?}", &self.seen[self.read..]);
            };
            self.raw.extend(piece);
            self.seen = plain(&self.raw);
        }
    }

    /// Whether this was ever shown.
    pub(crate) fn has_shown(&self, words: &str) -> bool {
        self.seen.contains(words)
    }

    /// Whether the terminal edits lines by itself, as it did before the command.
    pub(crate) fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.line).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Waits for the end of the command. Returns its exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            // Nobody tells when a process ends beside waiting for it, which knows no deadline.
            thread::sleep(std::time::Duration::from_millis(10));
        }
        self.pieces.try_iter().for_each(|piece| self.raw.extend(piece));
        panic!("it does not end: {:?}", &plain(&self.raw)[self.read..]);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

fn size(columns: u16) -> Winsize {
    Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Without escape sequences. A character that is cut in the middle comes whole with the next piece.
fn plain(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut shown = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' if letters.next_if_eq(&'[').is_some() => {
                for letter in letters.by_ref() {
                    if letter.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            '\x1b' | '\r' => {}
            letter => shown.push(letter),
        }
    }
    shown
}
