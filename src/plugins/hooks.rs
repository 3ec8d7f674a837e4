//! Hooks: which plugins of a team are asked or told, in which order, and what becomes of their answers.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hivewright_actors::{clock::millis, hook::HookEvent, wildcard::fits};
use serde_json::Value;

use super::instance::{
    Settled, TeamPlugin,
    wire::{Decision, Fire},
};

/// How long all hooks of one call have together.
const CHAIN: Duration = Duration::from_secs(5);

/// One hook of one plugin.
#[derive(Clone)]
struct Hook {
    plugin: Arc<TeamPlugin>,
    event: HookEvent,
    priority: u32,
    timeout: Duration,
    /// Patterns of canonical tool keys; none are all.
    tools: Vec<String>,
    /// Why its plugin cannot be loaded, if it cannot.
    fault: Option<String>,
}

/// The hooks of a team, in the order in which they are asked. Cheap to clone.
#[derive(Clone, Default)]
pub struct Hooks(Arc<Vec<Hook>>);

/// What hooks say to a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Veto {
    /// It goes on with these arguments.
    Pass(Value),
    /// A plugin is against it, or should have been asked and could not be.
    Deny { plugin: String, reason: String },
}

impl Hooks {
    /// Of plugins that a team has switched on. One that is not there might guard any call.
    pub fn of(settled: &Settled) -> Self {
        let absent = |plugin: &Arc<TeamPlugin>| Hook {
            plugin: Arc::clone(plugin),
            event: HookEvent::ToolBefore,
            priority: 0,
            timeout: CHAIN,
            tools: Vec::new(),
            fault: Some(format!(
                "it is switched on for team `{team}` and not there; install it, or switch it off with \
                 `hivewright plugin disable {key} --team {team}`",
                team = plugin.team.name,
                key = plugin.key,
            )),
        };
        let mut hooks: Vec<Hook> = settled.absent.iter().map(absent).collect();
        for (plugin, package) in &settled.plugins {
            let usual = package.manifest.limits.hook_timeout.0;
            hooks.extend(package.manifest.hooks().iter().map(|hook| Hook {
                plugin: Arc::clone(plugin),
                event: hook.event,
                priority: hook.priority,
                timeout: hook.timeout.map_or(usual, |timeout| timeout.0),
                tools: hook.tools.clone(),
                fault: package.fault.as_ref().map(ToString::to_string),
            }));
        }
        hooks.sort_by(|one, other| {
            (one.priority, &one.plugin.key).cmp(&(other.priority, &other.plugin.key))
        });
        Self(Arc::new(hooks))
    }

    /// Those for an event of a tool. A plugin that somebody switched off meanwhile has none; one that has ended with the
    /// service or its team still has them, and cannot be asked.
    fn on<'a>(&'a self, event: HookEvent, tool: &'a str) -> impl Iterator<Item = &'a Hook> {
        self.0.iter().filter(move |hook| {
            let is_meant = || hook.tools.is_empty() || hook.tools.iter().any(|it| fits(it, tool));
            hook.event == event && is_meant() && !hook.plugin.is_lifted()
        })
    }

    /// Whether any hook is to be asked before a tool runs.
    pub fn guard(&self, tool: &str) -> bool {
        self.on(HookEvent::ToolBefore, tool).next().is_some()
    }

    /// Asks one hook after the other whether a call may go on. `fits` says what is wrong with arguments that one has
    /// put in the place of others. What cannot be asked is against it.
    pub async fn before(
        &self,
        tool: &str,
        call: &str,
        mut payload: Value,
        fits: &(dyn Fn(&Value) -> Result<(), String> + Sync),
    ) -> Veto {
        let mut left = CHAIN;
        for hook in self.on(HookEvent::ToolBefore, tool) {
            let deny = |reason: String| Veto::Deny { plugin: hook.plugin.key.clone(), reason };
            let unavailable = || {
                deny(match &hook.fault {
                    Some(fault) => format!("plugin unavailable: {fault}"),
                    None => "plugin unavailable".to_owned(),
                })
            };
            let Ok(lease) = hook.plugin.lease().await else { return unavailable() };
            let (began, limit) = (Instant::now(), hook.timeout.min(left));
            let fire = Fire {
                event: hook.event,
                call_id: Some(call),
                payload: payload.clone(),
                deadline_ms: millis(limit),
            };
            match lease.child.fire(&fire, limit).await {
                Ok(Decision::Pass) => {}
                Ok(Decision::Deny { reason }) => return deny(reason),
                Ok(Decision::Rewrite { payload: mut rewritten }) => {
                    let args = rewritten["args"].take();
                    if let Err(wrong) = fits(&args) {
                        return deny(format!("it put wrong arguments in: {wrong}"));
                    }
                    payload["args"] = args;
                }
                Err(error) => {
                    let (team, plugin) = (&hook.plugin.team.name, &hook.plugin.key);
                    tracing::warn!(%team, plugin, %error, "a hook could not be asked: the call is refused");
                    return unavailable();
                }
            }
            left = left.saturating_sub(began.elapsed());
            if left.is_zero() {
                return unavailable();
            }
        }
        Veto::Pass(payload["args"].take())
    }

    /// Whether any hook rewords what is said this way.
    pub fn reword(&self, event: HookEvent) -> bool {
        self.0.iter().any(|hook| hook.event == event && hook.plugin.is_enabled())
    }

    /// Lets one hook after the other reword a text. One that cannot, leaves it as it is.
    pub async fn reworded(&self, event: HookEvent, mut payload: Value) -> String {
        let mut left = CHAIN;
        let meant = self.0.iter().filter(|hook| hook.event == event && hook.plugin.is_enabled());
        for hook in meant {
            let (began, limit) = (Instant::now(), hook.timeout.min(left));
            let asking = async {
                let lease = hook.plugin.lease().await.map_err(|error| error.reason)?;
                let fire = Fire {
                    event,
                    call_id: None,
                    payload: payload.clone(),
                    deadline_ms: millis(limit),
                };
                match lease.child.fire(&fire, limit).await.map_err(|error| error.to_string())? {
                    Decision::Rewrite { payload } => match &payload["text"] {
                        Value::String(text) if !text.trim().is_empty() => Ok(Some(text.clone())),
                        _ => Err("it put no text in the place of a text".to_owned()),
                    },
                    Decision::Pass => Ok(None),
                    Decision::Deny { .. } => Err("it cannot drop a message".to_owned()),
                }
            };
            match tokio::time::timeout(limit, asking).await {
                Ok(Ok(Some(text))) => payload["text"] = text.into(),
                Ok(Ok(None)) => {}
                Ok(Err(reason)) => hook.plugin.fail(&format!("{event}: {reason}")),
                Err(_) => hook.plugin.fail(&format!("{event}: it did not answer in time")),
            }
            left = left.saturating_sub(began.elapsed());
        }
        payload["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Tells plugins that a tool was called.
    pub fn after(&self, tool: &str, payload: &Value) {
        for hook in self.on(HookEvent::ToolAfter, tool) {
            hook.plugin.tell(HookEvent::ToolAfter, payload.clone());
        }
    }

    /// Whether a plugin wants to hear of an event of tools that were called.
    pub fn listen(&self, tool: &str) -> bool {
        self.on(HookEvent::ToolAfter, tool).next().is_some()
    }
}
