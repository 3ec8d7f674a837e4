//! A settings file while it is read, and all that is said of it: what is wrong, what is outdated, what could stand in it.

use std::{cell::RefCell, path::PathBuf};

use hivewright_actors::words;
use serde_json::Value as Json;

use super::{
    home::Home,
    problem::{Position, Problem, Problems},
    references::References,
};

words! {
    /// When a changed setting counts.
    pub(crate) enum Counts {
        AtOnce = "at once",
        NextTurn = "from the next turn",
        NextNight = "from the next night",
        NextStart = "at the next start",
    }
}

/// What becomes of a key that is no longer read, when a file is migrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cure {
    Remove,
    /// It means the same under this key beside it.
    Rename(&'static str),
    /// Only the operator knows what is meant by it now.
    ByHand,
}

/// What is said of a setting where it is declared.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "tests keep the shipped files and the tables equal to it")
)]
pub(crate) struct Declaration {
    pub(crate) key: &'static str,
    pub(crate) about: &'static str,
    /// What could stand in the file, where the default says too little.
    pub(crate) example: Option<&'static str>,
    pub(crate) counts: Counts,
}

/// A setting as the reader met it.
#[derive(Clone, Debug)]
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "tests keep the shipped files and the tables equal to it")
)]
pub(crate) struct Description {
    /// The way to it, such as `server.port`.
    pub(crate) path: String,
    pub(crate) declared: Declaration,
    /// What counts where the file says nothing, which may be null; none is a section.
    pub(crate) default: Option<Json>,
    /// Which values are allowed, for people.
    pub(crate) allowed: String,
}

/// A key of an earlier version that a file has, and that can be brought to its present form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outdated {
    /// The way to it, such as `store.jetstream`.
    pub(crate) path: String,
    pub(crate) cure: Cure,
    pub(crate) reason: String,
}

/// The file being read, and what was found in it.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(super) name: String,
    /// None: the file may not hold references.
    pub(super) references: Option<References>,
    pub(super) problems: RefCell<Vec<Problem>>,
    pub(super) unresolved: RefCell<Vec<Problem>>,
    pub(super) warnings: RefCell<Vec<Problem>>,
    pub(super) outdated: RefCell<Vec<Outdated>>,
    pub(super) home: Option<Home>,
    /// None: nobody wants to know what could stand in it.
    pub(super) descriptions: Option<RefCell<Vec<Description>>>,
}

impl Document {
    /// A file whose text may refer to variables and files.
    pub(crate) fn with_references(name: &str, references: References) -> Self {
        Self { references: Some(references), ..Self::plain(name) }
    }

    /// A file whose text stands for itself.
    pub(crate) fn plain(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// This document, of this home: where paths begin, and what no team is given.
    pub(crate) fn of(self, home: &Home) -> Self {
        Self { home: Some(home.clone()), ..self }
    }

    pub(crate) fn report(&self, at: Position, path: &str, reason: impl Into<String>) {
        let problem = at.problem(&self.name, path, self.hide_values(reason.into()));
        self.problems.borrow_mut().push(problem);
    }

    pub(crate) fn warn(&self, at: Position, path: &str, reason: impl Into<String>) {
        let warning = at.problem(&self.name, path, self.hide_values(reason.into()));
        self.warnings.borrow_mut().push(warning);
    }

    /// No report quotes what a reference stands for: it may be a secret.
    fn hide_values(&self, reason: String) -> String {
        match &self.references {
            Some(references) => references.hide_values(reason),
            None => reason,
        }
    }

    pub(super) fn report_unresolved(&self, at: Position, path: &str, reason: String) {
        let problem = at.problem(&self.name, path, reason);
        self.unresolved.borrow_mut().push(problem);
    }

    pub(crate) fn referenced(&self) -> Vec<PathBuf> {
        self.references.as_ref().map(References::files).unwrap_or_default()
    }

    /// Ends the reading: what was found if nothing is wrong, with warnings.
    pub(crate) fn finish<T>(self, found: T) -> Result<(T, Vec<Problem>), Problems> {
        let (problems, warnings) = self.into_findings();
        if problems.0.is_empty() { Ok((found, warnings)) } else { Err(problems) }
    }

    /// Ends the reading if nothing is wrong but in one section: warnings, and what is wrong there.
    pub(crate) fn finish_but(self, section: &str) -> Result<(Vec<Problem>, Problems), Problems> {
        let (problems, warnings) = self.into_findings();
        let is_inside = problems.0.iter().all(|problem| is_within(&problem.path, section));
        if is_inside { Ok((warnings, problems)) } else { Err(problems) }
    }

    fn into_findings(self) -> (Problems, Vec<Problem>) {
        let mut problems = self.problems.into_inner();
        problems.extend(self.unresolved.into_inner());
        problems.sort_by_key(|problem| (problem.line, problem.column));
        (Problems(problems), self.warnings.into_inner())
    }
}

/// The way leads to this setting, or to one inside it.
pub(crate) fn is_within(path: &str, above: &str) -> bool {
    let rest = path.strip_prefix(above);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
