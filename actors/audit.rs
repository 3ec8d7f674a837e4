//! The audit: who did what to the service, and what came of it.

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    ids::{Ids, PrincipalId},
};

/// A line of the audit. No secret stands in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audit {
    /// Tells lines of one moment apart.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: PrincipalId,
    /// What, such as `approval.decide`.
    pub action: String,
    /// On what.
    pub target: String,
    /// From where: a channel, or `api`.
    pub from: String,
    /// What came of it.
    pub outcome: String,
}

impl Audit {
    /// Somebody did something.
    pub fn new(
        ids: &Ids,
        at: Timestamp,
        actor: &PrincipalId,
        action: &str,
        target: impl Into<String>,
        from: impl Into<String>,
        outcome: impl Into<String>,
    ) -> Self {
        Self {
            id: format!("{:016x}", ids.bits()),
            at,
            actor: actor.clone(),
            action: action.to_owned(),
            target: target.into(),
            from: from.into(),
            outcome: outcome.into(),
        }
    }
}
