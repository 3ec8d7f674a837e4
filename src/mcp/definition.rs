//! Tool definitions of a server, as far as they are taken over: all of it is a stranger's text.

use std::collections::HashSet;

use hivewright_actors::{excerpt, text::is_unseen, wildcard::fits};
use rmcp::model::Tool;
use serde_json::{Map, Value, json};

/// The longest description of a field, in characters.
const LONGEST_WORDS: usize = 400;
/// How deep the values of a schema lie at most.
const DEEPEST: usize = 24;
/// The longest name of a field that model APIs take.
const LONGEST_FIELD: usize = 64;

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
/// What no model API takes at the top of a schema. The server still checks it.
const NOT_AT_TOP: [&str; 8] = ["allOf", "anyOf", "else", "enum", "if", "not", "oneOf", "then"];

/// What is taken over at most.
pub(crate) struct Bounds {
    pub(crate) most_tools: usize,
    /// The longest name, in bytes.
    pub(crate) longest_name: usize,
    /// What names are made of besides letters and digits.
    pub(crate) in_names: &'static [u8],
    /// The longest description of a tool, in characters.
    pub(crate) longest_description: usize,
    /// The largest schema, in bytes of JSON.
    pub(crate) largest_schema: usize,
    /// The largest schemas of all tools together.
    pub(crate) largest_of_all: usize,
}

impl Bounds {
    pub(super) const OF_SERVERS: Self = Self {
        most_tools: 128,
        longest_name: 128,
        in_names: b"_-./",
        longest_description: 1_024,
        largest_schema: 16 << 10,
        largest_of_all: 128 << 10,
    };
}

/// A tool of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    pub name: String,
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
    /// The server says that it changes nothing.
    pub says_read_only: bool,
    /// The server says that doing it twice is doing it once.
    pub says_idempotent: bool,
}

/// What a server offers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definitions {
    pub tools: Vec<Definition>,
    /// What was left out and why, for the operator.
    pub left_out: Vec<String>,
}

/// Takes over what is sound and wanted. The rest is named.
pub(crate) fn take(offered: Vec<Tool>, wanted: &[String], bounds: &Bounds) -> Definitions {
    let mut taken = Definitions::default();
    let (mut names, mut bytes) = (HashSet::new(), 0);
    let too_many =
        format!("at most {} tools are taken; choose them with `tools`", bounds.most_tools);
    for tool in offered {
        let name = excerpt::line(&shown(&tool.name), 80);
        match read(tool, wanted, bounds) {
            Ok(None) => {}
            Err(reason) => taken.left_out.push(format!("`{name}`: {reason}")),
            Ok(Some((definition, size))) => {
                bytes += size;
                let reason = if taken.tools.len() == bounds.most_tools {
                    too_many.as_str()
                } else if bytes > bounds.largest_of_all {
                    "the schemas of all tools are too large together; choose them with `tools`"
                } else if !names.insert(definition.name.clone()) {
                    "the server names it twice"
                } else {
                    taken.tools.push(definition);
                    continue;
                };
                taken.left_out.push(format!("`{name}`: {reason}"));
            }
        }
    }
    let most = 20;
    if taken.left_out.len() > most {
        let more = taken.left_out.len() - most;
        taken.left_out.truncate(most);
        taken.left_out.push(format!("and {more} more"));
    }
    taken.tools.sort_by(|one, other| one.name.cmp(&other.name));
    taken
}

/// The tool with the size of its schema; none if it is not wanted.
fn read(
    tool: Tool,
    wanted: &[String],
    bounds: &Bounds,
) -> Result<Option<(Definition, usize)>, String> {
    let name = tool.name.into_owned();
    let Bounds { longest_name, in_names, largest_schema, .. } = bounds;
    let good = |byte: u8| byte.is_ascii_alphanumeric() || in_names.contains(&byte);
    if !(1..=*longest_name).contains(&name.len()) || !name.bytes().all(good) {
        let others = String::from_utf8_lossy(in_names);
        return Err(format!(
            "its name is not made of 1 to {longest_name} letters, digits and any of `{others}`"
        ));
    }
    if !is_chosen(wanted, |pattern| fits(pattern, &name)) {
        return Ok(None);
    }
    let mut schema = (*tool.input_schema).clone();
    for keyword in NOT_AT_TOP {
        schema.remove(keyword);
    }
    let schema = object(schema)?;
    let size = schema.to_string().len();
    if size > *largest_schema {
        return Err(format!("its schema has {size} bytes; at most {largest_schema} are taken"));
    }
    let description = shown(tool.description.as_deref().unwrap_or_default());
    let hints = tool.annotations.unwrap_or_default();
    let says_read_only = hints.read_only_hint == Some(true);
    Ok(Some((
        Definition {
            description: excerpt::line(&description, bounds.longest_description),
            name,
            schema,
            says_read_only,
            says_idempotent: hints.idempotent_hint == Some(true),
        },
        size,
    )))
}

/// Whether one of the patterns fits, and none with a `!` in front does.
pub(super) fn is_chosen(patterns: &[String], fits: impl Fn(&str) -> bool) -> bool {
    let any = |removed: bool| {
        patterns.iter().any(|pattern| match pattern.strip_prefix('!') {
            Some(pattern) => removed && fits(pattern),
            None => !removed && fits(pattern),
        })
    };
    any(false) && !any(true)
}

/// A schema of an object that model APIs take, with its words cut.
pub(crate) fn object(mut schema: Map<String, Value>) -> Result<Value, String> {
    match schema.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        None => {
            schema.insert("type".to_owned(), json!("object"));
        }
        Some(_) => return Err("its schema is not one of an object".to_owned()),
    }
    schema.entry("properties").or_insert_with(|| json!({}));
    for keyword in ["$schema", "$id", "$comment"] {
        schema.remove(keyword);
    }
    let mut schema = Value::Object(schema);
    if depth(&schema) > DEEPEST {
        return Err(format!("its schema is nested more than {DEEPEST} deep"));
    }
    let root = schema.clone();
    check(&mut schema, &root)?;
    Ok(schema)
}

fn depth(value: &Value) -> usize {
    let below = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(fields) => fields.values().map(depth).max(),
        _ => return 0,
    };
    1 + below.unwrap_or(0)
}

/// Refuses what a model API would refuse together with the whole request, and cuts the words.
fn check(schema: &mut Value, root: &Value) -> Result<(), String> {
    let keywords = match schema {
        Value::Object(keywords) => keywords,
        Value::Bool(_) => return Ok(()),
        _ => return Err("a part of its schema is not a schema".to_owned()),
    };
    for (keyword, value) in keywords {
        let wrong = || Err(format!("`{keyword}` of its schema cannot be read"));
        match (keyword.as_str(), value) {
            ("type", Value::String(kind)) if TYPES.contains(&kind.as_str()) => {}
            ("type", Value::Array(kinds)) if kinds.iter().all(is_type) && !kinds.is_empty() => {}
            ("type", _) => return wrong(),
            ("$ref", Value::String(path)) => {
                let found = path.strip_prefix('#').and_then(|path| root.pointer(path));
                if !path.starts_with("#/") || found.is_none() {
                    return Err("its schema refers to something that is not in it".to_owned());
                }
            }
            ("$ref" | "$dynamicRef" | "$recursiveRef", _) => return wrong(),
            ("properties", Value::Object(fields)) => {
                for (name, field) in fields {
                    if !is_field(name) {
                        return Err(
                            "a field of its schema has a name that models cannot write".to_owned()
                        );
                    }
                    check(field, root)?;
                }
            }
            ("$defs" | "definitions" | "patternProperties", Value::Object(named)) => {
                named.values_mut().try_for_each(|inner| check(inner, root))?;
            }
            ("properties" | "$defs" | "definitions" | "patternProperties", _) => return wrong(),
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(inner))
                if !inner.is_empty() =>
            {
                inner.iter_mut().try_for_each(|inner| check(inner, root))?;
            }
            ("anyOf" | "oneOf" | "allOf" | "prefixItems", _) => return wrong(),
            ("items" | "additionalProperties" | "not" | "contains" | "propertyNames", inner) => {
                check(inner, root)?;
            }
            ("required", Value::Array(names)) if names.iter().all(Value::is_string) => {}
            ("enum", Value::Array(words)) if !words.is_empty() => {}
            ("required" | "enum", _) => return wrong(),
            ("title" | "description" | "$comment", Value::String(text)) => {
                *text = excerpt::line(&shown(text), LONGEST_WORDS);
            }
            ("title" | "description" | "$comment", _) => return wrong(),
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn is_type(kind: &Value) -> bool {
    kind.as_str().is_some_and(|kind| TYPES.contains(&kind))
}

fn is_field(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.$".contains(&byte);
    (1..=LONGEST_FIELD).contains(&name.len()) && name.bytes().all(good)
}

/// A text without what nobody sees.
pub(crate) fn shown(text: &str) -> String {
    let seen = |c: &char| !is_unseen(*c) && (!c.is_control() || matches!(c, '\n' | '\t'));
    text.chars().filter(seen).collect::<String>().trim().to_owned()
}
