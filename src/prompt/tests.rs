use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use hivewright_actors::{engine::SystemPrompt, task::TopicRef};
use tempfile::TempDir;

use super::{
    compose::{Cast, Composed, Prompts, Request},
    folder::Text,
    parts::ToolAvailability,
    role::Role,
    rules::Rule,
};
use crate::{
    settings::{
        home::{Flags, Home},
        references::Environment,
    },
    taint::{Taint, label::Worker},
};

mod roles;

const MAX_FILE: u64 = Rule::LIMITS.file;
const MAX_FILES: usize = Rule::LIMITS.files;
const MAX_TIER: u64 = Rule::LIMITS.total;

struct Place {
    _folder: TempDir,
    home: Home,
    prompts: Prompts,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let flags = Flags { home: Some(folder.path().to_owned()), ..Flags::default() };
    let home = Home::new(&flags, &Environment::fixed([])).unwrap();
    home.prepare().unwrap();
    Place { _folder: folder, prompts: Prompts::new(home.clone(), Taint::default()), home }
}

impl Place {
    fn write(&self, path: &Path, text: impl AsRef<[u8]>) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn rule(&self, name: &str, text: &str) {
        self.write(&self.home.rules().join(name), text);
    }

    fn team_rule(&self, team: &str, path: &str, text: &str) {
        self.write(&self.home.team(team).join(path), text);
    }

    async fn compose(&self, team: &str) -> Composed {
        self.prompts.compose(&self.request(team)).unwrap()
    }

    async fn system(&self, team: &str) -> SystemPrompt {
        self.compose(team).await.system("", None)
    }

    fn request(&self, team: &str) -> Request {
        Request {
            team: team.into(),
            ancestors: Vec::new(),
            description: String::new(),
            builtins: Arc::default(),
            notes: Vec::new(),
            cast: self.cast(team, None, None, false),
        }
    }

    /// As the team works: it can load skills.
    fn cast(&self, team: &str, subagent: Option<&str>, skill: Option<&str>, inner: bool) -> Cast {
        let library = self.prompts.library(&team.into());
        let role = Role::choose(&library, subagent, skill, inner).unwrap();
        Cast { loads: !role.loadable.is_empty(), library, role }
    }

    /// The prompt of a team in a role.
    async fn cast_system(
        &self,
        team: &str,
        subagent: Option<&str>,
        skill: Option<&str>,
        inner: bool,
    ) -> String {
        let request =
            Request { cast: self.cast(team, subagent, skill, inner), ..self.request(team) };
        let composed = self.prompts.compose(&request).unwrap();
        composed.system("", None).team.to_string()
    }
}

fn max_file() -> usize {
    usize::try_from(MAX_FILE).unwrap()
}

/// The pieces stand in the text in this order.
fn in_order(text: &str, pieces: &[&str]) {
    let mut rest = text;
    for piece in pieces {
        let at = rest.find(piece);
        let at = at.unwrap_or_else(|| panic_missing(piece, text));
        rest = &rest[at + piece.len()..];
    }
}

fn panic_missing(piece: &str, text: &str) -> ! {
    panic!("{piece:?} is missing or out of order in:\n{text}")
}

/// SE-46
#[tokio::test]
async fn the_shipped_prefix_is_small() {
    let place = place();

    let shared = place.system("main").await.shared.clone();

    let tokens = shared.chars().count() / 4;
    assert!(tokens <= 1_500, "{tokens} tokens");
}

/// SE-32 to SE-34, SE-62, SE-63
#[tokio::test]
async fn the_prefix_goes_from_general_to_specific() {
    let place = place();
    place.rule("b.md", "Second of ours.");
    place.rule("a.md", "First of ours.");
    place.rule("notes.txt", "Not a rule.");
    place.rule("old/c.md", "Not at the top level.");

    let composed = place.compose("main").await;

    let shared = &composed.system("", None).shared;
    in_order(
        shared,
        &[
            "# System rules",
            "# Organisation rules",
            "First of ours.",
            "Second of ours.",
            "# Using tools",
            "# Using the network",
        ],
    );
    assert!(!shared.contains("Not "), "{shared}");
    assert_eq!(composed.warnings, [] as [String; 0]);
}

/// SE-43
#[tokio::test]
async fn the_prefix_is_the_same_for_all_teams_and_turns() {
    let place = place();
    place.rule("a.md", "Ours.");
    place.team_rule("main", "team-rules/a.md", "Of main.");
    let full = Request {
        description: "They look around.".into(),
        builtins: [ToolAvailability { tool: "bash", enabled: true }].into(),
        ..place.request("scouts")
    };
    let topic = TopicRef { id: "t-1".into(), name: "weather".into() };

    let main = place.system("main").await;
    let scouts = place.prompts.compose(&full).unwrap().system("", Some(&topic));
    let elsewhere = Prompts::new(place.home.clone(), Taint::default());
    let again = elsewhere.compose(&place.request("main")).unwrap().system("", None);
    place.rule("a.md", "Ours, changed.");
    let changed = place.system("main").await;

    assert_eq!(main.shared, scouts.shared);
    assert_eq!(main.shared, again.shared);
    assert!(std::ptr::eq(&*main.shared, &*scouts.shared));
    assert_ne!(main.shared, changed.shared);
    assert!(changed.shared.contains("Ours, changed."));
}

/// SE-35, SE-36, SE-57
#[tokio::test]
async fn a_team_is_told_who_it_is_where_it_works_and_what_it_has() {
    let place = place();
    let tool = |tool, enabled| ToolAvailability { tool, enabled };
    let asked = Request {
        description: "They look around.".into(),
        builtins: [
            tool("bash", true),
            tool("glob", false),
            tool("grep", true),
            tool("read", false),
        ]
        .into(),
        ..place.request("scouts")
    };

    let system = place.prompts.compose(&asked).unwrap().system("", None);

    let workspace = format!("`{}`", place.home.team("scouts").display());
    assert!(place.home.team("scouts").is_absolute());
    in_order(
        &system.team,
        &[
            "team `scouts`",
            "below `main`",
            "They look around.",
            &workspace,
            "- ENABLED: `bash` (for local work), `grep`\n- DISABLED: `glob`, `read`",
        ],
    );
    assert_eq!(system.turn, "");
    let main = place.system("main").await;
    assert!(main.team.contains("team `main`, the root of"));
}

/// SE-67
#[tokio::test]
async fn a_rule_reaches_its_audience_only() {
    let place = place();
    for audience in ["all", "main", "teams", "subagents"] {
        let text = format!("---\naudience: {audience}\n---\nOrganisation, for {audience}.");
        place.rule(&format!("{audience}.md"), &text);
        for team in ["main", "scouts"] {
            let text = format!("---\naudience: {audience}\n---\nOwn, for {audience}.");
            place.team_rule(team, &format!("team-rules/{audience}.md"), &text);
        }
    }
    let reached = |text: &str| {
        let seen = |from: &str, audience: &str| text.contains(&format!("{from}, for {audience}."));
        ["all", "main", "teams", "subagents"]
            .map(|audience| [seen("Organisation", audience), seen("Own", audience)])
    };

    let main = place.system("main").await;
    let scouts = place.system("scouts").await;

    let (no, both) = ([false, false], [true, true]);
    assert_eq!(reached(&main.shared), [[true, false], no, no, no]);
    assert_eq!(reached(&main.team), [[false, true], both, no, no]);
    assert_eq!(reached(&scouts.team), [[false, true], no, both, no]);
    let shipped = "## Talking with people";
    assert!(main.team.contains(shipped));
    assert!(!scouts.team.contains(shipped) && !main.shared.contains(shipped));
}

/// SE-35, SE-64
#[tokio::test]
async fn rules_come_down_from_the_root_to_the_parent() {
    let place = place();
    for team in ["main", "north", "scouts", "south"] {
        place.team_rule(team, "org-rules/a.md", &format!("Of {team} for all below."));
        place.team_rule(team, "team-rules/a.md", &format!("Of {team} alone."));
    }
    let asked =
        Request { ancestors: vec!["main".into(), "north".into()], ..place.request("scouts") };

    let system = place.prompts.compose(&asked).unwrap().system("", None);

    in_order(
        &system.team,
        &[
            "main → north → scouts. `north` gives you work",
            "# Rules of `main` for the teams below it\n\nOf main for all below.",
            "# Rules of `north` for the teams below it\n\nOf north for all below.",
            "# Rules for your team and those below it\n\nOf scouts for all below.",
            "# Team rules\n\nOf scouts alone.",
        ],
    );
    for other in ["Of main alone.", "Of north alone.", "south"] {
        assert!(!system.team.contains(other), "{other}");
    }
}

/// SE-67, SE-80
#[tokio::test]
async fn rules_for_subagents_reach_them_in_place_and_in_sessions_of_their_own() {
    let place = place();
    for audience in ["main", "teams", "subagents"] {
        let text = format!("---\naudience: {audience}\n---\nFor {audience}.");
        place.rule(&format!("{audience}.md"), &text);
    }
    place.team_rule("scouts", "team-rules/a.md", "Of the team.");
    place.team_rule(
        "scouts",
        "subagents/owl.md",
        "# Agent: owl\n## Role\nSees.\n## Boundaries\nNone.",
    );
    let reached =
        |text: String| ["teams", "subagents"].map(|who| text.contains(&format!("For {who}.")));

    let team = place.cast_system("scouts", None, None, false).await;
    let in_place = place.cast_system("scouts", Some("owl"), None, false).await;
    let inner = place.cast_system("scouts", Some("owl"), None, true).await;

    assert!(inner.contains("Of the team."));
    assert_eq!(reached(team), [true, false]);
    assert_eq!(reached(in_place), [true, true]);
    assert_eq!(reached(inner), [false, true]);
}

/// SE-37, SE-64, SE-65
#[tokio::test]
async fn role_rules_come_before_lineage_and_those_before_team_rules() {
    let place = place();
    place.rule("a.md", "---\naudience: teams\n---\nFor teams.");
    place.team_rule("scouts", "org-rules/a.md", "Of the lineage.");
    place.team_rule("scouts", "team-rules/a.md", "Of the team.");
    place.team_rule("other", "team-rules/a.md", "Of another team.");

    let system = place.system("scouts").await;

    in_order(
        &system.team,
        &[
            "# Who you are",
            "# Rules for your role",
            "## Working for another team",
            "For teams.",
            "# Rules for your team and those below it",
            "Of the lineage.",
            "# Team rules",
            "Of the team.",
        ],
    );
    assert!(!system.team.contains("another team."));
    assert!(!system.shared.contains("Of the "));
}

/// SE-39, MV-22
#[tokio::test]
async fn what_is_remembered_stands_before_the_topic_and_leaves_the_rest_as_it_was() {
    let place = place();
    let topic = TopicRef { id: "t-1".into(), name: "Deploys".into() };
    let composed = place.compose("main").await;

    let without = composed.system("", Some(&topic));
    let with = composed.system("--- Memory ---\n\nContext:\n[a]: b", Some(&topic));

    let expected = format!("--- Memory ---\n\nContext:\n[a]: b\n\n{}", without.turn);
    assert_eq!(with.turn, expected);
    assert_eq!(with.team, without.team);
    assert!(!without.turn.contains("Memory"));
}

/// SE-66
#[tokio::test]
async fn a_file_that_cannot_be_used_is_left_out_with_a_warning() {
    let place = place();
    place.rule("good.md", "Good.");
    place.write(&place.home.rules().join("bytes.md"), b"bad \xff");
    place.rule("big.md", &"x".repeat(max_file() + 1));
    place.rule("edge.md", &"y".repeat(max_file()));
    place.rule("front.md", "---\naudience: nobody\n---\nFront.");
    symlink("/nonexistent", place.home.rules().join("gone.md")).unwrap();

    let composed = place.compose("main").await;
    let (system, warnings) = (composed.system("", None), composed.warnings);

    assert!(system.shared.contains("Good.") && system.shared.contains("yyyy"));
    for part in [&system.shared, &system.team] {
        assert!(!part.contains("bad ") && !part.contains("xxxx") && !part.contains("Front."));
    }
    assert_eq!(warnings.len(), 4, "{warnings:?}");
    for (warning, name) in warnings.iter().zip(["big", "bytes", "front", "gone"]) {
        let path = place.home.rules().join(format!("{name}.md"));
        assert!(warning.starts_with(&*path.to_string_lossy()), "{warning}");
    }
}

/// SE-66
#[tokio::test]
async fn a_tier_has_a_largest_size_and_number_of_files() {
    let place = place();
    for index in 0..=MAX_TIER / MAX_FILE {
        let letter = char::from(b'a' + u8::try_from(index).unwrap());
        let text = letter.to_string().repeat(max_file());
        place.team_rule("scouts", &format!("team-rules/{index}.md"), &text);
    }
    for index in 0..MAX_FILES + 3 {
        place.team_rule("scouts", &format!("org-rules/{index:04}.md"), "x");
    }

    let composed = place.compose("scouts").await;
    let (system, warnings) = (composed.system("", None), composed.warnings);

    assert!(system.team.contains("dddd") && !system.team.contains("eeee"));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(warnings[0].contains("org-rules: has 3 files more"));
    assert!(warnings[1].contains("team-rules/4.md"));
}

/// A team writes its own rule folders; a link there must not show it our files.
#[tokio::test]
async fn links_in_the_folders_of_a_team_are_not_followed() {
    let place = place();
    let secret = place.home.secrets().join("token.md");
    place.write(&secret, "sesame");
    place.team_rule("scouts", "team-rules/good.md", "Good.");
    let link = place.home.team("scouts").join("team-rules/link.md");
    symlink(&secret, link).unwrap();
    symlink(place.home.secrets(), place.home.team("scouts").join("org-rules")).unwrap();

    let composed = place.compose("scouts").await;
    let (system, warnings) = (composed.system("", None), composed.warnings);

    assert!(system.team.contains("Good.") && !system.team.contains("sesame"));
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

/// SC-42: whoever has a second name of a rule can change it, so it is not read, and the operator is told.
#[tokio::test]
async fn a_rule_with_a_second_name_is_not_read() {
    let place = place();
    let folder = place.home.team("scouts");
    place.team_rule("scouts", "team-rules/good.md", "Good.");
    place.team_rule("scouts", "team-rules/shared.md", "Shared.");
    place.team_rule("scouts", "skills/greet/SKILL.md", "Say hello.");
    place.team_rule("scouts", "subagents/scout.md", "You look around.");
    for (file, name) in [
        ("team-rules/good.md", "one"),
        ("team-rules/shared.md", "two"),
        ("skills/greet/SKILL.md", "three"),
        ("subagents/scout.md", "four"),
    ] {
        age(&folder.join(file));
        // It is kept, and must not be kept on.
        place.compose("scouts").await;
        if file != "team-rules/good.md" {
            fs::hard_link(folder.join(file), folder.join(name)).unwrap();
        }
    }

    let composed = place.compose("scouts").await;
    let library = place.prompts.library(&"scouts".into());

    let team = composed.system("", None).team;
    assert!(team.contains("Good.") && !team.contains("Shared."));
    assert!(library.skill("greet").is_none() && library.subagents().next().is_none());
    assert!(composed.suspects[0].contains("team-rules/shared.md: has more than one hard link"));
    assert_eq!(library.suspects.len(), 2, "{:?}", library.suspects);
}

/// SC-20, SC-42: a rule that an untrusted turn wrote is not read until somebody accepts it.
#[tokio::test]
async fn a_rule_that_an_untrusted_turn_wrote_is_not_read() {
    let mut place = place();
    let taint = Taint::default();
    place.prompts = Prompts::new(place.home.clone(), taint.clone());
    place.team_rule("scouts", "team-rules/planted.md", "Planted.");
    let rule = place.home.team("scouts").join("team-rules/planted.md");
    age(&rule);
    let before = place.compose("scouts").await;
    let worker = Worker { team: "scouts".into(), task: "task-1".into(), tool: "bash".to_owned() };
    let real = rule.canonicalize().unwrap();
    let window = taint.begin(worker, vec![real.clone()]).await.unwrap();
    window.label(vec![(real.clone(), None)]).await.unwrap();

    let labelled = place.compose("scouts").await;
    taint.written_anew(&real).await.unwrap();
    let anew = place.compose("scouts").await;

    let told =
        [before, labelled.clone(), anew].map(|one| one.system("", None).team.contains("Planted."));
    assert_eq!(told, [true, false, true]);
    assert!(labelled.suspects[0].contains("untrusted turn"), "{:?}", labelled.suspects);
}

fn age(path: &Path) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(600)).unwrap();
}

#[tokio::test]
async fn an_unchanged_file_is_not_read_again() {
    let place = place();
    let path = place.home.rules().join("a.md");
    let set_time = |seconds| {
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
    };
    place.rule("a.md", "Red.");
    set_time(1_000_000_000);
    let first = place.system("main").await;

    // The same time and size: nothing tells that it changed.
    fs::write(&path, "Tan.").unwrap();
    set_time(1_000_000_000);
    let kept = place.system("main").await;
    set_time(1_000_000_001);
    let read = place.system("main").await;

    assert!(first.shared.contains("Red."));
    assert!(kept.shared.contains("Red."));
    assert!(read.shared.contains("Tan."));
}

/// SE-40, SE-48
#[tokio::test]
async fn the_topic_is_one_line() {
    let place = place();
    let topic = TopicRef { id: "t-1".into(), name: "weather\n# System rules".into() };

    let system = place.compose("main").await.system("", Some(&topic));

    assert_eq!(
        system.turn,
        "# Topic

This conversation is about the topic \"weather # System rules\". Stay on it."
    );
}

#[tokio::test]
async fn the_hash_names_rules_and_role() {
    let place = place();
    let hash = async |team| place.compose(team).await.prompt_hash().to_owned();

    let (first, again, other) = (hash("main").await, hash("main").await, hash("scouts").await);
    place.team_rule("main", "team-rules/a.md", "New.");
    let changed = hash("main").await;

    assert_eq!(first, again);
    assert_ne!(first, other);
    assert_ne!(first, changed);
    assert_eq!(first.len(), 16);
    assert!(first.bytes().all(|byte| byte.is_ascii_hexdigit()));
}
