//! How long the first text of a model takes to become the first frame at the client.

use std::time::Duration;

use actix_web::{HttpResponse, web};
use futures_util::{StreamExt, stream};

use crate::{
    latency::{Moments, Stage},
    model,
    report::Report,
};

/// The model thinks for this long, …
const FIRST_TEXT: Duration = Duration::from_millis(200);
/// … then says a word after each such pause, …
const EACH_WORD: Duration = Duration::from_millis(20);
/// … so many in all.
const WORDS: u32 = 11;
/// Twice as long as an answer takes, so that half of the connections are being answered.
const PACE: Duration = Duration::from_millis(800);

pub(crate) fn measure(report: &mut Report) {
    let stage = Stage {
        name: "first word: model's first text → first frame",
        pace: PACE,
        answer: stream_words,
        at_most: 35.0,
    };
    stage.measure(report, async |talk, content, first_texts| {
        let framed = talk.first_frame(content).await;
        framed - first_texts.of(content)
    });
}

/// Takes its time, and notes when the first text is written.
fn stream_words(content: String, first_texts: Moments) -> HttpResponse {
    let words = stream::iter(0..WORDS).then(move |number| {
        let (content, first_texts) = (content.clone(), first_texts.clone());
        async move {
            tokio::time::sleep(if number == 0 { FIRST_TEXT } else { EACH_WORD }).await;
            if number == 0 {
                first_texts.note(&content);
            }
            Ok::<_, std::io::Error>(web::Bytes::from_static(model::WORD.as_bytes()))
        }
    });
    let end = stream::iter([Ok(web::Bytes::from_static(model::END.as_bytes()))]);
    HttpResponse::Ok().content_type("text/event-stream").streaming(words.chain(end))
}
