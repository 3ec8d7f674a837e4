//! What was measured, against what was wanted.

use std::time::Duration;

/// The lines of a run.
#[derive(Default)]
pub(crate) struct Report(Vec<Line>);

struct Line {
    name: String,
    measured: f64,
    bound: Bound,
    unit: &'static str,
}

/// What is wanted of a figure.
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// For the reader only.
    None,
}

impl Report {
    /// A figure with its bound. Also shown at once: a run takes a while.
    pub(crate) fn figure(&mut self, name: &str, measured: f64, unit: &'static str, bound: Bound) {
        eprintln!("{name}: {measured:.2} {unit}");
        self.0.push(Line { name: name.to_owned(), measured, bound, unit });
    }

    /// The middle of some times, and their 99th percentile with its bound in milliseconds.
    pub(crate) fn percentiles(&mut self, name: &str, mut took: Vec<Duration>, at_most: f64) {
        took.sort_unstable();
        let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
        for (share, bound) in [(0.5, Bound::None), (0.99, Bound::AtMost(at_most))] {
            self.figure(&format!("{name}, p{}", share * 100.0), at(share), "ms", bound);
        }
    }

    pub(crate) fn print(&self) {
        println!("{:<66} {:>12} {:>16}", "figure", "measured", "bound");
        for line in &self.0 {
            let (bound, verdict) = match line.bound {
                Bound::AtLeast(bound) => (format!("≥ {bound}"), verdict(line.measured >= bound)),
                Bound::AtMost(bound) => (format!("≤ {bound}"), verdict(line.measured <= bound)),
                Bound::None => (String::new(), ""),
            };
            let measured = format!("{:.2} {}", line.measured, line.unit);
            println!("{:<66} {measured:>12} {bound:>10} {verdict:>5}", line.name);
        }
    }
}

fn verdict(holds: bool) -> &'static str {
    if holds { "pass" } else { "MISS" }
}
