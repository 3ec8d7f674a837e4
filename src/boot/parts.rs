//! How each part of the service stands, for whoever starts it.

use std::sync::Arc;

use hivewright_actors::{
    scheduler::views::{Count, Counts},
    spine::Spine,
};

use super::{http::store_bytes, storage::Context};
use crate::{
    sandbox::process::Sandbox,
    settings::{
        channels::{Channels, WebSocket},
        config::Durability,
        home::Home,
        load,
        problem::Problems,
        providers::Providers,
    },
    text::{counted, rough_size},
    vault::Vault,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: &'static str,
    /// It cannot do what it is for.
    pub is_faulty: bool,
    pub standing: String,
}

impl Part {
    fn new(name: &'static str, standing: Result<String, String>) -> Self {
        let is_faulty = standing.is_err();
        let standing = standing.unwrap_or_else(|fault| fault);
        Self {
            name,
            is_faulty,
            standing: standing.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Each part, in the order in which they were started.
pub(super) async fn look(context: &Context, spine: &Spine, open_tasks: usize) -> Vec<Part> {
    let counts = spine.scheduler.send(Count).await.map_err(|error| error.to_string());
    vec![
        Part::new("store", Ok(store(&context.home, context.config.store.durability))),
        Part::new("sandbox", sandbox(&context.sandbox)),
        Part::new("vault", vault(&context.vault)),
        Part::new("channels", channels(&context.channels, context.fault.as_ref())),
        Part::new("providers", providers(context.live.held().map(|held| held.providers))),
        Part::new("scheduler", counts.map(scheduler)),
        Part::new("teams", Ok(teams(load::team_names(&context.home).len(), open_tasks))),
    ]
}

fn store(home: &Home, durability: Durability) -> String {
    let against = match durability {
        Durability::Power => "a power cut",
        Durability::Process => "a killed process, not a power cut",
    };
    format!("{}; what is accepted survives {against}", rough_size(store_bytes(home)))
}

fn sandbox(sandbox: &Sandbox) -> Result<String, String> {
    match sandbox.missing() {
        Some((layer, seen)) => {
            Err(format!("`bash` is refused: {layer} is missing ({seen}); {}", layer.cure()))
        }
        None => {
            let layers = sandbox.layers();
            let namespaces = if layers.namespaces { ", namespaces" } else { "" };
            Ok(format!("Landlock {}, seccomp{namespaces}", layers.landlock))
        }
    }
}

fn vault(vault: &Vault) -> Result<String, String> {
    let health = vault.health();
    match health.locked {
        Some(locked) => Err(format!("locked: {locked}")),
        None => Ok(format!("open, {}", counted(health.secrets, "secret"))),
    }
}

fn channels(channels: &Channels, fault: Option<&Problems>) -> Result<String, String> {
    match fault {
        Some(fault) => Err(format!("only the operator's command line is let in: {fault}")),
        None => {
            let websocket = match channels.ws {
                WebSocket::Off => "off: `channels.yaml` does not say `ws: {enabled: true}`",
                WebSocket::Loopback | WebSocket::On => "on",
            };
            let discord = match &channels.discord {
                discord if discord.token.is_some() => ", Discord connecting",
                discord if discord.disabled.is_some() => ", Discord off",
                _ => "",
            };
            Ok(format!("WebSocket {websocket}{discord}"))
        }
    }
}

fn providers(providers: Option<Result<Arc<Providers>, Arc<Problems>>>) -> Result<String, String> {
    let providers = match providers {
        Some(Ok(providers)) => providers,
        Some(Err(problems)) => return Err(format!("no model can be asked: {problems}")),
        None => return Err("no model can be asked".to_owned()),
    };
    if providers.demo {
        return Ok(
            "no model is configured, so the offline demo answers: set ANTHROPIC_API_KEY or \
                   OPENAI_API_KEY, or run `hivewright init`"
                .to_owned(),
        );
    }
    let profiles = providers.profiles.values();
    let profiles = profiles.map(|profile| format!("{} ({})", profile.name, profile.model));
    Ok(profiles.collect::<Vec<_>>().join(", "))
}

fn scheduler(counts: Counts) -> String {
    format!("{} of {} triggers active", counts.active, counts.total)
}

fn teams(teams: usize, open_tasks: usize) -> String {
    let more = counted(teams, "team");
    match open_tasks {
        0 => more,
        1 => format!("{more}, 1 task goes on"),
        tasks => format!("{more}, {tasks} tasks go on"),
    }
}
