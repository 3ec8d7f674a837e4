//! Client of the running service: how a command finds and asks it.

use std::{fs, io, path::Path, sync::Arc, time::Duration};

use clap::Args;
use futures_util::StreamExt;
use hivewright_actors::file::FileRef;
use reqwest::{Certificate, Client, Method, RequestBuilder, Response, StatusCode, Url, header};
use serde::Serialize;
use serde_json::Value;

use super::{
    answer::{Answer, Listing},
    context::Context,
    failure::{Exit, Failure, chain},
    notice::notice,
    unknown::{list_of, team_in},
};
use crate::{
    api::{
        endpoint::{self, ByName, Empty, Endpoint, Operation, pairs},
        files::{NewFile, UPLOAD_FILE},
        flags::Limit,
        monitoring::SHOW_READINESS,
        page::MOST_ROWS,
        reply::{JSON, Readable},
        teams::SHOW_TEAM,
    },
    settings::{home::Home, network::is_private_url, secret::Secret, socket_path::SocketPath},
};

/// Most that is asked here takes no longer; long work is a job.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// A file may be long, and the way to the service slow; a store may be large, and a model slow.
const LONG_REQUEST_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Connections to the same machine are made at once or never.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The service, behind its Unix socket.
const LOCAL: &str = "http://localhost/";

/// The service, and the credential to show it.
#[derive(Clone, Debug)]
pub(super) struct Service {
    client: Client,
    /// Under which people reach it.
    url: Url,
    /// Where requests go: the same, unless they go through its Unix socket.
    base: Url,
    token: Secret,
    _socket: Option<Arc<SocketPath>>,
    /// What to do if it does not answer.
    remedy: String,
    /// The flags that lead to the home.
    way: String,
}

impl Service {
    /// Finds the service: the one that was named, or the one that runs in the home.
    pub(super) fn find(context: &Context) -> Result<Self, Failure> {
        let remedy = match &context.url {
            Some(_) => "see whether it runs there".to_owned(),
            None => format!("{} starts it", context.command("serve")),
        };
        let (address, socket) = match &context.url {
            Some(url) => (url.clone(), None),
            None => match notice(&context.home)? {
                Some(notice) => (notice.url, SocketPath::existing(&context.home)),
                None => return Err(not_reachable("the service is not running", &remedy)),
            },
        };
        let (url, base) = match &socket {
            Some(_) => (parsed(&address)?, parsed(LOCAL)?),
            None => {
                let url = base(&address)?;
                (url.clone(), url)
            }
        };
        let token = read_token(context)?;
        let authorities = authorities(context.cacert.as_deref())?;
        let client = client(&base, socket.as_ref(), authorities)
            .map_err(|error| Failure::system("the HTTP client cannot be set up", chain(&error)))?;
        Ok(Self {
            client,
            url,
            base,
            token,
            _socket: socket.map(Arc::new),
            remedy,
            way: context.way.clone(),
        })
    }

    /// The service of the home, if one runs there or was named. Otherwise the caller may work on
    /// the store itself.
    pub(super) fn if_running(context: &Context) -> Result<Option<Self>, Failure> {
        if context.url.is_none() && notice(&context.home)?.is_none() {
            return Ok(None);
        }
        Self::find(context).map(Some)
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) async fn call<R: Readable, P: Serialize, Q: Serialize, B: Serialize>(
        &self,
        endpoint: &Endpoint<R, P, Q, B>,
        path: &P,
        query: &Q,
        body: &B,
    ) -> Result<Answer<R::Content>, Failure> {
        let (target, body) = (target(endpoint, path)?, written(body)?);
        let document = self.document_of(endpoint, &target, pairs(query), body).await?;
        Ok(Answer::at(R::PLACE, document))
    }

    /// Asks an operation for its document. It knows no types, so that it is compiled once and not for each endpoint.
    async fn document_of(
        &self,
        operation: &Operation,
        target: &str,
        query: Vec<(String, String)>,
        body: Vec<u8>,
    ) -> Result<Value, Failure> {
        let method = match operation.method {
            endpoint::Method::Get => Method::GET,
            endpoint::Method::Post => Method::POST,
            endpoint::Method::Put => Method::PUT,
            endpoint::Method::Patch => Method::PATCH,
            endpoint::Method::Delete => Method::DELETE,
        };
        let has_body = !matches!(method, Method::GET | Method::DELETE);
        let mut request = self.request(method, target, query);
        if has_body {
            request = json(request, body);
        }
        self.ask(request).await.map_err(|mut failure| {
            let is_vague = failure.exit == Exit::NotFound && !failure.message.contains("; ");
            if let (true, Some(list)) = (is_vague, list_of(operation.path)) {
                let list = format!("; `hivewright{} {list}` shows those there are", self.way);
                failure.message.push_str(&list);
            }
            failure
        })
    }

    /// Gives the service a file.
    pub(super) async fn upload(
        &self,
        named: &NewFile,
        file: tokio::fs::File,
        length: u64,
    ) -> Result<Answer<FileRef>, Failure> {
        let request = self
            .request(Method::POST, UPLOAD_FILE.path, pairs(named))
            .header(header::CONTENT_LENGTH, length)
            .body(file);
        Ok(Answer::new(self.ask_within(LONG_REQUEST_TIMEOUT, request).await?))
    }

    /// Gives an endpoint bytes.
    pub(super) async fn hand_in<R: Readable, Q: Serialize>(
        &self,
        endpoint: &Endpoint<R, Empty, Q>,
        query: &Q,
        bytes: Vec<u8>,
    ) -> Result<Answer<R::Content>, Failure> {
        let request = self.request(Method::POST, endpoint.path, pairs(query)).body(bytes);
        Ok(Answer::at(R::PLACE, self.ask_within(LONG_REQUEST_TIMEOUT, request).await?))
    }

    /// Calls an endpoint that needs nothing but its path.
    pub(super) async fn at<R: Readable, P: Serialize>(
        &self,
        endpoint: &Endpoint<R, P>,
        path: &P,
    ) -> Result<Answer<R::Content>, Failure> {
        self.call(endpoint, path, &Empty {}, &Empty {}).await
    }

    /// Calls an endpoint that takes a body beside its path.
    pub(super) async fn send<R: Readable, P: Serialize, B: Serialize>(
        &self,
        endpoint: &Endpoint<R, P, Empty, B>,
        path: &P,
        body: &B,
    ) -> Result<Answer<R::Content>, Failure> {
        self.call(endpoint, path, &Empty {}, body).await
    }

    /// Calls an endpoint that takes a body, and beside it nothing.
    pub(super) async fn give<R: Readable, B: Serialize>(
        &self,
        endpoint: &Endpoint<R, Empty, Empty, B>,
        body: &B,
    ) -> Result<Answer<R::Content>, Failure> {
        self.send(endpoint, &Empty {}, body).await
    }

    /// The same of what may take minutes.
    pub(super) async fn give_long<R: Readable, B: Serialize>(
        &self,
        endpoint: &Endpoint<R, Empty, Empty, B>,
        body: &B,
    ) -> Result<Answer<R::Content>, Failure> {
        let request = self.request(Method::POST, endpoint.path, Vec::new());
        let request = json(request, written(body)?);
        Ok(Answer::at(R::PLACE, self.ask_within(LONG_REQUEST_TIMEOUT, request).await?))
    }

    /// The same, done once however often it is sent with this key.
    pub(super) async fn give_once<R: Readable, B: Serialize>(
        &self,
        endpoint: &Endpoint<R, Empty, Empty, B>,
        body: &B,
        key: &str,
    ) -> Result<Answer<R::Content>, Failure> {
        let request = self.request(Method::POST, endpoint.path, Vec::new());
        let request = json(request, written(body)?).header("Idempotency-Key", key);
        let answer = self.ask(request).await?;
        Ok(Answer::at(R::PLACE, answer))
    }

    /// The rows that a command lists.
    pub(super) async fn list<R: Readable<Content = Vec<T>>, T, Q: Serialize + Args>(
        &self,
        endpoint: &Endpoint<R, Empty, Q>,
        Listing { filter, limit }: &Listing<Q>,
    ) -> Result<Answer<Vec<T>>, Failure> {
        self.limited(endpoint, &Empty {}, filter, limit).await
    }

    /// As many rows of a list as are wanted.
    pub(super) async fn limited<R: Readable<Content = Vec<T>>, T, P: Serialize, Q: Serialize>(
        &self,
        endpoint: &Endpoint<R, P, Q>,
        path: &P,
        filter: &Q,
        limit: &Limit,
    ) -> Result<Answer<Vec<T>>, Failure> {
        let (target, fields) = (target(endpoint, path)?, pairs(filter));
        let rows = match limit {
            Limit { all: true, .. } => self.all_at(&target, fields).await?,
            Limit { limit, .. } => self.page_at(&target, fields, *limit, None).await?,
        };
        Ok(Answer::new(rows))
    }

    /// The first rows of a list, as many as one answer has.
    pub(super) async fn rows<R: Readable<Content = Vec<T>>, T, Q: Serialize>(
        &self,
        endpoint: &Endpoint<R, Empty, Q>,
        filter: &Q,
    ) -> Result<Answer<Vec<T>>, Failure> {
        self.page(endpoint, &Empty {}, filter, MOST_ROWS, None).await
    }

    /// All rows of a list.
    pub(super) async fn all<R: Readable<Content = Vec<T>>, T, Q: Serialize>(
        &self,
        endpoint: &Endpoint<R, Empty, Q>,
        filter: &Q,
    ) -> Result<Answer<Vec<T>>, Failure> {
        self.all_rows(endpoint, &Empty {}, filter).await
    }

    /// All rows of a list that a path names, page by page.
    pub(super) async fn all_rows<R: Readable<Content = Vec<T>>, T, P: Serialize, Q: Serialize>(
        &self,
        endpoint: &Endpoint<R, P, Q>,
        path: &P,
        filter: &Q,
    ) -> Result<Answer<Vec<T>>, Failure> {
        Ok(Answer::new(self.all_at(&target(endpoint, path)?, pairs(filter)).await?))
    }

    async fn all_at(&self, target: &str, fields: Vec<(String, String)>) -> Result<Value, Failure> {
        let mut all = self.page_at(target, fields.clone(), MOST_ROWS, None).await?;
        while let Some(cursor) = all["next_cursor"].as_str().map(str::to_owned) {
            let mut next = self.page_at(target, fields.clone(), MOST_ROWS, Some(cursor)).await?;
            if let (Some(rows), Value::Array(more)) =
                (all["data"].as_array_mut(), next["data"].take())
            {
                rows.extend(more);
            }
            all["next_cursor"] = next["next_cursor"].take();
        }
        if let Some(fields) = all.as_object_mut() {
            fields.remove("next_cursor");
        }
        Ok(all)
    }

    /// Some rows of a list: the first, or those from a cursor on.
    pub(super) async fn page<R: Readable<Content = Vec<T>>, T, P: Serialize, Q: Serialize>(
        &self,
        endpoint: &Endpoint<R, P, Q>,
        path: &P,
        filter: &Q,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Answer<Vec<T>>, Failure> {
        let target = target(endpoint, path)?;
        Ok(Answer::new(self.page_at(&target, pairs(filter), limit, cursor).await?))
    }

    async fn page_at(
        &self,
        target: &str,
        mut fields: Vec<(String, String)>,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<Value, Failure> {
        fields.push(("limit".to_owned(), limit.to_string()));
        fields.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor)));
        let team = team_in(&fields).map(str::to_owned);
        let rows = self.ask(self.request(Method::GET, target, fields)).await?;
        // Teams that are gone may have rows.
        if let (Some(team), Some([])) = (team, rows["data"].as_array().map(Vec::as_slice)) {
            self.refuse_unknown(&team).await?;
        }
        Ok(rows)
    }

    /// Refuses a team that there is not. Who may not look hears of it from what they do next.
    pub(super) async fn refuse_unknown(&self, team: &str) -> Result<(), Failure> {
        match self.at(&SHOW_TEAM, &ByName { name: team.to_owned() }).await {
            Err(failure) if failure.exit == Exit::NotFound => Err(failure),
            _ => Ok(()),
        }
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(self.request(Method::GET, path, Vec::new())).await
    }

    /// Whether it is ready, and all it says about that.
    pub(super) async fn readiness(&self) -> Result<(bool, Value), Failure> {
        let request = self.request(Method::GET, SHOW_READINESS.path, Vec::new());
        let lost = |error| self.lost(&error);
        let answer = request.timeout(REQUEST_TIMEOUT).send().await.map_err(lost)?;
        let is_ready = answer.status().is_success();
        let text = answer.bytes().await.map_err(lost)?;
        Ok((is_ready, serde_json::from_slice(&text).unwrap_or_default()))
    }

    /// Asks for something that comes bit by bit, and may go on for ever. `from` is where an earlier
    /// stream of events was left.
    pub(super) async fn stream(
        &self,
        path: &str,
        fields: Vec<(String, String)>,
        from: Option<&str>,
    ) -> Result<Response, Failure> {
        let mut request = self.request(Method::GET, path, fields);
        if let Some(from) = from {
            request = request.header("Last-Event-ID", from);
        }
        self.begin(request).await
    }

    /// Passes an answer that is no document on as it comes, whatever the form of results is, until nobody takes more.
    pub(super) async fn pass_on(
        &self,
        path: &str,
        fields: Vec<(String, String)>,
        mut put: impl FnMut(&[u8]) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let mut chunks = self.stream(path, fields, None).await?.bytes_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|error| {
                Failure::system("the answer was cut off before its end", chain(&error))
            })?;
            if !put(&chunk)? {
                break;
            }
        }
        Ok(())
    }

    /// Asks for a connection that goes on as something else than HTTP.
    pub(super) async fn upgrade(&self, key: &str) -> Result<Response, Failure> {
        let request = self
            .request(Method::GET, "/ws", Vec::new())
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, key);
        let answer = self.begin(request).await?;
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => Ok(answer),
            other => Err(Failure::failed(format!(
                "{}ws answered {other}, which is no WebSocket; check `--url`",
                self.url
            ))),
        }
    }

    /// A request that says who asks, and that it is a command.
    fn request(&self, method: Method, path: &str, fields: Vec<(String, String)>) -> RequestBuilder {
        let mut url = self.base.clone();
        url.set_path(path);
        if !fields.is_empty() {
            url.query_pairs_mut().extend_pairs(fields);
        }
        self.client.request(method, url).header("X-Client", "cli").bearer_auth(self.token.expose())
    }

    /// Asks for the whole of a document.
    async fn ask(&self, request: RequestBuilder) -> Result<Value, Failure> {
        self.ask_within(REQUEST_TIMEOUT, request).await
    }

    async fn ask_within(
        &self,
        timeout: Duration,
        request: RequestBuilder,
    ) -> Result<Value, Failure> {
        let asking = async { self.document(self.respond(request).await?).await };
        let answer = tokio::time::timeout(timeout, asking).await;
        answer.unwrap_or_else(|_| Err(self.silent(timeout)))
    }

    async fn document(&self, answer: Response) -> Result<Value, Failure> {
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(Value::Null);
        }
        let text = answer.bytes().await.map_err(|error| self.lost(&error))?;
        serde_json::from_slice(&text).map_err(|error| {
            Failure::failed(format!(
                "{} does not answer like Hivewright ({error}); check `--url`",
                self.url
            ))
        })
    }

    /// Asks for the beginning of an answer that may go on for ever.
    async fn begin(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.respond(request));
        answer.await.unwrap_or_else(|_| Err(self.silent(REQUEST_TIMEOUT)))
    }

    /// An answer that is no success is a failure.
    async fn respond(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = request.send().await.map_err(|error| self.lost(&error))?;
        let status = answer.status();
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answer);
        }
        Err(refused(status, &answer.bytes().await.unwrap_or_default(), &self.remedy))
    }

    fn lost(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() && !error.is_connect() {
            return self.silent(REQUEST_TIMEOUT);
        }
        if let Some(fault) = certificate_fault(error) {
            let message = format!(
                "the certificate of {} is not accepted ({fault}); `--cacert` names a file with its authority",
                self.url
            );
            return Failure::new(Exit::NotReachable, message);
        }
        let what = format!("no service answers at {}", self.url);
        let mut failure = not_reachable(&what, &self.remedy);
        if !error.is_connect() {
            failure.message = format!("{what} ({}); {}", chain(error), self.remedy);
        }
        failure
    }

    fn silent(&self, timeout: Duration) -> Failure {
        let seconds = timeout.as_secs();
        Failure::new(
            Exit::TimedOut,
            format!("the service at {} did not answer within {seconds} s", self.url),
        )
    }
}

/// The path of a request. An id that is none would lead elsewhere.
pub(super) fn target<R, P: Serialize, Q, B>(
    endpoint: &Endpoint<R, P, Q, B>,
    path: &P,
) -> Result<String, Failure> {
    endpoint.target(path).map_err(|error| Failure::usage(error.to_string()))
}

/// The body of a request.
fn written(body: &impl Serialize) -> Result<Vec<u8>, Failure> {
    serde_json::to_vec(body)
        .map_err(|error| Failure::system("the request cannot be written", error))
}

fn json(request: RequestBuilder, body: Vec<u8>) -> RequestBuilder {
    request.header(header::CONTENT_TYPE, JSON).body(body)
}

fn not_reachable(what: &str, remedy: &str) -> Failure {
    Failure::new(Exit::NotReachable, format!("{what}; {remedy}"))
}

/// The address without a path. A token never goes over a foreign network in the clear.
fn base(text: &str) -> Result<Url, Failure> {
    let usage = |what: &str| Failure::usage(format!("`{text}` {what}"));
    let url = parsed(text)?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_private_url(text) => Ok(url),
        "http" => Err(usage("would carry the token in the clear; use an https:// address")),
        _ => Err(usage("is not an http:// or https:// address")),
    }
}

fn parsed(text: &str) -> Result<Url, Failure> {
    Url::parse(text)
        .map_err(|_| Failure::usage(format!("`{text}` is no URL such as http://127.0.0.1:8080")))
}

/// Why a connection was not trusted, if that is why there is none.
fn certificate_fault<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> Option<&'e rustls::Error> {
    if let Some(fault) = error.downcast_ref() {
        return Some(fault).filter(|fault| matches!(fault, rustls::Error::InvalidCertificate(_)));
    }
    // What is inside of an I/O error is not its source.
    match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        Some(inner) => certificate_fault(inner),
        None => certificate_fault(error.source()?),
    }
}

/// The certificates in a file; none if none was named.
fn authorities(file: Option<&Path>) -> Result<Vec<Certificate>, Failure> {
    let Some(file) = file else { return Ok(Vec::new()) };
    let text = fs::read(file).map_err(Failure::unreadable(file))?;
    match Certificate::from_pem_bundle(&text) {
        Ok(found) if !found.is_empty() => Ok(found),
        _ => {
            let shown = file.display();
            Err(Failure::usage(format!("`{shown}` holds no certificate in PEM form")))
        }
    }
}

/// Follows no redirect and uses no proxy: either would carry the token elsewhere.
fn client(
    url: &Url,
    socket: Option<&SocketPath>,
    authorities: Vec<Certificate>,
) -> reqwest::Result<Client> {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("hivewright-cli/", env!("CARGO_PKG_VERSION")));
    if url.scheme() == "http" {
        // Reading the machine's certificates would take longer than most commands.
        builder = builder.tls_certs_only([]);
    } else if !authorities.is_empty() {
        builder = builder.tls_certs_only(authorities);
    }
    if let Some(socket) = socket {
        builder = builder.unix_socket(socket.path());
    }
    builder.build()
}

/// The file with the operator token of a home.
pub(super) fn token_path(home: &Home) -> std::path::PathBuf {
    home.secrets().join("operator-token")
}

fn read_token(context: &Context) -> Result<Secret, Failure> {
    let path = match (&context.token_file, &context.url) {
        (Some(path), _) => path.clone(),
        // It opens this home, so that a stranger's machine must not see it.
        (None, Some(url)) if !is_private_url(url) => {
            return Err(Failure::new(
                Exit::NotAllowed,
                format!(
                    "name the token for `{url}` with `--token-file`: that of this home is for its own service"
                ),
            ));
        }
        (None, _) => token_path(&context.home),
    };
    let no_token = |reason: &str| {
        let shown = path.display();
        let message = format!("no token in `{shown}` ({reason}); name a file with `--token-file`");
        Failure::new(Exit::NotAllowed, message)
    };
    match fs::read_to_string(&path).map(|text| text.trim().to_owned()) {
        Ok(token) if token.is_empty() => Err(no_token("it is empty")),
        Ok(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Secret::new(token)),
        Ok(_) => Err(no_token("it holds something else")),
        Err(error) => Err(no_token(&error.to_string())),
    }
}

fn refused(status: StatusCode, text: &[u8], remedy: &str) -> Failure {
    let answer: Value = serde_json::from_slice(text).unwrap_or_default();
    let error = &answer["error"];
    let exit = match status.as_u16() {
        401 | 403 => Exit::NotAllowed,
        404 => Exit::NotFound,
        400 | 422 => Exit::Usage,
        409 | 412 => Exit::Conflict,
        503 => match error["code"].as_str() {
            None | Some("starting" | "draining" | "stopping") => Exit::NotReachable,
            Some("too_slow") => Exit::TimedOut,
            // It is there, and says why it does not do this.
            Some(_) => Exit::Failed,
        },
        _ => Exit::Failed,
    };
    let said = match (error["message"].as_str(), error["code"].as_str()) {
        // The service speaks of headers, which nobody types here.
        _ if status == StatusCode::UNAUTHORIZED => {
            "the service does not accept the token: it is wrong or was replaced; see `--token-file`"
                .to_owned()
        }
        (Some(message), Some(code)) => {
            // The others say no more than the exit code.
            let is_plain = ["not_found", "invalid_input", "forbidden", "conflict"].contains(&code);
            let code = if is_plain { String::new() } else { format!(" ({code})") };
            match error["field"].as_str() {
                Some(field) if !message.contains(field) => format!("`{field}`: {message}{code}"),
                _ => format!("{message}{code}"),
            }
        }
        _ => format!("the service answered {status}"),
    };
    let advice = match exit {
        Exit::NotReachable => format!("; try again in a moment, or {remedy}"),
        _ => String::new(),
    };
    Failure::new(exit, said + &advice)
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-85
    #[test]
    fn an_answer_that_is_no_success_becomes_an_exit_code_and_one_line() {
        let body =
            br#"{"error":{"code":"forbidden","message":"needs scope `admin`","request_id":"r"}}"#;
        let table = [
            (403, &body[..], 4, "needs scope `admin`"),
            (
                401,
                b"",
                4,
                "the service does not accept the token: it is wrong or was replaced; see `--token-file`",
            ),
            (404, b"{}", 5, "the service answered 404 Not Found"),
            (409, b"no", 6, "the service answered 409 Conflict"),
            (
                503,
                b"",
                7,
                "the service answered 503 Service Unavailable; try again in a moment, or `x` starts it",
            ),
            (
                503,
                br#"{"error":{"code":"draining","message":"the service is shutting down"}}"#,
                7,
                "the service is shutting down (draining); try again in a moment, or `x` starts it",
            ),
            (
                503,
                br#"{"error":{"code":"disk_full","message":"there is no room"}}"#,
                1,
                "there is no room (disk_full)",
            ),
            (
                503,
                br#"{"error":{"code":"too_slow","message":"it took too long"}}"#,
                8,
                "it took too long (too_slow)",
            ),
            (
                422,
                br#"{"error":{"code":"invalid_input","message":"is in the past","field":"deadline"}}"#,
                2,
                "`deadline`: is in the past",
            ),
            (500, b"", 1, "the service answered 500 Internal Server Error"),
        ];

        for (status, text, exit, message) in table {
            let status = StatusCode::from_u16(status).unwrap();
            let failure = refused(status, text, "`x` starts it");
            assert_eq!((failure.exit.code(), failure.message.as_str()), (exit, message));
        }
    }

    #[test]
    fn a_token_stays_off_foreign_networks_in_the_clear() {
        assert!(base("http://127.0.0.1:8080").is_ok());
        assert!(base("https://hive.example.org").is_ok());
        for text in ["http://hive.example.org", "http://8.8.8.8", "ftp://localhost", "8080"] {
            assert_eq!(base(text).unwrap_err().exit, Exit::Usage, "{text}");
        }
    }
}
