//! What was measured, against what was wanted.

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
