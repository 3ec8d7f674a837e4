//! Tree of teams: who is above whom, and what that allows. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    error::OrgError,
    names,
    record::{Capability, TeamRecord, TeamState},
};
use crate::ids::{MAIN, TeamKey, TeamName};

/// A team may be this many levels below the main team.
pub const DEEPEST: usize = 4;

/// How many teams there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Children of one team.
    pub children: usize,
    /// Teams in all, the main team included.
    pub teams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { children: 10, teams: 100 }
    }
}

/// Who wants something done to a team.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    Team(TeamName),
    Operator(String),
}

impl By {
    /// As records keep it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Team(name) => name.as_str(),
            Self::Operator(name) => name,
        }
    }
}

/// All living teams. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    teams: BTreeMap<TeamName, Arc<TeamRecord>>,
    /// How often each name was given.
    generations: BTreeMap<TeamName, u32>,
}

impl Tree {
    /// The tree of these records. Those of teams that are gone only count as generations.
    ///
    /// A team whose parent is not there hangs from the main team.
    pub fn new(records: impl IntoIterator<Item = TeamRecord>) -> Self {
        let mut tree = Self::default();
        for record in records {
            tree.count(&record);
            let newer = tree
                .teams
                .get(&record.name)
                .is_some_and(|known| known.generation > record.generation);
            if record.state != TeamState::Removed && !newer {
                tree.teams.insert(record.name.clone(), Arc::new(record));
            }
        }
        let lost: Vec<TeamName> = tree
            .teams
            .keys()
            .filter(|name| name.as_str() != MAIN && !tree.hangs_from_main(name))
            .cloned()
            .collect();
        for name in lost {
            tracing::warn!(team = %name, "the team above is gone; it hangs from `main` now");
            if let Some(record) = tree.teams.get_mut(&name) {
                Arc::make_mut(record).parent = Some(MAIN.into());
            }
        }
        tree
    }

    fn count(&mut self, record: &TeamRecord) {
        let newest = self.generations.entry(record.name.clone()).or_default();
        *newest = (*newest).max(record.generation);
    }

    fn hangs_from_main(&self, name: &TeamName) -> bool {
        let mut at = name;
        for _ in 0..self.teams.len() {
            match self.teams.get(at).and_then(|team| team.parent.as_ref()) {
                Some(parent) if parent.as_str() == MAIN => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }

    /// A team that is new, or has changed.
    pub fn put(&mut self, record: TeamRecord) {
        self.count(&record);
        if record.state == TeamState::Removed {
            self.teams.remove(&record.name);
        } else {
            self.teams.insert(record.name.clone(), Arc::new(record));
        }
    }

    pub fn len(&self) -> usize {
        self.teams.len()
    }

    /// There is none: only before the first start is through.
    pub fn is_empty(&self) -> bool {
        self.teams.is_empty()
    }

    /// All teams, by name.
    pub fn iter(&self) -> impl Iterator<Item = &TeamRecord> {
        self.teams.values().map(|record| &**record)
    }

    /// A living team.
    pub fn get(&self, name: &str) -> Option<&TeamRecord> {
        self.teams.get(name).map(|record| &**record)
    }

    /// A living team, or that there is none.
    pub fn known(&self, name: &TeamName) -> Result<&TeamRecord, OrgError> {
        self.get(name.as_str()).ok_or_else(|| OrgError::Unknown(name.clone()))
    }

    /// Under which the rows of a living team are kept.
    pub fn key(&self, name: &str) -> Option<TeamKey> {
        self.get(name).map(TeamRecord::key)
    }

    /// The children of a team, by name.
    pub fn children(&self, name: &str) -> impl Iterator<Item = &TeamRecord> {
        let is_parent = move |parent: &TeamName| parent.as_str() == name;
        self.iter().filter(move |team| team.parent.as_ref().is_some_and(is_parent))
    }

    /// The teams above, the nearest first.
    pub fn ancestors(&self, name: &str) -> Vec<TeamName> {
        let mut above = Vec::new();
        let mut at = self.get(name);
        while let Some(parent) = at.and_then(|team| team.parent.clone())
            && above.len() <= self.teams.len()
        {
            at = self.get(parent.as_str());
            above.push(parent);
        }
        above
    }

    pub fn depth(&self, name: &str) -> usize {
        self.ancestors(name).len()
    }

    /// The team and all below it, each before its children.
    pub fn subtree(&self, name: &str) -> Vec<&TeamRecord> {
        let mut found: Vec<&TeamRecord> = self.get(name).into_iter().collect();
        let mut next = 0;
        // A child is put right after what stands before it, so that a branch stays together.
        while let Some(team) = found.get(next) {
            let below: Vec<_> = self.children(team.name.as_str()).collect();
            next += 1;
            found.splice(next..next, below);
        }
        found
    }

    pub fn is_below(&self, name: &str, above: &str) -> bool {
        self.ancestors(name).iter().any(|team| team.as_str() == above)
    }

    /// What a team and all below it take on.
    pub fn effective_scope(&self, name: &str) -> BTreeSet<&str> {
        let teams = self.subtree(name).into_iter();
        teams.flat_map(|team| team.scope.iter().map(String::as_str)).collect()
    }

    pub fn next_generation(&self, name: &TeamName) -> u32 {
        self.generations.get(name).map_or(1, |newest| newest + 1)
    }

    /// Whether a team may be made. `making` are those on their way, with their parents.
    pub fn check_spawn<'a>(
        &self,
        name: &str,
        parent: &TeamName,
        limits: Limits,
        making: impl Iterator<Item = (&'a TeamName, &'a TeamName)> + Clone,
    ) -> Result<TeamName, OrgError> {
        let name = names::check_name(name)?;
        if self.teams.contains_key(&name) || making.clone().any(|(other, _)| *other == name) {
            return Err(OrgError::NameTaken(name));
        }
        let above = self.known(parent)?;
        if above.state == TeamState::Draining {
            return Err(OrgError::Draining(parent.clone()));
        }
        let present = self.depth(parent.as_str());
        if present >= DEEPEST {
            return Err(OrgError::LimitDepth { parent: parent.clone(), limit: DEEPEST, present });
        }
        let coming = making.clone().filter(|(_, above)| *above == parent);
        let present = self.children(parent.as_str()).count() + coming.count();
        if present >= limits.children {
            return Err(OrgError::LimitChildren {
                parent: parent.clone(),
                limit: limits.children,
                present,
            });
        }
        let present = self.len() + making.count();
        if present >= limits.teams {
            return Err(OrgError::LimitTeams { limit: limits.teams, present });
        }
        Ok(name)
    }

    /// The team, if `by` is its parent at this moment, or an operator.
    pub fn as_parent(&self, by: &By, name: &TeamName) -> Result<&TeamRecord, OrgError> {
        let team = self.known(name)?;
        match by {
            By::Operator(_) => Ok(team),
            By::Team(caller) if team.parent.as_ref() == Some(caller) => Ok(team),
            By::Team(caller) => Err(not_authorized(caller, name, "only its direct parent may")),
        }
    }

    /// The team, if `by` may let it rest and work again: an operator, or a team above it that may start and stop
    /// others. What an operator has stopped, and what rests since it kept dying, is left to operators.
    pub fn as_keeper(&self, by: &By, name: &TeamName) -> Result<&TeamRecord, OrgError> {
        let team = self.known(name)?;
        let By::Team(caller) = by else { return Ok(team) };
        if name == caller {
            return Err(OrgError::Own(name.clone()));
        }
        let own = self.known(caller)?;
        let may = caller.as_str() == MAIN || own.capabilities.contains(&Capability::Lifecycle);
        let rule = if !self.is_below(name.as_str(), caller.as_str()) {
            "only the teams above it may"
        } else if !may {
            "that needs the capability `lifecycle`, which an operator gives"
        } else if team.state == TeamState::Paused && team.paused_by.is_none() {
            "an operator has paused it, and an operator resumes it"
        } else if team.state == TeamState::Degraded {
            "it kept dying and rests, which only an operator ends"
        } else {
            return Ok(team);
        };
        Err(not_authorized(caller, name, rule))
    }

    /// The team, if the caller is it, or above it.
    pub fn as_self_or_above(
        &self,
        caller: &TeamName,
        name: &TeamName,
    ) -> Result<&TeamRecord, OrgError> {
        let team = self.known(name)?;
        if name == caller || self.is_below(name.as_str(), caller.as_str()) {
            return Ok(team);
        }
        Err(not_authorized(caller, name, "only the team itself and the teams above it may"))
    }

    /// The team, if it is the caller's parent, child or sibling.
    pub fn as_neighbour(
        &self,
        caller: &TeamName,
        name: &TeamName,
    ) -> Result<&TeamRecord, OrgError> {
        let team = self.known(name)?;
        let own = self.known(caller)?;
        let is_parent = own.parent.as_ref() == Some(name);
        let is_child = team.parent.as_ref() == Some(caller);
        let is_sibling = own.parent.is_some() && own.parent == team.parent && name != caller;
        if is_parent || is_child || is_sibling {
            return Ok(team);
        }
        Err(not_authorized(caller, name, "only its parent, its children and its siblings may"))
    }

    /// Whom a shutdown takes along: the deepest first, the team itself last.
    pub fn check_shutdown(
        &self,
        by: &By,
        name: &TeamName,
        cascade: bool,
    ) -> Result<Vec<TeamRecord>, OrgError> {
        if name.as_str() == MAIN {
            return Err(OrgError::Root);
        }
        let team = self.as_parent(by, name)?;
        let below: Vec<TeamName> =
            self.children(name.as_str()).map(|child| child.name.clone()).collect();
        // One that is going already takes them along whatever is said now.
        if !cascade && !below.is_empty() && team.state != TeamState::Draining {
            return Err(OrgError::HasChildren { team: name.clone(), children: below });
        }
        let mut going: Vec<TeamRecord> = self.subtree(name.as_str()).into_iter().cloned().collect();
        going.reverse();
        Ok(going)
    }
}

fn not_authorized(caller: &TeamName, team: &TeamName, rule: &'static str) -> OrgError {
    OrgError::NotAuthorized { team: team.clone(), caller: caller.to_string(), rule }
}

#[cfg(test)]
mod tests;
