//! How a command ends when it does not end well.

use std::fmt;

use crate::{
    boot::error::ServiceError,
    http::auth::error::AuthError,
    settings::error::StartError,
    storage::{backup::BackupError, open::OpenError, restore::RestoreError},
    vault::error::VaultError,
};

/// What the process ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did not work.
    Failed,
    /// It was asked for in a wrong way.
    Usage,
    /// The settings are wrong.
    Settings,
    /// The credential is missing, wrong or too weak.
    NotAllowed,
    /// There is no such thing.
    NotFound,
    /// Something else is in the way.
    Conflict,
    /// No service answers.
    NotReachable,
    /// It took too long.
    TimedOut,
    /// The doctor found errors.
    FoundErrors,
    /// The user broke it off.
    Interrupted,
}

impl Exit {
    const ALL: [Self; 10] = [
        Self::Failed,
        Self::Usage,
        Self::Settings,
        Self::NotAllowed,
        Self::NotFound,
        Self::Conflict,
        Self::NotReachable,
        Self::TimedOut,
        Self::FoundErrors,
        Self::Interrupted,
    ];

    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Settings => 3,
            Self::NotAllowed => 4,
            Self::NotFound => 5,
            Self::Conflict => 6,
            Self::NotReachable => 7,
            Self::TimedOut => 8,
            Self::FoundErrors => 9,
            Self::Interrupted => 130,
        }
    }

    fn from_code(code: u8) -> Self {
        let found = Self::ALL.into_iter().find(|exit| exit.code() == code);
        found.unwrap_or(Self::Failed)
    }

    /// For code that reads `--json`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Settings => "settings_invalid",
            Self::NotAllowed => "not_allowed",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::NotReachable => "not_reachable",
            Self::TimedOut => "timed_out",
            Self::FoundErrors => "found_errors",
            Self::Interrupted => "interrupted",
        }
    }
}

/// Why a command did not do as told: what, where, what to do. Nothing is left to say if empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What the process ends with.
    pub exit: Exit,
    /// In words, for the person.
    pub message: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// It did not work.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// An error of the system, with what was being done.
    pub(super) fn system(doing: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::failed(format!("{doing}: {error}"))
    }
}

/// An error with all its causes, in one line.
pub(super) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        // Some errors repeat their cause in their own words.
        if !text.ends_with(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        cause = error.source();
    }
    text
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::new(Exit::from_code(error.exit_code()), chain(&error))
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Self::new(Exit::from_code(error.exit_code()), chain(&error))
    }
}

impl From<ServiceError> for Failure {
    fn from(error: ServiceError) -> Self {
        Self::new(Exit::from_code(error.exit_code()), chain(&error))
    }
}

impl From<BackupError> for Failure {
    fn from(error: BackupError) -> Self {
        Self::failed(chain(&error))
    }
}

impl From<VaultError> for Failure {
    fn from(error: VaultError) -> Self {
        let exit = match error.code() {
            "not_found" => Exit::NotFound,
            "internal" => Exit::Failed,
            _ => Exit::Conflict,
        };
        Self::new(exit, chain(&error))
    }
}

impl From<RestoreError> for Failure {
    fn from(error: RestoreError) -> Self {
        let exit = match error {
            RestoreError::InUse | RestoreError::NotEmpty => Exit::Conflict,
            RestoreError::NoBackup(_) => Exit::NotFound,
            _ => Exit::Failed,
        };
        Self::new(exit, chain(&error))
    }
}

impl From<AuthError> for Failure {
    fn from(error: AuthError) -> Self {
        let exit = match error {
            AuthError::Unknown(_) => Exit::NotFound,
            AuthError::NameTaken(_) | AuthError::TooMany(_) | AuthError::Operator => Exit::Conflict,
            AuthError::BeyondOwn(_) | AuthError::Ended => Exit::NotAllowed,
            _ => Exit::Failed,
        };
        Self::new(exit, chain(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::{io, path::PathBuf};

    use super::*;

    /// OP-85
    #[test]
    fn an_error_keeps_its_exit_code_on_the_way_out() {
        let running = StartError::Running { pid: Some(7), run: PathBuf::from("/r") };
        let unusable =
            StartError::Unusable { path: PathBuf::from("/r/lock"), source: io::Error::other("no") };
        let newer = OpenError::Newer { found: 9, known: 1 };

        let failures = [
            Failure::from(ServiceError::from(running)),
            ServiceError::from(unusable).into(),
            ServiceError::from(newer).into(),
            RestoreError::NotEmpty.into(),
            RestoreError::NoBackup(PathBuf::from("/b")).into(),
        ];

        let shown = failures.map(|failure| (failure.exit.code(), failure.message));
        let expected = [
            (6, "already running as process 7 in `/r`"),
            (1, "`/r/lock` cannot be used: no"),
            (3, "the store has schema version 9, this program knows versions up to 1"),
            (6, "there is a store already; `--force` replaces it and keeps it beside the new one"),
            (5, "there is no good backup in `/b`, so the store stays as it is"),
        ];
        assert_eq!(shown, expected.map(|(code, text)| (code, text.to_owned())));
    }
}
