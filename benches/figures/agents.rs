//! What a turn on a command-line agent takes over the same program started by hand.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    process::Stdio,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use actix_web::{App, HttpResponse, HttpServer, web};
use hivewright::{
    engines::{
        claude::Claude,
        codex::Codex,
        harness::{
            bridge::Bridge,
            program::{Act, Dialogue, Order, Program},
            wake,
        },
        pi::{Api, Pi},
    },
    settings::config::{CodexMode, PiMode},
};
use hivewright_actors::{
    engine::Message,
    tool::specs::{ToolSpec, ToolSpecs},
};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::mpsc,
};

use crate::{
    chat::Talk,
    process::{self, Process},
    report::{Bound, Report},
};

/// Pairs of turns, one of each kind; the first is not counted.
const TURNS: usize = 20;
/// No turn takes longer.
const TURN_TIMEOUT: Duration = Duration::from_secs(120);
const KEY: &str = "bench-model-key";

/// The last request of an agent.
type Asked = Arc<Mutex<Value>>;

pub(crate) fn measure(report: &mut Report) {
    let programs: [(&str, Arc<dyn Program>); 3] = [
        ("claude", Arc::new(Claude)),
        ("codex", Arc::new(Codex { mode: CodexMode::AppServer })),
        ("pi", Arc::new(Pi { mode: PiMode::Rpc, api: Api::Anthropic })),
    ];
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a folder");
    for (sdk, program) in programs {
        let binary = target.join("agents/node_modules/.bin").join(sdk);
        if !binary.exists() {
            eprintln!("agents: {} is missing; `./tests/run` installs it", binary.display());
            continue;
        }
        actix::System::new().block_on(compare(report, sdk, &*program, &binary));
    }
}

async fn compare(report: &mut Report, sdk: &str, program: &dyn Program, binary: &Path) {
    let asked = Asked::default();
    let model = serve_model(asked.clone());
    let folder = tempfile::tempdir().expect("a folder");
    let home = folder.path();
    let provider = if sdk == "codex" { "openai" } else { "anthropic" };
    let profile =
        format!("{{provider: {provider}, api_url: \"{model}\", api_key: {KEY}, model: m}}");
    let files = [
        ("data/config/providers.yaml", format!("profiles:\n  default: {profile}\n")),
        (
            "data/config/config.yaml",
            format!("engines: {{{sdk}: {{binary: {}}}}}\n", binary.display()),
        ),
        ("data/config/channels.yaml", "ws: {enabled: true}\ntopics: {model: never}\n".to_owned()),
        (
            "run/teams/main/config.yaml",
            format!("sdk: {sdk}\nallowed_tools: [\"@files\", \"@shell\"]\n"),
        ),
    ];
    for (path, text) in &files {
        process::write(home, path, text);
    }
    let service = Process::serve(home);
    let (url, token) = (process::address(home, &service), process::token(home));
    turn(&url, &token).await;
    let given = Given::read(&asked.lock().expect("a lock"));
    let (mut ours, mut bare, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=TURNS {
        let by_hand = run(program, &given, binary, &model).await;
        let by_us = turn(&url, &token).await;
        if round > 0 {
            bare.push(by_hand);
            ours.push(by_us);
            more.push(by_us - by_hand);
        }
    }
    let (ours, bare, more) = (median(ours), median(bare), median(more));
    report.figure(&format!("agents: turn on {sdk}"), ours, "ms", Bound::None);
    report.figure(&format!("agents: {sdk} by hand"), bare, "ms", Bound::None);
    report.figure(&format!("agents: what we add to {sdk}"), more, "ms", Bound::AtMost(20.0));
    let share = 1.0 + more / bare;
    report.figure(&format!("agents: turn on {sdk} / by hand"), share, "×", Bound::AtMost(1.05));
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}

/// A turn of the service, in a conversation of its own.
async fn turn(url: &str, token: &str) -> f64 {
    let mut talk = Talk::connect(url, token).await;
    let begin = Instant::now();
    // A turn that fails has another end.
    tokio::time::timeout(TURN_TIMEOUT, talk.ask("hello")).await.expect("an answer in time");
    milliseconds(begin.elapsed())
}

/// What the service gives an agent, read from what the agent gives the model.
struct Given {
    system: String,
    tools: ToolSpecs,
}

impl Given {
    fn read(body: &Value) -> Self {
        // Codex gives it as the first of its messages.
        let system = [&body["system"], &body["input"][0]["content"]].map(text).concat();
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        let inner = |tool: Value| match tool["tools"].as_array() {
            Some(inner) => inner.clone(),
            None => vec![tool],
        };
        let tools = tools.into_iter().flat_map(inner).filter_map(|tool| {
            let name = tool["name"].as_str()?;
            let schema = [&tool["input_schema"], &tool["parameters"]];
            Some(ToolSpec {
                name: name.rsplit_once("__").map_or(name, |(_, name)| name).to_owned(),
                description: tool["description"].as_str().unwrap_or_default().to_owned(),
                schema: schema.into_iter().find(|schema| schema.is_object())?.clone(),
            })
        });
        Self { system, tools: tools.collect() }
    }
}

fn text(system: &Value) -> String {
    match system {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}

/// The same program with the same arguments, files and tools, outside of the service and of any sandbox.
async fn run(program: &dyn Program, given: &Given, binary: &Path, model: &str) -> f64 {
    let folder = tempfile::tempdir_in(Path::new(env!("CARGO_TARGET_TMPDIR"))).expect("a folder");
    let place = |name: &str| -> PathBuf {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    };
    let socket = place("s").join("socket");
    let order = Order {
        model: "m".to_owned(),
        thinking: None,
        system: given.system.clone(),
        tools: given.tools.iter().map(|tool| tool.name.clone()).collect(),
        workspace: place("work"),
        home: place("home"),
        files: place("files"),
        relay: model.to_owned(),
        token: KEY.to_owned(),
        bridge: process::binary(),
        sees: false,
        socket: socket.clone(),
    };
    let launch = program.launch(&order);
    for (path, text) in &launch.files {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }
    let listener = tokio::net::UnixListener::bind(&socket).expect("a socket");
    let (calls, _made) = mpsc::unbounded_channel();
    let tools = Arc::new(given.tools.iter().cloned().collect());
    let bridge =
        tokio::spawn(Bridge { token: KEY.into(), tools, calls, files: None }.serve(listener));

    // Its interpreter may be beside it alone.
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let path =
        binary.parent().map(Path::to_owned).into_iter().chain(std::env::split_paths(&folders));

    let begin = Instant::now();
    let mut child = Command::new(binary)
        .args(&launch.args)
        .env_clear()
        .env("PATH", std::env::join_paths(path).expect("folders"))
        .env("HOME", &order.home)
        .env("TMPDIR", place("tmp"))
        .envs(&launch.env)
        .current_dir(&order.workspace)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("the agent starts");
    converse(&mut child, program.dialogue(&order)).await;
    let took = begin.elapsed();
    child.kill().await.expect("it ends");
    bridge.abort();
    milliseconds(took)
}

/// Says one word to an agent, and hears it out.
async fn converse(child: &mut Child, mut dialogue: Box<dyn Dialogue>) {
    let mut input = child.stdin.take();
    let mut lines = BufReader::new(child.stdout.take().expect("an output")).lines();
    let mut acts: VecDeque<Act> = dialogue.open().into();
    loop {
        while let Some(act) = acts.pop_front() {
            match act {
                Act::Write(line) => {
                    let input = input.as_mut().expect("an input");
                    input.write_all(format!("{line}\n").as_bytes()).await.expect("it reads");
                }
                Act::CloseInput => input = None,
                Act::Ready => {
                    let prompt = wake::prompt(None, [], &[Message::User("hello".to_owned())]);
                    acts.extend(dialogue.tell(&prompt));
                }
                Act::Done(result) => {
                    result.expect("an answer");
                    return;
                }
                _ => {}
            }
        }
        let line = lines.next_line().await.expect("an output").expect("a line");
        if let Ok(line) = serde_json::from_str(&line) {
            acts.extend(dialogue.hear(line));
        }
    }
}

fn serve_model(asked: Asked) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = HttpServer::new(move || {
        let answer = |answer: &'static str| {
            let asked = asked.clone();
            let answer = move |body: web::Json<Value>| {
                *asked.lock().expect("a lock") = body.into_inner();
                async move { HttpResponse::Ok().content_type("text/event-stream").body(answer) }
            };
            web::post().to(answer)
        };
        App::new()
            .app_data(web::JsonConfig::default().limit(16 << 20))
            .route("/v1/messages", answer(MESSAGES))
            .route("/v1/responses", answer(RESPONSES))
    });
    let server = server.workers(1).disable_signals();
    actix::spawn(server.listen(listener).expect("it listens").run());
    format!("http://{address}")
}

const MESSAGES: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\
     \"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\
     \"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\
     \"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\
     \"delta\":{\"type\":\"text_delta\",\"text\":\"Hello.\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\
     \"stop_sequence\":null},\"usage\":{\"output_tokens\":2}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

const RESPONSES: &str = concat!(
    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"resp_1\"}}\n\n",
    "event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"output_index\":0,\
     \"item\":{\"type\":\"message\",\"id\":\"msg_1\",\"role\":\"assistant\",\"status\":\"completed\",\
     \"content\":[{\"type\":\"output_text\",\"text\":\"Hello.\",\"annotations\":[]}]}}\n\n",
    "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_1\",\
     \"usage\":{\"input_tokens\":1,\"input_tokens_details\":null,\"output_tokens\":2,\
     \"output_tokens_details\":null,\"total_tokens\":3}}}\n\n",
);
