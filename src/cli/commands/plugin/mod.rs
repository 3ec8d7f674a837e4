//! `hivewright plugin`: what extends the service, installed once and switched on for each team.

use clap::Subcommand;

use super::team_plugins;
use crate::{
    api::{endpoint::Empty, plugins::*},
    cli::{
        answer::Answer,
        client::Service,
        context::Context,
        failure::{Exit, Failure},
        prompt::confirm,
        table::{columns, joined},
    },
    plugins::manifest::RunKind,
};

mod doctor;
mod install;
mod look;
mod new;
mod sign;

/// Install plugins, see what they ask for, write one
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright plugin new weather\n  \
    hivewright plugin doctor ./weather\n  \
    hivewright plugin install ./weather")]
pub(super) enum Action {
    /// List all plugins, those that cannot be loaded among them
    #[command(after_help = "Example:\n  hivewright plugin list --json")]
    List(PluginFilter),
    /// Show a plugin: what it asks for, and what is wrong with it
    #[command(alias = "info", after_help = "Example:\n  hivewright plugin show weather")]
    Show {
        /// The key of the plugin
        key: String,
    },
    /// Install a plugin, or another version of one; nothing of it is run
    #[command(after_help = "Examples:\n  \
        hivewright plugin install ./weather\n  \
        hivewright plugin install weather-1.2.0.tar.gz --yes\n  \
        hivewright plugin install https://example.org/weather.zip --sha256 9f86d0…\n  \
        hivewright plugin install --mcp clock --read /opt/clock -- node /opt/clock/server.js")]
    Install(install::Install),
    /// Take an installed plugin away
    #[command(aliases = ["delete", "remove", "rm"], after_help = "Examples:\n  \
        hivewright plugin uninstall weather\n  \
        hivewright plugin uninstall weather --purge")]
    Uninstall {
        /// The key of the plugin
        key: String,
        /// Remove too what it keeps for teams
        #[arg(long)]
        purge: bool,
    },
    /// Agree to the files of an installed plugin as they are now
    #[command(after_help = "Example:\n  hivewright plugin approve weather")]
    Approve {
        /// The key of the plugin
        key: String,
    },
    #[command(flatten)]
    OfTeam(team_plugins::Action),
    /// Write a plugin to begin with
    #[command(after_help = "Examples:\n  \
        hivewright plugin new weather\n  \
        hivewright plugin new weather --language python --dir ~/plugins/weather")]
    New(new::New),
    /// Try a plugin in a folder, which needs no service, or look over all that there are
    #[command(after_help = "Examples:\n  \
        hivewright plugin doctor\n  \
        hivewright plugin doctor ./weather\n  \
        hivewright plugin doctor ./weather --config settings.json --call greet '{\"name\": \"Ada\"}'")]
    Doctor(doctor::Doctor),
    /// Sign a plugin in a folder, so that operators who trust your key know that it is yours
    #[command(after_help = "Example:\n  hivewright plugin sign ./weather --key me.pem")]
    Sign(sign::Sign),
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match action {
        Action::New(new) => return new::run(new, context),
        Action::Sign(sign) => return sign::run(sign, context),
        Action::Doctor(doctor) => return doctor::run(doctor, context).await,
        _ => {}
    }
    let service = Service::find(context)?;
    match action {
        Action::List(filter) => service.all(&LIST_PLUGINS, &filter).await?.table(screen),
        Action::Show { key } => {
            let shown = service.at(&SHOW_PLUGIN, &ByKey { key }).await?;
            shown.show(screen, |row| look::in_words(&row))
        }
        Action::Install(install) => install::run(install, &service, context).await,
        Action::Uninstall { key, purge } => {
            let more = if purge { ", with all that it keeps for teams" } else { "" };
            confirm(context, &format!("Plugin `{key}` goes{more}."), "Uninstall it?")?;
            let path = ByKey { key };
            service.call(&UNINSTALL_PLUGIN, &path, &PluginRemoval { purge }, &Empty {}).await?;
            Answer::naming("uninstalled", &path.key)
                .tell(screen, |_| format!("uninstalled {}", path.key))
        }
        Action::OfTeam(action) => team_plugins::run(action, context).await,
        Action::Approve { key } => approve(&service, ByKey { key }, context).await,
        Action::Doctor(_) | Action::New(_) | Action::Sign(_) => Ok(()),
    }
}

async fn approve(service: &Service, path: ByKey, context: &Context) -> Result<(), Failure> {
    let row = service.at(&SHOW_PLUGIN, &path).await?.data()?;
    if row.digest.is_empty() {
        let reason = row.fault.map(|fault| fault.reason).unwrap_or_default();
        return Err(Failure::new(
            Exit::Conflict,
            format!("there is nothing to agree to: {reason}"),
        ));
    }
    confirm(context, &look::in_words(&row), "Agree to these files?")?;
    let body = PluginApproval { digest: row.digest };
    let approved = service.send(&APPROVE_PLUGIN, &path, &body).await?;
    approved.tell(context.screen, |row| format!("agreed to {} {}", row.key, row.version))
}

columns!(PluginRow {
    "KEY" => |row| row.key.clone(),
    "VERSION" => |row| row.version.clone(),
    "FROM" => |row| row.origin.to_string(),
    "KIND" => |row| row.kind.map_or("", RunKind::as_str).to_owned(),
    "STATE" => |row| row.state.to_string(),
    "BRINGS" => |row| look::brings(row).join(", "),
    "TEAMS" => |row| joined(&row.teams),
    "ABOUT" => |row| match &row.fault {
        Some(fault) => format!("{}: {}", fault.code, fault.reason),
        None => row.description.clone(),
    },
});
