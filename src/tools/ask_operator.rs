//! `ask_operator`: a question to a person, whose answer comes as a task of its own.

use std::time::Duration;

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
    answer,
    contract::{Limits, Tool, ToolContext, ToolError},
    host::Toolbox,
};
use crate::{
    system::{WallClock, sha256},
    vault::entry::is_key,
};

pub const NAME: &str = "ask_operator";
/// The shortest wait for an answer.
const SHORTEST_TTL: Duration = Duration::from_secs(60);

/// The same tools and this one.
pub fn add(toolbox: Toolbox, approvals: Addr<Approvals>) -> Toolbox {
    toolbox.with(AskOperator(approvals))
}

pub(super) struct AskOperator(Addr<Approvals>);

#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Kind {
    /// Words.
    #[default]
    Text,
    /// A secret: it goes into the vault under `key`, and you get a reference to it.
    Secret,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The question, at most 4,000 characters. Say what you know and what hangs on the answer.
    question: String,
    /// What can be chosen, at most 20 of 200 characters each. Other words are always possible.
    #[serde(default)]
    options: Vec<String>,
    /// Several options can be chosen.
    #[serde(default)]
    multi: bool,
    /// What is asked for: `text` (the default) or `secret`.
    #[serde(default)]
    kind: Kind,
    /// Where a secret goes in your vault.
    #[serde(default)]
    key: Option<String>,
    /// How long to wait, such as `2h` or `7d`: 24h if not given, at most 30d.
    #[serde(default)]
    ttl: Option<String>,
}

impl Args {
    fn ttl(&self) -> Option<Duration> {
        let ttl = match &self.ttl {
            Some(text) => text.parse::<Span>().ok()?.0,
            None => DEFAULT_TTL,
        };
        (SHORTEST_TTL..=LONGEST_TTL).contains(&ttl).then_some(ttl)
    }
}

impl Tool for AskOperator {
    const NAME: &'static str = NAME;
    const GROUP: &'static str = "@org";
    const DESCRIPTION: &'static str = "Asks the operator a question. It does not wait: you get the question's id at once, go on \
        with other work or end your turn, and the answer comes later as a task of its own. Ask for secrets with `kind: secret` \
        and a `key`: you then get a reference, never the value.";
    const EFFECT: Effect = Effect::Idempotent;
    const EXCLUSIVE: bool = false;
    const LIMITS: Limits = Limits::fixed(Duration::from_secs(30));
    const CLASS: &'static str = "org.ask_operator";
    const REFUSES_SECRETS: bool = true;
    type Args = Args;

    fn misfit(reason: String) -> ToolError {
        answer::refuse("invalid_input", reason)
    }

    fn accept(args: &Args) -> Result<(), String> {
        let length = args.question.chars().count();
        if args.question.trim().is_empty() || length > LONGEST_QUESTION {
            return Err(format!("`question`: 1 to {LONGEST_QUESTION} characters"));
        }
        if args.options.len() > MOST_OPTIONS {
            return Err(format!("`options`: at most {MOST_OPTIONS}"));
        }
        let long = |option: &String| option.chars().count() > LONGEST_OPTION;
        if args.options.iter().any(|option| option.trim().is_empty() || long(option)) {
            return Err(format!("`options`: each has 1 to {LONGEST_OPTION} characters"));
        }
        let mut options = args.options.clone();
        options.sort();
        options.dedup();
        if options.len() < args.options.len() {
            return Err("`options`: one is given twice".to_owned());
        }
        if args.ttl().is_none() {
            return Err("`ttl`: a duration such as `24h`, from 1m to 30d".to_owned());
        }
        match (args.kind, &args.key) {
            (Kind::Secret, Some(key)) if is_key(key) => {}
            (Kind::Secret, _) => {
                return Err(
                    "`key`: a secret needs a key of the vault, such as `API_KEY`".to_owned()
                );
            }
            (Kind::Text, Some(_)) => {
                return Err("`key`: belongs to a question of kind `secret`".to_owned());
            }
            (Kind::Text, None) => {}
        }
        match args.kind {
            Kind::Secret if !args.options.is_empty() => {
                Err("`options`: a secret has none".to_owned())
            }
            _ => Ok(()),
        }
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<String, ToolError> {
        let question = question(args, cx);
        let id = question.id.clone();
        let asked = self.0.send(Ask(question)).await;
        match asked {
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
    let ttl = args.ttl().unwrap_or(DEFAULT_TTL);
    Question {
        id: format!("qst-{}", &name[..16]).into(),
        team: cx.caller.team.clone(),
        lane: cx.caller.lane.clone(),
        task: cx.caller.task.clone(),
        question: args.question,
        options: args.options,
        multi: args.multi,
        kind: match args.kind {
            Kind::Text => AnswerKind::Text,
            Kind::Secret => AnswerKind::Secret,
        },
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

    use super::*;

    fn wrong(args: Value) -> Result<(), String> {
        let args: Args = serde_json::from_value(args).unwrap();
        let refused = AskOperator::accept(&args);
        refused.map_err(|reason| reason.split(':').next().unwrap_or_default().to_owned())
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
