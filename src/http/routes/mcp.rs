//! `/api/v1/mcp`: the MCP servers of teams, as they stand.

use std::sync::Arc;

use hivewright_actors::blocking;

use super::{
    config::{looking, refused},
    teams::known_team,
};
use crate::{
    api::{endpoint::*, mcp::*, reply::*},
    http::{
        kit::{call::*, error::*, listing},
        state::State,
    },
    sandbox::workspace::Workspace,
    settings::{load, problem::Problems},
};

/// The servers of the teams that there are, as their files say. Those that nobody has used yet are among them.
async fn rows(state: &Arc<State>) -> ApiResult<Vec<McpServerRow>> {
    let looking = Arc::clone(state);
    let rows = blocking::run(move || {
        let parts = looking.org();
        let tree = parts.view.now();
        let files = tree.iter().filter_map(|team| {
            let file = parts.live.team_now(&team.name).ok()?;
            Some((team.name.clone(), file))
        });
        let mut rows = Vec::new();
        for (team, file) in files {
            for (server, config) in &file.mcp_servers.0 {
                let known = looking.servers.find(&team, server);
                let known = known.filter(|known| known.context.config() == config);
                let status = known.map(|known| known.status()).unwrap_or_default();
                rows.push(McpServerRow::from((&team, server.as_str(), config, status)));
            }
        }
        rows
    });
    Ok(rows.await?)
}

pub(super) async fn list(
    Call { state, caller, query: McpServerFilter { team }, page, .. }: Call<Empty, McpServerFilter>,
) -> ApiResult<Rows<McpServerRow>> {
    let (rows, lists) = (rows(&state).await?, caller.lists(team));
    let rows = rows.into_iter().filter(|row| lists(&row.team));
    listing::page(rows, &page, |row| format!("{}/{}", row.team, row.server))
}

/// Whoever names a program or an address has it started or reached, with what the vault holds for it.
pub(super) async fn try_out(
    Call { state, caller, body, .. }: Call<Empty, Empty, McpTrial>,
) -> ApiResult<Data<McpServerRow>> {
    let McpTrial { team, server, content } = body;
    caller.everything()?;
    let key = known_team(&state, &caller, &team)?;
    let name = key.name.to_string();
    let read = looking(&state, move |files| {
        let file = load::team_of(&files.home, &name, &content)?;
        let workspace = Workspace::open(&files.home.team(&name), &file.allowed_dirs);
        Ok::<_, Problems>((file, workspace.map(Arc::new)))
    });
    let (file, workspace) = read.await?.map_err(|problems| refused(&state.secrets, problems))?;
    let workspace = workspace.map_err(|error| ApiError::unfit("content", error.to_string()))?;
    let status = state.servers.try_out(&key, &file, &workspace, &server).await;
    let absent = || ApiError::unfit("server", format!("the file has no MCP server `{server}`"));
    let config = file.mcp_servers.0.get(&server).ok_or_else(absent)?;
    Ok(Data((&key.name, server.as_str(), config, status.unwrap_or_default()).into()))
}

pub(super) async fn restart(
    Call { state, caller, path: ByServer { team, server }, .. }: Call<ByServer>,
) -> ApiResult<Data<McpServerRow>> {
    known_team(&state, &caller, &team)?;
    if let Some(known) = state.servers.find(&team.as_str().into(), &server) {
        known.restart().await;
    }
    let rows = rows(&state).await?;
    let found = rows.into_iter().find(|row| row.team == team && row.server == server);
    let missing = || ApiError::not_found(format!("team `{team}` has no MCP server `{server}`"));
    found.map(Data).ok_or_else(missing)
}
