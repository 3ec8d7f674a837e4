//! The file of the operator token. What it holds is the operator token: at start the store follows it.

use std::{fs, io, path::Path};

use super::{error::AuthError, token};
use crate::settings::{replace, secret::Secret};

const NAME: &str = "operator-token";

/// The token in the folder of secrets; made if there is none. Blocks.
pub fn read_or_create(secrets: &Path) -> Result<Secret, AuthError> {
    match read(secrets)? {
        Some(token) => Ok(token),
        None => replace(secrets),
    }
}

/// The token in the folder of secrets, if there is one. Blocks.
pub fn read(secrets: &Path) -> Result<Option<Secret>, AuthError> {
    let path = secrets.join(NAME);
    match fs::read_to_string(&path) {
        Ok(text) if token::is_formed(text.trim(), token::OPERATOR) => {
            Ok(Some(Secret::new(text.trim().to_owned())))
        }
        Ok(_) => Err(AuthError::NotAToken { path }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Err(AuthError::NotAToken { path })
        }
        Err(source) => Err(AuthError::File { path, source }),
    }
}

/// Puts a new token into the file, whole or not at all. Blocks.
pub(super) fn replace(secrets: &Path) -> Result<Secret, AuthError> {
    let token = token::fresh(token::OPERATOR)?;
    let path = secrets.join(NAME);
    match replace::replace(&path, secrets, format!("{}\n", token.expose())) {
        Ok(()) => Ok(token),
        Err(source) => Err(AuthError::File { path, source }),
    }
}

#[cfg(test)]
mod tests {

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// OP-10
    #[test]
    fn the_first_start_makes_a_token_for_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();

        let made = read_or_create(folder.path()).unwrap();

        let path = folder.path().join("operator-token");
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{}\n", made.expose()));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read_or_create(folder.path()).unwrap(), made);
    }

    /// OP-10
    #[test]
    fn a_replaced_token_is_another_one_for_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operator-token");
        fs::write(folder.path().join(".operator-token.new"), "left by a crash").unwrap();
        let first = read_or_create(folder.path()).unwrap();

        let second = replace(folder.path()).unwrap();

        assert_ne!(first, second);
        assert_eq!(read(folder.path()).unwrap(), Some(second));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_holds_something_else_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operator-token");
        fs::write(&path, "password1").unwrap();

        let error = read_or_create(folder.path()).unwrap_err();

        assert!(matches!(error, AuthError::NotAToken { .. }));
        assert!(!error.to_string().contains("password1"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "password1");
    }
}
