//! A million rounds against a racer that swaps links: none leads out of a workspace.

use std::time::Instant;

use crate::{
    race::race,
    report::{Bound, Report},
};

const ROUNDS: usize = 1_000_000;

pub(crate) fn measure(report: &mut Report) {
    let began = Instant::now();
    let race = race(ROUNDS);
    let each = began.elapsed().as_secs_f64() * 1e6 / ROUNDS as f64;
    let escapes = race.escapes as f64;
    report.figure(
        "racer: ways out of a workspace in 1,000,000 rounds",
        escapes,
        "",
        Bound::AtMost(0.0),
    );
    let inside = race.inside as f64 * 100.0 / ROUNDS as f64;
    report.figure("racer: reads that found the folder and not the link", inside, "%", Bound::None);
    report.figure("racer: one round", each, "us", Bound::None);
}
