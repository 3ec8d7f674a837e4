//! `/api/v1/trust`: senders who are let in or kept out by name, and what the trust gate decided.

use std::ops::ControlFlow;

use hivewright_actors::router::{
    granting::{Grant, GrantError, ListGrants, Revoke, Which},
    grants::Grantee,
    records::{AuditFilter, decision, each_decision},
};

use crate::{
    api::{endpoint::*, reply::*, trust::*},
    http::kit::{
        ask::ask,
        call::*,
        error::*,
        listing::{self, Gathering},
    },
};

impl From<GrantError> for ApiError {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::TooMany => Self::conflict(error.to_string()),
            error => Self::internal(error),
        }
    }
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, TrustFilter>,
) -> ApiResult<Rows<TrustGrant>> {
    caller.all_teams()?;
    let TrustFilter { channel_type, trust_level } = query;
    let rows = ask(&state.spine.router, ListGrants).await??.into_iter().map(TrustGrant::from);
    let rows = rows.filter(|row| {
        channel_type.as_ref().is_none_or(|wanted| row.channel_type == *wanted)
            && trust_level.is_none_or(|wanted| row.trust_level == wanted)
    });
    listing::page(rows, &page, |row| row.id.clone())
}

pub(super) async fn grant(
    Call { state, caller, body, .. }: Call<Empty, Empty, NewTrustGrant>,
) -> ApiResult<Created<TrustGrant>> {
    caller.all_teams()?;
    let NewTrustGrant { sender, channel_id, trust_level } = body;
    let about = sender.to_string();
    let grantee = Grantee::read(sender.channel_type, &sender.sender_id, channel_id.as_deref())
        .map_err(|(field, reason)| ApiError::invalid_field(field, reason))?;
    let level = trust_level.unwrap_or_default();
    let grant = Grant { grantee, level, by: caller.principal.id.to_string() };
    let row = TrustGrant::from(ask(&state.spine.router, grant).await??);
    caller.names(format!("{} {about} {level}", row.id));
    Ok(Created(row))
}

pub(super) async fn revoke(Call { state, caller, path, .. }: Call<ById>) -> ApiResult<Done> {
    caller.all_teams()?;
    let is_revoked = ask(&state.spine.router, Revoke(Which::Id(path.id))).await??;
    if is_revoked { Ok(Done) } else { Err(ApiError::not_found("there is no such grant")) }
}

pub(super) async fn list_decisions(
    Call { state, caller, query, page, .. }: Call<Empty, TrustDecisionFilter>,
) -> ApiResult<Rows<TrustDecision>> {
    caller.all_teams()?;
    let filter = AuditFilter {
        since: query.since.map(|since| since.from(state.now())).unwrap_or_default(),
        allowed: query.decision.map(|decision| decision == Verdict::Allowed),
        sender: query.sender,
    };
    let rows = state.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        each_decision(storage, &filter, page.order(), &mut |row| {
            gathering.see(row.at, &row.id);
            if gathering.is_settled(row.at) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        if let Some(wanted) = filter.tasks() {
            gathering.see_tasks(storage, &wanted, |_| ())?;
        }
        gathering.rows_at(&page, |at, id| Ok(decision(storage, at, id)?.map(TrustDecision::from)))
    });
    rows.await
}
