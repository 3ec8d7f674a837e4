//! `hivewright teams servers` and `restart-server`: the MCP servers of teams.

use super::{
    answer::Answer,
    failure::Failure,
    screen::Screen,
    service::Service,
    table::{columns, joined},
};
use crate::api::{
    endpoint::Empty,
    mcp::{ByServer, LIST_SERVERS, McpServerFilter, McpServerRow, RESTART_SERVER},
};

pub(super) async fn rows(
    service: &Service,
    filter: &McpServerFilter,
) -> Result<Answer<Vec<McpServerRow>>, Failure> {
    service.all_rows(&LIST_SERVERS, &Empty {}, filter).await
}

pub(super) async fn restart(
    service: &Service,
    path: ByServer,
    screen: Screen,
) -> Result<(), Failure> {
    let ended = service.at(&RESTART_SERVER, &path).await?;
    ended.tell(screen, |row| {
        format!("ended: {} of team {}; the next turn or call starts it again", row.server, row.team)
    })
}

columns!(McpServerRow {
    "TEAM" => |row| row.team.clone(),
    "SERVER" => |row| row.server.clone(),
    "BY" => |row| row.transport.clone(),
    "STATE" => |row| row.state.to_string(),
    "TOOLS" => |row| row.tools.len().to_string(),
    "CALLS" => |row| row.calls.to_string(),
    "PROBLEM" => |row| {
        let left_out = joined(&row.left_out);
        row.last_error.clone().unwrap_or(if row.left_out.is_empty() { String::new() } else { left_out })
    },
});
