//! What is wrong in a settings file, and where.

use std::{fmt, path::Path};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that is wrong with a settings file, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SettingsFault")]
pub struct Problem {
    /// The file, as the operator knows it.
    pub file: String,
    /// The way to the setting, such as `server.port`; empty for the file as a whole.
    pub path: String,
    /// From 1; 0 if it is about the whole file.
    pub line: usize,
    /// From 1, in characters; 0 if it is about the whole line.
    pub column: usize,
    /// What is wrong with it. Never holds a value that may be secret.
    #[serde(rename = "message")]
    pub reason: String,
}

impl Problem {
    /// A problem of a file as a whole.
    pub(crate) fn of_file(path: &Path, reason: impl Into<String>) -> Self {
        Position::START.problem(&path.display().to_string(), "", reason)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.is_empty() { "(file)" } else { &self.path };
        write!(f, "{}:{}:{}: {path}: {}", self.file, self.line, self.column, self.reason)
    }
}

/// All that is wrong, one problem a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

/// A place in a file, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl Position {
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    pub(super) fn problem(self, file: &str, path: &str, reason: impl Into<String>) -> Problem {
        Problem {
            file: file.to_owned(),
            line: self.line,
            column: self.column,
            path: path.to_owned(),
            reason: reason.into(),
        }
    }
}
