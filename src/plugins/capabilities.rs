//! Plugin capabilities: what a package asks for, drawn from its manifest without starting anything, and what of it is new.

use std::collections::BTreeMap;

use hivewright_actors::tool::Effect;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    manifest::{ChannelScheme, Network},
    package::Package,
};

/// What a plugin asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginCapabilities")]
pub struct Capabilities {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<ToolsAsked>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelAsked>,
    /// Events of its hooks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<String>,
    /// Hosts that it reaches through the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Paths that it sees besides its own folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Variables that it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Secret fields of its settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    pub limits: LimitsAsked,
}

/// Tools that a plugin brings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginTools")]
pub struct ToolsAsked {
    /// What stands before their names.
    pub namespace: String,
    pub max: usize,
    /// What running a tool again does, `pure` or `idempotent`; that of all others cannot be undone.
    pub effects: BTreeMap<String, String>,
}

/// A channel that a plugin brings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginChannel")]
pub struct ChannelAsked {
    /// It has a setup wizard.
    pub has_setup: bool,
    /// Its network calls the service.
    pub webhook: bool,
    /// Nobody but the plugin looks at who calls.
    pub webhook_unverified: bool,
}

/// What a plugin may use at most.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PluginLimits")]
pub struct LimitsAsked {
    /// Bytes.
    pub memory: u64,
    pub processes: u32,
    pub call_timeout_ms: u64,
    pub hook_timeout_ms: u64,
}

impl Capabilities {
    pub fn of(package: &Package) -> Self {
        let manifest = &package.manifest;
        let tools = manifest.tools.as_ref().map(|tools| ToolsAsked {
            namespace: tools.namespace.clone(),
            max: tools.max,
            effects: tools
                .effects
                .iter()
                .filter_map(|(tool, effect)| Some((tool.clone(), word(*effect)?.to_owned())))
                .collect(),
        });
        let channel = manifest.channel.as_ref().map(|channel| ChannelAsked {
            has_setup: channel.setup,
            webhook: channel.webhook.is_some(),
            webhook_unverified: matches!(&channel.webhook,
                Some(webhook) if matches!(webhook.scheme, ChannelScheme::Own(_))),
        });
        let mut hooks: Vec<_> =
            manifest.hooks().iter().map(|hook| hook.event.as_str().to_owned()).collect();
        hooks.sort();
        hooks.dedup();
        let reaches = manifest.sandbox.network == Network::Broker;
        let millis = |span: hivewright_actors::text::Span| span.0.as_millis() as u64;
        Self {
            tools,
            channel,
            hooks,
            network: if reaches { manifest.sandbox.hosts.clone() } else { Vec::new() },
            read: manifest.sandbox.read.iter().map(|path| path.display().to_string()).collect(),
            env: manifest.run.env_allow.clone(),
            secrets: package.schema.secrets().to_vec(),
            limits: LimitsAsked {
                memory: manifest.memory().0,
                processes: manifest.processes(),
                call_timeout_ms: millis(manifest.limits.call_timeout),
                hook_timeout_ms: millis(manifest.limits.hook_timeout),
            },
        }
    }

    /// What is asked for, a line each, for a person who decides.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(tools) = &self.tools {
            lines.push(format!("tools `{}.*`, at most {}", tools.namespace, tools.max));
            for (tool, effect) in &tools.effects {
                lines.push(format!("tool `{}.{tool}` says that it is {effect}", tools.namespace));
            }
        }
        lines.extend(self.asks().into_iter().map(in_words));
        let LimitsAsked { memory, processes, call_timeout_ms, .. } = self.limits;
        let runs = match processes {
            0 => "a part of the service".to_owned(),
            1 => format!("up to {}, 1 process", crate::text::rough_size(memory)),
            many => format!("up to {}, {many} processes", crate::text::rough_size(memory)),
        };
        lines.push(format!("{runs}, {} s a call", call_timeout_ms.div_ceil(1000)));
        lines
    }

    /// What is either asked for or not: in words, and by name.
    fn asks(&self) -> Vec<(&'static str, String)> {
        let mut asks = Vec::new();
        if let Some(channel) = &self.channel {
            asks.push(("a channel", String::new()));
            if channel.webhook {
                asks.push(("a webhook for its network", String::new()));
            }
            if channel.webhook_unverified {
                asks.push(("a webhook whose callers nobody but itself checks", String::new()));
            }
        }
        let lists = [
            ("hook at", &self.hooks),
            ("network: reaches", &self.network),
            ("files: reads", &self.read),
            ("variable", &self.env),
            ("secret setting", &self.secrets),
        ];
        for (what, names) in lists {
            asks.extend(names.iter().map(|name| (what, name.clone())));
        }
        asks
    }

    /// What is asked for beyond what was agreed to, a line each; nothing if it is the same or less.
    pub fn beyond(&self, agreed: &Self) -> Vec<String> {
        let known = agreed.asks();
        let asks = self.asks().into_iter().filter(|ask| !known.contains(ask));
        let mut more: Vec<String> = asks.map(in_words).collect();
        match (&self.tools, &agreed.tools) {
            (Some(tools), None) => more.push(format!("tools `{}.*`", tools.namespace)),
            (Some(tools), Some(before)) => {
                if tools.namespace != before.namespace {
                    more.push(format!("tools `{}.*`", tools.namespace));
                }
                if tools.max > before.max {
                    more.push(format!("{} tools instead of {}", tools.max, before.max));
                }
                for (tool, effect) in &before.effects {
                    let now = tools.effects.get(tool).map(String::as_str);
                    if breadth(now) > breadth(Some(effect)) {
                        more.push(format!("tool `{tool}` is no longer {effect}"));
                    }
                }
                // Whoever believes it asks nobody, and runs the tool again.
                for (tool, effect) in &tools.effects {
                    let before = before.effects.get(tool).map(String::as_str);
                    if breadth(Some(effect)) < breadth(before) {
                        let namespace = &tools.namespace;
                        more.push(format!("tool `{namespace}.{tool}` says that it is {effect}"));
                    }
                }
            }
            (None, _) => {}
        }
        let (now, before) = (&self.limits, &agreed.limits);
        let grown = [
            ("memory", now.memory, before.memory),
            ("processes", now.processes.into(), before.processes.into()),
            ("time of a call", now.call_timeout_ms, before.call_timeout_ms),
            ("time of a hook", now.hook_timeout_ms, before.hook_timeout_ms),
        ];
        let grown = grown.into_iter().filter(|(_, now, before)| now > before);
        more.extend(grown.map(|(what, now, before)| format!("{what}: {now} instead of {before}")));
        more
    }
}

fn in_words((what, name): (&'static str, String)) -> String {
    if name.is_empty() { what.to_owned() } else { format!("{what} `{name}`") }
}

pub(super) fn word(effect: Effect) -> Option<&'static str> {
    match effect {
        Effect::Pure => Some("pure"),
        Effect::Idempotent => Some("idempotent"),
        Effect::Irreversible => None,
    }
}

fn breadth(effect: Option<&str>) -> u8 {
    match effect {
        Some("pure") => 0,
        Some("idempotent") => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// PL-21: that a tool is harmless is believed once somebody has agreed to it.
    #[test]
    fn a_tool_that_says_that_it_is_harmless_asks_for_more() {
        let asks = |effects: &[(&str, &str)]| Capabilities {
            tools: Some(ToolsAsked {
                namespace: "mail".to_owned(),
                max: 10,
                effects: effects.iter().map(|(tool, is)| ((*tool).into(), (*is).into())).collect(),
            }),
            ..Capabilities::default()
        };
        let agreed = asks(&[("read", "pure"), ("mark", "idempotent")]);

        let bolder = asks(&[("read", "pure"), ("mark", "pure"), ("send", "idempotent")]);

        assert_eq!(
            bolder.beyond(&agreed),
            [
                "tool `mail.mark` says that it is pure",
                "tool `mail.send` says that it is idempotent"
            ]
        );
        assert_eq!(agreed.beyond(&agreed), Vec::<String>::new());
        assert_eq!(
            asks(&[("read", "pure")]).beyond(&agreed),
            ["tool `mark` is no longer idempotent"]
        );
    }
}
