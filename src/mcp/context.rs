//! Context of a server: what it is made of, and what of the service it is given.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use hivewright_actors::{ids::TeamKey, live::Publisher};
use reqwest::Url;

use crate::{
    sandbox::{egress::Guard, process::Sandbox, workspace::Workspace},
    settings::{
        folder_access::Access,
        mcp_servers::{FolderAccess, McpServer},
        network::{HostPort, host_name},
    },
    taint::Taint,
    vault::{Vault, expand::keys_in, scope::Scope, scrubbers::Scrubbers},
};

/// What servers need of the service.
pub(super) struct Grounds {
    pub(super) sandbox: Arc<Sandbox>,
    /// Those of the vault.
    pub(super) secrets: Scrubbers,
    pub(super) taint: Taint,
    pub(super) live: Publisher,
    pub(super) guard: Guard,
}

/// What a server was made of: another one takes its place when this differs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Make {
    pub(super) team: TeamKey,
    pub(super) config: McpServer,
    /// Hosts of private networks that the team may reach.
    pub(super) private_hosts: Vec<HostPort>,
    /// The folders of the team.
    pub(super) roots: Vec<(PathBuf, Access)>,
    /// The secrets that it is given, with their versions.
    pub(super) secrets: BTreeMap<String, Option<u64>>,
}

impl Make {
    pub(super) fn new(
        team: &TeamKey,
        config: &McpServer,
        private_hosts: &[HostPort],
        workspace: &Workspace,
        vault: &Vault,
    ) -> Self {
        let texts = config.env.values().chain(config.headers.values());
        let scope = Scope::Team(team.clone());
        let keys = texts.flat_map(|text| keys_in(text));
        let secrets = keys.map(|key| {
            let version = vault.version_of(&scope, &key);
            (key, version)
        });
        Self {
            secrets: secrets.collect(),
            team: team.clone(),
            config: config.clone(),
            private_hosts: private_hosts.to_vec(),
            roots: workspace.real_roots().map(|(path, access)| (path.to_owned(), access)).collect(),
        }
    }
}

/// What a server of a team has around it.
pub struct ServerContext {
    pub name: String,
    pub(super) make: Make,
    pub(super) workspace: Arc<Workspace>,
    pub(super) grounds: Arc<Grounds>,
}

impl ServerContext {
    pub fn team(&self) -> &TeamKey {
        &self.make.team
    }

    pub fn config(&self) -> &McpServer {
        &self.make.config
    }

    /// What rules and vault entries name it by.
    pub fn key(&self) -> String {
        format!("mcp.{}", self.name)
    }

    /// The host that it is at, if it is at an address.
    pub fn host(&self) -> Option<String> {
        let url = Url::parse(self.config().url.as_deref()?).ok()?;
        host_name(&url)
    }

    /// A program that sees the folders of the team.
    pub fn sees_workspace(&self) -> bool {
        self.config().command.is_some() && self.config().workspace != FolderAccess::Off
    }
}
