//! What a team has to work with: rules, skills, subagents and tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a team has to work with, as its files and the operator's rules are now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TeamEquipment")]
pub struct Equipment {
    /// What it is told in every turn, in this order.
    pub rules: Vec<Item>,
    /// What it can load.
    pub skills: Vec<Item>,
    /// Whom it can ask.
    pub subagents: Vec<Item>,
    /// What it may use.
    pub tools: Vec<Item>,
}

/// Something that a team has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TeamItem")]
pub struct Item {
    /// What it is called.
    pub name: String,
    /// Who gave it: `program`, `operator` or the name of a team.
    pub source: String,
    /// What it is for; may be empty.
    pub description: String,
}

/// It ships with the program.
pub const PROGRAM: &str = "program";
/// It stands in the data dir.
pub const OPERATOR: &str = "operator";
