//! What the organisation tools work with.

use std::sync::Arc;

use actix::{Addr, dev::ToEnvelope};
use hivewright_actors::{
    budget::Spent,
    channel::{Channel, Deliver},
    clock::Clock,
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
    storage::StorageError,
    store::{StoreError, StoreHandle, reads::get, records::Writes},
    tool::records::Answer,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::credentials::Credentials;
use crate::{
    plugins::catalogue::Catalogue,
    settings::live::Live,
    tools::{answer, contract::ToolContext, error::ToolError},
};

/// The subagents of a team, by name. May block.
pub type Roster = Arc<dyn Fn(&TeamName) -> Vec<String> + Send + Sync>;

/// What a team and all below it have spent today.
pub type Spending = Arc<dyn Fn(&TeamName) -> Spent + Send + Sync>;

/// Where teams are made, managed and let go. Cheap to clone.
#[derive(Clone)]
pub struct Office(Arc<Parts>);

pub struct Parts {
    pub org: Addr<Org>,
    pub view: OrgView,
    pub work: Arc<dyn Work>,
    pub store: StoreHandle,
    pub channel: Addr<Channel>,
    pub clock: Arc<dyn Clock>,
    pub ids: Ids,
    pub live: Live,
    /// Where secrets of new teams go.
    pub credentials: Arc<dyn Credentials>,
    pub roster: Roster,
    /// No team takes the name that a plugin's tools have before theirs.
    pub plugins: Catalogue,
    pub spent: Spending,
    /// Work with an idempotency key is given one at a time: the key is looked up and remembered in one go.
    pub keyed: tokio::sync::Mutex<()>,
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
    pub(super) fn tree(&self) -> Arc<Tree> {
        self.view.now()
    }

    /// The team above another; none is above the main team.
    pub(super) fn parent_of(&self, team: &TeamName) -> Option<TeamName> {
        self.tree().known(team).ok()?.parent.clone()
    }

    pub(super) async fn ask<M, T>(&self, message: M) -> Result<T, ToolError>
    where
        M: actix::Message<Result = Result<T, OrgError>> + Send + 'static,
        T: Send + 'static,
        Org: actix::Handler<M>,
        <Org as actix::Actor>::Context: ToEnvelope<Org, M>,
    {
        Ok(self.org.send(message).await.unwrap_or(Err(OrgError::Stopping))?)
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
        let found = self.store.read(move |storage| get::<Answer<T>>(storage, &key)).await?;
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
            TeamState::Paused => {
                let who = match &team.paused_by {
                    Some(team) => format!("`{team}` or an operator"),
                    None => "an operator".to_owned(),
                };
                Some(format!("team `{name}` is paused: the task waits until {who} resumes it"))
            }
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

impl From<OrgError> for ToolError {
    fn from(error: OrgError) -> Self {
        let fields = match error {
            OrgError::Busy(_) => json!({ "retry_after_ms": 1_000 }),
            _ => Value::Null,
        };
        answer::refuse_with(error.code(), error.to_string(), fields)
    }
}

impl From<StorageError> for ToolError {
    fn from(error: StorageError) -> Self {
        Self::failed(error.to_string())
    }
}

pub(super) fn refused(team: &TeamName, refusal: &Refusal) -> ToolError {
    answer::refuse(refusal.code(), format!("`{team}`: {refusal}"))
}
