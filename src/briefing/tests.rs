//! What a turn is given: by its team, its role, its skills and its subagents.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    briefing::{Assignment, Brief, BriefError, Briefing, Handed},
    budget::{Caps, Days, Ledger, Spent},
    classifier::{Classifier, Purpose},
    clock::{Clock, Timestamp},
    doubles::disk::MemoryStorage,
    ids::{Ids, TeamKey},
    meter::Unmetered,
    storage::Storage,
    store::{StoreHandle, records::Writes},
    task::{
        Label, Lane, Options, Task, TopicRef,
        outcome::{Code, Ending},
    },
    tool::{Args, CallContext, Caller, ToolCall, ToolFault, ToolReply},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Sources, Turns, topics::Till};
use crate::{
    engines::{Engines, native::retry::RetryPolicy},
    files::FileStore,
    logging::Secrets,
    mcp::Servers,
    memory::{
        Memory,
        chain::Draft,
        doubles,
        entry::{Actor, Key},
    },
    plugins::{host::process::Hosts, instance::Instances},
    policy::Policies,
    prompt::compose::Prompts,
    providers::client,
    sandbox::process::{Sandbox, SandboxSettings, layers::Layers},
    settings::{
        home::{Flags, Home},
        live::Live,
        references::Environment,
    },
    system::{Randomness, WallClock},
    taint::Taint,
    teams::{last_caps::LastCaps, self_changes::Changes},
    timezone::ZoneDays,
    tools::{
        self,
        agent::{AgentFailure, AgentReply, AgentRunner, Order},
        plugin_tool::PluginTools,
        web::Web,
    },
    vault::Vault,
};

/// Sessions of subagents that end at once, and what they were asked.
#[derive(Default)]
struct Sessions(Mutex<Vec<Order>>);

impl AgentRunner for Sessions {
    fn run(&self, order: Order) -> BoxFuture<'static, Result<AgentReply, AgentFailure>> {
        let result = match &*order.task {
            "fail" => Err(AgentFailure {
                error: "step_limit".to_owned(),
                message: "it took too many steps".to_owned(),
                ending: Some(Ending::Failed),
                text: "half".to_owned(),
                label: Label::Trusted,
            }),
            task => Ok(AgentReply {
                text: format!("did {task}"),
                steps: Some(3),
                label: match task {
                    "browse" => Label::Untrusted,
                    _ => Label::Trusted,
                },
            }),
        };
        self.0.lock().unwrap().push(order);
        Box::pin(std::future::ready(result))
    }
}

mod cycles;
mod handing;

struct Place {
    _folder: TempDir,
    disk: Arc<MemoryStorage>,
    make: Box<dyn Fn(LastCaps) -> Turns>,
    changes: Changes,
    store: StoreHandle,
    home: Home,
    turns: Turns,
    memory: Memory,
    sessions: Arc<Sessions>,
    ledger: Ledger,
    files: FileStore,
}

/// A sandbox that starts nothing.
fn sandbox(folder: &Path) -> Sandbox {
    Sandbox::with_layers(
        SandboxSettings {
            launcher: PathBuf::from("/nonexistent"),
            memory: 1 << 30,
            scratch: folder.join("scratch"),
            private: Vec::new(),
        },
        Layers { landlock: 6, seccomp: true, namespaces: true },
    )
}

fn open_files(home: &Home, disk: &dyn Storage, store: &StoreHandle) -> FileStore {
    let (clock, ids) = (Arc::new(WallClock), Ids::new(Arc::new(Randomness)));
    let live = Live::new(home.clone(), Environment::fixed([]));
    FileStore::open(home.files(), disk, store.clone(), clock, ids, live).unwrap()
}

/// A team `scouts` that may use everything, over the offline demo.
fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let flags = Flags { home: Some(folder.path().to_owned()), ..Flags::default() };
    let home = Home::new(&flags, &Environment::fixed([])).unwrap();
    home.prepare().unwrap();
    let sandbox = Arc::new(sandbox(folder.path()));
    let sessions = Arc::new(Sessions::default());
    let bench = doubles::Bench::new();
    let memory = bench.memory.clone();
    let ids = Ids::new(Arc::new(Randomness));
    let store = bench.store.clone();
    let changes = Changes::new(home.clone(), Arc::new(WallClock), ids, store.clone());
    let ledger = Ledger::default();
    let files = open_files(&home, &*bench.disk, &store);
    let kept = files.clone();
    let make: Box<dyn Fn(LastCaps) -> Turns> = {
        let (home, memory, changes) = (home.clone(), memory.clone(), changes.clone());
        let (ledger, sessions) = (ledger.clone(), sessions.clone());
        let (plugin_store, plugin_files) = (store.clone(), files.clone());
        let plugin_tools = PluginTools::open(
            &*bench.disk,
            store.clone(),
            Arc::new(WallClock),
            Ids::new(Arc::new(Randomness)),
            home.clone(),
            Hosts::unused(),
        )
        .unwrap();
        Box::new(move |last_caps| {
            Turns::new(Sources {
                live: Live::new(home.clone(), Environment::fixed([])),
                home: home.clone(),
                engines: Engines::new(client::build().unwrap(), RetryPolicy::default())
                    .with_agents(sandbox.clone(), PathBuf::from("/nonexistent")),
                toolbox: tools::all(),
                web: Web::default(),
                rules: Policies::default(),
                memory: memory.clone(),
                changes: changes.clone(),
                prompts: Prompts::new(home.clone(), Taint::default()),
                taint: Taint::default(),
                servers: Servers::unused(),
                plugins: Instances::unused(&home, &plugin_store, &Vault::absent(), &plugin_files),
                plugin_tools: plugin_tools.clone(),
                sandbox: sandbox.clone(),
                agents: Some(sessions.clone()),
                demo: Arc::default(),
                secrets: Secrets::default(),
                vault: Vault::absent(),
                till: Till {
                    ledger: ledger.clone(),
                    days: Arc::new(ZoneDays(jiff::tz::TimeZone::UTC)),
                    meter: Arc::new(Unmetered),
                    store: plugin_store.clone(),
                    noting: Arc::default(),
                },
                last_caps,
                files: files.clone(),
            })
        })
    };
    let turns = make(last_caps(&*bench.disk, &store));
    let place = Place {
        _folder: folder,
        disk: bench.disk,
        make,
        changes,
        store,
        home,
        turns,
        memory,
        sessions,
        ledger,
        files: kept,
    };
    place.write("config.yaml", "allowed_tools: [\"*\"]\nmax_steps: 9\n");
    place
}

fn last_caps(disk: &dyn Storage, store: &StoreHandle) -> LastCaps {
    LastCaps::open(disk, store.clone()).unwrap()
}

impl Place {
    /// The turns of the next process.
    fn restarted(&self) -> Turns {
        (self.make)(last_caps(&*self.disk, &self.store))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.home.team("scouts").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn skill(&self, name: &str) {
        let text = format!("---\nname: {name}\ndescription: Does {name}.\n---\nHow to {name}.");
        self.write(&format!("skills/{name}/SKILL.md"), &text);
    }

    fn subagent(&self, name: &str, front: &str) {
        let text = format!(
            "---\nname: {name}\ndescription: Is {name}.\n{front}\n---\n## Boundaries\nStay."
        );
        self.write(&format!("subagents/{name}.md"), &text);
    }

    async fn brief_as(&self, options: Options, inner: bool) -> Result<Brief, BriefError> {
        self.turns
            .brief(Assignment {
                lane: Lane { team: "scouts".into(), topic: None },
                generation: 1,
                topic: Some(TopicRef { id: "t-1".into(), name: "weather".into() }),
                reports: false,
                ancestors: Vec::new(),
                options,
                inner,
                handed: Handed::default(),
            })
            .await
    }

    async fn brief(&self) -> Brief {
        self.brief_as(Options::default(), false).await.unwrap()
    }

    async fn brief_of(&self, subagent: &str, inner: bool) -> Brief {
        self.brief_as(as_subagent(subagent), inner).await.unwrap()
    }
}

fn as_subagent(name: &str) -> Options {
    Options { subagent: Some(name.to_owned()), ..Options::default() }
}

fn tools(brief: &Brief) -> Vec<String> {
    let specs = brief.tools.specs();
    specs.iter().map(|spec| spec.name.clone()).collect()
}

fn has(brief: &Brief, tool: &str) -> bool {
    tools(brief).iter().any(|name| name == tool)
}

async fn call(brief: &Brief, tool: &str, args: Value) -> ToolReply {
    let task = Task::new(
        "task-1".into(),
        Lane { team: "scouts".into(), topic: None },
        String::new(),
        String::new(),
        Timestamp(0),
    );
    let call = ToolCall { id: "call".into(), name: tool.to_owned(), args: Args::Json(args) };
    let caller = Arc::new(Caller::of(&task));
    if let Err(refused) = brief.tools.check(&call, &caller, Label::Trusted) {
        return refused;
    }
    let cx = CallContext {
        caller,
        label: Label::Untrusted,
        turn: "turn".into(),
        step: 1,
        key: "turn:1:0".to_owned(),
        rerun: false,
        approved: None,
        approved_by: None,
        approved_always: false,
        cancel: CancellationToken::new(),
    };
    brief.tools.run(call, cx).await
}

fn json_of(reply: &ToolReply) -> Value {
    serde_json::from_str(&reply.content).unwrap()
}

/// EN-96: what a command-line agent is now decides, also if it could be used before.
#[actix::test]
async fn an_agent_that_is_replaced_is_looked_at_again() {
    let place = place();
    let agent = place.home.team("scouts").join("claude");
    let install = |version: &str, seconds: u64| {
        fs::write(&agent, format!("#!/bin/sh\necho {version}\n")).unwrap();
        fs::set_permissions(&agent, fs::Permissions::from_mode(0o755)).unwrap();
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::open(&agent).unwrap().set_modified(at).unwrap();
    };
    let settings = format!("engines:\n  claude:\n    binary: {}\n", agent.display());
    fs::write(place.home.config_file(), settings).unwrap();
    place.turns.0.live.hold(Arc::default(), Arc::default());
    place.turns.0.live.set_now().unwrap();
    place.write("config.yaml", "allowed_tools: [\"*\"]\nsdk: claude\n");
    let brief = || place.brief_as(Options::default(), false);

    install("2.1.325", 1_000);
    let first = brief().await.map(drop);
    install("2.1.100", 2_000);
    let older = brief().await.map(drop).unwrap_err();
    install("2.1.326", 3_000);
    let newer = brief().await.map(drop);

    assert_eq!((first, newer), (Ok(()), Ok(())));
    assert_eq!(older.code, Code::ConfigError);
    assert!(older.message.contains("claude 2.1.100 is too old"), "{older}");
}

/// TO-107, SE-74
#[actix::test]
async fn a_skill_is_loaded_once_in_a_turn() {
    let place = place();
    place.skill("look");
    let (turn, other) = (place.brief().await, place.brief().await);
    let load = json!({ "skill_name": "look" });

    let first = call(&turn, "use_skill", load.clone()).await;
    let second = call(&turn, "use_skill", load.clone()).await;
    let elsewhere = call(&other, "use_skill", load).await;

    assert_eq!(
        json_of(&first),
        json!({
            "success": true,
            "skill_name": "look",
            "body": "How to look.",
            "folder": "skills/look",
            "tools": [],
        })
    );
    assert_eq!(
        json_of(&second),
        json!({ "success": true, "skill_name": "look", "note": "already active" })
    );
    assert_eq!(json_of(&elsewhere)["body"], "How to look.");
}

/// TO-107
#[actix::test]
async fn an_unknown_skill_is_answered_with_those_that_can_be_loaded() {
    let place = place();
    place.skill("look");
    place.skill("owned");
    place.subagent("owl", "skills: [owned]");
    let turn = place.brief().await;

    for name in ["fly", "owned"] {
        let reply = call(&turn, "use_skill", json!({ "skill_name": name })).await;

        assert_eq!(reply.fault, Some(ToolFault::Refused));
        let answer = json_of(&reply);
        assert_eq!(answer["error"], "not_found");
        assert_eq!(
            answer["message"],
            format!(
                "there is no skill `{name}` to load; there are `look`, `write-skill`, `write-subagent`"
            )
        );
    }
}

/// TO-39, TO-45, SE-75
#[actix::test]
async fn use_skill_and_the_catalogue_are_there_only_where_something_can_be_loaded() {
    let place = place();
    place.skill("look");
    place.skill("listen");
    place.subagent("owl", "skills: [look]");
    place.subagent("bat", "skills: [look, listen]");
    place.subagent("ant", "skills: [look, listen]\nallowed_tools: [read]");
    let with_skill = Options { skill: Some("look".to_owned()), ..Options::default() };

    let seen = [
        place.brief().await,
        place.brief_as(with_skill, false).await.unwrap(),
        place.brief_of("owl", false).await,
        place.brief_of("bat", true).await,
        place.brief_of("ant", true).await,
    ]
    .map(|brief| (has(&brief, "use_skill"), brief.system.team.contains("with `use_skill`")));

    assert_eq!(seen, [(true, true), (false, false), (false, false), (true, true), (false, false)]);
    place.write("config.yaml", "allowed_tools: [\"@files\"]\n");
    let without = place.brief().await;
    assert!(!has(&without, "use_skill"));
    assert!(!without.system.team.contains("--- Skills ---"));
}

/// TO-40, TO-108, SE-55, SE-56, SE-80
#[actix::test]
async fn each_subagent_is_a_tool_of_its_team() {
    let place = place();
    place.subagent("owl", "");
    place.subagent("bat", "");
    let turn = place.brief().await;

    let reply = call(&turn, "agent__owl", json!({ "task": "look" })).await;
    let failed = call(&turn, "agent__owl", json!({ "task": "fail" })).await;
    let empty = call(&turn, "agent__owl", json!({ "task": "" })).await;

    let names = tools(&turn);
    let files = ["bash", "edit", "glob", "grep", "read", "write"];
    let others = ["use_skill", "agent__bat", "agent__owl"];
    let own = ["deprecate_plugin_tool", "register_plugin_tool", "remove_plugin_tool"];
    assert_eq!(names, [files.as_slice(), others.as_slice(), own.as_slice()].concat());
    let specs = turn.tools.specs();
    let owl = specs.iter().find(|spec| spec.name == "agent__owl").unwrap();
    assert_eq!(
        owl.description,
        "Hands a task to the subagent `owl` and waits for its report. Is owl."
    );
    assert_eq!(
        json_of(&reply),
        json!({ "success": true, "subagent": "owl", "text": "did look", "steps": 3 })
    );
    assert_eq!(failed.fault, Some(ToolFault::Refused));
    assert_eq!(
        json_of(&failed),
        json!({
            "success": false,
            "error": "step_limit",
            "message": "it took too many steps",
            "subagent": "owl",
            "outcome": "failed",
            "text": "half",
        })
    );
    assert_eq!(empty.fault, Some(ToolFault::InvalidArguments));
    let asked = place.sessions.0.lock().unwrap();
    assert_eq!(asked.len(), 2);
    let Order { subagent, call, .. } = &asked[0];
    assert_eq!(call.caller.task.as_str(), "task-1");
    assert_eq!((&**subagent, &*call.key, call.label), ("owl", "turn:1:0", Label::Untrusted));
}

/// MV-13: what a subagent read elsewhere counts as read by whoever reads its report.
#[actix::test]
async fn a_report_is_believed_as_far_as_its_session() {
    let place = place();
    place.subagent("owl", "");
    let turn = place.brief().await;

    let plain = call(&turn, "agent__owl", json!({ "task": "look" })).await;
    let tainted = call(&turn, "agent__owl", json!({ "task": "browse" })).await;

    assert_eq!((plain.taints, tainted.taints), (false, true));
}

/// TO-16: nothing but the turn's own end limits it.
#[actix::test]
async fn a_subagent_may_take_as_long_as_its_turn() {
    let place = place();
    place.subagent("owl", "");
    let turn = place.brief().await;
    let task = Task::new(
        "task-1".into(),
        Lane { team: "scouts".into(), topic: None },
        String::new(),
        String::new(),
        Timestamp(0),
    );
    let call = ToolCall {
        id: "call".into(),
        name: "agent__owl".to_owned(),
        args: Args::Json(json!({ "task": "look" })),
    };

    let checked = turn.tools.check(&call, &Caller::of(&task), Label::Trusted);

    assert_eq!(checked.unwrap().limit, Duration::from_secs(6 * 60 * 60));
}

/// SE-80, SE-81, TO-40
#[actix::test]
async fn the_session_of_a_subagent_has_no_topic_and_calls_nobody() {
    let place = place();
    place.write("team-rules/a.md", "Rule of the team.");
    place.subagent("owl", "");
    place.subagent("bat", "max_steps: 7\nallowed_tools: [read, web_fetch, \"agent.*\"]");

    let team = place.brief().await;
    let in_place = place.brief_of("owl", false).await;
    let owl = place.brief_of("owl", true).await;
    let bat = place.brief_of("bat", true).await;

    assert!(team.system.turn.contains("weather") && in_place.system.turn.contains("weather"));
    assert_eq!(owl.system.turn, "");
    assert!(owl.system.team.contains("Rule of the team."));
    assert!(owl.system.team.contains("You work as the subagent `owl`."));
    let agents = |brief: &Brief| tools(brief).iter().any(|tool| tool.starts_with("agent__"));
    assert!(agents(&team) && !agents(&in_place) && !agents(&owl) && !agents(&bat));
    assert_eq!(tools(&bat), ["read"]);
    let steps = [&team, &in_place, &owl, &bat].map(|brief| brief.max_steps);
    assert_eq!(steps, [9, 9, 50, 7]);
}

/// SE-80: what only the team itself may do.
#[actix::test]
async fn organisation_and_trigger_tools_are_not_for_sessions_of_subagents() {
    use crate::tools::{REGISTRY, filter::ToolFilter};

    let inner =
        ToolFilter::parse(&["*"], REGISTRY).unwrap().narrowed(super::part::inner().unwrap());

    for taken in [
        "spawn_team",
        "delegate_task",
        "ask_operator",
        "create_trigger",
        "add_trusted_sender",
        "agent.owl",
    ] {
        assert!(!inner.allows(taken), "{taken}");
    }
    for kept in
        ["read", "bash", "memory_save", "vault_get", "use_skill", "scouts.deploy", "mcp.a.b"]
    {
        assert!(inner.allows(kept), "{kept}");
    }
}

/// SE-77, SE-83, SE-112
#[actix::test]
async fn the_model_of_a_subagent_and_the_options_of_a_task_count() {
    let place = place();
    fs::create_dir_all(place.home.data().join("config")).unwrap();
    fs::write(
        place.home.providers_file(),
        "profiles:\n  default: {provider: offline}\n  fast: {provider: offline, model: small}\n",
    )
    .unwrap();
    place.subagent("owl", "model: fast\nmax_steps: 7");
    place.subagent("bat", "model: nowhere:x");
    let options =
        Options { max_steps: Some(3), turn_timeout_ms: Some(5_000), ..as_subagent("owl") };

    let owl = place.brief_as(options, false).await.unwrap();
    let bat = place.brief_as(as_subagent("bat"), false).await.err().unwrap();

    assert_eq!((owl.model.as_str(), owl.max_steps), ("small", 3));
    assert_eq!(owl.turn_timeout, Duration::from_secs(5));
    assert_eq!(place.brief_of("owl", false).await.max_steps, 7);
    assert_eq!(bat.code, Code::ConfigError);
    let file = place.home.team("scouts").join("subagents/bat.md");
    assert!(bat.message.starts_with(&format!("{}: model: ", file.display())), "{}", bat.message);
}

/// SE-74, SE-79, SE-13
#[actix::test]
async fn an_unknown_role_or_pattern_is_a_fault_of_the_settings() {
    let place = place();
    place.subagent("owl", "allowed_tools: [\"@nothing\"]");
    let with_skill = Options { skill: Some("fly".to_owned()), ..Options::default() };
    let mut errors = Vec::new();

    for options in [as_subagent("cat"), with_skill, as_subagent("owl")] {
        let error = place.brief_as(options, false).await.err().unwrap();
        assert_eq!(error.code, Code::ConfigError);
        errors.push(error.message);
    }

    assert_eq!(errors[0], "there is no subagent `cat`; known are `owl`");
    assert_eq!(errors[1], "there is no skill `fly`; known are `write-skill`, `write-subagent`");
    assert!(
        errors[2].contains("owl.md: allowed_tools: unknown tool group `@nothing`"),
        "{}",
        errors[2]
    );
}

/// SE-57
#[actix::test]
async fn plugin_tools_are_told_with_who_has_them() {
    let place = place();
    let text = |name: &str, tool: &str| {
        format!("# Skill: {name}\n\n## Purpose\nHelps.\n\n## Required Tools\n- {tool}\n")
    };
    place.write("skills/ship.md", &text("ship", "deploy"));
    place.write("skills/ask.md", &text("ask", "tickets"));
    place.subagent("owl", "skills: [ship]");

    let team = place.brief().await.system.team.clone();
    let owl = place.brief_of("owl", false).await.system.team.clone();

    assert!(team.contains("- `deploy`: ask the subagent with `agent__owl`"), "{team}");
    assert!(team.contains("- `tickets`: with the skill `ask`"), "{team}");
    assert!(!owl.contains("ask the subagent"), "{owl}");
}

/// A turn that changes nothing is given what the last one had.
#[actix::test]
async fn a_new_skill_or_subagent_counts_from_the_next_turn() {
    let place = place();
    let before = place.brief().await;

    place.skill("look");
    place.subagent("owl", "");
    let after = place.brief().await;

    assert!(!has(&before, "agent__owl") && has(&after, "agent__owl"));
    assert!(after.system.team.contains("- `look`: Does look."));
    assert_ne!(before.toolset_hash, after.toolset_hash);
    assert_eq!(after.toolset_hash, place.brief().await.toolset_hash);
}

/// SE-39, SE-80, MV-73
#[actix::test]
async fn what_the_team_remembers_is_told_to_it_and_to_its_subagents() {
    let place = place();
    place.subagent("owl", "");
    let by = Actor::Operator("op".to_owned());
    let saved = place.memory.save(Draft {
        team: TeamKey::first("scouts"),
        key: Key::parse("camp").unwrap(),
        content: "by the river".to_owned(),
        kind: None,
        reason: None,
        sources: Vec::new(),
        provenance: by.provenance(),
        by,
        call: None,
        expires_at: None,
        looks_back: false,
    });
    saved.await.unwrap();
    let owl = Options { subagent: Some("owl".to_owned()), ..Options::default() };

    let team = place.brief_as(Options::default(), false).await.unwrap();
    let inner = place.brief_as(owl, true).await.unwrap();

    let told = "--- Memory ---\n\nContext:\n[camp]: by the river";
    assert!(team.system.turn.starts_with(&format!("{told}\n\n# Topic")));
    assert_eq!(inner.system.turn, told);
}

fn profiles(fallback: &str) -> String {
    format!(
        "profiles:\n  default:\n    provider: offline\n    fallbacks: [spare]\n    pricing: {{input: 1, output: 1}}\n  spare:\n    provider: offline\n{fallback}"
    )
}

/// SE-140: whichever profile may answer, a cap in money needs to know what it costs.
#[actix::test]
async fn a_cap_in_money_needs_prices_of_all_that_may_answer() {
    let place = place();
    place.write("config.yaml", "allowed_tools: []\nbudgets: {usd_per_day: 1}\n");
    fs::write(place.home.providers_file(), profiles("")).unwrap();

    let error = place.brief_as(Options::default(), false).await.err();

    let error = error.unwrap();
    assert_eq!(error.code, Code::ConfigError);
    assert!(error.message.contains("needs `pricing` in profile `spare`"), "{}", error.message);
    let priced = profiles("    pricing: {input: 1, output: 1}\n");
    fs::write(place.home.providers_file(), priced).unwrap();
    assert!(place.brief_as(Options::default(), false).await.is_ok());
}

fn assignment(team: &str, ancestors: &[&str]) -> Assignment {
    Assignment {
        lane: Lane { team: team.into(), topic: None },
        generation: 1,
        topic: None,
        reports: false,
        ancestors: ancestors.iter().map(|name| (*name).into()).collect(),
        options: Options::default(),
        inner: false,
        handed: Handed::default(),
    }
}

/// SE-141, OR-24: a fault in a file stops its own team; below it the last good budget counts, also for a
/// process that has never seen the file good.
#[actix::test]
async fn a_team_below_a_broken_file_goes_on_under_the_last_good_budget() {
    let place = place();
    let main = place.home.team("main");
    fs::create_dir_all(&main).unwrap();
    let write = |text: &str| fs::write(main.join("config.yaml"), text).unwrap();
    write("budgets: {tokens_per_day: 1000}\n");
    place.turns.brief(assignment("scouts", &["main"])).await.unwrap();
    write("budgets: {tokens_per_dya: 5000}\n");
    let capped = Caps { tokens_per_day: Some(1000), ..Caps::default() };

    let below = place.turns.brief(assignment("scouts", &["main"])).await;
    let own = place.turns.brief(assignment("main", &[])).await;
    place.store.commit(Writes::new()).await.unwrap();
    let restarted = place.restarted();
    let after = restarted.brief(assignment("scouts", &["main"])).await;

    for brief in [below, after] {
        let line = brief.unwrap().budget;
        assert_eq!(*line, [("scouts".into(), Caps::default()), ("main".into(), capped)]);
    }
    let error = own.err().unwrap();
    assert_eq!(error.code, Code::ConfigError);
    assert!(error.message.contains("tokens_per_dya"), "{}", error.message);
}

/// OR-24: what a file allowed that was never good is not known, and no fault is read as a yes.
#[actix::test]
async fn a_team_below_a_file_that_was_never_good_has_no_budget() {
    let place = place();
    let main = place.home.team("main");
    fs::create_dir_all(&main).unwrap();
    fs::write(main.join("config.yaml"), "budgets: {usd_per_dya: 1}\n").unwrap();

    let error = place.turns.brief(assignment("scouts", &["main"])).await;

    let error = error.err().unwrap();
    assert_eq!(error.code, Code::ConfigError);
    assert!(error.message.contains("usd_per_dya"), "{}", error.message);
    assert!(place.turns.brief(assignment("scouts", &[])).await.is_ok());
}

/// SE-139: a question about a topic is a call of the main team.
#[actix::test]
async fn sorting_a_message_is_paid_by_the_main_team() {
    let place = place();
    let main = place.home.team("main");
    fs::create_dir_all(&main).unwrap();
    fs::write(main.join("config.yaml"), "allowed_tools: []\n").unwrap();
    let day = ZoneDays(jiff::tz::TimeZone::UTC).day_of(crate::system::WallClock.now());

    let answer = place.turns.ask(Purpose::Topics, "#reply yes".to_owned()).await;

    assert_eq!(answer.as_deref(), Some("yes"));
    // The demo gives no titles, and is not asked for any once it is known to answer.
    assert_eq!(place.turns.ask(Purpose::Titles, "#reply yes".to_owned()).await, None);
    place.brief().await;
    let known = [Purpose::Titles, Purpose::Topics].map(|purpose| place.turns.may_know(purpose));
    assert_eq!(known, [false, true]);
    let spent = place.ledger.drawn(&"main".into(), day);
    assert_ne!(spent, Spent::default());

    // What does not fit is not asked: a rule decides.
    fs::write(main.join("config.yaml"), "allowed_tools: []\nbudgets: {tokens_per_day: 10}\n")
        .unwrap();
    assert_eq!(place.turns.ask(Purpose::Topics, "#reply yes".to_owned()).await, None);
    assert_eq!(place.ledger.drawn(&"main".into(), day), spent);
}
