//! A settings file as a tree that can be changed and written again.

use std::{fmt::Write as _, path::Path};

use crate::settings::{
    problem::{Problem, Problems},
    yaml::{self, Node, Value},
};

/// A value of a file. Maps keep their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Yaml {
    Null,
    /// Without quotes: a number, a truth value or a word.
    Plain(String),
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(String, Yaml)>),
}

/// Reads a file. `None` if there is none; otherwise why it cannot be read, line by line.
pub(super) fn read(path: &Path) -> Result<Option<Yaml>, String> {
    let name = path.display().to_string();
    let text = yaml::read_file(path).map_err(|problem| problem.to_string())?;
    text.map(|text| parse(&text, &name)).transpose()
}

pub(super) fn parse(text: &str, name: &str) -> Result<Yaml, String> {
    let mut problems = Vec::new();
    let root = yaml::parse(text, name, &mut problems);
    if problems.is_empty() { Ok(Yaml::from(root)) } else { Err(Problems(problems).to_string()) }
}

impl From<Node> for Yaml {
    fn from(node: Node) -> Self {
        match node.value {
            Value::Null => Self::Null,
            Value::Scalar { text, quoted: true } => Self::Text(text),
            Value::Scalar { text, .. } => Self::Plain(text),
            Value::List(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Map(entries) => Self::Map(
                entries.into_iter().map(|entry| (entry.key, Self::from(entry.value))).collect(),
            ),
        }
    }
}

impl Yaml {
    pub(super) fn map(entries: impl IntoIterator<Item = (&'static str, Yaml)>) -> Self {
        Self::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn texts(texts: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// The entries of a map; nothing for anything else.
    pub(super) fn into_entries(self) -> Vec<(String, Yaml)> {
        match self {
            Self::Map(entries) => entries,
            _ => Vec::new(),
        }
    }

    pub(super) fn items(&self) -> &[Yaml] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }

    /// A word, quoted or not.
    pub(super) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Plain(text) | Self::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Yaml> {
        match self {
            Self::Map(entries) => entries
                .iter()
                .find(|(name, value)| name == key && *value != Self::Null)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// Takes what stands at a path out, such as `profiles.default.model` or `allowed_tools[2]`.
    /// A key may hold dots, so the longest that fits counts. Returns whether there was something.
    pub(super) fn remove(&mut self, path: &str) -> bool {
        let Some((at, rest)) = self.step(path) else {
            return false;
        };
        match self {
            Self::Map(entries) if rest.is_empty() => drop(entries.remove(at)),
            Self::List(items) if rest.is_empty() => drop(items.remove(at)),
            Self::Map(entries) => return entries[at].1.remove(rest),
            Self::List(items) => return items[at].remove(rest),
            _ => return false,
        }
        true
    }

    /// Where the first step of a path leads, and the steps after it.
    fn step<'p>(&self, path: &'p str) -> Option<(usize, &'p str)> {
        match self {
            Self::Map(entries) => {
                let rest = |key: &str| {
                    let rest = path.strip_prefix(key)?;
                    (rest.is_empty() || rest.starts_with(['.', '['])).then_some(rest)
                };
                let entries = entries.iter().enumerate();
                let (at, rest) = entries
                    .filter_map(|(at, (key, _))| Some((at, rest(key)?)))
                    .min_by_key(|(_, rest)| rest.len())?;
                Some((at, rest.strip_prefix('.').unwrap_or(rest)))
            }
            Self::List(items) => {
                let (at, rest) = path.strip_prefix('[')?.split_once(']')?;
                let at = at.parse().ok().filter(|at| *at < items.len())?;
                Some((at, rest.trim_start_matches('.')))
            }
            _ => None,
        }
    }

    /// As a file holds it.
    pub(super) fn write(&self) -> String {
        let mut out = String::new();
        self.block(0, &mut out);
        out
    }

    fn block(&self, depth: usize, out: &mut String) {
        match self {
            Self::Map(entries) => {
                for (key, value) in entries {
                    let key = if is_simple(key) { key.clone() } else { quoted(key) };
                    value.line(&format!("{key}:"), depth, out);
                }
            }
            Self::List(items) => items.iter().for_each(|item| item.line("-", depth, out)),
            value => {
                let _ = writeln!(out, "{}{}", "  ".repeat(depth), value.inline());
            }
        }
    }

    /// Writes what stands before the value, and the value beside or below it.
    fn line(&self, before: &str, depth: usize, out: &mut String) {
        let indent = "  ".repeat(depth);
        if self.is_block() {
            let _ = writeln!(out, "{indent}{before}");
            self.block(depth + 1, out);
        } else {
            let _ = writeln!(out, "{indent}{before} {}", self.inline());
        }
    }

    fn is_block(&self) -> bool {
        match self {
            Self::Map(entries) => !entries.is_empty(),
            Self::List(items) => !items.is_empty(),
            _ => false,
        }
    }

    fn inline(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Plain(text) if is_simple(text) => text.clone(),
            Self::Plain(text) | Self::Text(text) => quoted(text),
            Self::List(_) => "[]".into(),
            Self::Map(_) => "{}".into(),
        }
    }
}

/// Needs no quotes, and is no more than one word.
fn is_simple(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    text.bytes().next().is_some_and(|byte| byte != b'-') && text.bytes().all(plain)
}

/// A text of JSON is a text of YAML.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Takes out what the reader of a file refuses, until it accepts the rest. Returns what went.
pub(super) fn settle(
    tree: &mut Yaml,
    check: impl Fn(&str) -> Result<(), Problems>,
) -> Result<Vec<Problem>, Problems> {
    let mut gone = Vec::new();
    loop {
        let Err(problems) = check(&tree.write()) else {
            return Ok(gone);
        };
        // From the end, so that places in a list stay what they were.
        let mut removed = 0;
        for problem in problems.0.iter().rev() {
            if !problem.path.is_empty() && tree.remove(&problem.path) {
                gone.push(problem.clone());
                removed += 1;
            }
        }
        if removed == 0 {
            return Err(problems);
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn tree(text: &str) -> Yaml {
        parse(text, "test").unwrap()
    }

    #[test]
    fn what_is_written_reads_as_the_same() {
        let text = "name: main\ncount: 7\non: true\nempty: []\nnone: {}\n\
                    said: \"a \\\"b\\\": # c\\nd\"\n\"*.host\":\n  rps: 0.5\n\
                    list:\n  - \"yes\"\n  -\n    path: \"/a b\"\n    mode: ro\n";

        let found = tree(text);

        assert_eq!(found.write(), text);
        assert_eq!(tree(&found.write()), found);
    }

    #[test]
    fn a_path_leads_to_its_value_also_through_keys_with_dots() {
        let mut found = tree("a: {b: 1, b.c: {d: 2, e: 3}}\nl: [x, {y: 1}, z]\n");

        assert!(found.remove("a.b.c.d"));
        assert!(found.remove("l[1].y"));
        assert!(found.remove("l[0]"));
        assert!(!found.remove("l[7]") && !found.remove("q"));

        assert_eq!(found, tree("a: {b: 1, b.c: {e: 3}}\nl: [{}, z]\n"));
    }

    #[test]
    fn what_a_reader_refuses_goes_and_is_told() {
        let mut found = tree("good: 1\nbad: 2\n");
        let check = |text: &str| {
            if text.contains("bad") {
                Err(Problems(vec![Problem {
                    file: "f".into(),
                    line: 2,
                    column: 1,
                    path: "bad".into(),
                    reason: "unknown key".into(),
                }]))
            } else {
                Ok(())
            }
        };

        let gone = settle(&mut found, check).unwrap();

        assert_eq!(found, tree("good: 1\n"));
        assert_eq!(gone.len(), 1);
    }
}
