//! Skills and subagents: where they are found, and what a model is told of them.

use std::{
    fs,
    os::unix::fs::symlink,
    sync::Arc,
    time::{Duration, SystemTime},
};

use super::{Place, in_order, place};
use crate::prompt::{library::Library, role::Role};

fn skill(description: &str) -> String {
    format!("# Skill: x\n\n## Purpose\n{description}\n")
}

fn folder_skill(name: &str, description: &str, body: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n{body}")
}

fn subagent(name: &str, skills: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Is {name}.\nskills: [{skills}]\n---\n## Boundaries\nStay."
    )
}

impl Place {
    fn operator_skill(&self, path: &str, text: &str) {
        self.write(&self.home.data().join("skills").join(path), text);
    }

    fn library(&self, team: &str) -> Arc<Library> {
        self.prompts.library(&team.into())
    }
}

fn names(library: &Library) -> Vec<&str> {
    library.skills().map(|skill| skill.name()).collect()
}

/// A skill among those that are shipped, by name.
fn with_shipped(own: &'static str) -> Vec<&'static str> {
    let shipped = ["learning-cycle", "reflection-cycle", "write-skill", "write-subagent"];
    let mut names: Vec<_> = shipped.into_iter().chain([own]).collect();
    names.sort_unstable();
    names
}

/// SE-73
#[tokio::test]
async fn a_skill_is_the_teams_then_the_operators_then_a_shipped_one() {
    let place = place();
    place.team_rule("scouts", "skills/look/SKILL.md", &folder_skill("look", "Ours.", "Our way."));
    place.operator_skill("look.md", "# Skill: look\n\n## Purpose\nThe operator's.");
    place.operator_skill("write-skill.md", "# Skill: write-skill\n\n## Purpose\nInstead.");

    let scouts = place.library("scouts");
    let others = place.library("others");

    let told = |library: &Library, name: &str| {
        let skill = library.skill(name).unwrap();
        let body = library.body(skill).unwrap();
        (skill.description().to_owned(), body.lines().next().unwrap().to_owned())
    };
    assert_eq!(names(&scouts), with_shipped("look"));
    assert_eq!(told(&scouts, "look"), ("Ours.".into(), "Our way.".into()));
    assert_eq!(told(&others, "look"), ("The operator's.".into(), "# Skill: look".into()));
    assert_eq!(told(&scouts, "write-skill").0, "Instead.");
    assert_eq!(told(&scouts, "write-subagent").1, "# Writing a subagent");
    assert_eq!(scouts.skill("look").unwrap().folder(), Some("skills/look".into()));
    assert_eq!(others.skill("look").unwrap().folder(), None);
    assert_eq!(scouts.warnings, [] as [String; 0]);
}

/// SE-73
#[tokio::test]
async fn of_both_forms_the_folder_wins_and_what_is_wrong_is_left_out_by_name() {
    let place = place();
    let team = place.home.team("scouts");
    place.team_rule("scouts", "skills/look.md", "# Skill: look\n");
    place.team_rule("scouts", "skills/look/SKILL.md", &folder_skill("look", "Folder.", ""));
    place.team_rule("scouts", "skills/bad/SKILL.md", &folder_skill("bad", "\"\"", ""));
    place.team_rule("scouts", "skills/empty/README.md", "Nothing here.");
    place.team_rule("scouts", "skills/notes.txt", "No skill.");
    place.team_rule(
        "scouts",
        "skills/long.md",
        &format!("# Skill: long\n{}", "x".repeat(101 << 10)),
    );

    let library = place.library("scouts");

    assert_eq!(names(&library), with_shipped("look"));
    assert_eq!(library.skill("look").unwrap().description(), "Folder.");
    let skills = team.join("skills");
    let expected = [
        "skill `look`: there are `skills/look/SKILL.md` and `skills/look.md`; the latter is left out".to_owned(),
        format!("{}/bad/SKILL.md:3:14: description: must not be empty", skills.display()),
        format!("{}/empty/SKILL.md: No such file", skills.display()),
        format!("{}/long.md:1:1: (body): is larger than 100 KiB", skills.display()),
    ];
    assert_eq!(library.warnings.len(), expected.len(), "{:?}", library.warnings);
    for (warning, expected) in library.warnings.iter().zip(expected) {
        assert!(warning.starts_with(&expected), "{warning}");
    }
}

/// A team writes its own skills; a link there must not show it our files.
#[tokio::test]
async fn links_among_the_skills_of_a_team_are_not_followed() {
    let place = place();
    let secret = place.home.secrets();
    place.write(&secret.join("SKILL.md"), folder_skill("stolen", "Sesame.", "sesame"));
    let skills = place.home.team("scouts").join("skills");
    fs::create_dir_all(skills.join("inner")).unwrap();
    symlink(&secret, skills.join("stolen")).unwrap();
    symlink(secret.join("SKILL.md"), skills.join("inner/SKILL.md")).unwrap();
    place.operator_skill("kept/SKILL.md", &folder_skill("kept", "Kept.", "Kept."));
    symlink(place.home.data().join("skills/kept"), place.home.data().join("skills/again")).unwrap();

    let library = place.library("scouts");

    assert_eq!(library.skill("again").unwrap().description(), "Kept.");
    assert!(library.skill("kept").is_some() && library.skill("stolen").is_none());
    assert_eq!(library.warnings.len(), 3, "{:?}", library.warnings);
    assert!(library.warnings[0].contains("again/SKILL.md:2:7: name: says `kept`"));
    assert!(library.warnings[1].contains("inner/SKILL.md: is a symbolic link"));
    assert!(library.warnings[2].contains("stolen/SKILL.md: is in a symbolic link"));
}

/// SE-38, SE-75
#[tokio::test]
async fn a_generic_turn_sees_a_catalogue_of_what_no_subagent_owns() {
    let place = place();
    for name in ["look", "listen"] {
        let text = skill(&format!("Does {name}\nwell.")).replace(": x", &format!(": {name}"));
        place.team_rule("scouts", &format!("skills/{name}.md"), &text);
    }
    place.team_rule("scouts", "skills/plain.md", "# Skill: plain\n\nSecret steps.");
    place.team_rule("scouts", "subagents/owl.md", &subagent("owl", "look"));

    let text = place.cast_system("scouts", None, None, false).await;

    in_order(
        &text,
        &[
            "--- Skills ---\n\nProcedures that you can load with `use_skill`.",
            "\n- `listen`: Does listen well.\n- `plain`\n- `write-skill`: How to",
        ],
    );
    assert!(!text.contains("`look`") && !text.contains("Secret steps."), "{text}");
}

/// SE-38, SE-74
#[tokio::test]
async fn a_task_with_a_skill_has_its_text_and_no_catalogue() {
    let place = place();
    place.team_rule(
        "scouts",
        "skills/look/SKILL.md",
        &folder_skill("look", "Looks.", "1. Open both eyes."),
    );

    let text = place.cast_system("scouts", None, Some("look"), false).await;

    in_order(
        &text,
        &[
            "--- Skills ---",
            "The skill `look` is loaded.",
            "in `skills/look/`.",
            "1. Open both eyes.",
        ],
    );
    assert!(!text.contains("use_skill"), "{text}");
    assert!(text.ends_with("1. Open both eyes."));
}

/// SE-78, SE-79
#[tokio::test]
async fn a_subagent_is_told_who_it_is_and_has_its_skill_or_a_catalogue() {
    let place = place();
    for name in ["look", "listen"] {
        place.team_rule(
            "scouts",
            &format!("skills/{name}.md"),
            &format!("# Skill: {name}\n\nHow to {name}."),
        );
    }
    place.team_rule("scouts", "subagents/owl.md", &subagent("owl", "look"));
    place.team_rule("scouts", "subagents/bat.md", &subagent("bat", "look, listen"));
    place.team_rule("scouts", "subagents/ant.md", &subagent("ant", ""));

    // A skill of the task gives way to the subagent.
    let owl = place.cast_system("scouts", Some("owl"), Some("listen"), false).await;
    let bat = place.cast_system("scouts", Some("bat"), None, false).await;
    let ant = place.cast_system("scouts", Some("ant"), None, false).await;

    in_order(
        &owl,
        &[
            "--- Skills ---\n\nYou work as the subagent `owl`.",
            "## Boundaries\nStay.",
            "- Respect your boundaries.",
            "The skill `look` is loaded.",
            "How to look.",
        ],
    );
    assert!(!owl.contains("use_skill") && !owl.contains("How to listen."));
    in_order(&bat, &["subagent `bat`", "- Respect", "with `use_skill`", "- `look`\n- `listen`"]);
    assert!(!bat.contains("How to ") && !bat.contains("write-skill"));
    assert!(ant.contains("subagent `ant`") && !ant.contains("use_skill"));
}

/// SE-74, SE-79
#[tokio::test]
async fn an_unknown_skill_or_subagent_is_answered_with_those_that_exist() {
    let place = place();
    place.team_rule("scouts", "subagents/owl.md", &subagent("owl", ""));
    let (scouts, others) = (place.library("scouts"), place.library("others"));
    let wrong = |library: &Library, subagent, skill| {
        Role::choose(library, subagent, skill, false).unwrap_err().to_string()
    };

    assert_eq!(wrong(&scouts, Some("cat"), None), "there is no subagent `cat`; known are `owl`");
    assert_eq!(wrong(&others, Some("owl"), None), "there is no subagent `owl`; this team has none");
    assert_eq!(
        wrong(&scouts, None, Some("fly")),
        "there is no skill `fly`; known are `write-skill`, `write-subagent`"
    );
}

/// TR-65: the procedures of cycles are loaded by their triggers, and nobody else finds them.
#[tokio::test]
async fn no_turn_is_offered_the_procedures_of_cycles() {
    let place = place();
    let own = folder_skill("reflection-cycle", "Ours.", "Look into the mirror.");
    place.team_rule("scouts", "skills/reflection-cycle/SKILL.md", &own);
    place.team_rule("scouts", "subagents/owl.md", &subagent("owl", "learning-cycle, write-skill"));

    let library = place.library("scouts");
    let names = |role: &Role| -> Vec<String> {
        let skills = role.loadable.iter().chain(&role.active);
        skills.map(|skill| skill.name().to_owned()).collect()
    };

    let team = Role::choose(&library, None, None, false).unwrap();
    let owl = Role::choose(&library, Some("owl"), None, false).unwrap();
    assert_eq!(names(&team), ["write-subagent"]);
    assert_eq!(names(&owl), ["write-skill"]);
    let text = library.body(library.skill("reflection-cycle").unwrap());
    assert_eq!(&*text.unwrap(), "Look into the mirror.");
}

/// SE-77
#[tokio::test]
async fn an_unknown_skill_of_a_subagent_and_a_second_of_its_name_are_left_out() {
    let place = place();
    place.team_rule("scouts", "subagents/a.md", &subagent("owl", "fly, write-skill"));
    place.team_rule("scouts", "subagents/b.md", &subagent("owl", ""));

    let library = place.library("scouts");

    assert_eq!(library.subagent("owl").unwrap().skills, ["write-skill"]);
    let folder = place.home.team("scouts").join("subagents");
    let (a, b) = (folder.join("a.md"), folder.join("b.md"));
    assert_eq!(
        library.warnings,
        [
            format!("{}: skills: there is no skill `fly`; it is left out", a.display()),
            format!(
                "{}: name: `owl` is in {} already; the subagent is left out",
                b.display(),
                a.display()
            ),
        ]
    );
    let composed = place.compose("scouts").await;
    assert_eq!(composed.warnings, library.warnings);
}

/// SE-69: a change counts, and nothing unchanged is read again.
#[tokio::test]
async fn an_unchanged_skill_is_not_read_again_and_a_changed_one_counts_at_once() {
    let place = place();
    let path = place.home.team("scouts").join("skills/look.md");
    let write = |text: &str, seconds| {
        place.write(&path, text);
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    let body = |library: &Library| {
        let skill = library.skill("look").unwrap();
        library.body(skill).unwrap().to_string()
    };
    write("# Skill: look\nRed.", 1_000_000_000);
    let first = place.library("scouts");
    let red = body(&first);

    // The same time and size: nothing tells that it changed.
    write("# Skill: look\nTan.", 1_000_000_000);
    let same = place.library("scouts");
    let kept = body(&same);
    write("# Skill: look\nTan.", 1_000_000_001);
    let changed = place.library("scouts");

    assert!(Arc::ptr_eq(&first, &same));
    assert_eq!((red.as_str(), kept.as_str()), ("# Skill: look\nRed.", "# Skill: look\nRed."));
    assert_eq!(body(&changed), "# Skill: look\nTan.");
    let told = place.cast_system("scouts", None, Some("look"), false).await;
    assert!(told.ends_with("Tan."));
}

/// A skill that is gone when it is needed is a fault of the settings, with its name.
#[tokio::test]
async fn a_skill_that_cannot_be_read_is_named() {
    let place = place();
    place.team_rule("scouts", "skills/look.md", "# Skill: look\n");
    let request = super::Request {
        cast: place.cast("scouts", None, Some("look"), false),
        ..place.request("scouts")
    };
    fs::remove_file(place.home.team("scouts").join("skills/look.md")).unwrap();

    let error = place.prompts.compose(&request).unwrap_err();

    assert!(error.to_string().starts_with("the skill `look` cannot be read"), "{error}");
}
