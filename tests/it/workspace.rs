//! The dependencies keep the shape of the project: the spine cannot reach the outside.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

const SPINE: &str = "hivewright-actors";

/// All that the spine may name.
const ALLOWED: [&str; 12] = [
    "actix",
    "dashmap",
    "futures-util",
    "parking_lot",
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
const MAX_PACKAGES: usize = 393;

/// Production code has at most so many lines. Whoever makes it smaller lowers this.
const MOST_LINES: usize = 172_500;

/// A function has at most so many lines: a longer one hides a second thing, which wants a name.
const MOST_LINES_OF_A_FUNCTION: usize = 80;

/// What cargo knows about the workspace.
fn metadata() -> Value {
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1"])
            .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
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
    packages.iter().find(|package| package["name"] == SPINE).unwrap()
}

/// The names of all crates that are compiled into a package.
fn compiled_into<'a>(metadata: &'a Value, package: &'a Value) -> BTreeSet<&'a str> {
    let names: BTreeMap<&str, &str> = list(&metadata["packages"])
        .iter()
        .map(|package| (text(&package["id"]), text(&package["name"])))
        .collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"]["nodes"]).iter().map(|node| (text(&node["id"]), node)).collect();
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

    assert!(compiled.contains("tokio"), "the walk goes wrong: {compiled:?}");
    let outside = BTreeSet::from(OUTSIDE);
    assert_eq!(compiled.intersection(&outside).collect::<Vec<_>>(), [&""; 0]);
}

#[test]
fn the_edges_do_talk_to_the_outside() {
    let metadata = metadata();
    let packages = list(&metadata["packages"]);
    let edges = packages.iter().find(|package| package["name"] == "hivewright").unwrap();

    let compiled = compiled_into(&metadata, edges);

    for crate_name in ["actix-http", "hyper", "rustls", "sled"] {
        assert!(compiled.contains(crate_name), "the walk misses {crate_name}");
    }
}

#[test]
fn the_lock_file_stays_small() {
    let lock = include_str!("../../Cargo.lock");

    let packages = lock.lines().filter(|line| *line == "[[package]]").count();

    assert!((1..=MAX_PACKAGES).contains(&packages), "{packages} packages");
}

/// All Rust files below a folder, with what is in them.
pub(crate) fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// SC-05: the table of what callers name tells of tests that there are, and of every tool that takes a path, a
/// reference or an address.
#[test]
fn the_table_of_bounds_names_tests_and_tools_that_there_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("docs/security.md")).unwrap();
    let (_, table) = text.split_once("\n## What callers name\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let mut files = Vec::new();
    for folder in ["src", "actors", "tests"] {
        sources(&root.join(folder), &mut files);
    }

    let rows = table.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut count = 0;
    for row in rows {
        let cell = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let tests: Vec<_> = cell.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            let begin = format!("fn {test}(");
            let exists = files.iter().any(|(_, text)| text.contains(&begin));
            assert!(exists, "there is no test `{test}`");
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
    let naming = ["file_path", "path", "url", "cwd", "env", "config", "credentials"];
    let tools = files.iter().filter(|(path, text)| {
        path.starts_with(root.join("src/tools")) && text.contains("struct Args")
    });
    let mut checked = 0;
    for (path, text) in tools {
        let (_, args) = text.split_once("struct Args").unwrap();
        let args = args.split("\n}").next().unwrap();
        let takes = |name: &&str| args.contains(&format!("    {name}: "));
        let about = text.split("About::new(").nth(1);
        let name = about.and_then(|about| about.trim_start().strip_prefix('"'));
        let (true, Some(name)) = (naming.iter().any(takes), name) else {
            continue;
        };
        let name = format!("`{}`", name.split('"').next().unwrap());
        assert!(table.contains(&name), "{name} of {} is not in docs/security.md", path.display());
        checked += 1;
    }
    assert!(checked > 8, "{checked}");
}

/// Documents with their text.
fn documents(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            documents(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// The name under which a heading is linked to.
fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

#[test]
fn the_links_of_the_documents_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found =
        vec![(root.join("README.md"), fs::read_to_string(root.join("README.md")).unwrap())];
    documents(&root.join("docs"), &mut found);
    let mut dead = Vec::new();

    for (path, text) in &found {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        for (link, _) in links.filter(|(link, _)| !link.starts_with("http")) {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let text = fs::read_to_string(&target).unwrap_or_default();
            let headings = text.lines().filter_map(|line| line.split_once("# "));
            let is_there =
                heading.is_empty() || headings.into_iter().any(|(_, name)| anchor(name) == heading);
            if !target.exists() || !is_there {
                dead.push(format!("{}: {link}", path.display()));
            }
        }
    }

    assert!(dead.is_empty(), "{dead:#?}");
}

#[test]
fn every_word_of_the_glossary_is_a_type() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let glossary = fs::read_to_string(root.join("docs/glossary.md")).unwrap();
    let rows = glossary.lines().filter_map(|line| line.split_once("` in `"));
    let rows: Vec<_> = rows.collect();
    assert!(rows.len() > 40, "{}", rows.len());

    for (before, after) in rows {
        let name = before.rsplit('`').next().unwrap();
        let (file, _) = after.split_once('`').unwrap();
        let text = fs::read_to_string(root.join(file)).unwrap();
        let is_type = ["struct", "enum", "trait"].iter().any(|kind| {
            let declared = format!("{kind} {name}");
            let mut found = text.split(&declared).skip(1);
            found.any(|rest| rest.starts_with([' ', '<', '(', ':', ';']))
        });
        assert!(is_type, "there is no `{name}` in {file}");
    }
}

/// What the guide shows is code that is compiled: each block names its file, and stands there, apart from what
/// `…` leaves out.
#[test]
fn the_code_in_the_guide_of_contributors_is_real() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = fs::read_to_string(root.join("docs/contributing.md")).unwrap();
    let blocks: Vec<_> = guide.split("```rust\n").skip(1).collect();
    assert!(blocks.len() > 5, "{}", blocks.len());

    for block in blocks {
        let block = block.split("```").next().unwrap();
        let (file, shown) = block.trim_start().split_once('\n').unwrap();
        let file = file.strip_prefix("// ").expect("the first line names the file");
        let code = fs::read_to_string(root.join(file)).unwrap();
        let mut code = code.as_str();
        for part in shown.split('…').map(|part| part.trim_end().trim_start_matches('\n')) {
            let found = code.find(part);
            let found = found.unwrap_or_else(|| panic!("{file} has no\n{part}"));
            code = &code[found + part.len()..];
        }
    }
}

/// Lines of `src/` and `actors/` without tests and doubles.
#[test]
fn production_code_grows_only_on_purpose() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "actors"] {
        sources(&root.join(folder), &mut files);
    }
    let is_test = |path: &Path| {
        let mut parts = path.iter().map(|part| part.to_str().unwrap());
        parts.any(|part| ["tests", "tests.rs", "doubles"].contains(&part))
    };
    let production = files.iter().filter(|(path, _)| !is_test(path.strip_prefix(root).unwrap()));
    let lines = production.map(|(_, text)| {
        let before_tests = text.split("\n#[cfg(test)]\nmod tests {").next().unwrap();
        before_tests.lines().count()
    });
    let lines: usize = lines.sum();
    println!("{lines} lines of production code");

    assert!((50_000..=MOST_LINES).contains(&lines), "{lines} lines; at most {MOST_LINES}");
}

/// Names and lengths of the functions of a file, by its indentation as rustfmt leaves it.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<_> = text.lines().collect();
    let qualifiers = ["pub", "const", "async", "unsafe", "default"];
    let measured = lines.iter().enumerate().filter_map(|(at, line)| {
        let (before, after) = line.split_once("fn ")?;
        let is_declared = before.split_whitespace().all(|word| {
            qualifiers.contains(&word.split('(').next().unwrap()) || word.ends_with(')')
        });
        let name = after.split(['(', '<']).next().filter(|_| is_declared)?;
        let margin = &before[..before.len() - before.trim_start().len()];
        // One without a body ends with its signature.
        let ends = |line: &&str| {
            let inside = line.strip_prefix(margin).unwrap_or_default();
            inside == "}" || inside.starts_with(')') && inside.ends_with(';')
        };
        let rest =
            if line.ends_with([';', '}']) { 0 } else { lines[at..].iter().position(ends)? };
        Some((name, rest + 1))
    });
    measured.collect()
}

#[test]
fn no_function_is_so_long_that_it_hides_another() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "actors", "tests", "benches"] {
        sources(&root.join(folder), &mut files);
    }
    let (mut long, mut count) = (Vec::new(), 0);

    for (path, text) in &files {
        for (name, lines) in functions(text) {
            count += 1;
            if lines > MOST_LINES_OF_A_FUNCTION {
                let file = path.strip_prefix(root).unwrap().display();
                long.push(format!("{file}: `{name}` has {lines} lines"));
            }
        }
    }

    assert!(count > 10_000, "{count}: functions are not found");
    assert!(long.is_empty(), "more than {MOST_LINES_OF_A_FUNCTION} lines: {long:#?}");
}
