//! Validation by a stranger's JSON Schema: a walk over arguments or settings beside it, within bounds.

use std::{collections::HashSet, fmt};

use hivewright_actors::excerpt;
use regex::RegexBuilder;
use serde_json::{Map, Value};

/// What a walk may take. A schema can make one endless: what takes more is refused.
const MOST_STEPS: usize = 200_000;
const DEEPEST: usize = 96;
/// How many steps a pattern counts for, and how much memory it may take.
const PATTERN_STEPS: usize = 200;
const PATTERN_BYTES: usize = 64 << 10;
/// So much that is wrong with arguments is told.
const MOST_TOLD: usize = 8;
/// What is repeated of a name, in characters.
const LONGEST_NAME: usize = 64;

/// What is said of a field that is not there.
const MISSING: &str = "is missing";

/// Why a value does not fit. It never says what was found, which may be a secret in the wrong place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// A JSON pointer to it.
    pub pointer: String,
    /// The same for people, such as `filter.tags[0]`.
    path: String,
    pub reason: String,
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, reason, .. } = self;
        match reason.as_str() {
            _ if path.is_empty() => f.write_str(reason),
            MISSING => write!(f, "`{path}` {reason}"),
            _ => write!(f, "`{path}`: {reason}"),
        }
    }
}

/// Why a walk goes no further.
enum Stop {
    Wrong(Misfit),
    /// Nobody can say.
    Endless,
}

/// What is wrong with arguments.
pub fn problem(schema: &Value, args: &Value) -> Option<String> {
    if !args.is_object() {
        return Some("expected an object".to_owned());
    }
    let misfits = misfits(schema, args, MOST_TOLD, PATTERN_BYTES);
    let told: Vec<_> = misfits.iter().map(Misfit::to_string).collect();
    (!told.is_empty()).then(|| told.join("; "))
}

/// What is wrong with a value, up to so many things. A pattern that takes more memory than this is passed over.
pub fn misfits(schema: &Value, value: &Value, most: usize, pattern_bytes: usize) -> Vec<Misfit> {
    let mut walk = Walk { root: schema, steps: MOST_STEPS, pattern_bytes, most, found: Vec::new() };
    let last = match walk.fits(schema, value, At { place: &Place::Root, depth: 0 }) {
        Ok(()) => None,
        Err(Stop::Wrong(misfit)) => Some(misfit),
        Err(Stop::Endless) => {
            let reason = "they are too large or too deep to be checked".to_owned();
            Some(Misfit { pointer: String::new(), path: String::new(), reason })
        }
    };
    walk.found.extend(last);
    walk.found
}

enum Place<'a> {
    Root,
    Field(&'a Place<'a>, &'a str),
    Item(&'a Place<'a>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(Self::Root, name) => f.write_str(&excerpt::line(name, LONGEST_NAME)),
            Self::Field(of, name) => write!(f, "{of}.{}", excerpt::line(name, LONGEST_NAME)),
            Self::Item(of, index) => write!(f, "{of}[{index}]"),
        }
    }
}

impl Place<'_> {
    fn pointer(&self) -> String {
        match self {
            Self::Root => String::new(),
            Self::Field(of, name) => format!("{}/{}", of.pointer(), escaped(name)),
            Self::Item(of, index) => format!("{}/{index}", of.pointer()),
        }
    }
}

/// A place, and how many schemas lie around it: several may be about one place.
#[derive(Clone, Copy)]
struct At<'a> {
    place: &'a Place<'a>,
    depth: usize,
}

impl At<'_> {
    /// The same place, in a schema within.
    fn deeper(self) -> Self {
        Self { depth: self.depth + 1, ..self }
    }

    /// A place within.
    fn of<'b>(self, place: &'b Place<'b>) -> At<'b> {
        At { place, depth: self.depth }
    }
}

type Fits = Result<(), Stop>;
type Keywords = Map<String, Value>;

/// A name as a part of a JSON pointer.
pub fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn wrong(At { place, .. }: At<'_>, reason: impl Into<String>) -> Fits {
    let (pointer, path) = (place.pointer(), place.to_string());
    Err(Stop::Wrong(Misfit { pointer, path, reason: reason.into() }))
}

struct Walk<'s> {
    root: &'s Value,
    steps: usize,
    pattern_bytes: usize,
    /// So many misfits are looked for.
    most: usize,
    found: Vec<Misfit>,
}

impl<'s> Walk<'s> {
    fn step(&mut self, steps: usize) -> Fits {
        self.steps = self.steps.checked_sub(steps).ok_or(Stop::Endless)?;
        Ok(())
    }

    fn fits(&mut self, schema: &'s Value, value: &Value, at: At<'_>) -> Fits {
        self.step(1)?;
        if at.depth > DEEPEST {
            return Err(Stop::Endless);
        }
        let keywords = match schema {
            Value::Object(keywords) => keywords,
            Value::Bool(false) => return wrong(at, "nothing may stand here"),
            _ => return Ok(()),
        };
        if let Some(path) = keywords.get("$ref").and_then(Value::as_str) {
            let found = path.strip_prefix('#').and_then(|path| self.root.pointer(path));
            if let Some(found) = found {
                self.fits(found, value, at.deeper())?;
            }
        }
        self.kind(keywords, value, at)?;
        self.several(keywords, value, at)?;
        match value {
            Value::Object(fields) => self.object(keywords, fields, at),
            Value::Array(items) => self.array(keywords, items, at),
            Value::String(text) => self.text(keywords, text, at),
            Value::Number(_) => number(keywords, value.as_f64().unwrap_or_default(), at),
            Value::Null | Value::Bool(_) => Ok(()),
        }
    }

    fn kind(&mut self, keywords: &Keywords, value: &Value, at: At<'_>) -> Fits {
        if let Some(kind) = keywords.get("type") {
            let fits = match kind {
                Value::Array(kinds) => kinds.iter().any(|kind| is_of(kind, value)),
                kind => is_of(kind, value),
            };
            if !fits {
                return wrong(at, format!("expected {kind}"));
            }
        }
        if let Some(words) = keywords.get("enum").and_then(Value::as_array) {
            self.step(words.len())?;
            if !words.iter().any(|word| is_same(word, value)) {
                return wrong(at, format!("expected one of {}", listed(words)));
            }
        }
        match keywords.get("const") {
            Some(word) if !is_same(word, value) => {
                wrong(at, format!("expected {}", listed(std::slice::from_ref(word))))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what is wrong and goes on, while there is room for more.
    fn keep(&mut self, looked: Fits) -> Fits {
        match looked {
            Err(Stop::Wrong(misfit)) if self.found.len() + 1 < self.most => {
                self.found.push(misfit);
                Ok(())
            }
            looked => looked,
        }
    }

    /// The first misfit of a value, which is not kept; what is endless is an error.
    fn misfit(
        &mut self,
        schema: &'s Value,
        value: &Value,
        at: At<'_>,
    ) -> Result<Option<Misfit>, Stop> {
        let most = std::mem::take(&mut self.most);
        let looked = self.fits(schema, value, at.deeper());
        self.most = most;
        match looked {
            Ok(()) => Ok(None),
            Err(Stop::Wrong(misfit)) => Ok(Some(misfit)),
            Err(Stop::Endless) => Err(Stop::Endless),
        }
    }

    /// Schemas about the same value.
    fn several(&mut self, keywords: &'s Keywords, value: &Value, at: At<'_>) -> Fits {
        let list = |name: &str| keywords.get(name).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.fits(schema, value, at.deeper())?;
        }
        for (name, is_one) in [("anyOf", false), ("oneOf", true)] {
            let Some(schemas) = list(name) else { continue };
            let mut fitting = 0;
            let mut nearest = None;
            for schema in schemas {
                match self.misfit(schema, value, at)? {
                    None => fitting += 1,
                    misfit => nearest = misfit,
                }
            }
            match (fitting, nearest) {
                (0, Some(misfit)) if schemas.len() == 1 => return Err(Stop::Wrong(misfit)),
                (0, _) => return wrong(at, format!("fits none of `{name}`")),
                (2.., _) if is_one => return wrong(at, "fits more than one of `oneOf`"),
                _ => {}
            }
        }
        if let Some(schema) = keywords.get("not")
            && self.misfit(schema, value, at)?.is_none()
        {
            return wrong(at, "is what `not` excludes");
        }
        if let Some(condition) = keywords.get("if") {
            let holds = self.misfit(condition, value, at)?.is_none();
            if let Some(schema) = keywords.get(if holds { "then" } else { "else" }) {
                self.fits(schema, value, at.deeper())?;
            }
        }
        Ok(())
    }

    fn object(&mut self, keywords: &'s Keywords, fields: &Map<String, Value>, at: At<'_>) -> Fits {
        within(keywords, ["minProperties", "maxProperties"], fields.len(), "fields", at)?;
        let required = keywords.get("required").and_then(Value::as_array).into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            self.step(1)?;
            if !fields.contains_key(name) {
                self.keep(wrong(at.of(&Place::Field(at.place, name)), MISSING))?;
            }
        }
        for (name, value) in fields {
            let place = Place::Field(at.place, name);
            let looked = self.field(keywords, name, value, at.of(&place));
            self.keep(looked)?;
        }
        Ok(())
    }

    fn field(&mut self, keywords: &'s Keywords, name: &str, value: &Value, at: At<'_>) -> Fits {
        let known = keywords.get("properties").and_then(Value::as_object);
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        let schema = known.and_then(|known| known.get(name));
        let mut is_known = schema.is_some();
        if let Some(schema) = schema {
            self.fits(schema, value, at.deeper())?;
        }
        for (pattern, schema) in patterns.into_iter().flatten() {
            match self.matches(pattern, name)? {
                Some(true) => {
                    is_known = true;
                    self.fits(schema, value, at.deeper())?;
                }
                Some(false) => {}
                // The server knows whether it is meant.
                None => is_known = true,
            }
        }
        if let Some(schema) = keywords.get("propertyNames") {
            self.fits(schema, &Value::from(name), at.deeper())?;
        }
        match keywords.get("additionalProperties") {
            Some(Value::Bool(false)) if !is_known => wrong(at, "there is no such field"),
            Some(schema) if !is_known => self.fits(schema, value, at.deeper()),
            _ => Ok(()),
        }
    }

    fn array(&mut self, keywords: &'s Keywords, items: &[Value], at: At<'_>) -> Fits {
        within(keywords, ["minItems", "maxItems"], items.len(), "items", at)?;
        // Older schemas say `items` for both.
        let old = keywords.get("items").and_then(Value::as_array);
        let first = keywords.get("prefixItems").and_then(Value::as_array).or(old);
        let first = first.map(Vec::as_slice).unwrap_or_default();
        let rest = keywords.get(if old.is_some() { "additionalItems" } else { "items" });
        for (index, item) in items.iter().enumerate() {
            if let Some(schema) = first.get(index).or(rest) {
                let place = Place::Item(at.place, index);
                let looked = self.fits(schema, item, at.of(&place).deeper());
                self.keep(looked)?;
            }
        }
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) {
            self.step(items.len())?;
            let mut seen = HashSet::new();
            if let Some(index) = items.iter().position(|item| !seen.insert(item)) {
                return wrong(at.of(&Place::Item(at.place, index)), "given twice");
            }
        }
        if let Some(schema) = keywords.get("contains") {
            let mut is_there = false;
            for item in items {
                is_there |= self.misfit(schema, item, at)?.is_none();
            }
            if !is_there && keywords.get("minContains").and_then(Value::as_u64) != Some(0) {
                return wrong(at, "an item is missing that `contains` asks for");
            }
        }
        Ok(())
    }

    fn text(&mut self, keywords: &Keywords, text: &str, at: At<'_>) -> Fits {
        within(keywords, ["minLength", "maxLength"], text.chars().count(), "characters", at)?;
        let Some(pattern) = keywords.get("pattern").and_then(Value::as_str) else {
            return Ok(());
        };
        match self.matches(pattern, text)? {
            Some(false) => {
                wrong(at, format!("does not match `{}`", excerpt::line(pattern, LONGEST_NAME)))
            }
            _ => Ok(()),
        }
    }

    /// Whether a text matches a pattern; none if the pattern cannot be read here, which is left to the server.
    fn matches(&mut self, pattern: &str, text: &str) -> Result<Option<bool>, Stop> {
        self.step(PATTERN_STEPS + text.len() / PATTERN_STEPS)?;
        let built = RegexBuilder::new(pattern).size_limit(self.pattern_bytes).build();
        Ok(built.ok().map(|pattern| pattern.is_match(text)))
    }
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("array") => value.is_array(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        Some("null") => value.is_null(),
        Some("number") => value.is_number(),
        Some("object") => value.is_object(),
        Some("string") => value.is_string(),
        _ => true,
    }
}

/// As JSON Schema means it: 1 and 1.0 are one number.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => one == other,
        _ => one == other,
    }
}

/// Words of the schema, for a message.
fn listed(words: &[Value]) -> String {
    let words: Vec<_> = words.iter().map(Value::to_string).collect();
    excerpt::line(&words.join(", "), 4 * LONGEST_NAME)
}

fn within(
    keywords: &Keywords,
    [least, most]: [&str; 2],
    found: usize,
    what: &str,
    at: At<'_>,
) -> Fits {
    let (bound, found) = (|name: &str| keywords.get(name).and_then(Value::as_f64), found as f64);
    match (bound(least), bound(most)) {
        (Some(least), _) if found < least => wrong(at, format!("expected at least {least} {what}")),
        (_, Some(most)) if found > most => wrong(at, format!("expected at most {most} {what}")),
        _ => Ok(()),
    }
}

fn number(keywords: &Keywords, found: f64, at: At<'_>) -> Fits {
    let bound = |name: &str| keywords.get(name).and_then(Value::as_f64);
    let broken = [
        ("at least", bound("minimum").filter(|least| found < *least)),
        ("at most", bound("maximum").filter(|most| found > *most)),
        ("more than", bound("exclusiveMinimum").filter(|least| found <= *least)),
        ("less than", bound("exclusiveMaximum").filter(|most| found >= *most)),
    ];
    let broken = broken.into_iter().find_map(|(words, bound)| Some((words, bound?)));
    if let Some((words, bound)) = broken {
        return wrong(at, format!("expected {words} {bound}"));
    }
    match bound("multipleOf").filter(|step| *step > 0.0) {
        Some(step) if ((found / step) - (found / step).round()).abs() > 1e-9 => {
            wrong(at, format!("expected a multiple of {step}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// TO-139: what is inside is checked as what is outside.
    #[test]
    fn arguments_are_checked_to_their_depth() {
        let schema = json!({
            "type": "object",
            "required": ["filter"],
            "additionalProperties": false,
            "$defs": { "node": { "type": "object", "required": ["id"], "properties": {
                "id": { "type": "integer", "minimum": 1, "multipleOf": 2 },
                "next": { "anyOf": [{ "$ref": "#/$defs/node" }, { "type": "null" }] },
            } } },
            "properties": {
                "filter": { "type": "object", "additionalProperties": { "type": "string", "maxLength": 3 },
                    "properties": { "tags": { "type": "array", "minItems": 1, "uniqueItems": true,
                        "items": { "type": "string", "enum": ["a", "b"] } } } },
                "node": { "$ref": "#/$defs/node" },
                "pair": { "prefixItems": [{ "type": "string" }, { "const": 1 }], "items": false },
                "kind": { "oneOf": [{ "type": "string", "pattern": "^[a-z]+$" }, { "type": "integer" }] },
                "when": { "if": { "type": "string" }, "then": { "minLength": 2 }, "else": { "type": "integer" } },
                "odd": { "not": { "type": "boolean" }, "pattern": "(?<=a)b" },
            },
        });
        let with = |name: &str, value: Value| json!({ "filter": {}, name: value });
        let good = [
            json!({ "filter": { "tags": ["a", "b"], "x": "abc" } }),
            with("node", json!({ "id": 2, "next": { "id": 4.0, "next": null } })),
            with("pair", json!(["x", 1.0])),
            with("kind", json!("abc")),
            with("when", json!(7)),
            with("odd", json!("anything")),
        ];
        let bad = [
            (json!([]), "expected an object"),
            (json!({}), "`filter` is missing"),
            (with("other", json!(1)), "`other`: there is no such field"),
            (
                json!({ "filter": { "tags": [], "x": "abcd" }, "other": 1 }),
                "`filter.tags`: expected at least 1 items; `filter.x`: expected at most 3 characters; `other`: there is no such field",
            ),
            (json!({ "filter": { "x": "abcd" } }), "`filter.x`: expected at most 3 characters"),
            (json!({ "filter": { "tags": [] } }), "`filter.tags`: expected at least 1 items"),
            (json!({ "filter": { "tags": ["a", "a"] } }), "`filter.tags[1]`: given twice"),
            (
                json!({ "filter": { "tags": ["c"] } }),
                "`filter.tags[0]`: expected one of \"a\", \"b\"",
            ),
            (with("node", json!({ "id": 0 })), "`node.id`: expected at least 1"),
            (with("node", json!({ "id": 3 })), "`node.id`: expected a multiple of 2"),
            (
                with("node", json!({ "id": 2, "next": { "id": "x" } })),
                "`node.next`: fits none of `anyOf`",
            ),
            (with("pair", json!(["x", 2])), "`pair[1]`: expected 1"),
            (with("pair", json!(["x", 1, 2])), "`pair[2]`: nothing may stand here"),
            (with("kind", json!("A")), "`kind`: fits none of `oneOf`"),
            (with("when", json!("x")), "`when`: expected at least 2 characters"),
            (with("odd", json!(true)), "`odd`: is what `not` excludes"),
        ];

        for args in good {
            assert_eq!(problem(&schema, &args), None, "{args}");
        }
        for (args, expected) in bad {
            assert_eq!(problem(&schema, &args).as_deref(), Some(expected), "{args}");
        }
    }

    /// SC-20: a schema is a stranger's: it cannot make the service work for ever, or end it.
    #[test]
    fn a_schema_that_leads_to_itself_ends() {
        let mut deep = json!({});
        for _ in 0..120 {
            deep = json!({ "a": deep });
        }
        let doubling = json!({ "$defs": { "x": { "anyOf": [{ "$ref": "#/$defs/x" }, { "$ref": "#/$defs/x" }] } },
            "properties": { "a": { "$ref": "#/$defs/x" } } });
        let endless = [
            json!({ "properties": { "a": { "$ref": "#/properties/a" } } }),
            json!({ "properties": { "a": { "allOf": [{ "$ref": "#/properties/a" }] } } }),
            json!({ "properties": { "a": { "not": { "$ref": "#/properties/a" } } } }),
            json!({ "properties": { "a": { "$ref": "#" } }, "$ref": "#" }),
            doubling,
        ];

        for schema in endless {
            let found = problem(&schema, &json!({ "a": 1 }));
            assert_eq!(
                found.as_deref(),
                Some("they are too large or too deep to be checked"),
                "{schema}"
            );
        }
        let recursive = json!({ "properties": { "a": { "$ref": "#" } } });
        assert!(problem(&recursive, &deep).is_some());
        assert_eq!(problem(&recursive, &json!({ "a": { "a": {} } })), None);
        let patterns = json!({ "properties": { "a": { "pattern": "(a{1000}){1000}" } } });
        assert_eq!(problem(&patterns, &json!({ "a": "b" })), None);
    }
}
