//! The state that all handlers share.

use std::{sync::Arc, time::Instant};

use hivewright_actors::{
    budget::Days,
    clock::Timestamp,
    spine::Spine,
    storage::{Storage, StorageError},
};

use super::{
    auth::{access::Access, identities::Identities},
    jobs::Jobs,
    kit::{
        error::ApiResult,
        limits::{Callers, Limits, Strangers},
        repeats::Repeats,
    },
    metrics::Metrics,
    ports::{Backups, Equipper, Explainer, Files, Service},
};
use crate::{
    engines::installed::Installations,
    files::FileStore,
    logging::Secrets,
    mcp::Servers,
    memory::Memory,
    plugins::{depot::Depot, instance::Instances},
    policy::Policies,
    sandbox::egress::Guard,
    taint::Taint,
    teams::{
        self_changes::Changes,
        service::{Parts, TeamService},
    },
    tools::plugin_tool::PluginTools,
    triggers::admin::TriggerAdmin,
    vault::Vault,
};

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
    pub team_service: TeamService,
    pub vault: Vault,
    pub triggers: TriggerAdmin,
    /// How often each token asked lately.
    pub limits: Limits,
    /// What is written down of requests by nobody.
    pub strangers: Strangers,
    /// Requests that may be repeated.
    pub repeats: Repeats,
    /// How often webhooks were called lately.
    pub callers: Callers,
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
    pub(super) fn now(&self) -> Timestamp {
        self.access.auth.now()
    }

    /// What is read of the store.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Storage) -> Result<T, StorageError> + Send + 'static,
    ) -> ApiResult<T> {
        Ok(self.spine.store.read(work).await?)
    }

    /// The organisation: its teams, and their work.
    pub(super) fn org(&self) -> &Parts {
        self.team_service.parts()
    }
}
