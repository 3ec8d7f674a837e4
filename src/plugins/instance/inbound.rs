//! What a plugin may ask of us over its pipe: a request to its hosts, what it has put aside, to bring a message, to be
//! heard.

use std::{sync::Arc, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hivewright_actors::blocking;
use reqwest::{
    Method, Url,
    header::{self, HeaderMap, HeaderValue},
};
use rmcp::{
    ClientHandler, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, CustomNotification, CustomRequest, CustomResult,
        ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation,
    },
    service::{NotificationContext, RequestContext},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use super::{TeamPlugin, channel, errors::Lines, wire};
use crate::{
    plugins::{manifest::Network, package::Package},
    sandbox::egress::{
        body,
        request::{Request, Terms, is_ours, sensitive},
    },
    settings::network::{HostPattern, host_name},
};

/// The most of an answer that a plugin gets, in bytes.
const MOST_BYTES: usize = 1 << 20;
const USUAL_TIMEOUT: Duration = Duration::from_secs(15);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

/// What a child may ask.
pub(super) struct Inbound {
    pub(super) plugin: Arc<TeamPlugin>,
    /// Hosts that it reaches.
    pub(super) hosts: Vec<HostPattern>,
    pub(super) changed: Arc<Notify>,
    pub(super) lines: Lines,
    /// It is the child of a wizard, which carries no messages and keeps nothing.
    pub(super) sets_up: bool,
}

impl Inbound {
    async fn asked(&self, method: &str, params: Option<Value>) -> Result<Value, ErrorData> {
        match method {
            wire::STATE_GET => {
                let wire::State { key, .. } = read(params)?;
                let value = self.plugin.kept(&key);
                serde_json::to_value(wire::StateValue { value }).map_err(refused)
            }
            // What it is told while it is set up is nobody's to keep yet.
            wire::STATE_SET if !self.sets_up => {
                let wire::State { key, value } = read(params)?;
                self.plugin.keep(key, value).await.map_err(refused)?;
                Ok(json!({}))
            }
            wire::HOST_FETCH => {
                let fetch: wire::Fetch = read(params)?;
                let limit = fetch.timeout_ms.map_or(USUAL_TIMEOUT, Duration::from_millis);
                let fetched = tokio::time::timeout(limit.min(LONGEST_TIMEOUT), self.fetch(fetch));
                let fetched = fetched.await.unwrap_or_else(|_| Err("timed out".to_owned()));
                serde_json::to_value(fetched.map_err(refused)?).map_err(refused)
            }
            wire::CHANNEL_INBOUND if !self.sets_up => {
                let taken = channel::inbound::receive(&self.plugin, read(params)?).await;
                serde_json::to_value(taken.map_err(refused)?).map_err(refused)
            }
            _ => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None)),
        }
    }

    /// A request to one of its hosts, through the guard.
    async fn fetch(&self, fetch: wire::Fetch) -> Result<wire::Fetched, String> {
        let grounds = &self.plugin.grounds;
        let team = &self.plugin.team.name;
        let (settings, name) = (grounds.settings.clone(), team.clone());
        let file = blocking::run(move || settings.team_now(&name)).await;
        let file = file.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let scrubber = grounds.scrubbers.of(team);
        let admit = |host: &str| {
            let is_its_own = self.hosts.iter().any(|pattern| pattern.fits(host));
            if is_its_own { Ok(()) } else { Err(format!("host_not_allowed: {host}")) }
        };
        let request = request(fetch)?;
        // Before its name is looked up, which tells others of it.
        admit(&host_name(&request.url).unwrap_or_default())?;
        let holds_secret = |text: &str| scrubber.knows(text);
        let terms = Terms::new(&file.egress, &admit, &holds_secret);
        let (mut response, _) =
            grounds.guard.send(request, &terms).await.map_err(|error| error.to_string())?;
        let found =
            body::read(&mut response, MOST_BYTES).await.map_err(|error| error.to_string())?;
        let mut headers = Map::new();
        for (name, value) in response.headers() {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            headers.insert(name.to_string(), value.into());
        }
        Ok(wire::Fetched {
            status: response.status().as_u16(),
            headers,
            body_base64: BASE64_STANDARD.encode(&found.bytes),
            truncated: found.truncated,
        })
    }
}

fn request(fetch: wire::Fetch) -> Result<Request, String> {
    let url = Url::parse(&fetch.url).map_err(|_| "invalid URL".to_owned())?;
    let method = fetch.method.as_deref().unwrap_or("GET").to_ascii_uppercase();
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| "invalid method".to_owned())?;
    let mut headers = HeaderMap::new();
    for (name, value) in &fetch.headers {
        // What is wrong with a value is not said with the value: there may be a secret in it.
        let wrong = || format!("the header `{name}` cannot be sent");
        let value = value.as_str().filter(|_| !is_ours(name)).ok_or_else(wrong)?;
        let (name, value) = sensitive(name, value).ok_or_else(wrong)?;
        headers.insert(name, value);
    }
    headers.entry(header::ACCEPT_ENCODING).or_insert(HeaderValue::from_static("gzip"));
    let body = fetch.body_base64.map(|body| BASE64_STANDARD.decode(body)).transpose();
    let body = body.map_err(|_| "the body is not base64")?;
    Ok(Request { method, url, headers, body })
}

/// The hosts that a plugin of a team reaches, as its manifest and the team's settings say.
pub(super) fn hosts(package: &Package, config: &Value) -> Vec<HostPattern> {
    let sandbox = &package.manifest.sandbox;
    if sandbox.network != Network::Broker {
        return Vec::new();
    }
    let mut hosts = Vec::new();
    for host in &sandbox.hosts {
        match host.strip_prefix("config:") {
            Some(pointer) => {
                let listed = config.pointer(pointer).and_then(Value::as_array);
                let listed = listed.into_iter().flatten().filter_map(Value::as_str);
                hosts.extend(listed.filter_map(|host| host.parse().ok()));
            }
            None => hosts.extend(host.parse::<HostPattern>().ok()),
        }
    }
    hosts
}

fn read<T: DeserializeOwned>(params: Option<Value>) -> Result<T, ErrorData> {
    let params = params.unwrap_or_else(|| json!({}));
    serde_json::from_value(params)
        .map_err(|error| ErrorData::new(ErrorCode::INVALID_PARAMS, error.to_string(), None))
}

fn refused(reason: impl ToString) -> ErrorData {
    ErrorData::new(ErrorCode::INVALID_REQUEST, reason.to_string(), None)
}

impl ClientHandler for Inbound {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("hivewright", env!("CARGO_PKG_VERSION"));
        let TeamPlugin { team, key, .. } = &*self.plugin;
        let instance = format!("{}/{key}", team.name);
        let hello = wire::Hello {
            version: wire::VERSION,
            instance: &instance,
            team: team.name.as_str(),
            key,
        };
        let mut capabilities = ClientCapabilities::default();
        if let Ok(Value::Object(hello)) = serde_json::to_value(hello) {
            capabilities.experimental = Some([(wire::EXTENSION.to_owned(), hello)].into());
        }
        ClientConfig::new(capabilities, us)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        self.asked(&request.method, request.params).await.map(CustomResult)
    }

    async fn on_custom_notification(
        &self,
        told: CustomNotification,
        _: NotificationContext<RoleClient>,
    ) {
        match told.method.as_str() {
            _ if self.sets_up => {}
            wire::PLUGIN_ERROR => {
                if let Ok(wire::ErrorTold { message }) = read(told.params) {
                    self.plugin.note(message);
                }
            }
            wire::PLUGIN_STATE => {
                if let Ok(state) = read(told.params) {
                    self.plugin.show(state);
                }
            }
            _ => {}
        }
    }

    #[expect(deprecated, reason = "plugins of earlier versions log so")]
    async fn on_logging_message(
        &self,
        told: rmcp::model::LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        match told.data {
            Value::String(text) => self.lines.log(&text),
            other => self.lines.log(&other.to_string()),
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "elicitation/create", None))
    }

    #[expect(deprecated, reason = "servers of earlier versions ask for it")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<rmcp::model::ListRootsRequestMethod>())
    }
}
