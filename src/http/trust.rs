//! `/api/v1/trust`: senders who are let in or kept out by name, and what the trust gate decided.

use std::{collections::HashMap, time::Duration};

use actix::MailboxError;
use hivewright_actors::{
    channel_type::{ChannelType, UnknownChannelType},
    router::{
        audit::AuditRow,
        granting::{Grant, GrantError, ListGrants, Revoke, Which},
        grants::{Grantee, Level, SenderGrant},
        records::{AuditFilter, each_decision},
    },
};

use super::{
    call::Call,
    error::ApiError,
    json,
    listing::{self, Gathering},
    routes::{Resource, on},
};
use crate::api::{
    endpoint::{ById, Empty},
    reply::{Created, Done, Rows},
    trust::{
        GRANT_TRUST, LIST_TRUST, LIST_TRUST_DECISIONS, NewTrustGrant, REVOKE_TRUST, TrustDecision,
        TrustDecisionFilter, TrustFilter, TrustGrant, Verdict,
    },
};

/// An actor that does not answer in this time is in trouble.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn resources() -> Vec<Resource> {
    vec![
        on(&LIST_TRUST, list).on(&GRANT_TRUST, grant),
        on(&LIST_TRUST_DECISIONS, list_decisions),
        on(&REVOKE_TRUST, revoke),
    ]
}

impl From<SenderGrant> for TrustGrant {
    fn from(grant: SenderGrant) -> Self {
        Self {
            id: grant.id,
            channel_type: grant.grantee.channel_type,
            sender_id: grant.grantee.sender,
            channel_id: grant.grantee.channel.map(|channel| channel.to_string()),
            trust_level: grant.level,
            granted_by: grant.granted_by,
            granted_at: json::date(grant.at),
        }
    }
}

impl From<AuditRow> for TrustDecision {
    fn from(row: AuditRow) -> Self {
        Self {
            id: row.id,
            time: json::date(row.at),
            channel_type: row.channel_type,
            channel_id: row.channel.to_string(),
            sender: row.sender,
            asserted_by: row.asserted_by.map(|principal| principal.to_string()),
            listener: row.listener,
            decision: if row.decision.allowed { Verdict::Allowed } else { Verdict::Denied },
            reason: row.decision.reason.as_str().to_owned(),
        }
    }
}

async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, TrustFilter>,
) -> Result<Rows<TrustGrant>, ApiError> {
    caller.all_teams()?;
    let channel_type = query.channel_type.map(|name| name.parse::<ChannelType>()).transpose();
    let channel_type = channel_type.map_err(|error: UnknownChannelType| {
        ApiError::invalid_field("channel_type", error.to_string())
    })?;
    let level = query.trust_level;
    let grants = state.spine.router.send(ListGrants).timeout(PATIENCE).await;
    let rows = answered(grants)?
        .into_iter()
        .filter(|grant| {
            channel_type.as_ref().is_none_or(|wanted| grant.grantee.channel_type == *wanted)
                && level.is_none_or(|wanted| grant.level == wanted)
        })
        .map(TrustGrant::from);
    listing::page(rows, &page, |row| row.id.clone())
}

async fn grant(
    Call { state, caller, body: wish, .. }: Call<Empty, Empty, NewTrustGrant>,
) -> Result<Created<TrustGrant>, ApiError> {
    caller.all_teams()?;
    let channel = wish.channel_id.as_deref();
    let grantee = Grantee::read(&wish.channel_type, &wish.sender_id, channel)
        .map_err(|(field, reason)| ApiError::invalid_field(field, reason))?;
    let level = wish.trust_level.as_deref().map(level).transpose()?;
    let granted = state.spine.router.send(Grant {
        grantee,
        level: level.unwrap_or_default(),
        by: caller.principal.id().to_string(),
    });
    let row = TrustGrant::from(answered(granted.timeout(PATIENCE).await)?);
    let (kind, sender) = (&wish.channel_type, &wish.sender_id);
    let level = wish.trust_level.as_deref().unwrap_or("trusted");
    caller.names(format!("{} {kind}:{sender} {level}", row.id));
    Ok(Created(row))
}

fn level(name: &str) -> Result<Level, ApiError> {
    Level::named(name).map_err(|reason| ApiError::invalid_field("trust_level", reason))
}

async fn revoke(Call { state, caller, path, .. }: Call<ById>) -> Result<Done, ApiError> {
    caller.all_teams()?;
    let revoke = Revoke(Which::Id(path.id));
    let revoked = state.spine.router.send(revoke).timeout(PATIENCE).await;
    if answered(revoked)? { Ok(Done) } else { Err(ApiError::not_found("there is no such grant")) }
}

async fn list_decisions(
    Call { state, caller, query, page, .. }: Call<Empty, TrustDecisionFilter>,
) -> Result<Rows<TrustDecision>, ApiError> {
    caller.all_teams()?;
    let now = state.access.auth.now();
    let filter = AuditFilter {
        since: query.since.map(|since| since.from(now)).unwrap_or_default(),
        allowed: query.decision.map(|decision| decision == Verdict::Allowed),
        sender: query.sender,
    };
    let rows = state.spine.store.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        each_decision(storage, &filter, &mut |row| gathering.see(row.at, &row.id))?;
        let mut shown: HashMap<String, Option<TrustDecision>> = HashMap::new();
        let places = gathering.rows(&page, |id| {
            shown.insert(id.to_owned(), None);
            Ok(Some(id.to_owned()))
        })?;
        each_decision(storage, &filter, &mut |row| {
            if let Some(place) = shown.get_mut(&row.id) {
                *place = Some(TrustDecision::from(row));
            }
        })?;
        let data = places.data.iter().filter_map(|id| shown.remove(id)?);
        Ok(Rows { data: data.collect(), total: places.total, next_cursor: places.next_cursor })
    });
    rows.await.map_err(ApiError::internal)
}

fn answered<T>(answer: Result<Result<T, GrantError>, MailboxError>) -> Result<T, ApiError> {
    match answer {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error @ GrantError::TooMany)) => Err(ApiError::conflict(error.to_string())),
        Ok(Err(error)) => Err(ApiError::internal(error)),
        Err(error) => Err(ApiError::internal(error)),
    }
}
