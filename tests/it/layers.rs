//! The layers of the code, read from the paths in it: no file uses one that uses it, and at the edges a folder uses only those
//! below it.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path},
};

use crate::workspace::sources;

/// What stands in `src/`, each above all that it may use.
const EDGES: [&str; 37] = [
    "build",
    "main",
    "cli",
    "boot",
    "import",
    "http",
    "channels",
    "doctor",
    "briefing",
    "retention",
    "transcript",
    "tools",
    "triggers",
    "prompt",
    "teams",
    "api",
    "plugins",
    "mcp",
    "browser",
    "taint",
    "engines",
    "vault",
    "memory",
    "policy",
    "providers",
    "files",
    "sandbox",
    "timezone",
    "storage",
    "logging",
    "settings",
    "scrub",
    "system",
    "removal",
    "json_limits",
    "time",
    "text",
];

type Imports = BTreeMap<String, BTreeSet<String>>;

/// Whether what stands below a file is a part of it: a child that uses its parent is no circle then.
#[derive(Clone, Copy, PartialEq)]
enum Children {
    Parts,
    Apart,
}

/// The modules of a folder that are no tests, such as `team::turn`, with those that each names.
fn imports(folder: &str, children: Children) -> Imports {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    sources(&root, &mut files);
    let files = files.into_iter().map(|(path, text)| {
        let inside = path.strip_prefix(&root).unwrap().with_extension("");
        let parts = inside.components().map(Component::as_os_str);
        let parts: Vec<_> = parts.map(|part| part.to_str().unwrap().to_owned()).collect();
        (parts.into_iter().filter(|part| part != "mod").collect::<Vec<_>>(), text)
    });
    let is_test = |part: &String| part == "stored_form" || part.contains("tests");
    let files: Vec<_> = files.filter(|(path, _)| !path.iter().any(is_test)).collect();
    let known: BTreeSet<String> = files.iter().map(|(path, _)| path.join("::")).collect();
    let imported = |(path, text): &(Vec<String>, String)| {
        let name = path.join("::");
        let text = text.split("mod tests {").next().unwrap();
        // Who may see something is no use of it.
        let text = text.replace("pub(in crate::", "pub(");
        // A module within the file names the file itself so.
        let own = |line: &&str| *line != "    use super::*;";
        let lines = text.lines().filter(own);
        let lines = lines.map(|line| line.split("//").next().unwrap().trim());
        let text = lines.collect::<Vec<_>>().join("\n");
        let (mut used, mut parts) = (Vec::new(), text.split("\nuse "));
        named(parts.next().unwrap(), &mut used);
        for (tree, rest) in parts.filter_map(|part| part.split_once(';')) {
            used.extend(leaves(&tree.split_whitespace().collect::<String>()));
            named(rest, &mut used);
        }
        let is_child =
            |part: &str| children == Children::Apart && known.contains(&format!("{name}::{part}"));
        let paths = used.iter().filter_map(|used| absolute(path, used, is_child));
        let homes = paths.filter_map(|used| home(&known, used)).filter(|home| *home != name);
        (name.clone(), homes.collect())
    };
    files.iter().map(imported).collect()
}

/// The paths that code names without importing them.
fn named(code: &str, found: &mut Vec<String>) {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    let paths = code.split(|letter| !is_part(letter)).filter(|path| path.contains("::"));
    found.extend(paths.map(str::to_owned));
}

/// The paths of a use tree such as `a::{b, c::{d, e}}`.
fn leaves(tree: &str) -> Vec<String> {
    let Some((before, inside)) = tree.split_once('{') else {
        return vec![tree.to_owned()];
    };
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for letter in inside.strip_suffix('}').unwrap_or(inside).chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(letter);
    }
    let leaves = parts.iter().filter(|part| !part.is_empty()).flat_map(|part| leaves(part));
    leaves.map(|leaf| format!("{before}{leaf}")).collect()
}

/// The path from the crate's root; none of what is imported from elsewhere.
fn absolute(module: &[String], used: &str, is_child: impl Fn(&str) -> bool) -> Option<Vec<String>> {
    let mut parts = used.split("::").peekable();
    let mut base = match *parts.peek()? {
        "crate" => {
            parts.next();
            Vec::new()
        }
        "self" => {
            parts.next();
            module.to_vec()
        }
        "super" => module.to_vec(),
        part if is_child(part) => module.to_vec(),
        _ => return None,
    };
    while parts.next_if_eq(&"super").is_some() {
        base.pop();
    }
    base.extend(parts.map(str::to_owned));
    Some(base)
}

/// The module that holds what a path names.
fn home(known: &BTreeSet<String>, mut path: Vec<String>) -> Option<String> {
    while !path.is_empty() {
        let name = path.join("::");
        if known.contains(&name) {
            return Some(name);
        }
        path.pop();
    }
    None
}

/// All that a module uses, also through others.
fn reach<'a>(imports: &'a Imports, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(name) = waiting.pop() {
        let used = imports.get(name).into_iter().flatten();
        waiting.extend(used.map(String::as_str).filter(|used| seen.insert(*used)));
    }
    seen
}

/// The files that use one another, a line for each circle.
fn circles(imports: &Imports) -> BTreeSet<String> {
    let reaches: BTreeMap<&str, BTreeSet<&str>> =
        imports.keys().map(|name| (name.as_str(), reach(imports, name))).collect();
    let circle = |name: &str| {
        let both = reaches[name].iter().filter(|other| reaches[*other].contains(name));
        both.copied().collect::<Vec<_>>().join(" ")
    };
    reaches.keys().map(|name| circle(name)).filter(|circle| !circle.is_empty()).collect()
}

/// In the spine that holds for a folder's first file and those below it too: what they share stands in a file of its own. At
/// the edges a file below another one may still use it: the list of a folder and its members are one thing there.
#[test]
fn no_file_uses_one_that_uses_it() {
    let (spine, edges) = (imports("actors", Children::Apart), imports("src", Children::Parts));
    assert!(spine["team::session"].contains("team::turn"), "the imports are not read");
    assert!(spine["team"].contains("team::session"), "the paths to what stands below are not read");
    // Named in an expression, and not imported.
    assert!(edges["mcp::program"].contains("sandbox::process"), "the paths are not read");

    assert_eq!(circles(&spine), BTreeSet::new());
    assert_eq!(circles(&edges), BTreeSet::new());
}

#[test]
fn folders_of_the_edges_use_only_those_below_them() {
    let imports = imports("src", Children::Parts);
    let folder = |name: &str| name.split("::").next().unwrap().to_owned();
    let place = |name: &str| EDGES.iter().position(|known| *known == name);
    let mut upwards = BTreeSet::new();

    for (name, used) in imports.iter().filter(|(name, _)| *name != "lib") {
        let from = folder(name);
        let above = place(&from).unwrap_or_else(|| panic!("`{from}` has no layer"));
        let used = used.iter().map(|used| (folder(used), used)).filter(|(to, _)| *to != from);
        for (to, used) in used.filter(|(to, _)| to != "lib") {
            if place(&to).is_none_or(|below| below < above) {
                upwards.insert(format!("{name} uses {used}"));
            }
        }
    }

    assert!(upwards.is_empty(), "{upwards:#?}");
}
