//! A settings file on its way to being one of ours.

use super::{
    report::{Item, Kind},
    yaml::{Yaml, settle},
};
use crate::{
    settings::{problem::Problems, references::escaped, secret::Secret},
    vault::limit::SHORTEST_SECRET,
};

/// A settings file, or a part of one.
pub(super) const SETTINGS: Kind = Kind::listed("settings");

#[derive(Clone, Debug, Default)]
pub(super) struct FileDraft {
    name: &'static str,
    pub(super) entries: Vec<(String, Yaml)>,
    /// What moves to a vault, by key.
    pub(super) secrets: Vec<(String, Secret)>,
    pub(super) changes: Vec<String>,
    /// What is told of a part of it.
    pub(super) items: Vec<Item>,
}

impl FileDraft {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    pub(super) fn put(&mut self, key: &str, value: Yaml) {
        self.entries.push((key.to_owned(), value));
    }

    pub(super) fn change(&mut self, change: impl Into<String>) {
        self.changes.push(change.into());
    }

    /// Tells of a part that is taken with a change.
    pub(super) fn note(&mut self, path: &str, change: impl Into<String>) {
        self.items.push(Item::taken(SETTINGS, self.part(path), &[change.into()]));
    }

    pub(super) fn leave(&mut self, path: &str, reason: &str) {
        self.items.push(Item::left(SETTINGS, self.part(path), reason));
    }

    pub(super) fn unknown(&mut self, path: &str) {
        self.leave(path, "nothing here corresponds to it");
    }

    /// Moves a literal value to the vault, and returns what stands in its place.
    pub(super) fn hide(&mut self, path: &str, key: &str, value: &str) -> Yaml {
        if value.len() < SHORTEST_SECRET {
            self.note(path, "stays in the file: the vault takes no value shorter than 8 bytes");
            return Yaml::text(escaped(value));
        }
        self.note(path, format!("moved to the vault `system` as `{key}`"));
        self.secrets.push((key.to_owned(), Secret::new(value.to_owned())));
        Yaml::text(format!("${{vault:{key}}}"))
    }

    /// The file without what its reader refuses, and an item for everything that went.
    pub(super) fn settled(
        &self,
        check: impl Fn(&str) -> Result<(), Problems>,
    ) -> Result<(String, Vec<Item>), Problems> {
        let mut tree = Yaml::Map(self.entries.clone());
        let refused = settle(&mut tree, check)?.into_iter().map(|problem| {
            // It is told to someone who has not written it.
            let is_unknown = problem.reason.starts_with("unknown key");
            let reason: &str =
                if is_unknown { "there is no such setting here" } else { &problem.reason };
            Item::faulty(SETTINGS, self.part(&problem.path), reason)
        });
        Ok((tree.write(), refused.collect()))
    }

    fn part(&self, path: &str) -> String {
        format!("{}: {path}", self.name)
    }
}
