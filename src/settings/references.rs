//! References in settings: `${env:NAME}`, `${file:PATH}` and `${vault:KEY}`.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most bytes that a referenced file may hold.
const MAX_BYTES: u64 = 64 * 1024;

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

/// The service's own part of the vault, as settings see it.
pub trait SystemVault: Send + Sync + 'static {
    /// The value of a key, or why there is none.
    fn value(&self, key: &str) -> Result<String, String>;
    /// Rises when a value changes.
    fn version(&self) -> u64;
}

/// Where variables come from: the process, or a fixed list in tests. And where secrets do.
#[derive(Clone)]
pub struct Environment {
    variables: Arc<Lookup>,
    vault: Option<Arc<dyn SystemVault>>,
}

impl Environment {
    pub fn system() -> Self {
        Self { variables: Arc::new(|name| std::env::var(name).ok()), vault: None }
    }

    pub fn with_vault(self, vault: impl SystemVault) -> Self {
        Self { vault: Some(Arc::new(vault)), ..self }
    }

    /// The same for a file that is read before the vault is opened.
    pub(crate) fn without_vault(&self) -> Self {
        Self { vault: None, ..self.clone() }
    }

    pub fn fixed<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let variables: BTreeMap<String, String> =
            variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { variables: Arc::new(move |name| variables.get(name).cloned()), vault: None }
    }

    /// A variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.variables)(name).filter(|value| !value.is_empty())
    }

    pub(crate) fn vault_version(&self) -> u64 {
        self.vault.as_ref().map_or(0, |vault| vault.version())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

/// Text with its references replaced by what they stand for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    pub(crate) literal: bool,
    /// What its references stand for was not looked up, so `text` says nothing.
    pub(crate) unknown: bool,
    /// What the operator should know.
    pub(crate) warnings: Vec<String>,
}

/// Why a text cannot be expanded. Names the reference, never its value.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReferenceError {
    #[error("{0}")]
    Malformed(String),
    /// The text is right, what it refers to is not there.
    #[error("{0}")]
    Unresolved(String),
}

/// The text of a file in which variables and files have no place: `$${` becomes `${`, and `${vault:`
/// stays for whoever uses it. None if it refers to one of the others.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${") {
        let (before, after) = (&rest[..start], &rest[start + 2..]);
        match before.strip_suffix('$') {
            Some(before) => plain.push_str(before),
            None if after.starts_with("env:") || after.starts_with("file:") => return None,
            None => plain.push_str(before),
        }
        plain.push_str("${");
        rest = after;
    }
    plain.push_str(rest);
    Some(plain)
}

/// The same text, written so that it refers to nothing.
pub(crate) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// Expands references, and remembers the files that it read.
#[derive(Debug)]
pub(crate) struct References {
    environment: Environment,
    /// Relative paths begin here.
    folder: PathBuf,
    /// False: the text comes from outside, and references are checked for their form alone.
    followed: bool,
    files: RefCell<Vec<PathBuf>>,
    /// Each value that a reference led to, with that reference.
    values: RefCell<Vec<(String, String)>>,
}

impl References {
    pub(crate) fn new(environment: &Environment, folder: &Path) -> Self {
        Self {
            environment: environment.clone(),
            folder: folder.to_owned(),
            followed: true,
            files: RefCell::default(),
            values: RefCell::default(),
        }
    }

    /// For a text that somebody sent: nothing that it refers to is looked up.
    pub(crate) fn unfollowed() -> Self {
        Self { followed: false, ..Self::new(&Environment::fixed([]), Path::new("")) }
    }

    /// References are looked up, not only checked for their form.
    pub(crate) fn are_followed(&self) -> bool {
        self.followed
    }

    /// The text with references in place of the values that they stand for.
    pub(crate) fn hide_values(&self, text: String) -> String {
        let values = self.values.borrow();
        values.iter().fold(text, |text, (value, reference)| text.replace(value.as_str(), reference))
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.files.borrow().clone()
    }

    /// Replaces each reference; `$${` becomes `${`.
    pub(crate) fn expand(&self, text: &str) -> Result<Expanded, ReferenceError> {
        let mut expanded =
            Expanded { text: String::new(), literal: true, unknown: false, warnings: Vec::new() };
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            let before = &rest[..start];
            rest = &rest[start + 2..];
            if let Some(before) = before.strip_suffix('$') {
                expanded.text.push_str(before);
                expanded.text.push_str("${");
                continue;
            }
            expanded.text.push_str(before);
            let Some((reference, after)) = rest.split_once('}') else {
                return Err(ReferenceError::Malformed(
                    "a reference has no closing `}`; write `$${` for a plain `${`".into(),
                ));
            };
            let value = self.resolve(reference, &mut expanded.warnings)?;
            expanded.unknown |= value.is_none();
            expanded.text.push_str(&value.unwrap_or_default());
            expanded.literal = false;
            rest = after;
        }
        expanded.text.push_str(rest);
        Ok(expanded)
    }

    /// What a reference stands for; none if references are not followed.
    fn resolve(
        &self,
        reference: &str,
        warnings: &mut Vec<String>,
    ) -> Result<Option<String>, ReferenceError> {
        let (kind, name) = reference.split_once(':').unwrap_or_default();
        if name.is_empty() || !["env", "file", "vault"].contains(&kind) {
            return Err(ReferenceError::Malformed(
                "unknown reference; there are `${env:NAME}`, `${file:PATH}` and `${vault:KEY}`, and `$${` for a plain `${`"
                    .into(),
            ));
        }
        if !self.followed {
            return Ok(None);
        }
        let value = match kind {
            "env" => self
                .environment
                .get(name)
                .ok_or_else(|| ReferenceError::Unresolved(format!("variable `{name}` is not set"))),
            "file" => self.file(name, warnings),
            _ => self.vault(name),
        }?;
        let known = (value.clone(), format!("${{{reference}}}"));
        self.values.borrow_mut().push(known);
        Ok(Some(value))
    }

    fn vault(&self, key: &str) -> Result<String, ReferenceError> {
        let value = match &self.environment.vault {
            Some(vault) => vault.value(key),
            None => Err(
                "the vault is opened after this file is read; use `${env:NAME}` or `${file:PATH}` here"
                    .to_owned(),
            ),
        };
        value.map_err(|why| ReferenceError::Unresolved(format!("vault key `{key}`: {why}")))
    }

    fn file(&self, path: &str, warnings: &mut Vec<String>) -> Result<String, ReferenceError> {
        let unresolved = |why: &dyn fmt::Display| {
            ReferenceError::Unresolved(format!("file `{path}` cannot be used: {why}"))
        };
        let real = self.folder.join(path);
        self.files.borrow_mut().push(real.clone());
        let found = fs::metadata(&real).map_err(|error| unresolved(&error))?;
        if !found.is_file() {
            return Err(unresolved(&"not a regular file"));
        }
        if found.permissions().mode() & 0o004 != 0 {
            warnings.push(format!(
                "file `{path}` can be read by others; `chmod 600 {}`",
                real.display()
            ));
        }
        let mut text = String::new();
        File::open(&real)
            .and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| unresolved(&error))?;
        if text.len() as u64 > MAX_BYTES {
            return Err(unresolved(&"larger than 64 KiB"));
        }
        if text.ends_with('\n') {
            text.pop();
        }
        if text.is_empty() {
            return Err(unresolved(&"empty"));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OR-20: what a model says is never taken for a reference.
    #[test]
    fn text_that_was_escaped_refers_to_nothing() {
        for text in ["${env:HOME}", "a ${file:x} $${vault:y}", "$", "${", "$$${env:Z}"] {
            assert_eq!(unescaped(&escaped(text)).as_deref(), Some(text));
        }
        assert_eq!(unescaped("${env:HOME}"), None);
        assert_eq!(unescaped("$${file:x} ${file:x}"), None);
        assert_eq!(unescaped("${vault:KEY}").as_deref(), Some("${vault:KEY}"));
    }

    fn references(folder: &Path) -> References {
        References::new(&Environment::fixed([("KEY", "sesame"), ("EMPTY", "")]), folder)
    }

    fn expanded(text: &str) -> Expanded {
        Expanded { text: text.into(), literal: false, unknown: false, warnings: Vec::new() }
    }

    /// OR-20
    #[test]
    fn references_are_replaced_and_escapes_are_undone() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "open\n\n").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let references = references(folder.path());

        assert_eq!(references.expand("a ${env:KEY}.").unwrap(), expanded("a sesame."));
        assert_eq!(references.expand("${file:key}").unwrap(), expanded("open\n"));
        assert_eq!(
            references.expand("$${env:KEY} $5").unwrap(),
            Expanded { literal: true, ..expanded("${env:KEY} $5") }
        );
        assert_eq!(references.files(), [key]);
    }

    /// OR-20, OR-21
    #[test]
    fn a_key_of_the_vault_is_read_and_its_absence_told() {
        struct Fixed;
        impl SystemVault for Fixed {
            fn value(&self, key: &str) -> Result<String, String> {
                match key {
                    "OPENAI" => Ok("sesame".to_owned()),
                    _ => Err("not found".to_owned()),
                }
            }

            fn version(&self) -> u64 {
                1
            }
        }
        let environment = Environment::fixed([]).with_vault(Fixed);
        let references = References::new(&environment, Path::new("/nonexistent"));

        assert_eq!(references.expand("${vault:OPENAI}").unwrap(), expanded("sesame"));
        assert_eq!(
            references.expand("${vault:OTHER}").unwrap_err(),
            ReferenceError::Unresolved("vault key `OTHER`: not found".into())
        );
    }

    /// OR-20
    #[test]
    fn a_file_open_to_others_works_with_a_warning() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "open").unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();

        let found = references(folder.path()).expand("${file:key}").unwrap();

        assert_eq!(found.text, "open");
        assert_eq!(found.warnings.len(), 1);
        assert!(found.warnings[0].contains("chmod 600"), "{:?}", found.warnings);
    }

    /// OR-21
    #[test]
    fn what_is_not_there_is_told_from_what_is_wrong() {
        let references = references(Path::new("/nonexistent"));
        let fault = |text| references.expand(text).unwrap_err();

        assert_eq!(
            fault("${env:GONE}"),
            ReferenceError::Unresolved("variable `GONE` is not set".into())
        );
        assert_eq!(
            fault("${env:EMPTY}"),
            ReferenceError::Unresolved("variable `EMPTY` is not set".into())
        );
        assert!(matches!(fault("${file:key}"), ReferenceError::Unresolved(_)));
        assert!(matches!(fault("${vault:KEY}"), ReferenceError::Unresolved(_)));
        for text in ["${env:KEY", "${KEY}", "${env:}", "${vault:}"] {
            assert!(matches!(fault(text), ReferenceError::Malformed(_)), "{text}");
        }
    }
}
