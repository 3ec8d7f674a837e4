//! `/api/v1/overview` and `/api/v1/snapshot`: the state of the service at a glance, and all that a watcher
//! of events begins with.

use actix_web::web;
use hivewright_actors::{
    approvals::{question::Question, record::Approval, records},
    blocking,
    channel::CountConnections,
    clock::Timestamp,
    ids::{MAIN, TeamName},
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

use super::{approvals, channels, teams, topics};
use crate::{
    api::{
        overview::*, questions::QuestionRow, reply::*, snapshot::*, topics::RunningTurn, when::date,
    },
    http::{
        kit::{ask::ask, call::*, error::*},
        state::State,
    },
};

/// A snapshot during which something changed is taken again, so often.
const TRIES: usize = 4;
/// Topics in it, those with the newest activity.
const TOPICS: usize = 200;

/// What the store says, all of it as new as the last commit.
struct Stored {
    tree: Tree,
    open: Vec<tasks::OpenWork>,
    approvals: Vec<Approval>,
    questions: Vec<Question>,
    unread: usize,
}

impl Stored {
    /// Reads it. Blocks.
    fn read(storage: &dyn Storage) -> Result<Self, StorageError> {
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

    /// The open tasks as rows want them.
    fn open_tasks(&self, now: Timestamp) -> Vec<OpenTask> {
        self.open.iter().map(|work| OpenTask::of(work, now)).collect()
    }
}

async fn gathered(state: &web::Data<State>, stored: &Stored) -> ApiResult<Overview> {
    let connected = ask(&state.spine.channel, CountConnections).await?;
    let service = state.service.clone();
    let bytes = blocking::run(move || (service.store_bytes(), service.free_bytes()));
    let (store_bytes, free_bytes) = bytes.await?;
    let today = state.days.day_of(state.now());
    Ok(Overview {
        uptime_s: state.started.elapsed().as_secs(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        demo: state.service.is_demo(),
        store_bytes,
        disk: state.spine.store.room().space(),
        free_bytes,
        teams: count_teams(state, &stored.tree).await?,
        tasks: stored.tasks(),
        triggers: ask(&state.spine.scheduler, views::Count).await?,
        channels: channels::all(state, connected),
        settings_error: (state.service.settings_fault())
            .or_else(|| state.service.providers_fault())
            .map(|fault| state.secrets.scrub(&fault)),
        approvals_open: stored.approvals.len(),
        questions_open: stored.questions.len(),
        inbox_unread: stored.unread,
        spend_today_usd: (state.org().spent)(&MAIN.into()).usd,
        today: today.date(),
        today_ends_at: date(today.ends_at),
        drain: state.service.is_draining(),
    })
}

async fn count_teams(state: &web::Data<State>, tree: &Tree) -> ApiResult<TeamCounts> {
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
    let (able, files) = (active.len(), state.clone());
    let wrong = blocking::run(move || {
        let is_wrong = |name: &&TeamName| files.org().live.team_now(name).is_err();
        active.iter().filter(is_wrong).count()
    });
    let wrong = wrong.await?;
    teams.active = able - wrong;
    teams.degraded += wrong;
    Ok(teams)
}

pub(super) async fn show(Call { state, caller, .. }: Call) -> ApiResult<Data<Overview>> {
    caller.all_teams()?;
    let stored = state.read(Stored::read).await?;
    gathered(&state, &stored).await.map(Data)
}

/// What is read after the place is at least as new as the place. If nothing but passing words came
/// meanwhile it is exactly that; otherwise it is taken again, and at last given as it is: events
/// tell what is, not what is added, so that one which is in it already changes nothing.
pub(super) async fn show_snapshot(Call { state, caller, .. }: Call) -> ApiResult<Data<Snapshot>> {
    caller.all_teams()?;
    let mut tries = 1;
    loop {
        let snapshot = take(&state).await?;
        if tries == TRIES || state.spine.live.is_quiet_since(snapshot.seq) {
            return Ok(Data(snapshot));
        }
        tries += 1;
    }
}

async fn take(state: &web::Data<State>) -> ApiResult<Snapshot> {
    let (mark, running) = state.spine.live.running();
    let stored = state.read(Stored::read).await?;
    let topics = topics::newest(state, &stored.open, TOPICS).await?;
    let overview = gathered(state, &stored).await?;
    let now = state.now();
    let open = stored.open_tasks(now);
    let Stored { tree, approvals, questions, .. } = stored;
    Ok(Snapshot {
        boot: mark.boot,
        seq: mark.seq,
        inbox_unread: overview.inbox_unread,
        channels: overview.channels.clone(),
        overview,
        org: teams::tree_of(state, tree, open).await?,
        running: running.into_iter().map(|turn| RunningTurn::new(mark.boot, turn)).collect(),
        approvals: approvals.into_iter().map(|approval| approvals::row(approval, now)).collect(),
        questions: questions.into_iter().map(QuestionRow::from).collect(),
        topics,
        jobs: state.jobs.all(),
    })
}
