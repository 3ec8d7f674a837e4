//! Subagents: specialists of a team, each with a role, boundaries and skills.

use hivewright_actors::{excerpt, text::is_slug};

use super::{
    folder::{Limits, Place, Text},
    markdown::{Outline, bullets, first_paragraph, split_front_matter, without_mark},
};
use crate::settings::{document::Document, problem::Problems, team::STEPS};

const LONGEST_NAME: usize = 40;
/// The longest description, in characters: it becomes that of a tool.
const MAX_DESCRIPTION: usize = 900;

/// One of them, as its file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subagent {
    pub name: String,
    pub description: String,
    /// The skills it owns, as far as they exist.
    pub skills: Vec<String>,
    /// `profile:model`, a profile or a model; none is the team's.
    pub model: Option<String>,
    /// The most model calls of its session.
    pub max_steps: Option<u32>,
    /// Patterns that narrow the tools of its team.
    pub allowed_tools: Option<Vec<String>>,
    /// Its file, for people.
    pub file: String,
    /// Who it is, in its own words.
    pub(super) text: String,
    /// What works and should not stay.
    pub(super) warnings: Vec<String>,
}

impl Text for Subagent {
    const LIMITS: Limits =
        Limits { file: 64 * 1024, total: 256 * 1024, files: 64, all: "the subagents of a team" };
    const NOUN: &'static str = "subagent";

    fn parse(place: &Place<'_>, source: &str) -> Result<Self, Problems> {
        let (front, text) = split_front_matter(without_mark(source));
        let (front, text) = (front.trim(), text.trim());
        let outline = Outline::of(text);
        let titled = outline
            .title
            .and_then(|title| title.strip_prefix("Agent:"))
            .map(|name| name.trim().to_owned());
        let document = Document::plain(place.file);
        let mut subagent = document.read(front, |front| {
            front.tolerate_unknown();
            let called = front.maybe("name", |field| field.text());
            let description = front.maybe("description", |field| field.text());
            let role = outline.section("Role").map(first_paragraph);
            let skills = front.maybe("skills", |field| field.list(|item| item.text()));
            let listed = outline.section("Skills").map(bullets);
            Self {
                name: called
                    .or(titled)
                    .unwrap_or_else(|| place.name.trim_end_matches(".md").to_owned()),
                description: shortened(&description.or(role).unwrap_or_default()),
                skills: skills.or(listed).unwrap_or_default(),
                model: front.maybe("model", |field| field.text()),
                max_steps: front.maybe("max_steps", |field| field.integer(STEPS)),
                allowed_tools: front.maybe("allowed_tools", |field| field.list(|item| item.text())),
                file: place.file.to_owned(),
                text: text.to_owned(),
                warnings: Vec::new(),
            }
        });
        let name = &subagent.name;
        if !is_slug(name, LONGEST_NAME) {
            let reason = format!(
                "`{name}` is no name for a subagent: 1 to {LONGEST_NAME} lower-case letters and \
                 digits, with single hyphens between"
            );
            return Err(place.problem("name", reason));
        }
        let mut missing = Vec::new();
        if subagent.description.is_empty() {
            missing.push("Role");
        }
        if outline.section("Boundaries").is_none() {
            missing.push("Boundaries");
        }
        let ((), warnings) = document.finish(())?;
        subagent.warnings = warnings.iter().map(ToString::to_string).collect();
        let absent =
            missing.into_iter().map(|section| format!("{}: `## {section}` is missing", place.file));
        subagent.warnings.extend(absent);
        Ok(subagent)
    }
}

fn shortened(text: &str) -> String {
    excerpt::line(text.trim(), MAX_DESCRIPTION)
}

#[cfg(test)]
mod tests {

    use super::{super::folder::warning, *};

    const HEADINGS: &str = "# Agent: scout\n\n## Role\nYou look\naround.\n\nAlways.\n\n\
        ## Skills\n- look — with both eyes\n- `listen`\n\n## Boundaries\n- Touch nothing.\n\n\
        ## Communication Style\nShort.\n";

    fn parse(name: &str, source: &str) -> Result<Subagent, Problems> {
        Subagent::parse(&Place { name, file: name }, source)
    }

    /// SE-77
    #[test]
    fn headings_describe_a_subagent() {
        let scout = parse("any.md", HEADINGS).unwrap();

        assert_eq!(
            scout,
            Subagent {
                name: "scout".to_owned(),
                description: "You look around.".to_owned(),
                skills: vec!["look".to_owned(), "listen".to_owned()],
                model: None,
                max_steps: None,
                allowed_tools: None,
                file: "any.md".to_owned(),
                text: HEADINGS.trim().to_owned(),
                warnings: Vec::new(),
            }
        );
    }

    /// SE-77
    #[test]
    fn front_matter_describes_a_subagent() {
        let source = "---\nname: scout\ndescription: Looks around.\nskills: [look]\nmodel: fast:small\n\
            max_steps: 7\nallowed_tools: [read, \"!bash\"]\n---\n## Boundaries\nNone.\n";

        let scout = parse("any.md", source).unwrap();

        assert_eq!(
            scout,
            Subagent {
                name: "scout".to_owned(),
                description: "Looks around.".to_owned(),
                skills: vec!["look".to_owned()],
                model: Some("fast:small".to_owned()),
                max_steps: Some(7),
                allowed_tools: Some(vec!["read".to_owned(), "!bash".to_owned()]),
                file: "any.md".to_owned(),
                text: "## Boundaries\nNone.".to_owned(),
                warnings: Vec::new(),
            }
        );
    }

    /// SE-77
    #[test]
    fn without_a_name_the_file_gives_it_and_missing_sections_are_warned_of() {
        let scout = parse("scout.md", "Looks around.").unwrap();

        assert_eq!(scout.name, "scout");
        assert_eq!(
            scout.warnings,
            ["scout.md: `## Role` is missing", "scout.md: `## Boundaries` is missing"]
        );
    }

    /// SE-77
    #[test]
    fn a_wrong_name_or_field_leaves_the_subagent_out() {
        let long = "x".repeat(41);
        let table = [
            ("a.md", "# Agent: The Scout".to_owned(), "a.md:1:1: name: `The Scout` is no name"),
            ("a.md", format!("# Agent: {long}"), "a.md:1:1: name: `xxx"),
            ("a.md", "---\nmax_steps: 0\n---\n".to_owned(), "a.md:2:12: max_steps: 0 is not"),
            ("a.md", "---\nskills: look\n---\n".to_owned(), "a.md:2:9: skills: expected a list"),
        ];

        for (name, source, expected) in table {
            let warning = warning::<Subagent>(&parse(name, &source).unwrap_err());
            assert!(warning.starts_with(expected), "{warning}");
            assert!(warning.ends_with("the subagent is left out"), "{warning}");
        }
    }
}
