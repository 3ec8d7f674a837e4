//! Logins: the browsers that are logged in.

use hivewright_actors::ids::CredentialId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, tokens::TokenKind, when::*};

pub const LIST_LOGINS: Endpoint<Rows<LoginRow>> =
    get("/api/v1/logins", Admin, "Lists browsers that are logged in.").sorted(&[
        "created_at",
        "last_used_at",
        "principal",
    ]);

pub const END_LOGIN: Endpoint<Done, ById> =
    delete("/api/v1/logins/{id}", Admin, "Logs a browser out.")
        .description("Its requests and streams end within a second.");

/// A browser that is logged in.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BrowserLogin")]
pub struct LoginRow {
    pub id: CredentialId,
    /// Whose token or code it came with.
    pub principal: String,
    /// The token.
    pub token_id: CredentialId,
    pub kind: TokenKind,
    pub created_at: Option<Moment>,
    pub last_used_at: Option<Moment>,
    /// When it ends if it is not used.
    pub ends_at: Option<Moment>,
    /// It is the one that asks.
    pub current: bool,
}
