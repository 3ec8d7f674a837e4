//! Operations: what one method of one path does, in words and in types.

use utoipa::{
    ToSchema,
    openapi::{
        Ref, RefOr,
        schema::{AdditionalProperties, Schema},
    },
};

use super::auth::scope::Scope;

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
    typed: fn(&mut Draft),
}

/// A content type and a schema.
pub(super) type Content = (&'static str, RefOr<Schema>);

/// What the types of a handler say.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) needs: Needs,
    pub(super) body: Option<RefOr<Schema>>,
    /// It makes no sense without one.
    pub(super) needs_body: bool,
    /// A status may have no content.
    pub(super) answers: Vec<(u16, Option<Content>)>,
    /// Schemas that others refer to.
    pub(super) schemas: Vec<(String, RefOr<Schema>)>,
}

/// Who may ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Needs {
    /// Anybody.
    #[default]
    Nothing,
    /// Whoever is logged in.
    Login,
    /// Whoever has a right.
    Scope(Scope),
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
            typed: |_| {},
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

    /// It writes its own line in the audit when it succeeds.
    pub(super) fn recorded(self) -> Self {
        Self { recorded: true, ..self }
    }

    pub(super) fn typed(self, typed: fn(&mut Draft)) -> Self {
        Self { typed, ..self }
    }

    /// What its types say.
    pub(super) fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        (self.typed)(&mut draft);
        draft
    }
}

impl Draft {
    /// A reference to a type's schema, which is kept for the document.
    pub(super) fn schema<T: ToSchema>(&mut self) -> RefOr<Schema> {
        T::schemas(&mut self.schemas);
        let name = T::name();
        self.schemas.push((name.to_string(), T::schema()));
        Ref::from_schema_name(name).into()
    }

    /// The same of a body, which has no other fields than those.
    pub(super) fn closed<T: ToSchema>(&mut self) -> RefOr<Schema> {
        let reference = self.schema::<T>();
        if let Some((_, RefOr::T(Schema::Object(object)))) = self.schemas.last_mut() {
            let none = AdditionalProperties::FreeForm(false);
            object.additional_properties = Some(Box::new(none));
        }
        reference
    }
}
