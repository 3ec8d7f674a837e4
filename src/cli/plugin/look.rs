//! `hivewright plugin info` and `doctor`: a plugin in words, and what is wrong with it.

use std::path::Path;

use super::super::{
    Context,
    failure::{Exit, Failure},
    screen::printable,
    service::Service,
    table::fields,
};
use crate::{
    api::{
        endpoint::Empty,
        plugins::{LIST_PLUGINS, PluginFilter, PluginRow},
    },
    plugins::{
        capabilities::Capabilities,
        fault::{Fault, FaultCode},
        package::{Files, Origin, Package},
    },
};

/// What a plugin brings, a word each.
pub(super) fn brings(row: &PluginRow) -> Vec<&'static str> {
    let Some(capabilities) = &row.capabilities else { return Vec::new() };
    let parts = [
        (capabilities.tools.is_some(), "tools"),
        (capabilities.channel.is_some(), "channel"),
        (!capabilities.hooks.is_empty(), "hooks"),
    ];
    parts.into_iter().filter_map(|(is_there, name)| is_there.then_some(name)).collect()
}

/// Lines below a heading.
pub(super) fn asked(lines: &[String]) -> String {
    lines.iter().map(|line| format!("  {}\n", printable(line))).collect()
}

/// A plugin, for a person.
pub(super) fn in_words(row: &PluginRow) -> String {
    let mut text = fields(
        10,
        [
            ("plugin", format!("{} {}", row.key, row.version)),
            ("about", printable(&row.description)),
            ("from", format!("{} ({})", printable(&row.source), row.origin)),
            ("state", row.state.to_string()),
            ("digest", row.digest.clone()),
        ],
    );
    if let Some(fault) = &row.fault {
        let place =
            if fault.field.is_empty() { String::new() } else { format!(", {}", fault.field) };
        text.push_str(&format!(
            "problem   {}: {}{place}: {}\n",
            fault.code,
            fault.file,
            printable(&fault.reason)
        ));
    }
    if !row.asks.is_empty() {
        text.push_str("It asks for:\n");
        text.push_str(&asked(&row.asks));
    }
    text
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
        FaultCode::NeedsNewerHivewright => "install a newer release of Hivewright",
        _ => "correct the manifest; docs/plugins.md says what may stand there",
    }
}

fn told(fault: &Fault) -> String {
    format!("{fault}\n  cure: {}", cure(fault.code))
}

/// Looks over a folder, where no service is needed.
pub(super) fn at_folder(folder: &Path, context: &Context) -> Result<(), Failure> {
    let files = Files::Folder(folder.to_owned());
    let package = Package::load(files, Origin::Development)
        .map_err(|fault| Failure::new(Exit::FoundErrors, told(&fault)))?;
    let capabilities = Capabilities::of(&package);
    if context.screen.json {
        return context.screen.document(&serde_json::json!({"data": {
            "key": package.manifest.key, "version": package.manifest.version,
            "capabilities": capabilities,
        }}));
    }
    let manifest = &package.manifest;
    context.screen.write(&format!(
        "{} {} is sound. It asks for:\n{}",
        manifest.key,
        manifest.version,
        asked(&capabilities.lines())
    ));
    Ok(())
}

/// Looks at the plugins of the service, or at one.
pub(super) async fn at_all(
    service: &Service,
    key: Option<&Path>,
    context: &Context,
) -> Result<(), Failure> {
    let listed = service.all_rows(&LIST_PLUGINS, &Empty {}, &PluginFilter::default()).await?;
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
        .filter_map(|row| {
            let fault = row.fault.clone()?;
            let fault = Fault::new(fault.code, fault.file, fault.field, fault.reason);
            Some(format!("{}: {}", row.key, told(&fault)))
        })
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
