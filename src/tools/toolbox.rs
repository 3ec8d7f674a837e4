//! Toolbox: the tools that exist, and the part of them that a team is given.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use hivewright_actors::policy::Visibility;
use parking_lot::Mutex;

#[cfg(test)]
use super::about::About;
use super::{
    concurrency::ConcurrencyLimits,
    grant::Grant,
    host::{Assembled, TeamTools},
    made::{Made, Set, by_wire_name},
};

/// Sets of tools, by the tools' keys and what rules say of them.
type Sets = HashMap<Vec<(String, Visibility)>, Arc<Set>>;

/// The tools that exist, by key.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Arc<BTreeMap<&'static str, Made>>,
    /// Teams with the same tools share them, and what their models are told.
    sets: Arc<Mutex<Sets>>,
    limits: ConcurrencyLimits,
}

impl Toolbox {
    pub fn with(mut self, made: impl IntoIterator<Item = Made>) -> Self {
        let named = made.into_iter().map(|made| (made.tool.about().name, made));
        Arc::make_mut(&mut self.tools).extend(named);
        self
    }

    /// What its tools say of themselves.
    #[cfg(test)]
    pub(crate) fn abouts(&self) -> impl Iterator<Item = About> {
        self.tools.values().map(|made| made.tool.about())
    }

    pub fn limits(&self) -> ConcurrencyLimits {
        self.limits.clone()
    }

    /// The tools of a team, bound to its folders, with those that only it has. Later changes to the grant need another set.
    pub fn assemble(&self, grant: Grant, made: Vec<Made>) -> TeamTools {
        let seen = |made: &Made| Some((made.clone(), made.visibility(&grant)?));
        let shared: Vec<_> = self.tools.values().filter_map(seen).collect();
        let keys = shared.iter().map(|(made, visibility)| (made.key.clone(), *visibility));
        let set = self
            .sets
            .lock()
            .entry(keys.collect())
            .or_insert_with(|| Arc::new(Set::new(&shared, &grant)))
            .clone();
        let own: Vec<_> = made.iter().filter_map(seen).collect();
        let is_own = |made: &Made| own.iter().any(|(own, _)| own.key == made.key);
        TeamTools::new(Assembled {
            specs: set.specs_with(&own, &grant),
            awake: Mutex::default(),
            hidden: made.iter().filter(|made| !is_own(made)).cloned().collect(),
            own: by_wire_name(own.iter().map(|(made, _)| made.clone())),
            set,
            all: Arc::clone(&self.tools),
            grant,
            limits: self.limits.clone(),
        })
    }
}
