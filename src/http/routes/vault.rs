//! `/api/v1/vault`: what the service and its teams keep secret, for operators. No answer holds the
//! value of a secret.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::store::reads::Range;
use serde_json::json;

use super::teams::known_team;
use crate::{
    api::{endpoint::*, reply::*, vault::*},
    http::{
        kit::{
            call::*,
            error::*,
            listing::{self, Gathering},
        },
        state::State,
    },
    tools::{REGISTRY, filter::ToolFilter},
    vault::{
        audit::{self, Actor, AuditRow},
        entry::{Entry, Put},
        error::VaultError,
        scope::Scope,
        seal::Plain,
    },
};

fn put(wish: VaultPut) -> ApiResult<Put> {
    let value = match (wish.value, wish.value_base64) {
        (Some(_), Some(_)) => {
            let both = "`value` and `value_base64` exclude each other";
            return Err(ApiError::invalid_field("value_base64", both));
        }
        (Some(text), None) => Some(Plain::new(text)),
        (None, Some(text)) => {
            let unreadable = |_| ApiError::invalid_field("value_base64", "expected base64");
            Some(Plain::new(STANDARD.decode(text).map_err(unreadable)?))
        }
        (None, None) => None,
    };
    let VaultUse { tools, hosts, note } = wish.permitted;
    if let Some(tools) = &tools {
        ToolFilter::parse(tools, REGISTRY)
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

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, VaultFilter>,
) -> ApiResult<Rows<VaultEntry>> {
    let actor = operator(&caller);
    let prefix = query.prefix.unwrap_or_default();
    let words = query.words.map(|words| words.to_lowercase());
    let of = match query.scope {
        Some(text) => Some(scope(&state, &caller, &text)?),
        None => None,
    };
    let sees = caller.sight();
    let reached = move |scope: &Scope| match scope {
        Scope::System => sees(None),
        Scope::Team(team) | Scope::Escrow(team) => sees(Some(team.name.as_str())),
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
            Ok(entry.map(|entry| VaultEntry::from((&scope, entry))))
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

pub(super) async fn show(
    Call { state, caller, path, .. }: Call<VaultPath>,
) -> ApiResult<Data<VaultEntry>> {
    let of = scope(&state, &caller, &path.scope)?;
    let seen = state.vault.get(&of, &path.key, &operator(&caller)).await?;
    let mut row = VaultEntry::from((&of, seen.entry));
    if let Some(value) = seen.value {
        match value.text() {
            Some(text) => row.value = Some(text.to_owned()),
            None => row.value_base64 = Some(STANDARD.encode(value.bytes())),
        }
    }
    Ok(Data(row))
}

pub(super) async fn set(
    Call { state, caller, path, body, .. }: Call<VaultPath, Empty, VaultPut>,
) -> ApiResult<Saved<VaultSet>> {
    let put = put(body)?;
    let of = scope(&state, &caller, &path.scope)?;
    let is_new = state.vault.version_of(&of, &path.key).is_none();
    let set = state.vault.set(&of, &path.key, put, &operator(&caller)).await?;
    let Entry { key, secret, version, .. } = set;
    Ok(Saved { data: VaultSet { scope: of.to_string(), key, secret, version }, is_new })
}

pub(super) async fn remove(Call { state, caller, path, .. }: Call<VaultPath>) -> ApiResult<Done> {
    let of = scope(&state, &caller, &path.scope)?;
    let is_gone = state.vault.delete(&of, &path.key, &operator(&caller)).await?;
    if is_gone {
        Ok(Done)
    } else {
        Err(ApiError::not_found(format!("there is no secret `{}`", path.key)))
    }
}

pub(super) async fn list_audit(
    Call { state, caller, query, page, .. }: Call<Empty, VaultAuditFilter>,
) -> ApiResult<Rows<VaultAct>> {
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
    let sees = caller.sight();
    let seen = move |row: &AuditRow| {
        let scope = row.shown_scope();
        sees(scope.strip_prefix("team:").or_else(|| scope.strip_prefix("aside:")))
    };
    let rows = state.read(move |storage| {
        listing::scan(storage, range, &page, |_, row: AuditRow| {
            (is_wanted(&row) && seen(&row)).then(|| VaultAct::from(row))
        })
    });
    rows.await
}

pub(super) async fn rotate(
    Call { state, caller, body, .. }: Call<Empty, Empty, VaultRotate>,
) -> ApiResult<Data<VaultRotated>> {
    caller.all_teams()?;
    let actor = operator(&caller);
    let mut rotated = VaultRotated::default();
    if body.forget_old {
        rotated.forgotten = Some(state.vault.forget_old_master(&actor).await?);
    } else {
        rotated.data_keys = Some(state.vault.rotate_master(&actor).await?.data_keys);
    }
    Ok(Data(rotated))
}

pub(super) fn operator(Caller { principal, .. }: &Caller) -> Actor {
    Actor::Operator { name: principal.id.to_string(), token: principal.credential.to_string() }
}

/// The team that a scope names; none is the service itself.
fn team_of(scope: &str) -> ApiResult<Option<&str>> {
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
fn scope(state: &State, caller: &Caller, text: &str) -> ApiResult<Scope> {
    let Some(name) = team_of(text)? else {
        caller.all_teams()?;
        return Ok(Scope::System);
    };
    known_team(state, caller, name).map(Scope::Team)
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
            _ => Self::conflict_as(code, message),
        }
    }
}
