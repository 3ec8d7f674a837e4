//! Schema validation: a walk over a value beside the schema that it should fit.

use std::{collections::HashSet, fmt};

use hivewright_actors::{
    excerpt,
    text::{Span, Text, quoted},
};
use serde_json::{Map, Value};

use crate::text::{did_you_mean, plain, unknown_field};

/// The most characters that are repeated of a name that somebody sent.
const LONGEST_NAME: usize = 64;

/// References that are followed one after another.
const MOST_REFERENCES: usize = 32;

/// The syntax check of a [`Text`].
pub struct Format {
    name: &'static str,
    check: fn(&str) -> Result<(), String>,
}

impl Format {
    pub const fn of<T: Text>() -> Self {
        let check = |text: &str| text.parse::<T>().map(drop).map_err(|error| error.to_string());
        Self { name: T::FORMAT, check }
    }
}

/// One step on the way to a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    Field(String),
    Item(usize),
}

/// The way to a value, kept in parts: it also leads to a line of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(pub Vec<Step>);

impl Path {
    pub fn field(&self, name: &str) -> Self {
        self.then(Step::Field(excerpt::line(name, LONGEST_NAME)))
    }

    fn item(&self, index: usize) -> Self {
        self.then(Step::Item(index))
    }

    fn then(&self, step: Step) -> Self {
        Self(self.0.iter().cloned().chain([step]).collect())
    }
}

/// Such as `config.hours[2]`.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, step) in self.0.iter().enumerate() {
            match step {
                Step::Field(name) if place == 0 => f.write_str(name)?,
                Step::Field(name) => write!(f, ".{name}")?,
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// What is wrong with a value. It never says what was found, which may be a secret in the wrong place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: Path,
    pub reason: String,
    /// The name that was probably meant.
    pub meant: Option<String>,
}

impl Problem {
    pub fn new(path: Path, reason: impl fmt::Display) -> Self {
        Self { path, reason: reason.to_string(), meant: None }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = if self.path.0.is_empty() { "" } else { ": " };
        write!(f, "{}{colon}{}", self.path, self.reason)
    }
}

/// Everything that is wrong with an input; at least one problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("; "))]
pub struct Problems(pub Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// The schema behind references and `Option`. One that leads on and on, or to itself, says nothing.
pub(super) fn resolve<'a>(root: &'a Value, mut schema: &'a Value) -> &'a Value {
    for _ in 0..MOST_REFERENCES {
        let inner = match schema["anyOf"].as_array().map(Vec::as_slice) {
            Some([some, null]) if null["type"] == "null" => Some(some),
            _ => schema["$ref"].as_str().and_then(|reference| root.pointer(reference.get(1..)?)),
        };
        match inner {
            Some(inner) => schema = inner,
            None => return schema,
        }
    }
    &Value::Null
}

/// The words of an enum; documented ones are a `oneOf` of constants.
pub fn words(schema: &Value) -> Vec<&str> {
    let parts = schema["oneOf"].as_array().into_iter().flatten();
    let own = schema["enum"].as_array().into_iter().flatten().chain(schema.get("const"));
    parts.flat_map(words).chain(own.filter_map(Value::as_str)).collect()
}

/// It is another word for one of an enum.
fn is_alias(schema: &Value, word: &str) -> bool {
    let parts = schema["oneOf"].as_array().into_iter().flatten();
    parts.filter_map(|part| part["x-aliases"].as_array()).flatten().any(|alias| alias == word)
}

pub(super) fn has_type(schema: &Value, name: &str) -> bool {
    let types = &schema["type"];
    types == name || types.as_array().is_some_and(|types| types.iter().any(|one| one == name))
}

/// What may be null may be left out, and that is what `required` says.
pub fn leave_out_null(keywords: &mut Map<String, Value>) {
    if let Some(Value::Array(mut variants)) = keywords.remove("anyOf") {
        variants.retain(|variant| variant["type"] != "null");
        match variants.as_mut_slice() {
            [Value::Object(only)] => {
                for (keyword, value) in std::mem::take(only) {
                    // What the field says goes before what its type says.
                    keywords.entry(keyword).or_insert(value);
                }
            }
            _ => {
                keywords.insert("anyOf".to_owned(), Value::Array(variants));
            }
        }
    }
    if let Some(Value::Array(types)) = keywords.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            keywords.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = keywords.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
}

/// What a schema wants, for a message.
fn expected(schema: &Value) -> String {
    let bounds = |keys: [&str; 2]| {
        let [least, most] = keys.map(|key| schema.get(key).map(plain));
        match (least, most) {
            (Some(least), Some(most)) => Some(format!("{least} to {most}")),
            (Some(least), None) => Some(format!("at least {least}")),
            (None, Some(most)) => Some(format!("at most {most}")),
            (None, None) => None,
        }
    };
    let from = |name: &str, keys| match bounds(keys) {
        Some(range) if range.starts_with("at ") => format!("{name} of {range}"),
        Some(range) => format!("{name} from {range}"),
        None => name.to_owned(),
    };
    let words = words(schema);
    if !words.is_empty() {
        return format!("one of {}", quoted(&words));
    }
    let is = |name| has_type(schema, name);
    if is("integer") {
        from("a whole number", ["minimum", "maximum"])
    } else if is("number") {
        from("a number", ["minimum", "maximum"])
    } else if is("boolean") {
        "`true` or `false`".to_owned()
    } else if is("array") {
        match bounds(["minItems", "maxItems"]) {
            Some(range) => format!("{range} items"),
            None => "a list".to_owned(),
        }
    } else if is("string") && schema["format"] == Span::FORMAT {
        from("a duration", ["x-minimum", "x-maximum"])
    } else if is("string") {
        bounds(["minLength", "maxLength"])
            .map_or_else(|| "text".to_owned(), |range| format!("{range} characters"))
    } else {
        "an object".to_owned()
    }
}

/// Everything in which a value does not fit a schema.
pub(super) fn check(schema: &Value, value: &Value, formats: &[Format]) -> Vec<Problem> {
    let mut check = Check { root: schema, formats, problems: Vec::new() };
    check.value(schema, value, &Path::default());
    check.problems
}

/// The walk, for as much of JSON Schema as schemars derives.
struct Check<'a> {
    root: &'a Value,
    formats: &'a [Format],
    problems: Vec<Problem>,
}

impl<'a> Check<'a> {
    fn report(&mut self, path: &Path, reason: impl fmt::Display) {
        self.problems.push(Problem::new(path.clone(), reason));
    }

    fn value(&mut self, schema: &'a Value, value: &Value, path: &Path) {
        let is_option = schema["anyOf"].is_array() || has_type(schema, "null");
        let schema = resolve(self.root, schema);
        let words = words(schema);
        let within = |keys, found: usize| is_within(schema, keys, Value::as_u64, found as u64);
        let fits = match value {
            Value::Null if is_option => true,
            // Anything goes, or an untagged enum, of which only serde knows.
            _ if schema["type"].is_null() && schema["oneOf"].is_null() && words.is_empty() => true,
            Value::String(word) if !words.is_empty() => {
                words.contains(&word.as_str()) || is_alias(schema, word)
            }
            Value::Object(fields) if has_type(schema, "object") || schema["oneOf"].is_array() => {
                return self.object(schema, fields, path);
            }
            Value::Array(items) if has_type(schema, "array") => {
                let mut seen = HashSet::new();
                for (index, item) in items.iter().enumerate() {
                    self.value(&schema["items"], item, &path.item(index));
                    if schema["uniqueItems"] == true && !seen.insert(item) {
                        self.report(&path.item(index), "given twice");
                    }
                }
                within(["minItems", "maxItems"], items.len())
            }
            Value::String(text) if has_type(schema, "string") => {
                let format = self.formats.iter().find(|format| schema["format"] == format.name);
                if let Some(Err(reason)) = format.map(|format| (format.check)(text)) {
                    return self.report(path, reason);
                }
                let span = |value: &Value| value.as_str()?.parse::<Span>().ok();
                let found = text.parse().ok().filter(|_| schema["format"] == Span::FORMAT);
                within(["minLength", "maxLength"], text.chars().count())
                    && found.is_none_or(|found: Span| {
                        is_within(schema, ["x-minimum", "x-maximum"], span, found)
                    })
            }
            Value::Number(number) => {
                let is_whole = has_type(schema, "integer") && !number.is_f64();
                let found = number.as_f64().unwrap_or_default();
                (is_whole || has_type(schema, "number"))
                    && is_within(schema, ["minimum", "maximum"], Value::as_f64, found)
            }
            Value::Bool(_) => has_type(schema, "boolean"),
            _ => false,
        };
        if !fits {
            self.report(path, format!("expected {}", expected(schema)));
        }
    }

    /// Names that nobody knows come first: whoever misspelt one did not leave another out.
    fn object(&mut self, schema: &'a Value, fields: &Map<String, Value>, path: &Path) {
        let mut parts = vec![schema];
        if let Some(variants) = schema["oneOf"].as_array() {
            let Some(variant) = self.variant(schema, variants, fields, path) else { return };
            parts.push(variant);
        }
        let properties =
            || parts.iter().filter_map(|part| part["properties"].as_object()).flatten();
        let names: Vec<&str> = properties().map(|(name, _)| name.as_str()).collect();
        let closing = ["additionalProperties", "unevaluatedProperties"];
        let is_closed = parts.iter().any(|part| closing.iter().any(|key| part[key] == false));
        for name in fields.keys().filter(|name| is_closed && !names.contains(&name.as_str())) {
            let meant = did_you_mean(name, names.iter().copied()).map(str::to_owned);
            let problem = Problem::new(path.field(name), unknown_field(name, &names));
            self.problems.push(Problem { meant, ..problem });
        }
        for (name, value) in fields {
            match properties().find(|(known, _)| *known == name) {
                Some((_, schema)) => self.value(schema, value, &path.field(name)),
                None if is_closed => {}
                None => self.value(&schema["additionalProperties"], value, &path.field(name)),
            }
        }
        let required = parts.iter().filter_map(|part| part["required"].as_array()).flatten();
        for name in required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name)) {
            self.report(path, format!("missing field `{name}`"));
        }
    }

    /// The variant that the tag names, or without a tag the one whose fields are there. An object among
    /// words can be no other.
    fn variant(
        &mut self,
        schema: &'a Value,
        variants: &'a [Value],
        fields: &Map<String, Value>,
        path: &Path,
    ) -> Option<&'a Value> {
        let mut properties =
            variants.iter().filter_map(|one| one["properties"].as_object()).flatten();
        let Some((tag, _)) = properties.find(|(_, field)| field.get("const").is_some()) else {
            let has = |name: &Value| name.as_str().is_some_and(|name| fields.contains_key(name));
            let required = |one: &'a Value| one["required"].as_array();
            let fits = |one: &&'a Value| required(one).is_some_and(|all| all.iter().all(has));
            let mut objects = variants.iter().filter(|one| one["properties"].is_object());
            let only = objects.next().filter(|_| objects.next().is_none());
            let found = variants.iter().find(fits).or(only);
            if found.is_none() {
                self.report(path, format!("expected {}", expected(schema)));
            }
            return found;
        };
        let word = |one: &'a Value| one["properties"][tag]["const"].as_str();
        let words: Vec<&str> = variants.iter().filter_map(word).collect();
        let found = fields.get(tag).and_then(Value::as_str);
        let variant = variants.iter().find(|one| found.is_some() && word(one) == found);
        if variant.is_none() {
            self.report(&path.field(tag), format!("expected one of {}", quoted(&words)));
        }
        variant
    }
}

fn is_within<V: PartialOrd>(
    schema: &Value,
    bounds: [&str; 2],
    read: impl Fn(&Value) -> Option<V>,
    found: V,
) -> bool {
    let [least, most] = bounds.map(|name| schema.get(name).and_then(&read));
    least.is_none_or(|least| found >= least) && most.is_none_or(|most| found <= most)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_refers_to_itself_says_nothing() {
        let circle =
            json!({ "$defs": { "a": { "$ref": "#/$defs/b" }, "b": { "$ref": "#/$defs/a" } } });

        let own = json!({ "$ref": "#" });

        assert_eq!(resolve(&own, &own), &Value::Null);
        assert_eq!(resolve(&circle, &circle["$defs"]["a"]), &Value::Null);
        assert!(check(&json!({ "$ref": "#" }), &json!({ "a": 1 }), &[]).is_empty());
    }
}
