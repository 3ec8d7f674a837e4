//! Team service: teams are made, managed and let go by it, for tools and operators alike.

use std::sync::Arc;

use actix::Addr;
use hivewright_actors::{
    budget::Spent,
    channel::Channel,
    clock::Clock,
    ids::{Ids, TeamName},
    org::{
        Org,
        record::{TeamRecord, TeamState},
        tree::Tree,
        view::OrgView,
        work::Work,
    },
    store::StoreHandle,
};

use super::credentials::Credentials;
use crate::{plugins::catalogue::Catalogue, settings::live::Live};

/// The subagents of a team, by name. May block.
pub type Roster = Arc<dyn Fn(&TeamName) -> Vec<String> + Send + Sync>;

/// What a team and all below it have spent today.
pub type Spending = Arc<dyn Fn(&TeamName) -> Spent + Send + Sync>;

/// Cheap to clone.
#[derive(Clone)]
pub struct TeamService(Arc<Parts>);

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

impl TeamService {
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    pub fn parts(&self) -> &Parts {
        &self.0
    }
}

impl Parts {
    pub(crate) fn tree(&self) -> Arc<Tree> {
        self.view.now()
    }

    /// The team above another; none is above the main team.
    pub(crate) fn parent_of(&self, team: &TeamName) -> Option<TeamName> {
        self.tree().known(team).ok()?.parent.clone()
    }

    /// What the caller should know of a team that does not work at the moment.
    pub(crate) async fn note(&self, team: &TeamRecord) -> Option<String> {
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
    pub(crate) async fn state(&self, team: &TeamRecord) -> TeamState {
        match team.state {
            TeamState::Active if self.live.team(&team.name).await.is_err() => TeamState::Degraded,
            state => state,
        }
    }
}
