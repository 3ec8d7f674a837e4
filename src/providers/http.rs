//! One request over HTTP: time limits, size limits, statuses.

use std::{future::Future, time::Duration};

use reqwest::{Response, header::HeaderMap};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use hivewright_actors::{engine::EngineEvent, excerpt, task::outcome::Code, usage::Usage};

use super::{
    Answer, Ask, Listener, Outgoing, Reader,
    fault::{Fault, Remedy},
    sse,
};

const REQUEST_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a connection is read behind the last event of its answer.
pub(crate) const LINGER: Duration = Duration::from_millis(50);
pub(crate) const LONGEST_ANSWER: usize = 64 * 1024 * 1024;
const LONGEST_ERROR: usize = 64 * 1024;
/// How much of a provider's own words is passed on.
const LONGEST_SAYING: usize = 500;

pub(super) async fn exchange(
    http: &reqwest::Client,
    ask: &Ask<'_>,
    outgoing: Outgoing,
    reader: &mut dyn Reader,
    listener: &mut Listener<'_>,
) -> Result<Answer, Fault> {
    let limits = Limits::new(ask.profile.response_timeout);
    let mut request = http.post(outgoing.url).body(outgoing.body);
    for (name, value) in outgoing.headers {
        request = request.header(name, value);
    }
    let response = send(request, &limits).await?;
    let mut said = false;
    let mut listen = |event| {
        said = true;
        listener(event);
    };
    let result = if response.status().is_success() {
        read(response, &limits, reader, &mut listen).await
    } else {
        Err(Rejection::read(response, &limits).await.fault())
    };
    result.map_err(|fault| Fault {
        answered: said || reader.reported() != Usage::default(),
        ..fault.with_usage(reader.reported())
    })
}

/// How long a request may take.
pub(crate) struct Limits {
    /// The longest wait for the next sign of life.
    pause: Duration,
    end: Instant,
}

impl Limits {
    pub(crate) fn new(pause: Duration) -> Self {
        Self { pause, end: Instant::now() + REQUEST_TIMEOUT }
    }

    pub(crate) async fn hold<T>(&self, work: impl Future<Output = T>) -> Result<T, Fault> {
        // One timer for both: a stream sets it for each of its pieces.
        let until = Instant::now() + self.pause;
        match timeout_at(until.min(self.end), work).await {
            Ok(done) => Ok(done),
            Err(_) if until < self.end => Err(Fault::stalled(self.pause)),
            Err(_) => Err(Fault::new(
                Code::Stalled,
                Remedy::Retry(None),
                format!("the answer took longer than {} s", REQUEST_TIMEOUT.as_secs()),
            )),
        }
    }
}

pub(crate) async fn send(
    request: reqwest::RequestBuilder,
    limits: &Limits,
) -> Result<Response, Fault> {
    limits.hold(request.send()).await?.map_err(|error| {
        if error.is_builder() {
            let message =
                format!("the request cannot be made, check address and key: {}", because(&error));
            return Fault::new(Code::ProviderError, Remedy::None, message);
        }
        let what = if error.is_connect() { "no connection" } else { "the connection broke" };
        Fault::network(format!("{what}: {}", because(&error)))
    })
}

async fn read(
    mut response: Response,
    limits: &Limits,
    reader: &mut dyn Reader,
    listener: &mut Listener<'_>,
) -> Result<Answer, Fault> {
    let mut parser = sse::Parser::default();
    let mut whole: Option<Vec<u8>> = None;
    let mut size = 0;
    while !reader.is_complete() {
        let piece = limits.hold(response.chunk()).await?.map_err(|error| broke_off(&error))?;
        let Some(piece) = piece else { break };
        // No line of an event stream begins with a brace.
        if size == 0 && piece.trim_ascii_start().starts_with(b"{") {
            whole = Some(Vec::new());
        }
        size += piece.len();
        if size > LONGEST_ANSWER {
            return Err(Fault::too_large("the answer", LONGEST_ANSWER));
        }
        match &mut whole {
            Some(whole) => whole.extend_from_slice(&piece),
            None => hear(&mut parser, &piece, reader, listener)?,
        }
    }
    if reader.is_complete() {
        // On a task of its own: the answer does not wait for it.
        hivewright_actors::spawn::anywhere(drain(response));
    }
    match whole {
        Some(body) => reader.whole(&body, listener)?,
        None => {
            if let Some(event) = parser.finish() {
                reader.on(event, listener)?;
            }
        }
    }
    reader.finish(listener)
}

/// Takes a piece of a stream. A model says a word at a time, and often many come at once: those are told as one.
fn hear(
    parser: &mut sse::Parser,
    mut piece: &[u8],
    reader: &mut dyn Reader,
    listener: &mut Listener<'_>,
) -> Result<(), Fault> {
    let mut said: Vec<EngineEvent> = Vec::new();
    let mut join = |event: EngineEvent| {
        let event = match said.last_mut() {
            Some(last) => last.join(event),
            None => Some(event),
        };
        said.extend(event);
    };
    let mut result = Ok(());
    while result.is_ok()
        && let Some(event) = parser.next(&mut piece)
    {
        result = reader.on(event, &mut join);
    }
    said.into_iter().for_each(listener);
    result
}

/// Reads a response to its end, if that is near: the connection can serve the next request then.
async fn drain(mut response: Response) {
    let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
    // What does not end is closed.
    let _ = timeout(LINGER, rest).await;
}

/// The answer came to an end before it was whole.
pub(crate) fn broke_off(error: &reqwest::Error) -> Fault {
    Fault::network(format!("the answer broke off: {}", because(error)))
}

/// A response with an error status.
pub(crate) struct Rejection {
    pub(crate) status: u16,
    retry_after: Option<Duration>,
    /// As the server wrote it: it may repeat the key that it does not like.
    pub(crate) body: Vec<u8>,
}

impl Rejection {
    pub(crate) async fn read(mut response: Response, limits: &Limits) -> Self {
        let status = response.status().as_u16();
        let retry_after = retry_after(response.headers());
        let mut body = Vec::new();
        // What was said is only for the message: if it does not come, the status has to do.
        while let Ok(Ok(Some(piece))) = limits.hold(response.chunk()).await {
            body.extend_from_slice(&piece);
            if body.len() > LONGEST_ERROR {
                break;
            }
        }
        Self { status, retry_after, body }
    }

    pub(crate) fn fault(&self) -> Fault {
        Fault::status(self.status, &saying(&self.body), self.retry_after)
    }
}

/// The pause that the server asks for. Dates are not read: neither vendor sends them.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds =
        number("retry-after-ms").map(|millis| millis / 1000.0).or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The words in an error body.
fn saying(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let said = match serde_json::from_slice::<Value>(body) {
        Ok(json) => error_text(&json).unwrap_or_else(|| json.to_string()),
        Err(_) => text.split_whitespace().collect::<Vec<_>>().join(" "),
    };
    excerpt::line(&said, LONGEST_SAYING)
}

/// The message of an error object, with its code if that says more.
pub(super) fn error_text(json: &Value) -> Option<String> {
    let error = json.get("error").unwrap_or(json);
    let message = match error {
        Value::String(message) => message,
        _ => error.get("message")?.as_str()?,
    };
    Some(match error.get("code").and_then(Value::as_str) {
        Some(code) if !message.contains(code) => format!("{message} ({code})"),
        _ => message.to_owned(),
    })
}

/// An error with its causes, without the address: that may hold a credential.
fn because(error: &reqwest::Error) -> String {
    let mut causes = Vec::new();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        causes.push(cause.to_string());
        next = cause.source();
    }
    match causes.pop() {
        Some(root) => root,
        None if error.is_builder() => "invalid address or header".to_owned(),
        None => "unknown cause".to_owned(),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::providers::anthropic::reader::Reading;

    #[test]
    fn words_that_come_together_are_told_together() {
        let event = |event: Value| format!("data: {event}\n\n");
        let word = |word: &str| {
            let delta = json!({"type": "text_delta", "text": word});
            event(json!({"type": "content_block_delta", "index": 0, "delta": delta}))
        };
        let block = json!({"type": "text", "text": ""});
        let start =
            event(json!({"type": "content_block_start", "index": 0, "content_block": block}));
        let [three, five] = ["three ", "five"].map(word);
        let (begun, rest) = three.split_at(20);
        let pieces = [
            [&*start, &word("one "), &word("two "), begun].concat(),
            rest.to_owned(),
            [&*word("four"), "data: no JSON\n\n", &five].concat(),
        ];
        let (mut parser, mut reader) = (sse::Parser::default(), Reading::default());
        let mut heard = Vec::new();

        let results = pieces.map(|piece| {
            let listener = &mut |event| heard.push(event);
            hear(&mut parser, piece.as_bytes(), &mut reader, listener).is_ok()
        });

        assert_eq!(results, [true, true, false]);
        let words = ["one two ", "three ", "four"].map(|words| EngineEvent::Text(words.into()));
        assert_eq!(heard, words);
    }

    #[test]
    fn the_pause_a_server_asks_for_is_read_in_both_units() {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "7".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_secs(7)));

        headers.insert("retry-after-ms", "250".parse().unwrap());
        assert_eq!(retry_after(&headers), Some(Duration::from_millis(250)));

        headers.insert("retry-after-ms", "-1".parse().unwrap());
        assert_eq!(retry_after(&headers), None);
    }

    #[test]
    fn an_error_body_is_reduced_to_its_words() {
        let cases: [(&[u8], &str); 4] = [
            (br#"{"type":"error","error":{"type":"x","message":"no"}}"#, "no"),
            (br#"{"error":{"message":"no","code":"bad_thing"}}"#, "no (bad_thing)"),
            (br#"{"error":"plain"}"#, "plain"),
            (b"<html>\n  gateway\n</html>", "<html> gateway </html>"),
        ];

        for (body, words) in cases {
            assert_eq!(saying(body), words);
        }
    }
}
