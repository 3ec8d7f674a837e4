//! Log lines: text on a terminal, else JSON; free of secret values.

use std::{
    io::{self, IsTerminal, Write},
    sync::Arc,
};

use parking_lot::RwLock;
use tracing_subscriber::{
    Registry,
    filter::{LevelFilter, Targets},
    fmt::{self, MakeWriter},
    prelude::*,
    reload,
};

pub mod keeper;
mod panics;
pub mod tap;
pub mod throttle;

use tap::{Errors, Taking, Tap};

use crate::scrub::{Mask, Scrubber};

/// What no log line may show. Shared by all that learn of a secret.
#[derive(Clone, Debug)]
pub struct Secrets(Arc<RwLock<Known>>);

#[derive(Debug)]
struct Known {
    /// Keys of providers.
    values: Vec<String>,
    /// Of the vault.
    masks: Vec<Mask>,
    scrubber: Scrubber,
}

impl Default for Secrets {
    fn default() -> Self {
        Self(Arc::new(RwLock::new(Known {
            values: Vec::new(),
            masks: Vec::new(),
            scrubber: Scrubber::new::<&str>([]),
        })))
    }
}

impl Secrets {
    /// From now on these are not shown either.
    pub fn learn(&self, values: impl IntoIterator<Item = String>) {
        let mut known = self.0.write();
        for value in values {
            if !known.values.contains(&value) {
                known.values.push(value);
            }
        }
        known.rebuild();
    }

    /// From now on these of the vault are not shown, whatever was in it before.
    pub fn learn_vault(&self, masks: Vec<Mask>) {
        let mut known = self.0.write();
        known.masks = masks;
        known.rebuild();
    }

    pub fn scrub(&self, text: &str) -> String {
        if std::thread::panicking() {
            // Whoever panicked may hold the lock.
            let known = self.0.try_read();
            return known.map_or_else(
                || "{\"message\":\"a line about a panic was withheld: secrets were being learned\"}\n".to_owned(),
                |known| known.scrubber.scrub(text).into_owned(),
            );
        }
        self.0.read().scrubber.scrub(text).into_owned()
    }

    /// A text without their values, which may be in a form for machines: shapes of secrets that
    /// nobody knows are left as they are.
    pub fn scrub_known(&self, text: &str) -> String {
        let known = self.0.read();
        known.scrubber.scrub_known(text).into_owned()
    }
}

impl Known {
    fn rebuild(&mut self) {
        let mut masks = self.masks.clone();
        masks.extend(self.values.iter().map(|value| Mask::hidden(value.as_str())));
        self.scrubber = Scrubber::with(masks);
    }
}

#[derive(Clone, Debug)]
pub struct Level(reload::Handle<Targets, Registry>);

impl Level {
    pub fn set(&self, level: &str) {
        // There is nothing to set if another service of this process was first.
        drop(self.0.reload(filter(level)));
    }
}

/// What is of interest to an operator at a level. What goes to and comes from MCP servers is none of it: it may hold secrets.
fn filter(level: &str) -> Targets {
    let quiet = ["actix_server", "sled", "hyper", "reqwest"];
    Targets::new()
        .with_default(level.parse().unwrap_or(LevelFilter::INFO))
        .with_targets(quiet.map(|target| (target, LevelFilter::WARN)))
        .with_target("rmcp", LevelFilter::OFF)
}

/// Starts logging to standard error. A second call changes nothing.
///
/// Lines also wait at the other end of a tap.
pub fn start(level: &str, secrets: Secrets) -> (tap::Lines, Errors, Level) {
    let (tap, lines_of_tap) = Tap::new();
    let errors = tap.errors.clone();
    let (filter, handle) = reload::Layer::new(filter(level));
    let lines = fmt::layer().with_writer(Lines(secrets.clone()));
    let taking = Taking { tap, secrets };
    let registry = tracing_subscriber::registry().with(filter).with(taking);
    let started = if io::stderr().is_terminal() {
        registry.with(lines.with_target(false).compact()).try_init()
    } else {
        registry.with(lines.json().flatten_event(true)).try_init()
    };
    // Tests start several services in one process; the first one's settings hold.
    if started.is_ok() {
        panics::log();
    }
    (lines_of_tap, errors, Level(handle))
}

/// What takes lines and writes none, for tests.
#[cfg(test)]
pub(crate) fn layer(tap: Tap, secrets: Secrets) -> impl tracing::Subscriber {
    tracing_subscriber::registry().with(Taking { tap, secrets })
}

#[derive(Clone, Debug)]
struct Lines(Secrets);

/// One line, written whole when it is complete.
struct Line {
    secrets: Secrets,
    bytes: Vec<u8>,
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { secrets: self.0.clone(), bytes: Vec::new() }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = self.secrets.scrub(&String::from_utf8_lossy(&self.bytes));
        // There is nowhere to report that the log cannot be written.
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}
