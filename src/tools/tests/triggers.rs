//! The trigger tools, as turns of different teams call them.

use std::collections::BTreeSet;

use hivewright_actors::{
    ids::TaskId,
    org::{
        record::{Capability, TeamRecord},
        tree::Tree,
    },
    task::{Source, TopicRef, outcome::Ending},
    tool::{Asking, REPORT_RUN, Verdict},
};

use super::*;
use crate::{
    tools::triggers::{made, report::with_report},
    triggers::{admin::TriggerAdmin, stage::Stage},
    vault::{entry::Put, tests as doubles},
};

struct Teams {
    bench: Bench,
    stage: Stage,
}

fn team(name: &str, parent: &str, capabilities: &[Capability]) -> TeamRecord {
    TeamRecord {
        name: name.into(),
        parent: Some(parent.into()),
        capabilities: capabilities.iter().copied().collect::<BTreeSet<_>>(),
        ..TeamRecord::main(Timestamp(0))
    }
}

/// `main` is above `news`, which is above `desk`; `free` may have triggers of its own.
fn teams() -> Teams {
    let stage = Stage::new("2025-06-02T12:00", |_| (Duration::from_secs(600), Ending::Done));
    let tree = Tree::new([
        TeamRecord::main(Timestamp(0)),
        team("news", "main", &[]),
        team("desk", "news", &[]),
        team("free", "main", &[Capability::Triggers]),
    ]);
    let admin = TriggerAdmin::new(stage.admin(tree));
    Teams { bench: Bench::with(crate::tools::all().with(made(&admin)), &["@triggers"]), stage }
}

/// Administration without any team.
pub(super) fn admin() -> TriggerAdmin {
    let stage = Stage::new("2025-06-02T12:00", |_| (Duration::ZERO, Ending::Done));
    TriggerAdmin::new(stage.admin(Tree::new([])))
}

impl Teams {
    fn caller(name: &str) -> Caller {
        let lane = Lane { team: name.into(), topic: None };
        let mut task = Task::new("task-1".into(), lane, String::new(), String::new(), Timestamp(0));
        task.source = Some(Source {
            channel: "ws:1".into(),
            message: None,
            topic: Some(TopicRef { id: "t-1".into(), name: "news".to_owned() }),
            notify: None,
        });
        Caller::of(&task)
    }

    /// What a person is asked before a call runs, if one is.
    fn asked_as(&self, caller: &str, tool: &str, args: Value) -> Option<Asking> {
        let checked =
            self.bench.tools.check(&call(tool, args), &Self::caller(caller), Label::Trusted);
        match checked.unwrap().verdict {
            Verdict::Ask(asking) => Some(asking),
            Verdict::Allow => None,
        }
    }

    async fn try_as(&self, caller: &str, tool: &str, args: Value, rerun: bool) -> Value {
        let cx = CallContext { rerun, ..context() };
        self.run_as(caller, tool, args, cx).await
    }

    async fn run_as(&self, caller: &str, tool: &str, args: Value, cx: CallContext) -> Value {
        let cx = CallContext { caller: Arc::new(Self::caller(caller)), ..cx };
        let reply = self.bench.tools.run(call(tool, args), cx).await;
        serde_json::from_str(&reply.content).unwrap_or_else(|_| panic!("{}", reply.content))
    }

    async fn call_as(&self, caller: &str, tool: &str, args: Value) -> Value {
        self.try_as(caller, tool, args, false).await
    }
}

fn morning(team: &str) -> Value {
    json!({
        "team": team, "name": "morning", "type": "schedule", "config": {"cron": "0 8 * * MON-FRI"},
        "task": "Sum up the news.", "notify_channel": "source", "enable": true,
    })
}

fn named(team: &str) -> Value {
    json!({ "team": team, "trigger_name": "morning" })
}

fn made_of(team: &str, kind: &str, config: Value) -> Value {
    json!({ "team": team, "name": "scan", "type": kind, "config": config, "task": "Look around." })
}

/// TR-57: what fires often, what others can call, and what gives work to the main team.
#[actix::test]
async fn a_person_decides_on_triggers_that_could_do_harm() {
    let teams = teams();
    let make = |team: &str, kind: &str, config: Value| {
        teams.asked_as("main", "create_trigger", made_of(team, kind, config))
    };

    for harmless in [
        make("news", "schedule", json!({"cron": "* * * * *"})),
        make("news", "schedule", json!({"every": "60s"})),
        make("news", "keyword", json!({"pattern": "news"})),
        make("news", "window", json!({"watch": "* 9 * * *", "tick_interval": "60s"})),
    ] {
        assert_eq!(harmless, None);
    }
    let often = make("news", "schedule", json!({"cron": "*/30 * * * * *"})).unwrap();
    assert_eq!((often.kind.as_str(), often.high_risk), ("trigger", false));
    assert_eq!(
        often.summary,
        "Team main wants to make the trigger `scan` of team news: it fires more often than once a minute."
    );
    assert_eq!(
        often.diff.unwrap(),
        "type: schedule\ndue: Mon 2025-06-02 12:00:30 CEST\ndue: Mon 2025-06-02 12:01:00 CEST\n\
         due: Mon 2025-06-02 12:01:30 CEST\ndue: Mon 2025-06-02 12:02:00 CEST\n\
         due: Mon 2025-06-02 12:02:30 CEST\ncost: not known, it has no runs with a price\n\
         task: Look around."
    );
    for (team, kind, config) in [
        ("news", "schedule", json!({"every": "59s"})),
        ("news", "schedule", json!({"cron": "0,10 0 8 * * *"})),
        ("news", "window", json!({"watch": "* 9 * * *"})),
        ("news", "webhook", json!({"secret": "${vault:KEY}"})),
        ("main", "schedule", json!({"cron": "0 8 * * *"})),
    ] {
        let asked = make(team, kind, config.clone());
        assert_eq!(asked.map(|asked| asked.kind), Some("trigger".to_owned()), "{config}");
    }
}

/// TR-57: also when one that is there is changed or enabled; switching off asks nobody.
#[actix::test]
async fn a_person_decides_on_what_such_a_trigger_becomes() {
    let teams = teams();
    for team in ["main", "news"] {
        let made = teams.call_as("main", "create_trigger", morning(team)).await;
        assert_eq!(made["success"], true, "{made}");
    }
    let change = |team: &str, config: Value| {
        let args = json!({"team": team, "trigger_name": "morning", "config": config});
        teams.asked_as("main", "update_trigger", args)
    };

    let earlier = json!({"cron": "30 7 * * *"});
    assert_eq!(change("news", earlier.clone()), None);
    assert!(change("main", earlier).is_some());
    assert!(change("news", json!({"cron": null, "every": "30s"})).is_some());
    assert_eq!(teams.asked_as("main", "enable_trigger", named("news")), None);
    let on = teams.asked_as("main", "enable_trigger", named("main")).unwrap();
    assert!(on.summary.starts_with("Team main wants to enable"), "{}", on.summary);
    assert_eq!(teams.asked_as("main", "disable_trigger", named("main")), None);
}

/// TR-49 to TR-54, TR-60
#[actix::test]
async fn a_parent_manages_the_triggers_of_its_child() {
    let teams = teams();

    let made = teams.call_as("main", "create_trigger", morning("news")).await;
    assert_eq!(made["success"], true, "{made}");
    assert_eq!(made["state"], "active");
    assert_eq!(
        made["next_due"],
        json!([
            "Tue 2025-06-03 08:00:00 CEST",
            "Wed 2025-06-04 08:00:00 CEST",
            "Thu 2025-06-05 08:00:00 CEST",
        ])
    );
    let trigger = &made["trigger"];
    assert_eq!(
        (&trigger["notify_channel"], &trigger["notify_topic"]),
        (&json!("ws:1"), &json!("t-1"))
    );

    let change =
        json!({"team": "news", "trigger_name": "morning", "config": {"cron": "30 7 * * *"}});
    let changed = teams.call_as("main", "update_trigger", change).await;
    assert_eq!(changed["next_due"][0], "Tue 2025-06-03 07:30:00 CEST");

    let tested = teams.call_as("main", "test_trigger", named("news")).await;
    assert_eq!(tested["enqueued"], true, "{tested}");
    assert!(tested["run_id"].is_string() && tested["task_id"].is_string());
    // TR-28: the same call again gives the same run.
    let again = teams.try_as("main", "test_trigger", named("news"), true).await;
    assert_eq!(again, tested);

    let off = teams.call_as("main", "disable_trigger", named("news")).await;
    assert_eq!(off, json!({"success": true, "state": "disabled"}));
    let on = teams.call_as("main", "enable_trigger", named("news")).await;
    assert_eq!(
        (&on["state"], &on["next_due_at"]),
        (&json!("active"), &json!("2025-06-03T05:30:00.000Z"))
    );
    let listed = teams.call_as("news", "list_triggers", json!({})).await;
    assert_eq!(listed["triggers"][0]["name"], "morning");
    assert_eq!(listed["triggers"][0]["last_run"]["cause"], "test");
}

/// TR-50, TO-12: a model is told of `config` alone; the administration takes the others, and checks them.
#[actix::test]
async fn a_change_may_have_every_field_of_a_new_trigger() {
    let teams = teams();
    teams.call_as("main", "create_trigger", morning("news")).await;
    let change = async |name: &str, value: Value| {
        let mut args = named("news");
        args[name] = value;
        teams.call_as("main", "update_trigger", args).await
    };

    let slower = change("cooldown", json!("5m")).await;
    let renamed = change("name", json!("evening")).await;
    let gone = change("cooldown", json!("1m")).await;
    let mut args = json!({ "team": "news", "trigger_name": "evening" });
    args["cooldwn"] = json!("1m");
    let misspelt = teams.call_as("main", "update_trigger", args).await;

    assert_eq!(slower["trigger"]["cooldown"], "5m", "{slower}");
    assert_eq!(renamed["trigger"]["name"], "evening", "{renamed}");
    assert_eq!(gone["error"], "not_found");
    assert_eq!(misspelt["error"], "invalid_input");
    assert!(misspelt["message"].as_str().unwrap().contains("did you mean `cooldown`?"));
}

/// TR-55
#[actix::test]
async fn only_a_direct_parent_manages_triggers() {
    let teams = teams();
    let may = async |caller: &str, team: &str| {
        let answer = teams.call_as(caller, "create_trigger", morning(team)).await;
        if answer["success"] == true {
            "yes".to_owned()
        } else {
            answer["error"].as_str().unwrap_or_default().to_owned()
        }
    };

    assert_eq!(may("news", "desk").await, "yes");
    assert_eq!(may("main", "main").await, "yes");
    assert_eq!(may("free", "free").await, "yes");
    assert_eq!(may("news", "news").await, "not_authorized");
    assert_eq!(may("main", "desk").await, "not_authorized");
    assert_eq!(may("desk", "news").await, "not_authorized");
    assert_eq!(may("main", "nobody").await, "not_found");
    let seen = teams.call_as("desk", "list_triggers", json!({})).await;
    assert_eq!(seen["triggers"][0]["team"], "desk");
    let spied = teams.call_as("desk", "list_triggers", json!({"team": "news"})).await;
    assert_eq!(spied["error"], "not_authorized");
}

/// TR-02, TR-56, TR-82
#[actix::test]
async fn a_refusal_names_the_field() {
    let teams = teams();
    let with = |name: &str, value: Value| {
        let mut form = morning("news");
        form[name] = value;
        form
    };
    let cases = [
        (
            with("config", json!({"cron": "0 25 * * *"})),
            "invalid_input",
            "config.cron: field 2 \"25\" is not 0-23",
        ),
        (
            with("config", json!({"evry": "1h"})),
            "invalid_input",
            "the fields of a `schedule` are\n- `at`: One time",
        ),
        (with("subagent", json!("ghost")), "unknown_subagent", "there are editor"),
        (with("tasc", json!("x")), "invalid_input", "did you mean `task`?"),
        (with("allow_untrusted", json!(true)), "invalid_input", "operators only"),
        (with("name", json!("heartbeat")), "name_reserved", "heartbeat"),
    ];
    for (form, code, part) in cases {
        let answer = teams.call_as("main", "create_trigger", form).await;
        assert_eq!(answer["error"], code, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(part), "{answer}");
    }
    let none = teams.call_as("main", "list_triggers", json!({"team": "news"})).await;
    assert_eq!(none["triggers"], json!([]));
    let unknown = teams.call_as("main", "enable_trigger", named("news")).await;
    assert_eq!(unknown["error"], "not_found");
}

/// OR-39: made again after a crash it gives what it gave; another one of the name is refused.
#[actix::test]
async fn a_call_that_took_effect_before_a_crash_gives_its_trigger() {
    let teams = teams();
    let first = teams.call_as("main", "create_trigger", morning("news")).await;

    let again = teams.try_as("main", "create_trigger", morning("news"), true).await;
    let other = teams.call_as("main", "create_trigger", morning("news")).await;

    assert_eq!(again["trigger"]["id"], first["trigger"]["id"]);
    assert_eq!(other["error"], "name_taken");
}

/// TR-54: it asks before it disturbs.
#[actix::test]
async fn a_test_beside_an_unfinished_task_asks_first() {
    let teams = teams();
    let mut form = morning("news");
    form["config"] = json!({"cron": "* * * * *"});
    teams.call_as("main", "create_trigger", form).await;
    teams.stage.until("2025-06-02T12:01").await;

    let asked = teams.call_as("main", "test_trigger", named("news")).await;
    let mut allowed = named("news");
    allowed["overlap_policy"] = json!("allow");
    let allowed = teams.call_as("main", "test_trigger", allowed).await;

    assert_eq!(
        (&asked["enqueued"], &asked["requires_confirmation"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(allowed["enqueued"], true, "{allowed}");
}

/// TR-45, TO-45: turns of triggers have it, whatever their team is allowed.
#[actix::test]
async fn a_report_is_taken_beside_the_teams_own_tools() {
    let bench = Bench::with(crate::tools::all(), &["read"]);
    let names = |tools: &Arc<dyn Toolset>| -> Vec<String> {
        tools.specs().iter().map(|spec| spec.name.clone()).collect()
    };
    let tools = with_report(bench.tools.clone());

    assert_eq!(names(&bench.tools), ["read"]);
    assert_eq!(names(&tools), ["read", "report_run"]);
    let report = call("report_run", json!({"notify": false, "outcome": "noop"}));
    assert!(tools.check(&report, &caller(), Label::Trusted).is_ok());
    assert_eq!(tools.run(report, context()).await.fault, None);
    bench.put("a.txt", "words");
    let read = tools.run(call("read", json!({"file_path": "a.txt"})), context()).await;
    assert!(read.content.contains("words"));
}

/// OR-19
#[actix::test]
async fn the_group_holds_all_but_the_report() {
    let filter = ToolFilter::parse(&["@triggers"], REGISTRY).unwrap();

    let toolbox = Toolbox::default().with(made(&admin()));
    let names = toolbox.abouts().map(|about| about.name).chain([REPORT_RUN]);
    let outside: Vec<_> = names.filter(|name| !filter.allows(name)).collect();

    assert_eq!(outside, [REPORT_RUN]);
}

/// MV-14, OR-40: a run that is tried is believed as far as the turn that tries it.
#[actix::test]
async fn a_tried_run_carries_on_the_turn_that_tries_it() {
    let teams = teams();
    teams.call_as("main", "create_trigger", morning("news")).await;
    let cx = CallContext { label: Label::Untrusted, ..context() };

    let tested = teams.run_as("main", "test_trigger", named("news"), cx).await;

    let id = TaskId::from(tested["task_id"].as_str().unwrap());
    let task = teams.stage.task(&id);
    assert_eq!(task.label, Label::Untrusted);
    assert_eq!(task.lineage.unwrap().parent().map(TaskId::as_str), Some("task-1"));
}

/// PL-70, SC-39: what a stranger wrote reaches a team with secrets only through the operator, also as a
/// sample. A team that tries its own triggers has those secrets anyway.
#[actix::test]
async fn an_untrusted_turn_asks_before_it_tries_a_trigger_of_a_team_with_secrets() {
    let vault = doubles::Bench::new();
    for team in ["rich", "team"] {
        let (scope, put) = (doubles::team(team), Put::secret("canary-value-1"));
        let set = vault.vault.set(&scope, "TOKEN", put, &doubles::operator()).await;
        set.unwrap();
    }
    let toolbox = crate::tools::all().with(made(&admin()));
    let bench = Bench::with_vault(toolbox, &["@triggers"], vault.vault.clone());
    let verdict = |team: &str, label| {
        let call = call("test_trigger", named(team));
        bench.tools.check(&call, &caller(), label).unwrap().verdict
    };

    let asks = |team, label| matches!(verdict(team, label), Verdict::Ask(_));

    assert!(asks("rich", Label::Untrusted));
    assert!(!asks("rich", Label::Trusted));
    assert!(!asks("poor", Label::Untrusted));
    assert!(!asks("team", Label::Untrusted));
}
