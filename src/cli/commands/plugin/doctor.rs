//! `hivewright plugin doctor`: tries a plugin in a folder, which needs no service, or looks over those of the service.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};

use super::look::asked;
use crate::{
    api::plugins::{LIST_PLUGINS, PluginFilter},
    cli::{
        client::Service,
        commands::team_plugins,
        context::Context,
        failure::{Exit, Failure},
        screen::printable,
    },
    plugins::{
        capabilities::Capabilities,
        fault::{Fault, FaultCode},
        manifest::Manifest,
        package::{Files, Origin, Package},
        trial::{Findings, Trial},
    },
};

#[derive(Debug, PartialEq, Args)]
pub(in crate::cli) struct Doctor {
    /// A folder with a `plugin.toml`, or the key of a plugin of the service
    #[arg(value_name = "FOLDER|KEY")]
    plugin: Option<PathBuf>,
    /// What a team would set, as JSON, for a plugin in a folder
    #[arg(long, value_name = "FILE", requires = "plugin")]
    config: Option<PathBuf>,
    /// Call a tool of a plugin in a folder
    #[arg(long, num_args = 2, value_names = ["TOOL", "JSON"], requires = "plugin")]
    call: Vec<String>,
}

pub(super) async fn run(doctor: Doctor, context: &Context) -> Result<(), Failure> {
    let Doctor { plugin, config, call } = doctor;
    match plugin {
        Some(folder) if folder.is_dir() => {
            at_folder(folder, config.as_deref(), &call, context).await
        }
        _ if config.is_some() || !call.is_empty() => {
            Err(Failure::usage("`--config` and `--call` are for a plugin in a folder"))
        }
        plugin => at_all(&Service::find(context)?, plugin.as_deref(), context).await,
    }
}

/// What can be done about a fault.
fn cure(code: FaultCode) -> &'static str {
    match code {
        FaultCode::ManifestMissing => {
            "write a `plugin.toml`; `hivewright plugin new` makes one to begin with"
        }
        FaultCode::DigestMismatch => "look at what changed, then `hivewright plugin approve`",
        FaultCode::KeyTaken | FaultCode::NamespaceTaken => {
            "take another name, or uninstall the other plugin"
        }
        FaultCode::EntryMissing => "put the program there, make it executable, or correct the path",
        FaultCode::EnvForbidden => {
            "make it a setting with `x-secret`: it comes with `plugin/start`"
        }
        FaultCode::SignatureMissing | FaultCode::SignatureBad => {
            "sign it with `hivewright plugin sign`, or trust the key of who signed it"
        }
        FaultCode::NeedsNewerHivewright => "install a newer release of Hivewright",
        _ => "correct the manifest; docs/plugins.md says what may stand there",
    }
}

fn told(fault: &Fault) -> String {
    format!("{fault}\n  cure: {}", cure(fault.code))
}

/// Starts the plugin in a folder alone, and says what it has and what is wrong with it.
async fn at_folder(
    folder: PathBuf,
    config: Option<&Path>,
    calls: &[String],
    context: &Context,
) -> Result<(), Failure> {
    let folder = folder.canonicalize().map_err(Failure::unreadable(&folder))?;
    let package = Package::load(Files::Folder(folder), Origin::Development)
        .map_err(|fault| Failure::new(Exit::FoundErrors, told(&fault)))?;
    let (manifest, capabilities) = (package.manifest.clone(), Capabilities::of(&package));
    let config = match config {
        Some(file) => Value::Object(team_plugins::object(&team_plugins::read(file)?)?),
        None => json!({}),
    };
    let calls = calls.chunks_exact(2).map(|call| {
        let args = team_plugins::object(&call[1])?;
        Ok((call[0].clone(), Value::Object(args)))
    });
    let calls = calls.collect::<Result<_, Failure>>()?;
    let launcher = std::env::current_exe()
        .map_err(|error| Failure::system("this program cannot be found", error))?;
    let trial = Trial { package, config, calls, launcher };
    // Its parts are actors, which have a thread of their own.
    let tried = tokio::task::spawn_blocking(|| actix::System::new().block_on(trial.run())).await;
    let findings = tried
        .map_err(|error| Failure::system("the plugin cannot be tried", error))?
        .map_err(|error| Failure::system("the plugin cannot be tried", error))?;
    if context.screen.json {
        context.screen.document(&json!({"data": {
            "key": manifest.key, "version": manifest.version,
            "capabilities": capabilities, "findings": findings,
        }}))?;
    } else {
        context.screen.write(&in_words(&manifest, &capabilities, &findings));
    }
    let problems: Vec<_> = findings.problems.iter().map(ToString::to_string).collect();
    if problems.is_empty() {
        return Ok(());
    }
    Err(context.screen.failure(Exit::FoundErrors, printable(&problems.join("\n"))))
}

/// What a trial found, apart from problems.
fn in_words(manifest: &Manifest, capabilities: &Capabilities, findings: &Findings) -> String {
    let Findings { tools, hooks, calls, problems } = findings;
    let mut text = format!("{} {}", manifest.key, manifest.version);
    text.push_str(if problems.is_empty() { " is sound.\n" } else { " has problems.\n" });
    let mut list = |heading: &str, lines: Vec<String>| {
        if !lines.is_empty() {
            text.push_str(&format!("{heading}:\n{}", asked(&lines)));
        }
    };
    let tools =
        tools.iter().map(|tool| format!("{} ({}): {}", tool.key, tool.effect, tool.description));
    list("Tools", tools.collect());
    let hooks = hooks.iter().map(|hook| {
        let about = if hook.tools.is_empty() {
            String::new()
        } else {
            format!(" of {}", hook.tools.join(", "))
        };
        let said = if hook.said.is_empty() { "is told" } else { &hook.said };
        format!("{}{about}: {said}", hook.event)
    });
    list("Hooks", hooks.collect());
    list("Calls", calls.iter().map(|call| format!("{}: {}", call.tool, call.answer)).collect());
    list("It asks for", capabilities.lines());
    text
}

/// Looks at the plugins of the service, or at one.
async fn at_all(service: &Service, key: Option<&Path>, context: &Context) -> Result<(), Failure> {
    let listed = service.all(&LIST_PLUGINS, &PluginFilter::default()).await?;
    let mut rows = listed.data()?;
    if let Some(key) = key {
        rows.retain(|row| Path::new(&row.key) == key);
        if rows.is_empty() {
            let message = format!("there is no folder and no plugin `{}`", key.display());
            return Err(Failure::new(Exit::NotFound, message));
        }
    }
    let broken: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(format!("{}: {}", row.key, told(row.fault.as_ref()?))))
        .collect();
    if broken.is_empty() && context.screen.json {
        return context.screen.document(&listed.document);
    }
    if broken.is_empty() {
        let count = rows.len();
        context
            .screen
            .remark(&format!("{count} plugin{} sound", if count == 1 { " is" } else { "s are" }));
        return Ok(());
    }
    Err(Failure::new(Exit::FoundErrors, broken.join("\n")))
}
