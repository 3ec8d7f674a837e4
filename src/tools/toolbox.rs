//! Toolbox: the tools that exist, and the part of them that a team is given.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use hivewright_actors::{
    ids::TeamName,
    policy::Standing,
    tool::{ToolSpec, Toolset, specs::ToolSpecs},
};

use super::{
    contract::Tool,
    filter::ToolFilter,
    host::{Assembled, TeamTools},
    hosted::{Host, Hosted},
    pools::Pools,
    registry,
    wire::wire_name,
};
use crate::{
    policy::Policies,
    sandbox::{process::Sandbox, workspace::Workspace},
    settings::team::Team,
    taint::Taint,
    vault::scrubbers::Scrubbers,
};

/// How the description of a tool ends whose calls a person decides on.
const ASKS: &str = " (asks the operator)";

/// Sets of tools, by the tools' keys and what rules say of them.
type Sets = HashMap<Vec<(String, Standing)>, Arc<Set>>;

/// The tools that exist, by key.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: Arc<BTreeMap<&'static str, Made>>,
    /// Teams with the same tools share them, and what their models are told.
    sets: Arc<Mutex<Sets>>,
    pools: Pools,
}

/// A tool under the key that it is configured and called by.
#[derive(Clone)]
pub struct Made {
    pub(super) key: String,
    pub(super) tool: Arc<dyn Hosted>,
}

impl Made {
    /// A tool by its canonical key. Where many are made of one type, [`Tool::ABOUT`] does not count.
    pub fn new<T: Tool>(key: impl Into<String>, tool: T) -> Self {
        Self { key: key.into(), tool: Arc::new(Host::new(tool)) }
    }

    /// Where models are told of it: group by group, and by key within one.
    fn place(&self) -> (Option<usize>, String) {
        (registry::place(self.tool.about().group), self.key.clone())
    }

    /// What a model is told of it.
    fn spec(&self, standing: Standing, grant: &Grant) -> ToolSpec {
        let mut spec = self.tool.spec(wire_name(&self.key), &grant.sandbox);
        if standing == Standing::Asks {
            spec.description.push_str(ASKS);
        }
        spec
    }
}

/// What one team is given.
#[derive(Clone)]
pub struct Grant {
    pub team: TeamName,
    pub workspace: Arc<Workspace>,
    pub allowed: ToolFilter,
    pub sandbox: Arc<Sandbox>,
    /// The secrets it uses and must not see.
    pub secrets: Arc<Scrubbers>,
    /// What the operator allows, denies or wants to be asked for.
    pub rules: Policies,
    /// Which files untrusted turns wrote.
    pub taint: Taint,
    /// What its file says.
    pub file: Arc<Team>,
}

impl Grant {
    /// A text without the secrets that the team must not see. Whoever shortens one does it afterwards: half a secret is
    /// not known as one.
    pub(super) fn scrub<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.of(&self.team).scrub(text)
    }

    /// What rules say of a tool; none if the team must not see it.
    fn standing(&self, made: &Made) -> Option<Standing> {
        let about = made.tool.about();
        let (team, now) = (self.team.as_str(), self.rules.time());
        let classes: Vec<_> = [about.class].into_iter().chain(about.other_class).collect();
        let standing = self.rules.now().standing(team, &made.key, &classes, about.effect, now);
        let shown = self.allowed.allows(&made.key) && standing != Standing::Hidden;
        shown.then_some(standing)
    }
}

impl Toolbox {
    pub fn with<T: Tool>(mut self, tool: T) -> Self {
        Arc::make_mut(&mut self.tools).insert(T::ABOUT.name, Made::new(T::ABOUT.name, tool));
        self
    }

    pub fn pools(&self) -> Pools {
        self.pools.clone()
    }

    pub fn classes(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.tools.iter().map(|(key, made)| (*key, made.tool.about().class))
    }

    /// The tools of a team, bound to its folders. Later changes to the grant need another set.
    pub fn for_team(&self, grant: Grant) -> Arc<dyn Toolset> {
        Arc::new(self.assemble(grant, Vec::new()))
    }

    /// The same with tools that only this team has.
    pub fn assemble(&self, grant: Grant, made: Vec<Made>) -> TeamTools {
        let seen = |made: &Made| Some((made.clone(), grant.standing(made)?));
        let shared: Vec<_> = self.tools.values().filter_map(seen).collect();
        let keys = shared.iter().map(|(made, standing)| (made.key.clone(), *standing));
        let set = self
            .sets
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
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
            pools: self.pools.clone(),
        })
    }
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.tools.keys()).finish()
    }
}

pub(super) fn by_wire_name(made: impl IntoIterator<Item = Made>) -> BTreeMap<String, Made> {
    made.into_iter().map(|made| (wire_name(&made.key), made)).collect()
}

/// What models are told of tools that a team has for itself, and of all its tools with them.
type Longer = (Vec<ToolSpec>, Weak<ToolSpecs>);

/// Tools that several teams have.
pub(super) struct Set {
    pub(super) tools: BTreeMap<String, Made>,
    specs: Arc<ToolSpecs>,
    /// For teams that have others beside them.
    longer: Mutex<Vec<Longer>>,
}

impl Set {
    fn new(shared: &[(Made, Standing)], grant: &Grant) -> Self {
        let specs = shared.iter().map(|(made, standing)| (made, made.spec(*standing, grant)));
        Self {
            specs: in_order(specs),
            tools: by_wire_name(shared.iter().map(|(made, _)| made.clone())),
            longer: Mutex::default(),
        }
    }

    /// What the models of a team are told that has these beside them.
    fn specs_with(&self, own: &[(Made, Standing)], grant: &Grant) -> Arc<ToolSpecs> {
        if own.is_empty() {
            return self.specs.clone();
        }
        let told: Vec<_> = own.iter().map(|(made, standing)| made.spec(*standing, grant)).collect();
        let mut longer = self.longer.lock().unwrap_or_else(PoisonError::into_inner);
        longer.retain(|(_, specs)| specs.strong_count() > 0);
        let known = longer.iter().find(|(known, _)| *known == told);
        if let Some(specs) = known.and_then(|(_, specs)| specs.upgrade()) {
            return specs;
        }
        let shared = self.specs.iter().filter_map(|spec| Some((self.tools.get(&spec.name)?, spec)));
        let own = own.iter().map(|(made, _)| made).zip(&told);
        let specs = in_order(shared.chain(own).map(|(made, spec)| (made, spec.clone())));
        longer.push((told, Arc::downgrade(&specs)));
        specs
    }
}

fn in_order<'a>(specs: impl Iterator<Item = (&'a Made, ToolSpec)>) -> Arc<ToolSpecs> {
    let mut specs: Vec<_> = specs.map(|(made, spec)| (made.place(), spec)).collect();
    specs.sort_by(|(one, _), (other, _)| one.cmp(other));
    Arc::new(specs.into_iter().map(|(_, spec)| spec).collect())
}
