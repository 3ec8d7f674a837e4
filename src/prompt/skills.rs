//! Skills: procedures in words, told to a model only when they are needed.

use std::collections::HashSet;

use hivewright_actors::{excerpt, text::is_slug};
use serde_json::Value;

use super::{
    folder::{Limits, Place, Text},
    markdown::{Outline, bullets, first_paragraph, split_front_matter, without_mark},
};
use crate::{
    settings::{document::Document, field::Field, problem::Problems},
    system::sha256,
};

/// The file of a skill that has a folder of its own.
pub(super) const SKILL_FILE: &str = "SKILL.md";
/// The largest body, in bytes.
const MAX_BODY: usize = 100 * 1024;
/// The longest description, in characters.
const MAX_DESCRIPTION: usize = 1_024;
/// The longest note on compatibility, in characters.
const MAX_COMPATIBILITY: usize = 500;

/// What is known of a skill before it is loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Skill {
    pub(super) name: String,
    /// What it does and when to use it, in one line: it stands in lists, and the whole in its file. A skill in the simple form
    /// may have none.
    pub(super) description: String,
    /// The plugin tools it needs, by bare name.
    pub(super) required: Vec<String>,
    /// Its file in the folder of skills.
    pub(super) file: String,
    /// Tells one state of the text from another.
    digest: String,
    /// What works and should not stay.
    pub(super) warnings: Vec<String>,
}

impl Skill {
    /// It has a folder of its own, in which other files may be.
    pub(super) fn has_folder(&self) -> bool {
        self.file.contains('/')
    }
}

/// What a model is told when the skill is loaded.
pub(super) fn body(source: &str) -> &str {
    let (_, body) = split_front_matter(without_mark(source));
    body.trim()
}

impl Text for Skill {
    const LIMITS: Limits = Limits {
        // The front matter counts too.
        file: MAX_BODY as u64 + 16 * 1024,
        total: u64::MAX,
        files: 256,
        all: "the skills of this folder",
    };
    const NOUN: &'static str = "skill";
    const INSIDE: Option<&'static str> = Some(SKILL_FILE);

    fn parse(place: &Place<'_>, source: &str) -> Result<Self, Problems> {
        let skill = match place.name.split_once('/') {
            Some((folder, _)) => standard(place, folder, source),
            None => simple(place, source),
        }?;
        let size = body(source).len();
        if size > MAX_BODY {
            return Err(place.problem("(body)", "is larger than 100 KiB"));
        }
        Ok(skill)
    }
}

/// A folder with a `SKILL.md`: front matter, then the body.
fn standard(place: &Place<'_>, folder: &str, source: &str) -> Result<Skill, Problems> {
    let (front, text) = split_front_matter(without_mark(source));
    if front.is_empty() {
        let reason = "a skill begins with front matter: a line `---`, the fields, a line `---`";
        return Err(place.problem("name", reason));
    }
    check_name(folder).map_err(|reason| place.problem("name", reason))?;
    let document = Document::plain(place.file);
    let read = document.read(&with_quotes(front), |front| {
        front.tolerate_unknown();
        if front.field("description").is_none() {
            front.reject("needs a `description`");
        }
        front.maybe("name", |field| {
            let name = field.text()?;
            // Other agents go by the folder too, and take any name.
            if name != folder {
                field.warn(format!(
                    "says `{name}`; the skill is called `{folder}`, like its folder"
                ));
            }
            Some(())
        });
        let description = front.maybe("description", |field| {
            let text = field.parse(|text| {
                let words: Vec<_> = text.split_whitespace().collect();
                if words.is_empty() {
                    Err("must not be empty".to_owned())
                } else {
                    Ok(words.join(" "))
                }
            })?;
            // Other agents take longer ones, and the whole stands in the file.
            if text.chars().count() > MAX_DESCRIPTION {
                field.warn(format!(
                    "has more than {MAX_DESCRIPTION} characters; lists show the first of them"
                ));
            }
            Some(excerpt::line(&text, MAX_DESCRIPTION))
        });
        front.maybe("license", |field| field.text());
        front.maybe("compatibility", |field| {
            field.parse(|text| match text.chars().count() {
                0..=MAX_COMPATIBILITY => Ok(()),
                _ => Err(format!("has more than {MAX_COMPATIBILITY} characters")),
            })
        });
        // It never gives a team anything, so nobody needs to know what it says.
        front.field("allowed-tools");
        let required = front.maybe("metadata", |field| required_tools(&field));
        (description.unwrap_or_default(), required)
    });
    let ((description, required), warnings) = document.finish(read)?;
    let required = required.into_iter().flatten().chain(required_by(&Outline::of(text)));
    Ok(Skill {
        name: folder.to_owned(),
        description,
        required: distinct(required),
        file: place.name.to_owned(),
        digest: sha256(text.as_bytes()),
        warnings: warnings.iter().map(ToString::to_string).collect(),
    })
}

/// Front matter with quotes around what needs them. Other agents take a `description: Use it for: this` as it is meant,
/// which YAML does not.
fn with_quotes(front: &str) -> String {
    let quoted = |line: &str| {
        let (key, value) = line.split_once(": ")?;
        let is_key = key.chars().all(|one| one.is_ascii_alphanumeric() || "-_".contains(one));
        let value = value.trim();
        let is_plain = !value.starts_with(['"', '\'', '|', '>', '[', '{', '&', '*', '!']);
        let is_broken = value.contains(": ") || value.ends_with(':');
        (is_key && is_plain && is_broken).then(|| format!("{key}: {}\n", Value::from(value)))
    };
    let lines = front.split_inclusive('\n');
    lines.map(|line| quoted(line).unwrap_or_else(|| line.to_owned())).collect()
}

fn simple(place: &Place<'_>, source: &str) -> Result<Skill, Problems> {
    let name = place.name.trim_end_matches(".md");
    check_name(name).map_err(|reason| place.problem("name", reason))?;
    let text = without_mark(source);
    let outline = Outline::of(text);
    let Some(title) = outline.title.and_then(|title| title.strip_prefix("Skill:")) else {
        let reason = format!("the first heading must be `# Skill: {name}`");
        return Err(place.problem("name", reason));
    };
    let mut warnings = Vec::new();
    if title.trim() != name {
        warnings.push(format!(
            "{}: name: the heading says `{}`; the skill is called `{name}`, like its file",
            place.file,
            title.trim()
        ));
    }
    let purpose = outline.section("Purpose").unwrap_or_default();
    Ok(Skill {
        name: name.to_owned(),
        description: excerpt::line(&first_paragraph(purpose), MAX_DESCRIPTION),
        required: distinct(required_by(&outline)),
        file: place.name.to_owned(),
        digest: sha256(text.as_bytes()),
        warnings,
    })
}

fn required_tools(metadata: &Field<'_>) -> Option<Vec<String>> {
    let members = metadata.members()?;
    let (_, tools) = members.into_iter().find(|(key, _)| *key == "required-tools")?;
    let names = tools.text()?;
    Some(names.split_whitespace().map(str::to_owned).collect())
}

fn required_by(outline: &Outline<'_>) -> Vec<String> {
    outline.section("Required Tools").map(bullets).unwrap_or_default()
}

fn check_name(name: &str) -> Result<(), String> {
    if is_slug(name, 64) {
        return Ok(());
    }
    Err(format!(
        "`{name}` is no name for a skill: 1 to 64 lower-case letters and digits, with single hyphens between"
    ))
}

fn distinct(names: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    names.into_iter().filter(|name| seen.insert(name.clone())).collect()
}

/// The skills that ship with the program, with their text.
pub(super) const SHIPPED: &[(&str, &str)] = &[
    ("learning-cycle/SKILL.md", include_str!("../../config/skills/learning-cycle/SKILL.md")),
    ("reflection-cycle/SKILL.md", include_str!("../../config/skills/reflection-cycle/SKILL.md")),
    ("write-skill/SKILL.md", include_str!("../../config/skills/write-skill/SKILL.md")),
    ("write-subagent/SKILL.md", include_str!("../../config/skills/write-subagent/SKILL.md")),
];

#[cfg(test)]
mod tests {

    use super::{super::folder::warning, *};

    fn parse(name: &str, source: &str) -> Result<Skill, Problems> {
        Skill::parse(&Place { name, file: name }, source)
    }

    /// What is told of a skill: name, description, required tools, warnings.
    fn told(name: &str, source: &str) -> (String, String, Vec<String>, Vec<String>) {
        let skill = parse(name, source).unwrap();
        let Skill { name, description, required, warnings, .. } = skill;
        (name, description, required, warnings)
    }

    /// SE-70, SE-72
    #[test]
    fn a_folder_has_front_matter_and_a_body() {
        let source = "---\nname: deploy-it\ndescription: >\n  Puts it\n  online.\nlicense: MIT\n\
            compatibility: needs bash\nmetadata:\n  version: 1\n  required-tools: deploy check\n\
            allowed-tools: [bash]\n---\n# Deploy\n\n## Required Tools\n- `check` — looks\n- roll_back\n";

        let skill = parse("deploy-it/SKILL.md", source).unwrap();

        assert_eq!(skill.name, "deploy-it");
        assert_eq!(skill.description, "Puts it online.");
        assert_eq!(skill.required, ["deploy", "check", "roll_back"]);
        assert_eq!(skill.warnings, [] as [String; 0]);
        assert!(skill.has_folder());
        assert_eq!(body(source), "# Deploy\n\n## Required Tools\n- `check` — looks\n- roll_back");
    }

    /// SE-71, SE-72
    #[test]
    fn a_single_file_has_headings() {
        let source = "# Skill: deploy\n\n## Purpose\nPuts it\nonline.\n\nAlways.\n\n\
            ## Required Tools\n- deploy_service: puts it there\n\n## Steps\n1. Go.\n";

        assert_eq!(
            told("deploy.md", source),
            (
                "deploy".to_owned(),
                "Puts it online.".to_owned(),
                vec!["deploy_service".to_owned()],
                Vec::new()
            )
        );
        assert_eq!(body(source), source.trim());
        let bare = told("deploy.md", "# Skill: Deploy service");
        assert_eq!((bare.1, bare.2), (String::new(), Vec::new()));
        assert_eq!(
            bare.3,
            [
                "deploy.md: name: the heading says `Deploy service`; the skill is called `deploy`, like its file"
            ]
        );
    }

    /// SE-70, SE-73
    #[test]
    fn a_wrong_field_leaves_the_skill_out_and_is_named() {
        let long = "x".repeat(MAX_DESCRIPTION + 1);
        let table = [
            ("a/SKILL.md", "Just text.".to_owned(), "a/SKILL.md:1:1: name: a skill begins"),
            (
                "a/SKILL.md",
                "---\nname: a\n---\n".to_owned(),
                "a/SKILL.md:2:1: (file): needs a `description`",
            ),
            (
                "A/SKILL.md",
                "---\nname: A\ndescription: B\n---\n".to_owned(),
                "A/SKILL.md:1:1: name: `A` is no name",
            ),
            (
                "a--b/SKILL.md",
                "---\nname: a--b\ndescription: B\n---\n".to_owned(),
                "a--b/SKILL.md:1:1: name: `a--b` is no name",
            ),
            (
                "a/SKILL.md",
                "---\nname: a\ndescription: \" \"\n---\n".to_owned(),
                "a/SKILL.md:3:14: description: must not be empty",
            ),
            (
                "a/SKILL.md",
                format!("---\nname: a\ndescription: A\ncompatibility: {long}\n---\n"),
                "a/SKILL.md:4:16: compatibility: has more",
            ),
            (
                "a/SKILL.md",
                "---\nname: a\ndescription: A\nmetadata: none\n---\n".to_owned(),
                "a/SKILL.md:4:11: metadata: expected a map",
            ),
            ("a/SKILL.md", "---\nname: [\n---\n".to_owned(), "a/SKILL.md:2:7: name: syntax"),
            (
                "a.md",
                "Just text.".to_owned(),
                "a.md:1:1: name: the first heading must be `# Skill: a`",
            ),
            ("A b.md", "# Skill: A b".to_owned(), "A b.md:1:1: name: `A b` is no name"),
            (
                "a.md",
                format!("# Skill: a\n{}", "x".repeat(MAX_BODY)),
                "a.md:1:1: (body): is larger than 100 KiB",
            ),
        ];

        for (name, source, expected) in table {
            let warning = warning::<Skill>(&parse(name, &source).unwrap_err());
            assert!(warning.contains(expected), "{warning}");
            assert!(warning.ends_with("the skill is left out"), "{warning}");
        }
    }

    /// Skills of other makers carry keys of their own.
    #[test]
    fn an_unknown_key_is_a_warning() {
        let source = "---\nname: a\ndescription: A\nversion: 2\n---\nText";

        assert_eq!(told("a/SKILL.md", source).3, ["a/SKILL.md:4:1: version: unknown key"]);
    }

    /// SE-70: skills of Claude Code are known by their folders, whatever they call themselves, and are no strict YAML.
    #[test]
    fn what_other_agents_take_is_taken() {
        let named = "---\nname: Hook Development\ndescription: Use when: it hooks.\n---\nText";
        let nameless =
            "---\ndescription: |-\n  Do: it.\n  Or: not.\nlicense: MIT: see there:\n---\n";

        let (name, description, _, warnings) = told("hook-development/SKILL.md", named);
        let other = told("b/SKILL.md", nameless);

        assert_eq!((&*name, &*description), ("hook-development", "Use when: it hooks."));
        let warning = "hook-development/SKILL.md:2:7: name: says `Hook Development`; the skill is called \
                       `hook-development`, like its folder";
        assert_eq!(warnings, [warning]);
        assert_eq!((&*other.0, &*other.1), ("b", "Do: it. Or: not."));
        assert_eq!(other.3, [] as [String; 0]);
    }

    /// SE-70: one of Claude's own has a longer one.
    #[test]
    fn a_long_description_is_shortened_and_told_of() {
        let long = "x".repeat(MAX_DESCRIPTION + 1);
        let source = format!("---\nname: a\ndescription: {long}\n---\nText");

        let (_, description, _, warnings) = told("a/SKILL.md", &source);

        assert_eq!(description, format!("{}…", "x".repeat(MAX_DESCRIPTION - 1)));
        let warning = "a/SKILL.md:3:14: description: has more than 1024 characters; lists show the first of them";
        assert_eq!(warnings, [warning]);
    }

    #[test]
    fn a_changed_text_is_another_state() {
        let one = parse("a.md", "# Skill: a\nOne.").unwrap();
        let two = parse("a.md", "# Skill: a\nTwo.").unwrap();

        assert_ne!(one, two);
    }

    #[test]
    fn all_shipped_skills_are_read() {
        for (name, source) in SHIPPED {
            let skill = parse(name, source).unwrap();

            assert_eq!(skill.warnings, [] as [String; 0]);
            assert_eq!(skill.required, [] as [String; 0]);
        }
    }
}
