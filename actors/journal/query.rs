//! Query of sessions: a filter, and where a session stands in the list.

use super::sessions::Session;
use crate::{
    clock::Timestamp,
    ids::{TeamName, TopicId},
    order::{Part, Window},
};

/// Which sessions are wanted. What is none excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionQuery {
    pub teams: Option<Vec<TeamName>>,
    /// Only of this life of its team.
    pub generation: Option<u32>,
    pub topic: Option<TopicId>,
    /// Only those used since.
    pub since: Timestamp,
}

impl SessionQuery {
    pub(super) fn wants(&self, session: &Session) -> bool {
        // Taken apart, so that a new field which nothing compares is an error.
        let Self { teams, generation, topic, since } = self;
        teams.as_ref().is_none_or(|teams| teams.contains(&session.lane.team))
            && generation.is_none_or(|generation| session.generation == generation)
            && (topic.is_none() || session.lane.topic == *topic)
            && session.updated_at >= *since
    }
}

/// Where a session stands in lists: by its last use, then by its id. Rising is the one not used for longest first.
pub type SessionPlace = (Timestamp, String);

pub type SessionWindow = Window<SessionPlace>;

pub type SessionPage = Part<SessionPlace>;
