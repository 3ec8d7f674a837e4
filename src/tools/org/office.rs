//! What the organisation tools work with.

use std::sync::Arc;

use actix::{Addr, dev::ToEnvelope};
use hivewright_actors::{
    budget::Spent,
    channel::{Channel, Deliver},
    clock::{Clock, Timestamp},
    ids::{Ids, TeamName},
    org::{
        Org,
        error::OrgError,
        record::{TeamRecord, TeamState},
        tree::Tree,
        view::OrgView,
        work::Work,
    },
    queue::refusal::Refusal,
    store::{StoreError, StoreHandle, reads::get, records::Writes},
    text::Span,
    tool::records::Answer,
};
use serde::de::DeserializeOwned;

use super::credentials::Credentials;
use crate::{
    settings::live::Live,
    tools::{
        answer,
        contract::{ToolContext, ToolError},
    },
};

/// The subagents of a team, by name. May block.
pub type Roster = Arc<dyn Fn(&TeamName) -> Vec<String> + Send + Sync>;

/// What a team and all below it have spent today.
pub type Spending = Arc<dyn Fn(&TeamName) -> Spent + Send + Sync>;

/// Where teams are made, managed and let go. Cheap to clone.
#[derive(Clone)]
pub struct Office(Arc<Parts>);

/// What is in the office.
pub struct Parts {
    /// Makes teams and lets them go.
    pub org: Addr<Org>,
    /// Who is above whom.
    pub view: OrgView,
    /// The queue.
    pub work: Arc<dyn Work>,
    /// Records.
    pub store: StoreHandle,
    /// The way out.
    pub channel: Addr<Channel>,
    /// Wall time.
    pub clock: Arc<dyn Clock>,
    /// Fresh ids.
    pub ids: Ids,
    /// Settings as they are now.
    pub live: Live,
    /// Where secrets of new teams go.
    pub credentials: Arc<dyn Credentials>,
    /// Who works in a team.
    pub roster: Roster,
    pub spent: Spending,
}

impl Office {
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    pub fn parts(&self) -> &Parts {
        &self.0
    }
}

impl Parts {
    /// The tree at this moment.
    pub(super) fn tree(&self) -> Arc<Tree> {
        self.view.now()
    }

    /// Asks the organisation for a change.
    pub(super) async fn ask<M, T>(&self, message: M) -> Result<T, ToolError>
    where
        M: actix::Message<Result = Result<T, OrgError>> + Send + 'static,
        T: Send + 'static,
        Org: actix::Handler<M>,
        <Org as actix::Actor>::Context: ToEnvelope<Org, M>,
    {
        match self.org.send(message).await {
            Ok(result) => result.map_err(no),
            Err(_) => Err(no(OrgError::Stopping)),
        }
    }

    /// The answer that an earlier try of this call was given.
    pub(super) async fn earlier<T: DeserializeOwned + Send + 'static>(
        &self,
        cx: &ToolContext,
        part: &str,
    ) -> Result<Option<T>, ToolError> {
        if !cx.rerun {
            return Ok(None);
        }
        let key = format!("{}{part}", cx.key);
        let read = self.store.read(move |storage| get::<Answer<T>>(storage, &key));
        let found = read.await.map_err(|error| ToolError::failed(error.to_string()))?;
        Ok(found.map(|Answer(answer)| answer))
    }

    /// Commits what needs no task, and sends the frames in it.
    pub(super) async fn commit(&self, writes: Writes) -> Result<(), ToolError> {
        let frames = self.store.commit(writes).await.map_err(|error| match error {
            StoreError::TooLarge(_) => answer::refuse("invalid_input", error.to_string()),
            other => ToolError::failed(other.to_string()),
        })?;
        self.channel.do_send(Deliver { frames });
        Ok(())
    }

    /// What the caller should know of a team that does not work at the moment.
    pub(super) async fn note(&self, team: &TeamRecord) -> Option<String> {
        let name = &team.name;
        match self.state(team).await {
            TeamState::Paused => Some(format!(
                "team `{name}` is paused: the task waits until an operator resumes it"
            )),
            TeamState::Degraded => Some(format!(
                "team `{name}` is degraded: the task waits until it has rested, or until an operator cures its settings"
            )),
            _ => None,
        }
    }

    /// The state of a team, its file considered.
    pub(super) async fn state(&self, team: &TeamRecord) -> TeamState {
        match team.state {
            TeamState::Active if self.live.team(&team.name).await.is_err() => TeamState::Degraded,
            state => state,
        }
    }
}

/// The organisation says no.
pub(super) fn no(error: OrgError) -> ToolError {
    match error {
        OrgError::Busy(_) => answer::refuse_with(
            error.code(),
            error.to_string(),
            serde_json::json!({"retry_after_ms": 1_000}),
        ),
        error => answer::refuse(error.code(), error.to_string()),
    }
}

/// The queue says no.
pub(super) fn refused(team: &TeamName, refusal: &Refusal) -> ToolError {
    answer::refuse(refusal.code(), format!("`{team}`: {refusal}"))
}

/// A moment as a model writes it: RFC 3339, or a duration that is counted with `from`.
pub(super) fn moment(
    text: &str,
    from: impl FnOnce(std::time::Duration) -> Timestamp,
) -> Option<Timestamp> {
    match text.parse::<Span>() {
        Ok(span) => Some(from(span.0)),
        Err(_) => crate::time::parse(text),
    }
}
