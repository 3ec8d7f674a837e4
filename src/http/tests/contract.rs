//! Every route against its description, and the description against itself.

use std::collections::BTreeSet;

use actix_web::http::StatusCode;
use serde_json::json;

use super::*;
use crate::{
    api::{endpoint::Needs, search::SEARCH_HISTORY},
    http::{kit::openapi, routes::table::table},
};

/// A path with something in the place of its parameters.
pub(super) fn filled(path: &str) -> String {
    let parts = path.split('/').map(|part| match part {
        "{file}" => "app.js",
        "{scope}" => "system",
        "{key}" => "KEY",
        part if part.starts_with('{') => "unknown-0",
        part => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

/// A path with a query, and with what the route cannot do without.
pub(super) fn queried(path: &str, query: &str) -> String {
    let needed = if path == SEARCH_HISTORY.path { "q=word&" } else { "" };
    format!("{path}?{needed}{query}")
}

fn document() -> Value {
    let (document, clashes) = openapi::document(table());
    assert_eq!(clashes, Vec::<String>::new(), "schemas of the same name");
    serde_json::to_value(document).unwrap()
}

/// All references that a document makes.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("$ref", Value::String(target)) => {
                        found.insert(target);
                    }
                    (_, value) => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// OP-07
#[test]
fn every_route_is_described_with_its_scope_and_an_example_of_its_body() {
    let document = document();

    assert_eq!(document["openapi"], "3.1.0");
    let mut names = BTreeSet::new();
    for resource in table() {
        for (method, operation) in &resource.operations {
            let method = method.as_str().to_lowercase();
            let case = format!("{method} {}", resource.path);
            let described = &document["paths"][resource.path][&method];
            assert!(described["summary"].is_string(), "{case}");
            assert!(
                names.insert(described["operationId"].clone().to_string()),
                "{case}: the name is taken"
            );
            let draft = operation.draft();
            if let Needs::Scope(scope) = operation.needs {
                assert_eq!(described["x-scope"], scope.as_str(), "{case}");
                assert_eq!(described["security"][0]["token"][0], scope.as_str());
            }
            assert!(!draft.answers.is_empty(), "{case} answers nothing");
            let body = &described["requestBody"]["content"]["application/json"];
            let has_fields = draft.body.is_some()
                && !body["schema"]["$ref"].as_str().unwrap().ends_with("/Empty");
            if has_fields {
                assert!(body["example"].is_object(), "{case} has no example");
            }
        }
    }
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    for target in found {
        let place = target.strip_prefix('#').unwrap();
        assert!(document.pointer(place).is_some(), "{target} leads nowhere");
    }
}

/// OP-02, OP-07
#[test]
fn every_list_has_the_same_envelope_and_the_same_way_of_paging() {
    let document = document();

    for (path, item) in document["paths"].as_object().unwrap() {
        let get = &item["get"];
        let data = &get["responses"]["200"]["content"]["application/json"]["schema"]["properties"];
        let is_list = data["data"]["type"] == "array";
        let parameters = get["parameters"].as_array().cloned().unwrap_or_default();
        let named: Vec<&str> = parameters
            .iter()
            .map(|parameter| parameter["name"].as_str().unwrap())
            .filter(|name| ["limit", "offset", "cursor", "sort"].contains(name))
            .collect();
        let expected: &[&str] = if is_list {
            &["limit", "offset", "cursor", "sort"]
        } else if path.ends_with("/history") {
            // A transcript goes on by the numbers of its events.
            &["limit"]
        } else {
            &[]
        };
        assert_eq!(named, expected, "{path}");
        assert_eq!(data["total"].is_object(), is_list, "{path}");
    }
}

/// OP-07: also of what comes bit by bit.
#[test]
fn what_streams_is_described_by_its_type() {
    let document = document();

    for (path, kind) in [
        ("/api/v1/events", "text/event-stream"),
        ("/api/v1/sessions/{id}/export", "application/x-ndjson"),
        ("/api/v1/usage/export", "text/csv"),
    ] {
        let answer = &document["paths"][path]["get"]["responses"]["200"];
        let kinds: Vec<&String> = answer["content"].as_object().unwrap().keys().collect();
        assert_eq!(kinds, [kind], "{path}");
    }
}

/// OP-07
#[actix::test]
async fn the_description_is_served_to_whoever_is_logged_in() {
    let bench = Bench::new().await;
    let token = bench.token("reader", only(Scope::Read)).await;

    let served = bench.get("/api/v1/openapi.json", &token).await;
    let page = bench.get("/api/v1/docs", &token).await;

    assert_eq!((served.status, served.json()), (200, document()));
    assert_eq!(served.header("content-type"), Some("application/json"));
    assert_eq!(page.status, 200);
    assert!(page.body.contains("POST /api/v1/tasks/{id}/cancel"));
    assert!(!page.body.contains("<script") && !page.body.contains("style="));
    assert!(page.header("content-security-policy").is_some());
    let stranger = bench.call(request(Method::GET, "/api/v1/docs")).await;
    assert_eq!(stranger.refusal().0, 401);
}

/// The fields that a body may have, by the document.
fn fields_of(document: &Value, path: &str, method: &Method) -> Vec<String> {
    let method = method.as_str().to_lowercase();
    let body = &document["paths"][path][method]["requestBody"]["content"]["application/json"];
    let target = body["schema"]["$ref"].as_str().unwrap_or_default();
    let schema = document.pointer(target.trim_start_matches('#'));
    let properties = schema.and_then(|schema| schema["properties"].as_object());
    properties.map_or_else(Vec::new, |properties| properties.keys().cloned().collect())
}

/// OP-99: what is not there is said not to be, by every path that names something.
#[actix::test]
async fn what_is_unknown_is_not_found_on_every_route() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    for resource in table() {
        let named = resource.path.contains('{') && resource.path.starts_with("/api/");
        for (method, operation) in &resource.operations {
            if !named || operation.draft().body.is_some() {
                continue;
            }
            let path = filled(resource.path).replace("KEY", "NO_SUCH_KEY");
            let request = request(method.clone(), &path).insert_header(bearer(&bench.operator()));

            let answer = answer(&app, request).await;

            assert_eq!(answer.refusal().0, 404, "{method} {path} {}", answer.body);
        }
    }
}

/// OP-01, OP-99: on every route.
#[actix::test]
async fn a_query_that_makes_no_sense_is_refused_by_every_route() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let operator = bench.operator();
    for resource in table() {
        let path = filled(resource.path);
        for (method, operation) in &resource.operations {
            let case = format!("{method} {path}");
            let ask = |query: &str| {
                request(method.clone(), &queried(&path, query)).insert_header(bearer(&operator))
            };
            if operation.needs != Needs::Nothing {
                let wrong = ask("no_such_field=1").set_json(json!({}));
                let answer = answer(&app, wrong).await;
                assert_eq!(answer.refusal(), (400, "invalid_input".into()), "{case}");
                assert_eq!(answer.field(), "no_such_field", "{case}");
            }
            if operation.sorts.is_empty() {
                continue;
            }
            for (query, field) in [
                ("limit=100000", "limit"),
                ("limit=0", "limit"),
                ("offset=10001", "offset"),
                ("sort=nothing", "sort"),
                ("cursor=nothing", "cursor"),
            ] {
                let answer = answer(&app, ask(query)).await;
                // Of something that is not there, no part is wanted.
                if answer.status != 404 {
                    assert_eq!(answer.refusal().0, 400, "{case} {query}");
                    assert_eq!(answer.field(), field, "{case} {query}");
                }
            }
        }
    }
    assert_eq!(bench.get("/healthz", "").await.body, "ok");
}

/// OP-01, OP-99: on every route that takes one.
#[actix::test]
async fn a_body_that_makes_no_sense_is_refused_by_every_route() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let operator = bench.operator();
    let document = document();
    for resource in table() {
        let path = filled(resource.path);
        for (method, operation) in &resource.operations {
            if operation.draft().body.is_none() {
                continue;
            }
            let case = format!("{method} {path}");
            let ask = || request(method.clone(), &path).insert_header(bearer(&operator));
            for body in ["", "{", "[]", "null", "{} {}"] {
                let json = ask().insert_header(("Content-Type", "application/json"));
                let answer = answer(&app, json.set_payload(body)).await;
                assert_eq!(answer.refusal(), (400, "invalid_input".into()), "{case} {body}");
            }
            let unknown = answer(&app, ask().set_json(json!({"no_such_field": 1}))).await;
            assert_eq!(unknown.refusal().0, 400, "{case}");
            assert_eq!(unknown.field(), "no_such_field", "{case}");
            for name in fields_of(&document, resource.path, method) {
                // No field is a list in a list.
                let wrong = ask().set_json(json!({&name: [[{"no": "sense"}]]}));
                let answer = answer(&app, wrong).await;
                let (status, body, field) = (answer.status, &answer.body, answer.field());
                assert!(matches!(status, 400 | 404 | 422), "{case} {name}: {status} {body}");
                let is_named = field == name || field.starts_with(&format!("{name}["));
                // Of something that is not there, no field is looked at; another may be missing.
                let is_told = is_named || body.contains("missing");
                assert!(status == 404 || is_told, "{case} {name}: {body}");
            }
            let plain = answer(&app, ask().set_payload("{}")).await;
            assert_eq!(plain.refusal().0, 415, "{case}");
            // Only its length is declared: nothing of it is read.
            let large = ask()
                .insert_header(("Content-Type", "application/json"))
                .insert_header(("Content-Length", "10000000"));
            assert_eq!(answer(&app, large).await.refusal().0, 413, "{case}");
        }
    }
    assert_eq!(bench.get("/healthz", "").await.body, "ok");
}

/// OP-01
#[actix::test]
async fn a_method_that_a_route_lacks_is_refused_with_those_that_it_has() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let operator = bench.operator();
    for resource in table() {
        let path = filled(resource.path);
        let known: Vec<&Method> = resource.operations.iter().map(|(method, _)| method).collect();
        for method in [Method::PUT, Method::PATCH, Method::DELETE, Method::POST] {
            if known.contains(&&method) {
                continue;
            }
            let ask = request(method.clone(), &path).insert_header(bearer(&operator));
            let answer = answer(&app, ask).await;
            assert_eq!(answer.refusal().0, 405, "{method} {path}");
            let allowed = answer.header("allow").unwrap().to_owned();
            for known in &known {
                assert!(allowed.contains(known.as_str()), "{path} {allowed}");
            }
        }
    }
}

/// OP-07: what is answered is what is described, by status.
#[actix::test]
async fn every_route_answers_with_a_status_that_is_described() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let document = document();
    for resource in table() {
        for (method, _) in &resource.operations {
            let path = filled(resource.path);
            let request = request(method.clone(), &path).insert_header(bearer(&bench.operator()));
            let request = match *method {
                Method::GET | Method::DELETE => request,
                _ => request.set_json(json!({})),
            };

            let answer = answer(&app, request).await;

            let method = method.as_str().to_lowercase();
            let described = &document["paths"][resource.path][&method]["responses"];
            assert!(
                described.get(answer.status.to_string()).is_some(),
                "{method} {path}: {} {}",
                answer.status,
                answer.body
            );
            assert_ne!(answer.status, StatusCode::INTERNAL_SERVER_ERROR.as_u16());
        }
    }
}

/// OP-02
#[actix::test]
async fn pages_follow_each_other_by_cursor_while_rows_are_added() {
    let bench = Bench::new().await;
    for number in 0..5 {
        bench.token(&format!("t{number}"), only(Scope::Read)).await;
    }
    let names = |answer: &Answer| -> Vec<String> {
        let rows = answer.json()["data"].as_array().unwrap().clone();
        rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };

    let first = bench.get("/api/v1/tokens?sort=name&limit=2", &bench.operator()).await;
    bench.token("a-new-one", only(Scope::Read)).await;
    let cursor = first.json()["next_cursor"].as_str().unwrap().to_owned();
    let second = bench
        .get(&format!("/api/v1/tokens?sort=name&limit=3&cursor={cursor}"), &bench.operator())
        .await;

    assert_eq!(names(&first), ["operator", "t0"]);
    assert_eq!(names(&second), ["t1", "t2", "t3"]);
    assert_eq!(second.json()["total"], 7);
    let cursor = second.json()["next_cursor"].as_str().unwrap().to_owned();
    let last =
        bench.get(&format!("/api/v1/tokens?sort=name&cursor={cursor}"), &bench.operator()).await;
    assert_eq!(names(&last), ["t4"]);
    assert!(last.json().get("next_cursor").is_none());
    let falling = bench.get("/api/v1/tokens?sort=-name&limit=1", &bench.operator()).await;
    assert_eq!(names(&falling), ["t4"]);
}

/// OP-01, OP-07: what has to say nothing needs no body, and the description says so. A body that is
/// there is read by every route.
#[actix::test]
async fn a_request_without_a_body_is_taken_where_nothing_has_to_be_said() {
    let bench = Bench::new().await;
    let app = bench.app().await;
    let described = document();
    for resource in table() {
        let path = filled(resource.path);
        for (method, operation) in &resource.operations {
            // A file may be empty.
            let is_file = operation.streamed;
            if *method != Method::POST || !path.starts_with("/api/") || is_file {
                continue;
            }
            let draft = operation.draft();
            assert!(draft.body.is_some(), "{path} ignores what it is sent");
            let body = &described["paths"][resource.path]["post"]["requestBody"];
            let needs_body = body["required"].as_bool().unwrap();
            let bare = request(Method::POST, &path).insert_header(bearer(&bench.operator()));

            let answer = answer(&app, bare).await;

            assert_eq!(answer.status == 415, needs_body, "{path}: {}", answer.body);
        }
    }
    let retry = request(Method::POST, "/api/v1/tasks/task-9/retry");
    let retry = retry.insert_header(bearer(&bench.operator()));
    assert_eq!(answer(&app, retry).await.status, 404);
}
