//! Names: the nearest that is allowed here to one that was allowed there.

use std::collections::BTreeSet;

use hivewright_actors::{
    org::names::check_name, scheduler::trigger::limits::LONGEST_NAME, text::is_slug,
};

const LONGEST_TEAM: usize = 48;
const LONGEST_PROFILE: usize = 40;
/// The longest key of a memory or of the vault.
const LONGEST_KEY: usize = 128;

/// What a team is called here: its name, or the nearest that is allowed and free. None if nothing of
/// it can be used.
pub(super) fn team(former: &str, taken: &BTreeSet<String>) -> Option<String> {
    let slug = slug(former, LONGEST_TEAM - "-team".len());
    if slug.is_empty() {
        return None;
    }
    let numbered = (2..100).map(|number| format!("{slug}-{number}"));
    [former.to_owned(), slug.clone(), format!("{slug}-team")]
        .into_iter()
        .chain(numbered)
        .find(|name| check_name(name).is_ok() && !taken.contains(name))
}

pub(super) fn profile(former: &str, taken: &BTreeSet<String>) -> String {
    let good = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-');
    let whole = (1..=LONGEST_PROFILE).contains(&former.len()) && former.bytes().all(good);
    let name = if whole { former.to_owned() } else { slug(former, LONGEST_PROFILE - 3) };
    unique(if name.is_empty() { "profile" } else { &name }, "-", taken)
}

pub(super) fn trigger(former: &str, taken: &BTreeSet<String>) -> String {
    if is_slug(former, LONGEST_NAME) && !taken.contains(former) {
        return former.to_owned();
    }
    let name = slug(former, LONGEST_NAME - 3);
    unique(if name.is_empty() { "trigger" } else { &name }, "-", taken)
}

pub(super) fn memory_key(former: &str) -> String {
    key(former, "._:/-")
}

pub(super) fn vault_key(former: &str) -> String {
    key(former, "_.:-")
}

fn key(former: &str, allowed: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || allowed.contains(c);
    let key: String =
        former.trim().chars().take(LONGEST_KEY).map(|c| if good(c) { c } else { '-' }).collect();
    if key.is_empty() { "unnamed".to_owned() } else { key }
}

/// A name that is not taken: itself, or with a number after it.
pub(super) fn unique(name: &str, before: &str, taken: &BTreeSet<String>) -> String {
    let numbered = (2..u64::MAX).map(|number| format!("{name}{before}{number}"));
    [name.to_owned()]
        .into_iter()
        .chain(numbered)
        .find(|name| !taken.contains(name))
        .unwrap_or_else(|| name.to_owned())
}

/// Lower-case words with hyphens between them.
fn slug(text: &str, longest: usize) -> String {
    let words: Vec<String> = text
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    let mut slug = words.join("-");
    slug.truncate(longest);
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OR-32
    #[test]
    fn a_name_that_is_not_allowed_here_becomes_the_nearest_that_is() {
        let none = BTreeSet::new();
        let taken = BTreeSet::from(["news".to_owned()]);

        assert_eq!(team("research", &none).as_deref(), Some("research"));
        assert_eq!(team("api", &none).as_deref(), Some("api-team"));
        assert_eq!(team("a", &none).as_deref(), Some("a-team"));
        assert_eq!(team("Big_Team", &none).as_deref(), Some("big-team"));
        assert_eq!(team("news", &taken).as_deref(), Some("news-team"));
        assert_eq!(team("!", &none), None);
        let long = team(&"x".repeat(80), &none);
        assert!(long.is_some_and(|name| name.len() <= 48));
    }

    #[test]
    fn keys_and_profiles_keep_what_they_can() {
        let none = BTreeSet::new();

        assert_eq!(profile("My Claude", &none), "my-claude");
        assert_eq!(profile("fast_1", &none), "fast_1");
        assert_eq!(memory_key("lesson:api retry"), "lesson:api-retry");
        assert_eq!(vault_key("A/B c"), "A-B-c");
        assert_eq!(trigger("Daily Report", &none), "daily-report");
        let taken = BTreeSet::from(["daily-report".to_owned()]);
        assert_eq!(trigger("daily report", &taken), "daily-report-2");
    }
}
