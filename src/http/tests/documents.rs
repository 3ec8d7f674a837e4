//! The tables of routes in the documents, against the routes that there are.

use std::collections::BTreeSet;

use crate::http::table;

const DOCUMENT: &str = include_str!("../../../docs/protocol.md");
const ROOT: &str = "/api/v1";
const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The routes that the first cell of a row names: methods stand before the path that they are for, and a
/// path without methods has those of the one before it. A path may go on from the root of the API, from the
/// path before it (`…`), or stand beside that.
fn named(cell: &str, routes: &BTreeSet<(String, String)>) -> Vec<(String, String)> {
    let (mut found, mut methods, mut path) = (Vec::new(), Vec::<&str>::new(), String::new());
    let mut open = false;
    for item in quoted(cell) {
        let (method, rest) = match item.split_once(' ') {
            Some((method, rest)) => (Some(method), Some(rest)),
            None if METHODS.contains(&item) => (Some(item), None),
            None => (None, Some(item)),
        };
        if let Some(method) = method {
            if !open {
                methods.clear();
            }
            methods.push(method);
            open = true;
        }
        let Some(rest) = rest else { continue };
        open = false;
        let beside = path.rsplit_once('/').map_or("", |(parent, _)| parent);
        let candidates = match rest.strip_prefix('…') {
            Some(more) => vec![format!("{path}{more}")],
            None => vec![rest.to_owned(), format!("{ROOT}{rest}"), format!("{beside}{rest}")],
        };
        let exists = |candidate: &&String| routes.iter().any(|(_, path)| path == *candidate);
        let meant = candidates.iter().find(exists).unwrap_or(&candidates[0]);
        path = meant.clone();
        found.extend(methods.iter().map(|method| ((*method).to_owned(), path.clone())));
    }
    found
}

/// OP-07: no route is missing in the documents, and none is told of that there is not.
#[test]
fn the_documents_name_the_routes_that_there_are() {
    let routes: BTreeSet<(String, String)> = table()
        .iter()
        .flat_map(|resource| {
            let methods = resource.operations.iter();
            methods.map(|(method, _)| (method.to_string(), resource.path.to_owned()))
        })
        .filter(|(_, path)| path.starts_with(ROOT))
        .collect();

    let cells = DOCUMENT.lines().filter_map(|line| {
        let cell = line.strip_prefix("| ")?.split(" | ").next()?;
        let begins = |item: &&str| METHODS.iter().any(|method| item.starts_with(method));
        quoted(cell).first().is_some_and(begins).then_some(cell)
    });
    let documented: BTreeSet<_> = cells
        .flat_map(|cell| named(cell, &routes))
        .filter(|(_, path)| path.starts_with(ROOT))
        .collect();

    let missing: Vec<_> = routes.difference(&documented).collect();
    assert!(missing.is_empty(), "not in docs/protocol.md: {missing:#?}");
    let invented: Vec<_> = documented.difference(&routes).collect();
    assert!(invented.is_empty(), "there is no such route: {invented:#?}");
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
    let resolve = |schema: &serde_json::Value| match schema["$ref"].as_str() {
        Some(reference) => {
            let place = reference.trim_start_matches('#');
            document.pointer(place).cloned().unwrap_or_default()
        }
        None => schema.clone(),
    };
    let mut seen = 0;
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let body = &operation["requestBody"]["content"]["application/json"]["schema"];
            let fields = resolve(body)["properties"].clone();
            let fields = fields.as_object().cloned().unwrap_or_default();
            if fields.keys().any(|name| NAMING.contains(&name.as_str())) {
                let route = format!("`{} {path}`", method.to_uppercase());
                assert!(section.contains(&route), "{route} is missing in docs/security.md");
                seen += 1;
            }
        }
    }
    assert!(seen > 3, "{seen}");
}
