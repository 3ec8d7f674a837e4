//! Query of sessions: a filter, and where a session stands in the list.

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

/// Where a session stands in lists: by its last use, then by its id. Rising is the one not used for longest first.
pub type SessionPlace = (Timestamp, String);

pub type SessionWindow = Window<SessionPlace>;

pub type SessionPage = Part<SessionPlace>;
