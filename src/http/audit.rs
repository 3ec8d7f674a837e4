//! `/api/v1/audit`: who did what to the service.

use actix_web::web;
use hivewright_actors::{
    audit::{Audit, CallAudit, Decision},
    store::reads::Range,
};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    State,
    approvals::words,
    arguments::{Admin, Caller},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Clean, Rows},
    routes::{Resource, at},
};
use crate::vocabulary;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/audit").get(
            Operation::new("Lists who did what to the service.")
                .query(
                    const {
                        &[
                            Field::text("actor", "Only what they did."),
                            Field::text(
                                "action",
                                "Only this, such as `tokens.create`, or all of a kind, such as `tokens`.",
                            ),
                            Field::text("team", "Only tool calls of this team."),
                            Field::text("tool", "Only calls of this tool."),
                            Field::word(
                                "decision",
                                || words(&Decision::ALL),
                                "Only tool calls on which this was decided.",
                            ),
                            Field::moment("since", "Not before."),
                            Field::moment("until", "Not after."),
                            Field::text("q", "Only with this in who, what, on what or the outcome."),
                        ]
                    },
                )
                .pages(&["-at"]),
            list,
        ),
    ]
}

/// A line as answers show it.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditLine)]
struct Row {
    id: String,
    at: Option<String>,
    actor: String,
    action: String,
    target: String,
    from: String,
    outcome: String,
    /// The tool call that it tells of, if it tells of one.
    call: Option<Call>,
}

/// A tool call as a line shows it.
#[derive(Serialize, ToSchema)]
#[schema(as = AuditCall)]
struct Call {
    team: String,
    task_id: String,
    turn: String,
    tool: String,
    #[schema(schema_with = vocabulary::of::<Decision>)]
    decision: Decision,
    /// The operator's rule, or the check that refused.
    rule: Option<String>,
    duration_ms: u64,
    ok: bool,
    /// The first 200 characters.
    arguments: String,
    /// The first 200 characters.
    result: String,
}

impl From<CallAudit> for Call {
    fn from(call: CallAudit) -> Self {
        Self {
            team: call.team.to_string(),
            task_id: call.task.to_string(),
            turn: call.turn.to_string(),
            tool: call.tool,
            decision: call.decision,
            rule: call.rule,
            duration_ms: call.duration_ms,
            ok: call.ok,
            arguments: call.arguments,
            result: call.result,
        }
    }
}

impl From<Audit> for Row {
    fn from(audit: Audit) -> Self {
        Self {
            id: audit.id,
            at: json::date(audit.at),
            actor: audit.actor.to_string(),
            action: audit.action,
            target: audit.target,
            from: audit.from,
            outcome: audit.outcome,
            call: audit.call.map(|call| Call::from(*call)),
        }
    }
}

async fn list(
    state: web::Data<State>,
    caller: Caller<Admin>,
) -> Result<Clean<Rows<Row>>, ApiError> {
    caller.all_teams()?;
    let query = &caller.query;
    let (actor, action) =
        (query.text("actor").map(str::to_owned), query.text("action").map(str::to_owned));
    let word = query.text("q").map(str::to_lowercase);
    let now = state.access.auth.now();
    let (since, until) = (query.moment("since", now), query.moment("until", now));
    let (team, tool) =
        (query.text("team").map(str::to_owned), query.text("tool").map(str::to_owned));
    let decision = query.word("decision", &Decision::ALL);
    let page = query.page()?;
    let found = state.spine.store.read(move |storage| {
        let range = Range::all().since(&since.unwrap_or_default());
        listing::scan(storage, range, &page, |_, audit: Audit| {
            // `approval` means all that is done with approvals.
            let of_kind = |wanted: &String| {
                let rest = audit.action.strip_prefix(wanted.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            };
            let holds = |word: &String| {
                let Audit { action, target, from, outcome, actor, .. } = &audit;
                let mut parts = [actor.as_str(), action, target, from, outcome].into_iter();
                parts.any(|part| part.to_lowercase().contains(word))
            };
            let of_call = |wanted: &dyn Fn(&CallAudit) -> bool| {
                audit.call.as_ref().is_some_and(|call| wanted(call))
            };
            let is_wanted = until.is_none_or(|end| audit.at <= end)
                && team.as_ref().is_none_or(|name| of_call(&|call| call.team.as_str() == name))
                && tool.as_ref().is_none_or(|name| of_call(&|call| call.tool == *name))
                && decision.is_none_or(|wanted| of_call(&|call| call.decision == wanted))
                && actor.as_ref().is_none_or(|name| audit.actor.as_str() == name)
                && action.as_ref().is_none_or(of_kind)
                && word.as_ref().is_none_or(holds);
            is_wanted.then(|| Row::from(audit))
        })
    });
    let rows = found.await.map_err(ApiError::internal)?;
    Ok(Clean::new(&state.secrets, rows))
}
