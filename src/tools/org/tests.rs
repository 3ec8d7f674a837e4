//! The tools over a real organisation, with a queue that keeps what it is given.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use actix::{Actor as _, Addr, Arbiter};
use futures_util::future::BoxFuture;
use hivewright_actors::{
    budget::Spent,
    channel::Channel,
    clock::{Clock, Timestamp},
    doubles::{clock::ManualClock, disk::MemoryStorage},
    ids::{Ids, TaskId, TeamKey, TeamName},
    org::{self, Org, record::TeamState, tree::By, view::OrgView, work::Work},
    queue::{
        refusal::Refusal,
        submit::{OpenTask, Submission, Submit},
    },
    store::{
        Store, StoreHandle, StoreParts,
        keys::key_of,
        records::{Alongside, Writes},
    },
    task::{
        Kind, Label, Lane, Source, Task, TaskState, TopicRef,
        outcome::{Code, Ending, Outcome},
        records::FinishedTask,
    },
    tool::{Args as CallArgs, CallContext, Caller, Checked, Stow, ToolCall, ToolReply, Toolset},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    plugins::catalogue::Catalogue,
    policy::Policies,
    sandbox::{
        process::{Sandbox, SandboxSettings, layers::Layers},
        workspace::Workspace,
    },
    settings::{
        live::Live,
        scaffold,
        team::Team,
        tests::{Place, place},
    },
    system::Randomness,
    taint::Taint,
    teams::{
        credentials::Credentials,
        folders::TeamFolders,
        service::{Parts, TeamService},
    },
    tools::{REGISTRY, filter::ToolFilter, grant::Grant, toolbox::Toolbox},
    vault::{
        Vault,
        audit::Actor,
        error::{Locked, VaultError},
        escrow::{Origin, check_given},
        scrubbers::Scrubbers,
    },
};

mod asking;
mod controlling;
mod giving;
mod looking;
mod making;
mod reading;
mod telling;

/// A queue that stores what it is given, and ends what it is told to.
struct Kept {
    store: StoreHandle,
    given: Mutex<Vec<Submit>>,
    /// Says this instead of storing.
    says: Mutex<Option<Result<Submission, Refusal>>>,
    /// How questions to a team end.
    ends: Mutex<HashMap<TeamName, Outcome>>,
    /// How far the turns that answer them may be believed.
    label: Mutex<Label>,
    open: Mutex<Vec<OpenTask>>,
    cancelled: Mutex<Vec<TaskId>>,
    told: Mutex<Vec<Lane>>,
    dismissed: Mutex<Vec<TeamName>>,
    /// The work of teams never ends.
    endless: Mutex<bool>,
}

impl Work for Kept {
    fn submit(&self, submit: Submit) -> BoxFuture<'static, Result<Submission, Refusal>> {
        if let Some(said) = self.says.lock().unwrap().clone() {
            return Box::pin(std::future::ready(said));
        }
        let committed = self.store.commit(submit.writes.clone().put(&submit.task));
        self.given.lock().unwrap().push(submit);
        Box::pin(async move {
            committed.await.unwrap();
            let in_flight = Vec::new();
            Ok(Submission::Enqueued { in_flight })
        })
    }

    fn wait(&self, task: TaskId, _: Option<Lane>) -> BoxFuture<'static, Option<Outcome>> {
        let given = self.given.lock().unwrap();
        let given = given.iter().find(|given| given.task.id == task);
        let ends = self.ends.lock().unwrap();
        let ended = given.and_then(|Submit { task, .. }| {
            let outcome = ends.get(&task.lane.team)?.clone();
            let task = Task {
                label: *self.label.lock().unwrap(),
                outcome: Some(outcome.clone()),
                ..task.clone()
            };
            Some((self.store.commit(Writes::new().put(&FinishedTask::of(&task))), outcome))
        });
        match ended {
            Some((committed, outcome)) => Box::pin(async move {
                committed.await.unwrap();
                Some(outcome)
            }),
            None => Box::pin(std::future::pending()),
        }
    }

    fn cancel(&self, task: TaskId, _: String) -> BoxFuture<'static, bool> {
        self.cancelled.lock().unwrap().push(task);
        Box::pin(std::future::ready(true))
    }

    fn cancel_soon(&self, task: TaskId, _: String) {
        self.cancelled.lock().unwrap().push(task);
    }

    fn cancel_team(&self, _: TeamName, _: String) -> BoxFuture<'static, usize> {
        if *self.endless.lock().unwrap() {
            Box::pin(std::future::pending())
        } else {
            Box::pin(std::future::ready(2))
        }
    }

    fn open(&self, team: Option<TeamName>) -> BoxFuture<'static, Vec<OpenTask>> {
        let open = self.open.lock().unwrap();
        let meant = open
            .iter()
            .filter(|task| team.as_ref().is_none_or(|team| task.team == *team))
            .cloned()
            .collect();
        Box::pin(std::future::ready(meant))
    }

    fn set_state(&self, _: &TeamName, _: TeamState) {}

    fn dismiss(&self, team: &TeamName) {
        self.dismissed.lock().unwrap().push(team.clone());
    }

    fn retry(&self, _: &TeamName) {}

    fn told(&self, lane: Lane, _: u32) {
        self.told.lock().unwrap().push(lane);
    }
}

/// A vault whose cipher turns a text around.
#[derive(Clone)]
struct Mirror {
    aside: Arc<Mutex<BTreeMap<String, BTreeMap<String, String>>>>,
    locked: bool,
}

impl Credentials for Mirror {
    fn check(&self, values: &BTreeMap<String, String>) -> Result<(), VaultError> {
        if self.locked {
            Err(VaultError::Locked(Locked("its key is gone".to_owned())))
        } else {
            check_given(values)
        }
    }

    fn escrow(&self, of: &Origin, values: &BTreeMap<String, String>) -> Result<Stow, VaultError> {
        self.check(values)?;
        let sealed = |text: &String| text.chars().rev().collect::<String>();
        let sealed: BTreeMap<String, String> =
            values.iter().map(|(key, value)| (key.clone(), sealed(value))).collect();
        let mut aside = self.aside.lock().unwrap();
        aside.insert(of.call.to_string(), sealed.clone());
        let name = of.call.to_string();
        Ok(Stow::new(move || {
            let alongside = Alongside {
                writes: Writes::new().put_json(key_of("edge\0aside", &name), &sealed),
                then: Box::pin(std::future::ready(())),
            };
            Box::pin(std::future::ready(Ok(alongside)))
        }))
    }

    fn hand_over(
        &self,
        of: &Origin,
        keys: Vec<String>,
        team: TeamKey,
    ) -> BoxFuture<'static, Result<Alongside, String>> {
        let name = of.call.to_string();
        let aside = self.aside.lock().unwrap().remove(&name).unwrap_or_default();
        let missing = keys.iter().find(|key| !aside.contains_key(*key));
        let handed = match missing {
            Some(key) => Err(format!("nothing was kept for {key}")),
            None => Ok(Alongside {
                writes: Writes::new()
                    .put_json(key_of("edge\0sealed", &team), &aside)
                    .drop_keys([key_of("edge\0aside", &name)]),
                then: Box::pin(std::future::ready(())),
            }),
        };
        Box::pin(std::future::ready(handed))
    }

    fn give(
        &self,
        _: BTreeMap<String, String>,
        _: TeamKey,
        _: Actor,
    ) -> BoxFuture<'static, Result<Alongside, String>> {
        Box::pin(std::future::ready(Err("tools put aside".to_owned())))
    }

    fn release(&self, of: &Origin) {
        self.aside.lock().unwrap().remove(of.call.as_str());
    }
}

/// Somebody who may do anything to teams.
fn operator() -> By {
    By::Operator("ann".to_owned())
}

struct Bench {
    place: Place,
    storage: Arc<MemoryStorage>,
    store: StoreHandle,
    org: Addr<Org>,
    view: OrgView,
    work: Arc<Kept>,
    clock: Arc<ManualClock>,
    team_service: TeamService,
    toolbox: Toolbox,
    sandbox: Arc<Sandbox>,
    mirror: Mirror,
    rules: Policies,
    vault: Vault,
}

/// main ─ scouts ─ guides, and main ─ smiths.
async fn bench() -> Bench {
    let bench = Bench::new(false);
    for (name, parent) in [("scouts", "main"), ("guides", "scouts"), ("smiths", "main")] {
        bench.make(name, parent).await;
    }
    bench
}

impl Bench {
    fn new(locked: bool) -> Self {
        let place = place();
        scaffold::ensure_main(&place.home).unwrap();
        let storage = Arc::new(MemoryStorage::default());
        let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
        let work = Arc::new(Kept {
            store: store.clone(),
            given: Mutex::default(),
            says: Mutex::default(),
            ends: Mutex::default(),
            label: Mutex::default(),
            open: Mutex::default(),
            cancelled: Mutex::default(),
            told: Mutex::default(),
            dismissed: Mutex::default(),
            endless: Mutex::default(),
        });
        let mirror = Mirror { aside: Arc::default(), locked };
        let clock = Arc::new(ManualClock::default());
        let ids = Ids::new(Arc::new(Randomness));
        let view = OrgView::default();
        let channel = Channel::new(store.clone(), clock.clone(), ids.clone()).start();
        let parts = org::Parts {
            store: store.clone(),
            work: work.clone(),
            folders: Arc::new(TeamFolders::new(place.home.clone())),
            clock: clock.clone(),
            ids: ids.clone(),
            view: view.clone(),
            channel: channel.clone().recipient(),
            belongings: Arc::new([]),
        };
        let org = Org::new(parts, Vec::new()).start();
        let team_service = TeamService::new(Parts {
            org: org.clone(),
            view: view.clone(),
            work: work.clone(),
            store: store.clone(),
            channel,
            clock: clock.clone(),
            ids,
            live: Live::new(place.home.clone(), place.environment.clone()),
            credentials: Arc::new(mirror.clone()),
            roster: Arc::new(|_| vec!["miner".to_owned(), "welder".to_owned()]),
            plugins: Catalogue::default(),
            spent: Arc::new(|_| Spent { usd: 1.5, tokens: 10 }),
            keyed: tokio::sync::Mutex::default(),
        });
        let sandbox = Sandbox::with_layers(
            SandboxSettings {
                launcher: PathBuf::from("/nonexistent"),
                memory: 1 << 30,
                scratch: place.home.run().join("scratch"),
                private: Vec::new(),
            },
            Layers { landlock: 6, seccomp: true, namespaces: true },
        );
        let toolbox = Toolbox::default();
        let made = super::made(&team_service, &toolbox.limits(), REGISTRY);
        Self {
            toolbox: toolbox.with(made),
            team_service,
            sandbox: Arc::new(sandbox),
            place,
            storage,
            store,
            org,
            view,
            work,
            clock,
            mirror,
            rules: Policies::default(),
            vault: Vault::absent(),
        }
    }

    /// A team that is there from the start.
    async fn make(&self, name: &str, parent: &str) {
        let args = json!({"name": name, "scope_accepts": [name]});
        let made = self.call(parent, "spawn_team", args).await;
        assert_eq!(made["success"], true, "{made}");
        self.work.given.lock().unwrap().clear();
    }

    fn tools(&self, team: &str) -> Arc<dyn Toolset> {
        let workspace = Workspace::open(&self.place.home.team(team), &[]).unwrap();
        let grant = Grant {
            team: team.into(),
            workspace: Arc::new(workspace),
            allowed: ToolFilter::parse(&["@org"], REGISTRY).unwrap(),
            sandbox: self.sandbox.clone(),
            secrets: Arc::new(Scrubbers::new(self.vault.clone(), [])),
            rules: self.rules.clone(),
            taint: Taint::default(),
            file: Arc::new(Team::new(team)),
        };
        Arc::new(self.toolbox.assemble(grant, Vec::new()))
    }

    async fn call(&self, team: &str, tool: &str, args: Value) -> Value {
        self.call_as(self.context(team), tool, args).await
    }

    async fn call_as(&self, cx: CallContext, tool: &str, args: Value) -> Value {
        let tools = self.tools(cx.caller.team.name.as_str());
        said(&tools.run(call(tool, args), cx).await)
    }

    fn check(&self, team: &str, call: &ToolCall) -> Result<Checked, ToolReply> {
        let caller = self.context(team).caller;
        self.tools(team).check(call, &caller, Label::Trusted)
    }

    /// What is written down of a call.
    fn clean(&self, team: &str, call: &ToolCall) -> Option<Value> {
        self.tools(team).clean(call)
    }

    /// Makes the secrets of a call durable, as its turn does.
    async fn stow(&self, checked: Checked) {
        let alongside = checked.stow.unwrap().keep().await.unwrap();
        self.store.commit(alongside.writes).await.unwrap();
        alongside.then.await;
    }

    fn aside(&self) -> usize {
        self.mirror.aside.lock().unwrap().len()
    }

    /// A turn of a team, about a message in topic `t-1` of channel `ws:1`.
    fn context(&self, team: &str) -> CallContext {
        let source = Source {
            channel: "ws:1".into(),
            message: Some("m-1".into()),
            topic: Some(TopicRef { id: "t-1".into(), name: "Ore".to_owned() }),
            notify: None,
        };
        self.context_of(team, Some(source))
    }

    fn context_of(&self, team: &str, source: Option<Source>) -> CallContext {
        let lane = Lane { team: team.into(), topic: (team == "main").then(|| "t-1".into()) };
        let task = Task {
            source,
            deadline_at: self.clock.now() + std::time::Duration::from_secs(3_600),
            ..Task::new(
                "task-caller".into(),
                lane,
                "words".to_owned(),
                "ann".to_owned(),
                self.clock.now(),
            )
        };
        CallContext {
            caller: Arc::new(Caller::of(&task)),
            label: Label::Untrusted,
            turn: "turn-1".into(),
            step: 3,
            key: "key-1".to_owned(),
            rerun: false,
            approved: None,
            approved_by: None,
            approved_always: false,
            cancel: CancellationToken::new(),
        }
    }

    /// What was given to the queue last.
    fn last(&self) -> Task {
        let given = self.work.given.lock().unwrap();
        given.last().unwrap().task.clone()
    }

    fn given(&self) -> usize {
        self.work.given.lock().unwrap().len()
    }

    /// Questions to a team end so.
    fn ends(&self, team: &str, ending: Ending, text: &str) {
        let outcome = Outcome {
            code: (ending != Ending::Done).then_some(Code::Internal),
            message: (ending != Ending::Done).then(|| "it broke".to_owned()),
            text: text.to_owned(),
            ..Outcome::new(ending, self.clock.now())
        };
        self.work.ends.lock().unwrap().insert(team.into(), outcome);
    }
}

fn call(name: &str, args: Value) -> ToolCall {
    ToolCall { id: "call-1".into(), name: name.to_owned(), args: CallArgs::Json(args) }
}

/// The answer, whose form and fault go together.
fn said(reply: &ToolReply) -> Value {
    let value: Value = serde_json::from_str(&reply.content)
        .unwrap_or_else(|_| panic!("no JSON: {}", reply.content));
    assert_eq!(value["success"], reply.fault.is_none(), "{value}");
    value
}

/// The code of a refusal.
fn code(answer: &Value) -> &str {
    assert!(answer["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    answer["error"].as_str().unwrap()
}

fn busy(team: &str, kind: Kind) -> OpenTask {
    OpenTask {
        task_id: "task-busy".into(),
        team: team.into(),
        kind,
        state: TaskState::Running,
        wait_reason: None,
        age_ms: 700_000,
        stale: true,
    }
}

/// TO-18 to TO-27
#[actix::test]
async fn every_tool_of_the_organisation_has_a_class_that_rules_know() {
    crate::tools::tests::policy::are_known(&bench().await.toolbox);
}

/// SE-46
#[actix::test]
async fn every_tool_of_the_organisation_is_told_without_what_a_model_does_not_need() {
    crate::tools::tests::told::are_lean(&bench().await.tools("main").specs());
}
