//! Reads a settings file by its known keys, and collects everything that is wrong with it.

use std::cell::RefCell;

use serde_json::Value as Json;

use super::{
    document::{Cure, Declaration, Description, Document, Outdated, join},
    field::Field,
    home::Home,
    problem::{Position, Problem},
    setting::Setting,
    yaml::{self, Entry, Value},
};
use crate::text::did_you_mean;

/// A struct whose fields are the settings of a section.
pub(crate) trait Group: Sized {
    #[cfg(test)]
    const ABOUT: &'static str = "";

    /// Reads the section. What is wrong in it is reported, and has its default.
    fn read(section: &mut Section<'_>) -> Self;

    /// Adds the settings in which the other differs and that count at the next start only.
    fn add_restarts(&self, _other: &Self, _path: &str, _found: &mut Vec<String>) {}
}

impl Document {
    /// All that a text of these settings says and could say. What is wrong in it is left out.
    pub(crate) fn describe<T: Group>(text: &str, home: &Home) -> Vec<Description> {
        let document = Self {
            home: Some(home.clone()),
            descriptions: Some(RefCell::default()),
            ..Self::plain("")
        };
        document.read(text, T::read);
        document.descriptions.map(RefCell::into_inner).unwrap_or_default()
    }

    /// The keys of earlier versions in a text. What else is wrong in it is left out.
    pub(crate) fn outdated<T>(
        text: &str,
        home: &Home,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> Vec<Outdated> {
        let document = Self::plain("").of(home);
        document.read(text, read);
        document.outdated.into_inner()
    }

    /// Reads the text. Null stands for an empty map.
    pub(crate) fn read<T>(&self, text: &str, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let root = yaml::parse(text, &self.name, &mut self.problems.borrow_mut());
        Field::new(self, String::new(), &root).section(read)
    }
}

impl Field<'_> {
    /// Reads a map with known keys, and reports the unknown ones.
    pub(crate) fn section<T>(&self, read: impl FnOnce(&mut Section<'_>) -> T) -> T {
        let entries: &[Entry] = match &self.node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            _ => {
                self.expected::<()>("a map");
                &[]
            }
        };
        Section::read(self.document, &self.path, self.node.at, entries, read)
    }
}

/// A map with known keys.
pub(crate) struct Section<'a> {
    document: &'a Document,
    path: String,
    at: Position,
    entries: &'a [Entry],
    known: Vec<&'static str>,
    retired: Vec<&'static str>,
    tolerant: bool,
}

impl<'a> Section<'a> {
    /// Reads a map, and reports the keys that nobody asked for.
    pub(super) fn read<T>(
        document: &'a Document,
        path: &str,
        at: Position,
        entries: &'a [Entry],
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        let mut section = Section {
            document,
            path: path.to_owned(),
            at,
            entries,
            known: Vec::new(),
            retired: Vec::new(),
            tolerant: false,
        };
        let found = read(&mut section);
        section.report_unknown();
        found
    }

    /// The field, unless it is absent or null.
    pub(crate) fn field(&mut self, key: &'static str) -> Option<Field<'a>> {
        self.known.push(key);
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        let path = join(&self.path, key);
        (entry.value.value != Value::Null).then(|| Field::new(self.document, path, &entry.value))
    }

    /// The field's value. None also if it is wrong, which is then reported.
    pub(crate) fn maybe<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Field<'a>) -> Option<T>,
    ) -> Option<T> {
        self.field(key).and_then(read)
    }

    /// The field's value, or the default.
    pub(crate) fn get<T>(
        &mut self,
        key: &'static str,
        default: T,
        read: impl FnOnce(Field<'a>) -> Option<T>,
    ) -> T {
        self.maybe(key, read).unwrap_or(default)
    }

    /// The field's value. It is reported if there is none.
    pub(crate) fn required<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(Field<'a>) -> Option<T>,
    ) -> Option<T> {
        let field = self.field(key);
        if field.is_none() {
            let article = if key.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            self.reject(format!("needs {article} `{key}`"));
        }
        field.and_then(read)
    }

    /// The value of a declared setting, or its default.
    pub(crate) fn setting<T: Setting, U: Into<T>>(
        &mut self,
        declared: Declaration,
        default: T,
        allowed: impl FnOnce() -> String,
        read: impl FnOnce(Field<'a>) -> Option<U>,
    ) -> T {
        self.describe(declared, || (Some(default.shown()), allowed()));
        self.maybe(declared.key, read).map_or(default, Into::into)
    }

    /// The settings of a declared section.
    pub(crate) fn group<T: Group>(&mut self, declared: Declaration) -> T {
        self.describe(declared, || (None, String::new()));
        self.section(declared.key, T::read)
    }

    fn describe(&self, declared: Declaration, say: impl FnOnce() -> (Option<Json>, String)) {
        if let Some(descriptions) = &self.document.descriptions {
            self.describe_in(descriptions, declared, say());
        }
    }

    fn describe_in(
        &self,
        descriptions: &RefCell<Vec<Description>>,
        declared: Declaration,
        (default, allowed): (Option<Json>, String),
    ) {
        let path = join(&self.path, declared.key);
        descriptions.borrow_mut().push(Description { path, declared, default, allowed });
    }

    /// Takes the references that led nowhere since the last call, and names the first: they disable what
    /// uses them.
    pub(crate) fn take_unresolved(&self) -> Option<Problem> {
        self.document.unresolved.take().into_iter().next()
    }

    pub(crate) fn section<T>(
        &mut self,
        key: &'static str,
        read: impl FnOnce(&mut Section<'_>) -> T,
    ) -> T {
        match self.field(key) {
            Some(field) => field.section(read),
            None => {
                let path = join(&self.path, key);
                Section::read(self.document, &path, self.at, &[], read)
            }
        }
    }

    /// A key that is no longer, or not yet, read: `reason` says what takes its place.
    pub(crate) fn retired(&mut self, key: &'static str, cure: Cure, reason: &str) {
        self.retired.push(key);
        if let Some(entry) = self.entries.iter().find(|entry| entry.key == key) {
            let path = join(&self.path, key);
            self.document.report(entry.at, &path, format!("unknown key: {reason}"));
            self.outdate(key, cure, reason);
        }
    }

    /// Notes a key that is there, for those who migrate the file.
    pub(crate) fn outdate(&self, key: &str, cure: Cure, reason: &str) {
        let (path, reason) = (join(&self.path, key), reason.to_owned());
        self.document.outdated.borrow_mut().push(Outdated { path, cure, reason });
    }

    /// Warns of unknown keys instead of refusing them: for files that others define.
    pub(crate) fn tolerate_unknown(&mut self) {
        self.tolerant = true;
    }

    /// Reports something that is wrong with the map as a whole.
    pub(crate) fn reject(&self, reason: impl Into<String>) {
        self.document.report(self.at, &self.path, reason);
    }

    fn report_unknown(&self) {
        for Entry { key, at, .. } in self.entries {
            if self.known.contains(&&**key) || self.retired.contains(&&**key) {
                continue;
            }
            let reason = match did_you_mean(key, self.known.iter().copied()) {
                Some(known) => format!("unknown key (did you mean \"{known}\"?)"),
                None => "unknown key".to_owned(),
            };
            let path = join(&self.path, key);
            if self.tolerant {
                self.document.warn(*at, &path, reason);
            } else {
                self.document.report(*at, &path, reason);
            }
        }
    }
}
