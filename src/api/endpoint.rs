//! Endpoints: a route as a typed constant, from which the server's reader, the operation of the API
//! document and the client's call are made.

use std::{marker::PhantomData, ops::Deref};

use clap::Args;
use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{draft::Draft, input::Reader, page, reply::Reply, scope::Scope};
use crate::text::plain;

words! {
    pub enum Method {
        Get = "GET",
        Post = "POST",
        Put = "PUT",
        Patch = "PATCH",
        Delete = "DELETE",
    }
}

/// Who may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Anybody.
    Nothing,
    /// Whoever is logged in.
    Login,
    /// Whoever has a right.
    Scope(Scope),
}

/// What one method of one path does: an endpoint whose types are known by their description alone.
#[derive(Clone, Copy)]
pub struct Operation {
    pub method: Method,
    pub path: &'static str,
    pub needs: Needs,
    /// One sentence: what it does.
    pub summary: &'static str,
    /// What the summary leaves out.
    pub description: &'static str,
    /// By which fields its rows can be sorted, the usual one first; none if it lists nothing.
    pub sorts: &'static [&'static str],
    /// Statuses of refusals beyond those that every operation has.
    pub refusals: &'static [u16],
    /// A body that it takes, as JSON.
    pub example: Option<&'static str>,
    /// A secret may be in its body or answer, so that neither is stored.
    pub secret: bool,
    /// Words of models and tools are in its answer, from which what is known to be secret is taken out.
    pub scrubbed: bool,
    /// It writes its own line in the audit when it succeeds.
    pub recorded: bool,
    /// It changes nothing, whatever its method is, so that the audit needs no line of it.
    pub only_looks: bool,
    /// Its handler reads query and body itself, and takes what others would refuse.
    pub raw: bool,
    /// Its body is a file, which its handler reads as it comes.
    pub streamed: bool,
    types: fn(&Self) -> Draft,
}

impl Operation {
    /// Whether a request has a body; one that has nothing to say may be left out.
    pub fn has_body(&self) -> bool {
        !self.raw && !self.streamed && !matches!(self.method, Method::Get | Method::Delete)
    }

    /// What its types say.
    pub fn draft(&self) -> Draft {
        (self.types)(self)
    }
}

/// An operation with the types of its reply, path parameters, query and body.
///
/// As a trait with associated types it would take twelve lines a route, most of them saying nothing.
pub struct Endpoint<R, P = Empty, Q = Empty, B = Empty> {
    operation: Operation,
    /// By which field its rows are sorted for this query, if not by the first.
    pub usual_sort: fn(&Q) -> Option<&'static str>,
    types: PhantomData<fn(P, Q, B) -> R>,
}

impl<R, P, Q, B> Deref for Endpoint<R, P, Q, B> {
    type Target = Operation;

    fn deref(&self) -> &Operation {
        &self.operation
    }
}

macro_rules! methods {
    ($($name:ident: $method:ident;)+) => {$(
        /// An endpoint of this method, for whoever has a right.
        pub const fn $name<R, P, Q, B>(
            path: &'static str,
            scope: Scope,
            summary: &'static str,
        ) -> Endpoint<R, P, Q, B>
        where
            R: Reply,
            Q: DeserializeOwned + JsonSchema,
            B: DeserializeOwned + JsonSchema,
        {
            Endpoint::new(Method::$method, path, Needs::Scope(scope), summary)
        }
    )+};
}

methods! {
    get: Get;
    post: Post;
    put: Put;
    patch: Patch;
    delete: Delete;
}

impl<R, P, Q, B> Endpoint<R, P, Q, B>
where
    R: Reply,
    Q: DeserializeOwned + JsonSchema,
    B: DeserializeOwned + JsonSchema,
{
    pub const fn new(
        method: Method,
        path: &'static str,
        needs: Needs,
        summary: &'static str,
    ) -> Self {
        let operation = Operation {
            method,
            path,
            needs,
            summary,
            description: "",
            sorts: &[],
            refusals: &[],
            example: None,
            secret: false,
            scrubbed: false,
            recorded: false,
            only_looks: false,
            raw: false,
            streamed: false,
            types: described::<R, Q, B>,
        };
        Self { operation, usual_sort: |_| None, types: PhantomData }
    }

    pub const fn description(mut self, description: &'static str) -> Self {
        self.operation.description = description;
        self
    }

    pub const fn sorted(mut self, sorts: &'static [&'static str]) -> Self {
        self.operation.sorts = sorts;
        self
    }

    pub const fn usually_sorted(mut self, usual_sort: fn(&Q) -> Option<&'static str>) -> Self {
        self.usual_sort = usual_sort;
        self
    }

    pub const fn refuses(mut self, refusals: &'static [u16]) -> Self {
        self.operation.refusals = refusals;
        self
    }

    pub const fn example(mut self, example: &'static str) -> Self {
        self.operation.example = Some(example);
        self
    }

    pub const fn secret(mut self) -> Self {
        self.operation.secret = true;
        self
    }

    pub const fn scrubbed(mut self) -> Self {
        self.operation.scrubbed = true;
        self
    }

    pub const fn recorded(mut self) -> Self {
        self.operation.recorded = true;
        self
    }

    pub const fn only_looks(mut self) -> Self {
        self.operation.only_looks = true;
        self
    }

    pub const fn raw(mut self) -> Self {
        self.operation.raw = true;
        self
    }

    pub const fn streamed(mut self) -> Self {
        self.operation.streamed = true;
        self
    }

    /// Reads the query, with the fields of a page where rows are listed.
    pub fn query(&self) -> Reader<Q> {
        Reader::default().with_fields(page::fields(self.sorts))
    }
}

fn described<R, Q, B>(operation: &Operation) -> Draft
where
    R: Reply,
    Q: DeserializeOwned + JsonSchema,
    B: DeserializeOwned + JsonSchema,
{
    let query = Reader::<Q>::default();
    draft(operation, query.schema(), Draft::takes::<B>, R::describe)
}

fn draft(
    operation: &Operation,
    query: &Value,
    take: fn(&mut Draft),
    answer: fn(&mut Draft),
) -> Draft {
    let mut draft = Draft::default();
    draft.query = query["properties"].as_object().cloned().unwrap_or_default();
    if operation.has_body() {
        take(&mut draft);
    }
    answer(&mut draft);
    draft
}

/// No path parameters, no query, or a body that says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Empty {}

/// What a path names by its last part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ById {
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByName {
    pub name: String,
}

// A filter by team alone. A doc comment here would become that of every command that has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct OfTeam {
    /// Only of this team.
    #[arg(long)]
    pub team: Option<String>,
}

/// A path parameter that would lead elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no id")]
pub struct NotAnId(pub String);

impl<R, P: Serialize, Q, B> Endpoint<R, P, Q, B> {
    /// The path of a request.
    pub fn target(&self, parameters: &P) -> Result<String, NotAnId> {
        filled(self.path, pairs(parameters))
    }
}

/// A path with its parameters in their places.
fn filled(path: &str, parameters: Vec<(String, String)>) -> Result<String, NotAnId> {
    let mut target = path.to_owned();
    for (name, value) in parameters {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:~".contains(&byte);
        let leads_up = matches!(value.as_str(), "." | "..");
        if value.is_empty() || leads_up || !value.bytes().all(is_plain) {
            return Err(NotAnId(value));
        }
        target = target.replace(&format!("{{{name}}}"), &value);
    }
    Ok(target)
}

/// The fields of a query, as text. Lists are repeated, null is left out.
pub fn pairs(query: &impl Serialize) -> Vec<(String, String)> {
    texts(serde_json::to_value(query).unwrap_or_default())
}

fn texts(fields: Value) -> Vec<(String, String)> {
    let Value::Object(fields) = fields else { return Vec::new() };
    let pairs = fields.into_iter().flat_map(|(name, value)| match value {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(|item| (name.clone(), plain(item))).collect(),
        value => vec![(name, plain(&value))],
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::reply::Data;

    const SHOW: Endpoint<Data<String>, ById> =
        get("/api/v1/tasks/{id}/cancel", Scope::Read, "Shows a task.");

    #[test]
    fn an_id_that_leads_elsewhere_is_none() {
        let target = |id: &str| SHOW.target(&ById { id: id.to_owned() });

        assert_eq!(target("task-1~r").unwrap(), "/api/v1/tasks/task-1~r/cancel");
        for id in ["", ".", "..", "..%2f", "a/b", "a?b", "a b"] {
            assert_eq!(target(id), Err(NotAnId(id.to_owned())), "{id}");
        }
    }

    #[test]
    fn a_query_repeats_lists_and_leaves_out_nothing() {
        let query = serde_json::json!({"a": ["x", "y"], "b": null, "c": true, "d": 5});

        let expected = [("a", "x"), ("a", "y"), ("c", "true"), ("d", "5")];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs(&query), expected);
    }
}
