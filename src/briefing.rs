//! Prepares turns: the team's file, its rules, its tools and its model, as they are now.

use std::{
    borrow::Cow,
    collections::HashMap,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{
    blocking,
    briefing::{Assignment, Brief, BriefError, Briefing, Clean},
    budget::{Caps, Line},
    engine::Engine,
    ids::{MAIN, TeamKey, TeamName},
    org::belongings::Belongings,
    policy::decision::Policy,
    store::records::Writes,
    task::{Cycle, Options, TopicRef, outcome::Code},
};
use parking_lot::Mutex;

use crate::{
    engines::{Engines, ModelChoice, UnknownProfile},
    files::FileStore,
    logging::Secrets,
    mcp::{Offers, Servers, server::Server},
    memory::Memory,
    plugins::instance::{Instances, Settled, offers},
    policy::Policies,
    prompt::{
        compose::{Composed, Prompts, Request},
        library::shared_skills,
    },
    sandbox::{process::Sandbox, workspace::Workspace},
    scrub::{Mask, Scrubber},
    settings::{
        config::{self, Sessions, Tasks},
        home::Home,
        live::{Live, Read},
        providers::{Profile, Providers},
        team::Team,
    },
    taint::{Taint, seen::Seen},
    teams::{
        last_caps::LastCaps,
        self_changes::{Changes, Earlier},
    },
    tools::{
        REGISTRY, agent::AgentRunner, filter::ToolFilter, grant::Grant, plugin_tool::PluginTools,
        toolbox::Toolbox, triggers::report, web::Web,
    },
    vault::{Vault, scrubbers::Scrubbers},
};

mod handing;
mod inspection;
mod model;
mod part;
mod single_flight;
#[cfg(test)]
mod tests;
pub mod topics;

use part::Part;
use single_flight::SingleFlight;
use topics::Till;

/// The most model calls of a subagent's session that sets none of its own.
const INNER_STEPS: u32 = 50;

/// Prepares the turns of all teams.
#[derive(Clone)]
pub struct Turns(Arc<Inner>);

struct Inner {
    sources: Sources,
    /// What was last warned of, by team: the same is said once.
    warned: Mutex<HashMap<TeamName, Vec<String>>>,
    /// What was made of the profiles, good until their file changes.
    models: Mutex<Option<Arc<Models>>>,
    /// What was made for a team, good until one of its files changes.
    kits: Mutex<HashMap<TeamName, Arc<Kit>>>,
    readings: Arc<SingleFlight<TeamKey, Wanted, Result<Looked, BriefError>>>,
}

impl Deref for Inner {
    type Target = Sources;

    fn deref(&self) -> &Sources {
        &self.sources
    }
}

/// What all teams share of one state of the profiles.
struct Models {
    providers: Arc<Providers>,
    profiles: HashMap<String, Arc<Profile>>,
    scrubbers: Arc<Scrubbers>,
    /// Engines in use, by profile and model.
    engines: Mutex<HashMap<(String, String), Arc<dyn Engine>>>,
    /// What earlier turns are cleaned with, and the version of the vault that it is good for.
    clean: Mutex<Option<(u64, Clean)>>,
}

/// What a team works with, made from one state of its files.
struct Kit {
    team: Arc<Team>,
    models: Arc<Models>,
    /// The rules by which its tools were chosen.
    policy: Arc<Policy>,
    agents: config::Engines,
    /// What it is given, before its role narrows it.
    grant: Grant,
    /// What was made for its roles, good until a skill or subagent changes.
    roles: Mutex<Vec<Arc<Part>>>,
}

/// What turns are prepared from.
pub struct Sources {
    pub home: Home,
    pub live: Live,
    pub prompts: Prompts,
    pub engines: Engines,
    pub toolbox: Toolbox,
    pub web: Web,
    pub memory: Memory,
    pub changes: Changes,
    pub rules: Policies,
    pub taint: Taint,
    pub servers: Servers,
    pub plugins: Instances,
    pub plugin_tools: PluginTools,
    pub sandbox: Arc<Sandbox>,
    /// Runs sessions of subagents. Without it they can only work in place of their team.
    pub agents: Option<Arc<dyn AgentRunner>>,
    /// Set while only the offline demo answers.
    pub demo: Arc<AtomicBool>,
    /// Learns the keys of profiles.
    pub secrets: Secrets,
    pub vault: Vault,
    /// Where questions about topics are paid.
    pub till: Till,
    /// What teams may spend while a file above them is wrong.
    pub last_caps: LastCaps,
    /// What people attach.
    pub files: FileStore,
}

impl Turns {
    pub fn new(sources: Sources) -> Self {
        Self(Arc::new(Inner {
            sources,
            warned: Mutex::default(),
            models: Mutex::default(),
            kits: Mutex::default(),
            readings: Arc::default(),
        }))
    }
}

/// What was made for a team holds its folders open.
impl Belongings for Turns {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        self.0.kits.lock().remove(&team.name);
        self.0.warned.lock().remove(&team.name);
        self.0.prompts.forget(&team.name);
        Box::pin(std::future::ready(Vec::new()))
    }
}

impl Inner {
    /// Looks at the files of a team for turns that want the same. Blocks; unchanged ones are only looked at.
    fn look(&self, team: &TeamKey, wanted: &Wanted) -> Result<Looked, BriefError> {
        let file = self.team_file(&team.name)?;
        let budget = self.budget(&team.name, &file, &wanted.ancestors)?;
        let kit = self.kit(&team.name, file)?;
        let servers = self.servers(team, &kit);
        let plugins = self.plugins.settle(team, &kit.team.plugins);
        let draft = Draft { budget, kit, servers, plugins };
        if draft.servers.is_empty() && draft.plugins.is_empty() {
            let ready = self.ready(&team.name, wanted, draft, Gathered::default())?;
            return Ok(Looked::Ready(Arc::new(ready)));
        }
        Ok(Looked::Draft(draft))
    }

    /// The same to its end, with what MCP servers and plugins offer. Blocks.
    fn ready(
        &self,
        name: &TeamName,
        wanted: &Wanted,
        draft: Draft,
        offers: Gathered,
    ) -> Result<Ready, BriefError> {
        let Draft { budget, kit, .. } = draft;
        let part = self.part(name, &kit, &wanted.options, wanted.inner, offers)?;
        self.check_prices(&budget, &part)?;
        let request = Request {
            team: name.clone(),
            ancestors: wanted.ancestors.clone(),
            description: kit.team.description.clone(),
            builtins: part.builtins.clone(),
            notes: part.notes.clone(),
            cast: part.cast.clone(),
        };
        let composed = self.prompts.compose(&request).map_err(config_error)?;
        self.warn(name, &composed);
        let held = self.live.held();
        let (tasks, sessions) = held.map_or_else(
            || (Tasks::default(), Sessions::default()),
            |held| (held.config.tasks.clone(), held.config.sessions.clone()),
        );
        let names = kit.models.scrubbers.names();
        Ok(Ready { budget, kit, part, composed, tasks, sessions, names })
    }

    /// What turns that want the same are prepared from.
    async fn ready_for(
        self: &Arc<Self>,
        team: &TeamKey,
        wanted: &Wanted,
    ) -> Result<Arc<Ready>, BriefError> {
        let looking = Arc::clone(self);
        let look = move |team: &TeamKey, wanted: &Wanted| looking.look(team, wanted);
        let looked = self.readings.next(team.clone(), wanted.clone(), look).await;
        let draft = match looked.map_err(|_| cut_off())?? {
            Looked::Ready(ready) => return Ok(ready),
            Looked::Draft(draft) => draft,
        };
        let (servers, plugins) = tokio::join!(
            self.sources.servers.list(&draft.servers),
            Instances::list(&draft.plugins),
        );
        let offers = Gathered { servers, plugins };
        let (inner, name, wanted) = (Arc::clone(self), team.name.clone(), wanted.clone());
        let ready = blocking::run(move || inner.ready(&name, &wanted, draft, offers)).await;
        ready.map_err(|_| cut_off())?.map(Arc::new)
    }

    /// The brief of one turn. Looks at nothing.
    fn brief(&self, ready: &Ready, wanted: &Wanted, turn: OneTurn) -> Brief {
        let Ready { budget, kit, part, composed, tasks, sessions, names } = ready;
        let Wanted { options, inner, .. } = wanted;
        let OneTurn { topic, memory, earlier, reports } = turn;
        // A topic in use is kept in memory, with what was said before something became a secret.
        let topic = topic.map(|mut topic| {
            topic.name = names.scrub_known(&topic.name).into_owned();
            topic
        });
        // The session of a subagent knows its task and nothing of the conversation.
        let topic = topic.filter(|_| !inner);
        let own_steps = part.cast.role.subagent.as_ref().and_then(|agent| agent.max_steps);
        let team_steps = if *inner { INNER_STEPS } else { kit.team.max_steps };
        let asked_timeout = options.turn_timeout_ms.map(Duration::from_millis);
        let turn_timeout = asked_timeout.or(kit.team.turn_timeout);
        let tools = self.tools(part, earlier);
        Brief {
            system: Arc::new(composed.system(&memory, topic.as_ref())),
            tools: if reports { report::with_report(tools) } else { tools },
            label: part.label,
            engine: part.engine.clone(),
            sdk: part.sdk.as_str().to_owned(),
            provider: part.provider.clone(),
            model: part.model.clone(),
            prompt_hash: composed.prompt_hash().to_owned(),
            toolset_hash: part.toolset_hash.clone(),
            max_steps: options.max_steps.or(own_steps).unwrap_or(team_steps),
            turn_timeout: turn_timeout.unwrap_or(tasks.turn_timeout),
            idle_timeout: tasks.idle_timeout,
            conversation_idle: sessions.idle.0,
            thinking: options.thinking.or(kit.team.thinking),
            queue_mode: kit.team.queue_mode,
            budget: budget.clone(),
            price: part.price,
            room: part.room,
            clean: kit.models.clean(),
            files: Vec::new(),
        }
    }

    /// Says what is wrong with rules, skills and subagents, once.
    fn warn(&self, team: &TeamName, composed: &Composed) {
        let Composed { warnings, suspects, .. } = composed;
        let mut warned = self.warned.lock();
        let before = warned.get(team).map(Vec::as_slice).unwrap_or_default();
        let is_new = |warning: &&String| !before.contains(warning);
        for warning in warnings.iter().filter(is_new) {
            tracing::warn!(%team, warning, "rules, skills or subagents need a look");
        }
        for suspect in suspects.iter().filter(is_new) {
            self.taint.report(team, suspect);
        }
        let said = warnings.iter().chain(suspects).cloned().collect();
        warned.insert(team.clone(), said);
    }

    /// The file of a team, as it is now.
    fn team_file(&self, name: &TeamName) -> Result<Arc<Team>, BriefError> {
        let team = self.live.team_now(name).map_err(config_error)?;
        self.accepted(name)?;
        Ok(team)
    }

    /// Refuses the file of a team that an untrusted turn may have changed.
    fn accepted(&self, name: &TeamName) -> Result<(), BriefError> {
        let path = self.home.team_file(name.as_str());
        if !self.taint.is_quiet()
            && let Ok(real) = path.canonicalize()
            && Seen::path(&real).is_ok_and(|seen| self.taint.holds(&real, &seen))
        {
            return Err(config_error(format!(
                "{}: was changed by an untrusted turn, or while one ran a command; look at it, then accept it \
                 (`hivewright teams accept {name} config.yaml`)",
                path.display()
            )));
        }
        Ok(())
    }

    /// The budgets that a team draws on: its own, then those of the teams above it.
    ///
    /// While a file above is wrong, what it allowed before counts; if that is not known, nothing is
    /// spent below it.
    fn budget(
        &self,
        team: &TeamName,
        own: &Team,
        ancestors: &[TeamName],
    ) -> Result<Line, BriefError> {
        self.last_caps.note(team, own.budgets);
        let above = ancestors.iter().rev().map(|name| {
            let file = self.live.team_file_now(name).map_err(config_error);
            let caps = match file.and_then(|file| self.accepted(name).map(|()| file)) {
                Ok(file) => {
                    let caps = file.budgets;
                    self.last_caps.note(name, caps);
                    caps
                }
                Err(error) => self.last_caps.of(name).ok_or(error)?,
            };
            Ok((name.clone(), caps))
        });
        std::iter::once(Ok((team.clone(), own.budgets))).chain(above).collect()
    }

    /// A cap in money means nothing for a model whose calls have no price.
    fn check_prices(&self, line: &Line, part: &Part) -> Result<(), BriefError> {
        let capped = line.iter().find(|(_, caps)| is_in_money(caps));
        match (capped, &part.unpriced) {
            (Some((team, _)), Some(profile)) => Err(config_error(format!(
                "{}: budgets: a cap in USD needs `pricing` in profile `{profile}`, which may answer for model {}",
                self.home.team_file(team.as_str()).display(),
                part.model
            ))),
            _ => Ok(()),
        }
    }

    /// What a team with this file works with now.
    fn kit(&self, name: &TeamName, team: Arc<Team>) -> Result<Arc<Kit>, BriefError> {
        let (providers, config) = self.live.both_now();
        let models = self.models(providers)?;
        let policy = self.rules.refresh_with(config.ok().as_deref());
        let held = self.live.held();
        let agents = held.map_or_else(Default::default, |held| held.config.engines.clone());
        let known = self.kits.lock().get(name).cloned();
        if let Some(kit) = known
            && Arc::ptr_eq(&kit.team, &team)
            && Arc::ptr_eq(&kit.models, &models)
            && Arc::ptr_eq(&kit.policy, &policy)
            && kit.agents == agents
        {
            return Ok(kit);
        }
        let kit = Arc::new(self.make_kit(name, team, models, policy, agents)?);
        self.kits.lock().insert(name.clone(), kit.clone());
        Ok(kit)
    }

    /// The MCP servers whose tools a team may have.
    fn servers(&self, team: &TeamKey, kit: &Kit) -> Vec<Arc<Server>> {
        let mut servers = self.servers.of_team(team, &kit.team, &kit.grant.workspace);
        servers
            .retain(|server| kit.grant.allowed.could_allow(&format!("{}.", server.context.key())));
        servers
    }

    /// The models that these profiles are.
    fn models(&self, providers: Read<Providers>) -> Result<Arc<Models>, BriefError> {
        let providers = providers.map_err(|problems| BriefError {
            code: Code::NoProvider,
            message: format!("No providers configured. {problems}"),
        })?;
        let mut models = self.models.lock();
        if let Some(models) = &*models
            && Arc::ptr_eq(&models.providers, &providers)
        {
            return Ok(models.clone());
        }
        self.demo.store(providers.demo, Ordering::Relaxed);
        self.secrets.learn(providers.keys().map(ToOwned::to_owned));
        let masks = providers.keys().map(Mask::hidden);
        let scrubbers = Scrubbers::new(self.vault.clone(), masks);
        let made = Arc::new(Models {
            profiles: profiles(&providers),
            scrubbers: Arc::new(scrubbers),
            engines: Mutex::default(),
            clean: Mutex::default(),
            providers,
        });
        *models = Some(made.clone());
        Ok(made)
    }

    fn make_kit(
        &self,
        name: &TeamName,
        team: Arc<Team>,
        models: Arc<Models>,
        policy: Arc<Policy>,
        agents: config::Engines,
    ) -> Result<Kit, BriefError> {
        let file = self.home.team_file(name.as_str());
        let wrong = |field: &str, reason: String| {
            config_error(format!("{}: {field}: {reason}", file.display()))
        };
        let allowed = ToolFilter::parse(&team.allowed_tools, REGISTRY)
            .map_err(|error| wrong("allowed_tools", error.to_string()))?;
        let allowed = match name.as_str() {
            MAIN => allowed.at_root(),
            _ => allowed.below_root(),
        };
        let mut folders = team.allowed_dirs.clone();
        folders.extend(shared_skills(&self.home));
        let workspace = Workspace::open(&self.home.team(name.as_str()), &folders)
            .map_err(|error| wrong("allowed_dirs", error.to_string()))?;
        let grant = Grant {
            team: name.clone(),
            workspace: Arc::new(workspace),
            allowed,
            sandbox: self.sandbox.clone(),
            secrets: models.scrubbers.clone(),
            rules: self.rules.clone(),
            taint: self.taint.clone(),
            file: team.clone(),
        };
        Ok(Kit { team, models, policy, agents, grant, roles: Mutex::default() })
    }
}

impl Models {
    /// Takes out of a text what nobody may see, now. A conversation is kept in memory, with what was said before
    /// something became a secret.
    fn clean(&self) -> Clean {
        let mut known = self.clean.lock();
        let version = self.scrubbers.vault().version();
        if let Some((of, clean)) = &*known
            && *of == version
        {
            return clean.clone();
        }
        let texts = self.scrubbers.everything();
        let clean: Clean = Arc::new(move |text: &str| match texts.scrub_known(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(cleaned) => Some(cleaned),
        });
        *known = Some((version, clean.clone()));
        clean
    }

    /// What answers for a profile and model; teams that ask for the same share it.
    fn engine(
        &self,
        engines: &Engines,
        chosen: &Profile,
    ) -> Result<Arc<dyn Engine>, UnknownProfile> {
        let mut known = self.engines.lock();
        let key = (chosen.name.clone(), chosen.model.clone());
        if let Some(engine) = known.get(&key) {
            return Ok(engine.clone());
        }
        let engine = engines.native(&self.profiles, &choice(chosen))?;
        known.insert(key, engine.clone());
        Ok(engine)
    }
}

fn is_in_money(caps: &Caps) -> bool {
    caps.usd_per_day.or(caps.usd_per_task).is_some()
}

/// The profiles as engines share them.
fn profiles(providers: &Providers) -> HashMap<String, Arc<Profile>> {
    providers
        .profiles
        .iter()
        .map(|(name, profile)| (name.clone(), Arc::new(profile.clone())))
        .collect()
}

fn choice(chosen: &Profile) -> ModelChoice {
    ModelChoice { profile: chosen.name.clone(), model: Some(chosen.model.clone()) }
}

fn config_error(reason: impl ToString) -> BriefError {
    BriefError { code: Code::ConfigError, message: reason.to_string() }
}

fn unknown(error: impl ToString) -> BriefError {
    BriefError { code: Code::Internal, message: error.to_string() }
}

/// What turns of a team have in common that one look at its files serves.
#[derive(Clone, PartialEq)]
struct Wanted {
    ancestors: Vec<TeamName>,
    options: Options,
    inner: bool,
}

/// What a turn has for itself.
struct OneTurn {
    topic: Option<TopicRef>,
    memory: Arc<str>,
    earlier: Earlier,
    reports: bool,
}

/// How far a look has come.
#[derive(Clone)]
enum Looked {
    Ready(Arc<Ready>),
    /// It must be known what MCP servers and plugins offer.
    Draft(Draft),
}

#[derive(Clone)]
struct Draft {
    budget: Line,
    kit: Arc<Kit>,
    servers: Vec<Arc<Server>>,
    plugins: Settled,
}

/// What the files say to turns that want the same.
struct Ready {
    budget: Line,
    kit: Arc<Kit>,
    part: Arc<Part>,
    composed: Composed,
    tasks: Tasks,
    sessions: Sessions,
    /// Takes secrets out of the names of topics.
    names: Scrubber,
}

/// What a turn is offered from outside.
#[derive(Clone, Default, PartialEq)]
struct Gathered {
    servers: Offers,
    plugins: offers::Offers,
}

fn cut_off() -> BriefError {
    unknown("preparing the turn failed unexpectedly")
}

impl Briefing for Turns {
    fn brief(&self, assignment: Assignment) -> BoxFuture<'static, Result<Brief, BriefError>> {
        let this = self.0.clone();
        let Assignment { lane, generation, topic, ancestors, options, inner, reports, handed } =
            assignment;
        async move {
            let team = TeamKey { name: lane.team, generation };
            let memory = this.memory.injected(&team).await.map_err(unknown)?;
            let earlier = match options.cycle {
                Some(Cycle::Reflection) => this.changes.earlier(&team).await.map_err(unknown)?,
                _ => Earlier::default(),
            };
            let wanted = Wanted { ancestors, options, inner };
            let ready = this.ready_for(&team, &wanted).await?;
            let brief = this.brief(&ready, &wanted, OneTurn { topic, memory, earlier, reports });
            if handed.files.is_empty() {
                return Ok(brief);
            }
            let files = handing::over(&this.files, &ready.kit.grant, handed).await;
            Ok(Brief { files, ..brief })
        }
        .boxed()
    }
}
