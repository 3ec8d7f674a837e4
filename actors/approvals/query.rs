//! Query of approvals or questions: a filter, and where one stands in the list.

use crate::{
    clock::Timestamp,
    ids::TeamName,
    order::{Part, Window},
};

/// Which approvals or questions are wanted, and by what they are sorted. What is none excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitQuery {
    pub teams: Option<Vec<TeamName>>,
    pub status: Option<&'static str>,
    pub kind: Option<&'static str>,
    pub rank: WaitRank,
}

/// What a list of approvals or questions is sorted by; those that are equal in it by their ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitRank {
    /// When somebody began to wait.
    #[default]
    Created,
    /// When nobody waits any more.
    Expires,
}

/// What approvals or questions have in common: there are few that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitFacet<'a> {
    pub team: &'a str,
    pub status: &'a str,
    pub kind: &'a str,
}

impl WaitQuery {
    pub fn wants(&self, facet: WaitFacet<'_>) -> bool {
        // Taken apart, so that a new field which nothing compares is an error.
        let Self { teams, status, kind, rank: _ } = self;
        let of_team = |teams: &Vec<TeamName>| teams.iter().any(|team| team.as_str() == facet.team);
        teams.as_ref().is_none_or(of_team)
            && status.is_none_or(|status| status == facet.status)
            && kind.is_none_or(|kind| kind == facet.kind)
    }
}

/// Where an approval or a question stands in lists: by its rank, then by its id.
pub type WaitPlace = (Timestamp, String);

pub type WaitWindow = Window<WaitPlace>;

pub type WaitPage = Part<WaitPlace>;
