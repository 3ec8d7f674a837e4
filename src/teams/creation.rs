//! A team that someone wants: what can be said against it, and what it is made of.

use std::sync::Arc;

use hivewright_actors::{
    budget::Caps,
    clock::Timestamp,
    ids::{MAIN, TaskId, TeamName},
    org::{self, error::OrgError, folders::FolderPlan, names, tree::By},
    store::records::Writes,
    task::{Kind, Lane, OnResult, Priority, Task, cause::Cause},
};

use crate::{
    api::teams::NewTeam,
    plugins::catalogue::Catalogue,
    settings::{
        config::Config, live::Live, problem::Problems, team::LONGEST_DESCRIPTION, tool_groups,
    },
};

/// What a new team is asked to do first.
pub const BOOTSTRAP: &str = include_str!("../../config/prompt/bootstrap.md");
const LONGEST_CONTEXT: usize = 20_000;

/// Why a team cannot be made as it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WishError {
    #[error("{reason}")]
    Field { field: &'static str, reason: String },
    #[error("{0}")]
    Settings(String),
    #[error(transparent)]
    Refused(#[from] OrgError),
}

fn wrong(field: &'static str, reason: impl Into<String>) -> WishError {
    WishError::Field { field, reason: reason.into() }
}

fn within(field: &'static str, text: &str, most: usize) -> Result<(), WishError> {
    match text.chars().count() {
        length if length > most => {
            Err(wrong(field, format!("{length} characters; at most {most} are allowed")))
        }
        _ => Ok(()),
    }
}

impl NewTeam {
    /// Looks at each field in itself.
    pub fn check_fields(&self) -> Result<(), WishError> {
        within("description", &self.description, LONGEST_DESCRIPTION)?;
        let context = self.init_context.as_deref().unwrap_or_default();
        within("init_context", context, LONGEST_CONTEXT)?;
        for tool in self.allowed_tools.iter().flatten() {
            tool_groups::check(tool).map_err(|reason| wrong("allowed_tools", reason))?;
        }
        let Caps { usd_per_day, tokens_per_day, usd_per_task } = self.budgets.unwrap_or_default();
        let money = |cap: Option<f64>| cap.is_none_or(|cap| cap.is_finite() && cap > 0.0);
        if !money(usd_per_day) || !money(usd_per_task) || tokens_per_day == Some(0) {
            return Err(wrong("budgets", "a cap is a number above 0"));
        }
        Ok(())
    }

    /// Looks at what needs no organisation to be judged. Returns the settings that hold for it.
    pub async fn check(&self, live: &Live, plugins: &Catalogue) -> Result<Arc<Config>, WishError> {
        self.check_fields()?;
        if plugins.has_namespace(&self.name) {
            return Err(OrgError::NameReserved(self.name.as_str().into()).into());
        }
        let unread = |found: Arc<Problems>| WishError::Settings(found.to_string());
        if let Some(profile) = &self.provider_profile {
            let providers = live.providers().await.map_err(unread)?;
            if !providers.profiles.contains_key(profile) {
                let known: Vec<_> = providers.profiles.keys().map(String::as_str).collect();
                let known = known.join("`, `");
                let reason = format!("there is no profile `{profile}`; there are `{known}`");
                return Err(wrong("provider_profile", reason));
            }
        }
        live.config().await.map_err(unread)
    }

    /// The order that makes it, on behalf of an operator.
    pub async fn order(
        self,
        live: &Live,
        plugins: &Catalogue,
        operator: &str,
        task: TaskId,
        now: Timestamp,
    ) -> Result<org::Spawn, WishError> {
        let config = self.check(live, plugins).await?;
        let name = names::check_name(&self.name)?;
        let file = self.file(&name, &config.defaults);
        Ok(org::Spawn {
            parent: self.parent.unwrap_or_else(|| MAIN.to_owned()).into(),
            by: By::Operator(operator.to_owned()),
            scope: self.scope_accepts,
            limits: config.limits.tree(),
            plan: FolderPlan { config: file, context: self.init_context },
            bootstrap: bootstrap(&name, operator, task, now),
            giver: None,
            writes: Writes::new(),
            beside: None,
            name: self.name,
        })
    }
}

/// The first work of a team, given by an operator.
pub fn bootstrap(team: &TeamName, operator: &str, task: TaskId, now: Timestamp) -> Task {
    let lane = Lane { team: team.clone(), topic: None };
    Task {
        kind: Kind::Bootstrap,
        priority: Priority::Critical,
        on_result: OnResult::Silent,
        cause: Some(Cause::Operator { name: operator.to_owned() }),
        ..Task::new(task, lane, BOOTSTRAP.to_owned(), operator.to_owned(), now)
    }
}
