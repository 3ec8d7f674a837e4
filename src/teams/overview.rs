//! What can be said of a team at a glance: its record, its file, its work and its money.

use hivewright_actors::{
    budget::{Caps, Spent},
    ids::{TaskId, TeamName},
    org::{
        record::{Capability, TeamRecord, TeamState},
        tree::Tree,
    },
    queue::submit::{OpenState, OpenTask},
    task::records::TeamError,
};
use schemars::JsonSchema;
use serde::Serialize;

use crate::settings::live::Live;

/// A team at a glance.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Team")]
pub struct Row {
    /// Its name.
    pub name: TeamName,
    /// How often the name was given.
    pub generation: u32,
    /// Who is above it.
    pub parent: Option<TeamName>,
    /// What it is for.
    pub description: String,
    /// What it and all below it take on.
    pub scope: Vec<String>,
    /// Whether it works.
    pub state: &'static str,
    /// What is wrong with its file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Whether it has set itself up.
    pub phase: &'static str,
    /// Tasks that wait.
    pub pending: usize,
    /// Tasks that run.
    pub running: usize,
    /// Of those that wait, the ones whose turn was set aside.
    pub waiting: usize,
    /// What answers.
    pub sdk: &'static str,
    /// Its model, if that is known.
    pub model: Option<String>,
    /// What it and all below it have spent today.
    pub usage_today: Spent,
    /// How many teams are right below it.
    pub children: usize,
    /// What went wrong last, where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
}

/// What went wrong last in a team.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TeamError")]
pub struct LastError {
    /// The task that ended so.
    pub task_id: TaskId,
    /// For programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// For people.
    pub message: String,
    /// When.
    pub at: String,
}

impl From<TeamError> for LastError {
    fn from(error: TeamError) -> Self {
        Self {
            task_id: error.task_id,
            code: error.code.map(|code| code.as_str()),
            message: error.message,
            at: error.at.date(),
        }
    }
}

/// More of one team.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TeamDetail")]
pub struct Detail {
    /// At a glance.
    #[serde(flatten)]
    pub row: Row,
    /// The teams right below it.
    pub teams: Vec<TeamName>,
    /// What it takes on itself.
    pub own_scope: Vec<String>,
    /// What it may do beyond its tools.
    pub capabilities: Vec<Capability>,
    /// What it may spend.
    pub budget: Option<Caps>,
    /// By whom it was made.
    pub created_by: String,
    /// Its first work.
    pub bootstrap_task_id: Option<TaskId>,
    /// Its open tasks, oldest first.
    pub tasks: Vec<Work>,
}

/// An open task of a team.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TeamWork")]
pub struct Work {
    /// Its id.
    pub task_id: TaskId,
    /// What kind.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Where it is.
    pub state: &'static str,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<&'static str>,
    /// Since it was accepted, in milliseconds.
    pub age_ms: u64,
}

impl From<&OpenTask> for Work {
    fn from(task: &OpenTask) -> Self {
        let (state, wait_reason) = match task.state {
            OpenState::Accepted => ("accepted", None),
            OpenState::Running => ("running", None),
            OpenState::Parked(reason) => ("waiting", Some(reason.as_str())),
        };
        Self {
            task_id: task.task_id.clone(),
            kind: task.kind.as_str(),
            state,
            wait_reason,
            age_ms: task.age_ms,
        }
    }
}

impl Row {
    /// A team at a glance. Looks at files, so it blocks.
    pub fn of(
        team: &TeamRecord,
        tree: &Tree,
        open: &[OpenTask],
        live: &Live,
        usage_today: Spent,
    ) -> Self {
        let file = live.team_now(&team.name);
        let providers = live.providers_now().ok();
        let model = file.as_ref().ok().zip(providers).and_then(|(file, all)| {
            let chosen = all.choose(&file.provider_profile, file.model.as_deref());
            Some(chosen.ok()?.model)
        });
        let own = || open.iter().filter(|task| task.team == team.name);
        let running = own().filter(|task| task.state == OpenState::Running).count();
        let waiting = own().filter(|task| matches!(task.state, OpenState::Parked(_))).count();
        let state = match team.state {
            TeamState::Active if file.is_err() => TeamState::Degraded,
            state => state,
        };
        let scope = tree.effective_scope(team.name.as_str());
        Self {
            name: team.name.clone(),
            generation: team.generation,
            parent: team.parent.clone(),
            description: match &file {
                Ok(file) => file.description.clone(),
                Err(_) => String::new(),
            },
            scope: scope.into_iter().map(str::to_owned).collect(),
            state: state.as_str(),
            fault: file.err().map(|found| found.to_string()),
            phase: team.phase.as_str(),
            pending: own().count() - running,
            running,
            waiting,
            sdk: "native",
            model,
            usage_today,
            children: tree.children(team.name.as_str()).count(),
            last_error: None,
        }
    }

    /// The same with what only one who looks at this team wants to know. Blocks.
    pub fn in_detail(
        self,
        team: &TeamRecord,
        tree: &Tree,
        open: &[OpenTask],
        live: &Live,
    ) -> Detail {
        let teams = tree.children(team.name.as_str());
        Detail {
            teams: teams.map(|child| child.name.clone()).collect(),
            own_scope: team.scope.iter().cloned().collect(),
            capabilities: team.capabilities.iter().copied().collect(),
            budget: live.team_now(&team.name).ok().map(|file| file.budgets),
            created_by: team.created_by.clone(),
            bootstrap_task_id: team.bootstrap_task.clone(),
            tasks: open.iter().filter(|task| task.team == team.name).map(Work::from).collect(),
            row: self,
        }
    }
}
