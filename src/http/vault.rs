//! `/api/v1/vault`: what the service and its teams keep secret, for operators. No answer holds the
//! value of a secret.

use actix_web::{Either, http::StatusCode, web};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hivewright_actors::ids::TeamKey;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    State,
    arguments::{Admin, Caller, Json, Secrets},
    auth::principal::Principal,
    error::ApiError,
    json,
    listing::{self, Gathering},
    operation::{Field, Operation},
    reply::{Created, Data, Done, Rows},
    routes::{Resource, at},
};
use crate::{
    tools::filter::ToolFilter,
    vault::{
        audit::{Action, Actor, AuditRow, Wanted},
        entry::{Entry, Put},
        error::VaultError,
        scope::Scope,
        seal::Plain,
    },
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/vault").get(
            Operation::new("Lists entries of the vault, without values.")
                .query(
                    const {
                        &[
                            Field::text("scope", "Only `system`, or `team:` and a name."),
                            Field::text("prefix", "Only keys that begin so."),
                            Field::text("q", "Only keys with this in them."),
                        ]
                    },
                )
                .pages(&["key", "scope", "updated_at", "last_used_at"])
                .refuses(&[404, 409]),
            list,
        ),
        at("/api/v1/vault/audit").get(
            Operation::new("Lists what was done with entries of the vault.")
                .query(
                    const {
                        &[
                            Field::text("scope", "Only `system`, or `team:` and a name."),
                            Field::text("key", "Only of this key."),
                            Field::word("action", actions, "Only of this kind."),
                            Field::moment("since", "Not before."),
                        ]
                    },
                )
                .pages(&["-at"]),
            show_audit,
        ),
        at("/api/v1/vault/rotate").post(
            Operation::new("Replaces the master key, or forgets the former one.")
                .refuses(&[409])
                .example("{}"),
            rotate,
        ),
        at("/api/v1/vault/{scope}/{key}")
            .get(
                Operation::new("Shows an entry, with its value if it is no secret.")
                    .refuses(&[409]),
                show,
            )
            .put(
                Operation::new("Sets an entry, or changes what it may be used for.")
                    .description(
                        "What is set is a secret unless `secret` is false. With `create` it is refused if there \
                         is such an entry; without, what is not given stays as it was.",
                    )
                    .refuses(&[409])
                    .example(r#"{"value": "…", "hosts": ["api.example.org"]}"#),
                set,
            )
            .delete(Operation::new("Deletes an entry.").refuses(&[409]), remove),
    ]
}

fn actions() -> Vec<&'static str> {
    Action::ALL.map(Action::as_str).to_vec()
}

/// An entry as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VaultEntry")]
struct Row {
    scope: String,
    key: String,
    secret: bool,
    tools: Vec<String>,
    hosts: Vec<String>,
    note: String,
    version: u64,
    updated_by: String,
    created_at: Option<String>,
    updated_at: Option<String>,
    last_used_at: Option<String>,
    /// Only of one that is no secret, and not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// The same, if it is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

impl Row {
    fn new(scope: &Scope, entry: Entry) -> Self {
        Self {
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
}

/// A row of the audit as answers show it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VaultAct")]
struct Act {
    at: Option<String>,
    scope: String,
    key: Option<String>,
    action: Action,
    actor: Actor,
    tool: Option<String>,
    host: Option<String>,
    outcome: String,
}

impl From<AuditRow> for Act {
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

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "VaultPut")]
struct Wish {
    #[schemars(extend("writeOnly" = true))]
    value: Option<String>,
    /// Instead of `value`, for bytes that are no text.
    #[schemars(extend("writeOnly" = true))]
    value_base64: Option<String>,
    secret: Option<bool>,
    /// Patterns of the tools that may use it.
    tools: Option<Vec<String>>,
    /// The hosts that it may be sent to.
    hosts: Option<Vec<String>>,
    note: Option<String>,
    /// Refuse, if there is such an entry.
    #[serde(default)]
    create: bool,
}

/// An entry that was set.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VaultSet")]
struct Stored {
    scope: String,
    key: String,
    secret: bool,
    version: u64,
}

/// What a rotation did.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "VaultRotated")]
struct Rotated {
    /// How many data keys have the new master key.
    #[serde(skip_serializing_if = "Option::is_none")]
    data_keys: Option<usize>,
    /// The former master key is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    forgotten: Option<bool>,
}

impl Wish {
    fn put(self) -> Result<Put, ApiError> {
        let value = match (self.value, self.value_base64) {
            (Some(_), Some(_)) => {
                let both = "`value` and `value_base64` exclude each other";
                return Err(ApiError::invalid_field("value_base64", both));
            }
            (Some(text), None) => Some(Plain::new(text)),
            (None, Some(text)) => {
                let bytes = STANDARD.decode(text);
                let bytes = bytes
                    .map_err(|_| ApiError::invalid_field("value_base64", "expected base64"))?;
                Some(Plain::new(bytes))
            }
            (None, None) => None,
        };
        if let Some(tools) = &self.tools {
            ToolFilter::parse(tools)
                .map_err(|error| ApiError::invalid_field("tools", error.to_string()))?;
        }
        Ok(Put {
            // What an operator sets is a secret unless they say otherwise.
            secret: self.secret.or(value.is_some().then_some(true)),
            value,
            tools: self.tools,
            hosts: self.hosts,
            note: self.note,
            create: self.create,
        })
    }
}

#[derive(Deserialize, JsonSchema)]
#[schemars(rename = "VaultRotate")]
struct Rotate {
    /// Instead of making a new key, the former one is forgotten.
    #[serde(default)]
    forget_old: bool,
}

async fn list(state: web::Data<State>, caller: Caller<Secrets>) -> Result<Rows<Row>, ApiError> {
    let query = &caller.query;
    let (page, actor) = (query.page()?, operator(&caller.principal));
    let prefix = query.text("prefix").unwrap_or_default().to_owned();
    let word = query.text("q").map(str::to_lowercase);
    let of = match query.text("scope") {
        Some(text) => Some(scope(&state, &caller, text.to_owned()).await?),
        None => None,
    };
    let teams = caller.principal.teams().map(<[String]>::to_vec);
    let reached = move |scope: &Scope| match (&teams, scope) {
        (None, _) => true,
        (Some(_), Scope::System) => false,
        (Some(teams), Scope::Team(team) | Scope::Aside(team)) => {
            teams.iter().any(|name| name == team.name.as_str())
        }
    };
    let whose = of.clone();
    let found = state.vault.browse(of.as_ref(), &actor, move |entries| {
        let mut gathering = Gathering::new(&page);
        let mut failed = Ok(());
        entries.each(whose.as_ref(), &prefix, &mut |scope, entry| {
            let holds = |word: &String| entry.key.to_lowercase().contains(word);
            if failed.is_err() || !reached(&scope) || !word.as_ref().is_none_or(holds) {
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
            Ok(entry.map(|entry| Row::new(&scope, entry)))
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
    state: web::Data<State>,
    caller: Caller<Secrets>,
    place: web::Path<(String, String)>,
) -> Result<Data<Row>, ApiError> {
    let (of, key) = place.into_inner();
    let of = scope(&state, &caller, of).await?;
    let actor = operator(&caller.principal);
    let seen = state.vault.get(&of, &key, &actor).await?;
    let mut row = Row::new(&of, seen.entry);
    if let Some(value) = seen.value {
        match value.text() {
            Some(text) => row.value = Some(text.to_owned()),
            None => row.value_base64 = Some(STANDARD.encode(value.bytes())),
        }
    }
    Ok(Data(row))
}

async fn set(
    state: web::Data<State>,
    caller: Caller<Secrets>,
    place: web::Path<(String, String)>,
    Json(wish): Json<Wish>,
) -> Result<Either<Created<Stored>, Data<Stored>>, ApiError> {
    let put = wish.put()?;
    let (of, key) = place.into_inner();
    let of = scope(&state, &caller, of).await?;
    let is_first = state.vault.version_of(&of, &key).is_none();
    let actor = operator(&caller.principal);
    let entry = state.vault.set(&of, &key, put, &actor).await?;
    let stored = Stored {
        scope: of.to_string(),
        key: entry.key,
        secret: entry.secret,
        version: entry.version,
    };
    Ok(if is_first { Either::Left(Created(stored)) } else { Either::Right(Data(stored)) })
}

async fn remove(
    state: web::Data<State>,
    caller: Caller<Secrets>,
    place: web::Path<(String, String)>,
) -> Result<Done, ApiError> {
    let (of, key) = place.into_inner();
    let of = scope(&state, &caller, of).await?;
    let actor = operator(&caller.principal);
    if state.vault.delete(&of, &key, &actor).await? {
        Ok(Done)
    } else {
        Err(ApiError::not_found("there is no such entry"))
    }
}

async fn show_audit(
    state: web::Data<State>,
    caller: Caller<Secrets>,
) -> Result<Rows<Act>, ApiError> {
    let query = &caller.query;
    let page = query.page()?;
    let wanted = Wanted {
        scope: query.text("scope").map(str::to_owned),
        key: query.text("key").map(str::to_owned),
        action: query.text("action").and_then(Action::named),
        since: query.moment("since", state.vault.now()),
        limit: usize::MAX,
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
        listing::scan(storage, wanted.range(), &page, |_, row: AuditRow| {
            (wanted.takes(&row) && seen(&row)).then(|| Act::from(row))
        })
    });
    rows.await.map_err(ApiError::internal)
}

async fn rotate(
    state: web::Data<State>,
    caller: Caller<Admin>,
    Json(Rotate { forget_old }): Json<Rotate>,
) -> Result<Data<Rotated>, ApiError> {
    caller.all_teams()?;
    let actor = operator(&caller.principal);
    let mut rotated = Rotated { data_keys: None, forgotten: None };
    if forget_old {
        rotated.forgotten = Some(state.vault.forget_old_master(&actor).await?)
    } else {
        rotated.data_keys = Some(state.vault.rotate_master(&actor).await?.data_keys)
    }
    Ok(Data(rotated))
}

pub(super) fn operator(principal: &Principal) -> Actor {
    Actor::Operator { name: principal.id().to_string(), token: principal.credential().to_string() }
}

/// The scope of `system` or `team:<name>`, if the caller reaches it.
async fn scope<R>(
    state: &web::Data<State>,
    caller: &Caller<R>,
    text: String,
) -> Result<Scope, ApiError> {
    if text == "system" {
        caller.all_teams()?;
        return Ok(Scope::System);
    }
    let Some(name) = text.strip_prefix("team:").map(str::to_owned) else {
        let message = "expected `system`, or `team:` with the name of a team";
        return Err(ApiError::invalid_field("scope", message));
    };
    caller.team(&name)?;
    let service = state.service.clone();
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
