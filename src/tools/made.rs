//! Tools by key, and what models are told of them.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
};

use hivewright_actors::{
    policy::Visibility,
    tool::specs::{ToolSpec, ToolSpecs},
};
use parking_lot::Mutex;

use super::{
    contract::Tool,
    grant::Grant,
    hosted::{Host, Hosted},
    wire::wire_name,
};
use crate::settings::tool_groups::ToolGroup;

/// Lists the tools of a folder, a line each: `TOOLS` is what they say of themselves, and the function makes them.
macro_rules! tools {
    ($(#[$outer:meta])* $vis:vis fn $make:ident($($given:ident: $of:ty),*) {
        $($($tool:ident)::+ $(($($in_order:tt)*))? $({$($by_name:tt)*})?),+ $(,)?
    }) => {
        pub(crate) const TOOLS: &[$crate::tools::about::About] =
            &[$(<$($tool)::+ as $crate::tools::contract::Tool>::ABOUT),+];

        $(#[$outer])*
        $vis fn $make($($given: $of),*) -> Vec<$crate::tools::made::Made> {
            vec![$($crate::tools::made::Made::of($($tool)::+ $(($($in_order)*))? $({$($by_name)*})?)),+]
        }
    };
}

pub(super) use tools;

/// How the description of a tool ends whose calls a person decides on.
const ASKS: &str = " (asks the operator)";

/// A tool under the key that it is configured and called by.
#[derive(Clone)]
pub struct Made {
    pub(super) key: String,
    pub(super) tool: Arc<dyn Hosted>,
}

impl Made {
    pub fn of<T: Tool>(tool: T) -> Self {
        Self::new(T::ABOUT.name, tool)
    }

    /// A tool by its canonical key. Where many are made of one type, [`Tool::ABOUT`] does not count.
    pub fn new<T: Tool>(key: impl Into<String>, tool: T) -> Self {
        Self { key: key.into(), tool: Arc::new(Host::new(tool)) }
    }

    /// Where models are told of it: group by group, and by key within one.
    fn place(&self) -> (ToolGroup, String) {
        (self.tool.about().group.told_with(), self.key.clone())
    }

    /// What a model is told of it.
    fn spec(&self, visibility: Visibility, grant: &Grant) -> ToolSpec {
        let mut spec = self.tool.spec(wire_name(&self.key), &grant.sandbox);
        if visibility == Visibility::Asks {
            spec.description.push_str(ASKS);
        }
        spec
    }

    /// What rules say of it; none if the team must not see it.
    pub(super) fn visibility(&self, grant: &Grant) -> Option<Visibility> {
        let about = self.tool.about();
        let (team, now) = (grant.team.as_str(), grant.rules.time());
        let classes: Vec<_> = [about.class].into_iter().chain(about.other_class).collect();
        let visibility = grant.rules.now().visibility(team, &self.key, &classes, about.effect, now);
        let shown = grant.allowed.allows(&self.key) && visibility != Visibility::Hidden;
        shown.then_some(visibility)
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
    pub(super) fn new(shared: &[(Made, Visibility)], grant: &Grant) -> Self {
        let specs = shared.iter().map(|(made, visibility)| (made, made.spec(*visibility, grant)));
        Self {
            specs: in_order(specs),
            tools: by_wire_name(shared.iter().map(|(made, _)| made.clone())),
            longer: Mutex::default(),
        }
    }

    /// What the models of a team are told that has these beside them.
    pub(super) fn specs_with(&self, own: &[(Made, Visibility)], grant: &Grant) -> Arc<ToolSpecs> {
        if own.is_empty() {
            return self.specs.clone();
        }
        let told: Vec<_> =
            own.iter().map(|(made, visibility)| made.spec(*visibility, grant)).collect();
        let mut longer = self.longer.lock();
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
