//! Teams: who works here.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use hivewright_actors::{
    budget::{Caps, Spent},
    ids::{MAIN, TaskId, TeamName},
    org::{
        Removed,
        record::{Capability, Phase, TeamState},
    },
    queue::submit::OpenTask,
    task::{Kind, TaskState, WaitReason, outcome::Code},
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, flags, reply::*, scope::Scope::*, when::*};
use crate::settings::{config::Sdk, team::LONGEST_DESCRIPTION};

pub const LIST_TEAMS: Endpoint<Rows<TeamRow>, Empty, TeamFilter> =
    get("/api/v1/teams", Read, "Lists teams.")
        .sorted(&["name", "parent", "state", "pending", "running"]);

pub const CREATE_TEAM: Endpoint<Created<MadeTeam>, Empty, Empty, TeamOrder> = post(
    "/api/v1/teams",
    Operate,
    "Makes a team, and gives it its first work.",
)
.description(
    "`credentials` go into the vault of the team, and nowhere else; they need the \
             scope `secrets` too.",
)
.refuses(&[404, 409, 503])
.secret()
.example(
    r#"{"name": "billing", "description": "Invoices and payments", "scope_accepts": ["invoices"]}"#,
);

pub const LIST_TEMPLATES: Endpoint<Rows<TeamTemplate>> = get(
    "/api/v1/team-templates",
    Read,
    "Lists templates: what teams of common kinds are for, may use and should know.",
)
.sorted(&["name"]);

pub const SHOW_ORG: Endpoint<Data<TeamNode>> =
    get("/api/v1/org", Read, "Shows all teams as a tree, the main team first.");

pub const PAUSE_TEAM: Endpoint<Data<TeamsPaused>, ByName, Empty, TeamPause> = post(
    "/api/v1/teams/{name}/pause",
    Operate,
    "Pauses a team: tasks are accepted, none is started.",
)
.description("With `now`, what runs is stopped at once and done later.")
.refuses(&[409, 503])
.example(r#"{"now": true}"#);

pub const RESUME_TEAM: Endpoint<Data<TeamsPaused>, ByName> =
    post("/api/v1/teams/{name}/resume", Operate, "Lets a paused team work again.")
        .refuses(&[409, 503]);

pub const BOOTSTRAP_TEAM: Endpoint<Data<TeamBootstrap>, ByName> = post(
    "/api/v1/teams/{name}/bootstrap",
    Operate,
    "Gives a team its first work again, unless it is ready.",
)
.refuses(&[409, 503]);

pub const PAUSE_ALL: Endpoint<Data<TeamsPaused>, Empty, Empty, TeamPause> =
    post("/api/v1/pause", Operate, "Pauses all teams.")
        .description("With `now` it is the kill switch: nothing runs a second later.")
        .refuses(&[409, 503])
        .example(r#"{"now": true}"#);

pub const RESUME_ALL: Endpoint<Data<TeamsPaused>> =
    post("/api/v1/resume", Operate, "Lets all teams work again.").refuses(&[409, 503]);

pub const SHOW_TEAM: Endpoint<Data<OneTeam>, ByName> =
    get("/api/v1/teams/{name}", Read, "Shows a team.");

pub const CHANGE_TEAM: Endpoint<Data<TeamScope>, ByName, Empty, TeamChange> =
    patch("/api/v1/teams/{name}", Operate, "Changes what a team is for, or what it may do.")
        .description("`capabilities` replace those it has; they need the scope `admin`.")
        .refuses(&[409, 503])
        .example(r#"{"scope_add": ["refunds"], "scope_remove": []}"#);

pub const SHUT_DOWN_TEAM: Endpoint<Settled<Removed, TeamEnding>, ByName, TeamShutdown> =
    delete("/api/v1/teams/{name}", Operate, "Shuts a team down.")
        .description("What takes longer than 25 seconds goes on after the answer.")
        .refuses(&[409, 503]);

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct TeamFilter {
    /// Only in this state.
    #[arg(long, value_parser = flags::words::<TeamState>())]
    pub state: Option<TeamState>,
    /// Only those right below this team.
    #[arg(long, value_name = "TEAM")]
    pub parent: Option<String>,
    /// Only with these words in name, description or scope.
    #[arg(long = "query", value_name = "WORDS")]
    #[serde(rename = "q")]
    pub words: Option<String>,
}

/// A team at a glance.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Team")]
pub struct TeamRow {
    pub name: TeamName,
    /// How often the name was given.
    pub generation: u32,
    /// Who is above it.
    pub parent: Option<TeamName>,
    /// What it is for.
    pub description: String,
    /// What it and all below it take on.
    pub scope: Vec<String>,
    pub state: TeamState,
    /// What is wrong with its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    pub phase: Phase,
    /// Tasks that wait.
    pub pending: usize,
    /// Tasks that run.
    pub running: usize,
    /// Of those that wait, the ones whose turn was set aside.
    pub waiting: usize,
    /// What runs its turns; empty if its file is wrong.
    pub sdk: String,
    /// Its model, if that is known.
    pub model: Option<String>,
    /// What it and all below it have spent today.
    pub usage_today: Spent,
    /// How many teams are right below it.
    pub children: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

/// What went wrong last in a team.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TeamError")]
pub struct LastError {
    /// The task that ended so.
    pub task_id: TaskId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    pub message: String,
    pub at: Moment,
}

/// A team with all that is shown of it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct OneTeam {
    #[serde(flatten)]
    pub row: TeamRow,
    /// The team that paused it; none if it is not paused, or an operator did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_by: Option<TeamName>,
    /// The teams right below it.
    pub teams: Vec<TeamName>,
    /// What it takes on itself.
    pub own_scope: Vec<String>,
    /// What it may do beyond its tools.
    pub capabilities: BTreeSet<Capability>,
    /// What it may spend.
    pub budget: Option<Caps>,
    pub created_by: String,
    /// Its first work.
    pub bootstrap_task_id: Option<TaskId>,
    /// Its open tasks, oldest first.
    pub tasks: Vec<TeamWork>,
    pub created_at: Option<Moment>,
    #[serde(flatten)]
    pub equipment: Equipment,
}

/// What a team has to work with, as its files and the operator's rules are now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "TeamEquipment")]
pub struct Equipment {
    /// What it is told in every turn, in this order.
    pub rules: Vec<TeamItem>,
    /// What it can load.
    pub skills: Vec<TeamItem>,
    /// Whom it can ask.
    pub subagents: Vec<TeamItem>,
    /// What it may use.
    pub tools: Vec<TeamItem>,
}

/// Something that a team has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeamItem {
    pub name: String,
    /// Who gave it: `program`, `operator` or the name of a team.
    pub source: String,
    /// What it is for; may be empty.
    pub description: String,
}

/// The source of what ships with the program.
pub const PROGRAM: &str = "program";
/// The source of what stands in the data dir.
pub const OPERATOR: &str = "operator";

row! {
    /// An open task of a team.
    #[derive(Clone)]
    pub struct TeamWork from task: &OpenTask {
        pub task_id: TaskId = task.task_id.clone(),
        #[serde(rename = "type")]
        pub kind: Kind = task.kind,
        pub state: TaskState = task.state,
        /// What it waits for.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub wait_reason: Option<WaitReason> = task.wait_reason,
        /// Since it was accepted, in milliseconds.
        pub age_ms: u64 = task.age_ms,
    }
}

/// A team with those below it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamNode {
    #[serde(flatten)]
    pub row: TeamRow,
    /// What it may spend.
    pub budget: Option<Caps>,
    /// Those right below it.
    pub teams: Vec<TeamNode>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(description = "A team that is wanted.")]
pub struct NewTeam {
    /// Lower-case words with `-` between them, 2 to 48 characters.
    pub name: String,
    /// The team above it.
    #[arg(long, default_value = MAIN, value_name = "TEAM")]
    #[schemars(description = "Who is above it; without one it is the main team.")]
    pub parent: Option<String>,
    /// What it is for.
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default)]
    #[schemars(length(max = LONGEST_DESCRIPTION))]
    pub description: String,
    /// Words for what it takes on.
    #[arg(long = "scope", required_unless_present = "template", value_name = "WORDS")]
    pub scope_accepts: Vec<String>,
    /// A file with what it should know from the start.
    #[arg(long = "init-context", value_name = "FILE")]
    #[schemars(description = "What it should know from the start.")]
    pub init_context: Option<String>,
    /// Tools by name, pattern or group [default: the usual ones].
    #[arg(long = "tool", value_name = "PATTERN")]
    pub allowed_tools: Option<Vec<String>>,
    /// The profile of its model [default: that of the settings].
    #[arg(long = "profile", value_name = "PROFILE")]
    pub provider_profile: Option<String>,
    /// What runs its turns [default: that of the settings].
    #[arg(long, value_name = "SDK", value_parser = flags::words::<Sdk>())]
    pub sdk: Option<Sdk>,
    /// What it may spend.
    #[arg(skip)]
    pub budgets: Option<Caps>,
}

words! {
    /// A kind of team that is common.
    #[schemars(rename = "TeamTemplateName")]
    pub enum Template {
        Coder = "coder",
        Researcher = "researcher",
        Reviewer = "reviewer",
        Scheduler = "scheduler",
    }
}

/// What a team of a common kind is for, may use and should know from the start.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamTemplate {
    pub name: Template,
    pub description: String,
    pub scope_accepts: Vec<String>,
    pub allowed_tools: Vec<String>,
    pub init_context: String,
}

/// A team that is wanted, with the secrets it is given. They go into its vault and nowhere else.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NewTeam")]
pub struct TeamOrder {
    #[serde(flatten)]
    pub team: NewTeam,
    /// Secrets by their names.
    #[serde(default)]
    pub credentials: BTreeMap<String, String>,
}

/// A team that was just made.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct MadeTeam {
    pub team: TeamName,
    /// How often the name was given.
    pub generation: u32,
    /// Its first work.
    pub bootstrap_task_id: TaskId,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct TeamChange {
    /// Words for what it takes on from now on.
    pub scope_add: Vec<String>,
    /// Words for what it no longer takes on.
    pub scope_remove: Vec<String>,
    #[schemars(length(max = LONGEST_DESCRIPTION))]
    pub description: Option<String>,
    /// What it may do beyond its tools, instead of what it may now.
    pub capabilities: Option<BTreeSet<Capability>>,
}

/// What a team takes on now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamScope {
    pub team: TeamName,
    pub scope: BTreeSet<String>,
    pub capabilities: BTreeSet<Capability>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[schemars(rename = "PauseHow")]
pub struct TeamPause {
    /// Also stop what runs; it goes on from there later.
    #[arg(long)]
    #[serde(default)]
    pub now: bool,
}

/// Teams whose state changed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamsPaused {
    pub teams: Vec<TeamName>,
    /// `paused` or `active`.
    pub state: TeamState,
}

/// How far a team is with its first work.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamBootstrap {
    pub team: TeamName,
    /// `initializing` or `ready`.
    pub phase: Phase,
    pub task_id: Option<TaskId>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct TeamShutdown {
    /// Also all teams below it.
    #[arg(long)]
    pub cascade: bool,
}

/// A shutdown that goes on.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct TeamEnding {
    pub team: TeamName,
    /// `draining`.
    pub state: TeamState,
}
