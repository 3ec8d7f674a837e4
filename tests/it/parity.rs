//! Parity: two teams with twin data. Whatever a team can call, a token of it can ask for, a stream tells
//! it or a record holds, nothing of the other is in it.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::StreamExt;
use hivewright::{
    settings::config::Durability,
    storage::{self, open::open},
};
use hivewright_actors::{
    storage::{Order, Storage as _},
    store::keys::printable,
};
use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    injections::{deny_all, text_of},
    service::{PATIENCE, Service, http},
};

/// A team, and what nothing but its own data says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Twin {
    name: &'static str,
    mark: &'static str,
}

const NORTH: Twin = Twin { name: "north", mark: "aurora-7731" };
const SOUTH: Twin = Twin { name: "south", mark: "pampas-4410" };
const PAIRS: [(Twin, Twin); 2] = [(NORTH, SOUTH), (SOUTH, NORTH)];

const CHANNELS: &str = "ws: {enabled: true}\ntopics: {model: never}\n";
const CONFIG: &str = "
store: {durability: process}
policy:
  - {id: ask-edit, effect: require_approval, resource: 'tool:edit'}
";

/// Calls what its task says, line by line, and then repeats the last line of the task.
fn perform(request: &Value) -> Reply {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let asked = messages.iter().rposition(|message| message["role"] == "user");
    let asked = asked.unwrap_or_default();
    let task = messages.get(asked).map(text_of).unwrap_or_default();
    let orders: Vec<_> = task.lines().filter_map(|line| line.strip_prefix("do: ")).collect();
    let called = messages[asked..].iter();
    let called = called.filter(|message| message["tool_calls"].is_array()).count();
    match orders.get(called).and_then(|order| order.split_once(' ')) {
        Some((tool, args)) => Reply::call(tool, serde_json::from_str(args).unwrap()),
        None => Reply::text(task.lines().last().unwrap_or_default()),
    }
}

/// What a team could try with a tool to learn of another. None: nobody has thought of this tool yet.
fn tries(tool: &str, other: &str) -> Option<Vec<Value>> {
    let file = format!("../{other}/notes/office.md");
    let trigger = json!({ "team": other, "trigger_name": "morning" });
    let with = |mut value: Value, name: &str, more: Value| {
        value[name] = more;
        value
    };
    let tries = match tool {
        "bash" => vec![
            json!({ "command": format!("cat {file}; ls -R ..; cat ../*/notes/*; env; cat /proc/*/environ") }),
        ],
        "read" => vec![json!({ "file_path": file })],
        "send_file" => vec![json!({ "file_path": file })],
        "write" => vec![json!({ "file_path": file, "content": "x" })],
        "edit" => vec![json!({ "file_path": file, "old_string": "a", "new_string": "b" })],
        "glob" => vec![
            json!({ "pattern": "**/*", "path": ".." }),
            json!({ "pattern": format!("../{other}/**") }),
        ],
        "grep" => vec![json!({ "pattern": "[a-z]+-[0-9]+", "path": ".." })],
        "delegate_task" => vec![json!({ "team": other, "task": "Tell me all." })],
        "query_team" => vec![json!({ "team": other, "query": "Tell me.", "timeout_ms": 1000 })],
        "query_teams" => vec![json!({ "teams": [other], "query": "Tell me.", "timeout_ms": 1000 })],
        "send_message" => vec![json!({ "target": other, "message": "Tell me." })],
        "enqueue_parent_task" => vec![json!({ "task": "Look after us." })],
        "escalate" => vec![json!({ "message": "Help." })],
        "get_status" | "list_triggers" => vec![json!({}), json!({ "team": other })],
        "list_completed_tasks" => vec![json!({}), json!({ "team": other, "limit": 50 })],
        "list_teams" => vec![json!({}), json!({ "recursive": true })],
        "shutdown_team" => vec![json!({ "name": other, "cascade": true })],
        "spawn_team" => vec![json!({ "name": "east", "scope_accepts": ["x"] })],
        "update_team" => vec![json!({ "team": other, "description": "taken" })],
        "control_team" => vec![json!({ "team": other, "action": "pause" })],
        "create_trigger" => vec![
            json!({ "team": other, "name": "evening", "type": "schedule", "config": { "every": "1h" }, "task": "x" }),
        ],
        "update_trigger" => vec![with(trigger, "task", json!("x"))],
        "enable_trigger" | "disable_trigger" | "test_trigger" => vec![trigger],
        "memory_search" => vec![json!({ "query": "office", "include_inactive": true })],
        "memory_list" => vec![json!({}), json!({ "key": "office" })],
        "memory_save" => vec![json!({ "key": "other", "content": "x" })],
        "memory_delete" => vec![json!({ "key": "nothing" })],
        "vault_get" => vec![json!({ "key": "OFFICE" })],
        "vault_delete" => vec![json!({ "key": "NOTHING" })],
        "vault_list" | "whoami" => vec![json!({})],
        "vault_set" => vec![json!({ "key": "MORE", "value": "x" })],
        "use_skill" => vec![
            json!({ "skill_name": "office" }),
            json!({ "skill_name": format!("../../{other}/skills/office") }),
        ],
        "ask_operator" => vec![json!({ "question": "Who is there?" })],
        "web_fetch" => vec![
            json!({ "url": format!("file:///run/teams/{other}/notes/office.md") }),
            json!({ "url": format!("http://127.0.0.1:8080/api/v1/teams/{other}") }),
        ],
        "browser_navigate" => vec![
            json!({ "url": format!("file:///run/teams/{other}/notes/office.md") }),
            json!({ "url": format!("http://127.0.0.1:8080/api/v1/teams/{other}") }),
        ],
        "browser_click" => vec![json!({ "ref": "e1" })],
        "browser_type" => vec![json!({ "ref": "e1", "text": "x" })],
        "browser_close" | "browser_go_back" | "browser_go_forward" | "browser_screenshot"
        | "browser_snapshot" => vec![json!({})],
        "register_plugin_tool" => vec![json!({
            "tool_name": "peek",
            "source_code": "export const description = 'looks'; export const inputSchema = {type: 'object'}; \
                export const execute = () => globalThis;",
        })],
        "deprecate_plugin_tool" => vec![json!({ "tool_name": "peek", "reason": "done" })],
        "remove_plugin_tool" => vec![json!({ "tool_name": "peek" })],
        agent if agent.starts_with("agent") => vec![json!({ "task": "Look around." })],
        _ => return None,
    };
    Some(tries)
}

struct Stage {
    service: Service,
    model: FakeModel,
}

impl Stage {
    async fn new() -> Self {
        let model = FakeModel::start();
        model.answer_with(perform);
        let providers = format!(
            "profiles:\n  default: {{provider: openai, api_url: \"{}/v1\", api_key: {KEY}, model: m}}\n",
            model.url()
        );
        let service = Service::prepare()
            .with_file("data/config/providers.yaml", &providers)
            .with_file("data/config/channels.yaml", CHANNELS)
            .with_file("data/config/config.yaml", CONFIG)
            .started()
            .await;
        for Twin { name, mark } in [NORTH, SOUTH] {
            service.make_team(name, mark).await;
            let files = [
                ("notes/office.md", format!("{mark}\n")),
                ("team-rules/house.md", format!("# House\n\n{mark}\n")),
                (
                    "skills/office/SKILL.md",
                    format!("---\nname: office\ndescription: {mark}\n---\n{mark}\n"),
                ),
                (
                    "subagents/clerk.md",
                    format!("---\ndescription: {mark}\n---\n# Agent: clerk\n\n{mark}\n"),
                ),
            ];
            for (path, content) in files {
                service.write(&format!("run/teams/{name}/{path}"), &content);
            }
        }
        let stage = Self { service, model };
        for twin in [NORTH, SOUTH] {
            stage.furnish(twin).await;
        }
        stage
    }

    async fn made(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.service.api(method, path, Some(body)).await;
        assert!(status < 300, "{path}: {status} {answer}");
        answer["data"].clone()
    }

    async fn furnish(&self, Twin { name, mark }: Twin) {
        let memory = json!({"team": name, "key": "office", "content": mark});
        self.made("POST", "/api/v1/memories", memory).await;
        let vault = format!("/api/v1/vault/team:{name}");
        let public = json!({"value": mark, "secret": false, "note": mark});
        self.made("PUT", &format!("{vault}/OFFICE"), public).await;
        let secret = json!({"value": format!("{mark}-secret"), "secret": true, "note": mark});
        self.made("PUT", &format!("{vault}/KEY"), secret).await;
        let trigger = json!({
            "team": name, "name": "morning", "type": "schedule", "config": {"cron": "0 8 * * *"},
            "task": mark, "enable": true,
        });
        self.made("POST", "/api/v1/triggers", trigger).await;
        self.work(name, mark).await;
    }

    /// Gives a team work: its task.
    async fn give(&self, team: &str, task: &str) -> String {
        let order = json!({"team": team, "task": task});
        let task = self.made("POST", "/api/v1/tasks", order).await;
        let id = task["id"].as_str().or(task["task_id"].as_str());
        id.unwrap_or_else(|| panic!("{task}")).to_owned()
    }

    /// Gives a team work and waits for the end of it.
    async fn work(&self, team: &str, task: &str) {
        let id = self.give(team, task).await;
        self.service
            .until(&format!("/api/v1/tasks/{id}"), |task| {
                ["done", "failed", "cancelled", "expired", "dead"]
                    .contains(&task["state"].as_str().unwrap_or_default())
            })
            .await;
    }

    /// What a team was told by the model's requests that are about this word.
    fn told(&self, word: &str) -> Vec<Value> {
        let requests = self.model.requests().into_iter();
        let about =
            requests.filter(|request| String::from_utf8_lossy(&request.bytes).contains(word));
        about.map(|request| request.body).collect()
    }

    /// A token with all scopes for one team.
    async fn token(&self, team: &str) -> String {
        let wish = json!({
            "name": format!("of-{team}"), "teams": [team],
            "scopes": ["chat", "read", "operate", "approve", "secrets", "admin", "metrics"],
        });
        let token = self.made("POST", "/api/v1/tokens", wish).await;
        token["token"].as_str().expect("a token").to_owned()
    }

    async fn ask(&self, method: &str, path: &str, token: &str) -> (u16, String) {
        let url = format!("{}{path}", self.service.url());
        let mut request = http().request(method.parse().unwrap(), url).bearer_auth(token);
        if method != "GET" {
            request = request.json(&json!({}));
        }
        let answer = request.send().await.unwrap();
        assert_ne!(answer.status(), 429, "{path}");
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The first row of a list that a team has, by its id.
    async fn id_of(&self, list: &str, team: &str) -> String {
        let (_, rows) = self.service.api("GET", &format!("/api/v1/{list}?limit=200"), None).await;
        let mut rows = rows["data"].as_array().into_iter().flatten();
        let row = rows.find(|row| row["team"] == team || row["team"]["name"] == team);
        let id = row.and_then(|row| row["id"].as_str()).unwrap_or("none");
        id.replace('/', "%2F")
    }

    /// A route with a team's own names in it.
    async fn filled(&self, path: &str, team: &str) -> String {
        let mut filled = path.replace("{scope}", &format!("team:{team}"));
        filled = filled.replace("{key}", "OFFICE").replace("{name}", team);
        filled = filled.replace("{team}", team).replace("{type}", "ws").replace("{file}", "x");
        filled = filled.replace("{server}", "x").replace("{tool}", "peek");
        filled = filled.replace("{kind}", "team-rules");
        if filled.contains("{id}") {
            let list = path.trim_start_matches("/api/v1/").split('/').next().unwrap();
            filled = filled.replace("{id}", &self.id_of(list, team).await);
        }
        assert!(!filled.contains('{'), "`{path}` has a part that this test does not know");
        filled
    }

    /// Every operation that the service describes.
    async fn operations(&self) -> Vec<(String, String)> {
        let (_, document) = self.service.api("GET", "/api/v1/openapi.json", None).await;
        let paths = document["paths"].as_object().expect("paths");
        let operations = paths.iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods
                .filter(|method| {
                    ["get", "put", "post", "patch", "delete"].contains(&method.as_str())
                })
                .map(|method| (method.to_uppercase(), path.clone()))
        });
        operations.collect()
    }
}

/// Routes in whose answers an operator reads something of a team: if they tell nothing, the test sees
/// nothing.
const TELLING: &[&str] = &[
    "/api/v1/approvals",
    "/api/v1/memories",
    "/api/v1/org",
    "/api/v1/questions",
    "/api/v1/questions/{id}",
    "/api/v1/sessions/{id}/export",
    "/api/v1/sessions/{id}/history",
    "/api/v1/snapshot",
    "/api/v1/tasks",
    "/api/v1/tasks/{id}",
    "/api/v1/teams",
    "/api/v1/teams/{name}",
    "/api/v1/teams/{name}/config",
    "/api/v1/teams/{name}/history",
    "/api/v1/triggers",
    "/api/v1/triggers/{id}",
    "/api/v1/vault",
    "/api/v1/vault/{scope}/{key}",
];

/// SC-14: every tool of a team, with what it could try.
async fn no_tool_tells(stage: &Stage) {
    let over = Arc::new(AtomicBool::new(false));
    let denier = deny_all(&stage.service, &over);
    for (own, other) in PAIRS {
        stage.work(own.name, &format!("{} shows what it has", own.mark)).await;
        let seen = stage.told(&format!("{} shows", own.mark));
        let tools = seen[0]["tools"].as_array().unwrap().iter();
        let names: Vec<_> = tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect();
        assert!(names.len() > 30, "{names:?}");
        let mut orders = Vec::new();
        for name in names.iter().filter(|name| **name != "ask_operator") {
            let tries = tries(name, other.name);
            let tries = tries
                .unwrap_or_else(|| panic!("`{name}` is new: say what a team could try with it"));
            orders.extend(tries.iter().map(|args| format!("do: {name} {args}")));
        }
        assert!(names.contains(&"ask_operator"));

        // A turn has fewer steps than there are tools.
        for (part, orders) in orders.chunks(30).enumerate() {
            let sweep = format!("sweep {part} of {}", own.name);
            stage.work(own.name, &format!("{sweep}\n{}\nswept", orders.join("\n"))).await;

            let requests = stage.told(&sweep);
            let last = requests.last().unwrap()["messages"].as_array().unwrap();
            let results = last.iter().filter(|message| message["role"] == "tool");
            assert!(results.count() >= orders.len(), "{last:?}");
            assert!(requests.iter().any(|request| request.to_string().contains(own.mark)));
            for request in requests {
                assert!(!request.to_string().contains(other.mark), "{own:?}: {request:#}");
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    denier.await.unwrap();
}

/// SC-14: every route that is described, with the names of the other team in it. Returns those in whose
/// answers an operator reads something of a team: there the test would see it if there were anything.
async fn no_route_tells(stage: &Stage) -> Vec<String> {
    let operations = stage.operations().await;
    let mut telling = BTreeSet::new();
    for (own, other) in PAIRS {
        let token = stage.token(own.name).await;
        for (method, path) in &operations {
            let theirs = stage.filled(path, other.name).await;
            if method != "GET" {
                // What names nothing of the other team cannot change anything of it.
                if path.contains('{') && !path.starts_with("/hooks") {
                    let (status, text) = stage.ask(method, &theirs, &token).await;
                    assert!((400..500).contains(&status), "{method} {theirs}: {status} {text}");
                    assert!(!text.contains(other.mark), "{method} {theirs}: {text}");
                }
                continue;
            }
            if path == "/api/v1/events" {
                continue;
            }
            for asked in [
                theirs.clone(),
                format!("{theirs}?team={}", other.name),
                format!("{theirs}?limit=200"),
            ] {
                let (_, text) = stage.ask("GET", &asked, &token).await;
                assert!(!text.contains(other.mark), "{own:?} GET {asked}: {text}");
            }
            let (_, text) = stage.ask("GET", &theirs, &stage.service.token()).await;
            if text.contains(other.mark) {
                telling.insert(path.as_str());
            }
        }
    }
    telling.into_iter().map(str::to_owned).collect()
}

/// SC-14: what is told while both work.
async fn no_event_tells(stage: &Stage) {
    for (own, other) in PAIRS {
        let (_, tokens) = stage.service.api("GET", "/api/v1/tokens", None).await;
        assert!(tokens.to_string().contains(&format!("of-{}", own.name)));
        let wish =
            json!({"name": format!("ear-{}", own.name), "teams": [own.name], "scopes": ["read"]});
        let token = stage.made("POST", "/api/v1/tokens", wish).await;
        let token = token["token"].as_str().unwrap().to_owned();
        let url = format!("{}/api/v1/events", stage.service.url());
        let all = http().get(&url).bearer_auth(&token).send().await.unwrap();
        let theirs = http().get(format!("{url}?team={}", other.name));
        let theirs = theirs.bearer_auth(&token).send().await.unwrap();
        assert_eq!([all.status().as_u16(), theirs.status().as_u16()], [403, 403]);
        let stream = http().get(format!("{url}?team={}", own.name)).bearer_auth(&token);
        let mut stream = stream.send().await.unwrap().bytes_stream();

        stage.work(other.name, &format!("{} speaks", other.mark)).await;
        stage.work(own.name, &format!("{} has spoken", own.mark)).await;
        let last = format!("{} has spoken", own.mark);
        let mut heard = String::new();
        let listening = async {
            while !heard.contains(&last) {
                let chunk = stream.next().await.expect("the stream goes on").unwrap();
                heard.push_str(&String::from_utf8_lossy(&chunk));
            }
        };
        tokio::time::timeout(PATIENCE, listening).await.expect("it is told");

        assert!(!heard.contains(other.mark), "{heard}");
    }
}

/// SC-14: no record holds something of both, and each names whose it is. Returns the kinds of records that
/// hold something.
fn no_record_tells(service: &Service) -> Vec<String> {
    let layout = storage::Home::new(&service.path("data"), &service.path("run"));
    let storage = open(&layout, Durability::Process, &storage::unwatched).unwrap();
    let mut kinds: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    storage
        .scan(&[], &[u8::MAX], Order::Rising, &mut |key, value| {
            let key = printable(key);
            let value = String::from_utf8_lossy(value.unwrap()).into_owned();
            let whole = format!("{key} {value}");
            let held: Vec<_> =
                [NORTH, SOUTH].into_iter().filter(|twin| whole.contains(twin.mark)).collect();
            assert!(held.len() < 2, "{whole}");
            if let [twin] = held[..] {
                let kind = key.split('/').next().unwrap_or_default().to_owned();
                assert!(whole.contains(twin.name), "{whole} does not say whose it is");
                kinds.entry(kind).or_default().insert(twin.name);
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    kinds.into_keys().collect()
}

/// SC-14, SC-137
#[actix::test]
async fn nothing_of_a_team_is_seen_by_its_twin() {
    let mut stage = Stage::new().await;

    no_tool_tells(&stage).await;
    // What waits for a person: an approval and a question of each.
    for Twin { name, mark } in [NORTH, SOUTH] {
        let edit = json!({ "file_path": "notes/office.md", "old_string": mark, "new_string": format!("{mark}!") });
        let question = json!({ "question": format!("{mark}?") });
        stage.give(name, &format!("do: edit {edit}\n{mark}")).await;
        stage.give(name, &format!("do: ask_operator {question}\n{mark}")).await;
    }
    let both = |rows: &Value| rows.as_array().is_some_and(|rows| rows.len() == 2);
    stage.service.until("/api/v1/approvals?status=pending", both).await;
    stage.service.until("/api/v1/questions?status=open", both).await;
    let telling = no_route_tells(&stage).await;
    no_event_tells(&stage).await;
    stage.service.signal("TERM");
    assert_eq!(stage.service.ended().await, Some(0));
    let kinds = no_record_tells(&stage.service);

    println!(
        "SC-14: {} routes and {} kinds of records hold something of a team: {telling:?} {kinds:?}",
        telling.len(),
        kinds.len()
    );
    for path in TELLING {
        assert!(telling.iter().any(|told| told == path), "{path} tells nothing");
    }
    assert_eq!(kinds, ["apr", "audit", "done", "edge", "hist", "qst", "task"]);
}
