//! Manifest validation: names, bounds and what belongs together, beyond what the types say.

use std::{
    fmt::Display,
    ops::RangeInclusive,
    path::{Component, Path},
    time::Duration,
};

use hivewright_actors::{
    channel_type::{LONGEST_PLUGIN_KEY, is_plugin_key},
    text::{Size, Span},
};
use semver::Version;

use super::{
    builtin,
    fault::{Fault, FaultCode},
    manifest::{
        ChannelScheme, ChannelWebhook, Hook, MANIFEST, MOST_TOOLS, Manifest, Network, Protocol,
        Run, RunKind,
    },
};
use crate::settings::network::HostPattern;

/// The folder of trusted keys, beside the installed packages.
pub(super) const KEYS: &str = "keys";
/// `check` is a path of the API, `keys` a folder beside installed packages.
const RESERVED_KEYS: [&str; 11] =
    ["hivewright", "builtin", "mcp", "agent", "ws", "discord", "cli", "api", "team", "check", KEYS];
/// Beside the names of tools.
const RESERVED_NAMESPACES: [&str; 4] = ["main", "mcp", "agent", "hivewright"];
const LONGEST_NAMESPACE: usize = 24;
const LONGEST_TOOL: usize = 64;
/// The most hooks, hosts, paths, variables or arguments.
const MOST: usize = 64;
/// Variables that change what a program is, by their beginning.
const FORBIDDEN_STARTS: [&str; 6] = ["LD_", "DYLD_", "PYTHON", "PERL", "RUBY", "GIT_"];
const FORBIDDEN_NAMES: [&str; 3] = ["NODE_OPTIONS", "BASH_ENV", "ENV"];
/// What is in the names of variables that hold secrets.
const SECRET_PARTS: [&str; 5] = ["KEY", "TOKEN", "SECRET", "PASS", "CRED"];

/// What is wrong with a field of the manifest.
pub(super) fn fault(code: FaultCode, field: &str, reason: impl Into<String>) -> Fault {
    Fault::new(code, MANIFEST, field, reason)
}

fn invalid(field: &str, reason: impl Into<String>) -> Fault {
    fault(FaultCode::ManifestInvalid, field, reason)
}

fn within<T: PartialOrd + Display>(
    field: &str,
    value: &T,
    range: RangeInclusive<T>,
) -> Result<(), Fault> {
    if range.contains(value) {
        return Ok(());
    }
    let (low, high) = (range.start(), range.end());
    Err(invalid(field, format!("{value} is not from {low} to {high}")))
}

/// The first thing that is wrong with a manifest.
pub(super) fn check(manifest: &Manifest) -> Result<(), Fault> {
    let key = manifest.key.as_str();
    check_key(key)?;
    line("display_name", &manifest.display_name, 60)?;
    line("description", &manifest.description, 200)?;
    if let Some(least) = &manifest.min_hivewright {
        let own = Version::parse(env!("CARGO_PKG_VERSION"));
        if own.is_ok_and(|own| *least > own) {
            let reason =
                format!("it needs Hivewright {least}; this is {}", env!("CARGO_PKG_VERSION"));
            return Err(fault(FaultCode::NeedsNewerHivewright, "min_hivewright", reason));
        }
    }
    check_run(&manifest.run)?;
    if manifest.run.kind == RunKind::Builtin && builtin::find(key).is_none() {
        let reason = "`builtin` is for plugins that come with the release";
        return Err(fault(FaultCode::UnsupportedRunKind, "run.kind", reason));
    }
    let has_hooks = !manifest.hooks().is_empty();
    if manifest.tools.is_none() && manifest.channel.is_none() && !has_hooks {
        let reason = "it needs a table `tools`, `channel` or `hooks`";
        return Err(fault(FaultCode::NoCapability, "", reason));
    }
    let speaks_mcp = manifest.run.protocol == Protocol::Mcp;
    if speaks_mcp && (manifest.channel.is_some() || has_hooks || manifest.config.schema.is_some()) {
        let reason = "a plugin that speaks MCP alone brings tools and nothing else";
        return Err(invalid("run.protocol", reason));
    }
    check_tools(manifest)?;
    if let Some(webhook) = manifest.channel.as_ref().and_then(|channel| channel.webhook.as_ref()) {
        check_webhook(webhook)?;
    }
    few("hooks.on", manifest.hooks().len())?;
    for (place, hook) in manifest.hooks().iter().enumerate() {
        check_hook(&format!("hooks.on[{place}]"), hook)?;
    }
    check_limits(manifest)?;
    check_sandbox(manifest)
}

/// What is wrong with a key.
pub fn check_key(key: &str) -> Result<(), Fault> {
    let wrong = |reason: String| Err(fault(FaultCode::KeyInvalid, "key", reason));
    if !is_plugin_key(key) {
        return wrong(format!(
            "expected 2 to {LONGEST_PLUGIN_KEY} lower-case letters and digits with single hyphens, a letter first"
        ));
    }
    if RESERVED_KEYS.contains(&key) {
        return wrong(format!("`{key}` is a name of Hivewright itself"));
    }
    Ok(())
}

fn line(field: &str, text: &str, longest: usize) -> Result<(), Fault> {
    let length = text.chars().count();
    if text.trim().is_empty() || length > longest || text.chars().any(char::is_control) {
        return Err(invalid(field, format!("expected one line of 1 to {longest} characters")));
    }
    Ok(())
}

fn few(field: &str, count: usize) -> Result<(), Fault> {
    if count <= MOST {
        return Ok(());
    }
    Err(invalid(field, format!("has {count} entries; at most {MOST} are taken")))
}

fn check_run(run: &Run) -> Result<(), Fault> {
    let is_process = run.kind == RunKind::Process;
    let is_js = run.kind == RunKind::Js;
    match (&run.command, is_process) {
        (None, true) => return Err(invalid("run.command", "a `process` needs it")),
        (Some(_), false) => return Err(invalid("run.command", "it is for `process` alone")),
        _ => {}
    }
    match (&run.entry, is_js) {
        (None, true) => return Err(invalid("run.entry", "`js` needs it")),
        (Some(_), false) => return Err(invalid("run.entry", "it is for `js` alone")),
        _ => {}
    }
    if !is_process && (!run.args.is_empty() || !run.env_allow.is_empty()) {
        return Err(invalid("run", "`args` and `env_allow` are for `process` alone"));
    }
    if !is_process && run.protocol == Protocol::Mcp {
        return Err(invalid("run.protocol", "`mcp` is for `process` alone"));
    }
    few("run.args", run.args.len())?;
    if run.args.iter().chain(&run.command).any(|text| text.contains('\0')) {
        return Err(invalid("run", "a NUL byte"));
    }
    if let Some(command) = &run.command {
        if command.is_empty() {
            return Err(invalid("run.command", "it is empty"));
        }
        inside("run.command", command)?;
    }
    if let Some(entry) = &run.entry {
        inside("run.entry", entry)?;
        if !(entry.ends_with(".js") || entry.ends_with(".mjs")) {
            return Err(invalid("run.entry", "expected a file that ends in `.js` or `.mjs`"));
        }
    }
    few("run.env_allow", run.env_allow.len())?;
    run.env_allow.iter().try_for_each(|name| check_variable(name))
}

fn check_variable(name: &str) -> Result<(), Fault> {
    let field = "run.env_allow";
    let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() || !name.bytes().all(good) {
        return Err(invalid(field, "expected names of variables"));
    }
    let upper = name.to_ascii_uppercase();
    let is_forbidden = FORBIDDEN_STARTS.iter().any(|start| upper.starts_with(start))
        || FORBIDDEN_NAMES.contains(&upper.as_str())
        || upper.ends_with("_PROXY")
        || SECRET_PARTS.iter().any(|part| upper.contains(part));
    if is_forbidden {
        let reason = format!("no plugin gets `{name}`; secrets belong in its settings");
        return Err(fault(FaultCode::EnvForbidden, field, reason));
    }
    Ok(())
}

/// A path leads to something in the folder, as far as its text says.
pub(super) fn inside(field: &str, path: &str) -> Result<(), Fault> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if Path::new(path).components().all(is_plain) {
        return Ok(());
    }
    let reason = format!("`{path}` leads out of the plugin's folder");
    Err(fault(FaultCode::PathEscape, field, reason))
}

fn check_tools(manifest: &Manifest) -> Result<(), Fault> {
    let Some(tools) = &manifest.tools else { return Ok(()) };
    let (field, name) = ("tools.namespace", tools.namespace.as_str());
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = (1..=LONGEST_NAMESPACE).contains(&name.len())
        && name.bytes().all(good)
        && name.as_bytes()[0].is_ascii_lowercase();
    if !is_name {
        let reason = format!(
            "expected 1 to {LONGEST_NAMESPACE} lower-case letters and digits, a letter first"
        );
        return Err(invalid(field, reason));
    }
    if RESERVED_NAMESPACES.contains(&name) {
        return Err(reserved(name));
    }
    if tools.max == 0 {
        return Err(invalid("tools.max", "expected at least 1"));
    }
    let (most, named) = (tools.max, tools.effects.len());
    if most > MOST_TOOLS || named > most {
        let reason = format!("a plugin has at most {MOST_TOOLS} tools, and no more than `max`");
        let field = if most > MOST_TOOLS { "tools.max" } else { "tools.effects" };
        return Err(fault(FaultCode::TooManyTools, field, reason));
    }
    if let Some(tool) = tools.effects.keys().find(|tool| !is_tool_name(tool)) {
        return Err(invalid("tools.effects", format!("`{tool}` is no name of a tool")));
    }
    Ok(())
}

/// The fault of a namespace that nobody may have.
pub(super) fn reserved(name: &str) -> Fault {
    let reason = format!("`{name}` is a name of Hivewright itself");
    fault(FaultCode::NamespaceReserved, "tools.namespace", reason)
}

/// A tool of a plugin may have this name.
pub fn is_tool_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    (1..=LONGEST_TOOL).contains(&name.len()) && name.bytes().all(good)
}

fn check_webhook(webhook: &ChannelWebhook) -> Result<(), Fault> {
    let (first, last) = (Span(Duration::from_secs(10)), Span(Duration::from_secs(3600)));
    within("channel.webhook.tolerance", &webhook.tolerance, first..=last)?;
    within("channel.webhook.max_body", &webhook.max_body, Size(1)..=Size(1 << 20))?;
    let field = "channel.webhook.secret_field";
    match (&webhook.scheme, &webhook.secret_field) {
        (ChannelScheme::Verified(_), None) => Err(invalid(field, "a scheme that signs needs it")),
        (ChannelScheme::Own(_), Some(_)) => {
            Err(invalid(field, "with the scheme `plugin` nobody else looks at a secret"))
        }
        _ => Ok(()),
    }
}

fn check_hook(field: &str, hook: &Hook) -> Result<(), Fault> {
    within(&format!("{field}.priority"), &hook.priority, 0..=1000)?;
    if let Some(timeout) = &hook.timeout {
        within(&format!("{field}.timeout"), timeout, HOOK_TIMEOUT)?;
    }
    let tools = format!("{field}.tools");
    few(&tools, hook.tools.len())?;
    if !hook.tools.is_empty() && !hook.event.as_str().starts_with("tool.") {
        return Err(invalid(&tools, "only events of tools have tools"));
    }
    Ok(())
}

const SHORTEST: Span = Span(Duration::from_millis(1));
const HOOK_TIMEOUT: RangeInclusive<Span> = SHORTEST..=Span(Duration::from_secs(5));

fn check_limits(manifest: &Manifest) -> Result<(), Fault> {
    let limits = &manifest.limits;
    let up_to = |seconds: u64| SHORTEST..=Span(Duration::from_secs(seconds));
    within("limits.start_timeout", &limits.start_timeout, up_to(60))?;
    within("limits.call_timeout", &limits.call_timeout, up_to(600))?;
    within("limits.hook_timeout", &limits.hook_timeout, HOOK_TIMEOUT)?;
    within("limits.restarts", &limits.restarts, 0..=1000)?;
    if manifest.run.kind == RunKind::Builtin {
        if limits.memory.is_some() || limits.processes.is_some() {
            return Err(invalid("limits", "a `builtin` has no memory and no processes of its own"));
        }
        return Ok(());
    }
    within("limits.memory", &manifest.memory(), Size(1 << 20)..=Size(2 << 30))?;
    within("limits.processes", &manifest.processes(), 1..=64)
}

fn check_sandbox(manifest: &Manifest) -> Result<(), Fault> {
    let sandbox = &manifest.sandbox;
    few("sandbox.hosts", sandbox.hosts.len())?;
    few("sandbox.read", sandbox.read.len())?;
    match (sandbox.network, sandbox.hosts.is_empty()) {
        (Network::Broker, true) => {
            return Err(invalid("sandbox.hosts", "`network = \"broker\"` needs hosts"));
        }
        (Network::None, false) => {
            return Err(invalid("sandbox.hosts", "hosts need `network = \"broker\"`"));
        }
        _ => {}
    }
    for host in &sandbox.hosts {
        match host.strip_prefix("config:") {
            Some(pointer) if pointer.starts_with('/') => {}
            Some(_) => {
                return Err(invalid(
                    "sandbox.hosts",
                    "expected a pointer such as config:/tools/allow",
                ));
            }
            None => {
                let parsed = host.parse::<HostPattern>();
                parsed.map_err(|reason| invalid("sandbox.hosts", reason))?;
            }
        }
    }
    for path in &sandbox.read {
        let mut parts = path.components();
        let is_clean = parts.next() == Some(Component::RootDir)
            && parts.all(|part| matches!(part, Component::Normal(_)));
        if !is_clean || path.as_os_str() == "/" {
            let reason = format!("`{}` is not an absolute path without `..`", path.display());
            return Err(invalid("sandbox.read", reason));
        }
    }
    Ok(())
}
