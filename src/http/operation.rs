//! Operations: what one method of one path does, in words and in types.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use crate::api::{draft::Draft, endpoint::Endpoint, reply::Reply};

/// What one method of one path does.
pub(super) struct Operation {
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    /// What may stand in the query.
    pub(super) query: &'static [Field],
    /// How its rows are paged through, if it lists any.
    pub(super) paging: Option<Paging>,
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

/// How rows are paged through: `limit`, `offset`, `cursor`, and `sort` by one of these fields, the
/// usual one first. A `-` stands before a field to fall.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paging {
    pub(super) sorts: &'static [&'static str],
}

/// A field of a query.
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) form: Form,
}

/// What a field of a query looks like.
pub(super) enum Form {
    Text,
    /// A date, or how long ago it was.
    Moment,
    /// `true` or `false`.
    Flag,
    Number(u64, u64),
    /// One of some words.
    Word(fn() -> Vec<&'static str>),
}

impl Field {
    pub(super) const fn text(name: &'static str, about: &'static str) -> Self {
        Self { name, about, form: Form::Text }
    }

    pub(super) const fn moment(name: &'static str, about: &'static str) -> Self {
        Self { name, about, form: Form::Moment }
    }

    pub(super) const fn number(
        name: &'static str,
        low: u64,
        high: u64,
        about: &'static str,
    ) -> Self {
        Self { name, about, form: Form::Number(low, high) }
    }

    pub(super) const fn flag(name: &'static str, about: &'static str) -> Self {
        Self { name, about, form: Form::Flag }
    }

    pub(super) const fn word(
        name: &'static str,
        words: fn() -> Vec<&'static str>,
        about: &'static str,
    ) -> Self {
        Self { name, about, form: Form::Word(words) }
    }
}

impl Operation {
    /// The summary is one sentence; it says what the operation does.
    pub(super) fn new(summary: &'static str) -> Self {
        Self {
            summary,
            description: "",
            query: &[],
            paging: None,
            refusals: &[],
            example: None,
            secret: false,
            recorded: false,
            typed: Box::new(|_| {}),
        }
    }

    /// As an endpoint states it.
    pub(super) fn of<R, P, Q, B>(endpoint: &'static Endpoint<R, P, Q, B>) -> Self
    where
        R: Reply,
        Q: DeserializeOwned + JsonSchema,
        B: DeserializeOwned + JsonSchema,
    {
        let sorts = endpoint.sorts;
        Self {
            summary: endpoint.summary,
            description: endpoint.description,
            query: &[],
            paging: (!sorts.is_empty()).then_some(Paging { sorts }),
            refusals: endpoint.refusals,
            example: endpoint.example,
            secret: endpoint.secret,
            recorded: endpoint.recorded,
            typed: Box::new(|draft| endpoint.describe(draft)),
        }
    }

    /// What the summary leaves out.
    pub(super) fn description(self, description: &'static str) -> Self {
        Self { description, ..self }
    }

    /// These fields may stand in the query, and no others.
    pub(super) fn query(self, query: &'static [Field]) -> Self {
        Self { query, ..self }
    }

    /// It lists rows, sorted by one of these fields, the usual one first.
    pub(super) fn pages(self, sorts: &'static [&'static str]) -> Self {
        Self { paging: Some(Paging { sorts }), ..self }
    }

    /// It may refuse with these statuses too.
    pub(super) fn refuses(self, refusals: &'static [u16]) -> Self {
        Self { refusals, ..self }
    }

    /// A body that it takes, as JSON.
    pub(super) fn example(self, example: &'static str) -> Self {
        Self { example: Some(example), ..self }
    }

    /// A secret may be in its body or answer, so that neither is stored.
    pub(super) fn secret(self) -> Self {
        Self { secret: true, ..self }
    }

    pub(super) fn typed(self, typed: impl Fn(&mut Draft) + 'static) -> Self {
        Self { typed: Box::new(typed), ..self }
    }

    /// What its types say.
    pub(super) fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        (self.typed)(&mut draft);
        draft
    }
}
