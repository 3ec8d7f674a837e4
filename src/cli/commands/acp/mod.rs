//! `hivewright acp`: a team as an agent for editors, by the Agent Client Protocol on the standard streams.

use std::{io, thread};

use agent_client_protocol_schema::{
    AGENT_METHOD_NAMES, AgentCapabilities, CancelNotification, Error, Implementation,
    InitializeRequest, InitializeResponse, LoadSessionRequest, NewSessionRequest,
    PromptCapabilities, PromptRequest, ProtocolVersion, SessionId,
};
use clap::Args;
use hivewright_actors::ids::MAIN;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::{LocalSet, spawn_local},
};

use crate::cli::{context::Context, failure::Failure, prompt::stdin_lines};

mod conversation;
mod decisions;
mod editor;
mod other_team;
mod prompt;
mod thoughts;
mod updates;

use conversation::Conversation;
use editor::{Editor, Order};
use other_team::OtherTeam;

/// Offer a team to an editor, as an agent
///
/// The editor starts it and speaks the Agent Client Protocol with it. Each thread of the editor is a conversation of
/// its own with the main team, and can be opened again; another team has one conversation, which all threads are a part of.
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
    let mut lines = stdin_lines();
    let mut agent = Agent {
        team: arguments.team.filter(|team| team != MAIN),
        context: context.clone(),
        editor: Editor::new(write_lines()),
    };
    let listening = async {
        while let Some(Ok(line)) = lines.recv().await {
            agent.hear(&line);
        }
    };
    // Conversations run beside it on this one thread, and end with it.
    LocalSet::new().run_until(listening).await;
    Ok(())
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
                let can_load = self.team.is_none();
                self.editor.answer(id.clone(), Ok(json!(introduction(can_load))));
            })
        } else if method == AGENT_METHOD_NAMES.session_new {
            parsed::<NewSessionRequest>(params).map(|_| self.open(id.clone()))
        } else if method == AGENT_METHOD_NAMES.session_load && self.team.is_none() {
            parsed::<LoadSessionRequest>(params).map(|LoadSessionRequest { session_id, .. }| {
                let (editor, context) = (self.editor.clone(), self.context.clone());
                drop(spawn_local(Conversation::load(session_id, id.clone(), editor, context)));
            })
        } else if method == AGENT_METHOD_NAMES.session_prompt {
            parsed::<PromptRequest>(params).and_then(|request| {
                let text = prompt::words(request.prompt)?;
                self.editor.tell(&request.session_id, Order::Prompt { id: id.clone(), text })
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
            let _ = self.editor.tell(&session_id, Order::Cancel);
        }
    }

    /// Begins a conversation. It answers the editor itself, once it is connected.
    fn open(&self, request: Value) {
        let (editor, context) = (self.editor.clone(), self.context.clone());
        let Some(team) = self.team.clone() else {
            return drop(spawn_local(Conversation::begin(request, editor, context)));
        };
        match getrandom::u64() {
            Ok(bits) => {
                let id = SessionId::new(format!("{team}-{bits:016x}"));
                drop(spawn_local(OtherTeam { id, team, editor, context }.begin(request)));
            }
            Err(error) => {
                let error = Error::internal_error().data(json!(error.to_string()));
                editor.answer(request, Err(error));
            }
        }
    }
}

/// What an editor is told of the agent. With another team all threads are one conversation, so that none is opened again.
fn introduction(can_load: bool) -> InitializeResponse {
    let takes = PromptCapabilities::new().embedded_context(true);
    let name = Implementation::new("hivewright", env!("CARGO_PKG_VERSION"));
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(
            AgentCapabilities::new().prompt_capabilities(takes).load_session(can_load),
        )
        .agent_info(name.title("Hivewright".to_owned()))
}

fn parsed<T: DeserializeOwned>(params: &Value) -> Result<T, Error> {
    T::deserialize(params).map_err(|error| Error::invalid_params().data(json!(error.to_string())))
}
