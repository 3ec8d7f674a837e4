//! Leaks: calls of every kind that are given up at any moment leave no process, socket, browser or folder behind.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    kill_switch::{processes, until_there_are},
    mcp,
    service::{Client, Service, rounds, until},
    web_server::{WebServer, page},
    webdriver::is_quick,
};

/// Calls in all; `HIVEWRIGHT_ROUNDS` makes it more.
const CALLS: usize = 300;
const KINDS: usize = 7;
/// Conversations that make them at the same time.
const CONVERSATIONS: usize = 6;
const CHANNELS: &str = "
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
";
/// A browser stays until nobody has used it for a while, or this.
const CLOSES: &str = "#call browser_close {}\n#reply {result}";
const CONFIG: &str =
    "store: {durability: process}\npolicy: [{id: mcp, effect: allow, resource: \"mcp:*\"}]\n";

/// The sockets that a process holds, by their inodes.
fn sockets(pid: u32) -> Vec<String> {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(Result::ok);
    let leads = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode = |to: PathBuf| {
        let inode = to.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        Some(inode.to_owned())
    };
    leads.filter_map(inode).collect()
}

/// The TCP sockets of a process that are not at its own port: connections that it has made, and other ports.
fn others(pid: u32, own: u16) -> Vec<String> {
    let held = sockets(pid);
    let tables = ["tcp", "tcp6"].map(|table| format!("/proc/{pid}/net/{table}"));
    let tables = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
    let lines =
        tables.flat_map(|table| table.lines().skip(1).map(str::to_owned).collect::<Vec<_>>());
    lines
        .filter(|line| {
            let fields: Vec<_> = line.split_whitespace().collect();
            let port = fields[1].rsplit(':').next().unwrap();
            held.iter().any(|inode| inode == fields[9]) && u16::from_str_radix(port, 16) != Ok(own)
        })
        .collect()
}

/// The processes below one.
fn below(pid: u32) -> usize {
    let children = |of: u32| -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
            .filter_map(|id| id.parse().ok())
            .collect()
    };
    let mut waiting = children(pid);
    let mut count = 0;
    while let Some(next) = waiting.pop() {
        count += 1;
        waiting.extend(children(next));
    }
    count
}

/// The folders of a home, without those of the database.
fn folders(home: &Path, found: &mut BTreeSet<PathBuf>) {
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.ends_with("store") && !path.ends_with("sessions") {
            folders(&path, found);
            found.insert(path);
        }
    }
}

/// What a call of a number is, and whether it ends by itself.
fn called(number: usize, web: &WebServer, seconds: &str) -> (&'static str, Value, bool) {
    let page = if number.is_multiple_of(2) { "/" } else { "/wait" };
    match number % KINDS {
        0 => ("web_fetch", json!({"url": web.url("/wait"), "timeout_ms": 40}), true),
        1 => ("mcp__fake__slow", json!({"ms": number % 40}), true),
        2 => ("mcp__far__echo", json!({"number": number}), true),
        3 => ("mcp__far__wait", json!({}), false),
        4 => ("send_file", json!({"file_path": "plums.txt"}), true),
        5 => ("browser_navigate", json!({"url": web.url(page)}), page == "/"),
        _ => {
            let command = format!("sleep {seconds} & sleep 0.02; echo done");
            ("bash", json!({"command": command}), true)
        }
    }
}

/// Makes every so many-th call in a conversation of its own. Returns that with how many had no time to end.
async fn converse(
    mut client: Client,
    first: usize,
    calls: usize,
    web: &WebServer,
    seconds: &str,
) -> (Client, usize) {
    let topic = client.open_topic("#reply Here.").await;
    let mut stopped = 0;
    for number in (first..calls).step_by(CONVERSATIONS) {
        let (tool, args, ends) = called(number, web, seconds);
        let id = format!("m-{number}");
        client.say_in(&topic, &id, &format!("#call {tool} {args}\n#reply ended")).await;
        if !ends || number.is_multiple_of(3) {
            tokio::time::sleep(Duration::from_millis((number * 37 % 60) as u64)).await;
            client.send(json!({"type": "cancel", "topic_id": topic})).await;
        }
        let end = client.end_of(&id).await;
        stopped += usize::from(end["content"] != "ended");
    }
    (client, stopped)
}

/// A home whose main team may use all tools, with two MCP servers.
fn prepare(web: &WebServer) -> Service {
    let service = Service::prepare()
        .with_file("data/config/config.yaml", CONFIG)
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("mcp/fake-server.js", mcp::FAKE)
        .with_file("run/teams/main/plums.txt", "plums");
    let team = format!(
        "max_steps: 300\nallowed_tools: [\"*\"]\negress: {{allow_private: [\"{}\"]}}\nmcp_servers:\n{} far: \
         {{url: \"{}\"}}\n",
        web.address,
        mcp::fake(&service, ", idle_timeout: 1h"),
        web.url("/mcp"),
    );
    service.write("run/teams/main/config.yaml", &team);
    service
}

/// SC-18, TO-16: calls of every kind with cancels at any moment.
#[actix::test]
async fn mixed_calls_with_random_cancels_leave_nothing() {
    if is_quick() && !Path::new("/usr/bin/node").exists() {
        return;
    }
    let mut web = WebServer::start(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        match path {
            "/mcp" => mcp::far::answer(request),
            "/wait" => None,
            _ => Some(page("plums")),
        }
    })
    .await;
    let mut service = prepare(&web).started().await;
    // A number that no other process has.
    let seconds = format!("{}", 710_000 + std::process::id());
    let mut clients = Vec::new();
    for _ in 0..CONVERSATIONS {
        clients.push(service.connect().await);
    }
    for number in (0..2 * KINDS).filter(|number| called(*number, &web, &seconds).2) {
        let (tool, args, _) = called(number, &web, &seconds);
        let warm = clients[number % CONVERSATIONS]
            .ask(&format!("#call {tool} {args}\n#reply ended"))
            .await;
        assert_eq!(warm["content"], "ended", "{tool}: {warm}");
    }
    clients[0].ask(CLOSES).await;
    web.until_open(0).await;
    let pid = service.pid();
    until_there_are(0, &seconds).await;
    let (held, ran) = (sockets(pid).len(), below(pid));
    let mut made = BTreeSet::new();
    folders(service.home(), &mut made);
    let (began, calls) = (Instant::now(), rounds(CALLS));

    let each = clients.into_iter().enumerate();
    let each = each.map(|(first, client)| converse(client, first, calls, &web, &seconds));
    // Their connections stay, so that the numbers can be compared.
    let mut ended = futures_util::future::join_all(each).await;
    let stopped: usize = ended.iter().map(|(_, stopped)| stopped).sum();
    let took = began.elapsed();
    ended[0].0.ask(CLOSES).await;

    web.until_open(0).await;
    until_there_are(0, &seconds).await;
    until("no process more", async || below(pid) <= ran).await;
    until("no socket more", async || sockets(pid).len() <= held).await;
    let mut left = BTreeSet::new();
    until("no folder more", async || {
        left.clear();
        folders(service.home(), &mut left);
        left.is_subset(&made)
    })
    .await;
    println!(
        "{calls} calls, {stopped} stopped, {took:.1?}: {} processes, {} sockets (before: {ran}, {held}), no folders",
        below(pid),
        sockets(pid).len(),
    );
    assert!(stopped > calls / 10, "{stopped}");
    assert_eq!(fs::read_dir(service.path("run/files/incoming")).unwrap().count(), 0);
    let home = service.home().display().to_string();
    service.signal("TERM");
    assert_eq!(service.ended().await, Some(0), "{}", service.log());
    until_there_are(0, &format!("{home}/mcp/fake-server.js")).await;
    assert_eq!(processes(&seconds), 0);
}

/// The names of the threads of a process.
fn threads(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let names = tasks.filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

/// OR-89, CH-93, TO-91: a team that may use the world outside, and does not: no thread, no process and no connection is there
/// for it.
#[actix::test]
async fn nothing_is_started_for_what_nobody_uses() {
    let service = Service::prepare()
        .with_file("data/config/config.yaml", CONFIG)
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"*\"]\n")
        .started()
        .await;
    let pid = service.pid();
    let mut client = service.connect().await;

    let answer = client.ask("#call read {\"file_path\":\"config.yaml\"}\n#reply read").await;
    let held = sockets(pid).len();
    // A page that may not be opened starts no browser either.
    let browsed =
        client.ask("#call browser_navigate {\"url\":\"http://127.0.0.1:9/\"}\n#reply no").await;

    assert_eq!((&answer["content"], &browsed["content"]), (&json!("read"), &json!("no")));
    let names = threads(pid);
    for name in ["browsers", "mcp", "scripts"] {
        assert!(!names.iter().any(|thread| thread == name), "{name}: {names:?}");
    }
    assert_eq!((below(pid), sockets(pid).len()), (0, held));
    let port = service.url().trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(others(pid, port), Vec::<String>::new());
}
