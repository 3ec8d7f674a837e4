//! Answers of endpoints, and the forms in which a command shows them.

use std::marker::PhantomData;

use clap::Args;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    failure::Failure,
    screen::Screen,
    table::{self, Columns},
};
use crate::api::flags::Limit;

// A doc comment here would become that of every command that lists something.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(super) struct Listing<F: Args> {
    #[command(flatten)]
    pub(super) filter: F,
    #[command(flatten)]
    pub(super) limit: Limit,
}

/// An answer of an endpoint: the document as it came, which says what a `T` is.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) document: Value,
    /// Where the `T` stands, as a JSON pointer.
    place: &'static str,
    of: PhantomData<T>,
}

impl<T> Answer<T> {
    pub(super) fn new(document: Value) -> Self {
        Self::at("/data", document)
    }

    pub(super) fn at(place: &'static str, document: Value) -> Self {
        Self { document, place, of: PhantomData }
    }
}

impl Answer<Value> {
    /// What is said of something that was done by an endpoint without an answer.
    pub(super) fn naming(what: &str, name: impl ToString) -> Self {
        Self::new(json!({"data": {what: name.to_string()}}))
    }
}

impl<T: DeserializeOwned> Answer<T> {
    pub(super) fn data(&self) -> Result<T, Failure> {
        read(self.document.pointer(self.place).unwrap_or(&Value::Null))
    }

    /// Prints it: as it came if results are JSON, otherwise in these words.
    pub(super) fn show(
        &self,
        screen: Screen,
        words: impl FnOnce(T) -> String,
    ) -> Result<(), Failure> {
        if screen.json {
            return screen.document(&self.document);
        }
        screen.write(&words(self.data()?));
        Ok(())
    }

    /// The same of something that was done: otherwise a remark.
    pub(super) fn tell(
        &self,
        screen: Screen,
        remark: impl FnOnce(T) -> String,
    ) -> Result<(), Failure> {
        if screen.json {
            return screen.document(&self.document);
        }
        screen.remark(&remark(self.data()?));
        Ok(())
    }
}

impl<R: Columns + DeserializeOwned> Answer<Vec<R>> {
    /// The same of rows: otherwise in columns.
    pub(super) fn table(&self, screen: Screen) -> Result<(), Failure> {
        self.list(screen, |rows| table::rows(&rows))
    }
}

impl<R: DeserializeOwned> Answer<Vec<R>> {
    /// The same in these words; whether there is more is said beside them.
    pub(super) fn list(
        &self,
        screen: Screen,
        words: impl FnOnce(Vec<R>) -> String,
    ) -> Result<(), Failure> {
        self.show(screen, words)?;
        if screen.json {
            return Ok(());
        }
        if self.document["next_cursor"].is_string() {
            screen.remark("· there is more: `--all` lists all, and filters list less");
        } else if self.document["data"].as_array().is_some_and(Vec::is_empty) {
            screen.remark("· there are none");
        }
        Ok(())
    }
}

/// A part of what the service says.
pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    T::deserialize(value)
        .map_err(|error| Failure::system("the service's answer cannot be read", error))
}
