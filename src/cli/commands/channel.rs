//! `hivewright channel`: plugins that bring a channel. What `plugin` does, for those alone.

use clap::Subcommand;

use super::{plugin, team_plugins};
use crate::{
    api::plugins::PluginFilter,
    cli::{context::Context, failure::Failure},
};

/// Plugins that bring a channel: list them, set one up, switch it on
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright channel list\n  \
    hivewright channel setup echo-channel --team main")]
pub(super) enum Action {
    /// List the plugins that bring a channel
    #[command(after_help = "Example:\n  hivewright channel list --json")]
    List,
    /// Show a plugin: what it asks for, and what is wrong with it
    #[command(alias = "info", after_help = "Example:\n  hivewright channel show echo-channel")]
    Show {
        /// The key of the plugin
        key: String,
    },
    #[command(flatten)]
    OfTeam(team_plugins::Action),
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let action = match action {
        Action::List => plugin::Action::List(PluginFilter { channel: Some(true) }),
        Action::Show { key } => plugin::Action::Show { key },
        Action::OfTeam(action) => plugin::Action::OfTeam(action),
    };
    plugin::run(action, context).await
}
