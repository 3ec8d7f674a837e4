//! `hivewright tools`: the tools that teams wrote.

use clap::{Args, Subcommand};

use crate::{
    api::{endpoint::Empty, plugin_tools::*},
    cli::{
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, joined},
    },
};

/// See the tools that teams wrote, and take one out of use
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright tools\n  \
    hivewright tools show research lookup\n  \
    hivewright tools deprecate research lookup --reason \"asks a service that is gone\"")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Option<Action>,
}

/// What to do with the tools of teams.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List tools with how they stand
    #[command(after_help = "Example:\n  hivewright tools list --team research --status active")]
    List(PluginToolFilter),
    /// Show a tool with its source
    #[command(after_help = "Example:\n  hivewright tools show research lookup --of-version 1")]
    Show {
        #[command(flatten)]
        path: ByTool,
        #[command(flatten)]
        version: ToolVersion,
    },
    /// Take a tool out of use
    #[command(
        after_help = "Example:\n  hivewright tools deprecate research lookup --reason \"no longer needed\""
    )]
    Deprecate {
        #[command(flatten)]
        path: ByTool,
        #[command(flatten)]
        deprecation: ToolDeprecation,
    },
    /// Remove a tool that is out of use, with its source
    #[command(aliases = ["delete", "rm"], after_help = "Example:\n  hivewright tools remove research lookup")]
    Remove(ByTool),
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action.unwrap_or(Action::List(PluginToolFilter::default())) {
        Action::List(filter) => service.all(&LIST_PLUGIN_TOOLS, &filter).await?.table(screen),
        Action::Show { path, version } => {
            let shown = service.call(&GET_PLUGIN_TOOL, &path, &version, &Empty {}).await?;
            shown.tell(screen, |row| {
                row.source.clone().unwrap_or_else(|| {
                    format!(
                        "{} of team {} is {}; its source is not here",
                        row.tool, row.team, row.status
                    )
                })
            })
        }
        Action::Deprecate { path, deprecation } => {
            let done = service.send(&DEPRECATE_PLUGIN_TOOL, &path, &deprecation).await?;
            done.tell(screen, |row| format!("out of use: {} of team {}", row.tool, row.team))
        }
        Action::Remove(path) => {
            let done = service.at(&REMOVE_PLUGIN_TOOL, &path).await?;
            done.tell(screen, |row| format!("removed: {} of team {}", row.tool, row.team))
        }
    }
}

columns!(PluginToolRow {
    "TEAM" => |row| row.team.clone(),
    "TOOL" => |row| row.tool.clone(),
    "STATUS" => |row| row.status.to_string(),
    "VERSION" => |row| row.version.to_string(),
    "EFFECT" => |row| row.effect.clone(),
    "HOSTS" => |row| joined(&row.hosts),
    "REASON" => |row| row.reason.clone(),
});
