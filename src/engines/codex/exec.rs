//! Codex by single runs: one prompt on its input, then its events.

use hivewright_actors::{engine::EngineFailure, task::outcome::Code};
use serde_json::Value;

use super::{
    effort,
    failure::failure,
    items::{Items, text},
};
use crate::engines::{
    harness::program::{Act, Dialogue, Order},
    pictures::Picture,
};

/// It is started in its home, as it needs no folder: from that of a team it would take skills.
pub(super) fn args(order: &Order) -> Vec<String> {
    let home = order.home.display().to_string();
    let model = format!("--model={}", order.model);
    let mut args: Vec<String> = ["exec", "--json", "--skip-git-repo-check", "--color", "never"]
        .into_iter()
        .chain(["--ephemeral", "--ignore-rules", "-C", &home, "-s", "read-only", &model])
        .chain(["-c", r#"approval_policy="never""#])
        .map(str::to_owned)
        .collect();
    if let Some(thinking) = order.thinking {
        let level = format!("model_reasoning_effort={:?}", effort(thinking));
        args.extend(["-c".to_owned(), level]);
    }
    args.push("-".to_owned());
    args
}

pub(super) struct Exec {
    items: Items,
    was_told: bool,
    /// The last error, which may be the reason for an end.
    error: Option<String>,
}

impl Exec {
    pub(super) fn new(order: &Order) -> Self {
        Self { items: Items::new(order), was_told: false, error: None }
    }
}

impl Dialogue for Exec {
    fn open(&mut self) -> Vec<Act> {
        vec![Act::Ready]
    }

    fn hear(&mut self, line: Value) -> Vec<Act> {
        match text(&line, "type") {
            "item.started" => self.items.started(&line["item"]),
            "item.completed" => self.items.completed(&line["item"]),
            "turn.completed" => {
                let mut acts = self.items.message_end();
                acts.push(Act::Done(Ok(())));
                acts
            }
            "turn.failed" => {
                let failure = failure(text(&line["error"], "message"), &Value::Null);
                vec![Act::Done(Err(failure))]
            }
            // It goes on trying; a turn that fails says so itself.
            "error" => {
                let message = text(&line, "message").to_owned();
                self.error = Some(message.clone());
                let is_retry = message.starts_with("Reconnecting");
                vec![if is_retry { Act::Retry(message) } else { Act::Note(message) }]
            }
            _ => Vec::new(),
        }
    }

    fn show(&mut self, text: &str, _: &[Picture]) -> Vec<Act> {
        if std::mem::replace(&mut self.was_told, true) {
            return vec![Act::Note("Codex cannot be told more in this mode".to_owned())];
        }
        vec![Act::Write(text.to_owned()), Act::CloseInput]
    }

    fn ended(&mut self) -> EngineFailure {
        let reason = self.error.take().map(|error| format!(": {error}")).unwrap_or_default();
        EngineFailure::new(Code::Crash, format!("Codex ended before its turn did{reason}"))
    }
}
