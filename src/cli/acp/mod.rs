//! `hivewright acp`: a team as an agent for editors, by the Agent Client Protocol on the standard streams.

use std::{
    collections::HashMap,
    io::{self, BufRead},
    thread,
};

use agent_client_protocol_schema::{
    AGENT_METHOD_NAMES, AgentCapabilities, CancelNotification, Error, Implementation,
    InitializeRequest, InitializeResponse, NewSessionRequest, PromptCapabilities, PromptRequest,
    ProtocolVersion, SessionId,
};
use clap::Args;
use hivewright_actors::ids::MAIN;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::{LocalSet, spawn_local},
};

use super::{Context, failure::Failure};

mod conversation;
mod decisions;
mod editor;
mod other_team;
mod prompt;
mod updates;

use conversation::Conversation;
use editor::{Editor, Order};
use other_team::OtherTeam;

/// Offer a team to an editor, as an agent
///
/// The editor starts it and speaks the Agent Client Protocol with it. Each thread of the editor is a conversation of
/// its own with the main team; another team has one conversation, which all threads are a part of.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright acp\n  \
    hivewright acp --team research")]
pub(super) struct Arguments {
    /// The team to talk with [default: main]
    #[arg(long)]
    pub(super) team: Option<String>,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let mut lines = read_lines();
    let mut agent = Agent {
        team: arguments.team.filter(|team| team != MAIN),
        context: context.clone(),
        editor: Editor::new(write_lines()),
        sessions: HashMap::new(),
    };
    let listening = async {
        while let Some(line) = lines.recv().await {
            agent.hear(&line);
        }
    };
    // Conversations run beside it on this one thread, and end with it.
    LocalSet::new().run_until(listening).await;
    Ok(())
}

/// The lines of the editor. Reading blocks, so it has a thread of its own, which ends with the process.
fn read_lines() -> mpsc::Receiver<Vec<u8>> {
    let (sender, lines) = mpsc::channel(1);
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { return };
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Writes lines to the editor, in the order in which they come. One that is gone is noticed by its silence.
fn write_lines() -> mpsc::UnboundedSender<Value> {
    let (sender, mut lines) = mpsc::unbounded_channel::<Value>();
    thread::spawn(move || {
        while let Some(line) = lines.blocking_recv() {
            let mut output = io::stdout().lock();
            let written = io::Write::write_all(&mut output, format!("{line}\n").as_bytes());
            if written.and_then(|()| io::Write::flush(&mut output)).is_err() {
                return;
            }
        }
    });
    sender
}

struct Agent {
    /// The team, if it is not the main one.
    team: Option<String>,
    context: Context,
    editor: Editor,
    /// What each conversation is told.
    sessions: HashMap<SessionId, mpsc::UnboundedSender<Order>>,
}

impl Agent {
    fn hear(&mut self, line: &[u8]) {
        if line.trim_ascii().is_empty() {
            return;
        }
        let Ok(message) = serde_json::from_slice::<Value>(line) else {
            return self.editor.answer(Value::Null, Err(Error::parse_error()));
        };
        let id = message.get("id").cloned();
        match (message["method"].as_str(), id) {
            (Some(method), Some(id)) => self.requested(method, &message["params"], id),
            (Some(method), None) => self.notified(method, &message["params"]),
            (None, _) => self.editor.answered(&message),
        }
    }

    fn requested(&mut self, method: &str, params: &Value, id: Value) {
        let refusal = if method == AGENT_METHOD_NAMES.initialize {
            parsed::<InitializeRequest>(params).map(|_| {
                self.editor.answer(id.clone(), Ok(json!(introduction())));
            })
        } else if method == AGENT_METHOD_NAMES.session_new {
            parsed::<NewSessionRequest>(params).map(|_| self.open(id.clone()))
        } else if method == AGENT_METHOD_NAMES.session_prompt {
            parsed::<PromptRequest>(params).and_then(|request| {
                let text = prompt::words(request.prompt)?;
                self.tell(&request.session_id, Order::Prompt { id: id.clone(), text })
            })
        } else {
            Err(Error::method_not_found())
        };
        if let Err(error) = refusal {
            self.editor.answer(id, Err(error));
        }
    }

    fn notified(&mut self, method: &str, params: &Value) {
        if method == AGENT_METHOD_NAMES.session_cancel
            && let Ok(CancelNotification { session_id, .. }) = parsed(params)
        {
            // One that is over has nothing to stop.
            let _ = self.tell(&session_id, Order::Cancel);
        }
    }

    fn tell(&mut self, session: &SessionId, order: Order) -> Result<(), Error> {
        let unknown = || {
            let words = format!("there is no session `{session}`, or its connection has ended");
            Error::invalid_params().data(json!(words))
        };
        let sent = self.sessions.get(session).map(|session| session.send(order).is_ok());
        if sent == Some(true) { Ok(()) } else { Err(unknown()) }
    }

    /// Begins a conversation. It answers the editor itself, once it is connected.
    fn open(&mut self, request: Value) {
        let bits = match getrandom::u64() {
            Ok(bits) => bits,
            Err(error) => {
                let error = Error::internal_error().data(json!(error.to_string()));
                return self.editor.answer(request, Err(error));
            }
        };
        let id = SessionId::new(format!("hivewright-{bits:016x}"));
        let (orders, told) = mpsc::unbounded_channel();
        self.sessions.insert(id.clone(), orders);
        let (editor, context) = (self.editor.clone(), self.context.clone());
        match self.team.clone() {
            None => drop(spawn_local(Conversation::begin(id, request, told, editor, context))),
            Some(team) => {
                let other = OtherTeam { id, team, editor, context };
                drop(spawn_local(other.begin(request, told)));
            }
        }
    }
}

fn introduction() -> InitializeResponse {
    let takes = PromptCapabilities::new().embedded_context(true);
    let name = Implementation::new("hivewright", env!("CARGO_PKG_VERSION"));
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(AgentCapabilities::new().prompt_capabilities(takes))
        .agent_info(name.title("Hivewright".to_owned()))
}

fn parsed<T: DeserializeOwned>(params: &Value) -> Result<T, Error> {
    T::deserialize(params).map_err(|error| Error::invalid_params().data(json!(error.to_string())))
}
