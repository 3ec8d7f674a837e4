//! CSV: rows of the API as lines that spreadsheets read (RFC 4180).

use std::fmt;

use serde::{
    Deserialize, Serialize,
    de::{Deserializer, MapAccess, Visitor},
};
use serde_json::Value;

/// What a spreadsheet takes for the beginning of a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// The names of a row's fields.
pub(in crate::http) fn head(row: &impl Serialize) -> serde_json::Result<String> {
    Ok(line(fields(row)?.into_iter().map(|(name, _)| name)))
}

/// A row: its fields in the order of its type.
pub(in crate::http) fn row(row: &impl Serialize) -> serde_json::Result<String> {
    Ok(line(fields(row)?.into_iter().map(|(_, value)| cell(value))))
}

fn line(cells: impl Iterator<Item = String>) -> String {
    cells.collect::<Vec<_>>().join(",") + "\r\n"
}

fn cell(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        // What is no text begins no formula.
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(_) | Value::Object(_) => quoted(value.to_string()),
    }
}

fn quoted(mut text: String) -> String {
    if text.starts_with(FORMULA) {
        text.insert(0, '\'');
    }
    if text.contains(['"', ',', '\n', '\r']) {
        text = format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

/// An object whose fields keep their order, which `Value` does not.
struct Fields(Vec<(String, Value)>);

fn fields(row: &impl Serialize) -> serde_json::Result<Vec<(String, Value)>> {
    let Fields(fields) = serde_json::from_str(&serde_json::to_string(row)?)?;
    Ok(fields)
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[derive(Serialize)]
    struct Row {
        name: &'static str,
        count: i64,
        share: Option<f64>,
    }

    /// OP-127: a name that is a formula stays a name.
    #[test]
    fn cells_keep_their_place_and_are_never_formulas() {
        let lines = |name| row(&Row { name, count: -2, share: None }).unwrap();

        assert_eq!(head(&Row { name: "", count: 0, share: None }).unwrap(), "name,count,share\r\n");
        assert_eq!(lines("plain"), "plain,-2,\r\n");
        assert_eq!(lines("=1+2"), "'=1+2,-2,\r\n");
        assert_eq!(lines("@SUM(A1,\"x\")"), "\"'@SUM(A1,\"\"x\"\")\",-2,\r\n");
        for text in ["+1", "-1", "\t=1", "\r=1"] {
            assert!(lines(text).trim_start_matches('"').starts_with('\''), "{text:?}");
        }
        assert_eq!(lines("two\nlines"), "\"two\nlines\",-2,\r\n");
    }
}
