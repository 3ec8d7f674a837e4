//! `/api/v1/teams` and `/api/v1/org`: the teams as they are.

use std::collections::HashMap;

use actix_web::web;
use hivewright_actors::{
    blocking,
    ids::{MAIN, TeamKey, TeamName},
    org::{
        record::{TeamRecord, TeamState},
        tree::Tree,
    },
    queue::submit::OpenTask,
    task::{
        TaskState,
        records::{self as tasks, TeamError},
    },
};

use crate::{
    api::{endpoint::*, reply::*, teams::*, when::Moment},
    http::{
        kit::{call::*, error::*, json, listing},
        ports::Equipper,
        state::State,
    },
    logging::Secrets,
    teams::service::Parts,
    text::no_such,
};

pub(super) mod acting;

/// Runs something that looks at files away from the async threads.
async fn looking<T: Send + 'static>(
    state: &web::Data<State>,
    look: impl FnOnce(&Sight<'_>) -> T + Send + 'static,
) -> ApiResult<T> {
    let open = state.org().work.open(None).await;
    look_at(state, state.org().view.now(), open, look).await
}

async fn look_at<T: Send + 'static>(
    state: &web::Data<State>,
    tree: impl AsRef<Tree> + Send + 'static,
    open: Vec<OpenTask>,
    look: impl FnOnce(&Sight<'_>) -> T + Send + 'static,
) -> ApiResult<T> {
    let errors = state.read(tasks::team_errors).await?;
    let state = state.clone();
    let looked = blocking::run(move || {
        look(&Sight {
            tree: tree.as_ref(),
            open: &open,
            errors: &errors,
            parts: state.org(),
            secrets: &state.secrets,
        })
    });
    Ok(looked.await?)
}

/// What teams are seen by.
struct Sight<'a> {
    tree: &'a Tree,
    open: &'a [OpenTask],
    /// What went wrong last, by the keys of teams.
    errors: &'a HashMap<TeamKey, TeamError>,
    parts: &'a Parts,
    secrets: &'a Secrets,
}

impl Sight<'_> {
    fn row(&self, name: &str) -> Option<TeamRow> {
        let team = self.tree.get(name)?;
        let live = &self.parts.live;
        let file = live.team_now(&team.name);
        let sdk = file.as_ref().map_or_else(|_| String::new(), |file| file.sdk.to_string());
        let model = file.as_ref().ok().zip(live.providers_now().ok()).and_then(|(file, all)| {
            let chosen = all.choose(&file.provider_profile, file.model.as_deref());
            Some(chosen.ok()?.model)
        });
        let count =
            |is: fn(TaskState) -> bool| self.work(&team.name).filter(|task| is(task.state)).count();
        let (all, running) = (count(|_| true), count(|state| state == TaskState::Running));
        Some(TeamRow {
            name: team.name.clone(),
            generation: team.generation,
            parent: team.parent.clone(),
            description: file.as_ref().map_or_else(|_| String::new(), |it| it.description.clone()),
            scope: self.tree.effective_scope(name).into_iter().map(str::to_owned).collect(),
            state: match team.state {
                TeamState::Active if file.is_err() => TeamState::Degraded,
                state => state,
            },
            fault: file.err().map(|found| found.to_string()),
            phase: team.phase,
            pending: all - running,
            running,
            waiting: count(|state| state == TaskState::Waiting),
            sdk,
            model,
            usage_today: (self.parts.spent)(&team.name),
            children: self.tree.children(name).count(),
            last_error: self.errors.get(&team.key()).map(|error| LastError {
                task_id: error.task_id.clone(),
                code: error.code,
                message: self.secrets.scrub_known(&error.message),
                at: Moment(error.at),
            }),
        })
    }

    /// The open tasks of a team, oldest first.
    fn work(&self, team: &TeamName) -> impl Iterator<Item = &OpenTask> {
        self.open.iter().filter(move |task| task.team == *team)
    }

    fn one(&self, team: &TeamRecord, equip: &Equipper) -> Option<OneTeam> {
        let name = team.name.as_str();
        Some(OneTeam {
            row: self.row(name)?,
            paused_by: team.paused_by.clone(),
            teams: self.tree.children(name).map(|child| child.name.clone()).collect(),
            own_scope: team.scope.iter().cloned().collect(),
            capabilities: team.capabilities.clone(),
            budget: self.parts.live.team_now(&team.name).ok().map(|file| file.budgets),
            created_by: team.created_by.clone(),
            bootstrap_task_id: team.bootstrap_task.clone(),
            tasks: self.work(&team.name).map(TeamWork::from).collect(),
            created_at: json::date(team.created_at),
            equipment: equip(&team.key(), &self.tree.ancestors(name)),
        })
    }

    fn node(&self, team: &str) -> Option<TeamNode> {
        let below = self.tree.children(team);
        let below = below.filter_map(|child| self.node(child.name.as_str()));
        let file = self.parts.live.team_now(&team.into());
        Some(TeamNode {
            row: self.row(team)?,
            budget: file.ok().map(|file| file.budgets),
            teams: below.collect(),
        })
    }
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, TeamFilter>,
) -> ApiResult<Rows<TeamRow>> {
    let TeamFilter { state: wanted, parent, words } = query;
    let [parent, words] = [parent, words].map(|text| text.map(|text| text.to_lowercase()));
    let rows = looking(&state, |sight| {
        let rows = sight.tree.iter().filter_map(|team| sight.row(team.name.as_str()));
        rows.collect::<Vec<_>>()
    });
    let rows = rows.await?.into_iter().filter(|row| {
        let above = row.parent.as_ref().map(|parent| parent.as_str());
        let holds = |words: &String| {
            let texts = [row.name.as_str(), &row.description].into_iter();
            let mut texts = texts.chain(row.scope.iter().map(String::as_str));
            texts.any(|text| text.to_lowercase().contains(words.as_str()))
        };
        caller.reaches(row.name.as_str())
            && wanted.is_none_or(|state| row.state == state)
            && parent.as_ref().is_none_or(|name| above == Some(name))
            && words.as_ref().is_none_or(holds)
    });
    listing::page(rows, &page, |row| row.name.to_string())
}

/// The team that a path names, if the caller may act on it.
pub(super) fn known_team(state: &State, caller: &Caller, name: &str) -> ApiResult<TeamKey> {
    caller.team(name)?;
    found(state, caller, name).map_err(ApiError::not_found)
}

/// The team that a field of what was sent names.
pub(super) fn existing(
    state: &State,
    caller: &Caller,
    field: &str,
    name: &str,
) -> ApiResult<TeamKey> {
    found(state, caller, name).map_err(|reason| ApiError::invalid_field(field, reason))
}

/// A team by its name, or the complaint that there is none.
fn found(state: &State, caller: &Caller, name: &str) -> Result<TeamKey, String> {
    let tree = state.org().view.now();
    tree.key(name).ok_or_else(|| {
        let names = tree.as_ref().iter().map(|team| team.name.as_str());
        let names: Vec<&str> = names.filter(|name| caller.reaches(name)).collect();
        no_such("team", name, &names)
    })
}

pub(super) async fn list_templates(Call { page, .. }: Call) -> ApiResult<Rows<TeamTemplate>> {
    let rows = Template::ALL.iter().filter_map(|template| template.read().ok());
    listing::page(rows, &page, |row| row.name.to_string())
}

pub(super) async fn show(
    Call { state, caller, path: ByName { name }, .. }: Call<ByName>,
) -> ApiResult<Data<OneTeam>> {
    let key = known_team(&state, &caller, &name)?;
    let equip = state.equipment.clone();
    let shown =
        looking(&state, move |sight| sight.one(sight.tree.get(key.name.as_str())?, &*equip));
    // One that ends at this moment is gone.
    Ok(Data(shown.await?.ok_or_else(|| ApiError::not_found(format!("there is no team `{name}`")))?))
}

pub(super) async fn show_tree(Call { state, caller, .. }: Call) -> ApiResult<Data<TeamNode>> {
    caller.all_teams()?;
    let root = looking(&state, |sight| sight.node(MAIN)).await?;
    root.map(Data).ok_or_else(ApiError::draining)
}

/// The tree of teams as the store has it.
pub(super) async fn tree_of(
    state: &web::Data<State>,
    tree: Tree,
    open: Vec<OpenTask>,
) -> ApiResult<Option<TeamNode>> {
    look_at(state, Box::new(tree), open, |sight| sight.node(MAIN)).await
}
