//! Operations: what one method of one path does, in words and in types.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::api::{draft::Draft, endpoint::Endpoint, reply::Reply};

/// What one method of one path does.
pub(super) struct Operation {
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// By which fields its rows can be sorted, the usual one first; none if it lists nothing.
    pub(super) sorts: &'static [&'static str],
    /// Statuses of refusals beyond those that every operation has.
    pub(super) refusals: &'static [u16],
    /// A body that it takes.
    pub(super) example: Option<&'static str>,
    /// What it is asked or answers is not to be stored.
    pub(super) secret: bool,
    /// It writes its own line in the audit when it succeeds.
    pub(super) recorded: bool,
    typed: Box<dyn Fn(&mut Draft)>,
}

impl Operation {
    /// As an endpoint states it.
    pub(super) fn of<R, P, Q, B>(endpoint: &'static Endpoint<R, P, Q, B>) -> Self
    where
        R: Reply,
        Q: DeserializeOwned + JsonSchema,
        B: DeserializeOwned + JsonSchema,
    {
        Self {
            summary: endpoint.summary,
            description: endpoint.description,
            sorts: endpoint.sorts,
            refusals: endpoint.refusals,
            example: endpoint.example,
            secret: endpoint.secret,
            recorded: endpoint.recorded,
            typed: Box::new(|draft| endpoint.describe(draft)),
        }
    }

    /// What its types say.
    pub(super) fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        (self.typed)(&mut draft);
        draft
    }
}
