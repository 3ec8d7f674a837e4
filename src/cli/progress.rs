//! How far long work has come: a bar on a terminal, else a line now and then.

use std::{ops::ControlFlow, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::screen::Screen;
use crate::storage::Progress;

/// How often a line is written where there is no bar.
const PAUSE: Duration = Duration::from_secs(10);
/// How often a bar is drawn while nothing is told.
const TICK: Duration = Duration::from_millis(200);

const COUNTED: &str = "{msg} [{bar:30}] {pos}/{len} ({per_sec}, {eta} left)";
const BYTES: &str = "{msg} [{bar:30}] {bytes}/{total_bytes} ({bytes_per_sec}, {eta} left)";

/// Shows how far one piece of work has come.
#[derive(Debug)]
pub(super) struct Gauge {
    screen: Screen,
    what: &'static str,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    unit: String,
    done: u64,
    total: u64,
    told: Instant,
}

impl Gauge {
    pub(super) fn new(screen: Screen, what: &'static str) -> Self {
        Self {
            screen,
            what,
            bar: screen.bar.then(|| ProgressBar::new(0)),
            state: Mutex::new(State {
                unit: String::new(),
                done: 0,
                total: 0,
                told: Instant::now(),
            }),
        }
    }

    /// The work has come this far, as the storage counts.
    pub(super) fn storage(&self, progress: Progress) -> ControlFlow<()> {
        self.set(progress.done, progress.total, progress.unit.as_str());
        ControlFlow::Continue(())
    }

    pub(super) fn set(&self, done: u64, total: u64, unit: &str) {
        let mut state = self.state.lock();
        let begins = state.unit != unit;
        if begins {
            unit.clone_into(&mut state.unit);
        }
        (state.done, state.total) = (done, total);
        if let Some(bar) = &self.bar {
            if begins {
                bar.reset();
                bar.set_style(style(unit));
                bar.set_message(format!("{}: {unit}", self.what));
            }
            bar.set_length(total);
            bar.set_position(done);
        } else if state.told.elapsed() >= PAUSE {
            state.told = Instant::now();
            self.line(done, total, unit);
        }
    }

    /// Waits for work that may tell nothing for long; whoever watches sees that it goes on.
    pub(super) async fn over<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        if let Some(bar) = &self.bar {
            bar.enable_steady_tick(TICK);
        }
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = tokio::time::sleep(PAUSE) => self.again(),
            }
        }
    }

    /// How far it was when that was last told.
    fn again(&self) {
        let mut state = self.state.lock();
        if self.bar.is_none() && !state.unit.is_empty() && state.told.elapsed() >= PAUSE {
            state.told = Instant::now();
            self.line(state.done, state.total, &state.unit);
        }
    }

    fn line(&self, done: u64, total: u64, unit: &str) {
        if self.screen.json {
            let progress = json!({"progress": {"done": done, "total": total, "unit": unit}});
            self.screen.say(&progress.to_string());
        } else {
            let what = self.what;
            self.screen.remark(&format!("{what}: {done} of {total} {unit}"));
        }
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(unit: &str) -> ProgressStyle {
    let template = if unit == "bytes" { BYTES } else { COUNTED };
    // The templates are ours, and a test reads them.
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-83: it is said also while nothing moves.
    #[tokio::test(start_paused = true)]
    async fn silent_work_is_told_of_again() {
        let gauge = Gauge::new(Screen::PLAIN, "doctor");
        gauge.set(1, 3, "models");
        let told = || gauge.state.lock().told;
        let first = told();

        gauge.over(tokio::time::sleep(PAUSE * 5 / 2)).await;

        assert_eq!(told(), first + PAUSE * 2);
    }

    /// OP-83
    #[test]
    fn the_bar_shows_done_total_rate_and_time_left() {
        for (template, parts) in [
            (COUNTED, ["{pos}", "{len}", "{per_sec}", "{eta}"]),
            (BYTES, ["{bytes}", "{total_bytes}", "{bytes_per_sec}", "{eta}"]),
        ] {
            assert!(ProgressStyle::with_template(template).is_ok());
            assert!(parts.iter().all(|part| template.contains(part)));
        }
    }
}
