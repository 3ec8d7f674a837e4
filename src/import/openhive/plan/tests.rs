use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{
    clock::Timestamp,
    org::record::TeamState,
    scheduler::trigger::{
        definition::Definition,
        validation::{self, Problem},
    },
};

use super::{
    super::{
        escalations::{self, EscalationRow},
        file_draft::SETTINGS,
        files,
        installation::Tables,
        log, make_plan,
        memories::{self, MemoryRow},
        plugins::{self, PluginRow},
        report::Outcome,
        rules,
        tasks::{self, TaskRow},
        team_tree::OrgRow,
        teams,
        triggers::{self, TriggerRow},
        vault::{self, VaultRow},
        yaml::parse,
    },
    *,
};
use crate::{settings::problem::Problems, system::Randomness};

const MADE: &str = "2026-01-01T00:00:00.000Z";

/// Lets everything through but triggers whose task is `wrong`.
struct Lenient;

impl Checks for Lenient {
    fn settings(&self, _: &str, _: &str) -> Result<(), Problems> {
        Ok(())
    }

    fn team(&self, _: &str, _: &str) -> Result<(), Problems> {
        Ok(())
    }

    fn trigger(&self, definition: &Definition) -> Result<(), validation::Problems> {
        match definition.task.as_str() {
            "wrong" => Err(Problem::new("config.cron", "no").into()),
            _ => Ok(()),
        }
    }
}

fn team(id: &str, parent: Option<&str>) -> OrgRow {
    OrgRow {
        id: id.into(),
        parent: parent.map(str::to_owned),
        status: "active".into(),
        created_at: MADE.into(),
        bootstrapped: true,
    }
}

fn folder(config: &str) -> TeamFolder {
    TeamFolder {
        path: "/source/teams/x".into(),
        config: parse(config, "test").map(Some),
        links: Vec::new(),
        plugins: BTreeSet::new(),
        subagents: BTreeMap::new(),
        skills: BTreeMap::new(),
    }
}

fn memory(id: i64, team: &str, key: &str, content: &str) -> MemoryRow {
    MemoryRow {
        id,
        team: team.into(),
        key: key.into(),
        content: content.into(),
        kind: "context".into(),
        active: true,
        supersedes: None,
        reason: None,
        updated_by: None,
        created_at: MADE.into(),
        updated_at: MADE.into(),
    }
}

fn kept(id: i64, team: &str, key: &str, value: &str, secret: bool) -> VaultRow {
    VaultRow {
        id,
        team: team.into(),
        key: key.into(),
        value: value.into(),
        secret: Some(secret),
        created_at: MADE.into(),
        updated_at: MADE.into(),
    }
}

fn trigger(id: i64, name: &str, task: &str) -> TriggerRow {
    TriggerRow {
        id,
        team: "research".into(),
        name: name.into(),
        kind: "schedule".into(),
        config: r#"{"cron":"0 8 * * *"}"#.into(),
        task: task.into(),
        skill: None,
        subagent: None,
        state: "active".into(),
        max_steps: 100,
        failure_threshold: 3,
        consecutive_failures: 0,
        disabled_reason: None,
        channel: None,
        overlap_policy: "allow".into(),
        created_at: MADE.into(),
        updated_at: MADE.into(),
    }
}

fn task(id: &str, team: &str, text: &str) -> TaskRow {
    TaskRow {
        id: id.into(),
        team: team.into(),
        task: text.into(),
        priority: "normal".into(),
        kind: "delegate".into(),
        status: "pending".into(),
        created_at: MADE.into(),
        result: None,
        duration_ms: None,
        options: None,
        channel: None,
        topic: None,
    }
}

fn found() -> Installation {
    let mut research = folder(
        "name: research\nparent: main\nallowed_tools: [\"*\"]\nprovider_profile: default\n\
         credentials: {TOKEN: value-of-the-token}\n",
    );
    research.plugins = ["lookup.ts".to_owned()].into();
    research.skills = [("dig".to_owned(), ["lookup".to_owned()].into())].into();
    research.subagents = [("scout".to_owned(), ["dig".to_owned()].into())].into();
    research.links = vec!["outside".into()];
    Installation {
        config: Ok(Some(parse("log_level: debug\n", "test").unwrap())),
        providers: parse("profiles: {default: {type: api, api_key: key-of-the-provider}}", "test")
            .map(Some),
        channels: Err("channels.yaml:1:1: (file): syntax".into()),
        rules: [("house.md".to_owned(), b"# House".to_vec())].into(),
        other_rules: BTreeSet::new(),
        folders: [
            ("main".to_owned(), folder("name: main\n")),
            ("research".to_owned(), research),
            ("lost".to_owned(), folder("name: lost\n")),
        ]
        .into(),
        tables: tables(),
        extras: Vec::new(),
    }
}

/// The rows of its database.
fn tables() -> Tables {
    let mut tables = Tables::default();
    tables.put(vec![
        team("main", None),
        team("research", Some("main")),
        team("bare", Some("research")),
    ]);
    tables.put(vec![
        memory(1, "research", "goal", "uses value-of-the-token daily"),
        memory(2, "nobody", "x", "y"),
    ]);
    tables.put(vec![
        kept(1, "research", "TOKEN", "older-value-of-it", true),
        kept(2, "research", "cursor", "7", false),
        kept(3, "research", "PIN", "1234", true),
        kept(4, "research", "learning:research:scout:journal", "learnt", false),
    ]);
    tables.put(vec![
        trigger(1, "learning-cycle", "Learn."),
        trigger(2, "daily", "Look."),
        trigger(3, "bad", "wrong"),
        TriggerRow { subagent: Some("scout".into()), ..trigger(4, "scouting", "Scout.") },
        TriggerRow { subagent: Some("ghost".into()), ..trigger(5, "haunted", "Boo.") },
    ]);
    tables.put(vec![task("task-1", "research", "Do it."), task("task-2", "main", "Too.")]);
    tables.put(vec![PluginRow {
        team: "research".into(),
        tool: "lookup".into(),
        status: "active".into(),
        source_hash: "ab".into(),
        created_at: MADE.into(),
    }]);
    tables.put(vec![EscalationRow {
        id: "esc-1".into(),
        from: "research".into(),
        to: "main".into(),
        task: None,
        status: "pending".into(),
        created_at: MADE.into(),
    }]);
    tables.leave("log_entries", 3);
    tables.leave("trigger_dedup", 2);
    tables
}

fn target() -> Target {
    Target {
        now: Timestamp(1_780_000_000_000),
        idle_after: Duration::from_secs(1800),
        ..Target::default()
    }
}

fn planned_from(found: &Installation, target: &Target) -> Plan {
    make_plan(found, target, Options::default(), &Lenient, &Ids::new(Arc::new(Randomness)))
}

fn planned(target: &Target) -> Plan {
    planned_from(&found(), target)
}

/// What is made of a team of the source.
fn of_team<'a>(plan: &'a Plan, team: &str) -> impl Iterator<Item = &'a Planned> {
    plan.planned.iter().filter(move |planned| planned.team.as_deref() == Some(team))
}

/// The teams that are made, but the main team.
fn records(plan: &Plan) -> Vec<&TeamRecord> {
    let records = plan.planned.iter().filter_map(|planned| match &planned.artifact {
        Artifact::Team(record) => Some(&**record),
        _ => None,
    });
    records.collect()
}

fn secrets<'a>(plan: &'a Plan, team: &str) -> Vec<&'a VaultEntry> {
    let entries = of_team(plan, team).filter_map(|planned| match &planned.artifact {
        Artifact::Secret(entry) => Some(entry),
        _ => None,
    });
    entries.collect()
}

fn lines(plan: &Plan) -> String {
    let lines: Vec<_> = plan.report.items.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

fn find<'a>(plan: &'a Plan, kind: Kind, name: &str) -> &'a Item {
    let mut items = plan.report.items.iter();
    items
        .find(|item| item.kind == kind && item.name == name)
        .unwrap_or_else(|| panic!("{kind:?} {name} in\n{}", lines(plan)))
}

/// OR-27, OR-29
#[test]
fn everything_of_the_source_is_in_the_report() {
    let plan = planned(&target());

    for (kind, name, outcome, error) in [
        (SETTINGS, "config.yaml", Outcome::Converted, false),
        (SETTINGS, "channels.yaml", Outcome::Skipped, true),
        (rules::KIND, "house.md", Outcome::Imported, false),
        (teams::KIND, "research", Outcome::Converted, false),
        (teams::KIND, "main", Outcome::Imported, false),
        (files::KIND, "outside", Outcome::Skipped, false),
        (files::KIND, "teams/lost", Outcome::Skipped, false),
        (vault::KIND, "TOKEN", Outcome::Converted, false),
        (vault::KIND, "cursor", Outcome::Imported, false),
        (vault::KIND, "PIN", Outcome::Skipped, true),
        (memories::KIND, "goal", Outcome::Converted, false),
        (memories::KIND, "learning:research:scout:journal", Outcome::Converted, false),
        (triggers::KIND, "learning-cycle", Outcome::Skipped, false),
        (triggers::KIND, "daily", Outcome::Imported, false),
        (triggers::KIND, "bad", Outcome::Converted, false),
        (triggers::KIND, "haunted", Outcome::Converted, false),
        (tasks::KIND, "task-1", Outcome::Imported, false),
        (plugins::KIND, "lookup", Outcome::Converted, false),
        (escalations::KIND, "esc-1", Outcome::Converted, false),
        (log::KIND, "log_entries", Outcome::Skipped, false),
        (TABLE, "trigger_dedup", Outcome::Skipped, false),
    ] {
        let item = find(&plan, kind, name);
        assert_eq!((item.outcome, item.error), (outcome, error), "{item}");
    }
    let stray = find(&plan, memories::KIND, "(all)");
    assert_eq!((stray.team.as_deref(), stray.count), (Some("nobody"), 1));
    let bad = &find(&plan, triggers::KIND, "bad").reason;
    assert_eq!(bad.as_deref(), Some("disabled: config.cron: no"));
    let scouting = &find(&plan, triggers::KIND, "scouting").reason;
    assert!(scouting.as_deref().unwrap().contains("`lookup`"));
    let tool = &find(&plan, plugins::KIND, "lookup").reason;
    assert!(tool.as_deref().unwrap().contains("skills that need it: `dig`"));
}

/// OR-27, MV-07
#[test]
fn no_value_of_a_secret_is_in_the_report_or_in_a_text() {
    let plan = planned(&target());

    let said = format!("{}\n{:?}", lines(&plan), plan);

    for value in ["value-of-the-token", "key-of-the-provider", "older-value"] {
        assert!(!said.contains(value), "{said}");
    }
    let memory = of_team(&plan, "research").find_map(|planned| match &planned.artifact {
        Artifact::Memory(memory) => Some(memory),
        _ => None,
    });
    assert_eq!(memory.unwrap().content, "uses ${vault:TOKEN} daily");
    assert_eq!(secrets(&plan, "research")[0].value.expose(), "value-of-the-token");
    let providers = plan.planned.iter().find_map(|planned| match &planned.artifact {
        Artifact::SettingsFile { name: "providers.yaml", text } => Some(text),
        _ => None,
    });
    assert!(providers.unwrap().contains("${vault:provider.default.api_key}"));
    assert_eq!(secrets(&plan, "system")[0].value.expose(), "key-of-the-provider");
}

/// OR-28, OR-29
#[test]
fn teams_come_with_their_places_and_a_missing_folder_degrades() {
    let plan = planned(&target());

    let shape: Vec<_> = records(&plan)
        .iter()
        .map(|team| (team.name.as_str(), team.parent.as_ref().unwrap().as_str(), team.state))
        .collect();
    assert_eq!(
        shape,
        [("research", "main", TeamState::Paused), ("bare", "research", TeamState::Degraded)]
    );
    let main = plan.planned.iter().find(|planned| planned.kind == teams::KIND).unwrap();
    assert!(matches!(main.artifact, Artifact::MainTeam), "{main:?}");
    let config = of_team(&plan, "research").find_map(|planned| match &planned.artifact {
        Artifact::Folder(folder) => Some(&folder.config),
        _ => None,
    });
    let config = config.unwrap();
    assert!(!config.contains("parent") && !config.contains("TOKEN"), "{config}");
}

/// OR-26
#[test]
fn secrets_come_before_the_files_that_refer_to_them_and_teams_before_what_is_theirs() {
    let plan = planned(&target());

    let order: Vec<_> =
        plan.planned.iter().map(|planned| (planned.team.as_deref(), planned.kind)).collect();

    assert_eq!(order[0], (Some("system"), vault::KIND));
    let place = |kind| order.iter().rposition(|(_, found)| *found == kind).unwrap();
    let of_research = order.iter().position(|(team, _)| *team == Some("research")).unwrap();
    assert!(place(SETTINGS) < place(teams::KIND) && place(teams::KIND) < of_research);
}

/// OR-26
#[test]
fn what_was_imported_before_is_not_taken_again() {
    let first = planned(&target());
    let mut after = target();
    let made = first.planned.iter();
    after.marks = made.map(|made| (made.mark.clone(), made.artifact.name())).collect();
    after.teams = ["research".to_owned(), "bare".to_owned()].into();
    after.main_in_use = true;

    let second = planned(&after);

    let totals = second.report.totals();
    assert_eq!((totals.imported, totals.converted), (0, 0), "{}", lines(&second));
    assert!(second.planned.is_empty(), "{:?}", second.planned);
}

/// OR-26
#[test]
fn a_team_that_is_there_keeps_everything_of_the_other_out() {
    let mut taken = target();
    taken.teams = ["research".to_owned()].into();
    taken.main_in_use = true;

    let plan = planned(&taken);

    let names: Vec<_> = records(&plan).iter().map(|team| team.name.as_str()).collect();
    assert_eq!(names, ["bare"]);
    assert!(!plan.planned.iter().any(|made| matches!(made.artifact, Artifact::MainTeam)));
    let left = find(&plan, teams::KIND, "research");
    assert!(left.reason.as_deref().unwrap().contains("not merged"));
    let memories = plan
        .report
        .items
        .iter()
        .find(|item| item.kind == memories::KIND && item.team.as_deref() == Some("research"));
    assert_eq!(memories.unwrap().reason.as_deref(), Some("their team stays behind"));
}

/// MV-41
#[test]
fn an_entry_that_nobody_called_harmless_becomes_a_secret() {
    let mut source = found();
    source.tables.put(vec![
        kept(71, "research", "said", "a-harmless-value", false),
        VaultRow { secret: None, ..kept(72, "research", "unsaid", "another-value", false) },
    ]);

    let planned = planned_from(&source, &target());

    let found: Vec<_> = secrets(&planned, "research")
        .iter()
        .map(|entry| (&*entry.key, entry.is_secret))
        .filter(|(key, _)| key.ends_with("said"))
        .collect();
    assert_eq!(found, [("said", false), ("unsaid", true)]);
}

/// OR-26
#[test]
fn a_key_that_an_earlier_import_used_is_not_overwritten_by_another_of_the_same_form() {
    let mut source = found();
    source.tables.put(vec![
        kept(71, "research", "a b", "the-first-value", true),
        kept(72, "research", "a-b", "the-second-value", true),
    ]);
    let planned = |target: &Target| planned_from(&source, target);
    let keys = |plan: &Plan| {
        let vaults = of_team(plan, "research").filter(|planned| planned.kind == vault::KIND);
        let keys: Vec<_> = vaults.map(|planned| planned.mark.clone()).collect();
        keys
    };

    let first = keys(&planned(&target()));
    let mut after = target();
    after.marks = first.iter().map(|mark| (mark.clone(), String::new())).collect();
    let second = keys(&planned(&after));

    assert!(first.iter().any(|mark| mark.contains("/71@")), "{first:?}");
    assert_eq!(second, Vec::<String>::new());
}
