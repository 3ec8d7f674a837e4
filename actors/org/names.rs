//! Names of teams, with the keywords of their scopes: what they may be.

use std::collections::BTreeSet;

use super::error::OrgError;
use crate::{excerpt, ids::TeamName};

/// Names that mean something else.
const RESERVED: [&str; 11] = [
    "main",
    "system",
    "operator",
    "root",
    "self",
    "all",
    "api",
    "mcp",
    "agent",
    "hivewright",
    "channels",
];

/// How long a name may be, in characters.
const NAME_LENGTH: std::ops::RangeInclusive<usize> = 2..=48;
/// The longest word of a scope, in characters.
const LONGEST_KEYWORD: usize = 64;
/// The most words of a scope.
const MOST_KEYWORDS: usize = 50;

/// The name, if a new team may have it. Who else has it is not asked here.
pub fn check_name(name: &str) -> Result<TeamName, OrgError> {
    let refuse = |rule: &'static str| {
        Err(OrgError::Name { name: excerpt::line(name, *NAME_LENGTH.end()), rule })
    };
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if !name.bytes().all(plain) {
        return refuse("only lower-case letters, digits and `-` are allowed");
    }
    if !NAME_LENGTH.contains(&name.len()) {
        return refuse("a name has 2 to 48 characters");
    }
    if name.split('-').any(str::is_empty) {
        return refuse("a `-` stands between two words, not at an end and not twice");
    }
    if RESERVED.contains(&name) {
        return Err(OrgError::NameReserved(name.into()));
    }
    Ok(name.into())
}

/// Words of a scope as they are kept: trimmed, in lower case, each once.
pub fn check_scope<S: AsRef<str>>(words: &[S]) -> Result<BTreeSet<String>, OrgError> {
    let mut scope = BTreeSet::new();
    for word in words {
        let word = word.as_ref().trim().to_lowercase();
        match word.chars().count() {
            0 => return Err(OrgError::Scope("a scope keyword is empty".to_owned())),
            1..=LONGEST_KEYWORD => scope.insert(word),
            length => {
                return Err(OrgError::Scope(format!(
                    "a scope keyword has {length} characters; at most {LONGEST_KEYWORD} are allowed"
                )));
            }
        };
    }
    check_size(&scope)?;
    Ok(scope)
}

/// Refuses a scope with too many words.
pub fn check_size(scope: &BTreeSet<String>) -> Result<(), OrgError> {
    match scope.len() {
        0..=MOST_KEYWORDS => Ok(()),
        size => Err(OrgError::Scope(format!(
            "{size} scope keywords are more than the {MOST_KEYWORDS} that a team may have"
        ))),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OR-32
    #[test]
    fn a_bad_name_is_refused_with_the_rule_it_breaks() {
        let table = [
            ("Scouts", "lower-case"),
            ("sc_outs", "lower-case"),
            ("späher", "lower-case"),
            ("", "2 to 48"),
            ("x", "2 to 48"),
            (&"x".repeat(49), "2 to 48"),
            ("-scouts", "a `-` stands between"),
            ("scouts-", "a `-` stands between"),
            ("far--scouts", "a `-` stands between"),
        ];

        for (name, rule) in table {
            let error = check_name(name).unwrap_err();
            assert_eq!(error.code(), "invalid_input", "{name}");
            assert!(error.to_string().contains(rule), "{name}: {error}");
        }
        for name in ["ab", "far-scouts", "77", "x2-3y", &"x".repeat(48)] {
            assert_eq!(check_name(name).unwrap().as_str(), name);
        }
    }

    /// OR-32
    #[test]
    fn reserved_names_are_nobodys() {
        for name in RESERVED {
            assert_eq!(check_name(name).unwrap_err().code(), "name_reserved");
        }
        assert!(check_name("main-office").is_ok());
    }

    /// OR-36
    #[test]
    fn keywords_are_trimmed_lowered_and_counted() {
        let scope = check_scope(&[" Billing ", "billing", "TAX"]).unwrap();
        assert_eq!(scope.into_iter().collect::<Vec<_>>(), ["billing", "tax"]);

        assert_eq!(check_scope(&["  "]).unwrap_err().code(), "invalid_input");
        assert!(check_scope(&["x".repeat(64)]).is_ok());
        assert!(check_scope(&["x".repeat(65)]).is_err());
        let words = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>();
        assert!(check_scope(&words(50)).is_ok());
        assert!(check_scope(&words(51)).is_err());
    }
}
