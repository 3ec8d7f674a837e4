//! `hivewright plugin show`: a plugin in words.

use crate::{
    api::plugins::PluginRow,
    cli::{
        screen::printable,
        table::{fields, joined},
    },
    plugins::manifest::RunKind,
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
            ("kind", row.kind.map_or("", RunKind::as_str).to_owned()),
            ("state", row.state.to_string()),
            ("teams", joined(&row.teams)),
            ("digest", row.digest.clone()),
        ],
    );
    if let Some(name) = &row.signed_by {
        text.push_str(&format!("signed    by {}\n", printable(name)));
    }
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
    if let Some(update) = &row.update {
        let approval = update.approval.as_ref().map(ToString::to_string).unwrap_or_default();
        text.push_str(&format!("update    {} waits for {approval}\n", update.version));
    }
    if !row.asks.is_empty() {
        text.push_str("It asks for:\n");
        text.push_str(&asked(&row.asks));
    }
    text
}
