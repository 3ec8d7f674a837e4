//! Plugins of teams: each that a team has switched on, with its actor, its child and what is known of it.
//!
//! An instance exists from the moment a team wants it; its actor and its thread from the moment somebody needs it, so that
//! what nobody uses costs next to nothing.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use actix::{Actor, Addr, Arbiter, ArbiterHandle};
use futures_util::future::join_all;
use hivewright_actors::{
    clock::Clock,
    excerpt,
    hook::HookEvent,
    ids::{Ids, TeamKey, TeamName},
    live::{
        Publisher,
        event::{Event, Kind},
    },
    notice::{Notice, NoticeKind},
    plugin::{
        Disable, Instance, Lease, Renew, Standing, Unavailable, lease,
        lifecycle::{Status, Terms},
        records::{PluginState, TeamPlugin as Row},
    },
    storage::{Storage, StorageError},
    store::{
        StoreHandle,
        reads::{Range, scan},
        records::Writes,
    },
};
use serde_json::{Map, Value, json};

pub mod channel;
pub mod child;
pub mod config;
mod errors;
mod inbound;
mod recipe;
mod removal;
pub mod setup;
pub mod wire;

use channel::{ChannelGrounds, OpenChannel};
use recipe::Recipe;
use setup::Wizard;

use super::{catalogue::Catalogue, package::Package, schema::Mismatch};
use crate::{
    mcp::definition::{Definition, Definitions, shown},
    sandbox::{egress::Guard, process::Sandbox},
    settings::{home::Home, live::Live, plugins::Plugins},
    system::WallClock,
    vault::{Vault, audit::Actor as By, scrubbers::Scrubbers},
};

/// How long whoever needs a child waits for one that is being started or replaced.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// What a plugin may put aside, in bytes of JSON.
const MOST_KEPT: usize = 64 << 10;
/// What a plugin may show of itself, in bytes of JSON.
const MOST_SHOWN: usize = 16 << 10;
/// The longest error, in characters.
const LONGEST_ERROR: usize = 2_000;
/// An error that is told again within this time is one.
const SAME_ERROR: Duration = Duration::from_secs(60);
/// What is written of how a plugin stands is gathered for so long.
const GATHERED: Duration = Duration::from_millis(500);
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

struct State {
    enabled: bool,
    make: Option<Make>,
    package: Option<Arc<Package>>,
    row: Row,
    kept: Map<String, Value>,
    offers: Option<Arc<Definitions>>,
    /// Another list of tools has another number.
    version: u64,
    /// Its row is about to be written.
    is_dirty: bool,
    /// Its channel, while it is switched on.
    channel: Option<Arc<OpenChannel>>,
    /// The setup wizard that runs.
    wizard: Option<Arc<Wizard>>,
    /// Its team or its package is gone for good: nothing is written of it any more.
    is_retired: bool,
}

/// A tool of a plugin, for a turn.
#[derive(Clone)]
pub struct Offer {
    pub plugin: Arc<TeamPlugin>,
    pub package: Arc<Package>,
    pub definition: Definition,
}

/// What the plugins of a team bring to a turn.
#[derive(Clone, Default)]
pub struct Offers {
    pub tools: Vec<Offer>,
    /// Plugins whose tools are missing, by key.
    pub missing: Vec<String>,
    /// All plugins that are switched on, for their hooks.
    pub plugins: Vec<(Arc<TeamPlugin>, Arc<Package>)>,
    /// Names this list.
    names: Vec<(usize, String, u64)>,
}

impl PartialEq for Offers {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names && self.missing == other.missing
    }
}

impl TeamPlugin {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_enabled(&self) -> bool {
        self.state().enabled
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
        if !self.is_enabled() {
            return Err(Unavailable { reason: "it is switched off".to_owned() });
        }
        lease(self.actor(), PATIENCE).await
    }

    /// Tells a child that runs of an event; one that does not run misses it.
    pub fn tell(self: &Arc<Self>, event: HookEvent, payload: Value) {
        let plugin = Arc::clone(self);
        let telling = async move {
            if let Ok(lease) = plugin.lease().await {
                let dropped = lease.child.tell(wire::Notify { event, payload });
                if dropped > 0 {
                    tracing::warn!(team = %plugin.team.name, plugin = plugin.key, "events for a plugin were dropped");
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
        if state.offers.as_deref() != Some(&tools) {
            state.version += 1;
            state.offers = Some(Arc::new(tools));
        }
    }

    fn kept(&self, key: &str) -> Value {
        self.state().kept.get(key).cloned().unwrap_or(Value::Null)
    }

    fn all_kept(&self) -> Map<String, Value> {
        self.state().kept.clone()
    }

    /// Puts something aside for the plugin. It is safe when this returns.
    async fn keep(&self, key: String, value: Value) -> Result<(), String> {
        let known = self.grounds.scrubbers.of(&self.team.name);
        if known.knows(&value.to_string()) || known.knows(&key) {
            return Err("it holds the value of a secret, which is not kept".to_owned());
        }
        let kept = {
            let mut kept = self.all_kept();
            match value {
                Value::Null => drop(kept.remove(&key)),
                value => drop(kept.insert(key, value)),
            }
            if Value::Object(kept.clone()).to_string().len() > MOST_KEPT {
                return Err("a plugin keeps at most 64 KiB".to_owned());
            }
            let mut state = self.state();
            if state.is_retired {
                return Err("nothing is kept for it any more".to_owned());
            }
            state.kept = kept.clone();
            kept
        };
        let row = PluginState { team: self.team.clone(), plugin: self.key.clone(), state: kept };
        let stored = self.grounds.store.commit(Writes::new().put(&row)).await;
        stored.map(drop).map_err(|error| error.to_string())
    }

    /// What the plugin says is wrong with it; none takes it back.
    fn note(self: &Arc<Self>, message: Option<String>) {
        let message = message.map(|message| self.clean(&message));
        let mut state = self.state();
        let now = WallClock.now();
        let row = &mut state.row;
        let is_same = row.last_error == message
            && row.last_error_at.is_none_or(|at| now.since(at) < SAME_ERROR);
        if is_same {
            return;
        }
        if let Some(message) = &message {
            tracing::warn!(team = %self.team.name, plugin = self.key, error = message, "a plugin reports an error");
        }
        row.last_error_at = message.is_some().then_some(now);
        row.last_error = message;
        drop(state);
        self.changed();
    }

    /// One of its hooks could not do what it is for.
    pub(super) fn fail(self: &Arc<Self>, reason: &str) {
        self.note(Some(reason.to_owned()));
    }

    /// What the plugin shows of itself.
    fn show(self: &Arc<Self>, shown: Map<String, Value>) {
        let text = Value::Object(shown).to_string();
        if text.len() > MOST_SHOWN {
            return self.note(Some("its state is larger than 16 KiB, and is not shown".to_owned()));
        }
        let text = self.grounds.scrubbers.of(&self.team.name).scrub(&text).into_owned();
        self.state().row.runtime_state = serde_json::from_str(&text).unwrap_or_default();
        self.changed();
    }

    /// Words of a plugin as people may see them.
    fn clean(&self, text: &str) -> String {
        let text = self.grounds.scrubbers.of(&self.team.name).scrub(&shown(text)).into_owned();
        excerpt::line(&text, LONGEST_ERROR)
    }

    pub(super) fn stands(self: &Arc<Self>, standing: &Standing) {
        {
            let error = standing.error.as_deref().map(|error| self.clean(error));
            let mut state = self.state();
            state.row.status = standing.status;
            if state.row.last_error != error
                && (error.is_some() || standing.status == Status::Running)
            {
                state.row.last_error_at = error.is_some().then(|| WallClock.now());
                state.row.last_error = error;
            }
        }
        self.changed();
    }

    pub(super) fn gave_up(&self, reason: &str) {
        let (team, key) = (&self.team.name, &self.key);
        let reason = self.clean(reason);
        tracing::error!(%team, plugin = key, reason, "a plugin was given up");
        let text = format!(
            "Plugin `{key}` of team `{team}` does not run: {reason}. \
             `hivewright plugin restart {key} --team {team}` tries again."
        );
        let notice = Notice {
            team: Some(team.clone()),
            ..Notice::new(
                self.grounds.ids.notice(),
                NoticeKind::PluginFailed,
                text,
                WallClock.now(),
            )
        };
        // The store takes it in now; nobody waits until it is safe.
        drop(self.grounds.store.commit(Writes::new().put(&notice)));
    }

    /// Tells whoever watches, and stores how it stands soon.
    fn changed(self: &Arc<Self>) {
        let status = {
            let mut state = self.state();
            state.row.updated_at = WallClock.now();
            if std::mem::replace(&mut state.is_dirty, true) {
                return;
            }
            state.row.status
        };
        let about = json!({"team": self.team.name, "plugin": self.key, "status": status});
        self.grounds.live.publish(Event::new(Kind::PluginChanged, about).of_team(&self.team.name));
        let plugin = Arc::clone(self);
        self.thread.spawn(async move {
            tokio::time::sleep(GATHERED).await;
            let (row, before) = {
                let mut state = plugin.state();
                state.is_dirty = false;
                if state.is_retired {
                    return;
                }
                (state.row.clone(), status)
            };
            if row.status != before {
                let about =
                    json!({"team": plugin.team.name, "plugin": plugin.key, "status": row.status});
                let event = Event::new(Kind::PluginChanged, about).of_team(&plugin.team.name);
                plugin.grounds.live.publish(event);
            }
            // What is lost with the process is found out again.
            drop(plugin.grounds.store.commit(Writes::new().put(&row)));
        });
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
        let settings = crate::sandbox::process::SandboxSettings {
            launcher: PathBuf::from("/nonexistent"),
            memory: 1 << 30,
            scratch: PathBuf::from("/nonexistent"),
            private: Vec::new(),
        };
        let layers = crate::sandbox::process::layers::Layers {
            landlock: 0,
            seccomp: false,
            namespaces: false,
        };
        let grounds = Grounds {
            catalogue: Catalogue::default(),
            sandbox: Arc::new(Sandbox::with_layers(settings, layers)),
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
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
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
        let before = self.0.rows.lock().unwrap_or_else(PoisonError::into_inner);
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
                make: None,
                package: None,
                row,
                kept: kept.map(|kept| kept.state).unwrap_or_default(),
                offers: None,
                version: 0,
                is_dirty: false,
                channel: None,
                wizard: None,
                is_retired: false,
            }),
        });
        known.insert(place, Arc::clone(&plugin));
        plugin
    }

    /// The plugins of a team that are switched on and loaded, as its file says now. One that changed is made anew, one
    /// that is not wanted any more ends. Starts none that has tools alone. Looks at nothing but memory.
    pub fn settle(&self, team: &TeamKey, wanted: &Plugins) -> Vec<(Arc<TeamPlugin>, Arc<Package>)> {
        let mut settled = Vec::new();
        for (key, switch) in &wanted.0 {
            let package = self.0.grounds.catalogue.get(key).filter(|_| switch.enabled);
            if let Some(package) = package {
                let plugin = self.get(team, key);
                plugin.settle(&package, &switch.config);
                settled.push((plugin, package));
            }
        }
        let unwanted: Vec<_> = {
            let is_settled = |known: &TeamPlugin| settled.iter().any(|(it, _)| it.key == known.key);
            let known = self.known();
            let of_team = known.values().filter(|known| known.team.name == team.name);
            of_team.filter(|known| !is_settled(known) && known.is_enabled()).cloned().collect()
        };
        for plugin in unwanted {
            if let Some(actor) = plugin.switched_off() {
                actor.do_send(Disable);
            }
        }
        settled
    }

    /// What plugins bring, as far as it is known.
    pub fn offers(settled: &[(Arc<TeamPlugin>, Arc<Package>)]) -> Offers {
        let mut offers = Offers { plugins: settled.to_vec(), ..Offers::default() };
        for (plugin, package) in settled {
            let (known, version) = {
                let state = plugin.state();
                (state.offers.clone(), state.version)
            };
            let life = Arc::as_ptr(plugin) as usize;
            offers.names.push((life, package.digest.clone(), version));
            if package.manifest.tools.is_none() {
                continue;
            }
            let Some(known) = known else {
                offers.missing.push(plugin.key.clone());
                continue;
            };
            offers.tools.extend(known.tools.iter().map(|definition| Offer {
                plugin: Arc::clone(plugin),
                package: Arc::clone(package),
                definition: definition.clone(),
            }));
        }
        offers
    }

    /// What plugins bring. Those whose tools nobody knows yet are started for it, all at once; one that fails is
    /// missing.
    pub async fn list(settled: &[(Arc<TeamPlugin>, Arc<Package>)]) -> Offers {
        let unlisted = settled.iter().filter(|(plugin, package)| {
            package.manifest.tools.is_some() && plugin.state().offers.is_none()
        });
        // What is wrong with one is kept with it.
        join_all(unlisted.map(|(plugin, _)| async move { plugin.lease().await.map(drop) })).await;
        Self::offers(settled)
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

    fn all(&self) -> Vec<Arc<TeamPlugin>> {
        self.known().values().cloned().collect()
    }

    /// Tells the plugins of a team that want to hear of it what happened. One does not hear of its own faults.
    pub fn tell(&self, team: &TeamName, event: HookEvent, payload: &Value) {
        let listens = |plugin: &Arc<TeamPlugin>| {
            let state = plugin.state();
            let package = state.package.as_ref().filter(|_| state.enabled);
            let hooks = package.map_or(&[][..], |package| package.manifest.hooks());
            plugin.team.name == *team
                && hooks.iter().any(|hook| hook.event == event)
                && !(event == HookEvent::PluginError && payload["plugin"] == plugin.key.as_str())
        };
        let listening: Vec<_> = self.known().values().filter(|it| listens(it)).cloned().collect();
        for plugin in listening {
            plugin.tell(event, payload.clone());
        }
    }

    /// Ends all plugins.
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
            state.make = Some(make);
            state.package = Some(Arc::clone(package));
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

    /// Sets whose tools' results are believed.
    pub fn trust(self: &Arc<Self>, patterns: Vec<String>) {
        self.state().row.trusted_output = patterns;
        self.changed();
    }
}
