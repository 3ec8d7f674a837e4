//! Usage meter: reads along what a provider answers, and tells what it cost.

use hivewright_actors::usage::Usage;
use serde_json::Value;

use crate::{
    providers::{error_event, fault::Fault, sse, tokens::Tokens},
    scrub::json,
    settings::providers::{Profile, Provider},
};

/// Characters of a token, for what nobody has counted.
const TOKEN: u64 = 4;

/// Counts one answer, in any of the formats: they differ in where the figures stand and how they are named.
///
/// Tells what is known as soon as the answer is complete, or when it is dropped before.
pub(super) struct Meter {
    /// What the request has at most, for an answer without figures.
    asked: u64,
    parser: sse::Parser,
    /// The answer so far, if it is no stream.
    whole: Option<Vec<u8>>,
    begun: bool,
    /// An end of the answer was told, if not of the stream: some servers leave out the last event.
    stopped: bool,
    reported: Option<Usage>,
    /// Characters of the answer.
    said: u64,
    complete: bool,
    provider: Provider,
    fault: Option<Fault>,
    tell: Option<Box<dyn FnOnce(Usage) + Send>>,
}

impl Meter {
    /// A meter of a profile's answer to so many bytes.
    pub(super) fn new(
        request: usize,
        profile: &Profile,
        tell: impl FnOnce(Usage) + Send + 'static,
    ) -> Self {
        Self {
            asked: (request as u64 / TOKEN).min(profile.context_window.into()),
            parser: sse::Parser::default(),
            whole: None,
            begun: false,
            stopped: false,
            reported: None,
            said: 0,
            complete: false,
            provider: profile.provider,
            fault: None,
            tell: Some(Box::new(tell)),
        }
    }

    pub(super) fn read(&mut self, piece: &[u8]) {
        // No line of an event stream begins with a brace.
        if !std::mem::replace(&mut self.begun, true) && piece.trim_ascii_start().starts_with(b"{") {
            self.whole = Some(Vec::new());
        }
        match &mut self.whole {
            Some(whole) => whole.extend_from_slice(piece),
            None => {
                let (mut parser, mut rest) = (std::mem::take(&mut self.parser), piece);
                while let Some(event) = parser.next(&mut rest) {
                    self.hear(event);
                }
                self.parser = parser;
            }
        }
        if self.complete {
            self.settle();
        }
    }

    /// A stream that ended here would have ended in the middle.
    pub(super) fn is_midway(&self) -> bool {
        self.whole.is_none() && !self.complete && !self.stopped
    }

    /// Something of the answer has come.
    pub(super) fn has_heard(&self) -> bool {
        self.said > 0 || self.reported.is_some()
    }

    /// The last event of a stream has come.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// What went wrong, if the answer said so.
    pub(super) fn take_fault(&mut self) -> Option<Fault> {
        self.fault.take()
    }

    fn hear(&mut self, event: &sse::Event) {
        if event.data.trim() == "[DONE]" {
            self.complete = true;
            return;
        }
        let Ok(json) = serde_json::from_str::<Value>(&event.data) else { return };
        self.fault = self.fault.take().or_else(|| error_event(self.provider, &json));
        self.stopped |= json.pointer("/choices/0/finish_reason").is_some_and(Value::is_string);
        self.count(&json);
        let delta = json.pointer("/choices/0/delta").or(json.get("delta"));
        self.said += delta.map_or(0, spoken);
        self.complete |= matches!(
            json["type"].as_str(),
            Some("message_stop" | "response.completed" | "response.incomplete" | "response.failed")
        );
    }

    /// Takes the figures, wherever they stand. Of each, the last told counts.
    fn count(&mut self, json: &Value) {
        let places = [&json["usage"], &json["message"]["usage"], &json["response"]["usage"]];
        let Some(told) = places.into_iter().find(|place| place.is_object()) else { return };
        let figure = |names: &[&str]| {
            let told = names.iter().find_map(|name| told.pointer(name)?.as_u64());
            told.map(|told| Tokens::from(told).0)
        };
        // OpenAI counts what was cached into the input, Anthropic does not.
        let cached = figure(&[
            "/input_tokens_details/cached_tokens",
            "/prompt_tokens_details/cached_tokens",
        ]);
        let written = figure(&["/input_tokens_details/cache_write_tokens"]);
        let within = cached.unwrap_or_default() + written.unwrap_or_default();
        let input = figure(&["/input_tokens", "/prompt_tokens"]);
        let mut usage = self.reported.unwrap_or_default();
        let figures = [
            (&mut usage.input, input.map(|input| input.saturating_sub(within))),
            (&mut usage.output, figure(&["/output_tokens", "/completion_tokens"])),
            (&mut usage.cache_read, cached.or(figure(&["/cache_read_input_tokens"]))),
            (&mut usage.cache_write, written.or(figure(&["/cache_creation_input_tokens"]))),
        ];
        for (known, told) in figures {
            *known = told.unwrap_or(*known);
        }
        self.reported = Some(usage);
    }

    /// What is known. What was not told is counted from the text, and said to be.
    fn usage(&self) -> Usage {
        match self.reported {
            Some(usage) if self.complete => usage,
            None if self.said == 0 => Usage::default(),
            reported => {
                let known = reported.unwrap_or(Usage { input: self.asked, ..Usage::default() });
                let output = known.output.max(self.said.div_ceil(TOKEN));
                Usage { output, estimated: true, ..known }
            }
        }
    }

    fn settle(&mut self) {
        let Some(tell) = self.tell.take() else { return };
        if let Some(whole) = self.whole.take() {
            if let Ok(json) = serde_json::from_slice(&whole) {
                self.count(&json);
                self.complete = true;
            }
            self.said = whole.len() as u64;
        }
        tell(self.usage());
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.settle();
    }
}

/// Characters that the model has written in a piece of an answer.
fn spoken(delta: &Value) -> u64 {
    let is_said = |name: &str| !["type", "role", "signature", "stop_reason"].contains(&name);
    let texts = match delta {
        Value::Object(fields) => {
            let said = fields.iter().filter(|field| is_said(field.0));
            said.flat_map(|field| json::texts(field.1)).collect()
        }
        other => json::texts(other),
    };
    texts.iter().map(|text| text.chars().count() as u64).sum()
}
