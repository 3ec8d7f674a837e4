//! MCP servers: which ones teams have, how they stand, and starting one again.

use clap::Args;
use hivewright_actors::ids::TeamName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{endpoint::*, reply::*, scope::Scope::*, when::*};
use crate::{
    mcp::status::{ServerState, Status},
    settings::mcp_servers::McpServer,
};

pub const LIST_SERVERS: Endpoint<Rows<McpServerRow>, Empty, McpServerFilter> =
    get("/api/v1/mcp", Read, "Lists the MCP servers of teams, and how they stand.")
        .sorted(&["team", "server", "state"])
        .scrubbed();

pub const TRY_SERVER: Endpoint<Data<McpServerRow>, Empty, Empty, McpTrial> = post(
    "/api/v1/mcp/try",
    Admin,
    "Starts or connects an MCP server of a team file that is not written yet, asks what it offers, and ends it.",
)
.description("What goes wrong is told in `last_error`. Needs every scope, and all teams.")
.refuses(&[404, 422])
.secret()
.example(r#"{"team": "main", "server": "files", "content": "mcp_servers: {files: {command: true}}\n"}"#)
.scrubbed();

pub const RESTART_SERVER: Endpoint<Data<McpServerRow>, ByServer> = post(
    "/api/v1/mcp/{team}/{server}/restart",
    Operate,
    "Ends an MCP server of a team; the next turn or call starts it again.",
)
.description("What it offers is asked anew, and nobody waits because it failed before.")
.scrubbed();

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByServer {
    pub team: String,
    pub server: String,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct McpTrial {
    pub team: String,
    /// Its name in the file.
    pub server: String,
    /// The file of the team as it would be.
    pub content: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
#[serde(default)]
pub struct McpServerFilter {
    /// Only of this team.
    pub team: Option<String>,
}

row! {
    /// An MCP server as answers show it.
    #[derive(Clone)]
    #[schemars(rename = "McpServer")]
    pub struct McpServerRow from (team, server, config, status): (
        &TeamName, &str, &McpServer, Status
    ) {
        pub team: String = team.to_string(),
        pub server: String = server.to_owned(),
        /// `stdio` is a program, `http` an address.
        pub transport: String = if config.url.is_some() { "http" } else { "stdio" }.to_owned(),
        pub state: ServerState = status.state,
        /// Whether the operator believes what it says.
        pub trusted: bool = config.trusted,
        /// What it offers; empty before it was first asked.
        pub tools: Vec<String> = {
            let tools = status.offers.iter().flat_map(|offers| &offers.tools);
            tools.map(|tool| tool.name.clone()).collect()
        },
        /// What it offers and is not taken, with the reason.
        pub left_out: Vec<String> =
            status.offers.iter().flat_map(|offers| &offers.left_out).cloned().collect(),
        /// Calls since the service began.
        pub calls: u64 = status.calls,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_error: Option<String> = status.last_error.as_ref().map(|(_, error)| error.clone()),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_error_at: Option<Moment> = status.last_error.and_then(|(at, _)| date(at)),
    }
}
