//! Removal, renaming and rewriting of one setting in the text of a file. All else stays as it is written, comments included.

use serde_json::Value as Json;

use super::{
    assign::{
        Unchangeable, assign, begins, length, line_end, meaning, offset, parsed, put, quoted,
    },
    field::json,
    yaml::{Entry, Node, Value},
};

/// The text with another value for a setting, however that is written: what takes several lines is written anew.
pub fn rewrite(text: &str, path: &str, value: &str) -> Result<String, Unchangeable> {
    assign(text, path, value).or_else(|_| assign(&remove(text, path)?, path, value))
}

/// The text without a setting and what is inside it.
pub fn remove(text: &str, path: &str) -> Result<String, Unchangeable> {
    let keys: Vec<&str> = path.split('.').collect();
    edited(text, &keys, without, |tree| take(tree, &keys).map(drop))
}

/// The text with another key for a setting, which stays beside the same others.
pub fn rename(text: &str, path: &str, key: &str) -> Result<String, Unchangeable> {
    let keys: Vec<&str> = path.split('.').collect();
    let renamed: Vec<&str> = keys.iter().rev().skip(1).rev().copied().chain([key]).collect();
    let edit = |text: &str, found: &Found<'_>| renamed_key(text, found, key);
    edited(text, &keys, edit, |tree| {
        let value = take(tree, &keys)?;
        put(tree, &renamed, value);
        Some(())
    })
}

/// The text after an edit of a setting, if it then means what the same change of its tree means.
fn edited(
    text: &str,
    keys: &[&str],
    edit: impl FnOnce(&str, &Found<'_>) -> Option<String>,
    change: impl FnOnce(&mut Json) -> Option<()>,
) -> Result<String, Unchangeable> {
    let before = parsed(text).ok_or(Unchangeable)?;
    let edited = || {
        let edited = edit(text, &find(text, &before, keys)?)?;
        let mut wanted = json(&before)?;
        change(&mut wanted)?;
        (pruned(meaning(&edited)?) == pruned(wanted)).then_some(edited)
    };
    edited().ok_or(Unchangeable)
}

/// A section in which nothing is left says nothing, however it is written.
fn pruned(tree: Json) -> Json {
    match tree {
        Json::Object(map) if map.is_empty() => Json::Null,
        Json::Object(map) => map.into_iter().map(|(key, value)| (key, pruned(value))).collect(),
        other => other,
    }
}

/// Takes a value out; none if there is none.
fn take(tree: &mut Json, keys: &[&str]) -> Option<Json> {
    let (key, rest) = keys.split_first()?;
    let map = tree.as_object_mut()?;
    if rest.is_empty() { map.remove(*key) } else { take(map.get_mut(*key)?, rest) }
}

/// A setting among those of its section.
struct Found<'n> {
    entries: &'n [Entry],
    place: usize,
    in_flow: bool,
}

fn find<'n>(text: &str, root: &'n Node, keys: &[&str]) -> Option<Found<'n>> {
    let (mut map, mut in_flow) = (root, false);
    let mut keys = keys.iter();
    loop {
        in_flow |= begins(text, map)?.starts_with('{');
        let Value::Map(entries) = &map.value else { return None };
        let key = keys.next()?;
        let place = entries.iter().position(|entry| entry.key == *key)?;
        if keys.len() == 0 {
            return Some(Found { entries, place, in_flow });
        }
        map = &entries[place].value;
    }
}

fn without(text: &str, Found { entries, place, in_flow }: &Found<'_>) -> Option<String> {
    let entry = &entries[*place];
    let start = offset(text, entry.at)?;
    let (from, to) = match entries.get(place + 1) {
        _ if !in_flow => lines_of(text, entry)?,
        Some(next) => (start, offset(text, next.at)?),
        None => {
            let value = offset(text, entry.value.at)?;
            let from = if *place == 0 { start } else { text[..start].rfind(',')? };
            (from, value + length(&text[value..], true)?)
        }
    };
    Some(format!("{}{}", &text[..from], &text[to..]))
}

/// The lines of a setting: its own, and those further in that follow.
fn lines_of(text: &str, entry: &Entry) -> Option<(usize, usize)> {
    let key = offset(text, entry.at)?;
    let start = text[..key].rfind('\n').map_or(0, |end| end + 1);
    let indent = &text[start..key];
    if !indent.trim().is_empty() {
        return None;
    }
    let value = offset(text, entry.value.at)?;
    // What is in brackets or quotes may go on as far out as its key.
    let last = match &entry.value.value {
        Value::Null => key,
        _ if text[value..].starts_with(['[', '{', '"', '\'']) => {
            value + length(&text[value..], false)?
        }
        _ => key,
    };
    let mut end = line_end(text, last);
    let is_list = matches!(entry.value.value, Value::List(_));
    let mut at = end;
    for line in text[end..].split_inclusive('\n') {
        at += line.len();
        let words = line.trim_start_matches(' ');
        let depth = line.len() - words.len();
        // A list may stand as far out as its key.
        let is_item = is_list && depth == indent.len() && words.starts_with('-');
        if words.trim().is_empty() {
            continue;
        }
        if depth <= indent.len() && !is_item {
            break;
        }
        end = at;
    }
    Some((start, end))
}

fn renamed_key(text: &str, Found { entries, place, .. }: &Found<'_>, key: &str) -> Option<String> {
    let Entry { key: before, at, .. } = &entries[*place];
    if entries.iter().any(|entry| entry.key == key) {
        return None;
    }
    let start = offset(text, *at)?;
    let length = match text[start..].chars().next()? {
        quote @ ('"' | '\'') => quoted(&text[start..], quote)?,
        _ => before.len(),
    };
    Some(format!("{}{key}{}", &text[..start], &text[start + length..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-128: a setting goes with all that is inside it, and nothing else of the file, comments included.
    #[test]
    fn a_setting_is_removed_with_what_is_inside_it() {
        let file = "# Ours.\na: 1 # one\n# the list\nb:\n- x\n- y\n\nc:\n  # inside\n  d: |\n    words\n\n    more\n  e: 'it''s'\n\
                    f: {g: 1, h: [2, 3], i: 'x, y'}\nj: [\n  1\n]\n# the end\n";
        let table = [
            ("a", file.replace("a: 1 # one\n", "")),
            ("b", file.replace("b:\n- x\n- y\n", "")),
            ("c.d", file.replace("  d: |\n    words\n\n    more\n", "")),
            ("c.e", file.replace("  e: 'it''s'\n", "")),
            ("f.g", file.replace("g: 1, ", "")),
            ("f.h", file.replace("h: [2, 3], ", "")),
            ("f.i", file.replace(", i: 'x, y'", "")),
            ("j", file.replace("j: [\n  1\n]\n", "")),
        ];
        for (path, expected) in table {
            assert_eq!(remove(file, path).as_deref(), Ok(expected.as_str()), "{path}");
        }
        assert_eq!(remove("a:\n  b: 1\n", "a.b").as_deref(), Ok("a:\n"));
        assert_eq!(remove("a: {b: 1}\n", "a.b").as_deref(), Ok("a: {}\n"));
        for (text, path) in [("a: 1\n", "b"), ("a: &x {b: 1}\nc: *x\n", "a"), ("a: [\n", "a")] {
            assert_eq!(remove(text, path), Err(Unchangeable), "{text}");
        }
    }

    /// OP-128
    #[test]
    fn a_setting_is_renamed_where_it_stands() {
        let file = "# Ours.\na: 1 # one\nb:\n  'c': [2]\nd: {e: 3}\n";
        let table = [
            ("a", "z", file.replace("a: 1", "z: 1")),
            ("b.c", "z", file.replace("'c'", "z")),
            ("d.e", "z", file.replace("e: 3", "z: 3")),
        ];
        for (path, key, expected) in table {
            assert_eq!(rename(file, path, key).as_deref(), Ok(expected.as_str()), "{path}");
        }
        for (path, key) in [("a", "b"), ("y", "z")] {
            assert_eq!(rename(file, path, key), Err(Unchangeable), "{path}");
        }
    }
}
