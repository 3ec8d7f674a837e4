//! MCP client: servers outside that offer teams tools.
//!
//! A server is started or connected when a turn first needs its list or calls it, and let go when nobody has called it
//! for a while. All of this runs on a thread of its own, which is there from the first use on: what a server sends can
//! keep no team waiting.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use hivewright_actors::{
    ids::{TeamKey, TeamName},
    live::Publisher,
    org::belongings::Belongings,
    store::records::Writes,
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub mod arguments;
pub mod context;
pub mod definition;
pub mod fault;
pub(crate) mod flood;
mod http;
mod keeping;
pub(crate) mod lines;
mod link;
pub(crate) mod opening;
mod program;
pub mod result;
pub mod server;
pub mod status;
#[cfg(test)]
mod tests;

use context::{Grounds, Make, ServerContext};
use definition::Definition;
use fault::McpError;
use result::Answer;
use server::Server;
use status::Status;

use crate::{
    sandbox::{egress::Guard, process::Sandbox, thread::LazyThread, workspace::Workspace},
    settings::team::Team,
    taint::Taint,
    vault::{Vault, scrubbers::Scrubbers},
};

/// How long all servers have to end with the service.
const END: Duration = Duration::from_secs(5);

/// The servers of all teams. Cheap to clone.
#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    grounds: Arc<Grounds>,
    known: Mutex<BTreeMap<(TeamName, String), Arc<Server>>>,
    /// Where connections live.
    thread: LazyThread,
}

/// A tool of a server, for a turn.
#[derive(Clone)]
pub struct Offer {
    pub server: Arc<Server>,
    pub definition: Definition,
}

/// What the servers of a team offer now.
#[derive(Clone, Default)]
pub struct Offers {
    pub tools: Vec<Offer>,
    /// Servers whose tools are missing, by name.
    pub missing: Vec<String>,
    /// Servers whose words are not believed, by key.
    pub untrusted: Vec<String>,
    /// Names this list: by server, its life and the state of its list.
    names: Vec<(String, usize, u64)>,
}

impl PartialEq for Offers {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
            && self.missing == other.missing
            && self.untrusted == other.untrusted
    }
}

impl Servers {
    pub fn new(sandbox: Arc<Sandbox>, vault: Vault, taint: Taint, live: Publisher) -> Self {
        let secrets = Scrubbers::new(vault, []);
        let grounds = Grounds { sandbox, secrets, taint, live, guard: Guard::default() };
        Self(Arc::new(Inner {
            grounds: Arc::new(grounds),
            known: Mutex::default(),
            thread: LazyThread::new("mcp"),
        }))
    }

    /// Servers for a test in which nobody uses one.
    #[cfg(test)]
    pub(crate) fn unused() -> Self {
        let clock = Arc::new(crate::system::WallClock);
        let live = Publisher::new(1, clock);
        Self::new(Arc::new(Sandbox::unused()), Vault::absent(), Taint::default(), live)
    }

    /// The servers of a team as its file says now. Starts none; ends those that are not wanted any more.
    pub fn of_team(
        &self,
        team: &TeamKey,
        file: &Team,
        workspace: &Arc<Workspace>,
    ) -> Vec<Arc<Server>> {
        let settings = &file.mcp_servers;
        let mut known = self.0.known.lock();
        known.retain(|(of, name), server| {
            let is_wanted = *of != team.name || settings.0.contains_key(name);
            if !is_wanted {
                server.close();
            }
            is_wanted
        });
        let grounds = &self.0.grounds;
        let servers = settings.0.iter().map(|(name, config)| {
            let private = &file.egress.allow_private;
            let make = Make::new(team, config, private, workspace, grounds.secrets.vault());
            let key = (team.name.clone(), name.clone());
            match known.get(&key) {
                Some(server) if server.context.make == make => return Arc::clone(server),
                Some(server) => server.close(),
                None => {}
            }
            let server = self.server(name, make, workspace);
            known.insert(key, Arc::clone(&server));
            server
        });
        servers.collect()
    }

    fn server(&self, name: &str, make: Make, workspace: &Arc<Workspace>) -> Arc<Server> {
        let (name, workspace) = (name.to_owned(), workspace.clone());
        let grounds = self.0.grounds.clone();
        Arc::new(Server::new(ServerContext { name, make, workspace, grounds }))
    }

    /// Starts or connects a server as a file says that is not the team's yet, and ends it. Tells how it stood; none
    /// if the file has no such server.
    pub async fn try_out(
        &self,
        team: &TeamKey,
        file: &Team,
        workspace: &Arc<Workspace>,
        name: &str,
    ) -> Option<Status> {
        let config = file.mcp_servers.0.get(name)?;
        let private = &file.egress.allow_private;
        let make = Make::new(team, config, private, workspace, self.0.grounds.secrets.vault());
        let server = self.server(name, make, workspace);
        let trial = self.0.thread.runtime()?.spawn(async move {
            // What is wrong with it is kept with it.
            let _ = server.connect().await;
            let status = server.status();
            server.end().await;
            status
        });
        trial.await.ok()
    }

    /// The servers that are known, also those that nobody has used.
    pub fn all(&self) -> Vec<Arc<Server>> {
        self.0.known.lock().values().cloned().collect()
    }

    pub fn find(&self, team: &TeamName, name: &str) -> Option<Arc<Server>> {
        self.0.known.lock().get(&(team.clone(), name.to_owned())).cloned()
    }

    /// What servers offer, as far as it is known.
    pub fn offers(servers: &[Arc<Server>]) -> Offers {
        let mut offers = Offers::default();
        for server in servers {
            if !server.context.config().trusted {
                offers.untrusted.push(server.context.key());
            }
            let status = server.status();
            let Some(known) = status.offers else {
                offers.missing.push(server.context.name.clone());
                continue;
            };
            let life = Arc::as_ptr(server) as usize;
            offers.names.push((server.context.name.clone(), life, status.version));
            offers.tools.extend(known.tools.iter().map(|definition| Offer {
                server: Arc::clone(server),
                definition: definition.clone(),
            }));
        }
        offers
    }

    /// What servers offer. Those that were never asked are started for it, all at once; one that fails is missing.
    pub async fn list(&self, servers: &[Arc<Server>]) -> Offers {
        let unlisted = servers.iter().filter(|server| !server.is_listed());
        let listing = unlisted.filter_map(|server| {
            let server = Arc::clone(server);
            // A connection that was begun is kept, also when the turn is given up.
            Some(self.0.thread.runtime()?.spawn(async move {
                // What is wrong with it is kept with it.
                let _ = server.connect().await;
            }))
        });
        join_all(listing).await;
        Self::offers(servers)
    }

    /// Calls a tool. It goes on until it ends or is told to stop, also when nobody waits any more.
    pub async fn call(
        &self,
        server: &Arc<Server>,
        tool: &str,
        args: Value,
        cancel: CancellationToken,
    ) -> Result<Answer, McpError> {
        let calling = Arc::clone(server).call(tool.to_owned(), server::arguments(args), cancel);
        let failed = || McpError::Ended { server: server.context.name.clone() };
        let runtime = self.0.thread.runtime().ok_or_else(failed)?;
        runtime.spawn(calling).await.unwrap_or_else(|_| Err(failed()))
    }

    pub async fn end(&self) {
        let all = self.all();
        let ending = join_all(all.iter().map(|server| server.end()));
        if tokio::time::timeout(END, ending).await.is_err() {
            tracing::warn!("some MCP servers did not end in time; they are killed");
        }
    }
}

/// The servers of a team that is shut down.
impl Belongings for Servers {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let mut known = self.0.known.lock();
        let servers: Vec<_> = known.extract_if(.., |(of, _), _| *of == team.name).collect();
        drop(known);
        Box::pin(async move {
            let ending = join_all(servers.iter().map(|(_, server)| server.end()));
            // What has not ended by then is killed all the same.
            let _ = tokio::time::timeout(END, ending).await;
            Vec::new()
        })
    }

    fn rest(&self, team: &TeamName, now: bool) -> BoxFuture<'static, ()> {
        let mut servers = self.all();
        servers.retain(|server| now && server.context.team().name == *team);
        Box::pin(async move {
            let ending = join_all(servers.iter().map(|server| server.restart()));
            // What has not ended by then ends without anybody waiting for it.
            let _ = tokio::time::timeout(END, ending).await;
        })
    }
}
