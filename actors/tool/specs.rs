//! Tool definitions of a turn, with what engines made of them.

use std::ops::Deref;

use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::rendered::Rendered;

/// A tool as the model is told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolSpec {
    /// The name on the wire.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// JSON Schema of its arguments, an object.
    pub schema: Value,
}

/// The tools of a turn as models are told of them, in a fixed order.
///
/// They are a large part of a request and stay the same from call to call.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub struct ToolSpecs {
    list: Vec<ToolSpec>,
    #[serde(skip)]
    rendered: Rendered,
}

impl ToolSpecs {
    /// These tools in a wire format, made when it is first asked for.
    pub fn written(
        &self,
        format: &'static str,
        make: impl Fn(&[ToolSpec]) -> serde_json::Result<Box<RawValue>>,
    ) -> serde_json::Result<&RawValue> {
        self.rendered.get(format, || make(&self.list))
    }
}

impl Deref for ToolSpecs {
    type Target = [ToolSpec];

    fn deref(&self) -> &[ToolSpec] {
        &self.list
    }
}

impl FromIterator<ToolSpec> for ToolSpecs {
    fn from_iter<I: IntoIterator<Item = ToolSpec>>(specs: I) -> Self {
        Self { list: specs.into_iter().collect(), rendered: Rendered::default() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{json, value::to_raw_value};

    use super::*;

    /// SE-46
    #[test]
    fn each_wire_format_is_written_once() {
        let spec = |name: &str| ToolSpec {
            name: name.into(),
            description: "d".into(),
            schema: json!({"type": "object"}),
        };
        let specs: ToolSpecs = ["read", "write"].map(spec).into_iter().collect();
        let names = |specs: &[ToolSpec]| {
            to_raw_value(&specs.iter().map(|spec| &spec.name).collect::<Vec<_>>())
        };

        let first = specs.written("names", names).unwrap();
        let again = specs.written("names", |_| panic!("it is known")).unwrap();
        let other = specs.written("count", |specs| to_raw_value(&specs.len())).unwrap();

        assert_eq!(first.get(), r#"["read","write"]"#);
        assert!(std::ptr::eq(first, again));
        assert_eq!(other.get(), "2");
    }
}
