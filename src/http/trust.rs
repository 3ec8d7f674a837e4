//! `/api/v1/trust`: senders who are let in or kept out by name, and what the trust gate decided.

use std::{collections::HashMap, time::Duration};

use actix::MailboxError;
use actix_web::web;
use hivewright_actors::{
    channel_type::ChannelType,
    router::{
        audit::AuditRow,
        granting::{Grant, GrantError, ListGrants, Revoke, Which},
        grants::{Grantee, Level, SenderGrant},
    },
    store::trust::{AuditFilter, each_decision},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    State,
    arguments::{Caller, Json, Operate},
    error::ApiError,
    json,
    listing::{self, Gathering},
    operation::{Field, Operation},
    reply::{Created, Done, Rows},
    routes::{Resource, at},
};

/// An actor that does not answer in this time is in trouble.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/trust")
            .get(
                Operation::new("Lists the senders who are let in or kept out by name.")
                    .query(
                        const {
                            &[
                                Field::text("channel_type", "Only of channels of this type."),
                                Field::word(
                                    "trust_level",
                                    || vec!["trusted", "denied"],
                                    "Only those let in, or only those kept out.",
                                ),
                            ]
                        },
                    )
                    .pages(&["granted_at", "sender_id"]),
                list,
            )
            .post(
                Operation::new("Lets a sender in, or keeps one out.")
                    .refuses(&[409])
                    .example(r#"{"channel_type": "discord", "sender_id": "1234"}"#),
                grant,
            ),
        at("/api/v1/trust/audit").get(
            Operation::new("Lists what the trust gate decided.")
                .query(
                    const {
                        &[
                            Field::moment("since", "Not before."),
                            Field::word(
                                "decision",
                                || vec!["allowed", "denied"],
                                "Only those let in, or only those kept out.",
                            ),
                            Field::text("sender", "Only of this sender."),
                        ]
                    },
                )
                .pages(&["-time"]),
            show_audit,
        ),
        at("/api/v1/trust/{id}").delete(Operation::new("Takes a grant back."), revoke),
    ]
}

/// A grant as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TrustGrant")]
struct Row {
    id: String,
    #[schemars(with = "String")]
    channel_type: ChannelType,
    sender_id: String,
    /// Null is all channels.
    channel_id: Option<String>,
    trust_level: Level,
    granted_by: String,
    granted_at: Option<String>,
}

impl From<SenderGrant> for Row {
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

/// A decision as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TrustDecision")]
struct Decided {
    id: String,
    time: Option<String>,
    #[schemars(with = "String")]
    channel_type: ChannelType,
    channel_id: String,
    sender: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    asserted_by: Option<String>,
    /// The address that the connection came in on, or `unix` for the socket of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    listener: Option<String>,
    decision: &'static str,
    reason: &'static str,
}

impl From<AuditRow> for Decided {
    fn from(row: AuditRow) -> Self {
        Self {
            id: row.id,
            time: json::date(row.at),
            channel_type: row.channel_type,
            channel_id: row.channel.to_string(),
            sender: row.sender,
            asserted_by: row.asserted_by.map(|principal| principal.to_string()),
            listener: row.listener,
            decision: row.decision.as_str(),
            reason: row.decision.reason.as_str(),
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "NewTrustGrant")]
struct Wish {
    /// Such as `discord` or `ws`.
    channel_type: String,
    sender_id: String,
    /// Null is all channels.
    channel_id: Option<String>,
    /// `trusted`, which is usual, or `denied`.
    trust_level: Option<String>,
}

async fn list(state: web::Data<State>, caller: Caller<Operate>) -> Result<Rows<Row>, ApiError> {
    caller.all_teams()?;
    let query = &caller.query;
    let channel_type: Option<ChannelType> = match query.text("channel_type") {
        Some(name) => Some(name.parse().map_err(
            |error: hivewright_actors::channel_type::UnknownChannelType| {
                ApiError::invalid_field("channel_type", error.to_string())
            },
        )?),
        None => None,
    };
    let level = query.text("trust_level").map(level).transpose()?;
    let page = query.page()?;
    let grants = state.spine.router.send(ListGrants).timeout(PATIENCE).await;
    let rows = answered(grants)?
        .into_iter()
        .filter(|grant| {
            channel_type.as_ref().is_none_or(|wanted| grant.grantee.channel_type == *wanted)
                && level.is_none_or(|wanted| grant.level == wanted)
        })
        .map(Row::from);
    listing::page(rows, &page, |row| row.id.clone())
}

async fn grant(
    state: web::Data<State>,
    caller: Caller<Operate>,
    Json(wish): Json<Wish>,
) -> Result<Created<Row>, ApiError> {
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
    let row = Row::from(answered(granted.timeout(PATIENCE).await)?);
    let (kind, sender) = (&wish.channel_type, &wish.sender_id);
    let level = wish.trust_level.as_deref().unwrap_or("trusted");
    caller.names(format!("{} {kind}:{sender} {level}", row.id));
    Ok(Created(row))
}

fn level(name: &str) -> Result<Level, ApiError> {
    Level::named(name).map_err(|reason| ApiError::invalid_field("trust_level", reason))
}

async fn revoke(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
) -> Result<Done, ApiError> {
    caller.all_teams()?;
    let revoke = Revoke(Which::Id(id.into_inner()));
    let revoked = state.spine.router.send(revoke).timeout(PATIENCE).await;
    if answered(revoked)? { Ok(Done) } else { Err(ApiError::not_found("there is no such grant")) }
}

async fn show_audit(
    state: web::Data<State>,
    caller: Caller<Operate>,
) -> Result<Rows<Decided>, ApiError> {
    caller.all_teams()?;
    let query = &caller.query;
    let page = query.page()?;
    let decisions = [("allowed", true), ("denied", false)];
    let filter = AuditFilter {
        since: query.moment("since", state.access.auth.now()).unwrap_or_default(),
        allowed: query.word("decision", &decisions),
        sender: query.text("sender").map(str::to_owned),
    };
    let rows = state.spine.store.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        each_decision(storage, &filter, &mut |row| gathering.see(row.at, &row.id))?;
        let mut shown: HashMap<String, Option<Decided>> = HashMap::new();
        let places = gathering.rows(&page, |id| {
            shown.insert(id.to_owned(), None);
            Ok(Some(id.to_owned()))
        })?;
        each_decision(storage, &filter, &mut |row| {
            if let Some(place) = shown.get_mut(&row.id) {
                *place = Some(Decided::from(row));
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
