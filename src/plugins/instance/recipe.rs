//! Recipe of an instance: how a child of it is started, from a package and the settings of a team.
//!
//! Settings are read, secrets put in, the whole checked; then the program runs in the sandbox, says who it is, is told
//! its settings, and says which tools it has. Whatever fails on the way ends the child.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use hivewright_actors::{
    blocking,
    clock::millis,
    plugin::{Begun, InstanceStatus, PluginPort, StartFault},
};
use rmcp::{Peer, RoleClient, model::ServerNotification, transport::async_rw::AsyncRwTransport};
use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::{io::AsyncWriteExt, sync::Notify};

use super::{
    TeamPlugin,
    channel::webhook,
    child::{self, Child, Running},
    config,
    errors::Lines,
    inbound::{self, Inbound},
    life::Spawned,
    offers,
    wire::{self, RequestError},
};
use crate::{
    mcp::{fault::Faults, flood::Guarded, lines::Bounded, opening},
    plugins::{
        builtin, host,
        loading::find_program,
        manifest::{Protocol, RunKind},
        package::Package,
        schema::listed,
    },
    sandbox::process::{
        self, SandboxError, plan::Executable, plugin::PluginJob, server::ServerProcess,
    },
    settings::network::HostPattern,
    vault::expand::wipe,
};

/// The longest line of a plugin, in bytes.
const LONGEST_LINE: usize = 8 << 20;
/// What the host of scripts takes beside their engine, in bytes.
const SCRIPT_HOST: u64 = 128 << 20;
/// How long a program that failed has to say why.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Variables of ours that every plugin gets, if we have them.
const USUAL_ENV: &str = "TZ";

/// What children of an instance are made from.
pub struct Recipe {
    pub(super) plugin: Arc<TeamPlugin>,
    pub(super) package: Arc<Package>,
    /// References in their one form.
    pub(super) config: Value,
}

fn for_good(reason: impl ToString) -> StartFault {
    StartFault { reason: reason.to_string(), for_good: true }
}

fn for_now(reason: impl ToString) -> StartFault {
    StartFault { reason: reason.to_string(), for_good: false }
}

impl PluginPort for Recipe {
    type Child = Child;

    fn start(&self) -> BoxFuture<'static, Result<Begun<Child>, StartFault>> {
        let (plugin, package) = (Arc::clone(&self.plugin), Arc::clone(&self.package));
        let config = self.config.clone();
        Box::pin(async move {
            let lines = lines_of(&plugin);
            let started = in_time(&package, start(&plugin, &package, config, &lines)).await;
            started.map_err(|fault| {
                let reason =
                    if fault.for_good { fault.reason } else { lines.with_last(fault.reason) };
                StartFault { reason: plugin.scrub(&reason), for_good: fault.for_good }
            })
        })
    }

    fn stands(&self, now: &InstanceStatus) {
        self.plugin.stands(now);
    }

    fn gave_up(&self, reason: &str) {
        self.plugin.gave_up(reason);
    }
}

/// Starts a child for the setup wizard: it is told no settings, and carries no messages.
pub(super) async fn start_setup(
    plugin: &Arc<TeamPlugin>,
    package: &Arc<Package>,
) -> Result<(Child, Lines), StartFault> {
    let lines = lines_of(plugin);
    let starting = async {
        let hosts = inbound::hosts(package, &Value::Null);
        let Launched { running, faults } = launch(plugin, package, hosts, true, &lines).await?;
        Ok((Child::new(running, faults, Arc::clone(plugin), true), lines.clone()))
    };
    let started = in_time(package, starting).await;
    started.map_err(|fault| StartFault { reason: lines.with_last(fault.reason), ..fault })
}

fn lines_of(plugin: &TeamPlugin) -> Lines {
    Lines::new(&plugin.team, &plugin.key, Arc::clone(&plugin.grounds.scrubbers))
}

async fn in_time<T>(
    package: &Package,
    starting: impl Future<Output = Result<T, StartFault>>,
) -> Result<T, StartFault> {
    let started = tokio::time::timeout(package.manifest.limits.start_timeout.0, starting).await;
    started.unwrap_or_else(|_| Err(for_now("it did not start in time")))
}

async fn start(
    plugin: &Arc<TeamPlugin>,
    package: &Arc<Package>,
    written: Value,
    lines: &Lines,
) -> Result<Begun<Child>, StartFault> {
    let manifest = &package.manifest;
    let grounds = &plugin.grounds;
    let mut config =
        config::expanded(&grounds.vault, &plugin.team, &plugin.key, &package.schema, &written)
            .await
            .map_err(|wrong| for_good(format!("config_invalid: {}", listed(&wrong))))?;
    if let Some(webhook) = manifest.channel.as_ref().and_then(|it| it.webhook.as_ref()) {
        webhook::check_secret(webhook, &config, &written).map_err(for_good)?;
    }
    let hosts = inbound::hosts(package, &config);
    let Launched { mut running, faults } = launch(plugin, package, hosts, false, lines).await?;
    let peer = running.service.peer().clone();
    let introducing = introduce(&peer, plugin, package, &mut config);
    let introduced = tokio::select! {
        introduced = introducing => introduced,
        fault = faults.heard() => Err(for_now(fault)),
    };
    wipe(&mut config);
    let exclusive = match introduced {
        Ok(exclusive) => exclusive,
        Err(fault) if peer.is_transport_closed() && !fault.for_good => {
            // How it ended says more than that it did.
            let why = tokio::time::timeout(LAST_WORDS, running.life.ended()).await;
            return Err(for_now(why.ok().flatten().unwrap_or(fault.reason)));
        }
        Err(fault) => return Err(fault),
    };
    let is_ours = manifest.run.protocol == Protocol::Hivewright;
    let child = Child::new(running, faults, Arc::clone(plugin), is_ours);
    Ok(Begun { child, exclusive })
}

/// A program that runs and has said who it is.
struct Launched {
    running: Running,
    faults: Faults,
}

async fn launch(
    plugin: &Arc<TeamPlugin>,
    package: &Arc<Package>,
    hosts: Vec<HostPattern>,
    sets_up: bool,
    lines: &Lines,
) -> Result<Launched, StartFault> {
    let looking = Arc::clone(package);
    let verified = blocking::run(move || looking.verify()).await.map_err(for_now)?;
    verified.map_err(for_good)?;
    let (faults, changed) = (Faults::default(), Arc::new(Notify::new()));
    let Spawned { output, input, mut life, excess } = spawn(plugin, package, lines).await?;
    let transport = AsyncRwTransport::<RoleClient, _, _>::new(
        Bounded::new(output, faults.clone(), LONGEST_LINE),
        input,
    )
    .with_max_line_length(LONGEST_LINE);
    let inbound = Inbound {
        plugin: Arc::clone(plugin),
        hosts,
        changed: Arc::clone(&changed),
        lines: lines.clone(),
        sets_up,
    };
    let guarded = Guarded::new(transport, faults.clone(), passes);
    let service = match opening::shake(inbound, guarded, &faults).await {
        Ok(service) => service,
        Err(reason) => {
            let why = tokio::time::timeout(LAST_WORDS, life.ended()).await;
            return Err(for_now(why.ok().flatten().unwrap_or(reason)));
        }
    };
    let running = Running { service, life, excess, changed, lines: lines.clone() };
    Ok(Launched { running, faults })
}

/// Says to a child what it must know, and hears what it offers. Returns whether there may be only one.
async fn introduce(
    peer: &Peer<RoleClient>,
    plugin: &Arc<TeamPlugin>,
    package: &Package,
    config: &mut Value,
) -> Result<bool, StartFault> {
    let limit = package.manifest.limits.start_timeout.0;
    let mut exclusive = false;
    if package.manifest.run.protocol == Protocol::Hivewright {
        let hello = peer.peer_info().and_then(|info| {
            let extension = info.capabilities.experimental.as_ref()?.get(wire::EXTENSION)?.clone();
            serde_json::from_value::<wire::HelloBack>(Value::Object(extension)).ok()
        });
        let wire::HelloBack { provides, exclusive: alone } = hello.unwrap_or_default();
        exclusive = alone;
        if provides.iter().any(|it| it == "config") {
            let asked = wire::Config { config: config.clone() };
            let parsed = child::request(peer, wire::CONFIG_PARSE, &asked, limit).await;
            *config = parsed.map(|wire::Config { config }| config).map_err(refused)?;
        }
        let has_webhook =
            package.manifest.channel.as_ref().is_some_and(|channel| channel.webhook.is_some());
        let start = wire::Start {
            config: config.clone(),
            state: plugin.all_kept(),
            public_url: has_webhook.then(|| plugin.webhook_url()),
        };
        child::request::<IgnoredAny>(peer, wire::PLUGIN_START, &start, limit)
            .await
            .map_err(refused)?;
    }
    if let Some(tools) = offers::tools(peer, plugin).await? {
        plugin.learn(tools);
    }
    Ok(exclusive)
}

/// What goes on of what a plugin says without being asked.
fn passes(sent: &ServerNotification) -> bool {
    match sent {
        ServerNotification::ToolListChangedNotification(_)
        | ServerNotification::CancelledNotification(_)
        | ServerNotification::LoggingMessageNotification(_) => true,
        ServerNotification::CustomNotification(told) => {
            [wire::PLUGIN_ERROR, wire::PLUGIN_STATE].contains(&told.method.as_str())
        }
        _ => false,
    }
}

/// Starts the program, or the task of a builtin.
async fn spawn(
    plugin: &TeamPlugin,
    package: &Arc<Package>,
    lines: &Lines,
) -> Result<Spawned, StartFault> {
    let manifest = &package.manifest;
    let process = match manifest.run.kind {
        RunKind::Process => spawn_program(plugin, package).await?,
        RunKind::Js => spawn_script(plugin, package).await?,
        RunKind::Builtin => {
            let make = builtin::find(manifest.key.as_str());
            let make = make.ok_or_else(|| for_good("this program has no code of it"))?;
            return Ok(Spawned::task(make()));
        }
    };
    Ok(Spawned::process(process, lines))
}

async fn spawn_program(
    plugin: &TeamPlugin,
    package: &Package,
) -> Result<ServerProcess, StartFault> {
    let manifest = &package.manifest;
    let (grounds, run) = (&plugin.grounds, &manifest.run);
    let unusable = || for_good("there is nothing of it that could be run");
    let (Some(folder), Some(command)) = (package.files.folder(), &run.command) else {
        return Err(unusable());
    };
    let command = if command.contains('/') {
        folder.join(command)
    } else {
        find_program(command).ok_or_else(unusable)?
    };
    let mut shown = vec![folder.to_owned()];
    shown.extend(readable(plugin, package)?);
    let program = Executable { command, args: run.args.clone(), shown };
    let wanted = run.env_allow.iter().map(String::as_str).chain([USUAL_ENV]);
    let env: BTreeMap<String, String> =
        wanted.filter_map(|name| Some((name.to_owned(), std::env::var(name).ok()?))).collect();
    let job = PluginJob {
        program,
        folder: folder.to_owned(),
        data: plugin.data(),
        env,
        memory: manifest.memory().0,
        processes: manifest.processes().into(),
    };
    grounds.sandbox.plug(job).await.map_err(|error| match error {
        SandboxError::Start(cause) => for_now(format!("it cannot be started: {cause}")),
        error => for_now(error),
    })
}

/// Starts the host of a plugin in JavaScript. It sees no file: its sources are the first that it is told.
async fn spawn_script(
    plugin: &TeamPlugin,
    package: &Arc<Package>,
) -> Result<ServerProcess, StartFault> {
    let manifest = &package.manifest;
    let entry = manifest.run.entry.clone().ok_or_else(|| for_good("it has no `run.entry`"))?;
    let reading = Arc::clone(package);
    let sources = blocking::run(move || reading.sources()).await.map_err(for_now)?;
    let memory = manifest.memory().0;
    let call_timeout = manifest.limits.call_timeout.0;
    let opening = host::wire::Opening::Plugin(host::wire::PluginOpening {
        key: manifest.key.to_string(),
        version: manifest.version.to_string(),
        entry,
        sources: sources.map_err(for_good)?,
        memory: usize::try_from(memory).unwrap_or(usize::MAX),
        call_timeout_ms: millis(call_timeout),
    });
    let mut line = serde_json::to_vec(&opening).map_err(for_good)?;
    line.push(b'\n');
    let started = plugin.grounds.sandbox.start_script_host(memory + SCRIPT_HOST).await;
    let process::agent::Launched { mut streams, errors, life } = started.map_err(for_now)?;
    streams.write_all(&line).await.map_err(for_now)?;
    // It writes no file.
    Ok(ServerProcess { streams, errors, life, excess: Box::pin(std::future::pending()) })
}

/// What it sees besides its own folder: nothing of ours.
fn readable(plugin: &TeamPlugin, package: &Package) -> Result<Vec<PathBuf>, StartFault> {
    let home = &plugin.grounds.home;
    let read = package.manifest.sandbox.read.iter();
    let read = read.filter_map(|path| path.canonicalize().ok());
    let ours = [home.data(), home.run()].map(|path| path.canonicalize().unwrap_or(path.to_owned()));
    read.map(|path| {
        let overlaps = ours.iter().any(|own| own.starts_with(&path) || path.starts_with(own));
        if overlaps {
            let shown = path.display();
            return Err(for_good(format!(
                "`sandbox.read`: {shown} overlaps the folders of the service"
            )));
        }
        Ok(path)
    })
    .collect()
}

fn refused(error: RequestError) -> StartFault {
    match error {
        RequestError::Refused { code: wire::CONFIG_REFUSED, message, data } => {
            let found = data.as_ref().map(|data| data["errors"].to_string());
            for_good(format!("it refuses its settings: {message} {}", found.unwrap_or_default()))
        }
        RequestError::Refused { message, .. } => for_now(format!("it refuses to start: {message}")),
        error => for_now(error),
    }
}
