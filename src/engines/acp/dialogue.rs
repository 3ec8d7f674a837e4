//! What is said to and by one agent: JSON-RPC, one message a line.

use std::collections::BTreeMap;

use agent_client_protocol_schema::{
    AGENT_METHOD_NAMES, AuthMethodId, AuthenticateRequest, CLIENT_METHOD_NAMES, ClientCapabilities,
    ContentBlock, ContentChunk, EnvVariable, Error, ErrorCode, ImageContent, Implementation,
    InitializeRequest, InitializeResponse, McpServer, McpServerStdio, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, ProtocolVersion, RequestPermissionRequest,
    RequestPermissionResponse, SessionId, SessionNotification, SessionUpdate, StopReason,
};
use hivewright_actors::{engine::EngineFailure, task::outcome::Code};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{SERVER, calls::Calls, failure::classify};
use crate::engines::{
    harness::program::{self, Act, Order, Speech},
    pictures::Picture,
};

/// A request of ours that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Initialize,
    Login,
    Session,
    Prompt,
}

/// A block of the model's message on its way.
#[derive(Debug)]
struct Speaking {
    speech: Speech,
    /// The message that it is a part of, where the agent tells.
    message: Option<String>,
    said: String,
}

pub(super) struct Dialogue {
    /// What a session is opened with.
    opening: NewSessionRequest,
    system: String,
    /// The agent takes no system prompt: it is told with its task.
    tells_system: bool,
    takes_pictures: bool,
    session: Option<SessionId>,
    /// How it can be logged in without a person, unless that was tried.
    login: Option<AuthMethodId>,
    asked: BTreeMap<u64, Asked>,
    last_id: u64,
    speaking: Option<Speaking>,
    calls: Calls,
}

impl Dialogue {
    pub(super) fn new(order: &Order) -> Self {
        let socket = order.socket.display().to_string();
        let server = McpServerStdio::new(SERVER, &order.bridge)
            .args(vec!["mcp".to_owned(), "--socket".to_owned(), socket])
            .env(vec![EnvVariable::new("HIVEWRIGHT_TURN_TOKEN", &order.token)]);
        Self {
            opening: NewSessionRequest::new(&order.workspace)
                .mcp_servers(vec![McpServer::Stdio(server)]),
            system: order.system.clone(),
            tells_system: true,
            takes_pictures: false,
            session: None,
            login: None,
            asked: BTreeMap::new(),
            last_id: 0,
            speaking: None,
            calls: Calls::new(&order.tools),
        }
    }

    fn ask(&mut self, asked: Asked, method: &str, params: Value) -> Act {
        self.last_id += 1;
        self.asked.insert(self.last_id, asked);
        let id = self.last_id;
        Act::write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
    }

    fn answered(&mut self, line: &Value) -> Vec<Act> {
        let Some(asked) = line["id"].as_u64().and_then(|id| self.asked.remove(&id)) else {
            return Vec::new();
        };
        if let Some(error) = line.get("error") {
            return self.refused(asked, error);
        }
        let result = &line["result"];
        match asked {
            Asked::Initialize => self.initialized(result),
            Asked::Login => vec![self.open_session()],
            Asked::Session => match parsed::<NewSessionResponse>(result) {
                Ok(session) => {
                    self.session = Some(session.session_id);
                    vec![Act::Ready]
                }
                Err(failure) => vec![Act::Done(Err(failure))],
            },
            Asked::Prompt => self.finished(result),
        }
    }

    fn initialized(&mut self, result: &Value) -> Vec<Act> {
        let agent: InitializeResponse = match parsed(result) {
            Ok(agent) => agent,
            Err(failure) => return vec![Act::Done(Err(failure))],
        };
        if agent.protocol_version != ProtocolVersion::V1 {
            let words = format!("it speaks version {} of it alone", agent.protocol_version);
            return vec![Act::Done(Err(EngineFailure::new(Code::ConfigError, unfit(&words))))];
        }
        self.takes_pictures = agent.agent_capabilities.prompt_capabilities.image;
        let mut logins = agent.auth_methods.into_iter().map(|method| method.id);
        self.login = logins.find(|id| {
            let id = id.to_string().to_lowercase();
            id.contains("api") && id.contains("key")
        });
        let prompt = &result["agentCapabilities"]["sessionCapabilities"]["systemPrompt"];
        self.tells_system = !prompt["mode"]["override"].is_object();
        vec![self.open_session()]
    }

    fn open_session(&mut self) -> Act {
        let mut params = json(&self.opening);
        if !self.tells_system {
            let content = json!([{"type": "text", "text": self.system}]);
            params["systemPrompt"] = json!({"mode": "override", "content": content});
        }
        params["_meta"] = requests();
        self.ask(Asked::Session, AGENT_METHOD_NAMES.session_new, params)
    }

    fn refused(&mut self, asked: Asked, error: &Value) -> Vec<Act> {
        let error = parsed(error).unwrap_or_else(|_| Error::internal_error());
        if asked == Asked::Session
            && error.code == ErrorCode::AuthRequired
            && let Some(method) = self.login.take()
        {
            let params = json(&AuthenticateRequest::new(method));
            return vec![self.ask(Asked::Login, AGENT_METHOD_NAMES.authenticate, params)];
        }
        let mut acts = Vec::new();
        if let Some(Speaking { said, .. }) = &self.speaking {
            // Some say in the model's voice what went wrong.
            acts.extend(if error.message.contains(said.as_str()) {
                self.speaking = None;
                Some(Act::Reset)
            } else {
                self.end_block()
            });
        }
        acts.push(Act::Done(Err(classify(&error))));
        acts
    }

    fn finished(&mut self, result: &Value) -> Vec<Act> {
        let mut acts: Vec<Act> = self.end_block().into_iter().collect();
        let stop = match parsed::<PromptResponse>(result) {
            Ok(answer) => answer.stop_reason,
            Err(failure) => {
                acts.push(Act::Done(Err(failure)));
                return acts;
            }
        };
        let fail = |code, words: &str| Act::Done(Err(EngineFailure::new(code, words)));
        acts.push(Act::MessageEnd(json(&stop).as_str().map(str::to_owned)));
        match stop {
            StopReason::Refusal => {
                acts.push(fail(Code::ProviderRefused, "the agent refuses to go on"));
            }
            StopReason::MaxTurnRequests => {
                let words = "the agent may not ask its model as often as this turn needs";
                acts.push(fail(Code::ProviderError, words));
            }
            StopReason::Cancelled => acts.push(fail(Code::Crash, "the agent gave up by itself")),
            // More that it was told is answered next.
            _ if self.is_at_work() => {}
            _ => acts.push(Act::Done(Ok(()))),
        }
        acts
    }

    fn is_at_work(&self) -> bool {
        self.asked.values().any(|asked| *asked == Asked::Prompt)
    }

    fn notified(&mut self, params: &Value) -> Vec<Act> {
        // What a newer version of the protocol tells besides is none of ours.
        let Ok(told) = parsed::<SessionNotification>(params) else { return Vec::new() };
        let raw = &params["update"];
        match told.update {
            SessionUpdate::AgentMessageChunk(chunk) => self.piece(Speech::Text, chunk, raw),
            SessionUpdate::AgentThoughtChunk(chunk) => self.piece(Speech::Thinking, chunk, raw),
            SessionUpdate::ToolCall(call) => {
                let mut acts: Vec<Act> = self.end_block().into_iter().collect();
                acts.extend(self.calls.announced(call, raw));
                acts
            }
            SessionUpdate::ToolCallUpdate(update) => self.calls.updated(update),
            SessionUpdate::UsageUpdate(_) => self.calls.message_ended(),
            _ => Vec::new(),
        }
    }

    fn piece(&mut self, speech: Speech, chunk: ContentChunk, raw: &Value) -> Vec<Act> {
        let ContentBlock::Text(text) = chunk.content else {
            return vec![Act::Note("the agent said something that is no text".to_owned())];
        };
        if text.text.is_empty() {
            return Vec::new();
        }
        let message = raw["messageId"].as_str().map(str::to_owned);
        let mut acts = Vec::new();
        match &mut self.speaking {
            Some(speaking) if speaking.speech == speech && speaking.message == message => {
                speaking.said.push_str(&text.text);
            }
            _ => {
                acts.extend(self.end_block());
                self.speaking = Some(Speaking { speech, message, said: text.text.clone() });
            }
        }
        acts.push(speech.piece(text.text));
        acts
    }

    fn end_block(&mut self) -> Option<Act> {
        let Speaking { speech, said, .. } = self.speaking.take()?;
        Some(Act::Block(speech.block(said)))
    }

    /// Nothing that it may ask of us is granted but calls of our tools: there are no files and terminals here.
    fn requested(&mut self, method: &str, line: &Value) -> Vec<Act> {
        let params = &line["params"];
        let mut acts = Vec::new();
        let answer = if method == CLIENT_METHOD_NAMES.session_request_permission {
            parsed::<RequestPermissionRequest>(params).map_err(|_| Error::invalid_params()).map(
                |request| {
                    let (outcome, note) = self.calls.permit(&request, &params["toolCall"]);
                    acts.extend(note);
                    json(&RequestPermissionResponse::new(outcome))
                },
            )
        } else {
            Err(Error::method_not_found())
        };
        let mut message = json!({"jsonrpc": "2.0", "id": line["id"]});
        match answer {
            Ok(result) => message["result"] = result,
            Err(error) => message["error"] = json(&error),
        }
        acts.push(Act::write(&message));
        acts
    }
}

impl program::Dialogue for Dialogue {
    fn open(&mut self) -> Vec<Act> {
        let ours =
            Implementation::new(SERVER, env!("CARGO_PKG_VERSION")).title("Hivewright".to_owned());
        let request = InitializeRequest::new(ProtocolVersion::V1)
            .client_capabilities(ClientCapabilities::default())
            .client_info(ours);
        vec![self.ask(Asked::Initialize, AGENT_METHOD_NAMES.initialize, json(&request))]
    }

    fn hear(&mut self, line: Value) -> Vec<Act> {
        match (line["method"].as_str(), line.get("id")) {
            (Some(method), Some(_)) => self.requested(method, &line),
            (Some(method), None) if method == CLIENT_METHOD_NAMES.session_update => {
                self.notified(&line["params"])
            }
            (Some(_), None) => Vec::new(),
            (None, _) => self.answered(&line),
        }
    }

    fn show(&mut self, text: &str, pictures: &[Picture]) -> Vec<Act> {
        let Some(session) = self.session.clone() else { return Vec::new() };
        let mut text = text.to_owned();
        if std::mem::take(&mut self.tells_system) && !self.system.is_empty() {
            text = format!("[instructions]\n{}\n[end of the instructions]\n\n{text}", self.system);
        }
        let mut prompt = vec![ContentBlock::from(text)];
        let pictures = pictures.iter().filter(|_| self.takes_pictures);
        prompt.extend(
            pictures
                .map(|Picture { mime, data }| ContentBlock::Image(ImageContent::new(data, mime))),
        );
        let request = PromptRequest::new(session, prompt);
        vec![self.ask(Asked::Prompt, AGENT_METHOD_NAMES.session_prompt, json(&request))]
    }

    fn takes_more(&self) -> bool {
        !self.is_at_work()
    }

    fn ended(&mut self) -> EngineFailure {
        EngineFailure::new(Code::Crash, "the agent ended before its turn did")
    }
}

/// Wishes beyond the protocol, which agents that do not know them pass over: no tools of their own, and, for Claude
/// Code, no request to the model for a title.
fn requests() -> Value {
    json!({"disableBuiltInTools": true, "claudeCode": {"options": {"title": "turn"}}})
}

/// A type of the protocol as it is written. None of them can fail at that.
fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn parsed<T: DeserializeOwned>(value: &Value) -> Result<T, EngineFailure> {
    T::deserialize(value).map_err(|error| {
        EngineFailure::new(
            Code::ProviderError,
            unfit(&format!("an answer cannot be read: {error}")),
        )
    })
}

fn unfit(words: &str) -> String {
    format!("the agent does not keep to the Agent Client Protocol: {words}")
}
