//! What the types of an operation say of it, for the API document.

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::input::Reader;

/// Where a document keeps its schemas.
pub const SCHEMAS: &str = "/components/schemas";

/// A content type and a schema.
pub type Content = (&'static str, Value);

/// What the types of an operation say.
pub struct Draft {
    /// The fields of its query.
    pub query: Map<String, Value>,
    pub body: Option<Value>,
    /// It makes no sense without one.
    pub needs_body: bool,
    /// A status may have no content.
    pub answers: Vec<(u16, Option<Content>)>,
    bodies: Map<String, Value>,
    generator: SchemaGenerator,
}

impl Default for Draft {
    fn default() -> Self {
        let settings = SchemaSettings::draft2020_12().for_serialize().with(|settings| {
            settings.definitions_path = SCHEMAS.into();
            settings.meta_schema = None;
        });
        Self {
            query: Map::new(),
            body: None,
            needs_body: false,
            answers: Vec::new(),
            bodies: Map::new(),
            generator: settings.into_generator(),
        }
    }
}

impl Draft {
    /// The schema of what is answered: a reference, where the type has a name.
    pub fn schema<T: JsonSchema>(&mut self) -> Schema {
        self.generator.subschema_for::<T>()
    }

    /// It takes a body of this type.
    pub fn takes<T: DeserializeOwned + JsonSchema>(&mut self) {
        let reader = Reader::<T>::default();
        self.needs_body = reader.json(json!({})).is_err();
        self.refer_to(&T::schema_name(), reader.schema());
    }

    fn refer_to(&mut self, name: &str, body: &Value) {
        self.bodies.insert(name.to_owned(), body.clone());
        self.body = Some(json!({"$ref": format!("#{SCHEMAS}/{name}")}));
    }

    /// All schemas that it refers to, by name.
    pub fn schemas(&mut self) -> Map<String, Value> {
        let mut all = self.generator.take_definitions(true);
        all.extend(std::mem::take(&mut self.bodies));
        all
    }
}
