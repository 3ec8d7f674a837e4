//! `/api/v1/policies`: the operator's rules, and what they say to a call.

use std::sync::Arc;

use actix_web::web;
use hivewright_actors::{
    ids::TeamKey,
    policy::{
        By, Decision, Role, Subject,
        class::{Kind, Risk},
        draft::{Draft, DraftCondition},
        rule::{Rule, Who},
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    State,
    arguments::{Admin, Caller, Json, Read},
    error::ApiError,
    json, listing,
    operation::Operation,
    reply::{Created, Data, Done, Rows},
    routes::{Resource, at},
};
use crate::{
    rulebook::{RuleError, Source},
    settings::policy::date,
    tools::judge::Judgement,
};

/// Judges a call of a team that nobody makes. Blocks. An error is in words for a person.
pub type Explainer =
    dyn Fn(&TeamKey, &str, &Value, &Subject) -> Result<Judgement, String> + Send + Sync;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/policies")
            .get(
                Operation::new("Lists the rules over what teams may do.")
                    .pages(&["id", "team", "resource"]),
                list,
            )
            .post(
                Operation::new("Adds a rule.").refuses(&[409]).recorded().example(
                    r#"{"resource": "tool:bash", "effect": "require_approval", "team": "billing"}"#,
                ),
                add,
            ),
        at("/api/v1/policies/explain").post(
            Operation::new("Says what the rules would decide on a call, without making it.")
                .example(r#"{"team": "main", "tool": "read", "args": {"path": "notes.md"}}"#),
            explain,
        ),
        at("/api/v1/policies/{id}").delete(
            Operation::new("Removes a rule that was added here.").refuses(&[409]).recorded(),
            remove,
        ),
    ]
}

/// A rule as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Rule")]
struct Row {
    id: String,
    /// `settings` or `stored`.
    source: &'static str,
    note: String,
    team: String,
    resource: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    principal: String,
    when: Vec<DraftCondition>,
    effect: String,
    risk: Risk,
    expires_at: Option<String>,
}

impl Row {
    fn new(rule: Rule, source: Source) -> Self {
        let risk = rule.risk;
        let draft = Draft::from(rule);
        Self {
            id: draft.id,
            source: match source {
                Source::Settings => "settings",
                Source::Stored => "stored",
            },
            note: draft.note,
            team: draft.team.unwrap_or_default(),
            resource: draft.resource,
            mode: draft.mode,
            principal: draft.principal.unwrap_or_default(),
            when: draft.when,
            effect: draft.effect,
            risk,
            expires_at: draft.expires_at.and_then(json::date),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewRule")]
struct Wish {
    /// One is made up for a rule without.
    #[serde(default)]
    id: String,
    #[serde(default)]
    note: String,
    expires_at: Option<String>,
    team: Option<String>,
    resource: String,
    mode: Option<String>,
    principal: Option<String>,
    /// All of them have to hold.
    #[serde(default)]
    when: Vec<DraftCondition>,
    /// `allow`, `deny` or `require_approval`.
    effect: String,
    quorum: Option<u64>,
    risk: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "ExplainCall")]
struct Call {
    team: String,
    tool: String,
    /// Its arguments.
    #[serde(default)]
    args: Value,
    /// On whose behalf; `any` is usual.
    principal: Option<String>,
}

/// What the rules say to a call.
#[derive(Serialize, JsonSchema)]
struct Explained {
    decision: &'static str,
    /// The rule that made it.
    rule: Option<String>,
    /// Where there is none: `no_matching_rule`, `default`, or `allowed_tools` of the team.
    reason: Option<&'static str>,
    class: &'static str,
    /// Why a person is asked.
    why: Option<String>,
    kind: Option<Kind>,
    risk: Option<Risk>,
    /// All rules that fit.
    fitting: Vec<String>,
}

async fn list(state: web::Data<State>, caller: Caller<Admin>) -> Result<Rows<Row>, ApiError> {
    caller.all_teams()?;
    let rules = state.rules.clone();
    let rules = web::block(move || {
        rules.refresh();
        rules.list()
    });
    let rules = rules.await.map_err(ApiError::internal)?;
    let rows = rules.into_iter().map(|(rule, source)| Row::new(rule, source));
    listing::page(rows, &caller.query.page()?, |row| row.id.clone())
}

async fn add(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(wish): Json<Wish>,
) -> Result<Created<Row>, ApiError> {
    caller.all_teams()?;
    let expires_at = match &wish.expires_at {
        Some(text) => {
            let wrong = |reason| ApiError::invalid_field("expires_at", reason);
            Some(date(text).map_err(wrong)?)
        }
        None => None,
    };
    let draft = Draft {
        id: wish.id,
        note: wish.note,
        expires_at,
        team: wish.team,
        resource: wish.resource,
        mode: wish.mode,
        principal: wish.principal,
        when: wish.when,
        effect: wish.effect,
        quorum: wish.quorum,
        risk: wish.risk,
    };
    let rule = state.rules.add(draft, caller.principal.id()).await?;
    Ok(Created(Row::new(rule, Source::Stored)))
}

async fn remove(
    state: web::Data<State>,
    caller: Caller<Admin>,
    id: web::Path<String>,
) -> Result<Done, ApiError> {
    caller.all_teams()?;
    state.rules.remove(&id, caller.principal.id()).await?;
    Ok(Done)
}

async fn explain(
    state: web::Data<State>,
    caller: Caller<Read>,
    Json(call): Json<Call>,
) -> Result<Data<Explained>, ApiError> {
    caller.team(&call.team)?;
    let unknown = || ApiError::invalid_field("team", "there is no such team");
    let team = state.service.team(&call.team).ok_or_else(unknown)?;
    let subject = subject(call.principal.as_deref())?;
    let args = match call.args {
        Value::Null => serde_json::json!({}),
        args => args,
    };
    let explainer = Arc::clone(&state.explainer);
    let judged = web::block(move || explainer(&team, &call.tool, &args, &subject)).await;
    let judged = judged.map_err(ApiError::internal)?;
    let judged = judged.map_err(|reason| ApiError::invalid_field("tool", reason))?;
    Ok(Data(explained(judged)))
}

/// On whose behalf a call would be made.
fn subject(principal: Option<&str>) -> Result<Subject, ApiError> {
    let who = Who::parse(principal.unwrap_or("any"))
        .map_err(|reason| ApiError::invalid_field("principal", reason))?;
    let mut subject = Subject { role: Role::User, user: None, untrusted: false };
    match who {
        Who::Any => {}
        Who::Role(role) => subject.role = role,
        Who::User(user) => subject.user = Some(user),
        Who::Untrusted => subject.untrusted = true,
    }
    Ok(subject)
}

fn explained(judged: Judgement) -> Explained {
    let (decision, by, caution) = match judged.decision {
        Decision::Allow(by) => ("allow", by, None),
        Decision::Deny(by) => ("deny", by, None),
        Decision::Ask(by, caution) => ("require_approval", by, Some(caution)),
    };
    let (rule, reason) = match by {
        By::Rule(id) => (Some(id), None),
        By::NoMatchingRule => (None, Some("no_matching_rule")),
        By::Default => (None, Some("default")),
        By::ToolList => (None, Some("allowed_tools")),
    };
    Explained {
        decision,
        rule,
        reason,
        class: judged.class,
        why: caution.as_ref().map(|caution| caution.why.clone()),
        kind: caution.as_ref().map(|caution| caution.kind),
        risk: caution.as_ref().map(|caution| caution.risk),
        fitting: judged.fitting,
    }
}

impl From<RuleError> for ApiError {
    fn from(error: RuleError) -> Self {
        let message = error.to_string();
        match error {
            RuleError::Invalid(invalid) => Self::invalid_field(invalid.field, invalid.reason),
            RuleError::Taken(_) | RuleError::TooMany | RuleError::FromSettings(_) => {
                Self::conflict(message)
            }
            RuleError::Unknown(_) => Self::not_found(message),
            RuleError::Store(_) | RuleError::NotReady => Self::internal(message),
        }
    }
}
