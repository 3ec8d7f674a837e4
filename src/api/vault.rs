//! The vault: what the service and its teams keep secret. No answer holds the value of a secret.

use clap::Args;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags, reply::*, scope::Scope::*, when::*};
use crate::vault::{
    audit::{Action, Actor, AuditRow},
    entry::Entry,
    scope::Scope,
};

pub const LIST_VAULT: Endpoint<Rows<VaultEntry>, Empty, VaultFilter> =
    get("/api/v1/vault", Secrets, "Lists entries of the vault, without values.")
        .sorted(&["key", "scope", "updated_at", "last_used_at"])
        .refuses(&[404, 409]);

pub const LIST_VAULT_AUDIT: Endpoint<Rows<VaultAct>, Empty, VaultAuditFilter> =
    get("/api/v1/vault/audit", Secrets, "Lists what was done with entries of the vault.")
        .sorted(&["-at"]);

pub const ROTATE_VAULT: Endpoint<Data<VaultRotated>, Empty, Empty, VaultRotate> =
    post("/api/v1/vault/rotate", Admin, "Replaces the master key, or forgets the former one.")
        .refuses(&[409])
        .example("{}");

pub const SHOW_VAULT_ENTRY: Endpoint<Data<VaultEntry>, VaultPath> = get(
    "/api/v1/vault/{scope}/{key}",
    Secrets,
    "Shows an entry, with its value if it is no secret.",
)
.refuses(&[409]);

pub const SET_VAULT_ENTRY: Endpoint<Saved<VaultSet>, VaultPath, Empty, VaultPut> = put(
    "/api/v1/vault/{scope}/{key}",
    Secrets,
    "Sets an entry, or changes what it may be used for.",
)
.description(
    "What is set is a secret unless `secret` is false. With `create` it is refused if \
             there is such an entry; without, what is not given stays as it was.",
)
.refuses(&[409])
.example(r#"{"value": "…", "hosts": ["api.example.org"]}"#);

pub const DELETE_VAULT_ENTRY: Endpoint<Done, VaultPath> =
    delete("/api/v1/vault/{scope}/{key}", Secrets, "Deletes an entry.").refuses(&[409]);

/// Where an entry is: its scope is `system`, or `team:` and a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VaultPath {
    pub scope: String,
    pub key: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct VaultFilter {
    /// Only `system`, or `team:` and a name.
    #[arg(skip)]
    pub scope: Option<String>,
    /// Only keys that begin so.
    #[arg(long)]
    pub prefix: Option<String>,
    /// Only keys with this in them.
    #[arg(long = "query", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct VaultAuditFilter {
    /// Only `system`, `team:` and a name, or `aside:` and the name of the team that asked for another.
    #[arg(skip)]
    pub scope: Option<String>,
    /// Only of this key.
    #[arg(long)]
    pub key: Option<String>,
    /// Only of this kind.
    #[arg(long, value_parser = flags::words::<Action>())]
    pub action: Option<Action>,
    /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h.
    #[arg(long, value_name = "WHEN")]
    pub since: Option<When>,
}

row! {
    /// An entry as answers show it.
    pub struct VaultEntry from (scope, entry): (&Scope, Entry) {
        pub scope: String = scope.to_string(),
        pub key: String = entry.key,
        pub secret: bool = entry.secret,
        pub tools: Vec<String> = entry.tools,
        pub hosts: Vec<String> = entry.hosts,
        pub note: String = entry.note,
        pub version: u64 = entry.version,
        pub updated_by: String = entry.updated_by,
        pub created_at: Option<Moment> = date(entry.created_at),
        pub updated_at: Option<Moment> = date(entry.updated_at),
        pub last_used_at: Option<Moment> = entry.last_used_at.and_then(date),
        /// Only of one that is no secret, and not in lists.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub value: Option<String> = None,
        /// The same, if it is no text.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub value_base64: Option<String> = None,
    }
}

row! {
    /// A row of the audit as answers show it.
    pub struct VaultAct from row: AuditRow {
        pub at: Option<Moment> = date(row.at),
        pub scope: String = row.shown_scope(),
        pub key: Option<String> = row.key,
        pub action: Action = row.action,
        pub actor: Actor = row.actor,
        pub tool: Option<String> = row.tool,
        pub host: Option<String> = row.host,
        pub outcome: String = row.outcome,
    }
}

/// It may hold a secret: it is not for logs.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub struct VaultPut {
    #[schemars(extend("writeOnly" = true))]
    pub value: Option<String>,
    /// Instead of `value`, for bytes that are no text.
    #[schemars(extend("writeOnly" = true))]
    pub value_base64: Option<String>,
    pub secret: Option<bool>,
    #[serde(flatten)]
    pub permitted: VaultUse,
    /// Refuse, if there is such an entry.
    #[serde(default)]
    pub create: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct VaultUse {
    /// Patterns of the tools that may use it, in place of those before; `bash` must be named.
    #[arg(long = "tool", value_name = "PATTERN", value_delimiter = ',')]
    pub tools: Option<Vec<String>>,
    /// The hosts that it may be sent to, in place of those before, such as api.example.org or *.example.org.
    #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
    pub hosts: Option<Vec<String>>,
    /// What it is for.
    #[arg(long)]
    pub note: Option<String>,
}

/// An entry that was set.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct VaultSet {
    pub scope: String,
    pub key: String,
    pub secret: bool,
    pub version: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct VaultRotate {
    /// Instead of making a new key, the former one is forgotten; backups from before become useless.
    #[arg(long)]
    #[serde(default)]
    pub forget_old: bool,
}

/// What a rotation did.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct VaultRotated {
    /// How many data keys have the new master key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_keys: Option<usize>,
    /// The former master key is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<bool>,
}
