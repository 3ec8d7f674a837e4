//! `/api/v1/policies`: the operator's rules, and what they say to a call.

use std::sync::Arc;

use hivewright_actors::{
    blocking,
    policy::{
        By, Decision, Role, Subject,
        rule::{Effect, Who},
    },
};
use serde_json::json;

use super::teams::existing;
use crate::{
    api::{endpoint::*, policies::*, reply::*},
    http::kit::{audit_log, call::*, error::*, listing},
    policy::{RuleError, RuleSource},
    tools::judge::Judgement,
};

pub(super) async fn list(Call { state, caller, page, .. }: Call) -> ApiResult<Rows<RuleRow>> {
    caller.all_teams()?;
    let rules = state.rules.clone();
    let rules = blocking::run(move || {
        rules.refresh();
        rules.list()
    });
    let rows = rules.await?.into_iter().map(RuleRow::from);
    listing::page(rows, &page, |row| row.id.clone())
}

pub(super) async fn add(
    Call { state, caller, body: wish, request, .. }: Call<Empty, Empty, NewRule>,
) -> ApiResult<Created<RuleRow>> {
    caller.all_teams()?;
    let names_one = |team: &&String| !team.contains(['*', '?']);
    if let Some(team) = wish.team.as_ref().filter(names_one) {
        existing(&state, &caller, "team", team)?;
    }
    let rule = state
        .rules
        .add(wish.rule(), &caller.principal.id, &audit_log::origin(&state, &request))
        .await?;
    Ok(Created(RuleRow::from((rule, RuleSource::Stored))))
}

pub(super) async fn remove(
    Call { state, caller, path, request, .. }: Call<ById>,
) -> ApiResult<Done> {
    caller.all_teams()?;
    state
        .rules
        .remove(&path.id, &caller.principal.id, &audit_log::origin(&state, &request))
        .await?;
    Ok(Done)
}

pub(super) async fn explain(
    Call { state, caller, body: call, .. }: Call<Empty, Empty, ExplainCall>,
) -> ApiResult<Data<Explained>> {
    caller.team(&call.team)?;
    let team = existing(&state, &caller, "team", &call.team)?;
    let subject = subject(call.principal.unwrap_or_default());
    let args = if call.args.is_null() { json!({}) } else { call.args };
    let explainer = Arc::clone(&state.explainer);
    let judged = blocking::run(move || explainer(&team, &call.tool, &args, &subject)).await?;
    let judged = judged.map_err(|reason| ApiError::invalid_field("tool", reason))?;
    Ok(Data(explained(judged)))
}

/// On whose behalf a call would be made.
fn subject(who: Who) -> Subject {
    let mut subject = Subject { role: Role::User, user: None, untrusted: false };
    match who {
        Who::Any => {}
        Who::Role(role) => subject.role = role,
        Who::User(user) => subject.user = Some(user),
        Who::Untrusted => subject.untrusted = true,
    }
    subject
}

fn explained(judged: Judgement) -> Explained {
    let (decision, by, caution) = match judged.decision {
        Decision::Allow(by) => (Effect::Allow, by, None),
        Decision::Deny(by) => (Effect::Deny, by, None),
        Decision::Ask(by, caution) => (Effect::RequireApproval, by, Some(caution)),
    };
    let (rule, reason) = match by {
        By::Rule(id) => (Some(id), None),
        By::NoMatchingRule => (None, Some(PolicyReason::NoMatchingRule)),
        By::Default => (None, Some(PolicyReason::Default)),
        By::ToolList => (None, Some(PolicyReason::ToolList)),
    };
    Explained {
        decision,
        rule,
        reason,
        class: judged.class.to_owned(),
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
            RuleError::Store(_) | RuleError::Fixed => Self::internal(message),
        }
    }
}
