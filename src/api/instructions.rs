//! Instructions: the rules, skills and subagents of a team, as files that operators edit.

use hivewright_actors::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    config::{EditableFile, FileContent},
    endpoint::*,
    reply::*,
    scope::Scope::*,
};
use crate::settings::problem::Problem;

pub const LIST_INSTRUCTIONS: Endpoint<Rows<InstructionRow>, ByName> = get(
    "/api/v1/teams/{name}/instructions",
    Read,
    "Lists the rules, skills and subagents in the folder of a team, and what is wrong with them.",
)
.sorted(&["file", "kind", "name"])
.scrubbed();

pub const SHOW_INSTRUCTION: Endpoint<Data<EditableFile>, ByInstruction> = get(
    "/api/v1/teams/{team}/instructions/{kind}/{name}",
    Read,
    "Shows a rule, skill or subagent of a team.",
)
.description("`kind` is `org-rules`, `team-rules`, `skills` or `subagents`.")
.refuses(&[409])
.scrubbed();

pub const REPLACE_INSTRUCTION: Endpoint<Data<EditableFile>, ByInstruction, Empty, FileContent> =
    put(
        "/api/v1/teams/{team}/instructions/{kind}/{name}",
        Admin,
        "Writes a rule, skill or subagent of a team, if it is valid.",
    )
    .refuses(&[409, 422])
    .example(r#"{"content": "Answer in one sentence.\n"}"#)
    .scrubbed();

pub const DELETE_INSTRUCTION: Endpoint<Done, ByInstruction> = delete(
    "/api/v1/teams/{team}/instructions/{kind}/{name}",
    Admin,
    "Moves a rule, skill or subagent of a team to the trash.",
)
.description("A skill goes with all files of its folder.")
.refuses(&[409]);

words! {
    /// What a file tells a team, by the folder that it is in.
    pub enum InstructionKind {
        /// Rules of the team and of all below it.
        OrgRules = "org-rules",
        /// Rules of the team alone.
        TeamRules = "team-rules",
        Skills = "skills",
        Subagents = "subagents",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByInstruction {
    pub team: String,
    pub kind: String,
    /// Without its ending.
    pub name: String,
}

/// A rule, skill or subagent of a team as lists show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Instruction")]
pub struct InstructionRow {
    pub kind: InstructionKind,
    pub name: String,
    /// From the folder of the team.
    pub file: String,
    /// What it is for; may be empty.
    pub description: String,
    /// Why the team is not told of it.
    pub problems: Vec<Problem>,
}
