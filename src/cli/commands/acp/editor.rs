//! The editor at the other end: what it is told, and what it is asked.

use std::{collections::HashMap, sync::Arc};

use agent_client_protocol_schema::{
    CLIENT_METHOD_NAMES, Error, LoadSessionResponse, NewSessionResponse, PromptResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse, SessionId,
    SessionNotification, SessionUpdate, StopReason,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::cli::failure::Failure;

/// What the editor wants of a conversation.
#[derive(Debug)]
pub(super) enum Order {
    /// Something is said; the request is answered when it has ended.
    Prompt { id: Value, text: String },
    /// What runs is stopped.
    Cancel,
}

#[derive(Clone, Debug)]
pub(super) struct Editor {
    lines: mpsc::UnboundedSender<Value>,
    asked: Arc<Mutex<Asked>>,
    sessions: Arc<Mutex<Sessions>>,
}

/// What each conversation is told.
type Sessions = HashMap<SessionId, mpsc::UnboundedSender<Order>>;

/// Requests to the editor that have no answer yet.
#[derive(Debug, Default)]
struct Asked {
    last_id: u64,
    open: HashMap<u64, oneshot::Sender<Value>>,
}

impl Editor {
    pub(super) fn new(lines: mpsc::UnboundedSender<Value>) -> Self {
        Self { lines, asked: Arc::default(), sessions: Arc::default() }
    }

    pub(super) fn answer(&self, id: Value, answer: Result<Value, Error>) {
        self.write(match answer {
            Ok(result) => json!({"id": id, "result": result}),
            Err(error) => json!({"id": id, "error": error}),
        });
    }

    /// A conversation has begun: what it is told from now on.
    pub(super) fn opened(
        &self,
        request: Value,
        session: &SessionId,
    ) -> mpsc::UnboundedReceiver<Order> {
        let told = self.register(session);
        self.answer(request, Ok(json!(NewSessionResponse::new(session.clone()))));
        told
    }

    /// The same of an earlier one, all of which was shown.
    pub(super) fn loaded(
        &self,
        request: Value,
        session: &SessionId,
    ) -> mpsc::UnboundedReceiver<Order> {
        let told = self.register(session);
        self.answer(request, Ok(json!(LoadSessionResponse::new())));
        told
    }

    fn register(&self, session: &SessionId) -> mpsc::UnboundedReceiver<Order> {
        let (orders, told) = mpsc::unbounded_channel();
        self.sessions.lock().insert(session.clone(), orders);
        told
    }

    /// Passes on what is wanted of a conversation.
    pub(super) fn tell(&self, session: &SessionId, order: Order) -> Result<(), Error> {
        let sent = self.sessions.lock().get(session).map(|session| session.send(order).is_ok());
        if sent == Some(true) {
            return Ok(());
        }
        let words = format!("there is no session `{session}`, or its connection has ended");
        Err(Error::invalid_params().data(json!(words)))
    }

    /// A prompt has ended.
    pub(super) fn ended(&self, request: Value, stop: StopReason) {
        self.answer(request, Ok(json!(PromptResponse::new(stop))));
    }

    pub(super) fn failed(&self, request: Value, failure: &Failure) {
        // Editors show the message alone.
        self.answer(
            request,
            Err(Error::new(Error::internal_error().code.into(), &failure.message)),
        );
    }

    /// A prompt came while another is answered.
    pub(super) fn busy(&self, request: Value) {
        self.failed(request, &Failure::failed("the last prompt is not answered yet"));
    }

    pub(super) fn update(&self, session: &SessionId, update: SessionUpdate) {
        let notification = SessionNotification::new(session.clone(), update);
        self.notify(CLIENT_METHOD_NAMES.session_update, &notification);
    }

    /// Asks the person who sits there. None if they chose nothing.
    pub(super) async fn choose(&self, request: &RequestPermissionRequest) -> Option<String> {
        let answered = {
            let mut asked = self.asked.lock();
            asked.last_id += 1;
            let (sender, answered) = oneshot::channel();
            let id = asked.last_id;
            asked.open.insert(id, sender);
            let method = CLIENT_METHOD_NAMES.session_request_permission;
            self.write(json!({"id": id, "method": method, "params": request}));
            answered
        };
        let answer =
            RequestPermissionResponse::deserialize(&answered.await.ok()?["result"]).ok()?;
        match answer.outcome {
            RequestPermissionOutcome::Selected(chosen) => Some(chosen.option_id.to_string()),
            _ => None,
        }
    }

    /// It answers something that it was asked.
    pub(super) fn answered(&self, message: &Value) {
        let open = message["id"].as_u64().and_then(|id| self.asked.lock().open.remove(&id));
        if let Some(sender) = open {
            // Whoever asked may be gone.
            let _ = sender.send(message.clone());
        }
    }

    fn notify(&self, method: &str, params: &impl Serialize) {
        self.write(json!({"method": method, "params": params}));
    }

    fn write(&self, mut message: Value) {
        message["jsonrpc"] = "2.0".into();
        // An editor that is gone ends the process by the end of its lines.
        let _ = self.lines.send(message);
    }
}
