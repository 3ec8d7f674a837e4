//! The workshop: what turns are made with. Tools, memory, rules and prompts exist before the spine that
//! works with them, and are connected to it when it runs.

use std::sync::{Arc, atomic::AtomicBool};

use hivewright_actors::{
    briefing::OnHindrance,
    budget::{Days, Ledger},
    clock::Clock,
    ids::Ids,
    live::Publisher,
    org::{self, inboxes::Inboxes, tree::Tree, view::OrgView, waiting::Waiting, work::Actors},
    router::Recovered,
    scheduler::{self, board::Board},
    spine::{self, Ports, Spine},
    team::turn::REPORT_RUN,
};

use super::{
    Options,
    error::{ServiceError, machine},
    ground::Ground,
    vault,
};
use crate::{
    briefing::{Sources, Turns, last_caps::LastCaps, till::Till},
    changes::Changes,
    engines::Engines,
    http::metrics::Metrics,
    machine::{Randomness, WallClock, sha256},
    memory::Memory,
    providers::client,
    retention::Keeper,
    rulebook::Rulebook,
    taint::Taint,
    teams::folders::TeamFolders,
    tools::{
        self,
        agent::session::Sessions,
        ask_operator::Line,
        org::{
            belongings::Remembered,
            office::{self, Office},
        },
        trust::Gate,
    },
    triggers::{
        calendar::Zones,
        desk::{self, Desk},
        expressions::LinearExpressions,
        premises::Outlook,
        upkeep::Triggers,
    },
};

/// What turns are made with.
pub(super) struct Workshop {
    pub(super) ids: Ids,
    pub(super) memory: Memory,
    pub(super) changes: Changes,
    pub(super) taint: Taint,
    pub(super) rules: Rulebook,
    pub(super) office: Office,
    pub(super) desk: Desk,
    pub(super) view: OrgView,
    pub(super) outlook: Outlook,
    pub(super) metrics: Arc<Metrics>,
    pub(super) turns: Turns,
    pub(super) publisher: Publisher,
    gate: Gate,
    line: Line,
    agents: Sessions,
    ledger: Ledger,
    pub(super) last_caps: LastCaps,
    board: Board,
}

impl Workshop {
    /// Makes what there is to make before anything runs.
    pub(super) fn open(
        ground: &Ground,
        options: Options,
        recovered: &Recovered,
    ) -> Result<Self, ServiceError> {
        let unreadable = |error| machine("the store cannot be read", error);
        let ids = Ids::new(Arc::new(Randomness));
        let today = ground.local.day_of(WallClock.now());
        let (view, ledger) = (OrgView::default(), Ledger::default());
        let tree = Tree::new(recovered.teams.clone());
        spine::recover_spending(&*ground.storage, &ledger, today, &tree).map_err(unreadable)?;
        let guard = Arc::new(vault::Guard::new(&ground.vault));
        let memory = Memory::new(Arc::new(WallClock), ids.clone(), guard);
        let changes = Changes::new(ground.home.clone(), Arc::new(WallClock), ids.clone());
        let rules = Rulebook::open(ground.live.clone(), &*ground.storage).map_err(unreadable)?;
        let last_caps = LastCaps::open(&*ground.storage).map_err(unreadable)?;
        let taint = Taint::open(&*ground.storage, &ground.home.teams()).map_err(unreadable)?;
        let (gate, line) = (Gate::default(), Line::default());
        let (office, desk) = (Office::default(), Desk::default());
        let toolbox = tools::memory::add(gate.equip(options.toolbox), &memory);
        let toolbox = tools::vault::add(toolbox);
        let toolbox = tools::org::add(line.equip(toolbox), &office);
        let toolbox = tools::triggers::add(toolbox, &desk);
        let counted = toolbox.classes().map(|(key, _)| key).chain([REPORT_RUN]).map(str::to_owned);
        let metrics = Arc::new(Metrics::new(counted, ground.tap.errors.clone()));
        let http =
            client::build().map_err(|error| machine("the HTTP client cannot be made", error))?;
        let agents = Sessions::default();
        let turns = Turns::new(Sources {
            rules: rules.clone(),
            taint: taint.clone(),
            home: ground.home.clone(),
            live: ground.live.clone(),
            engines: Engines::new(http, options.retry).with_vault(ground.vault.clone()),
            toolbox,
            memory: memory.clone(),
            changes: changes.clone(),
            sandbox: ground.sandbox.clone(),
            agents: Some(Arc::new(agents.clone())),
            demo: ground.demo.clone(),
            secrets: ground.secrets.clone(),
            vault: ground.vault.clone(),
            till: Till {
                ledger: ledger.clone(),
                days: Arc::new(ground.local.clone()),
                meter: metrics.clone(),
            },
            last_caps: last_caps.clone(),
        });
        Ok(Self {
            ids,
            memory,
            changes,
            taint,
            rules,
            office,
            desk,
            outlook: Outlook::new(ground.home.clone(), turns.prompts(), view.clone()),
            view,
            metrics,
            turns,
            publisher: Publisher::new(ground.boot, Arc::new(WallClock)),
            gate,
            line,
            agents,
            ledger,
            last_caps,
            board: Board::default(),
        })
    }

    /// What the spine needs of the edges.
    pub(super) fn ports(&self, ground: &Ground, on_hindrance: OnHindrance) -> Ports {
        let commits = self.metrics.clone();
        Ports {
            storage: ground.storage.clone(),
            on_store_failure: Box::new(|error| {
                // What was not answered may or may not be on the disk: only a new start can tell.
                tracing::error!(%error, "the store failed; stopping at once, run `hivewright doctor`");
                std::process::exit(1);
            }),
            on_store_group: Box::new(move |_, took| commits.committed(took)),
            briefing: Arc::new(self.turns.clone()),
            classifier: Arc::new(self.turns.clone()),
            clock: Arc::new(WallClock),
            ids: self.ids.clone(),
            on_hindrance,
            ledger: self.ledger.clone(),
            grants: self.rules.grants(),
            days: Arc::new(ground.local.clone()),
            secrets: Arc::new(ground.vault.clone()),
            digester: sha256,
            approvals_last: ground.config.approvals.ttl,
            meter: self.metrics.clone(),
            live: self.publisher.clone(),
            folders: Arc::new(TeamFolders::new(ground.home.clone())),
            view: self.view.clone(),
            triggers: scheduler::Ports {
                board: self.board.clone(),
                calendar: Arc::new(Zones),
                expressions: Arc::new(LinearExpressions),
                roster: Arc::new(self.view.clone()),
                premises: Arc::new(self.outlook.clone()),
                timezone: ground.local.name(),
                retention: Arc::new(Keeper::new(ground.live.clone(), ground.home.clone())),
            },
        }
    }

    /// Gives everything the spine that runs now.
    pub(super) async fn connect(&self, ground: &Ground, spine: &Spine, draining: &Arc<AtomicBool>) {
        let vault = &ground.vault;
        self.memory.connect(spine.store.clone());
        self.changes.connect(spine.store.clone());
        self.last_caps.connect(spine.store.clone());
        self.taint.connect(spine.store.clone(), Arc::new(WallClock), self.ids.clone());
        self.rules.connect(spine.store.clone(), self.ids.clone());
        vault::attach(vault, &spine.store, &self.ids);
        // What a crash cut off.
        vault.redact().await;
        spine.org.do_send(org::Settle {
            belongings: vec![
                Arc::new(self.memory.clone()),
                Arc::new(vault.clone()),
                Arc::new(self.taint.clone()),
                Arc::new(Inboxes(spine.store.clone())),
                Arc::new(Remembered(spine.store.clone())),
                Arc::new(Triggers(spine.scheduler.clone())),
                Arc::new(Waiting(spine.approvals.clone())),
                Arc::new(self.ledger.clone()),
                Arc::new(self.last_caps.clone()),
            ],
        });
        self.outlook.connect(spine.store.clone());
        let prompts = self.turns.clone();
        let roster: office::Roster = Arc::new(move |team| prompts.subagents(team));
        self.desk.open(desk::Parts {
            scheduler: spine.scheduler.clone(),
            store: spine.store.clone(),
            view: self.view.clone(),
            clock: Arc::new(WallClock),
            calendar: Arc::new(Zones),
            expressions: Arc::new(LinearExpressions),
            zone: ground.local.clone(),
            board: self.board.clone(),
            subagents: roster.clone(),
            secrets: Arc::new(vault.clone()),
        });
        let (ledger, today) = (self.ledger.clone(), ground.local.clone());
        self.office.open(office::Parts {
            org: spine.org.clone(),
            view: self.view.clone(),
            work: Arc::new(Actors { queue: spine.queue.clone() }),
            store: spine.store.clone(),
            channel: spine.channel.clone(),
            clock: Arc::new(WallClock),
            ids: self.ids.clone(),
            live: ground.live.clone(),
            credentials: Arc::new(vault.clone()),
            roster,
            spent: Arc::new(move |team| ledger.drawn(team, today.day_of(WallClock.now()))),
        });
        self.gate.open(spine.router.clone());
        self.line.open(spine.approvals.clone());
        self.agents.connect(
            spine.queue.clone(),
            spine.store.clone(),
            Arc::new(WallClock),
            draining.clone(),
        );
    }
}
