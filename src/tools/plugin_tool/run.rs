//! `<team>.<tool>`: a tool that a team wrote, on the path of all tools.
//!
//! Its code is not trusted. Requests are made here, to the hosts that the tool was verified with; a reference to a secret is
//! expanded on the way out, and what comes back is scrubbed before the code sees it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use futures_util::future::BoxFuture;
use hivewright_actors::{
    clock::millis,
    ids::TeamName,
    task::Label,
    tool::{Effect, ToolFault},
};
use reqwest::Url;
use serde_json::{Value, json};

use super::{Declared, PluginTools, loading::Loaded, verify};
use crate::{
    plugins::host::{
        engine::Stop,
        process::{Broker, CPU, Call, Done, HostError},
        wire::{CallLimits, Outcome},
    },
    settings::network::{HostPattern, host_name},
    tools::{
        about::About,
        contract::ToolContext,
        error::ToolError,
        made::Made,
        outside::OutsideTool,
        reach::Reach,
        secrets,
        web::{Web, fetch},
    },
    vault::{
        expand::{self, Use},
        scope::Scope,
    },
};

/// What all of them have in common.
const ABOUT: About =
    About::new("plugin", "@plugins", "plugin", Effect::Irreversible).refuses_secrets();
/// Requests that one call may make.
const FETCHES: u32 = 20;
/// How much later a call is stopped that does not stop itself.
const MARGIN: Duration = Duration::from_secs(3);

/// The key of a tool.
pub fn key(team: &TeamName, tool: &str) -> String {
    format!("{team}.{tool}")
}

/// A tool that was loaded, for the turns of its team.
pub fn made(tools: &PluginTools, web: &Web, team: &TeamName, loaded: &Loaded) -> Made {
    let Declared { hosts, .. } = &loaded.tool.declared;
    let patterns = hosts.iter().filter_map(|host| host.parse().ok()).collect();
    let tool = TeamTool {
        tools: tools.clone(),
        web: web.clone(),
        key: key(team, &loaded.tool.tool),
        loaded: loaded.clone(),
        patterns,
    };
    Made { key: tool.key.clone(), tool: Arc::new(tool) }
}

struct TeamTool {
    tools: PluginTools,
    web: Web,
    key: String,
    loaded: Loaded,
    patterns: Arc<[HostPattern]>,
}

impl TeamTool {
    fn declared(&self) -> &Declared {
        &self.loaded.tool.declared
    }
}

impl OutsideTool for TeamTool {
    fn about(&self) -> About {
        let Declared { effect, timeout_ms, .. } = *self.declared();
        let limit = Duration::from_millis(timeout_ms) + MARGIN;
        About { effect, ..ABOUT }.within(limit, limit)
    }

    fn description(&self) -> String {
        self.declared().description.clone()
    }

    fn schema(&self) -> &Value {
        &self.declared().input_schema
    }

    /// A grant is good for this version alone.
    fn form(&self) -> String {
        self.loaded.tool.sha256.clone()
    }

    fn reaches(&self, _: &Value) -> Vec<Reach> {
        let hosts = self.declared().hosts.iter();
        hosts.map(|host| Reach::Host(host.trim_start_matches("*.").to_owned())).collect()
    }

    async fn run(&self, args: Value, cx: &ToolContext) -> Result<String, ToolError> {
        let time_ms = self.declared().timeout_ms;
        let cpu_ms = millis(CPU);
        let call = Call {
            source: Arc::clone(&self.loaded.source),
            input: Some(args),
            limits: CallLimits { time_ms, cpu_ms, fetches: FETCHES },
        };
        let broker = Arc::new(Fetcher {
            web: self.web.clone(),
            key: self.key.clone(),
            patterns: Arc::clone(&self.patterns),
            cx: cx.clone(),
        });
        let hosts = self.tools.hosts();
        let done = hosts.call(&cx.grant.team, call, broker, cx.cancel.child_token()).await;
        let Done { outcome, console } = match done {
            Ok(done) => done,
            Err(HostError::Sandbox(error)) => return Err(error.into()),
            Err(HostError::Stopped) => return Err(ToolError::stopped("")),
            Err(error) => return Err(ToolError::new(ToolFault::UnknownOutcome, error.to_string())),
        };
        let with_console = |text: String| {
            if console.is_empty() { text } else { format!("{text}\n[console]\n{console}") }
        };
        match outcome {
            Outcome::Returned(text) => Ok(with_console(text)),
            Outcome::Failed(fault) | Outcome::Unreadable(fault) => {
                let kind = match fault.stop {
                    Some(Stop::Time | Stop::Cpu | Stop::Idle) => ToolFault::Timeout,
                    None => ToolFault::ToolFailed,
                };
                Err(ToolError::new(kind, with_console(verify::told(&fault, time_ms))))
            }
            Outcome::Offers(_) => Err(ToolError::failed("the host gave no result")),
        }
    }
}

/// Makes the requests of one call.
#[derive(Clone)]
struct Fetcher {
    web: Web,
    key: String,
    patterns: Arc<[HostPattern]>,
    cx: ToolContext,
}

impl Broker for Fetcher {
    fn fetch(&self, params: Value) -> BoxFuture<'static, Result<Value, String>> {
        let this = self.clone();
        Box::pin(async move {
            this.exchange(params).await.map_err(|error| {
                let scrubber = this.cx.grant.secrets.of(&this.cx.grant.team);
                scrubber.scrub_known(&error.message).into_owned()
            })
        })
    }
}

impl Fetcher {
    fn admit(&self, host: &str) -> Result<(), String> {
        if !self.patterns.iter().any(|pattern| pattern.fits(host)) {
            return Err(format!("`{host}` is not among the tool's `hosts`"));
        }
        self.cx.opening.as_ref().map_or(Ok(()), |opening| opening.admit_declared(host))
    }

    async fn exchange(&self, params: Value) -> Result<Value, ToolError> {
        let cx = &self.cx;
        let mut request = request(params)?;
        // What is wrong with it is said with its words, so it is read before values of the vault stand in it.
        let asked = fetch::Args::read(request.clone())?;
        let is_unasked = cx.opening.as_ref().is_some_and(|opening| opening.is_unasked());
        if is_unasked && let Some(why) = asked.risk(&self.web, &cx.caller) {
            let message = format!("nobody was asked about this request: {why}; `web_fetch` asks");
            return Err(ToolError::new(ToolFault::Denied, message));
        }
        let url = request["url"].as_str().and_then(|url| Url::parse(url).ok());
        let host = url.as_ref().and_then(host_name).unwrap_or_default();
        self.admit(&host).map_err(|why| ToolError::new(ToolFault::BlockedAddress, why))?;
        let actor = secrets::actor(&cx.caller);
        let scope = Scope::Team(cx.caller.team.clone());
        let used = Use {
            scope: &scope,
            actor: &actor,
            tool: &self.key,
            places: &["headers", "body"],
            paths: &["url"],
            host: Some(&host),
            permitted: false,
            approved: None,
            permits: &|patterns| secrets::permits(patterns, &self.key, cx.grant.allowed.registry()),
        };
        cx.grant.secrets.vault().expand(&used, &mut request).await?;
        let args = fetch::Args::read(request.clone());
        // It may hold values of the vault.
        expand::wipe(&mut request);
        let args = args?;
        let got = fetch::exchange(&self.web, &args, cx, &|host| self.admit(host)).await?;
        cx.believe(Label::Untrusted);
        let scrubber = cx.grant.secrets.of(&cx.grant.team);
        let headers: BTreeMap<_, _> = fetch::listed(&got.headers)
            .map(|(name, values)| (name, scrubber.scrub_known(&values).into_owned()))
            .collect();
        let text = String::from_utf8_lossy(&got.body.bytes);
        let clean = match scrubber.scrub_known(&text) {
            std::borrow::Cow::Borrowed(_) => got.body.bytes.clone(),
            std::borrow::Cow::Owned(clean) => clean.into_bytes(),
        };
        Ok(json!({
            "status": got.status,
            "headers": headers,
            "body_base64": STANDARD.encode(clean),
            "truncated": got.body.truncated,
            "url": scrubber.scrub_known(got.url.as_str()),
        }))
    }
}

/// What code asked for, as the arguments of a request. Only text is sent: a reference may stand in it.
fn request(params: Value) -> Result<Value, ToolError> {
    let mut request = json!({ "url": params["url"], "headers": params["headers"], "raw": true });
    if !params["method"].is_null() {
        request["method"] = params["method"].clone();
    }
    if let Some(body) = params["body_base64"].as_str() {
        let bytes = STANDARD.decode(body).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let wrong = || ToolError::invalid("a body is text; bytes that are none cannot be sent");
        request["body"] = bytes.ok_or_else(wrong)?.into();
    }
    Ok(request)
}
