//! How long a frame takes to become a request to a model.

use std::time::{Duration, Instant};

use actix_web::HttpResponse;

use crate::{
    latency::{Moments, Stage},
    model,
    report::Report,
};

/// The machine is busy with it, but not full.
const PACE: Duration = Duration::from_millis(500);

pub(crate) fn measure(report: &mut Report) {
    let stage = Stage {
        name: "overhead: frame sent → model request received",
        pace: PACE,
        answer: say_hello,
        at_most: 5.0,
    };
    stage.measure(report, async |talk, content, arrivals| {
        let sent = Instant::now();
        talk.ask(content).await;
        arrivals.of(content) - sent
    });
}

/// Notes when the model is asked.
fn say_hello(content: String, arrivals: Moments) -> HttpResponse {
    arrivals.note(&content);
    model::stream(model::WORD.to_owned() + model::END)
}
