//! `ask_operator`: a question to a person, whose answer comes as a task of its own.

use std::collections::HashSet;

use actix::Addr;
use hivewright_actors::{
    approvals::{
        Approvals, Ask,
        question::{
            AnswerKind, DEFAULT_TTL, LONGEST_OPTION, LONGEST_QUESTION, LONGEST_TTL, MOST_OPTIONS,
            Question, QuestionStatus,
        },
    },
    clock::Clock,
    text::Span,
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    about::About,
    answer,
    compact_schema::unsaid,
    contract::{Tool, ToolContext, not_blank},
    error::ToolError,
    made::tools,
};
use crate::{
    system::{WallClock, sha256},
    vault::entry::is_key,
};

tools! {
    pub fn made(approvals: &Addr<Approvals>) {
        AskOperator(approvals.clone()),
    }
}

pub(super) struct AskOperator(Addr<Approvals>);

#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Args {
    /// With what you know, and what hangs on the answer.
    #[schemars(length(min = 1, max = LONGEST_QUESTION))]
    question: String,
    /// Suggested answers.
    #[serde(default)]
    #[schemars(length(max = MOST_OPTIONS), inner(length(min = 1, max = LONGEST_OPTION)))]
    options: Vec<String>,
    /// Several may be chosen.
    #[serde(default)]
    multi: bool,
    #[serde(default)]
    #[schemars(transform = unsaid)]
    kind: AnswerKind,
    /// A secret's name in your vault.
    key: Option<String>,
    /// How long to wait, such as `2h`. Left out: 24h.
    #[schemars(extend("x-minimum" = "1m", "x-maximum" = Span(LONGEST_TTL).to_string()))]
    ttl: Option<Span>,
}

impl Tool for AskOperator {
    const ABOUT: About = About::new("ask_operator", "@org", "org.ask_operator", Effect::Idempotent)
        .refuses_secrets();
    const DESCRIPTION: &'static str = "Asks the operator; the answer comes later as a task of its \
        own, so go on or end your turn. For a secret set `kind` and `key`: you get a reference, \
        never the value.";
    type Args = Args;

    fn accept(args: &Args) -> Result<(), String> {
        not_blank("question", &args.question)?;
        args.options.iter().try_for_each(|option| not_blank("options", option))?;
        let distinct: HashSet<_> = args.options.iter().collect();
        if distinct.len() < args.options.len() {
            return Err("`options`: one is given twice".to_owned());
        }
        match (args.kind, &args.key) {
            (AnswerKind::Secret, _) if !args.options.is_empty() => {
                Err("`options`: a secret has none".to_owned())
            }
            (AnswerKind::Secret, Some(key)) if is_key(key) => Ok(()),
            (AnswerKind::Secret, _) => {
                Err("`key`: a secret needs a key of the vault, such as `API_KEY`".to_owned())
            }
            (AnswerKind::Text, Some(_)) => {
                Err("`key`: belongs to a question of kind `secret`".to_owned())
            }
            (AnswerKind::Text, None) => Ok(()),
        }
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let question = question(args, cx);
        let id = question.id.clone();
        match self.0.send(Ask(question)).await {
            Ok(Ok(())) => Ok(answer::ok(json!({
                "question_id": id,
                "status": "open",
                "note": "The answer comes as a task of its own. Do not ask again.",
            }))),
            Ok(Err(error)) => Err(ToolError::failed(error.to_string())),
            Err(error) => Err(ToolError::failed(error.to_string())),
        }
    }
}

/// The same call asks the same question, however often it is made.
fn question(args: Args, cx: &ToolContext) -> Question {
    let now = WallClock.now();
    let name = sha256(format!("{}/{}", cx.caller.team, cx.key).as_bytes());
    let ttl = args.ttl.map_or(DEFAULT_TTL, |ttl| ttl.0);
    Question {
        id: format!("qst-{}", &name[..16]).into(),
        team: cx.caller.team.clone(),
        lane: cx.caller.lane.clone(),
        task: cx.caller.task.clone(),
        question: args.question,
        options: args.options,
        multi: args.multi,
        kind: args.kind,
        key: args.key,
        status: QuestionStatus::Open,
        answer: None,
        by: None,
        source: cx.caller.source.clone(),
        lineage: cx.caller.lineage.clone(),
        label: cx.label,
        cause: cx.caller.cause.clone(),
        created_at: now,
        expires_at: now + ttl,
        answered_at: None,
    }
}

#[cfg(test)]
mod tests {

    use serde_json::Value;

    use super::{super::hosted, *};
    use crate::api::input::Reader;

    fn wrong(args: Value) -> Result<(), String> {
        let read = hosted::read::<AskOperator>(&Reader::default(), &args);
        read.map(drop).map_err(|error| {
            let answer: Value = serde_json::from_str(&error.message).unwrap();
            let field = answer["message"].as_str().unwrap().split([':', '[']).next();
            field.unwrap().trim_end_matches('`').to_owned() + "`"
        })
    }

    /// PL-88
    #[test]
    fn what_cannot_be_asked_is_refused_by_field() {
        let long = "x".repeat(4_001);
        let options: Vec<String> = (0..21).map(|n| n.to_string()).collect();
        let table = [
            (json!({"question": " "}), "`question`"),
            (json!({"question": long}), "`question`"),
            (json!({"question": "q", "options": options}), "`options`"),
            (json!({"question": "q", "options": [""]}), "`options`"),
            (json!({"question": "q", "options": ["a", "a"]}), "`options`"),
            (json!({"question": "q", "ttl": "31d"}), "`ttl`"),
            (json!({"question": "q", "ttl": "soon"}), "`ttl`"),
            (json!({"question": "q", "kind": "secret"}), "`key`"),
            (json!({"question": "q", "kind": "secret", "key": "no key"}), "`key`"),
            (json!({"question": "q", "key": "KEY"}), "`key`"),
            (
                json!({"question": "q", "kind": "secret", "key": "KEY", "options": ["a"]}),
                "`options`",
            ),
        ];

        for (args, field) in table {
            assert_eq!(wrong(args), Err(field.to_owned()));
        }
        assert_eq!(
            wrong(json!({"question": "q", "options": ["a", "b"], "multi": true, "ttl": "30d"})),
            Ok(())
        );
        assert_eq!(wrong(json!({"question": "q", "kind": "secret", "key": "API_KEY"})), Ok(()));
    }
}
