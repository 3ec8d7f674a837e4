//! The running service, as a command finds and asks it.

use std::{
    fs, io, marker::PhantomData, os::unix::fs::MetadataExt, path::Path, sync::Arc, time::Duration,
};

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, header};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    Context,
    failure::{Exit, Failure, chain},
};
use crate::{
    api::{
        endpoint::{self, Empty, Endpoint, pairs},
        flags::Limit,
        monitoring::SHOW_READINESS,
        reply::{Readable, Rows},
    },
    settings::{home::Home, network::is_private_url, secret::Secret, socket_path::SocketPath},
};

/// The most rows of one answer.
const MOST_ROWS: &str = "200";
/// Nothing that is asked here takes longer; long work is a job.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections to the same machine are made at once or never.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

/// What a running service says about itself in its run dir.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Notice {
    /// Its process.
    pub(super) pid: u32,
    /// Where it listens.
    pub(super) url: String,
}

/// The service, behind its Unix socket.
const LOCAL: &str = "http://localhost/";

/// The notice of the service that runs in a home.
///
/// What a killed service left behind is none: someone else may listen there by now, and would be
/// shown the token.
pub(super) fn notice(home: &Home) -> Result<Option<Notice>, Failure> {
    if !is_locked(home)? {
        return Ok(None);
    }
    match fs::read(home.address_file()) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if is_foreign(&error) => Err(foreign(home)),
        Err(_) => Ok(None),
    }
}

/// Whether a process has the run dir. Nothing is changed to find out.
fn is_locked(home: &Home) -> Result<bool, Failure> {
    match fs::File::open(home.run().join("lock")) {
        Ok(file) => {
            Ok(flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK))
        }
        Err(error) if is_foreign(&error) => Err(foreign(home)),
        Err(_) => Ok(false),
    }
}

/// Somebody else's folder or file is in the way.
pub(super) fn is_foreign(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The run dir is of another user: whether a service runs there is not ours to know.
pub(super) fn foreign(home: &Home) -> Failure {
    let mut folders = home.run().ancestors();
    let owner = folders.find_map(|folder| fs::metadata(folder).ok());
    let whose = owner.map_or(String::new(), |found| {
        format!(" and belongs to the user with number {}", found.uid())
    });
    Failure::new(
        Exit::NotAllowed,
        format!(
            "the service's folder `{}` is not yours{whose}; run this as that user, \
             or name the service with `--url` and a token with `--token-file`",
            home.run().display()
        ),
    )
}

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
        let client = client(&base, socket.as_ref())
            .map_err(|error| Failure::system("the HTTP client cannot be set up", chain(&error)))?;
        Ok(Self { client, url, base, token, _socket: socket.map(Arc::new), remedy })
    }

    /// The service of the home, if one runs there or was named. Otherwise the caller may work on
    /// the store itself.
    pub(super) fn if_running(context: &Context) -> Result<Option<Self>, Failure> {
        if context.url.is_none() && notice(&context.home)?.is_none() {
            return Ok(None);
        }
        Self::find(context).map(Some)
    }

    /// Where it listens.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Calls an endpoint.
    pub(super) async fn call<R: Readable, P: Serialize, Q: Serialize, B: Serialize>(
        &self,
        endpoint: &Endpoint<R, P, Q, B>,
        path: &P,
        query: &Q,
        body: &B,
    ) -> Result<Answer<R::Content>, Failure> {
        let url = self.filtered(&target(endpoint, path)?, pairs(query));
        let mut request = match endpoint.method {
            endpoint::Method::Get => self.client.get(url),
            endpoint::Method::Post => self.client.post(url),
            endpoint::Method::Put => self.client.put(url),
            endpoint::Method::Patch => self.client.patch(url),
            endpoint::Method::Delete => self.client.delete(url),
        };
        if !matches!(endpoint.method, endpoint::Method::Get | endpoint::Method::Delete) {
            request = request.json(body);
        }
        let document = self.ask(self.signed(request)).await?;
        Ok(Answer { place: R::PLACE, ..Answer::new(document) })
    }

    /// Calls an endpoint that needs nothing but its path.
    pub(super) async fn at<R: Readable, P: Serialize>(
        &self,
        endpoint: &Endpoint<R, P>,
        path: &P,
    ) -> Result<Answer<R::Content>, Failure> {
        self.call(endpoint, path, &Empty {}, &Empty {}).await
    }

    /// The first rows of a list.
    pub(super) async fn rows<T, Q: Serialize>(
        &self,
        endpoint: &Endpoint<Rows<T>, Empty, Q>,
        filter: &Q,
        limit: &Limit,
    ) -> Result<Answer<Vec<T>>, Failure> {
        let mut fields = pairs(filter);
        fields.push(("limit".to_owned(), limit.limit.to_string()));
        let request = self.client.get(self.filtered(endpoint.path, fields));
        self.ask(self.signed(request)).await.map(Answer::new)
    }

    /// All rows of a list, page by page.
    pub(super) async fn all_rows<T, Q: Serialize>(
        &self,
        endpoint: &Endpoint<Rows<T>, Empty, Q>,
        filter: &Q,
    ) -> Result<Answer<Vec<T>>, Failure> {
        self.pages(endpoint.path, pairs(filter)).await.map(Answer::new)
    }

    /// The same of a list that its path chooses.
    pub(super) async fn all_rows_at<T, P: Serialize>(
        &self,
        endpoint: &Endpoint<Rows<T>, P>,
        path: &P,
    ) -> Result<Answer<Vec<T>>, Failure> {
        self.pages(&target(endpoint, path)?, Vec::new()).await.map(Answer::new)
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.ask(self.request(Method::GET, path)?).await
    }

    async fn pages(&self, path: &str, filter: Vec<(String, String)>) -> Result<Value, Failure> {
        let page = async |cursor: Option<String>| {
            let mut fields = filter.clone();
            fields.push(("limit".to_owned(), MOST_ROWS.to_owned()));
            fields.extend(cursor.map(|cursor| ("cursor".to_owned(), cursor)));
            self.ask(self.signed(self.client.get(self.filtered(path, fields)))).await
        };
        let mut all = page(None).await?;
        while let Some(cursor) = all["next_cursor"].as_str().map(str::to_owned) {
            let mut next = page(Some(cursor)).await?;
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

    /// The answer, also if it is no success.
    pub(super) async fn get_any(&self, path: &str) -> Result<Value, Failure> {
        let request = self.request(Method::GET, path)?.timeout(PATIENCE);
        let answer = request.send().await.map_err(|error| self.lost(&error))?;
        let text = answer.bytes().await.map_err(|error| self.lost(&error))?;
        Ok(serde_json::from_slice(&text).unwrap_or_default())
    }

    /// Asks for what fits these fields.
    pub(super) async fn search(
        &self,
        path: &str,
        fields: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Value, Failure> {
        let request = self.client.get(self.filtered(path, fields));
        self.ask(self.signed(request)).await
    }

    /// Whether it says that it is ready.
    pub(super) async fn is_ready(&self) -> Result<bool, Failure> {
        let request = self.request(Method::GET, SHOW_READINESS.path)?.timeout(PATIENCE);
        let answer = request.send().await.map_err(|error| self.lost(&error))?;
        Ok(answer.status().is_success())
    }

    /// Asks for something that comes bit by bit, and may go on for ever. `from` is where an earlier
    /// stream of events was left.
    pub(super) async fn stream(
        &self,
        path: &str,
        fields: Vec<(String, String)>,
        from: Option<&str>,
    ) -> Result<Response, Failure> {
        let mut request = self.signed(self.client.get(self.filtered(path, fields)));
        if let Some(from) = from {
            request = request.header("Last-Event-ID", from);
        }
        let answer = tokio::time::timeout(PATIENCE, self.send(request));
        answer.await.unwrap_or_else(|_| Err(self.silent()))
    }

    /// Asks for a connection that goes on as something else than HTTP.
    pub(super) async fn upgrade(&self, key: &str) -> Result<Response, Failure> {
        let request = self
            .request(Method::GET, "/ws")?
            .header(header::CONNECTION, "Upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_VERSION, "13")
            .header(header::SEC_WEBSOCKET_KEY, key);
        let answer = tokio::time::timeout(PATIENCE, self.send(request));
        let answer = answer.await.unwrap_or_else(|_| Err(self.silent()))?;
        match answer.status() {
            StatusCode::SWITCHING_PROTOCOLS => Ok(answer),
            other => Err(Failure::failed(format!(
                "{}ws answered {other}, which is no WebSocket; check `--url`",
                self.url
            ))),
        }
    }

    fn filtered(
        &self,
        path: &str,
        fields: impl IntoIterator<Item = (impl AsRef<str>, String)>,
    ) -> Url {
        let mut url = self.base.clone();
        url.set_path(path);
        let mut fields = fields.into_iter().peekable();
        if fields.peek().is_some() {
            url.query_pairs_mut().extend_pairs(fields);
        }
        url
    }

    fn request(&self, method: Method, path: &str) -> Result<RequestBuilder, Failure> {
        let url = self
            .base
            .join(path)
            .map_err(|error| Failure::system(format!("`{path}` is no address"), error))?;
        let request = self.client.request(method, url);
        Ok(self.signed(request))
    }

    /// Says who asks, and that it is a command.
    fn signed(&self, request: RequestBuilder) -> RequestBuilder {
        request.header("X-Client", "cli").bearer_auth(self.token.expose())
    }

    async fn ask(&self, request: RequestBuilder) -> Result<Value, Failure> {
        let answer = self.send(request.timeout(PATIENCE)).await?;
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

    /// Sends a request. An answer that is no success is a failure.
    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let answer = request.send().await.map_err(|error| self.lost(&error))?;
        let status = answer.status();
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(answer);
        }
        let text = answer.bytes().await.unwrap_or_default();
        Err(refused(status, &text, &self.remedy))
    }

    fn lost(&self, error: &reqwest::Error) -> Failure {
        if error.is_timeout() && !error.is_connect() {
            return self.silent();
        }
        let what = format!("no service answers at {}", self.url);
        let mut failure = not_reachable(&what, &self.remedy);
        if !error.is_connect() {
            failure.message = format!("{what} ({}); {}", chain(error), self.remedy);
        }
        failure
    }

    fn silent(&self) -> Failure {
        let seconds = PATIENCE.as_secs();
        Failure::new(
            Exit::TimedOut,
            format!("the service at {} did not answer within {seconds} s", self.url),
        )
    }
}

/// An answer of an endpoint: the document as it came, which says what a `T` is.
#[derive(Debug)]
pub(super) struct Answer<T> {
    pub(super) document: Value,
    /// Where the `T` stands, as a JSON pointer.
    place: &'static str,
    of: PhantomData<T>,
}

impl<T> Answer<T> {
    pub(super) fn new(document: Value) -> Self {
        Self { document, place: "/data", of: PhantomData }
    }
}

impl<T: DeserializeOwned> Answer<T> {
    pub(super) fn data(&self) -> Result<T, Failure> {
        read(self.document.pointer(self.place).unwrap_or(&Value::Null))
    }
}

/// The path of a request. An id that is none would lead elsewhere.
pub(super) fn target<R, P: Serialize, Q, B>(
    endpoint: &Endpoint<R, P, Q, B>,
    path: &P,
) -> Result<String, Failure> {
    endpoint.target(path).map_err(|error| Failure::new(Exit::Usage, error.to_string()))
}

/// A part of what the service says.
pub(super) fn read<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    T::deserialize(value)
        .map_err(|error| Failure::system("the service's answer cannot be read", error))
}

fn not_reachable(what: &str, remedy: &str) -> Failure {
    Failure::new(Exit::NotReachable, format!("{what}; {remedy}"))
}

/// The address without a path. A token never goes over a foreign network in the clear.
fn base(text: &str) -> Result<Url, Failure> {
    let usage = |what: &str| Failure::new(Exit::Usage, format!("`{text}` {what}"));
    let url = parsed(text)?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_private_url(text) => Ok(url),
        "http" => Err(usage("would carry the token in the clear; use an https:// address")),
        _ => Err(usage("is not an http:// or https:// address")),
    }
}

fn parsed(text: &str) -> Result<Url, Failure> {
    Url::parse(text).map_err(|_| {
        let message = format!("`{text}` is no URL such as http://127.0.0.1:8080");
        Failure::new(Exit::Usage, message)
    })
}

/// Follows no redirect and uses no proxy: either would carry the token elsewhere.
fn client(url: &Url, socket: Option<&SocketPath>) -> reqwest::Result<Client> {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut builder = Client::builder()
        .connect_timeout(CONNECT_PATIENCE)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("hivewright-cli/", env!("CARGO_PKG_VERSION")));
    if url.scheme() == "http" {
        // Reading the machine's certificates would take longer than most commands.
        builder = builder.tls_certs_only([]);
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
    let path = match &context.token_file {
        Some(path) => path.clone(),
        None => token_path(&context.home),
    };
    let no_token = |reason: &str| {
        let shown = path.display();
        let message = format!("no token in `{shown}` ({reason}); name a file with `--token-file`");
        Failure::new(Exit::NotAllowed, message)
    };
    match read_line(&path) {
        Ok(token) if token.is_empty() => Err(no_token("it is empty")),
        Ok(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Secret::new(token)),
        Ok(_) => Err(no_token("it holds something else")),
        Err(error) => Err(no_token(&error.to_string())),
    }
}

fn read_line(path: &Path) -> io::Result<String> {
    Ok(fs::read_to_string(path)?.trim().to_owned())
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: ErrorDetail,
}

#[derive(Deserialize)]
struct ErrorDetail {
    code: String,
    message: String,
}

fn refused(status: StatusCode, text: &[u8], remedy: &str) -> Failure {
    let exit = match status.as_u16() {
        401 | 403 => Exit::NotAllowed,
        404 => Exit::NotFound,
        409 | 412 => Exit::Conflict,
        503 => Exit::NotReachable,
        _ => Exit::Failed,
    };
    let said = match serde_json::from_slice::<ErrorAnswer>(text) {
        Ok(ErrorAnswer { error }) => format!("{} ({})", error.message, error.code),
        Err(_) => format!("the service answered {status}"),
    };
    let advice = match exit {
        Exit::NotAllowed if status == StatusCode::UNAUTHORIZED => {
            "; the token is wrong or was replaced: see `--token-file`".to_owned()
        }
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
            (403, &body[..], 4, "needs scope `admin` (forbidden)"),
            (
                401,
                b"",
                4,
                "the service answered 401 Unauthorized; the token is wrong or was replaced: see `--token-file`",
            ),
            (404, b"{}", 5, "the service answered 404 Not Found"),
            (409, b"no", 6, "the service answered 409 Conflict"),
            (
                503,
                b"",
                7,
                "the service answered 503 Service Unavailable; try again in a moment, or `x` starts it",
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
