//! What the documents say of routes and commands, against those that there are.

use hivewright_actors::router::commands::COMMANDS;
use serde_json::Value;

use crate::tests::assert_snapshot;

const PROTOCOL: &str = include_str!("../../../docs/protocol.md");
/// Where each table of the protocol begins and ends.
const ROUTES: [&str; 2] =
    ["| request | scope | what | fields |\n|---|---|---|---|\n", "\n## Live events\n"];
const WORDS: [&str; 2] = ["| command | what it does |\n|---|---|\n", "\nOther names are "];

/// The schema that is meant, where a reference to it stands.
fn resolve(document: &Value, schema: &Value) -> Value {
    match schema["$ref"].as_str() {
        Some(reference) => {
            let place = reference.trim_start_matches('#');
            document.pointer(place).cloned().unwrap_or_default()
        }
        None => schema.clone(),
    }
}

/// The names of the fields of an operation's query and body.
fn fields(document: &Value, operation: &Value) -> (Vec<String>, Vec<String>) {
    let parameters = operation["parameters"].as_array().unwrap().iter();
    let query = parameters.filter(|parameter| parameter["in"] == "query");
    let query = query.map(|parameter| parameter["name"].as_str().unwrap().to_owned());
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let body = resolve(document, body)["properties"].as_object().cloned().unwrap_or_default();
    (query.collect(), body.keys().cloned().collect())
}

fn row(document: &Value, path: &str, method: &str, operation: &Value) -> String {
    let scope = match (&operation["x-scope"], operation["security"].as_array()) {
        (Value::String(scope), _) => format!("`{scope}`"),
        (_, Some(none)) if none.is_empty() => String::new(),
        _ => "any".to_owned(),
    };
    let text = |key: &str| operation[key].as_str().unwrap_or_default().to_owned();
    let what = format!("{} {}", text("summary"), text("description"));
    let what = what.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let (query, body) = fields(document, operation);
    let quoted = |names: Vec<String>| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let fields = match (query.is_empty(), body.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!("query: {}", quoted(query)),
        (true, false) => quoted(body),
        (false, false) => format!("{}; query: {}", quoted(body), quoted(query)),
    };
    format!("| `{} {path}` | {scope} | {what} | {fields} |\n", method.to_uppercase())
}

/// A page with these rows in the place of those that it has.
fn with_rows(page: &str, [head, behind]: [&str; 2], rows: &str) -> String {
    let (before, rest) = page.split_once(head).unwrap();
    let (_, after) = rest.split_once(behind).unwrap();
    [before, head, rows, behind, after].concat()
}

/// OP-07: both tables are made from the code, so that nothing is missing and nothing is invented.
#[actix::test]
async fn the_tables_of_the_protocol_are_made_from_routes_and_commands() {
    let bench = super::Bench::new().await;
    let document = bench.get("/api/v1/openapi.json", &bench.operator()).await.json();
    let mut routes = String::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            routes += &row(&document, path, method, operation);
        }
    }
    let words: String =
        COMMANDS.iter().map(|(form, does)| format!("| `{form}` | {does} |\n")).collect();

    let page = with_rows(PROTOCOL, ROUTES, &routes);
    assert_snapshot("docs/protocol.md", &with_rows(&page, WORDS, &words), module_path!());
}

const SECURITY: &str = include_str!("../../../docs/security.md");
/// Fields of bodies that name something of the machine, or refer to something.
const NAMING: [&str; 9] =
    ["file", "path", "url", "dir", "cwd", "env", "config", "args", "resource"];

/// SC-05: a route that takes a path, a reference or a pattern stands in the table of what callers name.
#[actix::test]
async fn what_routes_take_stands_in_the_table_of_bounds() {
    let bench = super::Bench::new().await;
    let document = bench.get("/api/v1/openapi.json", &bench.operator()).await.json();
    let (_, section) = SECURITY.split_once("\n## What callers name\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let mut seen = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let (_, fields) = fields(&document, operation);
            if fields.iter().any(|name| NAMING.contains(&name.as_str())) {
                let route = format!("`{} {path}`", method.to_uppercase());
                assert!(section.contains(&route), "{route} is missing in docs/security.md");
                seen += 1;
            }
        }
    }
    assert!(seen > 3, "{seen}");
}
