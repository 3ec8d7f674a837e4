//! Input validation: reads a type from JSON or a query string by the schema that the type derives.
//!
//! Serde alone stops at the first mistake, loses the path inside tagged enums and the known names under
//! `flatten`, and quotes what it found. The schema is checked first, and whole; serde then converts what
//! is known to fit. So what is refused is what is documented.

use std::{any::TypeId, collections::BTreeMap, marker::PhantomData, ops::Deref, sync::Arc};

use hivewright_actors::{
    channel_type::ChannelType,
    live::{Mark, event::Kinds},
    policy::{resource::Resource, rule::Who},
    scheduler::trigger::{
        definition::TimeOfDay,
        webhook::{Rate, SecretRef},
    },
    text::{Size, Span},
};
use parking_lot::Mutex;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json, map::Entry};

use super::{
    check::{Format, Path, Problem, Problems, Step, check, has_type, resolve, words},
    when::{Expiry, Moment, OnDay, When},
};

/// Formats that every reader knows.
const FORMATS: [Format; 14] = [
    Format::of::<Span>(),
    Format::of::<Size>(),
    Format::of::<When>(),
    Format::of::<OnDay>(),
    Format::of::<Moment>(),
    Format::of::<Rate>(),
    Format::of::<SecretRef>(),
    Format::of::<TimeOfDay>(),
    Format::of::<Expiry>(),
    Format::of::<Kinds>(),
    Format::of::<Mark>(),
    Format::of::<ChannelType>(),
    Format::of::<Resource>(),
    Format::of::<Who>(),
];

/// Reads a `T`. It holds the schema: keep it where many are read.
pub struct Reader<T> {
    input: Arc<InputSchema>,
    of: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned + JsonSchema> Default for Reader<T> {
    fn default() -> Self {
        let input = Arc::new(InputSchema(closed(input_schema::<T>())));
        Self { input, of: PhantomData }
    }
}

impl<T> Deref for Reader<T> {
    type Target = InputSchema;

    fn deref(&self) -> &InputSchema {
        &self.input
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> Reader<T> {
    /// One that holds the schema together with all others of the type: some tools are made anew for each team, or for each
    /// turn.
    pub fn shared() -> Self {
        static SCHEMAS: Mutex<BTreeMap<TypeId, Arc<InputSchema>>> = Mutex::new(BTreeMap::new());
        let mut schemas = SCHEMAS.lock();
        let input = schemas.entry(TypeId::of::<T>()).or_insert_with(|| Self::default().input);
        Self { input: input.clone(), of: PhantomData }
    }
}

impl<T: DeserializeOwned + JsonSchema> Reader<T> {
    /// Takes these fields too, which `T` does not have.
    pub fn with_fields(mut self, fields: Map<String, Value>) -> Self {
        let properties = Arc::make_mut(&mut self.input).0.pointer_mut("/properties");
        if let Some(properties) = properties.and_then(Value::as_object_mut) {
            properties.extend(fields);
        }
        self
    }

    pub fn json(&self, value: Value) -> Result<T, Problems> {
        self.check(&value)?;
        convert(value)
    }
}

/// Schema of what is read, self-contained, with no field beside those of the type. It knows no type, so
/// that what checks is compiled once and not for each.
#[derive(Clone)]
pub struct InputSchema(Value);

impl InputSchema {
    pub fn schema(&self) -> &Value {
        &self.0
    }

    /// Reports everything in which a value does not fit the schema.
    pub fn check(&self, value: &Value) -> Result<(), Problems> {
        let problems = check(&self.0, value, &FORMATS);
        if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
    }

    /// The fields of a query string, checked. Only lists may be repeated; a text that is empty counts
    /// as absent.
    pub fn query(&self, pairs: Vec<(String, String)>) -> Result<Value, Problems> {
        let mut fields = Map::new();
        for (name, text) in pairs {
            let schema = resolve(&self.0, &self.0["properties"][&name]);
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

/// A number or boolean where one is wanted. What is none stays text, which the check refuses.
fn scalar(schema: &Value, text: &str) -> Value {
    let is_text = has_type(schema, "string") || schema["type"].is_null();
    let value = if is_text { None } else { serde_json::from_str(text).ok() };
    value
        .filter(|value: &Value| value.is_number() || value.is_boolean())
        .unwrap_or_else(|| text.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hivewright_actors::words;
    use serde::{Deserialize, Serialize};

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
    fn the_schema_of_a_type_is_made_once_for_all_who_share_it() {
        let (one, other) = (Reader::<Webhook>::shared(), Reader::<Webhook>::shared());

        assert!(std::ptr::eq(one.schema(), other.schema()));
        assert_eq!(one.schema(), Reader::<Webhook>::default().schema());
    }

    #[test]
    fn an_item_of_a_set_is_given_once() {
        let read = |value| Reader::<BTreeSet<Standing>>::default().json(value);
        let list = Reader::<Vec<Standing>>::default().json(json!(["on", "on"]));

        assert_eq!(read(json!(["off", "on"])), Ok(BTreeSet::from([Standing::On, Standing::Off])));
        assert_eq!(read(json!(["on", "off", "on"])).unwrap_err().to_string(), "[2]: given twice");
        assert_eq!(list, Ok(vec![Standing::On, Standing::On]));
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
    fn a_null_clears_what_may_be_absent_and_is_refused_under_a_misspelt_name() {
        let new = read(json!({"scheme": "standard", "rate": 2, "standing": null}));
        let slip = read(json!({"scheme": "standard", "rate": 2, "rat": null}));

        assert_eq!(new, Ok(Webhook { rate: 2, ..webhook(Scheme::Standard) }));
        assert!(slip.unwrap_err().contains("did you mean `rate`?"));
    }
}
