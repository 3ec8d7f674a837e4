//! Codex as an app server: JSON-RPC, one message a line.

use std::{collections::BTreeMap, time::Duration};

use hivewright_actors::{clock::doubling, engine::EngineFailure, task::outcome::Code};
use serde_json::{Value, json};

use super::{
    NAME, effort,
    failure::failure,
    items::{Items, text},
};
use crate::engines::{
    harness::program::{Act, Dialogue, Order, Speech},
    pictures::Picture,
};

const NO_SUCH_METHOD: i64 = -32601;
const OVERLOADED: i64 = -32001;
/// A request that it has no time for is made again after this, then after twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// So often, at most.
const MOST_REPEATS: u32 = 6;

/// What a request of ours is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Initialize,
    Thread,
    Turn,
}

impl Asked {
    fn method(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Thread => "thread/start",
            // Begins a turn, or joins the one that runs.
            Self::Turn => "turn/start",
        }
    }
}

/// A request of ours that has no answer yet.
struct Request {
    asked: Asked,
    params: Value,
    repeats: u32,
}

pub(super) struct AppServer {
    /// The settings of the thread.
    settings: Value,
    effort: Option<&'static str>,
    items: Items,
    thread: String,
    /// The last turn that has a name.
    turn: Option<String>,
    asked: BTreeMap<u64, Request>,
    last_id: u64,
}

impl AppServer {
    pub(super) fn new(order: &Order) -> Self {
        // It is at work in its home, as it needs no folder: from that of a team it would take skills.
        let settings = json!({
            "model": order.model,
            "cwd": order.home,
            "approvalPolicy": "never",
            "sandbox": "read-only",
            "ephemeral": true,
        });
        Self {
            settings,
            effort: order.thinking.map(effort),
            items: Items::new(order),
            thread: String::new(),
            turn: None,
            asked: BTreeMap::new(),
            last_id: 0,
        }
    }

    fn ask(&mut self, asked: Asked, params: Value) -> Act {
        Act::Write(self.line_of(Request { asked, params, repeats: 0 }))
    }

    fn line_of(&mut self, request: Request) -> String {
        self.last_id += 1;
        let method = request.asked.method();
        let line = json!({"id": self.last_id, "method": method, "params": request.params});
        self.asked.insert(self.last_id, request);
        line.to_string()
    }

    fn answered(&mut self, id: &Value, line: &Value) -> Vec<Act> {
        let Some(request) = id.as_u64().and_then(|id| self.asked.remove(&id)) else {
            return Vec::new();
        };
        if let Some(error) = line.get("error") {
            return self.refused(request, error);
        }
        let result = &line["result"];
        match request.asked {
            Asked::Initialize => {
                let settings = self.settings.take();
                let thread = self.ask(Asked::Thread, settings);
                vec![Act::write(&json!({"method": "initialized"})), thread]
            }
            Asked::Thread => {
                self.thread = text(&result["thread"], "id").to_owned();
                vec![Act::Ready]
            }
            Asked::Turn => {
                self.turn = Some(text(&result["turn"], "id").to_owned());
                Vec::new()
            }
        }
    }

    fn refused(&mut self, request: Request, error: &Value) -> Vec<Act> {
        let Request { asked, params, repeats } = request;
        let code = error["code"].as_i64();
        if code == Some(OVERLOADED) && repeats < MOST_REPEATS {
            let pause = doubling(FIRST_PAUSE, LONGEST_PAUSE, repeats);
            let line = self.line_of(Request { asked, params, repeats: repeats + 1 });
            return vec![Act::WriteLater(pause, line)];
        }
        let code = match (asked, code) {
            (_, Some(OVERLOADED)) => Code::Overloaded,
            // Above all: our tools cannot be reached.
            (Asked::Thread, _) => Code::Crash,
            (Asked::Initialize | Asked::Turn, _) => Code::ProviderError,
        };
        let message = format!("Codex refuses to work: {}", text(error, "message"));
        vec![Act::Done(Err(EngineFailure::new(code, message)))]
    }

    fn notified(&mut self, method: &str, params: &Value) -> Vec<Act> {
        let piece = |items: &mut Items, speech| {
            items.piece(text(params, "itemId"), speech, text(params, "delta"))
        };
        match method {
            "item/agentMessage/delta" => piece(&mut self.items, Speech::Text),
            "item/reasoning/textDelta" | "item/reasoning/summaryTextDelta" => {
                piece(&mut self.items, Speech::Thinking)
            }
            "item/reasoning/summaryPartAdded" if params["summaryIndex"] != json!(0) => {
                self.items.piece(text(params, "itemId"), Speech::Thinking, "\n\n")
            }
            "item/started" => self.items.started(&params["item"]),
            "item/completed" => self.items.completed(&params["item"]),
            // Told at the end of each answer of the model, after its calls.
            "thread/tokenUsage/updated" => self.items.message_end(),
            "turn/completed" => self.completed(&params["turn"]),
            // A failure that is final ends the turn.
            "error" if params["willRetry"] == json!(true) => {
                let mut acts = self.items.asked_again();
                let error = &params["error"];
                let parts = [text(error, "message"), text(error, "additionalDetails")];
                let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
                acts.push(Act::Retry(parts.join(": ")));
                acts
            }
            "warning" => vec![Act::Note(text(params, "message").to_owned())],
            _ => Vec::new(),
        }
    }

    fn completed(&mut self, turn: &Value) -> Vec<Act> {
        if text(turn, "status") != "completed" {
            let error = &turn["error"];
            let failure = failure(text(error, "message"), &error["codexErrorInfo"]);
            let mut acts = self.items.broke_off();
            acts.push(Act::Done(Err(failure)));
            return acts;
        }
        let mut acts = self.items.message_end();
        // Something that it was told too late for this turn begins the next one.
        let is_told_more = self.asked.values().any(|request| request.asked == Asked::Turn);
        let is_last = self.turn.as_deref() == Some(text(turn, "id"));
        if is_last && !is_told_more {
            acts.push(Act::Done(Ok(())));
        }
        acts
    }
}

impl Dialogue for AppServer {
    fn open(&mut self) -> Vec<Act> {
        let client = json!({
            "name": NAME,
            "title": "Hivewright",
            "version": env!("CARGO_PKG_VERSION"),
        });
        vec![self.ask(Asked::Initialize, json!({"clientInfo": client}))]
    }

    fn hear(&mut self, line: Value) -> Vec<Act> {
        match (line.get("method").and_then(Value::as_str), line.get("id")) {
            (Some(method), Some(id)) => vec![Act::write(&answer(method, id))],
            (Some(method), None) => self.notified(method, &line["params"]),
            (None, Some(id)) => self.answered(id, &line),
            (None, None) => Vec::new(),
        }
    }

    /// Begins a turn, or joins the one that runs: so nothing comes too late.
    fn show(&mut self, text: &str, pictures: &[Picture]) -> Vec<Act> {
        let mut input = vec![json!({"type": "text", "text": text})];
        input.extend(pictures.iter().map(|Picture { mime, data }| {
            json!({"type": "image", "url": format!("data:{mime};base64,{data}")})
        }));
        let mut params = json!({"threadId": self.thread, "input": input});
        if let Some(effort) = self.effort {
            params["effort"] = json!(effort);
        }
        vec![self.ask(Asked::Turn, params)]
    }

    fn ended(&mut self) -> EngineFailure {
        EngineFailure::new(Code::Crash, "Codex ended before its turn did")
    }
}

/// An answer to what it asks of us. Nothing that it may ask is granted: what it can do are our tools.
fn answer(method: &str, id: &Value) -> Value {
    let result = match method {
        "item/commandExecution/requestApproval" | "item/fileChange/requestApproval" => {
            json!({"decision": "decline"})
        }
        "item/permissions/requestApproval" => json!({"permissions": {}, "scope": "turn"}),
        "mcpServer/elicitation/request" => json!({"action": "decline"}),
        "item/tool/call" => json!({"contentItems": [], "success": false}),
        _ => {
            let error = json!({"code": NO_SUCH_METHOD, "message": "not offered"});
            return json!({"id": id, "error": error});
        }
    };
    json!({"id": id, "result": result})
}
