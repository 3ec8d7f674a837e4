//! `/api/v1/vault`: what the service and its teams keep secret, for operators. No answer holds the
//! value of a secret.

use actix_web::{http::StatusCode, web};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::{ids::TeamKey, store::reads::Range};
use serde_json::json;

use super::{
    State,
    auth::principal::Principal,
    call::Call,
    caller::Caller,
    error::ApiError,
    json,
    listing::{self, Gathering},
    routes::{Resource, on},
};
use crate::{
    api::{
        endpoint::Empty,
        reply::{Data, Done, Rows, Saved},
        vault::{
            DELETE_VAULT_ENTRY, LIST_VAULT, LIST_VAULT_AUDIT, ROTATE_VAULT, SET_VAULT_ENTRY,
            SHOW_VAULT_ENTRY, VaultAct, VaultAuditFilter, VaultEntry, VaultFilter, VaultPath,
            VaultPut, VaultRotate, VaultRotated, VaultSet, VaultUse,
        },
    },
    tools::filter::ToolFilter,
    vault::{
        audit::{self, Actor, AuditRow},
        entry::{Entry, Put},
        error::VaultError,
        scope::Scope,
        seal::Plain,
    },
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        on(&LIST_VAULT, list),
        on(&LIST_VAULT_AUDIT, list_audit),
        on(&ROTATE_VAULT, rotate),
        on(&SHOW_VAULT_ENTRY, show).on(&SET_VAULT_ENTRY, set).on(&DELETE_VAULT_ENTRY, remove),
    ]
}

fn row(scope: &Scope, entry: Entry) -> VaultEntry {
    VaultEntry {
        scope: scope.to_string(),
        key: entry.key,
        secret: entry.secret,
        tools: entry.tools,
        hosts: entry.hosts,
        note: entry.note,
        version: entry.version,
        updated_by: entry.updated_by,
        created_at: json::date(entry.created_at),
        updated_at: json::date(entry.updated_at),
        last_used_at: entry.last_used_at.and_then(json::date),
        value: None,
        value_base64: None,
    }
}

impl From<AuditRow> for VaultAct {
    fn from(row: AuditRow) -> Self {
        Self {
            at: json::date(row.at),
            scope: row.shown_scope(),
            key: row.key,
            action: row.action,
            actor: row.actor,
            tool: row.tool,
            host: row.host,
            outcome: row.outcome,
        }
    }
}

fn put(wish: VaultPut) -> Result<Put, ApiError> {
    let value = match (wish.value, wish.value_base64) {
        (Some(_), Some(_)) => {
            let both = "`value` and `value_base64` exclude each other";
            return Err(ApiError::invalid_field("value_base64", both));
        }
        (Some(text), None) => Some(Plain::new(text)),
        (None, Some(text)) => {
            let bytes = STANDARD.decode(text);
            let bytes =
                bytes.map_err(|_| ApiError::invalid_field("value_base64", "expected base64"))?;
            Some(Plain::new(bytes))
        }
        (None, None) => None,
    };
    let VaultUse { tools, hosts, note } = wish.permitted;
    if let Some(tools) = &tools {
        ToolFilter::parse(tools)
            .map_err(|error| ApiError::invalid_field("tools", error.to_string()))?;
    }
    Ok(Put {
        // What an operator sets is a secret unless they say otherwise.
        secret: wish.secret.or(value.is_some().then_some(true)),
        value,
        tools,
        hosts,
        note,
        create: wish.create,
    })
}

async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, VaultFilter>,
) -> Result<Rows<VaultEntry>, ApiError> {
    let actor = operator(&caller.principal);
    let prefix = query.prefix.unwrap_or_default();
    let words = query.words.map(|words| words.to_lowercase());
    let of = match query.scope {
        Some(text) => Some(scope(&state, &caller, &text).await?),
        None => None,
    };
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    let reached = move |scope: &Scope| {
        teams.as_ref().is_none_or(|teams| {
            scope.team().is_some_and(|team| teams.iter().any(|name| name == team.name.as_str()))
        })
    };
    let whose = of.clone();
    let found = state.vault.browse(of.as_ref(), &actor, move |entries| {
        let mut gathering = Gathering::new(&page);
        let mut failed = Ok(());
        entries.each(whose.as_ref(), &prefix, &mut |scope, entry| {
            let holds = |words: &String| entry.key.to_lowercase().contains(words);
            if failed.is_err() || !reached(&scope) || !words.as_ref().is_none_or(holds) {
                return;
            }
            let place = match page.sort.field {
                "scope" => json!(scope.to_string()),
                "updated_at" => json!(entry.updated_at),
                "last_used_at" => match entries.last_used(&scope, &entry.key) {
                    Ok(at) => json!(at),
                    Err(error) => {
                        failed = Err(error);
                        return;
                    }
                },
                _ => json!(entry.key),
            };
            gathering.see_by(place, &name(&scope, &entry.key));
        })?;
        failed?;
        gathering.rows(&page, |name| {
            let Some((scope, key)) = named(name) else {
                return Ok(None);
            };
            let entry = entries.one(&scope, key)?;
            Ok(entry.map(|entry| row(&scope, entry)))
        })
    });
    Ok(found.await?)
}

/// An entry's name among all. Neither scopes nor keys hold a slash.
fn name(scope: &Scope, key: &str) -> String {
    format!("{}/{key}", scope.tag())
}

fn named(name: &str) -> Option<(Scope, &str)> {
    let (tag, key) = name.split_once('/')?;
    Some((Scope::of_tag(tag)?, key))
}

async fn show(
    Call { state, caller, path, .. }: Call<VaultPath>,
) -> Result<Data<VaultEntry>, ApiError> {
    let of = scope(&state, &caller, &path.scope).await?;
    let actor = operator(&caller.principal);
    let seen = state.vault.get(&of, &path.key, &actor).await?;
    let mut row = row(&of, seen.entry);
    if let Some(value) = seen.value {
        match value.text() {
            Some(text) => row.value = Some(text.to_owned()),
            None => row.value_base64 = Some(STANDARD.encode(value.bytes())),
        }
    }
    Ok(Data(row))
}

async fn set(
    Call { state, caller, path, body, .. }: Call<VaultPath, Empty, VaultPut>,
) -> Result<Saved<VaultSet>, ApiError> {
    let put = put(body)?;
    let of = scope(&state, &caller, &path.scope).await?;
    let is_new = state.vault.version_of(&of, &path.key).is_none();
    let actor = operator(&caller.principal);
    let entry = state.vault.set(&of, &path.key, put, &actor).await?;
    let data = VaultSet {
        scope: of.to_string(),
        key: entry.key,
        secret: entry.secret,
        version: entry.version,
    };
    Ok(Saved { data, is_new })
}

async fn remove(Call { state, caller, path, .. }: Call<VaultPath>) -> Result<Done, ApiError> {
    let of = scope(&state, &caller, &path.scope).await?;
    let actor = operator(&caller.principal);
    if state.vault.delete(&of, &path.key, &actor).await? {
        Ok(Done)
    } else {
        Err(ApiError::not_found("there is no such entry"))
    }
}

async fn list_audit(
    Call { state, caller, query, page, .. }: Call<Empty, VaultAuditFilter>,
) -> Result<Rows<VaultAct>, ApiError> {
    if let Some(scope) = query.scope.as_deref().filter(|scope| !scope.starts_with("aside:")) {
        team_of(scope)?;
    }
    let range = match query.since {
        Some(since) => audit::since(since.from(state.vault.now())),
        None => Range::all(),
    };
    let VaultAuditFilter { scope, key, action, .. } = query;
    let is_wanted = move |row: &AuditRow| {
        scope.as_ref().is_none_or(|scope| *scope == row.shown_scope())
            && (key.is_none() || key == row.key)
            && action.is_none_or(|action| action == row.action)
    };
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    let seen = move |row: &AuditRow| {
        teams.as_ref().is_none_or(|teams| {
            let scope = row.shown_scope();
            let team = scope.strip_prefix("team:");
            let team = team.or_else(|| scope.strip_prefix("aside:"));
            team.is_some_and(|team| teams.iter().any(|name| name == team))
        })
    };
    let rows = state.spine.store.read(move |storage| {
        listing::scan(storage, range, &page, |_, row: AuditRow| {
            (is_wanted(&row) && seen(&row)).then(|| VaultAct::from(row))
        })
    });
    rows.await.map_err(ApiError::internal)
}

async fn rotate(
    Call { state, caller, body, .. }: Call<Empty, Empty, VaultRotate>,
) -> Result<Data<VaultRotated>, ApiError> {
    caller.all_teams()?;
    let actor = operator(&caller.principal);
    let mut rotated = VaultRotated::default();
    if body.forget_old {
        rotated.forgotten = Some(state.vault.forget_old_master(&actor).await?);
    } else {
        rotated.data_keys = Some(state.vault.rotate_master(&actor).await?.data_keys);
    }
    Ok(Data(rotated))
}

pub(super) fn operator(principal: &Principal) -> Actor {
    Actor::Operator { name: principal.id().to_string(), token: principal.credential().to_string() }
}

/// The team that a scope names; none is the service itself.
fn team_of(scope: &str) -> Result<Option<&str>, ApiError> {
    match scope.strip_prefix("team:") {
        None if scope == "system" => Ok(None),
        Some(name) => Ok(Some(name)),
        None => {
            let message = "expected `system`, or `team:` with the name of a team";
            Err(ApiError::invalid_field("scope", message))
        }
    }
}

/// The scope of `system` or `team:<name>`, if the caller reaches it.
async fn scope(state: &State, caller: &Caller, text: &str) -> Result<Scope, ApiError> {
    let Some(name) = team_of(text)? else {
        caller.all_teams()?;
        return Ok(Scope::System);
    };
    caller.team(name)?;
    let (service, name) = (state.service.clone(), name.to_owned());
    let team = web::block(move || service.team(&name)).await;
    let team: Option<TeamKey> = team.map_err(ApiError::internal)?;
    team.map(Scope::Team).ok_or_else(|| ApiError::not_found("there is no such team"))
}

impl From<VaultError> for ApiError {
    fn from(error: VaultError) -> Self {
        let (code, message) = (error.code(), error.to_string());
        match code {
            "not_found" => Self::not_found(message),
            "invalid_key" => Self::invalid_as("key", code, message),
            "too_short" | "too_large" => Self::invalid_as("value", code, message),
            "invalid_input" => Self::invalid(message),
            "internal" => Self::internal(message),
            _ => Self::new(StatusCode::CONFLICT, code, message),
        }
    }
}
