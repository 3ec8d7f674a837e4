//! Failures and exit codes: how a command ends when it does not end well.

use std::{fmt, path::Path};

use hivewright_actors::words;

use crate::{
    boot::error::ServiceError,
    http::auth::error::AuthError,
    settings::error::StartError,
    storage::{
        error::{BackupError, OpenError},
        restore::RestoreError,
    },
    vault::error::VaultError,
};

words! {
    /// What the process ends with: the word is for code that reads `--json`.
    pub enum Exit {
        /// It did not work.
        Failed = "failed",
        /// It was asked for in a wrong way.
        Usage = "usage",
        Settings = "settings_invalid",
        /// The credential is missing, wrong or too weak.
        NotAllowed = "not_allowed",
        NotFound = "not_found",
        /// Something else is in the way.
        Conflict = "conflict",
        /// No service answers.
        NotReachable = "not_reachable",
        TimedOut = "timed_out",
        /// The doctor found errors.
        FoundErrors = "found_errors",
        /// The user broke it off.
        Interrupted = "interrupted",
    }
}

impl Exit {
    /// The exit code: they count up from 1, but the last, which is that of a shell.
    pub fn code(self) -> u8 {
        if self == Self::Interrupted { 130 } else { self as u8 + 1 }
    }

    fn from_code(code: u8) -> Self {
        Self::ALL.iter().find(|exit| exit.code() == code).copied().unwrap_or(Self::Failed)
    }
}

/// Why a command did not do as told: what, where, what to do. Nothing is left to say if empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
}

impl Failure {
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into() }
    }

    /// It was asked for in a wrong way.
    pub(super) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// There is no such thing.
    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Exit::NotFound, message)
    }

    /// It did not work.
    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Says what to do, if it is a service that is in the way.
    pub(super) fn if_in_use(mut self) -> Self {
        if self.exit == Exit::Conflict {
            self.message.push_str("; stop the service first: `hivewright stop`");
        }
        self
    }

    /// A file or folder cannot be read.
    pub(super) fn unreadable<E: fmt::Display>(path: &Path) -> impl Fn(E) -> Self + Copy {
        move |error| Self::system(format!("`{}` cannot be read", path.display()), error)
    }

    /// The same of one that cannot be written.
    pub(super) fn unwritable<E: fmt::Display>(path: &Path) -> impl Fn(E) -> Self + Copy {
        move |error| Self::system(format!("`{}` cannot be written", path.display()), error)
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
        let is_told = text.ends_with(&reason) || text.contains(&format!(": {reason}"));
        if !is_told {
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
