//! Assignment of one setting in the text of a file: its value is replaced or added, all else stays as it is written,
//! comments included.

use serde_json::Value as Json;

use super::{
    field::json,
    problem::Position,
    yaml::{self, Entry, Node, Value},
};

/// The setting stands in a form that is not understood well enough to be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the setting cannot be changed by itself, as the file is written")]
pub struct Unchangeable;

/// The text with another value for a setting. A value is YAML in one line, or else a text.
pub fn assign(text: &str, path: &str, value: &str) -> Result<String, Unchangeable> {
    let keys: Vec<&str> = path.split('.').collect();
    let quoted = format!("'{}'", value.replace('\'', "''"));
    let before = parsed(text).ok_or(Unchangeable)?;
    let edited = [value, &quoted].into_iter().find_map(|value| {
        let edited = placed(text, &before, &keys, value)?;
        let mut wanted = json(&before)?;
        put(&mut wanted, &keys, meaning(value)?);
        // Whatever was not foreseen shows here: nothing else may mean something else now.
        (meaning(&edited)? == wanted).then_some(edited)
    });
    edited.ok_or(Unchangeable)
}

pub(super) fn parsed(text: &str) -> Option<Node> {
    let mut problems = Vec::new();
    let node = yaml::parse(text, "", &mut problems);
    problems.is_empty().then_some(node)
}

/// What a text says, however it is written.
pub(super) fn meaning(text: &str) -> Option<Json> {
    json(&parsed(text)?)
}

pub(super) fn put(tree: &mut Json, keys: &[&str], value: Json) {
    let [key, rest @ ..] = keys else {
        *tree = value;
        return;
    };
    if !tree.is_object() {
        *tree = Json::Null;
    }
    put(&mut tree[*key], rest, value);
}

/// The text with the value in its place, if that is a plain one.
fn placed(text: &str, root: &Node, keys: &[&str], value: &str) -> Option<String> {
    let (mut map, mut parent, mut keys) = (root, None::<&Entry>, keys);
    let mut in_flow = false;
    loop {
        in_flow |= begins(text, map)?.starts_with('{');
        let entries: &[Entry] = match &map.value {
            Value::Map(entries) => entries,
            Value::Null if is_worded(text, map) => {
                let inside = |value: String, key: &&str| format!("{{{key}: {value}}}");
                let whole = keys.iter().rfold(value.to_owned(), inside);
                return replaced(text, parent?, in_flow, &whole);
            }
            Value::Null => &[],
            Value::Scalar { .. } | Value::List(_) => return None,
        };
        let (key, rest) = keys.split_first()?;
        match entries.iter().find(|entry| entry.key == *key) {
            None => return added(text, parent, entries, in_flow, &nested(keys, value)),
            Some(entry) if rest.is_empty() => return replaced(text, entry, in_flow, value),
            Some(entry) => (map, parent, keys) = (&entry.value, Some(entry), rest),
        }
    }
}

/// Keys below each other, and the value of the last: lines with what each is indented by.
fn nested(keys: &[&str], value: &str) -> Vec<String> {
    let last = keys.len().saturating_sub(1);
    let line = |(depth, key): (usize, &&str)| {
        let value = if depth == last { format!(" {value}") } else { String::new() };
        format!("{}{key}:{value}", "  ".repeat(depth))
    };
    keys.iter().enumerate().map(line).collect()
}

fn added(
    text: &str,
    parent: Option<&Entry>,
    entries: &[Entry],
    in_flow: bool,
    lines: &[String],
) -> Option<String> {
    if in_flow {
        // In braces there is room for one.
        let ([line], Some(parent)) = (lines, parent) else { return None };
        let at = offset(text, parent.value.at)? + 1;
        let comma = if entries.is_empty() { "" } else { ", " };
        return Some(format!("{}{line}{comma}{}", &text[..at], &text[at..]));
    }
    let indent = match (entries.first(), parent) {
        (Some(first), _) => first.at.column - 1,
        (None, Some(parent)) => parent.at.column + 1,
        (None, None) => 0,
    };
    let lines: String =
        lines.iter().map(|line| format!("{}{line}\n", " ".repeat(indent))).collect();
    // Below the line of its parent, or at the end.
    let at = match parent {
        Some(parent) => {
            let line = offset(text, parent.at)?;
            line_end(text, line)
        }
        None => text.len(),
    };
    let (before, after) = text.split_at(at);
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    Some(format!("{before}{gap}{lines}{after}"))
}

fn replaced(text: &str, entry: &Entry, in_flow: bool, value: &str) -> Option<String> {
    if entry.value.value == Value::Null && !is_worded(text, &entry.value) {
        // What follows its colon may be a comment.
        let key = offset(text, entry.at)?;
        let at = key + text[key..].find(':')? + 1;
        return Some(format!("{} {value}{}", &text[..at], &text[at..]));
    }
    let start = offset(text, entry.value.at)?;
    let length = length(&text[start..], in_flow)?;
    Some(format!("{}{value}{}", &text[..start], &text[start + length..]))
}

/// Nothing may be said with a word.
fn is_worded(text: &str, nothing: &Node) -> bool {
    let word = || {
        let rest = begins(text, nothing)?;
        rest.get(..length(rest, true)?)
    };
    matches!(word(), Some("~" | "null" | "Null" | "NULL"))
}

/// Where the next line begins.
pub(super) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// How long a value is that ends on its line, or within brackets or quotes.
pub(super) fn length(text: &str, in_flow: bool) -> Option<usize> {
    match text.chars().next()? {
        '|' | '>' | '&' | '*' | '!' | '-'
            if !text[1..].starts_with(|c: char| c.is_ascii_digit()) =>
        {
            None
        }
        quote @ ('"' | '\'') => quoted(text, quote),
        '[' | '{' => bracketed(text),
        _ => {
            let line = text.lines().next().unwrap_or_default();
            let line = line.split(" #").next().unwrap_or_default();
            let end = if in_flow { line.find([',', ']', '}']) } else { None };
            Some(line[..end.unwrap_or(line.len())].trim_end().len())
        }
    }
}

pub(super) fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' if quote == '"' => {
                letters.next();
            }
            _ if letter == quote => {
                // A doubled one stands for itself.
                let is_doubled =
                    quote == '\'' && letters.next_if(|(_, next)| *next == quote).is_some();
                if !is_doubled {
                    return Some(at + quote.len_utf8());
                }
            }
            _ => {}
        }
    }
    None
}

fn bracketed(text: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(letter) = text[at..].chars().next() {
        match letter {
            '"' | '\'' => {
                at += quoted(&text[at..], letter)?;
                continue;
            }
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            _ => {}
        }
        at += letter.len_utf8();
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

pub(super) fn begins<'t>(text: &'t str, node: &Node) -> Option<&'t str> {
    Some(&text[offset(text, node.at)?..])
}

/// Where a position is in the text.
pub(super) fn offset(text: &str, Position { line, column }: Position) -> Option<usize> {
    let start = match line {
        1 => 0,
        _ => text.match_indices('\n').nth(line.checked_sub(2)?)?.0 + 1,
    };
    let mut letters = text[start..].char_indices().map(|(at, _)| start + at);
    letters.nth(column.checked_sub(1)?).or(Some(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-82: one value changes, and nothing else of the file, comments included.
    #[test]
    fn a_value_is_changed_or_added_where_it_belongs() {
        let file = "# Ours.\nserver:\n  # the door\n  port: 9 # nine\n  tls:\nlimits: {a: 'x, y', b: [1]}\n";
        let table = [
            ("server.port", "10", file.replace("9 #", "10 #")),
            ("server.bind", "::1", file.replace("  # the door", "  bind: ::1\n  # the door")),
            ("server.tls.cert", "/a b", file.replace("tls:\n", "tls:\n    cert: /a b\n")),
            ("server.tls", "{cert: a}", file.replace("tls:\n", "tls: {cert: a}\n")),
            ("limits.a", "z", file.replace("'x, y'", "z")),
            ("limits.b", "[1, 2]", file.replace("[1]", "[1, 2]")),
            ("limits.c", "3", file.replace("{a", "{c: 3, a")),
            ("store.every", "1h", format!("{file}store:\n  every: 1h\n")),
            // What would be something else without quotes is a text.
            ("store.note", "a: b # 'c'", format!("{file}store:\n  note: 'a: b # ''c'''\n")),
        ];
        for (path, value, expected) in table {
            assert_eq!(assign(file, path, value).as_deref(), Ok(expected.as_str()), "{path}");
        }
        for nothing in ["~", "null"] {
            let file = format!("a: {nothing} # none\nb: {{c: {nothing}}}\n");
            let table = [
                ("a", "1", file.replacen(nothing, "1", 1)),
                ("a.d", "1", file.replacen(nothing, "{d: 1}", 1)),
                ("b.c.d.e", "1", file.replace(&format!("{nothing}}}"), "{d: {e: 1}}}")),
            ];
            for (path, value, expected) in table {
                assert_eq!(assign(&file, path, value).as_deref(), Ok(expected.as_str()), "{path}");
            }
        }
        assert_eq!(assign("", "a.b", "1").as_deref(), Ok("a:\n  b: 1\n"));
        assert_eq!(assign("a: 1", "b", "2").as_deref(), Ok("a: 1\nb: 2\n"));
    }

    #[test]
    fn what_is_written_in_another_way_is_left_to_an_editor() {
        for (text, path) in [
            ("a:\n  - 1\n  - 2\n", "a"),
            ("a: |\n  words\n", "a"),
            ("a: 1\n", "a.b"),
            ("a: &x {b: 1}\nc: *x\n", "c.b"),
            ("a: [\n", "a"),
        ] {
            assert_eq!(assign(text, path, "7"), Err(Unchangeable), "{text}");
        }
    }
}
