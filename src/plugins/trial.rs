//! Trial run of a plugin: started alone in a scratch home, as for a team, with no service.
//!
//! It has the sandbox, the start and the wire of a service, and a vault of its own, so that what holds here holds there.

use std::{
    collections::BTreeMap,
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use actix::Arbiter;
use hivewright_actors::{
    blocking,
    clock::millis,
    hook::{HookEvent, HookMode},
    ids::{Ids, TeamKey, TeamName},
    live::Publisher,
    plugin::{Unavailable, lifecycle::Status},
    store::{Store, StoreParts},
};
use rmcp::model::ErrorCode;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    capabilities::word,
    catalogue::{Catalogue, Loaded},
    instance::{
        Grounds, Instances, TeamPlugin,
        channel::ChannelGrounds,
        child::Child,
        wire::{CallMeta, Decision, Fire, RequestError},
    },
    manifest::{Hook, MANIFEST},
    package::Package,
    schema::Mismatch,
};
use crate::{
    files::FileStore,
    mcp::arguments,
    removal::TemporaryFolder,
    sandbox::{
        egress::Guard,
        process::{Sandbox, SandboxSettings},
    },
    settings::{
        config::Durability,
        home::{Flags, Home},
        live::Live,
        plugins::{PluginSwitch, Plugins},
        references::Environment,
        scaffold,
    },
    storage,
    system::{Randomness, WallClock},
    vault::{Vault, audit::Actor as By, master::KeyFiles, scrubbers::Scrubbers},
};

/// How long a child has to say that it is there.
const PONG: Duration = Duration::from_secs(10);

pub struct Trial {
    pub package: Package,
    /// What a team would set, secrets in the clear.
    pub config: Value,
    /// Calls to be made, by tool and arguments.
    pub calls: Vec<(String, Value)>,
    /// The program that confines others: this one.
    pub launcher: PathBuf,
}

/// What came of it.
#[derive(Debug, Default, Serialize)]
pub struct Findings {
    pub tools: Vec<TriedTool>,
    pub hooks: Vec<TriedHook>,
    pub calls: Vec<TriedCall>,
    pub problems: Vec<Problem>,
}

/// A tool that teams would have.
#[derive(Debug, Serialize)]
pub struct TriedTool {
    pub key: String,
    pub effect: &'static str,
    pub description: String,
}

/// A hook, and what it said when it was asked for a try; nothing if it only listens.
#[derive(Debug, Serialize)]
pub struct TriedHook {
    pub event: HookEvent,
    pub tools: Vec<String>,
    pub said: String,
}

/// A call, and what it answered.
#[derive(Debug, Serialize)]
pub struct TriedCall {
    pub tool: String,
    pub answer: String,
}

/// Something that is wrong with a plugin.
#[derive(Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{file}: {field}: {reason}")]
pub struct Problem {
    pub file: String,
    /// A field of the file, or a message of the protocol.
    pub field: String,
    pub reason: String,
}

/// Nothing could be tried: the machine is at fault.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct TrialError {
    what: &'static str,
    source: Box<dyn Error + Send + Sync>,
}

fn machine<E: Into<Box<dyn Error + Send + Sync>>>(
    what: &'static str,
) -> impl FnOnce(E) -> TrialError {
    move |error| TrialError { what, source: error.into() }
}

impl Trial {
    /// Tries the plugin. Nothing of it is left when this returns. Needs a system of actors.
    pub async fn run(self) -> Result<Findings, TrialError> {
        let scratch = TemporaryFolder::new("trial");
        let scratch = scratch.map_err(machine("no scratch folder can be used"))?;
        let (catalogue, team) = (Catalogue::default(), TeamKey::first(TeamName::from("main")));
        let instances = open(scratch.path(), &catalogue, self.launcher.clone()).await?;
        let package = Arc::new(self.package);
        let key = package.manifest.key.clone();
        catalogue.set(Loaded {
            packages: BTreeMap::from([(key.clone(), Arc::clone(&package))]),
            ..Loaded::default()
        });
        let mut findings = Findings::default();
        match instances.received(&team, &package, &self.config, &By::System).await {
            Ok(config) => {
                let switch = PluginSwitch { enabled: true, config };
                let wanted = Plugins(BTreeMap::from([(key.to_string(), switch)]));
                for (plugin, package) in instances.settle(&team, &wanted).plugins {
                    findings.look(&plugin, &package, &self.calls).await;
                }
            }
            Err(wrong) => {
                findings.problems.extend(wrong.into_iter().map(|Mismatch { pointer, message }| {
                    Problem {
                        file: "its settings".to_owned(),
                        field: format!("`{pointer}`"),
                        reason: message,
                    }
                }))
            }
        }
        instances.end().await;
        Ok(findings)
    }
}

impl Findings {
    fn wrong(&mut self, file: &str, field: impl Into<String>, reason: impl ToString) {
        let (file, reason) = (file.to_owned(), reason.to_string());
        self.problems.push(Problem { file, field: field.into(), reason });
    }

    /// Starts it, and tries all that it says it has.
    async fn look(
        &mut self,
        plugin: &Arc<TeamPlugin>,
        package: &Package,
        calls: &[(String, Value)],
    ) {
        let run = &package.manifest.run;
        let program = run.entry.as_ref().or(run.command.as_ref()).map_or(MANIFEST, String::as_str);
        let started = loop {
            match plugin.lease().await {
                // It may take longer than a call would wait for it.
                Err(_) if plugin.row().status == Status::Starting => {}
                started => break started,
            }
        };
        let lease = match started {
            Ok(lease) => lease,
            Err(Unavailable { reason }) => return self.wrong(program, "start", reason),
        };
        if let Err(error) = lease.child.ping(PONG).await {
            self.wrong(program, "ping", error);
        }
        self.list(plugin, package, program);
        for (place, hook) in package.manifest.hooks().iter().enumerate() {
            self.fire(&lease.child, package, place, hook).await;
        }
        for (tool, args) in calls {
            self.call(plugin, &lease.child, tool, args).await;
        }
    }

    /// Which tools there are, and whether the manifest speaks of the same.
    fn list(&mut self, plugin: &TeamPlugin, package: &Package, program: &str) {
        let Some(declared) = &package.manifest.tools else { return };
        let offered = plugin.offers().unwrap_or_default();
        for left_out in &offered.left_out {
            self.wrong(program, "tools/list", left_out);
        }
        if offered.tools.is_empty() {
            self.wrong(MANIFEST, "tools", "the plugin lists no tool that can be used");
        }
        for name in declared.effects.keys() {
            if !offered.tools.iter().any(|tool| tool.name == *name) {
                let field = format!("tools.effects.{name}");
                self.wrong(MANIFEST, field, "the plugin lists no such tool");
            }
        }
        self.tools.extend(offered.tools.iter().map(|tool| TriedTool {
            key: format!("{}.{}", declared.namespace, tool.name),
            effect: word(declared.effect(&tool.name)).unwrap_or("irreversible"),
            description: tool.description.clone(),
        }));
    }

    /// Asks a hook about something that nobody does. What it decides is its business; that it can is what counts.
    async fn fire(&mut self, child: &Child, package: &Package, place: usize, hook: &Hook) {
        let Hook { event, tools, .. } = hook;
        let said =
            |said: &str| TriedHook { event: *event, tools: tools.clone(), said: said.to_owned() };
        let payload = match event.mode() {
            HookMode::Listener => return self.hooks.push(said("")),
            HookMode::Veto => json!({
                "team": "main", "session": "main", "turn": "trial", "call_id": "trial", "label": "trusted",
                "tool": tools.first().map_or("read", String::as_str), "args": {},
            }),
            HookMode::Transform => {
                json!({"team": "main", "channel": "trial", "sender": null, "text": "Hello"})
            }
        };
        let limits = &package.manifest.limits;
        let limit = hook.timeout.as_ref().unwrap_or(&limits.hook_timeout).0;
        let deadline_ms = millis(limit);
        let fire = Fire { event: *event, call_id: Some("trial"), payload, deadline_ms };
        match child.fire(&fire, limit).await {
            Ok(Decision::Pass) => self.hooks.push(said("pass")),
            Ok(Decision::Deny { .. }) => self.hooks.push(said("deny")),
            Ok(Decision::Rewrite { .. }) => self.hooks.push(said("rewrite")),
            // It knows the message, and had no use for arguments that no tool has.
            Err(RequestError::Refused { code, message, .. })
                if code != ErrorCode::METHOD_NOT_FOUND.0 =>
            {
                self.hooks.push(said(&format!("an error: {message}")));
            }
            Err(error) => {
                let field = format!("hooks.on[{place}]");
                self.wrong(MANIFEST, field, format!("asked about `{event}`: {error}"));
            }
        }
    }

    async fn call(&mut self, plugin: &TeamPlugin, child: &Child, tool: &str, args: &Value) {
        let offered = plugin.offers().unwrap_or_default();
        let Some(definition) = offered.tools.iter().find(|known| known.name == tool) else {
            return self.wrong("--call", tool, "the plugin lists no such tool");
        };
        if let Some(problem) = arguments::problem(&definition.schema, args) {
            return self.wrong("--call", tool, format!("invalid arguments: {problem}"));
        }
        let limit = plugin.package().map_or(PONG, |package| package.manifest.limits.call_timeout.0);
        let deadline_ms = millis(limit);
        let meta =
            CallMeta { call_id: "trial", idempotency_key: "trial", turn: "trial", deadline_ms };
        let called = tokio::time::timeout(limit, child.call(tool, args, &meta)).await;
        match called.unwrap_or(Err(RequestError::Timeout)) {
            Ok(answer) if !answer.failed => {
                self.calls.push(TriedCall { tool: tool.to_owned(), answer: answer.text });
            }
            Ok(answer) => self.wrong("--call", tool, answer.text),
            Err(error) => self.wrong("--call", tool, error),
        }
    }
}

/// Plugins in a home where nothing else is. Needs a system of actors.
pub async fn open(
    home: &Path,
    catalogue: &Catalogue,
    launcher: PathBuf,
) -> Result<Instances, TrialError> {
    let (environment, flags) =
        (Environment::fixed([]), Flags { home: Some(home.to_owned()), ..Flags::default() });
    let home = Home::new(&flags, &environment).map_err(machine("no scratch folder can be used"))?;
    let (here, secrets) = (home.clone(), KeyFiles::new(&home.secrets(), &environment));
    let opened = blocking::run(move || {
        here.prepare().map_err(machine("no scratch folder can be used"))?;
        scaffold::ensure_main(&here).map_err(machine("no scratch folder can be used"))?;
        let layout = storage::Home::new(here.data(), here.run());
        storage::open::open(&layout, Durability::Process, &storage::unwatched)
            .map(Arc::new)
            .map_err(machine("no scratch store can be opened"))
    });
    let storage = opened.await.map_err(machine("no thread can be started"))??;
    let stored = storage.clone();
    let vault = blocking::run(move || Vault::open(&*stored, secrets.read(), Arc::new(WallClock)));
    let vault = vault.await.map_err(machine("no thread can be started"))?;
    let vault = vault.map_err(machine("no scratch vault can be opened"))?;
    let redaction = Some(vault.redaction(&[]));
    let parts = StoreParts { redaction, ..StoreParts::of(storage.clone()) };
    let store = Store::start(&Arbiter::new().handle(), parts);
    let vault = vault.with_store(store.clone());
    let sandbox = Sandbox::new(SandboxSettings {
        launcher,
        memory: 1 << 30,
        scratch: home.run().join("scratch"),
        private: vec![home.store(), home.secrets()],
    });
    let (settings, ids) = (Live::new(home.clone(), environment), Ids::new(Arc::new(Randomness)));
    let (folder, stored) = (home.run().join("files"), storage.clone());
    let (written, numbers, live) = (store.clone(), ids.clone(), settings.clone());
    let files = blocking::run(move || {
        FileStore::open(folder, &*stored, written, Arc::new(WallClock), numbers, live)
    });
    let files = files.await.map_err(machine("no thread can be started"))?;
    let files = files.map_err(machine("no scratch folder can be used"))?;
    let grounds = Grounds {
        catalogue: catalogue.clone(),
        sandbox: Arc::new(sandbox.await),
        guard: Guard::default(),
        scrubbers: Arc::new(Scrubbers::new(vault.clone(), [])),
        vault,
        settings,
        home,
        store,
        ids,
        live: Publisher::new(1, Arc::new(WallClock)),
        channels: ChannelGrounds::unconnected(files),
    };
    Instances::open(&*storage, grounds).map_err(machine("no scratch store can be read"))
}
