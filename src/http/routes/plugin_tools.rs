//! `/api/v1/plugin-tools`: the tools that teams wrote.

use hivewright_actors::ids::TeamName;

use super::teams::known_team;
use crate::{
    api::{endpoint::*, plugin_tools::*, reply::*},
    http::kit::{call::*, error::*, json, listing},
    tools::plugin_tool::{Change, PluginTool, ToolStateError},
};

fn row(team: &TeamName, tool: &PluginTool) -> PluginToolRow {
    let PluginTool { declared, changes, .. } = tool;
    let effect = serde_json::to_value(declared.effect).unwrap_or_default();
    let change = |Change { at, by, to, version }: &Change| PluginToolChange {
        at: json::date(*at),
        by: by.clone(),
        to: *to,
        version: *version,
    };
    PluginToolRow {
        team: team.to_string(),
        tool: tool.tool.clone(),
        status: tool.status,
        reason: tool.reason.clone(),
        version: tool.version,
        description: declared.description.clone(),
        effect: effect.as_str().unwrap_or_default().to_owned(),
        hosts: declared.hosts.clone(),
        sha256: tool.sha256.clone(),
        verification: tool.verification.clone(),
        created_at: json::date(tool.created_at),
        verified_at: tool.verification.as_ref().and_then(|_| json::date(tool.verified_at)),
        changes: changes.iter().map(change).collect(),
        source: None,
    }
}

impl From<ToolStateError> for ApiError {
    fn from(error: ToolStateError) -> Self {
        match error {
            ToolStateError::Unknown(_) => Self::not_found(error.to_string()),
            ToolStateError::Conflict { .. } => Self::conflict(error.to_string()),
            error => Self::internal(error),
        }
    }
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, PluginToolFilter>,
) -> ApiResult<Rows<PluginToolRow>> {
    let PluginToolFilter { team, status } = query;
    let lists = caller.lists(team);
    let rows = state.plugin_tools.all().into_iter().map(|(team, tool)| row(&team, &tool));
    let rows =
        rows.filter(|row| lists(&row.team) && status.is_none_or(|status| row.status == status));
    listing::page(rows, &page, |row| format!("{}/{}", row.team, row.tool))
}

pub(super) async fn get(
    Call { state, caller, path: ByTool { team, tool }, query, .. }: Call<ByTool, ToolVersion>,
) -> ApiResult<Data<PluginToolRow>> {
    let team = known_team(&state, &caller, &team)?.name;
    let missing = || ApiError::not_found(format!("team `{team}` has no tool `{tool}`"));
    let known = state.plugin_tools.find(&team, &tool).ok_or_else(missing)?;
    // What was imported or removed has no source here.
    let wanted = query.version.unwrap_or(known.version);
    let source = state.plugin_tools.source(&team, &tool, wanted).await.ok();
    if source.is_none() && query.version.is_some() {
        return Err(ApiError::not_found(format!("`{tool}` has no version {wanted}")));
    }
    Ok(Data(PluginToolRow { source, ..row(&team, &known) }))
}

pub(super) async fn deprecate(
    Call { state, caller, path, body, .. }: Call<ByTool, Empty, ToolDeprecation>,
) -> ApiResult<Data<PluginToolRow>> {
    let team = known_team(&state, &caller, &path.team)?.name;
    let (by, why) = (caller.principal.id.to_string(), body.reason.trim());
    let known = state.plugin_tools.deprecate(&team, &path.tool, why, &by).await?;
    Ok(Data(row(&team, &known)))
}

pub(super) async fn remove(
    Call { state, caller, path, .. }: Call<ByTool>,
) -> ApiResult<Data<PluginToolRow>> {
    let team = known_team(&state, &caller, &path.team)?.name;
    let by = caller.principal.id.to_string();
    let known = state.plugin_tools.remove(&team, &path.tool, &by).await?;
    Ok(Data(row(&team, &known)))
}
