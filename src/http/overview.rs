//! `/api/v1/overview`: the state of the service at a glance.

use actix_web::web;
use hivewright_actors::{
    approvals::records,
    channel::CountConnections,
    ids::MAIN,
    notice::{Brief, Notice, groups},
    org::{
        record::{TeamRecord, TeamState},
        tree::Tree,
    },
    queue::submit::OpenTask,
    scheduler::views,
    storage::{Storage, StorageError},
    store::reads::{Range, scan},
    task::records as tasks,
};

use super::{
    State,
    approvals::{PATIENCE, ask},
    call::Call,
    channels,
    error::ApiError,
    routes::{Resource, on},
    teams::parts,
};
use crate::api::{
    overview::{Overview, SHOW_OVERVIEW, TaskCounts, TeamCounts, TriggerCounts},
    reply::Data,
};

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&SHOW_OVERVIEW, show)]
}

/// What the store says, all of it as new as the last commit.
pub(super) struct Stored {
    pub(super) tree: Tree,
    pub(super) open: Vec<tasks::OpenWork>,
    pub(super) approvals: Vec<hivewright_actors::approvals::record::Approval>,
    pub(super) questions: Vec<hivewright_actors::approvals::question::Question>,
    unread: usize,
}

impl Stored {
    /// Reads it. Blocks.
    pub(super) fn read(storage: &dyn Storage) -> Result<Self, StorageError> {
        let (mut unread, mut groups_unread) = (Vec::new(), 0);
        Range::<Notice>::all().for_each(storage, &mut |notice| {
            // A group with one that is unread is unread.
            if !notice.read {
                unread.push(Brief::from(&notice));
            }
        })?;
        groups(unread, &mut |_| groups_unread += 1);
        Ok(Self {
            tree: Tree::new(scan::<TeamRecord>(storage, Range::all())?),
            open: tasks::open_work(storage)?,
            approvals: records::waiting(storage)?,
            questions: records::waiting(storage)?,
            unread: groups_unread,
        })
    }

    fn tasks(&self) -> TaskCounts {
        let mut tasks = TaskCounts::default();
        for work in &self.open {
            match (&work.parked, &work.lease) {
                (Some(_), _) => tasks.waiting += 1,
                (None, Some(_)) => tasks.running += 1,
                (None, None) => tasks.queued += 1,
            }
        }
        tasks
    }
}

/// Puts it together.
pub(super) async fn gathered(
    state: &web::Data<State>,
    stored: &Stored,
) -> Result<Overview, ApiError> {
    let channel = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = ask(channel.await)?;
    let triggers = triggers(state).await?;
    let service = state.service.clone();
    let bytes = tokio::task::spawn_blocking(move || (service.store_bytes(), service.free_bytes()));
    let (store_bytes, free_bytes) = bytes.await.map_err(ApiError::internal)?;
    let parts = parts(state);
    Ok(Overview {
        uptime_s: state.started.elapsed().as_secs(),
        version: super::VERSION.to_owned(),
        demo: state.service.is_demo(),
        store_bytes,
        disk: state.spine.store.room().space(),
        free_bytes,
        teams: teams(state, &stored.tree).await?,
        tasks: stored.tasks(),
        triggers,
        channels: channels::all(state, connected),
        settings_error: (state.service.settings_fault())
            .or_else(|| state.service.providers_fault())
            .map(|fault| state.secrets.scrub(&fault)),
        approvals_open: stored.approvals.len(),
        questions_open: stored.questions.len(),
        inbox_unread: stored.unread,
        spend_today_usd: (parts.spent)(&MAIN.into()).usd,
        drain: state.service.is_draining(),
    })
}

async fn teams(state: &web::Data<State>, tree: &Tree) -> Result<TeamCounts, ApiError> {
    let mut teams = TeamCounts {
        total: tree.len(),
        alive: state.spine.directory.len(),
        ..TeamCounts::default()
    };
    let mut active = Vec::new();
    for team in tree.iter() {
        match team.state {
            TeamState::Active => active.push(team.name.clone()),
            TeamState::Paused => teams.paused += 1,
            TeamState::Degraded => teams.degraded += 1,
            TeamState::Draining | TeamState::Removed => {}
        }
    }
    // A team is degraded as long as its file is wrong.
    let files = state.clone();
    let checked = tokio::task::spawn_blocking(move || {
        let live = &self::parts(&files).live;
        let is_wrong = |name: &&hivewright_actors::ids::TeamName| live.team_now(name).is_err();
        (active.len(), active.iter().filter(is_wrong).count())
    });
    let (able, wrong) = checked.await.map_err(ApiError::internal)?;
    teams.active = able - wrong;
    teams.degraded += wrong;
    Ok(teams)
}

async fn triggers(state: &State) -> Result<TriggerCounts, ApiError> {
    let counts = state.spine.scheduler.send(views::Count).timeout(PATIENCE);
    let counts = ask(counts.await)?;
    Ok(TriggerCounts { total: counts.total, active: counts.active, disabled: counts.disabled })
}

/// The open tasks of the store as rows want them.
pub(super) fn open_tasks(stored: &Stored, state: &State) -> Vec<OpenTask> {
    let now = state.access.auth.now();
    let open = stored.open.iter().map(|work| OpenTask::of(work, now));
    open.collect()
}

async fn show(Call { state, caller, .. }: Call) -> Result<Data<Overview>, ApiError> {
    caller.all_teams()?;
    let stored = state.spine.store.read(Stored::read).await;
    let stored = stored.map_err(ApiError::internal)?;
    gathered(&state, &stored).await.map(Data)
}
