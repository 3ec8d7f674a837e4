//! Query of the audit: a filter, and where a line stands in the list.

use crate::{
    clock::Timestamp,
    order::{Part, Window},
};

/// Which lines of the audit are wanted. What is none excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditQuery {
    pub actor: Option<String>,
    /// This action, or all of its kind: `approval` is all that is done with approvals.
    pub action: Option<String>,
    /// Only tool calls of this team.
    pub team: Option<String>,
    pub tool: Option<String>,
    /// The word of what was decided on a call.
    pub decision: Option<&'static str>,
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// Only with these words, which are in lower case.
    pub words: Option<String>,
}

/// What lines of the audit have in common: there are few that differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditFacet<'a> {
    pub actor: &'a str,
    pub action: &'a str,
    /// Of a tool call, as the next two.
    pub team: Option<&'a str>,
    pub tool: Option<&'a str>,
    pub decision: Option<&'a str>,
}

impl AuditQuery {
    pub fn wants(&self, facet: AuditFacet<'_>) -> bool {
        // Taken apart, so that a new field which nothing compares is an error.
        let Self { actor, action, team, tool, decision, since: _, until: _, words: _ } = self;
        let is = |wanted: &Option<String>, found| wanted.is_none() || wanted.as_deref() == found;
        let of_kind = |wanted: &String| {
            let rest = facet.action.strip_prefix(wanted.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        is(actor, Some(facet.actor))
            && is(team, facet.team)
            && is(tool, facet.tool)
            && (decision.is_none() || *decision == facet.decision)
            && action.as_ref().is_none_or(of_kind)
    }

    /// All facets are wanted.
    pub fn wants_all(&self) -> bool {
        let Self { actor, action, team, tool, decision, since: _, until: _, words: _ } = self;
        [actor, action, team, tool].iter().all(|wanted| wanted.is_none()) && decision.is_none()
    }
}

/// Where a line stands in lists: by its moment, then by its id. Rising is oldest first.
pub type AuditPlace = (Timestamp, String);

pub type AuditWindow = Window<AuditPlace>;

pub type AuditPage = Part<AuditPlace>;
