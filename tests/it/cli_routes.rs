//! Which routes the command line uses: every command is run through a witness that writes down what
//! goes over the wire, and held against the description that the service gives of itself.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy},
    net::{TcpListener, TcpStream},
};

use crate::{cli_follow::Following, service::Service};

/// Routes that the command line leaves to other clients, and why.
const LEFT: [(&str, Why); 46] = [
    ("GET /", Why::Browser),
    ("GET /ui/{file}", Why::Browser),
    ("GET /api/v1/session", Why::Browser),
    ("POST /api/v1/session", Why::Browser),
    ("DELETE /api/v1/session", Why::Browser),
    ("GET /api/v1/logins", Why::Browser),
    ("DELETE /api/v1/logins/{id}", Why::Browser),
    ("GET /api/v1/files/{id}", Why::Browser),
    ("POST /api/v1/markdown", Why::Browser),
    ("POST /api/v1/models/try", Why::Browser),
    ("POST /api/v1/mcp/try", Why::Browser),
    ("POST /api/v1/channels/discord/try", Why::Browser),
    ("GET /api/v1/config/{file}", Why::Local),
    ("PUT /api/v1/config/{file}", Why::Local),
    ("GET /api/v1/team-templates", Why::Local),
    ("GET /api/v1/teams/{name}/instructions", Why::Local),
    ("GET /api/v1/teams/{team}/instructions/{kind}/{name}", Why::Local),
    ("PUT /api/v1/teams/{team}/instructions/{kind}/{name}", Why::Local),
    ("DELETE /api/v1/teams/{team}/instructions/{kind}/{name}", Why::Local),
    ("GET /api/v1/profiles", Why::Browser),
    ("GET /healthz", Why::Probe),
    ("GET /health", Why::Probe),
    ("GET /metrics", Why::Probe),
    ("POST /hooks/{team}/{name}", Why::Program),
    ("POST /hooks/channels/{team}/{key}", Why::Program),
    ("POST /api/v1/teams/{team}/plugins/{key}/setup/poll", Why::Waits),
    ("PUT /api/v1/triggers/{id}/cursors", Why::Program),
    ("GET /api/v1/openapi.json", Why::Program),
    ("GET /api/v1/docs", Why::Program),
    ("POST /api/v1/doctor", Why::Local),
    ("POST /api/v1/config/validate", Why::Local),
    ("POST /api/v1/config/reload", Why::Local),
    ("GET /api/v1/teams/{name}/config", Why::Local),
    ("PUT /api/v1/teams/{name}/config", Why::Local),
    ("GET /api/v1/backups", Why::Local),
    ("GET /api/v1/channels", Why::Status),
    ("GET /api/v1/tasks/stats", Why::Status),
    ("GET /api/v1/me/channels/{id}/messages", Why::Chat),
    ("GET /api/v1/me/topics/{id}/messages", Why::Chat),
    ("GET /api/v1/me/teams/{name}/messages", Why::Chat),
    ("GET /api/v1/messages/{id}", Why::Chat),
    ("GET /api/v1/topics/{id}/live", Why::Chat),
    ("POST /api/v1/sessions/{id}/reset", Why::Chat),
    ("POST /api/v1/approvals/batch", Why::Loop),
    ("POST /api/v1/memories/review", Why::Loop),
    ("POST /api/v1/channels/{type}/reconnect", Why::Loop),
];

/// Why a route needs no command.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// A browser loads it, or logs in and out with it.
    Browser,
    /// Something that watches the service asks for it.
    Probe,
    /// Programs call it, or read it to do so.
    Program,
    /// A command works on the files themselves, also where nothing runs.
    Local,
    /// `status` shows what it tells.
    Status,
    /// A chat hears or does it over its WebSocket.
    Chat,
    /// A list and single acts do: who has a terminal has loops.
    Loop,
    /// A command calls it only while a person does something elsewhere.
    Waits,
}

/// Commands that never talk to a service.
const ALONE: [&str; 21] = [
    "serve",
    "init",
    "mcp",
    "acp",
    "completions",
    "restore",
    "import openhive",
    "history import",
    "config check",
    "config edit",
    "config set",
    "config migrate",
    "engine login",
    "restart",
    "stop",
    "context add",
    "context use",
    "context list",
    "context remove",
    "plugin new",
    "plugin sign",
];

/// Commands that also work where no service runs, on the files and the store.
const AT_REST: [&str; 9] = [
    "doctor",
    "backup",
    "config show",
    "engine list",
    "token create",
    "token list",
    "token revoke",
    "token rotate-operator",
    "vault rotate-master",
];

/// Commands that go on until they are stopped.
const STREAMS: [&str; 7] = [
    "status --watch",
    "tasks watch",
    "approvals watch",
    "logs --follow",
    "events",
    "history tail",
    "chat",
];

/// Every command that talks to the service, in an order in which each finds what it needs.
/// `APPROVAL`, `TASK`, `SESSION` and `TOPIC` stand for one that is there.
const COMMANDS: &str = "
status
status --watch
models
engine list
doctor
send hello
send hello --team ops --wait 20
send hello --file Cargo.toml
send hello --continue
chat
teams list
teams show ops
teams tree
teams create crew --scope sails
teams pause ops
teams pause --all
teams resume ops
teams resume --all
teams capabilities ops triggers
teams bootstrap ops
teams untrusted ops
teams accept ops --all
teams servers
teams restart-server ops files
tasks list
tasks show TASK
tasks create ops #reply
tasks watch
approvals list
approvals watch
approvals show APPROVAL
approvals approve APPROVAL --uses 2
approvals grants
approvals revoke GRANT
approvals deny APPROVAL no
tasks cancel TASK
tasks retry TASK
topics list
topics show TOPIC
topics rename TOPIC other
topics pin TOPIC
topics archive TOPIC
topics reopen TOPIC
token create ci --scope chat
token list
token revoke ci
token link
trigger create ops morning --every 1h --task look
trigger list
trigger agenda
trigger show ops/morning
trigger edit ops/morning --every 2h
trigger enable ops/morning
trigger disable ops/morning
trigger run ops/morning
trigger runs ops/morning
trigger preview --every 1h
trigger delete ops/morning
trust add ws:someone
trust list
trust revoke ws:someone
trust audit
identity link discord:1 operator
identity list
identity unlink discord:1
memory set place here
memory list
memory show place
memory show place --chain
memory edit place --content there
memory pin place
memory rollback mem-1
memory review mem-1 --approve
memory delete place
vault list
vault set KEY --team ops
vault show KEY --team ops
vault audit
vault delete KEY --team ops
questions list
questions show qst-1
questions answer qst-1 --text yes
policy list
policy add deny tool:bash --id no-shell
policy explain main bash
policy remove no-shell
plugin install tests/it/plugin_packages/greeter
plugin list
plugin show greeter
plugin approve greeter
plugin enable greeter --team main
plugin config greeter --team main
plugin restart greeter --team main
plugin disable greeter --team main
plugin setup echo-channel --team main
plugin doctor
plugin uninstall greeter
channel list
channel show echo-channel
channel setup echo-channel --team main --set secret=a-secret-of-the-channel-to-try
channel config echo-channel --team main
channel restart echo-channel --team main
channel enable echo-channel --team main
channel disable echo-channel --team main
inbox
inbox list
inbox read --all
inbox read n-1
changes
changes list --team main
changes rollback chg-1
tools
tools list --team main
tools show main lookup --of-version 1
tools deprecate main lookup --reason gone
tools remove main lookup
search hello
history list
history show
history show SESSION
history export
history compact SESSION
history tail
topics delete TOPIC
usage
usage --budgets
usage --csv
logs
logs --follow
audit
events
backup
jobs list
jobs show job-1
jobs cancel job-1
config show
vault rotate-master
teams shutdown crew
token rotate-operator
";

/// Passes bytes on between commands and the service, and keeps what commands send.
struct Witness {
    url: String,
    sent: Arc<Mutex<String>>,
}

impl Witness {
    async fn start(service: &Service) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let address = service.url().replace("http://", "");
        let address = address.trim_end_matches('/').to_owned();
        let sent = Arc::new(Mutex::new(String::new()));
        let kept = sent.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(&address).await.unwrap();
                tokio::spawn(pass(client, server, kept.clone()));
            }
        });
        Self { url, sent }
    }

    /// Every request since the last look: its method and path.
    fn requests(&self) -> Vec<(String, String)> {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        let ends: Vec<usize> = sent.match_indices(" HTTP/1.1\r\n").map(|(at, _)| at).collect();
        let requests = ends.into_iter().map(|end| {
            let (method, path) = sent[..end].rsplit_once(' ').expect("a method");
            // The body of the request before may stand right before it.
            let methods = ["GET", "POST", "PUT", "PATCH", "DELETE"];
            let method = methods.into_iter().find(|name| method.ends_with(name));
            let path = path.split('?').next().unwrap_or_default();
            (method.expect("a method").to_owned(), path.to_owned())
        });
        requests.collect()
    }
}

async fn pass(client: TcpStream, server: TcpStream, kept: Arc<Mutex<String>>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    tokio::spawn(async move { copy(&mut from_server, &mut to_client).await });
    let mut buffer = [0; 16 * 1024];
    // Heads of requests come whole: they are sent in one piece.
    while let Ok(count) = from_client.read(&mut buffer).await {
        if count == 0 || to_server.write_all(&buffer[..count]).await.is_err() {
            break;
        }
        let text = String::from_utf8_lossy(&buffer[..count]);
        kept.lock().unwrap().push_str(&text);
    }
}

/// All commands by name, as `--help` lists them.
async fn named(service: &Service) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open = vec![Vec::<String>::new()];
    while let Some(words) = open.pop() {
        let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        arguments.push("--help");
        let help = service.run(&arguments, "").await;
        assert_eq!(help.code, Some(0), "{help:?}");
        let listed = help.stdout.split_once("\nCommands:\n");
        let listed = listed.map_or("", |(_, rest)| rest.split("\n\n").next().unwrap());
        let inner: Vec<&str> = listed
            .lines()
            .filter_map(|line| line.strip_prefix("  "))
            .filter(|line| !line.starts_with(' '))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help")
            .collect();
        if inner.is_empty() {
            found.insert(words.join(" "));
        }
        for name in inner {
            open.push([words.clone(), vec![name.to_owned()]].concat());
        }
    }
    found
}

fn is_of(line: &str, names: &[&str]) -> bool {
    let is = |name: &&str| line == *name || line.starts_with(&format!("{name} "));
    names.iter().any(is)
}

/// Every route of the description, as method and path.
fn described(document: &Value) -> BTreeSet<String> {
    let paths = document["paths"].as_object().expect("paths");
    let routes = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().expect("methods").keys();
        let methods = methods.filter(|name| *name != "parameters");
        methods.map(move |method| format!("{} {path}", method.to_uppercase()))
    });
    routes.collect()
}

/// The route that a request goes to: of those that fit, the one with the fewest parameters.
fn route_of<'a>(routes: &'a BTreeSet<String>, method: &str, path: &str) -> Option<&'a String> {
    let fits = |route: &&String| {
        let Some((of, pattern)) = route.split_once(' ') else {
            return false;
        };
        let (mut parts, mut pieces) = (pattern.split('/'), path.split('/'));
        let alike = parts
            .by_ref()
            .zip(pieces.by_ref())
            .all(|(part, piece)| part == piece || (part.starts_with('{') && !piece.is_empty()));
        of == method && alike && pattern.split('/').count() == path.split('/').count()
    };
    let fitting = routes.iter().filter(fits);
    fitting.min_by_key(|route| route.matches('{').count())
}

/// A service with a team, a call that waits for a person, and something that was said.
async fn furnished() -> (Service, String, String) {
    let config = "policy: [{id: ask, effect: require_approval, resource: 'tool:write'}]\n";
    let service = Service::prepare()
        .with_file("data/config/config.yaml", config)
        .with_file("run/teams/main/config.yaml", crate::service::WORKS_ITSELF)
        .started()
        .await;
    let wish = json!({"name": "ops", "scope_accepts": ["work"]});
    let (made, _) = service.api("POST", "/api/v1/teams", Some(wish)).await;
    assert_eq!(made, 201);
    let mut watch = Following::start(&service, &["status", "--watch", "--json"]);
    let mut client = service.connect().await;
    let file = json!({"file_path": "x", "content": "y"});
    client.say("m", &format!("#call write {file}")).await;
    watch
        .until(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            line["data"]["approvals_open"] == 1
        })
        .await;
    let (_, list) = service.api("GET", "/api/v1/approvals", None).await;
    let row = &list["data"][0];
    let text = |name: &str| row[name].as_str().expect(name).to_owned();
    (service, text("short_id"), text("task_id"))
}

/// OP-07, OP-79, OP-84: the description and the command line know the same routes, and with
/// `--json` a command prints JSON and nothing else.
#[actix::test]
async fn every_route_has_a_command_and_every_command_a_route() {
    let (service, approval, task) = furnished().await;
    let (_, document) = service.api("GET", "/api/v1/openapi.json", None).await;
    let routes = described(&document);
    let (_, sessions) = service.api("GET", "/api/v1/sessions", None).await;
    let session = sessions["data"][0]["id"].as_str().expect("a session");
    let (_, topics) = service.api("GET", "/api/v1/topics", None).await;
    let topic = topics["data"][0]["id"].as_str().expect("a topic");
    let witness = Witness::start(&service).await;

    let mut used: BTreeSet<&String> = BTreeSet::new();
    for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
        let (_, grants) = service.api("GET", "/api/v1/grants", None).await;
        let grant = grants["data"][0]["id"].as_str().unwrap_or("none");
        let words: Vec<&str> = line.split(' ').collect();
        let words = words.into_iter().map(|word| match word {
            "APPROVAL" => approval.as_str(),
            "GRANT" => grant,
            "TASK" => task.as_str(),
            "SESSION" => session,
            "TOPIC" => topic,
            word => word,
        });
        let everywhere = ["--url", &witness.url, "--json", "--yes"];
        let words: Vec<&str> = words.chain(everywhere).collect();
        if is_of(line, &STREAMS) && line != "chat" {
            let mut following = Following::start(&service, &words);
            let first = following.line().await;
            serde_json::from_str::<Value>(&first).expect("JSON");
        } else {
            let done = service.run(&words, "long enough\n").await;
            let is_understood = !done.stderr.contains("\nUsage: ");
            assert!(is_understood, "`{line}`: {done:?}");
            assert_ne!(done.code, Some(7), "`{line}`: {done:?}");
            let is_json = |line: &str| serde_json::from_str::<Value>(line).is_ok();
            // Who asks for a table by name gets one.
            let is_csv = line == "usage --csv";
            assert!(is_csv || done.stdout.lines().all(is_json), "`{line}`: {done:?}");
            let is_list_of_lines = is_csv || is_of(line, &["history export", "chat"]);
            let count = done.stdout.lines().count();
            assert!(is_list_of_lines || count == 1, "`{line}`: {done:?}");
        }
        let requests = witness.requests();
        assert!(!requests.is_empty(), "`{line}` asked the service nothing");
        for (method, path) in requests {
            match route_of(&routes, &method, &path) {
                Some(route) => _ = used.insert(route),
                // A conversation over a WebSocket is no part of the description.
                None => assert_eq!(path, "/ws", "`{line}` asks for {method} {path}"),
            }
        }
    }

    let is_left = |route: &String| LEFT.iter().any(|(left, _)| left == route);
    let is_open = |route: &&String| !used.contains(*route) && !is_left(route);
    let open: Vec<_> = routes.iter().filter(is_open).collect();
    assert_eq!(open, Vec::<&String>::new(), "no command uses these");
    for (route, why) in LEFT {
        let route = route.to_owned();
        assert!(!used.contains(&route), "{route} ({why:?}) is used after all");
        assert!(routes.contains(&route), "there is no route {route}");
    }
}

/// OP-83: whoever follows a job is told of it, and does not ask again and again.
#[actix::test]
async fn a_backup_is_followed_by_its_events() {
    let service = Service::start().await;
    let witness = Witness::start(&service).await;
    let file = service.path("copy.tar.zst");

    let words = ["backup", file.to_str().unwrap(), "--url", &witness.url];
    let done = service.run(&words, "").await;

    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(file.exists());
    let requests = witness.requests();
    let count = |path: &str| {
        let asked = requests.iter().filter(|(_, asked)| asked.starts_with(path));
        asked.count()
    };
    assert_eq!(count("/api/v1/events"), 1, "{requests:?}");
    assert_eq!(count("/api/v1/jobs/"), 1, "{requests:?}");
}

/// OP-85, OP-86, OP-87: all commands that there are.
#[actix::test]
async fn without_a_service_every_command_that_needs_one_says_how_to_start_it() {
    let home = Service::prepare();
    let named = named(&home).await;
    let lines: Vec<&str> = COMMANDS.lines().filter(|line| !line.is_empty()).collect();
    let tried = |name: &String| lines.iter().any(|line| is_of(line, &[name.as_str()]));
    for name in &named {
        let is_alone = ALONE.contains(&name.as_str());
        assert!(is_alone || tried(name), "`{name}` is tried by no test");
    }

    for line in lines {
        if is_of(line, &AT_REST) {
            continue;
        }
        let words: Vec<&str> = line.split(' ').collect();
        let done = home.run(&words, "").await;
        assert_eq!(done.code, Some(7), "`{line}`: {done:?}");
        assert_eq!(done.stdout, "", "`{line}`");
        let start = format!("`hivewright --home {} serve`", home.home().display());
        assert!(done.stderr.contains(&start), "`{line}`: {done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "`{line}`: {done:?}");
    }
}
