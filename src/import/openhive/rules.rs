//! Rules of the operator.

use super::{
    plan::{Artifact, Planner, Refusal},
    report::{Item, Kind},
    schema::mark,
};

pub(super) const KIND: Kind = Kind::listed("rule");

pub(super) fn plan(planner: &mut Planner<'_>) {
    for (name, text) in &planner.found.rules {
        let conversion = if planner.target.rules.contains(name) {
            Err(Refusal::intended("there is a rule of this name, and it stays as it is"))
        } else {
            Ok((Artifact::Rule { name: name.clone(), text: text.clone() }, Vec::new()))
        };
        planner.take(KIND, None, name, mark("rules", name, ""), conversion);
    }
    for name in &planner.found.other_rules {
        planner.report(Item::left(KIND, name, "only files that end in `.md` are rules"));
    }
}
