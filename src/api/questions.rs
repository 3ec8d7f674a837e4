//! Questions: what teams ask the operator, and the answers.

use clap::Args;
use hivewright_actors::{
    approvals::question::{Answer, AnswerKind, Question, QuestionStatus},
    task::Lane,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags::words, reply::*, scope::Scope::*, when::*};

pub const LIST_QUESTIONS: Endpoint<Rows<QuestionRow>, Empty, QuestionFilter> =
    get("/api/v1/questions", Read, "Lists what teams ask the operator.")
        .sorted(&["created_at", "expires_at"]);

pub const SHOW_QUESTION: Endpoint<Data<QuestionRow>, ById> =
    get("/api/v1/questions/{id}", Read, "Shows a question.");

pub const ANSWER_QUESTION: Endpoint<Data<QuestionRow>, ById, Empty, QuestionAnswer> =
    post("/api/v1/questions/{id}/answer", Approve, "Answers a question.")
        .description("Of kind `secret`, `text` goes into the vault under `key` and nowhere else.")
        .refuses(&[409, 422, 503])
        .secret()
        .recorded()
        .example(r#"{"selected": ["staging"], "text": "and only today"}"#);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct QuestionFilter {
    /// Only with this status.
    #[arg(long, default_value = "open", value_parser = words::<QuestionStatus>())]
    pub status: Option<QuestionStatus>,
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
}

row! {
    /// A question as answers show it.
    #[schemars(rename = "Question")]
    pub struct QuestionRow from question: Question {
        pub id: String = question.id.to_string(),
        pub team: String = question.team.name.to_string(),
        pub generation: u32 = question.team.generation,
        /// Where the answer goes.
        pub lane: Lane = question.lane,
        pub task_id: String = question.task.to_string(),
        pub question: String = question.question,
        /// What can be chosen; other words are always welcome.
        pub options: Vec<String> = question.options,
        pub multi: bool = question.multi,
        pub kind: AnswerKind = question.kind,
        /// Where a secret goes in the vault.
        pub key: Option<String> = question.key,
        pub status: QuestionStatus = question.status,
        /// Never a secret.
        pub answer: Option<Answer> = question.answer,
        pub by: Option<String> = question.by,
        pub created_at: Option<Moment> = date(question.created_at),
        pub expires_at: Option<Moment> = date(question.expires_at),
        pub answered_at: Option<Moment> = question.answered_at.and_then(date),
    }
}

/// It may hold a secret: it is not to be shown.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct QuestionAnswer {
    /// Of the options.
    #[serde(default)]
    pub selected: Vec<String>,
    /// Words, or the secret that was asked for.
    #[serde(default)]
    pub text: String,
}
