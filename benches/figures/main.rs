//! The figures of the service: each a ratio, or a bound, measured in one run.
//!
//! `cargo bench --bench figures` runs all, `cargo bench --bench figures -- queue` one section.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod agents;
mod baseline;
mod chat;
mod delegate;
#[path = "../../tests/it/delegations.rs"]
#[allow(dead_code)]
mod delegations;
mod fairness;
mod first_word;
mod history;
mod isolation;
#[path = "../../tests/it/kill_switch.rs"]
#[allow(dead_code, unused_imports)]
mod kill_switch;
mod latency;
mod lists;
mod model;
mod overhead;
mod page;
mod plugins;
mod process;
mod queue;
#[path = "../../tests/it/racer.rs"]
#[allow(dead_code)]
mod race;
mod racer;
mod report;
mod scripts;
#[path = "../../tests/it/service.rs"]
#[allow(dead_code)]
mod service;
mod start;
mod stops;
mod streams;
#[path = "../../tests/it/webdriver.rs"]
#[allow(dead_code)]
mod webdriver;

use mimalloc::MiMalloc;
use report::Report;

/// The same as the service's.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Measures some figures.
type Section = fn(&mut Report);

fn main() {
    // Cargo adds flags of its own; what has no dash names a section.
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if wanted.first().is_some_and(|first| first == baseline::ARGUMENT) {
        return baseline::serve();
    }
    if wanted.first().is_some_and(|first| first == start::ARGUMENT) {
        return start::serve(&wanted[1..]);
    }
    let sections: [(&str, Section); 17] = [
        ("queue", queue::measure),
        ("chat", chat::measure),
        ("delegate", delegate::measure),
        ("fairness", fairness::measure),
        ("overhead", overhead::measure),
        ("first_word", first_word::measure),
        ("agents", agents::measure),
        ("start", start::measure),
        ("scripts", scripts::measure),
        ("plugins", plugins::measure),
        ("streams", streams::measure),
        ("lists", lists::measure),
        ("history", history::measure),
        ("stops", stops::measure),
        ("isolation", isolation::measure),
        ("racer", racer::measure),
        ("page", page::measure),
    ];
    let mut report = Report::default();
    for (name, measure) in sections {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            measure(&mut report);
        }
    }
    report.print();
}
