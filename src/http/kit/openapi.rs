//! OpenAPI: the description of all routes, made from the routes themselves.

use std::collections::BTreeSet;

use actix_web::http::Method;
use serde_json::{Map, Value, json};

use super::{error::Refusal, resource::Resource};
use crate::{
    api::{
        check::{leave_out_null, words},
        draft::Draft,
        endpoint::{Needs, Operation},
        page,
        reply::JSON,
    },
    http::auth::access::COOKIE,
};

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

**Limits.** A body has at most 1 MiB, but for files. A credential has 3,000 requests a minute, and 64 at once.";

/// The document, and names that more than one schema has.
pub(in crate::http) fn document(table: Vec<Resource>) -> (Value, Vec<String>) {
    let (mut schemas, mut clashes) = (Map::new(), Vec::new());
    let mut keep = |found: Map<String, Value>| {
        for (name, schema) in found {
            match schemas.get(&name) {
                Some(known) if *known != schema => clashes.push(name),
                _ => drop(schemas.insert(name, schema)),
            }
        }
    };
    let mut paths = Map::new();
    let mut statuses = BTreeSet::new();
    for resource in table {
        let mut item = Map::new();
        for (method, operation) in &resource.operations {
            let mut draft = operation.draft();
            keep(draft.schemas());
            let refusals = refusals(resource.path, method, operation, &draft);
            statuses.extend(refusals.iter().copied());
            let described = describe(resource.path, method, operation, draft, &refusals);
            item.insert(method.as_str().to_ascii_lowercase(), described);
        }
        paths.insert(resource.path.to_owned(), Value::Object(item));
    }
    let mut refusal = Draft::default();
    let refusal_schema = refusal.schema::<Refusal<'static>>().to_value();
    keep(refusal.schemas());
    let responses: Map<String, Value> = statuses
        .into_iter()
        .map(|status| (name_of(status), refused(status, &refusal_schema)))
        .collect();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {"title": "Hivewright", "version": env!("CARGO_PKG_VERSION"), "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": responses,
            "securitySchemes": {
                "token": {
                    "type": "http", "scheme": "bearer",
                    "description": "The operator token, or an API token.",
                },
                "session": {
                    "type": "apiKey", "in": "cookie", "name": COOKIE,
                    "description": "The session of a browser. Changes need `X-CSRF-Token` too.",
                },
            },
        },
    });
    simplify(&mut document);
    (document, clashes)
}

/// Words that are described one by one become one list of words.
fn simplify(value: &mut Value) {
    let is_word = |choice: &Value| choice.get("const").is_some_and(Value::is_string);
    let choices = value["oneOf"].as_array();
    if choices
        .is_some_and(|choices| choices.iter().all(|one| is_word(one) || one["enum"].is_array()))
    {
        let words = json!(words(value));
        if let Some(fields) = value.as_object_mut() {
            fields.remove("oneOf");
            fields.insert("type".to_owned(), json!("string"));
            fields.insert("enum".to_owned(), words);
        }
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(simplify),
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

/// All statuses that an operation may refuse with.
fn refusals(path: &str, method: &Method, operation: &Operation, draft: &Draft) -> BTreeSet<u16> {
    let mut all: BTreeSet<u16> = ALWAYS.into_iter().collect();
    if operation.needs != Needs::Nothing {
        all.insert(401);
    }
    if path.contains('{') {
        all.insert(404);
    }
    if draft.body.is_some() {
        all.extend(WITH_BODY);
    }
    // Another body under an `Idempotency-Key`.
    if *method == Method::POST && path.starts_with("/api/") && !operation.streamed {
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

fn refused(status: u16, schema: &Value) -> Value {
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
    let mut response = json!({"description": about, "content": {JSON: {"schema": schema}}});
    if status == 401 {
        response["headers"] = json!({"WWW-Authenticate": {"schema": {"type": "string"}}});
    }
    response
}

fn describe(
    path: &str,
    method: &Method,
    operation: &Operation,
    draft: Draft,
    refusals: &BTreeSet<u16>,
) -> Value {
    let mut described = json!({
        "operationId": name(path, method),
        "tags": [tag(path)],
        "summary": operation.summary,
        "parameters": parameters(path, method, operation, &draft),
    });
    if !operation.description.is_empty() {
        described["description"] = operation.description.into();
    }
    if let Some(schema) = draft.body {
        let mut content = json!({"schema": schema});
        if let Some(example) = operation.example.and_then(|text| serde_json::from_str(text).ok()) {
            content["example"] = example;
        }
        described["requestBody"] =
            json!({"content": {JSON: content}, "required": draft.needs_body});
    }
    if operation.streamed {
        let file = json!({"schema": {"type": "string", "format": "binary"}});
        // A file may be empty.
        described["requestBody"] =
            json!({"content": {"application/octet-stream": file}, "required": false});
    }
    described["security"] = match operation.needs {
        Needs::Nothing => json!([]),
        Needs::Login => json!([{"token": []}, {"session": []}]),
        Needs::Scope(scope) => json!([{"token": [scope]}, {"session": [scope]}]),
    };
    if let Needs::Scope(scope) = operation.needs {
        described["x-scope"] = json!(scope);
    }
    let refused = refusals.iter().map(|status| {
        let name = name_of(*status);
        (status.to_string(), json!({"$ref": format!("#/components/responses/{name}")}))
    });
    let answers = draft.answers.into_iter().map(|(status, content)| {
        let about = match status {
            201 => "It is made.",
            202 => "It goes on after the answer.",
            204 => "It is done.",
            503 => "Not now.",
            _ => "The answer.",
        };
        let headers = json!({"X-Request-Id": {"schema": {"type": "string"}}});
        let mut response = json!({"description": about, "headers": headers});
        if let Some((kind, schema)) = content {
            response["content"] = json!({kind: {"schema": schema}});
        }
        (status.to_string(), response)
    });
    described["responses"] = answers.chain(refused).collect::<Map<_, _>>().into();
    described
}

/// Such as `post_tasks_id_cancel`.
fn name(path: &str, method: &Method) -> String {
    let short = path.strip_prefix("/api/v1").unwrap_or(path);
    let words = short.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_");
    let words = if words.is_empty() { "root" } else { &words };
    format!("{}_{words}", method.as_str().to_ascii_lowercase())
}

/// The first word of a path.
fn tag(path: &str) -> String {
    match path.strip_prefix("/api/v1/") {
        Some(rest) => rest.split('/').next().unwrap_or_default().to_owned(),
        None => "service".to_owned(),
    }
}

fn parameters(path: &str, method: &Method, operation: &Operation, draft: &Draft) -> Vec<Value> {
    let in_path = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = in_path.map(|name| {
        let schema = json!({"type": "string", "minLength": 1});
        json!({"name": name, "in": "path", "required": true, "schema": schema})
    });
    let mut all: Vec<Value> = in_path.collect();
    all.extend(draft.query.iter().map(|(name, schema)| in_query(name, schema)));
    let of_page = page::fields(operation.sorts);
    let of_page = page::FIELDS.iter().filter_map(|name| Some((name, of_page.get(*name)?)));
    all.extend(of_page.map(|(name, schema)| in_query(name, schema)));
    if *method == Method::POST && path.starts_with("/api/") && !operation.streamed {
        all.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "A repeat under the same key within 24 hours returns the first answer.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[!-~]+$"},
        }));
    }
    all
}

/// A parameter that is absent is left out, never null.
fn in_query(name: &str, schema: &Value) -> Value {
    let (mut inner, about) = (schema.clone(), &schema["description"]);
    if let Some(inner) = inner.as_object_mut() {
        leave_out_null(inner);
        inner.retain(|key, value| key != "description" && !(key == "default" && value.is_null()));
    }
    json!({"name": name, "in": "query", "required": false, "description": about, "schema": inner})
}
