//! `/api/v1/teams` and `/api/v1/org`: the teams as they are.

use actix_web::{HttpRequest, HttpResponse, Resource, http::StatusCode, web};
use hivewright_actors::{budget::Caps, ids::MAIN, org::tree::Tree, queue::submit::OpenTask};
use serde::Serialize;

use super::{
    State,
    auth::scope::Scope,
    error::ApiError,
    json,
    query::Query,
    routes::{self, Methods},
};
use crate::{teams::overview::Row, tools::org::office::Parts};

pub(super) mod acting;

pub(super) fn resource() -> Resource {
    routes::resource(
        "/api/v1/teams",
        Methods::new().get(list).post(acting::create),
    )
}

pub(super) fn one() -> Resource {
    routes::resource(
        "/api/v1/teams/{name}",
        Methods::new()
            .get(show)
            .patch(acting::update)
            .delete(acting::shut_down),
    )
}

pub(super) fn tree() -> Resource {
    routes::resource("/api/v1/org", Methods::new().get(show_tree))
}

/// What the handlers look at.
pub(super) fn parts(state: &State) -> Result<&Parts, ApiError> {
    state.office.get().ok_or_else(ApiError::draining)
}

/// A team with those below it.
#[derive(Serialize)]
pub(super) struct Node {
    #[serde(flatten)]
    row: Row,
    /// What it may spend.
    budget: Option<Caps>,
    teams: Vec<Node>,
}

/// Runs something that looks at files away from the async threads.
async fn looking<T: Send + 'static>(
    state: &web::Data<State>,
    look: impl FnOnce(&Tree, &[OpenTask], &Parts) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let parts = parts(state)?;
    let open = parts.work.open(None).await;
    let (tree, state) = (parts.view.now(), state.clone());
    let looked = tokio::task::spawn_blocking(move || {
        let parts = self::parts(&state)?;
        Ok(look(&tree, &open, parts))
    });
    looked.await.map_err(ApiError::internal)?
}

fn row(team: &str, tree: &Tree, open: &[OpenTask], parts: &Parts) -> Option<Row> {
    let team = tree.get(team)?;
    let spent = (parts.spent)(&team.name);
    Some(Row::of(team, tree, open, &parts.live, spent))
}

async fn list(state: web::Data<State>, request: HttpRequest) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    let query = Query::read(&request, &["state", "parent", "q", "limit", "offset"])?;
    let page = query.page()?;
    let wanted = |name: &str| query.text(name).map(str::to_lowercase);
    let (standing, parent, words) = (wanted("state"), wanted("parent"), wanted("q"));
    let rows = looking(&state, |tree, open, parts| {
        let rows = tree
            .iter()
            .filter_map(|team| row(team.name.as_str(), tree, open, parts));
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
        standing.as_ref().is_none_or(|state| row.state == state)
            && parent.as_ref().is_none_or(|name| above == Some(name))
            && words.as_ref().is_none_or(holds)
    });
    Ok(json::page(&rows, page))
}

async fn show(
    state: web::Data<State>,
    request: HttpRequest,
    name: web::Path<String>,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let name = name.into_inner();
    let missing = ApiError::not_found(format!("there is no team `{name}`"));
    let detail = looking(&state, move |tree, open, parts| {
        let team = tree.get(&name)?;
        let row = row(&name, tree, open, parts)?;
        let made = json::date(team.created_at);
        Some((row.in_detail(team, tree, open, &parts.live), made))
    });
    let (detail, created_at) = detail.await?.ok_or(missing)?;
    let mut shown = serde_json::to_value(detail).map_err(ApiError::internal)?;
    shown["created_at"] = created_at.into();
    Ok(json::data(StatusCode::OK, shown))
}

async fn show_tree(
    state: web::Data<State>,
    request: HttpRequest,
) -> Result<HttpResponse, ApiError> {
    state.access.require(&request, Scope::Read)?;
    json::no_query(&request)?;
    let root = looking(&state, |tree, open, parts| node(MAIN, tree, open, parts)).await?;
    Ok(json::data(StatusCode::OK, root))
}

/// The tree of teams as the store has it.
pub(super) async fn tree_of(
    state: &web::Data<State>,
    tree: Tree,
    open: Vec<OpenTask>,
) -> Result<Option<Node>, ApiError> {
    let state = state.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let parts = parts(&state)?;
        Ok(node(MAIN, &tree, &open, parts))
    });
    looked.await.map_err(ApiError::internal)?
}

fn node(team: &str, tree: &Tree, open: &[OpenTask], parts: &Parts) -> Option<Node> {
    let below = tree
        .children(team)
        .filter_map(|child| node(child.name.as_str(), tree, open, parts));
    let file = parts.live.team_now(&team.into());
    Some(Node {
        row: row(team, tree, open, parts)?,
        budget: file.ok().map(|file| file.budgets),
        teams: below.collect(),
    })
}
