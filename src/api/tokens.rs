//! Tokens: credentials for programs and people.

use clap::Args;
use hivewright_actors::{ids::CredentialId, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    endpoint::*,
    flags,
    reply::*,
    scope::{Scope, Scope::*, Scopes},
    when::*,
};

pub const LIST_TOKENS: Endpoint<Rows<TokenRow>> =
    get("/api/v1/tokens", Admin, "Lists tokens, without their text.").sorted(&[
        "created_at",
        "name",
        "last_used_at",
    ]);

pub const CREATE_TOKEN: Endpoint<Created<TokenRow>, Empty, Empty, NewToken> =
    post("/api/v1/tokens", Admin, "Makes a token, whose text is shown this once.")
        .description(
            "Nobody gives a scope or a team that they do not have themselves. `expires` is a \
             duration such as `90d`, which is usual, or `never`; it ends with the token that \
             made it in any case.",
        )
        .refuses(&[409])
        .secret()
        .example(r#"{"name": "ci", "scopes": ["read", "chat"], "expires": "30d"}"#);

pub const ROTATE_OPERATOR: Endpoint<Done> =
    post("/api/v1/tokens/operator/rotate", Admin, "Replaces the operator token.").description(
        "The new one is in its file, not in the answer. Needs every scope, and all teams.",
    );

pub const REVOKE_TOKEN: Endpoint<Done, ById, Revocation> = delete(
    "/api/v1/tokens/{id}",
    Admin,
    "Revokes a token, named by its id or name, and all that it opened.",
)
.refuses(&[409]);

words! {
    /// Whose a token is.
    pub enum TokenKind {
        /// The one operator token.
        Operator = "operator",
        /// A token for a program or a person.
        Api = "api",
    }
}

/// The token that made another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MintedBy {
    pub id: CredentialId,
    /// The principal that it spoke for.
    pub name: String,
}

/// A token as answers show it.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Token")]
pub struct TokenRow {
    pub id: CredentialId,
    pub kind: TokenKind,
    /// Whom it speaks for.
    pub name: String,
    pub scopes: Scopes,
    /// The teams that it may act on; null is all.
    pub teams: Option<Vec<String>>,
    pub created_at: Option<Moment>,
    /// Null is never.
    pub expires_at: Option<Moment>,
    /// About when.
    pub last_used_at: Option<Moment>,
    /// The token that made it; null if that is not known.
    pub minted_by: Option<MintedBy>,
    /// Shown once, to whoever made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Args)]
pub struct NewToken {
    /// The name of its holder, which is unique: 1 to 64 of `a-z 0-9 . _ -`.
    pub name: String,
    /// What it allows.
    #[arg(long = "scope", value_name = "SCOPE", required = true, value_delimiter = ',')]
    #[arg(value_parser = flags::words::<Scope>())]
    pub scopes: Vec<Scope>,
    /// The teams that it may act on; all, if none is named.
    #[arg(long = "team", value_name = "TEAM", value_delimiter = ',')]
    pub teams: Option<Vec<String>>,
    /// How long it is good, such as 12h or 30d, or `never` [default: 90d].
    #[arg(long, value_name = "DURATION")]
    pub expires: Option<Expiry>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct Revocation {
    /// Also the tokens that it made, and those that they made.
    #[arg(long)]
    pub minted: bool,
}
