//! The way in over HTTP: one file per resource.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use actix::{Addr, Handler, Message, dev::ToEnvelope};
use actix_web::{HttpResponse, middleware, web};
use hivewright_actors::{
    budget::Days,
    clock::Timestamp,
    ids::{TeamKey, TeamName},
    spine::Spine,
    storage::{Storage, StorageError},
};

pub mod access;
mod approvals;
mod audit;
pub mod auth;
pub mod backups;
mod call;
mod changes;
mod channel_webhooks;
mod channels;
pub mod config;
pub mod connections;
mod csv;
mod doctor;
pub mod edge;
pub mod error;
mod events;
mod files;
mod health;
pub mod idempotency;
mod identities;
mod inbox;
mod instructions;
pub mod jobs;
mod json;
pub mod limits;
mod listing;
mod logs;
mod markdown;
mod mcp;
mod me;
mod memories;
mod messages;
pub mod metrics;
mod models;
mod openapi;
pub mod origin;
mod overview;
mod page;
mod page_of_docs;
mod plugin_tools;
mod plugins;
pub mod policies;
mod profiles;
mod query;
mod questions;
pub mod record;
mod reply;
mod revocation;
mod route_table;
mod routes;
mod search;
mod session;
mod sessions;
pub(crate) mod tasks;
mod team_plugins;
mod teams;
#[cfg(test)]
mod tests;
pub mod tokens;
mod topics;
mod triggers;
mod trust;
pub mod ui;
mod untrusted_files;
mod usage;
mod vault;
mod webhook_proof;
pub mod webhooks;

use access::Access;
use auth::identities::Identities;
use backups::Backups;
use config::Files;
use error::{ApiError, ApiResult};
use jobs::Jobs;
use metrics::Metrics;
use policies::Explainer;
use route_table::table;

use crate::{
    api::{profiles::ProfileRow, teams::Equipment},
    channels::discord::standing::Standing as Discord,
    engines::installed::Installations,
    files::FileStore,
    logging::Secrets,
    mcp::Servers,
    memory::Memory,
    plugins::{depot::Depot, instance::Instances},
    policy::Policies,
    sandbox::egress::Guard,
    settings::channels::WebSocket,
    taint::Taint,
    teams::self_changes::Changes,
    tools::{
        org::office::{Office, Parts},
        plugin_tool::PluginTools,
    },
    triggers::desk::Desk,
    vault::Vault,
};

/// For the server's `client_request_timeout`: the header has to be there by then.
pub const SLOWEST_HEADER: Duration = Duration::from_secs(10);
/// For the server's `keep_alive`: an idle connection is closed by then.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// An actor that does not answer in this time is in trouble.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest body, in bytes.
const LONGEST_BODY: usize = 1024 * 1024;
/// The longest header, in bytes.
const LONGEST_HEADER: usize = 16 * 1024;
/// The most fields of a header.
const MOST_HEADERS: usize = 100;
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What is to be known of the service beyond its spine.
pub trait Service: Send + Sync + 'static {
    /// No model is configured: a script answers.
    fn is_demo(&self) -> bool;
    /// It is about to stop.
    fn is_draining(&self) -> bool;
    /// Who may open a WebSocket.
    fn websocket(&self) -> WebSocket;
    /// How Discord stands.
    fn discord(&self) -> Discord {
        Discord::Off
    }
    /// Lets the bot on Discord connect anew.
    fn reconnect_discord(&self) {}
    /// What is wrong with the channels, until it is cured.
    fn channels_fault(&self) -> Option<String> {
        None
    }
    /// What is wrong with the settings files, until it is cured. What they said before counts meanwhile.
    fn settings_fault(&self) -> Option<String> {
        None
    }
    /// Why no model can be asked. Does not look at files.
    fn providers_fault(&self) -> Option<String> {
        None
    }
    /// The profiles that can be used. Does not look at files.
    fn profiles(&self) -> Vec<ProfileRow> {
        Vec::new()
    }
    /// A topic without work for this long is idle.
    fn topics_idle_after(&self) -> Duration {
        Duration::from_secs(30 * 60)
    }
    /// How large the store is. May block.
    fn store_bytes(&self) -> u64;
    /// How many bytes are free on its disk. May block.
    fn free_bytes(&self) -> Option<u64> {
        None
    }
    /// The living team of a name.
    fn team(&self, name: &str) -> Option<TeamKey>;
}

/// Says what a team has to work with, below these teams. Blocks.
pub type Equipper = dyn Fn(&TeamKey, &[TeamName]) -> Equipment + Send + Sync;

/// What the handlers share.
pub struct State {
    pub access: Access,
    /// Which senders of channels are principals.
    pub identities: Identities,
    pub spine: Spine,
    pub memory: Memory,
    pub changes: Changes,
    /// Which files untrusted turns wrote.
    pub taint: Taint,
    /// The MCP servers of teams.
    pub servers: Servers,
    /// The packages of plugins.
    pub depot: Depot,
    /// The way out, for what an operator lets fetch.
    pub egress: Guard,
    /// The plugins of teams.
    pub plugins: Instances,
    /// The tools that teams wrote.
    pub plugin_tools: PluginTools,
    /// What the operator allows, denies or wants to be asked for.
    pub rules: Policies,
    /// Judges calls that nobody makes.
    pub explainer: Arc<Explainer>,
    pub equipment: Arc<Equipper>,
    /// The teams, and what is done to them.
    pub office: Office,
    pub vault: Vault,
    pub desk: Desk,
    /// How often each token asked lately.
    pub limits: limits::Limits,
    /// What is written down of requests by nobody.
    pub strangers: record::Strangers,
    /// Requests that may be repeated.
    pub repeats: idempotency::Repeats,
    /// How often webhooks were called lately.
    pub callers: webhooks::Callers,
    pub service: Arc<dyn Service>,
    pub metrics: Arc<Metrics>,
    pub jobs: Jobs,
    /// What no answer shows.
    pub secrets: Secrets,
    pub files: Files,
    /// What people and teams hand each other.
    pub file_store: FileStore,
    /// What is known of command-line agents.
    pub installations: Installations,
    pub days: Arc<dyn Days>,
    pub backups: Arc<dyn Backups>,
    pub started: Instant,
}

impl State {
    /// The present moment, by the clock that credentials end by.
    fn now(&self) -> Timestamp {
        self.access.auth.now()
    }

    /// What is read of the store.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Storage) -> Result<T, StorageError> + Send + 'static,
    ) -> ApiResult<T> {
        Ok(self.spine.store.read(work).await?)
    }

    /// The organisation: its teams, and their work.
    fn org(&self) -> &Parts {
        self.office.parts()
    }
}

/// What an actor answers, if it does in time.
async fn ask<A, M>(actor: &Addr<A>, message: M) -> ApiResult<M::Result>
where
    A: Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result: Send> + Send + 'static,
{
    Ok(actor.send(message).timeout(ANSWER_TIMEOUT).await?)
}

/// All routes, for an `App`. `others` adds those that live elsewhere; they pass the same checks,
/// and a refusal of theirs gets its body the same way.
pub fn configure(
    state: web::Data<State>,
    others: impl Fn(&mut web::ServiceConfig) + Clone,
) -> impl Fn(&mut web::ServiceConfig) + Clone {
    move |app| {
        let all = web::scope("").wrap(middleware::from_fn(edge::pass)).configure(others.clone());
        let all = table()
            .into_iter()
            .fold(all, |all, resource| resource.register(all))
            .default_service(web::to(nothing));
        app.app_data(state.clone()).service(all);
    }
}

async fn nothing() -> ApiResult<HttpResponse> {
    Err(ApiError::not_found("there is nothing under this path"))
}
