//! Second phase of the start: what turns are made with, and what operators manage it by. Memory, rules, labels of
//! files, tools, prompts and engines, around a store that runs and actors that do not yet.

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

use hivewright_actors::{
    approvals::ports::Deciders,
    briefing::OnHindrance,
    budget::{Days, Ledger},
    clock::Clock,
    org::{
        belongings::{Belongings, Inboxes, Waiting},
        tree::Tree,
    },
    router::Recovered,
    scheduler::{self, index::Board},
    spine::{self, Ports, Spine},
    storage::StorageError,
};

use super::{
    Options,
    error::{ServiceError, machine},
    operator, plugin_packages, public_url,
    storage::Context,
    vault,
};
use crate::{
    briefing::{Sources, Turns, topics::Till},
    browser::{Browsers, Limits, program::Installed},
    engines::{Engines, native::retry::RetryPolicy},
    mcp::Servers,
    memory::Memory,
    plugins::{
        catalogue::Catalogue,
        depot::Depot,
        host::process::Hosts,
        instance::{Grounds, Instances, channel::ChannelGrounds},
    },
    policy::Policies,
    prompt::compose::Prompts,
    retention::Keeper,
    sandbox::egress::Guard,
    system::{WallClock, sha256},
    taint::{self, Taint},
    teams::{
        folders::TeamFolders,
        last_caps::LastCaps,
        self_changes::Changes,
        service::{self, TeamService},
    },
    tools::{
        self, REGISTRY, agent::session::Sessions, org::belongings::Remembered,
        plugin_tool::PluginTools, toolbox::Toolbox, web::Web,
    },
    triggers::{
        admin::{self, TriggerAdmin},
        calendar::Zones,
        expressions::LinearExpressions,
        preconditions::TeamPreconditions,
        upkeep::Triggers,
    },
    vault::scrubbers::Scrubbers,
};

/// What turns are made with.
pub(super) struct Services {
    pub(super) memory: Memory,
    pub(super) changes: Changes,
    pub(super) taint: Taint,
    pub(super) rules: Policies,
    pub(super) team_service: TeamService,
    pub(super) triggers: TriggerAdmin,
    pub(super) preconditions: TeamPreconditions,
    pub(super) servers: Servers,
    /// None if no browser is installed.
    pub(super) browsers: Option<Browsers>,
    pub(super) depot: Depot,
    pub(super) plugins: Instances,
    pub(super) plugin_tools: PluginTools,
    pub(super) turns: Turns,
    pub(super) last_caps: LastCaps,
    ledger: Ledger,
    board: Board,
}

impl Services {
    pub(super) fn open(
        context: &Context,
        spine: &Spine,
        options: Options,
        draining: &Arc<AtomicBool>,
        recovered: &Recovered,
    ) -> Result<Self, ServiceError> {
        let unreadable = |error| machine("the store cannot be read", error);
        let Context { home, live, store, ids, .. } = context;
        let (storage, clock) = (&*context.storage, Arc::new(WallClock));
        let ledger = Ledger::default();
        let tree = Tree::new(recovered.teams.clone());
        let today = context.local.day_of(WallClock.now());
        spine::recover_spending(storage, &ledger, today, &tree).map_err(unreadable)?;
        let guard = Arc::new(vault::Guard::new(&context.vault));
        let memory = Memory::new(store.clone(), clock.clone(), ids.clone(), guard);
        let changes = Changes::new(home.clone(), clock, ids.clone(), store.clone());
        let rules = Policies::open(Some(live.clone()), storage, store.clone(), ids.clone())
            .map_err(unreadable)?;
        let last_caps = LastCaps::open(storage, store.clone()).map_err(unreadable)?;
        let taint = taint(context).map_err(unreadable)?;
        let prompts = Prompts::new(home.clone(), taint.clone());
        let board = Board::default();
        let triggers = TriggerAdmin::new(admin_parts(context, spine, &prompts, &board));
        let depot = plugin_packages::depot(home, live, &spine.view, &tree);
        let team_service = team_service_parts(context, spine, &prompts, &ledger, depot.catalogue());
        let team_service = TeamService::new(team_service);
        let web = Web::default();
        let toolbox = toolbox(options.toolbox, spine, &memory, &team_service, &triggers);
        let browsers = Installed::find().map(|program| browsers(program, context, &web));
        let toolbox = with_web(toolbox, context, &web, browsers.as_ref());
        let agents = Sessions { team_service: team_service.clone(), draining: draining.clone() };
        let (vault, live_events) = (context.vault.clone(), spine.live.clone());
        let servers = Servers::new(context.sandbox.clone(), vault, taint.clone(), live_events);
        let plugins = plugins(context, spine, depot.catalogue()).map_err(unreadable)?;
        let plugin_tools = plugin_tools(context).map_err(unreadable)?;
        let turns = Turns::new(Sources {
            plugin_tools: plugin_tools.clone(),
            rules: rules.clone(),
            servers: servers.clone(),
            plugins: plugins.clone(),
            taint: taint.clone(),
            home: home.clone(),
            live: live.clone(),
            prompts: prompts.clone(),
            engines: engines(context, options.retry, options.launcher),
            toolbox,
            web,
            memory: memory.clone(),
            changes: changes.clone(),
            sandbox: context.sandbox.clone(),
            agents: Some(Arc::new(agents)),
            demo: context.demo.clone(),
            secrets: context.secrets.clone(),
            vault: context.vault.clone(),
            till: till(context, &ledger),
            last_caps: last_caps.clone(),
            files: context.files.clone(),
        });
        let preconditions = preconditions(context, spine, prompts);
        Ok(Self {
            memory,
            changes,
            taint,
            rules,
            team_service,
            triggers,
            preconditions,
            servers,
            browsers,
            depot,
            plugins,
            plugin_tools,
            turns,
            last_caps,
            ledger,
            board,
        })
    }

    pub(super) fn ports(
        &self,
        context: &Context,
        spine: &Spine,
        on_hindrance: OnHindrance,
        deciders: Deciders,
    ) -> Ports {
        Ports {
            briefing: Arc::new(self.turns.clone()),
            classifier: Arc::new(self.turns.clone()),
            clock: Arc::new(WallClock),
            ids: context.ids.clone(),
            on_hindrance,
            ledger: self.ledger.clone(),
            grants: self.rules.grants(),
            deciders,
            days: Arc::new(context.local.clone()),
            secrets: Arc::new(context.vault.clone()),
            digester: sha256,
            approvals_last: context.config.approvals.ttl,
            shown_in: context.channels.discord.operator_places(),
            meter: context.metrics.clone(),
            folders: Arc::new(TeamFolders::new(context.home.clone())),
            belongings: self.belongings(context, spine),
            triggers: scheduler::Ports {
                board: self.board.clone(),
                calendar: Arc::new(Zones),
                expressions: Arc::new(LinearExpressions),
                roster: Arc::new(spine.view.clone()),
                preconditions: Arc::new(self.preconditions.clone()),
                timezone: context.local.name(),
            },
            retention: Arc::new(Keeper { live: context.live.clone(), home: context.home.clone() }),
        }
    }

    /// What goes with a team when it is shut down.
    fn belongings(&self, context: &Context, spine: &Spine) -> Arc<[Arc<dyn Belongings>]> {
        let browsers =
            self.browsers.clone().map(|browsers| Arc::new(browsers) as Arc<dyn Belongings>);
        let others: Vec<Arc<dyn Belongings>> = vec![
            Arc::new(self.memory.clone()),
            Arc::new(context.vault.clone()),
            Arc::new(self.taint.clone()),
            Arc::new(Inboxes(spine.store.clone())),
            Arc::new(Remembered(spine.store.clone())),
            Arc::new(Triggers(spine.scheduler.clone())),
            Arc::new(Waiting(spine.approvals.clone())),
            Arc::new(self.ledger.clone()),
            Arc::new(self.last_caps.clone()),
            Arc::new(self.servers.clone()),
            Arc::new(self.plugins.clone()),
            Arc::new(self.plugin_tools.clone()),
            Arc::new(self.turns.clone()),
        ];
        others.into_iter().chain(browsers).collect()
    }
}

fn preconditions(context: &Context, spine: &Spine, prompts: Prompts) -> TeamPreconditions {
    let Context { home, store, .. } = context;
    let (home, store, view) = (home.clone(), store.clone(), spine.view.clone());
    TeamPreconditions { home, prompts, view, store }
}

/// Which files untrusted turns wrote.
fn taint(context: &Context) -> Result<Taint, StorageError> {
    let (store, ids) = (context.store.clone(), context.ids.clone());
    let kept = taint::Kept { store, clock: Arc::new(WallClock), ids };
    Taint::open(&*context.storage, &context.home.teams(), Some(kept))
}

/// The tools that teams wrote.
fn plugin_tools(context: &Context) -> Result<PluginTools, StorageError> {
    let Context { home, store, ids, .. } = context;
    let (clock, hosts) = (Arc::new(WallClock), Hosts::new(context.sandbox.clone()));
    let (store, ids) = (store.clone(), ids.clone());
    PluginTools::open(&*context.storage, store, clock, ids, home.clone(), hosts)
}

fn engines(context: &Context, retry: RetryPolicy, launcher: PathBuf) -> Engines {
    Engines::new(context.http.clone(), retry)
        .with_vault(context.vault.clone())
        .with_files(context.files.clone())
        .with_agents(context.sandbox.clone(), launcher)
}

fn browsers(program: Installed, context: &Context, web: &Web) -> Browsers {
    Browsers::new(program, context.sandbox.clone(), web.guard.clone(), Limits::default())
}

/// The plugins of all teams.
fn plugins(
    context: &Context,
    spine: &Spine,
    catalogue: &Catalogue,
) -> Result<Instances, StorageError> {
    let grounds = Grounds {
        catalogue: catalogue.clone(),
        sandbox: context.sandbox.clone(),
        guard: Guard::default(),
        vault: context.vault.clone(),
        scrubbers: Arc::new(Scrubbers::new(context.vault.clone(), [])),
        settings: context.live.clone(),
        home: context.home.clone(),
        store: context.store.clone(),
        ids: context.ids.clone(),
        live: spine.live.clone(),
        channels: ChannelGrounds {
            router: spine.router.clone(),
            channel: spine.channel.clone(),
            queue: spine.queue.clone(),
            files: context.files.clone(),
            owner: operator(),
            public_url: public_url(&context.config.server, context.address),
        },
    };
    Instances::open(&*context.storage, grounds)
}

fn toolbox(
    tools: Toolbox,
    spine: &Spine,
    memory: &Memory,
    team_service: &TeamService,
    triggers: &TriggerAdmin,
) -> Toolbox {
    let limits = tools.limits();
    tools
        .with(tools::ask_operator::made(&spine.approvals))
        .with(tools::memory::made(memory))
        .with(tools::org::made(team_service, &limits, REGISTRY))
        .with(tools::triggers::made(triggers))
        .with(tools::trust::made(&spine.router))
        .with(tools::vault::made())
}

fn with_web(tools: Toolbox, context: &Context, web: &Web, browsers: Option<&Browsers>) -> Toolbox {
    let files = &context.files;
    let browsers = browsers.map(|browsers| tools::browser::made(browsers, web, files));
    tools
        .with(tools::send_file::made(files))
        .with(tools::web::made(web))
        .with(browsers.into_iter().flatten())
}

fn till(context: &Context, ledger: &Ledger) -> Till {
    Till {
        ledger: ledger.clone(),
        days: Arc::new(context.local.clone()),
        meter: context.metrics.clone(),
        store: context.store.clone(),
        noting: Arc::default(),
    }
}

/// The subagents of a team, by name. May block.
fn subagents(prompts: &Prompts) -> service::Roster {
    let prompts = prompts.clone();
    Arc::new(move |team| prompts.subagents(team))
}

fn admin_parts(context: &Context, spine: &Spine, prompts: &Prompts, board: &Board) -> admin::Parts {
    admin::Parts {
        scheduler: spine.scheduler.clone(),
        store: spine.store.clone(),
        view: spine.view.clone(),
        clock: Arc::new(WallClock),
        calendar: Arc::new(Zones),
        expressions: Arc::new(LinearExpressions),
        zone: context.local.clone(),
        board: board.clone(),
        subagents: subagents(prompts),
        secrets: Arc::new(context.vault.clone()),
    }
}

fn team_service_parts(
    context: &Context,
    spine: &Spine,
    prompts: &Prompts,
    ledger: &Ledger,
    plugins: &Catalogue,
) -> service::Parts {
    let (ledger, today) = (ledger.clone(), context.local.clone());
    service::Parts {
        org: spine.org.clone(),
        view: spine.view.clone(),
        work: Arc::new(spine.queue.clone()),
        store: spine.store.clone(),
        channel: spine.channel.clone(),
        clock: Arc::new(WallClock),
        ids: context.ids.clone(),
        live: context.live.clone(),
        credentials: Arc::new(context.vault.clone()),
        roster: subagents(prompts),
        plugins: plugins.clone(),
        spent: Arc::new(move |team| ledger.drawn(team, today.day_of(WallClock.now()))),
        keyed: tokio::sync::Mutex::default(),
    }
}
