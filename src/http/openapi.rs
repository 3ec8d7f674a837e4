//! `/api/v1/openapi.json`: the description of all routes, made from the routes themselves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::OnceLock,
};

use actix_web::{
    HttpRequest, HttpResponse, HttpResponseBuilder,
    http::{Method, header},
};
use serde_json::{Value, json};
use utoipa::openapi::{
    Components, ContentBuilder, HeaderBuilder, InfoBuilder, OpenApi, OpenApiBuilder, Ref, RefOr,
    Required, Response, ResponseBuilder,
    extensions::ExtensionsBuilder,
    path::{
        HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem, Paths,
    },
    request_body::RequestBodyBuilder,
    schema::{Object, ObjectBuilder, Schema, Type},
    security::{
        ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
    },
};

use super::{
    access::COOKIE,
    arguments::{Caller, Login},
    error::{ApiError, Refusal},
    operation::{Draft, Field, Form, Needs, Operation, Paging},
    page, page_of_docs,
    query::{OF_PAGES, SORT},
    reply::Content,
    routes::{Resource, at},
    ui,
};

const JSON: &str = "application/json";
/// What requests may be refused with, whatever they ask for.
const ALWAYS: [u16; 7] = [400, 403, 421, 429, 431, 500, 503];
/// And with a body.
const WITH_BODY: [u16; 3] = [408, 413, 415];

const ABOUT: &str = "\
Everything that the web page and the command line do goes through these routes.

**Login.** Send `Authorization: Bearer …` with the operator token or an API token. A browser logs in \
at `POST /api/v1/session`, and repeats `csrf` in `X-CSRF-Token` when it changes something. A token \
never stands in a URL.

**Answers.** One thing is `{\"data\": {…}}`. A list is `{\"data\": […], \"total\": n, \"next_cursor\": s}`; \
`limit`, `offset` or `cursor`, and `sort` choose its part. A refusal is \
`{\"error\": {\"code\", \"message\", \"request_id\"}}`, with `field` where one is to blame.

**Repeating.** `Idempotency-Key` on a POST makes a repeat within 24 hours return the first answer.

**Limits.** A body has at most 1 MiB. A credential has 3,000 requests a minute, and 64 at once.";

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/openapi.json")
            .get(Operation::new("Describes all routes, in OpenAPI 3.1."), show),
        at("/api/v1/docs").get(Operation::new("Describes all routes, as a page."), read),
    ]
}

/// A text that does not change while the program runs. It holds no secret that the length of its
/// compressed form could give away.
struct Fixed {
    plain: String,
    packed: Vec<u8>,
}

impl Fixed {
    fn new(plain: String) -> Self {
        Self { packed: ui::pack(plain.as_bytes()), plain }
    }

    /// In the form that a client can read.
    fn answer(&'static self, request: &HttpRequest, mut response: HttpResponseBuilder) -> Content {
        response.insert_header((header::VARY, "Accept-Encoding"));
        Content(if page::takes_gzip(request) {
            response.insert_header((header::CONTENT_ENCODING, "gzip")).body(self.packed.as_slice())
        } else {
            response.body(self.plain.as_str())
        })
    }
}

async fn show(_: Caller<Login>, request: HttpRequest) -> Result<Content, ApiError> {
    let mut response = HttpResponse::Ok();
    response.content_type(JSON);
    Ok(text()?.answer(&request, response))
}

async fn read(_: Caller<Login>, request: HttpRequest) -> Result<Content, ApiError> {
    static PAGE: OnceLock<Fixed> = OnceLock::new();
    let mut response = HttpResponse::Ok();
    for (name, value) in ui::security_headers() {
        response.insert_header((name, value));
    }
    response.content_type("text/html; charset=utf-8");
    let document: Value = serde_json::from_str(&text()?.plain).map_err(ApiError::internal)?;
    let page = PAGE.get_or_init(|| Fixed::new(page_of_docs::render(&document)));
    Ok(page.answer(&request, response))
}

fn text() -> Result<&'static Fixed, ApiError> {
    static TEXT: OnceLock<Fixed> = OnceLock::new();
    if let Some(text) = TEXT.get() {
        return Ok(text);
    }
    let text = document(super::table()).0.to_json();
    let text = text.map_err(ApiError::internal)?;
    Ok(TEXT.get_or_init(|| Fixed::new(text)))
}

/// The document, and names that more than one schema has.
pub(super) fn document(table: Vec<Resource>) -> (OpenApi, Vec<String>) {
    let mut schemas: BTreeMap<String, RefOr<Schema>> = BTreeMap::new();
    let mut clashes = Vec::new();
    let mut keep = |found: Vec<(String, RefOr<Schema>)>| {
        for (name, schema) in found {
            match schemas.get(&name) {
                Some(known) if *known != schema => clashes.push(name),
                _ => {
                    schemas.insert(name, schema);
                }
            }
        }
    };
    let mut paths = Paths::new();
    let mut statuses = BTreeSet::new();
    for resource in table {
        let mut item = PathItem::default();
        for (method, operation) in &resource.operations {
            let mut draft = operation.draft();
            keep(std::mem::take(&mut draft.schemas));
            let refusals = refusals(resource.path, method, operation, &draft);
            statuses.extend(refusals.iter().copied());
            let built = describe(resource.path, method, operation, draft, &refusals);
            item.merge_operations(PathItem::new(http_method(method), built));
        }
        paths.paths.insert(resource.path.to_owned(), item);
    }
    let mut refusal = Draft::default();
    let refusal_schema = refusal.schema::<Refusal<'static>>();
    keep(refusal.schemas);
    let mut components = Components::new();
    for status in statuses {
        let response = refused(status, &refusal_schema);
        components.responses.insert(name_of(status), response.into());
    }
    components.schemas = schemas;
    components.add_security_scheme(
        "token",
        SecurityScheme::Http(
            HttpBuilder::new()
                .scheme(HttpAuthScheme::Bearer)
                .description(Some("The operator token, or an API token."))
                .build(),
        ),
    );
    let cookie = "The session of a browser. Changes need `X-CSRF-Token` too.";
    components.add_security_scheme(
        "session",
        SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description(COOKIE, cookie))),
    );
    let info = InfoBuilder::new()
        .title("Hivewright")
        .version(super::VERSION)
        .description(Some(ABOUT))
        .build();
    let document =
        OpenApiBuilder::new().info(info).paths(paths).components(Some(components)).build();
    (document, clashes)
}

fn http_method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::PUT => HttpMethod::Put,
        Method::PATCH => HttpMethod::Patch,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

/// All statuses that an operation may refuse with.
fn refusals(path: &str, method: &Method, operation: &Operation, draft: &Draft) -> BTreeSet<u16> {
    let mut all: BTreeSet<u16> = ALWAYS.into_iter().collect();
    if draft.needs != Needs::Nothing {
        all.insert(401);
    }
    if path.contains('{') {
        all.insert(404);
    }
    if draft.body.is_some() {
        all.extend(WITH_BODY);
    }
    // Another body under an `Idempotency-Key`.
    if *method == Method::POST && path.starts_with("/api/") {
        all.insert(409);
    }
    all.extend(operation.refusals);
    // What is said otherwise is no plain refusal.
    for (status, _) in &draft.answers {
        all.remove(status);
    }
    all
}

fn name_of(status: u16) -> String {
    format!("Refused{status}")
}

fn refused(status: u16, schema: &RefOr<Schema>) -> Response {
    let about = match status {
        400 => "Something in the request makes no sense; `field` says what.",
        401 => "There is no valid credential.",
        403 => "The credential does not allow it, or the request comes from elsewhere.",
        404 => "There is no such thing.",
        408 => "The body did not arrive in time.",
        409 => "It is in the way of something else.",
        411 => "The length of the body is not declared.",
        413 => "The body is too large.",
        415 => "The body is of another type.",
        421 => "The server is not known under this host.",
        422 => "A field is well formed and does not fit.",
        429 => "Too many requests; `Retry-After` says when to go on.",
        431 => "The header is too large.",
        503 => "The service cannot serve this now; `Retry-After` says when to try again.",
        _ => "Something went wrong here; the log has it under the request id.",
    };
    let content = ContentBuilder::new().schema(Some(schema.clone())).build();
    let mut response = ResponseBuilder::new().description(about).content(JSON, content);
    if status == 401 {
        response = response.header("WWW-Authenticate", text_header());
    }
    response.build()
}

fn text_header() -> utoipa::openapi::Header {
    let schema = Object::with_type(Type::String);
    HeaderBuilder::new().schema(schema).build()
}

fn describe(
    path: &str,
    method: &Method,
    operation: &Operation,
    draft: Draft,
    refusals: &BTreeSet<u16>,
) -> OperationBuilder {
    let mut built = OperationBuilder::new()
        .operation_id(Some(name(path, method)))
        .tag(tag(path))
        .summary(Some(operation.summary));
    if !operation.description.is_empty() {
        built = built.description(Some(operation.description));
    }
    for parameter in in_path(path).chain(in_query(operation)) {
        built = built.parameter(parameter);
    }
    if *method == Method::POST && path.starts_with("/api/") {
        built = built.parameter(idempotency_key());
    }
    if let Some(schema) = draft.body {
        let example = operation.example.and_then(|text| serde_json::from_str(text).ok());
        let content = ContentBuilder::new().schema(Some(schema)).example(example).build();
        let required = if draft.needs_body { Required::True } else { Required::False };
        let body = RequestBodyBuilder::new().content(JSON, content).required(Some(required));
        built = built.request_body(Some(body.build()));
    }
    let scopes: Vec<&str> = match draft.needs {
        Needs::Scope(scope) => vec![scope.as_str()],
        Needs::Login | Needs::Nothing => Vec::new(),
    };
    match draft.needs {
        Needs::Nothing => built = built.securities(Some([])),
        Needs::Login | Needs::Scope(_) => {
            for scheme in ["token", "session"] {
                built = built.security(SecurityRequirement::new(scheme, scopes.clone()));
            }
        }
    }
    if let Some(scope) = scopes.first() {
        let scope = ExtensionsBuilder::new().add("x-scope", *scope).build();
        built = built.extensions(Some(scope));
    }
    for (status, content) in draft.answers {
        let about = match status {
            201 => "It is made.",
            202 => "It goes on after the answer.",
            204 => "It is done.",
            503 => "Not now.",
            _ => "The answer.",
        };
        let mut response =
            ResponseBuilder::new().description(about).header("X-Request-Id", text_header());
        if let Some((kind, schema)) = content {
            let content = ContentBuilder::new().schema(Some(schema)).build();
            response = response.content(kind, content);
        }
        built = built.response(status.to_string(), response.build());
    }
    for status in refusals {
        let response = Ref::from_response_name(name_of(*status));
        built = built.response(status.to_string(), RefOr::<Response>::Ref(response));
    }
    built
}

/// Such as `post_tasks_id_cancel`.
fn name(path: &str, method: &Method) -> String {
    let short = path.strip_prefix("/api/v1").unwrap_or(path);
    let words = short.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    let words = if words.is_empty() { "root".to_owned() } else { words.join("_") };
    format!("{}_{words}", method.as_str().to_ascii_lowercase())
}

/// The first word of a path.
fn tag(path: &str) -> String {
    match path.strip_prefix("/api/v1/") {
        Some(rest) => rest.split('/').next().unwrap_or_default().to_owned(),
        None => "service".to_owned(),
    }
}

fn in_path(path: &str) -> impl Iterator<Item = Parameter> {
    let names = path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?;
        name.strip_suffix('}')
    });
    names.map(|name| {
        let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(1)).build();
        ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .schema(Some(text))
            .build()
    })
}

fn in_query(operation: &Operation) -> impl Iterator<Item = Parameter> {
    let own = operation.query.iter().map(field);
    own.chain(operation.paging.into_iter().flat_map(of_pages))
}

fn field(field: &Field) -> Parameter {
    let object = match &field.form {
        Form::Text => ObjectBuilder::new().schema_type(Type::String),
        Form::Moment => ObjectBuilder::new()
            .schema_type(Type::String)
            .examples([json!("2026-01-31T12:00:00Z"), json!("24h")])
            .pattern(Some(r"^([0-9]{1,15}|[0-9]{1,6}(ms|s|m|h|d)|[0-9]{4}-[0-9]{2}-[0-9]{2}T.*)$")),
        Form::Flag => ObjectBuilder::new().schema_type(Type::Boolean),
        Form::Number(low, high) => whole(*low, *high),
        Form::Word(words) => {
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words()))
        }
    };
    query(field.name, field.about, object)
}

fn whole(low: u64, high: u64) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(low)).maximum(Some(high))
}

fn query(name: &str, about: &str, schema: ObjectBuilder) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(schema.build()))
        .build()
}

fn of_pages(paging: Paging) -> Vec<Parameter> {
    let names = paging.names();
    let usual = names.first().map(|name| json!(name));
    let sort =
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names)).default(usual);
    let mut all: Vec<Parameter> = OF_PAGES.iter().map(field).collect();
    all.push(query(SORT, "By which field; `-` falls.", sort));
    all
}

fn idempotency_key() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(128))
        .pattern(Some("^[!-~]+$"));
    ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("A repeat under the same key within 24 hours returns the first answer."))
        .schema(Some(schema.build()))
        .build()
}
