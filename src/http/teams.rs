//! `/api/v1/teams` and `/api/v1/org`: the teams as they are.

use std::collections::HashMap;

use actix_web::web;
use hivewright_actors::{
    budget::Caps,
    ids::{MAIN, TeamKey},
    org::tree::Tree,
    queue::submit::OpenTask,
    task::records::{self as tasks, TeamError},
};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    State,
    arguments::{Caller, Read},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Data, Rows},
    routes::{Resource, at},
};
use crate::{
    logging::Secrets,
    teams::{
        equipment::Equipment,
        overview::{Detail, Row},
    },
    tools::org::office::Parts,
};

pub(super) mod acting;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/teams")
            .get(
                Operation::new("Lists teams.")
                    .query(
                        const {
                            &[
                                Field::word(
                                    "state",
                                    || vec!["active", "paused", "degraded", "draining"],
                                    "Only in this state.",
                                ),
                                Field::text("parent", "Only those right below this team."),
                                Field::text("q", "Only with this in name, description or scope."),
                            ]
                        },
                    )
                    .pages(&["name", "parent", "state", "pending", "running"]),
                list,
            )
            .post(
                Operation::new("Makes a team, and gives it its first work.")
                    .description(
                        "`credentials` go into the vault of the team, and nowhere else; they need \
                         the scope `secrets` too.",
                    )
                    .refuses(&[404, 409, 503])
                    .secret()
                    .example(
                        r#"{"name": "billing", "description": "Invoices and payments", "scope_accepts": ["invoices"]}"#,
                    ),
                acting::create,
            ),
        at("/api/v1/org").get(
            Operation::new("Shows all teams as a tree, the main team first."),
            show_tree,
        ),
        at("/api/v1/teams/{name}/pause").post(
            Operation::new("Pauses a team: tasks are accepted, none is started.")
                .description("With `now`, what runs is stopped at once and done later.")
                .refuses(&[409, 503])
                .example(r#"{"now": true}"#),
            acting::pause_one,
        ),
        at("/api/v1/teams/{name}/resume").post(
            Operation::new("Lets a paused team work again.").refuses(&[409, 503]),
            acting::resume_one,
        ),
        at("/api/v1/teams/{name}/bootstrap").post(
            Operation::new("Gives a team its first work again, unless it is ready.")
                .refuses(&[409, 503]),
            acting::set_up_again,
        ),
        at("/api/v1/pause").post(
            Operation::new("Pauses all teams.")
                .description("With `now` it is the kill switch: nothing runs a second later.")
                .refuses(&[409, 503])
                .example(r#"{"now": true}"#),
            acting::pause_every,
        ),
        at("/api/v1/resume").post(
            Operation::new("Lets all teams work again.").refuses(&[409, 503]),
            acting::resume_every,
        ),
        at("/api/v1/teams/{name}")
            .get(Operation::new("Shows a team."), show)
            .patch(
                Operation::new("Changes what a team is for, or what it may do.")
                    .description("`capabilities` replace those it has; they need the scope `admin`.")
                    .refuses(&[409, 503])
                    .example(r#"{"scope_add": ["refunds"], "scope_remove": []}"#),
                acting::update,
            )
            .delete(
                Operation::new("Shuts a team down.")
                    .description("What takes longer than 25 seconds goes on after the answer.")
                    .query(const { &[Field::flag("cascade", "With all teams below it.")] })
                    .refuses(&[409, 503]),
                acting::shut_down,
            ),
    ]
}

/// What the handlers look at.
pub(super) fn parts(state: &State) -> &Parts {
    state.office.parts()
}

/// A team with those below it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TeamNode")]
pub(super) struct Node {
    #[serde(flatten)]
    row: Row,
    /// What it may spend.
    budget: Option<Caps>,
    /// Those right below it.
    teams: Vec<Node>,
}

/// A team with all that is shown of it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OneTeam")]
struct Shown {
    #[serde(flatten)]
    detail: Detail,
    created_at: Option<String>,
    #[serde(flatten)]
    equipment: Equipment,
}

/// Runs something that looks at files away from the async threads.
async fn looking<T: Send + 'static>(
    state: &web::Data<State>,
    look: impl FnOnce(&Sight<'_>) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let parts = parts(state);
    let open = parts.work.open(None).await;
    look_at(state, parts.view.now(), open, look).await
}

async fn look_at<T: Send + 'static>(
    state: &web::Data<State>,
    tree: impl AsRef<Tree> + Send + 'static,
    open: Vec<OpenTask>,
    look: impl FnOnce(&Sight<'_>) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let errors = state.spine.store.read(tasks::team_errors).await;
    let errors = errors.map_err(ApiError::internal)?;
    let state = state.clone();
    let looked = tokio::task::spawn_blocking(move || {
        Ok(look(&Sight {
            tree: tree.as_ref(),
            open: &open,
            errors: &errors,
            parts: parts(&state),
            secrets: &state.secrets,
        }))
    });
    looked.await.map_err(ApiError::internal)?
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
    fn row(&self, team: &str) -> Option<Row> {
        let Self { tree, parts, .. } = self;
        let team = tree.get(team)?;
        let spent = (parts.spent)(&team.name);
        let error = self.errors.get(&team.key()).cloned();
        let error = error
            .map(|error| TeamError { message: self.secrets.scrub_known(&error.message), ..error });
        Some(Row {
            last_error: error.map(Into::into),
            ..Row::of(team, tree, self.open, &parts.live, spent)
        })
    }

    fn node(&self, team: &str) -> Option<Node> {
        let below = self.tree.children(team);
        let below = below.filter_map(|child| self.node(child.name.as_str()));
        let file = self.parts.live.team_now(&team.into());
        Some(Node {
            row: self.row(team)?,
            budget: file.ok().map(|file| file.budgets),
            teams: below.collect(),
        })
    }
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Row>, ApiError> {
    let query = &caller.query;
    let page = query.page()?;
    let wanted = |name: &str| query.text(name).map(str::to_lowercase);
    let (standing, parent, words) = (wanted("state"), wanted("parent"), wanted("q"));
    let rows = looking(&state, |sight| {
        let teams = sight.tree.iter();
        let rows = teams.filter_map(|team| sight.row(team.name.as_str()));
        rows.collect::<Vec<_>>()
    });
    let mut rows = rows.await?;
    rows.retain(|row| {
        let above = row.parent.as_ref().map(|parent| parent.as_str());
        let holds = |words: &String| {
            let texts = [row.name.as_str(), &row.description];
            let scope = row.scope.iter().map(String::as_str);
            let mut texts = texts.into_iter().chain(scope);
            texts.any(|text| text.to_lowercase().contains(words.as_str()))
        };
        caller.reaches(row.name.as_str())
            && standing.as_ref().is_none_or(|state| row.state == state)
            && parent.as_ref().is_none_or(|name| above == Some(name))
            && words.as_ref().is_none_or(holds)
    });
    listing::page(rows, &page, |row| row.name.to_string())
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    name: web::Path<String>,
) -> Result<Data<Shown>, ApiError> {
    caller.team(&name)?;
    let name = name.into_inner();
    let missing = ApiError::not_found(format!("there is no team `{name}`"));
    let equip = state.equipment.clone();
    let shown = looking(&state, move |sight| {
        let Sight { tree, open, parts, .. } = sight;
        let team = tree.get(&name)?;
        let row = sight.row(&name)?;
        Some(Shown {
            detail: row.in_detail(team, tree, open, &parts.live),
            created_at: json::date(team.created_at),
            equipment: equip(&team.key(), &tree.ancestors(&name)),
        })
    });
    Ok(Data(shown.await?.ok_or(missing)?))
}

async fn show_tree(state: web::Data<State>, caller: Caller<Read>) -> Result<Data<Node>, ApiError> {
    caller.all_teams()?;
    let root = looking(&state, |sight| sight.node(MAIN)).await?;
    root.map(Data).ok_or_else(ApiError::draining)
}

/// The tree of teams as the store has it.
pub(super) async fn tree_of(
    state: &web::Data<State>,
    tree: Tree,
    open: Vec<OpenTask>,
) -> Result<Option<Node>, ApiError> {
    look_at(state, Box::new(tree), open, |sight| sight.node(MAIN)).await
}
