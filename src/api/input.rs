//! Input validation: reads a type from JSON or a query string by the schema that the type derives.
//!
//! Serde alone stops at the first mistake, loses the path inside tagged enums and the known names under
//! `flatten`, and quotes what it found. The schema is checked first, and whole; serde then converts what
//! is known to fit. So what is refused is what is documented.

use std::{fmt, marker::PhantomData};

use hivewright_actors::{
    excerpt,
    text::{Span, Text, quoted},
};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json, map::Entry};

use super::when::When;
use crate::text::{did_you_mean, unknown_field};

/// The most characters that are repeated of a name that somebody sent.
const LONGEST_NAME: usize = 64;

/// The syntax check of a [`Text`].
#[derive(Clone, Copy)]
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

/// Formats that every reader knows.
const FORMATS: [Format; 2] = [Format::of::<Span>(), Format::of::<When>()];

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

/// Reads a `T`. It holds the schema: keep it where many are read.
pub struct Reader<T> {
    schema: Value,
    formats: Vec<Format>,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + JsonSchema> Default for Reader<T> {
    fn default() -> Self {
        let formats = FORMATS.to_vec();
        Self { schema: closed(input_schema::<T>()), formats, of: PhantomData }
    }
}

impl<T: DeserializeOwned + JsonSchema> Reader<T> {
    /// The schema, self-contained, with no field beside those of the type.
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// Checks texts of these formats too.
    pub fn with_formats(mut self, formats: &[Format]) -> Self {
        self.formats.extend(formats);
        self
    }

    /// Takes these fields too, which `T` does not have.
    pub fn with_fields(mut self, fields: Map<String, Value>) -> Self {
        if let Some(properties) = properties_mut(&mut self.schema) {
            properties.extend(fields);
        }
        self
    }

    pub fn json(&self, value: Value) -> Result<T, Problems> {
        self.check(&value)?;
        convert(value)
    }

    /// Reports everything in which a value does not fit the schema.
    pub fn check(&self, value: &Value) -> Result<(), Problems> {
        let mut check = Check { root: &self.schema, formats: &self.formats, problems: Vec::new() };
        check.value(&self.schema, value, &Path::default());
        if check.problems.is_empty() { Ok(()) } else { Err(Problems(check.problems)) }
    }

    /// The fields of a query string, checked. Only lists may be repeated; a text that is empty counts
    /// as absent.
    pub fn query(&self, pairs: Vec<(String, String)>) -> Result<Value, Problems> {
        let mut fields = Map::new();
        for (name, text) in pairs {
            let schema = resolve(&self.schema, &self.schema["properties"][&name]);
            let is_free = has_type(schema, "string")
                && schema.get("format").is_none()
                && words(schema).is_empty();
            if is_free && text.is_empty() {
                continue;
            }
            let is_list = has_type(schema, "array");
            let value = scalar(if is_list { &schema["items"] } else { schema }, &text);
            match fields.entry(name) {
                Entry::Vacant(entry) => {
                    entry.insert(if is_list { json!([value]) } else { value });
                }
                Entry::Occupied(mut entry) => match entry.get_mut() {
                    Value::Array(items) => items.push(value),
                    _ => {
                        let path = Path::default().field(entry.key());
                        return Err(Problem::new(path, "given twice").into());
                    }
                },
            }
        }
        let value = Value::Object(fields);
        self.check(&value)?;
        Ok(value)
    }

    /// Applies a JSON merge patch (RFC 7396): what it names is replaced, null clears.
    pub fn patched(&self, old: &T, patch: Value) -> Result<T, Problems>
    where
        T: Serialize,
    {
        let mut value =
            serde_json::to_value(old).map_err(|error| Problem::new(Path::default(), error))?;
        merge(&mut value, patch);
        self.json(value)
    }
}

/// Converts a value that was checked.
pub fn convert<T: DeserializeOwned>(value: Value) -> Result<T, Problems> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let steps = error.path().iter().filter_map(|segment| match segment {
            serde_path_to_error::Segment::Seq { index } => Some(Step::Item(*index)),
            serde_path_to_error::Segment::Map { key } => Some(Step::Field(key.clone())),
            _ => None,
        });
        let path = Path(steps.collect());
        Problem::new(path, without_values(&error.inner().to_string())).into()
    })
}

/// An error of serde quotes what it found, which may be a secret in the wrong place.
fn without_values(message: &str) -> String {
    match message.rsplit_once(", expected ") {
        Some((_, expected)) => format!("expected {expected}"),
        None if message.starts_with("missing field") => message.to_owned(),
        None => "not a usable value".to_owned(),
    }
}

/// The schema of what is read as a `T`, without references.
fn input_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// No other fields than those that are named.
fn closed(mut schema: Value) -> Value {
    if has_type(&schema, "object")
        && let Some(fields) = schema.as_object_mut()
    {
        fields.entry("properties").or_insert_with(|| json!({}));
        fields.entry("additionalProperties").or_insert(Value::Bool(false));
    }
    schema
}

fn properties_mut(schema: &mut Value) -> Option<&mut Map<String, Value>> {
    schema.get_mut("properties")?.as_object_mut()
}

/// A null that clears nothing stays, so that a misspelt name is refused instead of passed over.
fn merge(value: &mut Value, patch: Value) {
    match (value, patch) {
        (Value::Object(fields), Value::Object(patch)) => {
            for (name, new) in patch {
                match fields.get_mut(&name) {
                    Some(_) if new.is_null() => drop(fields.remove(&name)),
                    Some(old) => merge(old, new),
                    None => drop(fields.insert(name, new)),
                }
            }
        }
        (value, new) => *value = new,
    }
}

/// The schema behind references and `Option`.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let inner = match schema["anyOf"].as_array().map(Vec::as_slice) {
        Some([some, null]) if null["type"] == "null" => Some(some),
        _ => schema["$ref"].as_str().and_then(|reference| root.pointer(reference.get(1..)?)),
    };
    inner.map_or(schema, |inner| resolve(root, inner))
}

/// The words of an enum; documented ones are a `oneOf` of constants.
pub fn words(schema: &Value) -> Vec<&str> {
    let parts = schema["oneOf"].as_array().into_iter().flatten().chain([schema]);
    let words = parts
        .flat_map(|part| part["enum"].as_array().into_iter().flatten().chain(part.get("const")));
    words.filter_map(Value::as_str).collect()
}

fn has_type(schema: &Value, name: &str) -> bool {
    let types = &schema["type"];
    types == name || types.as_array().is_some_and(|types| types.iter().any(|one| one == name))
}

/// A number or boolean where one is wanted. What is none stays text, which the check refuses.
fn scalar(schema: &Value, text: &str) -> Value {
    let is_text = has_type(schema, "string") || schema["type"].is_null();
    let value = if is_text { None } else { serde_json::from_str(text).ok() };
    value
        .filter(|value: &Value| value.is_number() || value.is_boolean())
        .unwrap_or_else(|| text.into())
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

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A walk over a value beside its schema, for as much of JSON Schema as schemars derives.
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
            Value::String(word) if !words.is_empty() => words.contains(&word.as_str()),
            Value::Object(fields) if has_type(schema, "object") || schema["oneOf"].is_array() => {
                return self.object(schema, fields, path);
            }
            Value::Array(items) if has_type(schema, "array") => {
                for (index, item) in items.iter().enumerate() {
                    self.value(&schema["items"], item, &path.item(index));
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

    /// The variant that the tag names, or without a tag the one whose fields are there.
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
            let found =
                variants.iter().find(|one| required(one).is_some_and(|all| all.iter().all(has)));
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
    use hivewright_actors::words;
    use serde::Deserialize;

    use super::*;

    words! {
        enum Standing { On = "on", Off = "off" }
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    struct Webhook {
        scheme: Scheme,
        #[schemars(range(max = 5))]
        rate: i32,
        #[serde(default)]
        standing: Option<Standing>,
        #[schemars(extend("x-minimum" = "1m", "x-maximum" = "7d"))]
        every: Option<Span>,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    #[schemars(deny_unknown_fields)]
    enum Scheme {
        Standard,
        Custom { header: String },
    }

    fn read(value: Value) -> Result<Webhook, String> {
        Reader::<Webhook>::default().json(value).map_err(|problems| problems.to_string())
    }

    fn webhook(scheme: Scheme) -> Webhook {
        Webhook { scheme, rate: 1, standing: None, every: None }
    }

    #[test]
    fn an_enum_may_be_a_word_or_an_object() {
        let object = json!({"scheme": {"custom": {"header": "X-Sign"}}, "rate": 1});

        let custom = Scheme::Custom { header: "X-Sign".into() };
        assert_eq!(read(json!({"scheme": "standard", "rate": 1})), Ok(webhook(Scheme::Standard)));
        assert_eq!(read(object), Ok(webhook(custom)));
    }

    #[test]
    fn every_mistake_is_reported_with_its_place_and_the_way_out() {
        let slips = json!({
            "scheme": {"custom": {"heder": "X-Sign"}}, "rate": 6, "standng": "on", "every": "30s",
        });

        let expected = "standng: unknown field (did you mean `standing`?); \
            every: expected a duration from 1m to 7d; rate: expected a whole number of at most 5; \
            scheme.custom.heder: unknown field (did you mean `header`?); \
            scheme.custom: missing field `header`";
        assert_eq!(read(slips), Err(expected.to_owned()));
        assert_eq!(
            read(json!({"scheme": "standard", "standing": "of", "every": "often"})),
            Err("every: expected a duration such as 90s, 30m or 2h; \
                 standing: expected one of `on`, `off`; missing field `rate`"
                .to_owned())
        );
    }

    #[test]
    fn what_was_found_is_never_repeated() {
        let found =
            without_values("invalid type: string \"hwt_x, expected y\", expected a sequence");

        assert_eq!(found, "expected a sequence");
        assert_eq!(without_values("hwt_x"), "not a usable value");
        assert_eq!(without_values("missing field `name`"), "missing field `name`");
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(default)]
    struct Filter {
        standing: Vec<Standing>,
        sender: Option<String>,
        unread: Option<bool>,
        #[schemars(range(min = 1, max = 200))]
        limit: Option<u32>,
        since: Option<When>,
    }

    fn query(pairs: &[(&str, &str)]) -> Result<Filter, String> {
        let pairs = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        let read = Reader::<Filter>::default().query(pairs.collect()).and_then(convert);
        read.map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_query_is_read_with_repeated_words_and_numbers() {
        let fields = [("standing", "on"), ("standing", "off"), ("unread", "true"), ("limit", "5")];
        let expected = Filter {
            standing: vec![Standing::On, Standing::Off],
            unread: Some(true),
            limit: Some(5),
            ..Filter::default()
        };

        assert_eq!(query(&fields), Ok(expected));
        assert_eq!(query(&[("sender", "")]), Ok(Filter::default()));
        let sender = Some("a b".to_owned());
        assert_eq!(query(&[("sender", "a b")]), Ok(Filter { sender, ..Filter::default() }));
    }

    /// OP-01
    #[test]
    fn a_value_of_a_query_that_does_not_fit_is_refused() {
        let table = [
            ("sendr", "ann", "unknown field (did you mean `sender`?)"),
            ("unread", "yes", "expected `true` or `false`"),
            ("unread", "", "expected `true` or `false`"),
            ("standing", "of", "expected one of `on`, `off`"),
            ("standing", "", "expected one of `on`, `off`"),
            ("limit", "201", "expected a whole number from 1 to 200"),
            ("limit", "", "expected a whole number from 1 to 200"),
            ("since", "yesterday", "expected a date such as"),
            ("since", "", "expected a date such as"),
        ];
        for (name, text, expected) in table {
            let refusal = query(&[(name, text)]).unwrap_err();
            assert!(refusal.contains(expected), "{name}={text}: {refusal}");
        }
        assert_eq!(query(&[("sender", "a"), ("sender", "b")]).unwrap_err(), "sender: given twice");
    }

    #[test]
    fn a_merge_patch_replaces_and_clears() {
        let reader = Reader::<Webhook>::default();
        let old = Webhook { standing: Some(Standing::On), ..webhook(Scheme::Standard) };

        let new = reader.patched(&old, json!({"rate": 2, "standing": null}));
        let slip = reader.patched(&old, json!({"rat": null}));

        assert_eq!(new, Ok(Webhook { rate: 2, ..webhook(Scheme::Standard) }));
        assert!(slip.unwrap_err().to_string().contains("did you mean `rate`?"));
    }
}
