//! Question to the operator, with the one answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    clock::Timestamp,
    ids::{QuestionId, TaskId, TeamKey},
    task::{Kind, Label, Lane, Lineage, Source, Task, cause::Cause},
    words,
};

/// The longest question, in characters.
pub const LONGEST_QUESTION: usize = 4_000;
pub const MOST_OPTIONS: usize = 20;
/// The longest option, in characters.
pub const LONGEST_OPTION: usize = 200;
/// The longest answer, in characters.
pub const LONGEST_ANSWER: usize = 100_000;
/// How long a question waits unless it says otherwise.
pub const DEFAULT_TTL: Duration = Duration::from_secs(24 * 60 * 60);
pub const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// A question, as it is stored. It is kept as long as ended tasks are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    pub id: QuestionId,
    pub team: TeamKey,
    /// Where the answer goes.
    pub lane: Lane,
    pub task: TaskId,
    pub question: String,
    /// What can be chosen; other words are always welcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// Several can be chosen.
    #[serde(default)]
    pub multi: bool,
    pub kind: AnswerKind,
    /// Where a secret goes in the vault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    pub status: QuestionStatus,
    /// The answer. Never a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// The lineage of the task that brings the answer.
    pub lineage: Lineage,
    /// How far what its turn has read may be believed.
    #[serde(default)]
    pub label: Label,
    pub cause: Cause,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<Timestamp>,
}

words! {
    /// What is asked for.
    #[derive(Default)]
    pub enum AnswerKind {
        /// Words.
        #[default]
        Text = "text",
        /// Something that goes into the vault and nowhere else.
        Secret = "secret",
    }
}

words! {
    /// What became of a question. Only the first is not final.
    pub enum QuestionStatus {
        /// Nobody has answered.
        Open = "open",
        /// Somebody has.
        Answered = "answered",
        /// Nobody did in time.
        Expired = "expired",
        /// The team that asked is gone.
        Cancelled = "cancelled",
    }
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Answer {
    /// Of the options.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub selected: Vec<String>,
    /// Words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// What is wrong with an answer: a field, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}`: {reason}")]
pub struct Unfit {
    pub field: &'static str,
    pub reason: String,
}

impl Question {
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.status == QuestionStatus::Open && now < self.expires_at
    }

    /// Refuses an answer that does not fit the question.
    pub fn fits(&self, answer: &Answer) -> Result<(), Unfit> {
        let wrong = |field, reason: String| Err(Unfit { field, reason });
        if answer.text.chars().count() > LONGEST_ANSWER {
            return wrong("text", format!("an answer has at most {LONGEST_ANSWER} characters"));
        }
        if self.kind == AnswerKind::Secret {
            if !answer.selected.is_empty() {
                return wrong("selected", "a secret is given as `text`".to_owned());
            }
            if answer.text.is_empty() {
                return wrong("text", "the secret is empty".to_owned());
            }
            return Ok(());
        }
        let unknown = answer.selected.iter().find(|chosen| !self.options.contains(chosen));
        if let Some(unknown) = unknown {
            let options = self.options.join("`, `");
            return wrong(
                "selected",
                if self.options.is_empty() {
                    "the question has no options; answer with `text`".to_owned()
                } else {
                    format!("`{unknown}` is no option; there are `{options}`")
                },
            );
        }
        if answer.selected.len() > 1 && !self.multi {
            return wrong("selected", "one option can be chosen".to_owned());
        }
        if answer.selected.is_empty() && answer.text.trim().is_empty() {
            return wrong("text", "an answer needs `selected` or `text`".to_owned());
        }
        Ok(())
    }

    /// What stands for the secret that was given.
    pub fn reference(&self) -> Option<String> {
        let key = self.key.as_ref().filter(|_| self.kind == AnswerKind::Secret);
        key.map(|key| format!("${{vault:{key}}}"))
    }

    /// The task that brings the answer, or the news that there is none, to the lane that asked.
    pub(super) fn result(&self, id: TaskId, now: Timestamp) -> Task {
        let mut told = json!({
            "event": "operator_answered",
            "question_id": self.id,
            "question": self.question,
        });
        match (self.status, &self.answer) {
            (QuestionStatus::Answered, answer) => {
                told["by"] = json!(self.by);
                if let Some(answer) = answer {
                    told["selected"] = json!(answer.selected);
                    told["text"] = json!(answer.text);
                }
                if let Some(reference) = self.reference() {
                    told["reference"] = Value::String(reference);
                }
            }
            _ => told["expired"] = Value::Bool(true),
        }
        Task {
            generation: self.team.generation,
            kind: Kind::Result,
            source: self.source.clone().map(|source| Source { message: None, ..source }),
            lineage: Some(self.lineage.clone()),
            label: self.label,
            cause: Some(self.cause.clone()),
            ..Task::new(id, self.lane.clone(), told.to_string(), "operator".to_owned(), now)
        }
    }
}
