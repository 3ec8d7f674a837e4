//! `/api/v1/snapshot`: all that a watcher needs to begin with, and where it goes on from there.

use actix_web::web;
use hivewright_actors::channel::CountConnections;

use super::{
    State,
    approvals::{self, PATIENCE, ask},
    call::Call,
    channels,
    error::ApiError,
    overview::{self, Stored},
    reply::Clean,
    routes::{Resource, on},
    teams, topics,
};
use crate::api::{
    questions::QuestionRow,
    reply::Data,
    snapshot::{SHOW_SNAPSHOT, Snapshot},
    topics::RunningTurn,
};

/// A snapshot during which something changed is taken again, so often.
const TRIES: usize = 4;
/// Topics in it, those with the newest activity.
const TOPICS: usize = 200;

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&SHOW_SNAPSHOT, show)]
}

/// What is read after the place is at least as new as the place. If nothing but passing words came
/// meanwhile it is exactly that; otherwise it is taken again, and at last given as it is: events
/// tell what is, not what is added, so that one which is in it already changes nothing.
async fn show(Call { state, caller, .. }: Call) -> Result<Clean<Data<Snapshot>>, ApiError> {
    caller.all_teams()?;
    let mut tries = 1;
    let snapshot = loop {
        let snapshot = take(&state).await?;
        if tries == TRIES || state.spine.live.is_quiet_since(snapshot.seq) {
            break snapshot;
        }
        tries += 1;
    };
    Ok(Clean::new(&state.secrets, Data(snapshot)))
}

async fn take(state: &web::Data<State>) -> Result<Snapshot, ApiError> {
    let (mark, running) = state.spine.live.running();
    let stored = state.spine.store.read(Stored::read).await;
    let stored = stored.map_err(ApiError::internal)?;
    let topics = topics::newest(state, &stored.open, TOPICS).await?;
    let connected = state.spine.channel.send(CountConnections).timeout(PATIENCE);
    let connected = ask(connected.await)?;
    let overview = overview::gathered(state, &stored).await?;
    let open = overview::open_tasks(&stored, state);
    let now = state.access.auth.now();
    let Stored { tree, approvals, questions, .. } = stored;
    Ok(Snapshot {
        boot: mark.boot,
        seq: mark.seq,
        inbox_unread: overview.inbox_unread,
        overview,
        org: teams::tree_of(state, tree, open).await?,
        running: running.into_iter().map(|turn| RunningTurn::new(mark.boot, turn)).collect(),
        approvals: approvals.into_iter().map(|approval| approvals::row(approval, now)).collect(),
        questions: questions.into_iter().map(QuestionRow::from).collect(),
        topics,
        channels: channels::all(state, connected),
        jobs: state.jobs.all(),
    })
}
