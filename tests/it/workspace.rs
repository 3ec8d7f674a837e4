//! The dependencies keep the shape of the project: the spine cannot reach the outside.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use serde_json::Value;

const SPINE: &str = "hivewright-actors";

/// All that the spine may name.
const ALLOWED: [&str; 11] = [
    "actix",
    "dashmap",
    "futures-util",
    "schemars",
    "serde",
    "serde_json",
    "thiserror",
    "tokio",
    "tokio-util",
    "tracing",
    "unicode-normalization",
];

/// Crates that talk to networks, services or databases. They belong to the edges.
const OUTSIDE: [&str; 34] = [
    "actix-http",
    "actix-server",
    "actix-tls",
    "actix-web",
    "actix-web-actors",
    "actix-ws",
    "async-nats",
    "async-tungstenite",
    "awc",
    "curl",
    "fjall",
    "h2",
    "heed",
    "hickory-resolver",
    "hyper",
    "hyper-util",
    "isahc",
    "native-tls",
    "openssl",
    "quinn",
    "redb",
    "reqwest",
    "rocksdb",
    "rusqlite",
    "rustls",
    "serenity",
    "sled",
    "sqlx",
    "tiny_http",
    "tokio-rustls",
    "tokio-tungstenite",
    "tungstenite",
    "twilight-http",
    "ureq",
];

/// More than this takes too long to build from a clean clone.
const MAX_PACKAGES: usize = 360;

/// What cargo knows about the workspace.
fn metadata() -> Value {
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1"])
            .args([
                "--manifest-path",
                concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
            ])
            .args(arguments)
            .output()
            .unwrap()
    };
    let mut output = run(&["--offline"]);
    if !output.status.success() {
        output = run(&[]);
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata: {complaint}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// The normal dependencies have no kind.
fn is_normal(dependency: &Value) -> bool {
    dependency["kind"].is_null()
}

fn spine(metadata: &Value) -> &Value {
    let packages = list(&metadata["packages"]);
    packages
        .iter()
        .find(|package| package["name"] == SPINE)
        .unwrap()
}

/// The names of all crates that are compiled into a package.
fn compiled_into<'a>(metadata: &'a Value, package: &'a Value) -> BTreeSet<&'a str> {
    let names: BTreeMap<&str, &str> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .iter()
        .map(|node| (text(&node["id"]), node))
        .collect();
    let mut seen = BTreeSet::new();
    let mut waiting = vec![text(&package["id"])];
    while let Some(id) = waiting.pop() {
        if seen.insert(id) {
            let dependencies = list(&nodes[id]["deps"]).iter();
            let normal = dependencies.filter(|dep| list(&dep["dep_kinds"]).iter().any(is_normal));
            waiting.extend(normal.map(|dependency| text(&dependency["pkg"])));
        }
    }
    seen.into_iter().map(|id| names[id]).collect()
}

#[test]
fn the_spine_names_only_crates_that_stay_inside() {
    let metadata = metadata();

    let named: BTreeSet<&str> = list(&spine(&metadata)["dependencies"])
        .iter()
        .filter(|dependency| is_normal(dependency))
        .map(|dependency| text(&dependency["name"]))
        .collect();

    assert_eq!(named, BTreeSet::from(ALLOWED));
}

#[test]
fn nothing_below_the_spine_talks_to_the_outside() {
    let metadata = metadata();

    let compiled = compiled_into(&metadata, spine(&metadata));

    assert!(
        compiled.contains("tokio"),
        "the walk goes wrong: {compiled:?}"
    );
    let outside = BTreeSet::from(OUTSIDE);
    assert_eq!(
        compiled.intersection(&outside).collect::<Vec<_>>(),
        [&""; 0]
    );
}

#[test]
fn the_edges_do_talk_to_the_outside() {
    let metadata = metadata();
    let packages = list(&metadata["packages"]);
    let edges = packages
        .iter()
        .find(|package| package["name"] == "hivewright")
        .unwrap();

    let compiled = compiled_into(&metadata, edges);

    for crate_name in ["actix-http", "hyper", "rustls", "sled"] {
        assert!(
            compiled.contains(crate_name),
            "the walk misses {crate_name}"
        );
    }
}

#[test]
fn the_lock_file_stays_small() {
    let lock = include_str!("../../Cargo.lock");

    let packages = lock.lines().filter(|line| *line == "[[package]]").count();

    assert!(
        (1..=MAX_PACKAGES).contains(&packages),
        "{packages} packages"
    );
}
