//! Plugins of teams: each that a team has switched on, with its actor, its child and what is known of it.
//!
//! An instance exists from the moment a team wants it; its actor and its thread from the moment somebody needs it, so that
//! what nobody uses costs next to nothing.

use std::{
    collections::{BTreeMap, HashSet},
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use actix::{Actor, Addr, Arbiter, ArbiterHandle};
use futures_util::future::join_all;
use hivewright_actors::{
    clock::Clock,
    hook::HookEvent,
    ids::{Ids, TeamKey, TeamName},
    live::Publisher,
    plugin::{
        Disable, Instance, Lease, Renew, Unavailable, lease,
        lifecycle::{Status, Terms},
        records::{PluginState, TeamPlugin as Row},
    },
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        reads::{Range, scan},
    },
};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Map, Value};

pub mod channel;
pub mod child;
pub mod config;
mod errors;
mod inbound;
mod life;
pub mod offers;
mod recipe;
mod removal;
pub mod setup;
mod status;
#[cfg(test)]
mod tests;
pub mod wire;

use channel::{ChannelGrounds, OpenChannel};
use recipe::Recipe;
use setup::Wizard;

use super::{catalogue::Catalogue, package::Package, schema::Mismatch};
use crate::{
    mcp::definition::Definitions,
    sandbox::{egress::Guard, process::Sandbox},
    settings::{home::Home, live::Live, plugins::Plugins},
    system::WallClock,
    vault::{Vault, audit::Actor as By, scrubbers::Scrubbers},
};

/// How long whoever needs a child waits for one that is being started or replaced.
pub const LEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for the list of tools of a plugin that starts: a turn is not prepared for much longer than that.
const LIST_TIMEOUT: Duration = Duration::from_secs(45);
/// How long all children have to end with the service.
const END: Duration = Duration::from_secs(12);

/// What plugins need of the service.
pub struct Grounds {
    pub catalogue: Catalogue,
    pub sandbox: Arc<Sandbox>,
    pub guard: Guard,
    pub vault: Vault,
    pub scrubbers: Arc<Scrubbers>,
    pub settings: Live,
    pub home: Home,
    pub store: StoreHandle,
    pub ids: Ids,
    pub live: Publisher,
    pub channels: ChannelGrounds,
}

/// The plugins of all teams. Cheap to clone.
#[derive(Clone)]
pub struct Instances(Arc<Inner>);

/// What is stored of a plugin of a team.
type Known = (Option<Row>, Option<PluginState>);

struct Inner {
    grounds: Arc<Grounds>,
    known: Mutex<BTreeMap<(TeamName, String), Arc<TeamPlugin>>>,
    thread: OnceLock<ArbiterHandle>,
    /// What former processes knew of plugins that nobody has asked for yet.
    rows: Mutex<BTreeMap<(TeamKey, String), Known>>,
}

/// What an instance was made of: it is made anew when this differs.
#[derive(Clone, Debug, PartialEq)]
struct Make {
    digest: String,
    config: Value,
    secrets: BTreeMap<String, Option<u64>>,
}

/// One plugin of one team.
pub struct TeamPlugin {
    pub team: TeamKey,
    pub key: String,
    pub(super) grounds: Arc<Grounds>,
    thread: ArbiterHandle,
    actor: OnceLock<Addr<Instance<Recipe>>>,
    state: Mutex<State>,
}

/// The plugins of a team that its file switches on.
#[derive(Clone, Default)]
pub struct Settled {
    pub plugins: Vec<(Arc<TeamPlugin>, Arc<Package>)>,
    /// Those that are not there, though nobody took them away. What they guard is not known.
    pub absent: Vec<Arc<TeamPlugin>>,
}

impl Settled {
    pub fn is_empty(&self) -> bool {
        self.plugins.is_empty() && self.absent.is_empty()
    }
}

struct State {
    enabled: bool,
    /// Somebody switched it off or took it away, so that what it guards goes on without it. One that has only ended guards
    /// on: turns may outlive it.
    is_lifted: bool,
    make: Option<Make>,
    package: Option<Arc<Package>>,
    row: Row,
    kept: Map<String, Value>,
    offers: Option<Arc<Definitions>>,
    /// It was changed since it told what it offers.
    is_outdated: bool,
    /// Another list of tools has another number.
    version: u64,
    /// Its row is about to be written.
    is_dirty: bool,
    /// Its channel, while it is switched on.
    channel: Option<Arc<OpenChannel>>,
    /// Signed calls of its webhook that are being answered.
    calls: HashSet<String>,
    /// The setup wizard that runs.
    wizard: Option<Arc<Wizard>>,
    /// Its team or its package is gone for good: nothing is written of it any more.
    is_retired: bool,
}

impl TeamPlugin {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub fn is_enabled(&self) -> bool {
        self.state().enabled
    }

    pub(super) fn is_lifted(&self) -> bool {
        self.state().is_lifted
    }

    pub fn package(&self) -> Option<Arc<Package>> {
        self.state().package.clone()
    }

    /// How it stands, as stored.
    pub fn row(&self) -> Row {
        self.state().row.clone()
    }

    pub fn offers(&self) -> Option<Arc<Definitions>> {
        self.state().offers.clone()
    }

    /// Its private folder.
    fn data(&self) -> PathBuf {
        data_of(&self.grounds.home, &self.team.name).join(&self.key)
    }

    fn actor(&self) -> &Addr<Instance<Recipe>> {
        self.actor.get_or_init(|| Instance::start_in_arbiter(&self.thread, |_| Instance::default()))
    }

    /// The child that takes calls.
    pub async fn lease(&self) -> Result<Lease<Recipe>, Unavailable> {
        self.lease_within(LEASE_TIMEOUT).await
    }

    /// The same for somebody who can wait until it has started, however long it may take for that.
    pub async fn lease_once_started(&self) -> Result<Lease<Recipe>, Unavailable> {
        self.lease_within(self.start_timeout().max(LEASE_TIMEOUT)).await
    }

    async fn lease_within(&self, patience: Duration) -> Result<Lease<Recipe>, Unavailable> {
        if !self.is_enabled() {
            return Err(Unavailable { reason: "it is switched off".to_owned() });
        }
        lease(self.actor(), patience).await
    }

    fn start_timeout(&self) -> Duration {
        self.package().map_or(LEASE_TIMEOUT, |package| package.manifest.limits.start_timeout.0)
    }

    /// Tells a child that runs of an event; one that does not run misses it.
    pub fn tell(self: &Arc<Self>, event: HookEvent, payload: Value) {
        let plugin = Arc::clone(self);
        let telling = async move {
            if let Ok(lease) = plugin.lease().await {
                let dropped = lease.child.tell(wire::Notify { event, payload });
                if dropped > 0 {
                    tracing::warn!(team = %plugin.team.name, plugin = plugin.key, dropped, "a plugin does not keep up; events for it were dropped");
                }
            }
        };
        self.thread.spawn(telling);
    }

    fn renew(self: &Arc<Self>, package: &Arc<Package>, config: &Value) {
        let manifest = &package.manifest;
        let recipe = Recipe {
            plugin: Arc::clone(self),
            package: Arc::clone(package),
            config: config.clone(),
        };
        let restarts = usize::try_from(manifest.limits.restarts).unwrap_or(usize::MAX);
        let resident = !manifest.hooks().is_empty() || manifest.channel.is_some();
        self.actor().do_send(Renew { port: Arc::new(recipe), terms: Terms { resident, restarts } });
    }

    pub(super) fn learn(&self, tools: Definitions) {
        let mut state = self.state();
        state.is_outdated = false;
        if state.offers.as_deref() != Some(&tools) {
            state.version += 1;
            state.offers = Some(Arc::new(tools));
        }
    }

    /// It is off from now on. What is left of it is ended by its actor, if it has one.
    fn switched_off(&self) -> Option<&Addr<Instance<Recipe>>> {
        let mut state = self.state();
        state.enabled = false;
        state.make = None;
        state.channel = None;
        self.actor.get()
    }

    /// Switches it off, and waits until nothing of it is left.
    async fn disable(&self) {
        if let Some(actor) = self.switched_off() {
            // One that is gone has left nothing.
            let _ = actor.send(Disable).await;
        }
    }
}

fn data_of(home: &Home, team: &TeamName) -> PathBuf {
    home.plugin_data().join(team.as_str())
}

impl Instances {
    /// The plugins of teams, with what former processes knew of them. Blocks.
    pub fn open(storage: &dyn Storage, grounds: Grounds) -> Result<Self, StorageError> {
        let mut rows: BTreeMap<_, (Option<Row>, Option<PluginState>)> = BTreeMap::new();
        for row in scan::<Row>(storage, Range::all())? {
            let key = (row.team.clone(), row.plugin.clone());
            rows.entry(key).or_default().0 = Some(row);
        }
        for row in scan::<PluginState>(storage, Range::all())? {
            let key = (row.team.clone(), row.plugin.clone());
            rows.entry(key).or_default().1 = Some(row);
        }
        let thread = OnceLock::from(Arbiter::new().handle());
        let (grounds, known) = (Arc::new(grounds), Mutex::default());
        Ok(Self(Arc::new(Inner { grounds, known, thread, rows: Mutex::new(rows) })))
    }

    /// Plugins for a test in which nobody uses one.
    #[cfg(test)]
    pub(crate) fn unused(
        home: &Home,
        store: &StoreHandle,
        vault: &Vault,
        files: &crate::files::FileStore,
    ) -> Self {
        let grounds = Grounds {
            catalogue: Catalogue::default(),
            sandbox: Arc::new(Sandbox::unused()),
            guard: Guard::default(),
            vault: vault.clone(),
            scrubbers: Arc::new(Scrubbers::new(vault.clone(), [])),
            settings: Live::new(home.clone(), crate::settings::references::Environment::fixed([])),
            home: home.clone(),
            store: store.clone(),
            ids: Ids::new(Arc::new(crate::system::Randomness)),
            live: Publisher::new(1, Arc::new(WallClock)),
            channels: ChannelGrounds::unconnected(files.clone()),
        };
        let (grounds, thread) = (Arc::new(grounds), OnceLock::new());
        Self(Arc::new(Inner { grounds, known: Mutex::default(), thread, rows: Mutex::default() }))
    }

    pub fn catalogue(&self) -> &Catalogue {
        &self.0.grounds.catalogue
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<(TeamName, String), Arc<TeamPlugin>>> {
        self.0.known.lock()
    }

    /// The thread of all plugins: what one sends can keep no team waiting.
    fn thread(&self) -> ArbiterHandle {
        self.0.thread.get_or_init(|| Arbiter::new().handle()).clone()
    }

    /// A plugin of a team, whether or not it is switched on.
    pub fn get(&self, team: &TeamKey, key: &str) -> Arc<TeamPlugin> {
        let mut known = self.known();
        let place = (team.name.clone(), key.to_owned());
        if let Some(plugin) = known.get(&place)
            && plugin.team == *team
        {
            return Arc::clone(plugin);
        }
        let before = self.0.rows.lock();
        let (row, kept) = before.get(&(team.clone(), key.to_owned())).cloned().unwrap_or_default();
        drop(before);
        let mut row = row.unwrap_or_else(|| Row::new(team, key, WallClock.now()));
        // Whatever ran is gone with its process.
        row.status = Status::Disabled;
        let plugin = Arc::new(TeamPlugin {
            team: team.clone(),
            key: key.to_owned(),
            grounds: Arc::clone(&self.0.grounds),
            thread: self.thread(),
            actor: OnceLock::new(),
            state: Mutex::new(State {
                enabled: false,
                is_lifted: false,
                make: None,
                package: None,
                row,
                kept: kept.map(|kept| kept.state).unwrap_or_default(),
                offers: None,
                is_outdated: false,
                version: 0,
                is_dirty: false,
                channel: None,
                calls: HashSet::new(),
                wizard: None,
                is_retired: false,
            }),
        });
        known.insert(place, Arc::clone(&plugin));
        plugin
    }

    /// The plugins of a team that are switched on, as its file says now. One that changed is made anew, one that is not
    /// wanted any more ends. Starts none that has tools alone. Looks at nothing but memory.
    pub fn settle(&self, team: &TeamKey, wanted: &Plugins) -> Settled {
        let mut settled = Settled::default();
        let catalogue = &self.0.grounds.catalogue;
        for (key, switch) in wanted.0.iter().filter(|(_, switch)| switch.enabled) {
            if let Some(package) = catalogue.get(key) {
                let plugin = self.get(team, key);
                plugin.settle(&package, &switch.config);
                settled.plugins.push((plugin, package));
            } else if !catalogue.was_taken_away(key) {
                settled.absent.push(self.get(team, key));
            }
        }
        let others: Vec<_> = {
            let is_settled =
                |known: &TeamPlugin| settled.plugins.iter().any(|(it, _)| it.key == known.key);
            let known = self.known();
            let of_team = known.values().filter(|known| known.team.name == team.name);
            of_team.filter(|known| !is_settled(known)).cloned().collect()
        };
        for plugin in others {
            let is_absent = settled.absent.iter().any(|absent| absent.key == plugin.key);
            plugin.state().is_lifted = plugin.team == *team && !is_absent;
            if plugin.is_enabled()
                && let Some(actor) = plugin.switched_off()
            {
                actor.do_send(Disable);
            }
        }
        settled
    }

    pub fn find(&self, team: &TeamName, key: &str) -> Option<Arc<TeamPlugin>> {
        self.known().get(&(team.clone(), key.to_owned())).cloned()
    }

    /// Those that carry a channel now.
    pub fn channels(&self) -> Vec<Arc<TeamPlugin>> {
        let mut all = self.all();
        all.retain(|plugin| plugin.state().channel.is_some());
        all
    }

    /// Teams that have a plugin switched on.
    pub fn teams_with(&self, key: &str) -> Vec<TeamName> {
        let known = self.known();
        let with = known.values().filter(|plugin| plugin.key == key && plugin.is_enabled());
        with.map(|plugin| plugin.team.name.clone()).collect()
    }

    fn all(&self) -> Vec<Arc<TeamPlugin>> {
        self.known().values().cloned().collect()
    }

    /// Tells the plugins of a team that want to hear of it what happened; what that is is asked for once, if there are any.
    /// One does not hear of its own faults.
    pub fn tell(&self, team: &TeamName, event: HookEvent, payload: impl FnOnce() -> Value) {
        let listens = |plugin: &Arc<TeamPlugin>| {
            let state = plugin.state();
            let package = state.package.as_ref().filter(|_| state.enabled);
            let hooks = package.map_or(&[][..], |package| package.manifest.hooks());
            plugin.team.name == *team && hooks.iter().any(|hook| hook.event == event)
        };
        let mut listening: Vec<_> =
            self.known().values().filter(|it| listens(it)).cloned().collect();
        if listening.is_empty() {
            return;
        }
        let payload = payload();
        if event == HookEvent::PluginError {
            listening.retain(|plugin| payload["plugin"] != plugin.key.as_str());
        }
        for plugin in listening {
            plugin.tell(event, payload.clone());
        }
    }

    pub async fn end(&self) {
        let all = self.all();
        for plugin in &all {
            plugin.state().wizard = None;
        }
        let ending = join_all(all.iter().map(|plugin| plugin.disable()));
        if tokio::time::timeout(END, ending).await.is_err() {
            tracing::warn!("some plugins did not end in time; they are killed");
        }
    }

    /// Checks settings that an operator sends for a plugin of a team, and moves secrets in them to the vault.
    pub async fn received(
        &self,
        team: &TeamKey,
        package: &Package,
        config: &Value,
        by: &By,
    ) -> Result<Value, Vec<Mismatch>> {
        let (vault, key) = (&self.0.grounds.vault, package.manifest.key.as_str());
        config::received(vault, team, key, &package.schema, config, by).await
    }
}

impl TeamPlugin {
    /// Makes it as it is described now, if it is not so yet.
    fn settle(self: &Arc<Self>, package: &Arc<Package>, config: &Value) {
        let secrets = config::normalised(config)
            .map(|config| config::versions(&config, &self.grounds.vault, &self.team))
            .unwrap_or_default();
        let make = Make { digest: package.digest.clone(), config: config.clone(), secrets };
        {
            let mut state = self.state();
            if state.enabled && state.make.as_ref() == Some(&make) {
                return;
            }
            state.enabled = true;
            state.is_lifted = false;
            state.make = Some(make);
            state.package = Some(Arc::clone(package));
            // A child that runs is replaced, and the next one tells what it offers. One that rests is asked by who needs its tools.
            state.is_outdated = state.row.status != Status::Running;
            // Before a child can bring anything.
            match (&package.manifest.channel, &state.channel) {
                (Some(_), None) => state.channel = Some(OpenChannel::start(self)),
                (Some(_), Some(_)) => {}
                (None, _) => state.channel = None,
            }
        }
        self.renew(package, config);
    }

    /// Starts another child in place of the one there is, and forgets that it failed.
    pub fn restart(self: &Arc<Self>) {
        let (package, make) = {
            let state = self.state();
            (state.package.clone(), state.make.clone())
        };
        if let (Some(package), Some(make)) = (package, make) {
            self.renew(&package, &make.config);
        }
    }
}
