//! Rules: short texts that say how to work, and whom they concern.

use std::sync::Arc;

use hivewright_actors::{
    ids::{MAIN, TeamName},
    words,
};

use super::{
    folder::{Found, Limits, Place, Text, warning},
    markdown::{split_front_matter, without_mark},
};
use crate::settings::{document::Document, problem::Problems};

words! {
    pub(super) enum Audience {
        All = "all",
        Main = "main",
        /// All teams but the main one.
        Teams = "teams",
        Subagents = "subagents",
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<'a> {
    pub(super) team: &'a TeamName,
    /// One of its subagents works.
    pub(super) subagent: bool,
    /// In a session of its own, and not in place of the team.
    pub(super) inner: bool,
}

impl Audience {
    /// The rule belongs into this prompt.
    pub(super) fn concerns(self, reader: &Reader<'_>) -> bool {
        match self {
            Self::All => true,
            Self::Main => reader.team.as_str() == MAIN && !reader.inner,
            Self::Teams => reader.team.as_str() != MAIN && !reader.inner,
            Self::Subagents => reader.subagent,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) audience: Audience,
    pub(super) text: String,
}

impl Rule {
    /// Its first line, without marks.
    pub(super) fn title(&self) -> &str {
        let line = self.text.lines().find(|line| !line.trim().is_empty());
        line.unwrap_or_default().trim_start_matches(['#', ' '])
    }
}

impl Text for Rule {
    const LIMITS: Limits =
        Limits { file: 64 * 1024, total: 256 * 1024, files: 256, all: "the rules of this level" };
    const NOUN: &'static str = "rule";

    /// Reads a file: front matter, if there is any, then the text.
    fn parse(place: &Place<'_>, source: &str) -> Result<Self, Problems> {
        let (front, text) = split_front_matter(without_mark(source));
        let document = Document::plain(place.file);
        let audience = document
            .read(front, |front| front.get("audience", Audience::All, |field| field.choice()));
        let (audience, _) = document.finish(audience)?;
        Ok(Self { name: place.name.to_owned(), audience, text: text.trim().to_owned() })
    }
}

/// The rules of one level, general first.
pub(super) type Tier = Found<Rule>;

impl Found<Rule> {
    /// The texts of the chosen rules, one after another.
    pub(super) fn joined(&self, chosen: impl Fn(Audience) -> bool) -> String {
        let texts: Vec<_> = self
            .texts
            .iter()
            .filter(|rule| chosen(rule.audience) && !rule.text.is_empty())
            .map(|rule| &*rule.text)
            .collect();
        texts.join("\n\n")
    }
}

/// The rules that ship with the program.
pub(super) fn system() -> Tier {
    let files = [
        ("10-work.md", include_str!("../../config/rules/10-work.md")),
        (
            "20-instructions-and-data.md",
            include_str!("../../config/rules/20-instructions-and-data.md"),
        ),
        ("30-secrets.md", include_str!("../../config/rules/30-secrets.md")),
        ("40-files.md", include_str!("../../config/rules/40-files.md")),
        ("50-main.md", include_str!("../../config/rules/50-main.md")),
        ("60-teams.md", include_str!("../../config/rules/60-teams.md")),
    ];
    let mut tier = Tier::default();
    for (name, source) in files {
        let place = Place { name, file: name };
        match Rule::parse(&place, source) {
            Ok(rule) => tier.texts.push(Arc::new(rule)),
            Err(problems) => tier.warnings.push(warning::<Rule>(&problems)),
        }
    }
    tier
}

#[cfg(test)]
mod tests {

    use super::*;

    fn parse(source: &str) -> Result<Rule, Problems> {
        let place = Place { name: "a.md", file: "a.md" };
        Rule::parse(&place, source)
    }

    fn rule(audience: Audience, text: &str) -> Result<Rule, Problems> {
        Ok(Rule { name: "a.md".to_owned(), audience, text: text.into() })
    }

    /// SE-67
    #[test]
    fn front_matter_names_the_audience() {
        assert_eq!(parse("Be kind.\n"), rule(Audience::All, "Be kind."));
        assert_eq!(parse("---\naudience: all\n---\nA"), rule(Audience::All, "A"));
        assert_eq!(parse("---\r\naudience: main\r\n---\r\nA"), rule(Audience::Main, "A"));
        assert_eq!(parse("---\naudience: teams\n---\n"), rule(Audience::Teams, ""));
        assert_eq!(parse("---\naudience: subagents\n---\nA"), rule(Audience::Subagents, "A"));
        assert_eq!(parse("---\n---\nA\n---\nB"), rule(Audience::All, "A\n---\nB"));
        assert_eq!(parse("---\nnever closed"), rule(Audience::All, "---\nnever closed"));
    }

    /// A rule whose audience cannot be read is for nobody, rather than for all.
    #[test]
    fn wrong_front_matter_leaves_the_rule_out() {
        for (source, reason) in [
            ("---\naudience: everyone\n---\nA", "a.md:2:11: audience: expected one of all, main"),
            ("---\naudiense: main\n---\nA", "a.md:2:1: audiense: unknown key (did you mean"),
            ("---\naudience: [\n---\nA", "a.md:2:11: audience: syntax"),
        ] {
            let warning = parse(source).unwrap_err().to_string();
            assert!(warning.starts_with(reason), "{warning}");
        }
    }

    #[test]
    fn all_shipped_rules_are_read() {
        let tier = system();

        assert_eq!(tier.warnings, [] as [String; 0]);
        assert_eq!(tier.texts.len(), 6);
        assert!(tier.texts.iter().all(|rule| !rule.text.is_empty()));
    }
}
