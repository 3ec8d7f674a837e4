//! Opening a connection: secrets, the program or the address, the first words, the list of tools.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::wildcard::fits;
use reqwest::header::{HeaderName, HeaderValue};
use rmcp::{
    ClientHandler, Peer, RoleClient, ServiceExt,
    model::{
        ClientCapabilities, ClientConfig, ErrorData, Implementation, PaginatedRequestParams,
        ServerNotification, Tool,
    },
    service::{ClientInitializeError, NotificationContext, RunningService, ServiceError},
    transport::Transport,
};
use serde_json::json;
use tokio::sync::Notify;

use super::{
    context::ServerContext,
    definition::{self, Bounds, Definitions},
    fault::Faults,
    flood::Guarded,
    http::{self, Door},
    program::{self, Remark, Running},
};
use crate::{
    sandbox::egress::request::sensitive,
    settings::mcp_servers::McpServer,
    vault::{
        audit::Actor,
        expand::{self, Use},
        scope::Scope,
    },
};

/// How long a program that failed has to say why.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The most pages of a list of tools.
const MOST_PAGES: usize = 32;

/// A connection that is just made.
pub(super) struct Opened {
    pub(super) service: RunningService<RoleClient, Handler>,
    pub(super) running: Option<Running>,
    pub(super) faults: Faults,
    pub(super) changed: Arc<Notify>,
    pub(super) remark: Remark,
}

/// What a server may ask of us: to be heard when its tools change.
pub(super) struct Handler {
    changed: Arc<Notify>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("hivewright", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }

    #[expect(deprecated, reason = "servers of earlier versions ask for it")]
    async fn list_roots(
        &self,
        _: rmcp::service::RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, ErrorData> {
        Err(ErrorData::method_not_found::<rmcp::model::ListRootsRequestMethod>())
    }
}

/// Starts or connects it, and asks what it offers. An error is in words for the operator.
pub(super) async fn open(
    context: &ServerContext,
    faults: Faults,
    remark: Remark,
) -> Result<(Opened, Definitions), String> {
    let changed = Arc::new(Notify::new());
    let (env, headers) = secrets(context).await?;
    let handler = Handler { changed: changed.clone() };
    let (running, service) = match (&context.config().command, &context.config().url) {
        (Some(command), _) => {
            let (mut running, streams) =
                program::start(context, command, env, &faults, &remark).await?;
            let shaken = shake(handler, guarded(streams, &faults), &faults).await;
            match shaken {
                Ok(service) => (Some(running), service),
                Err(reason) => {
                    let why = tokio::time::timeout(LAST_WORDS, running.life.ended()).await;
                    return Err(why.ok().flatten().unwrap_or(reason));
                }
            }
        }
        (None, Some(url)) => {
            let door = Door::new(context.grounds.guard.clone(), url, &context.make.private_hosts)?;
            let transport = door.transport(url, headers, faults.clone());
            let service = shake(handler, guarded(transport, &faults), &faults);
            (None, service.await?)
        }
        (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
    };
    let offers = tokio::select! {
        offers = list(context, service.peer()) => offers?,
        fault = faults.heard() => return Err(fault),
    };
    Ok((Opened { service, running, faults, changed, remark }, offers))
}

/// Variables and headers, with the values of secrets in them.
async fn secrets(
    context: &ServerContext,
) -> Result<(BTreeMap<String, String>, HashMap<HeaderName, HeaderValue>), String> {
    let McpServer { env, headers, .. } = context.config();
    let mut args = json!({ "env": env, "headers": headers });
    let key = context.key();
    let host = context.host();
    let request = Use {
        scope: &Scope::Team(context.team().clone()),
        actor: &Actor::System,
        tool: &key,
        places: &["env", "headers"],
        paths: &[],
        host: host.as_deref(),
        // The operator wrote the secret beside the address.
        permitted: true,
        approved: None,
        permits: &|patterns| permits(patterns, &key, "@mcp"),
    };
    let expanded = context.grounds.secrets.vault().expand(&request, &mut args).await;
    expanded.map_err(|error| error.to_string())?;
    let texts = |place: &str| {
        let fields = args[place].as_object().into_iter().flatten();
        fields.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
    };
    let mut found = HashMap::new();
    for (name, value) in texts("headers") {
        let bad = || format!("the header `{name}` cannot be sent");
        let (header, value) = sensitive(&name, &value).ok_or_else(bad)?;
        found.insert(header, value);
    }
    let env = texts("env").collect();
    expand::wipe(&mut args);
    Ok((env, found))
}

/// Asks for its tools, page by page.
pub(super) async fn list(
    context: &ServerContext,
    peer: &Peer<RoleClient>,
) -> Result<Definitions, String> {
    let none = |why: &str| Definitions { tools: Vec::new(), left_out: vec![why.to_owned()] };
    if peer.peer_info().is_some_and(|info| info.capabilities.tools.is_none()) {
        return Ok(none("the server offers no tools"));
    }
    let (tools, is_whole) = pages(peer).await?;
    let mut offers = definition::take(tools, &context.config().tools, &Bounds::OF_SERVERS);
    if !is_whole {
        offers.left_out.push(format!("what comes after {MOST_PAGES} pages of tools"));
    }
    Ok(offers)
}

/// The tools that the other side lists, page by page, and whether these are all.
pub(crate) async fn pages(peer: &Peer<RoleClient>) -> Result<(Vec<Tool>, bool), String> {
    let (mut tools, mut cursor) = (Vec::new(), None);
    for _ in 0..MOST_PAGES {
        let params = PaginatedRequestParams::default().with_cursor(cursor.take());
        let page = peer.list_tools(Some(params)).await;
        let page =
            page.map_err(|error| format!("its tools cannot be listed: {}", words(&error)))?;
        tools.extend(page.tools);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok((tools, true));
        }
    }
    Ok((tools, false))
}

fn guarded<T>(transport: T, faults: &Faults) -> Guarded<T> {
    Guarded::new(transport, faults.clone(), |sent| {
        matches!(
            sent,
            ServerNotification::ToolListChangedNotification(_)
                | ServerNotification::CancelledNotification(_)
        )
    })
}

/// The first words between us and a server.
pub(crate) async fn shake<H: ClientHandler, T: Transport<RoleClient> + 'static>(
    handler: H,
    transport: T,
    faults: &Faults,
) -> Result<RunningService<RoleClient, H>, String> {
    tokio::select! {
        shaken = handler.serve(transport) => shaken.map_err(|error| match error {
            ClientInitializeError::TransportError { error, .. } => http::words(&*error.error),
            ClientInitializeError::JsonRpcError(error) => {
                format!("it refuses to begin: {}", definition::shown(&error.message))
            }
            ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".to_owned(),
            _ => "it does not speak MCP as we do".to_owned(),
        }),
        fault = faults.heard() => Err(fault),
    }
}

/// The words of an error of a server, or of the way to it.
pub(crate) fn words(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => definition::shown(&error.message),
        ServiceError::TransportSend(error) => http::words(&*error.error),
        ServiceError::UnexpectedResponse => "it answered something else".to_owned(),
        _ => "it ended".to_owned(),
    }
}

/// Whether the patterns of a vault entry name a server or plugin of a group.
pub(crate) fn permits(patterns: &[String], key: &str, group: &str) -> bool {
    definition::is_chosen(patterns, |pattern| pattern == group || fits(pattern, key))
}
