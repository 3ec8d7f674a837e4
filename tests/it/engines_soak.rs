//! The promise that nothing is lost or done twice, on every engine: agents and the service are killed and turns are
//! stopped at random moments.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    crash::{CHANNELS, no_effect_is_repeated, talk},
    engines::{AGENTS, agents, descendants, home, is_there, team},
    service::{Service, rounds, until},
    shown::Known,
};

/// Who talks to each engine at once.
const CLIENTS: usize = 2;
/// So many processes are killed in so much time.
const KILLS: (usize, Duration) = (4, Duration::from_secs(30));

/// A small generator, so that a run can be told from another by its seed alone.
struct Dice(u64);

impl Dice {
    fn new(salt: u64) -> Self {
        Self((u64::from(std::process::id()) << 8) | (salt << 1) | 1)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// What was done to an engine, and what came of it.
#[derive(Debug, Default)]
struct Figures {
    turns: usize,
    killed_processes: usize,
    stopped_turns: usize,
    killed_services: usize,
    ends: BTreeMap<String, usize>,
}

/// Kills a process below the service: an agent, what it started, or what started it.
fn kill_one(seen: &HashSet<(u32, String)>, dice: &mut Dice) -> bool {
    let all: Vec<_> = seen.iter().collect();
    if all.is_empty() {
        return false;
    }
    let (pid, _) = all[dice.below(all.len() as u64) as usize];
    let status = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).output();
    status.is_ok_and(|done| done.status.success())
}

/// Stops a turn that runs, if there is one.
async fn stop_one(service: &Service, dice: &mut Dice) -> bool {
    let (_, tasks) = service.api("GET", "/api/v1/tasks?state=running", None).await;
    let rows = tasks["data"].as_array().cloned().unwrap_or_default();
    if rows.is_empty() {
        return false;
    }
    let row = &rows[dice.below(rows.len() as u64) as usize];
    let path = format!("/api/v1/tasks/{}/cancel", row["id"].as_str().expect("an id"));
    service.api("POST", &path, Some(json!({}))).await.0 < 300
}

fn has_ended(task: &Value) -> bool {
    task["outcome"]["finished_at"].is_string()
}

/// All tasks, newest first.
async fn tasks(service: &Service) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/v1/tasks?limit=200{cursor}");
        let (status, page) = service.api("GET", &path, None).await;
        assert_eq!(status, 200, "{page}");
        rows.extend(page["data"].as_array().expect("tasks").iter().cloned());
        let Some(next) = page["next_cursor"].as_str() else { return rows };
        cursor = format!("&cursor={next}");
    }
}

/// `pace`: the longest pause between two disturbances.
async fn soak(mut service: Service, salt: u64, turns: usize, pace: u64) -> Figures {
    let (tell, address) = watch::channel((service.url(), service.token()));
    let stop = Arc::new(AtomicBool::new(false));
    let known = Known::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| actix::spawn(talk(number, address.clone(), stop.clone(), known.clone())))
        .collect();
    let mut dice = Dice::new(salt);
    let mut figures = Figures::default();
    let mut seen = HashSet::new();
    // A task has three attempts, of which a killed service takes one: what was cut off twice is left alone.
    let (mut cut_once, mut cut_twice) = (BTreeSet::new(), BTreeSet::new());
    // An agent is started anew four times in a step, and then its task waits for longer than a test does.
    let mut kills = VecDeque::from([Instant::now() - KILLS.1; KILLS.0]);
    while known.count_ended() < turns {
        tokio::time::sleep(Duration::from_millis(dice.below(pace))).await;
        let now = descendants(service.pid());
        match dice.below(10) {
            0 if known.open().is_disjoint(&cut_twice) => {
                service.kill();
                figures.killed_services += 1;
                let open = known.open();
                cut_twice = open.intersection(&cut_once).cloned().collect();
                cut_once = open;
                until("nothing outlives the service", async || !now.iter().any(is_there)).await;
                service.launch().await;
                tell.send_replace((service.url(), service.token()));
            }
            1..=2 => figures.stopped_turns += usize::from(stop_one(&service, &mut dice).await),
            3..=6 if kills[0].elapsed() >= KILLS.1 && kill_one(&now, &mut dice) => {
                kills.pop_front();
                kills.push_back(Instant::now());
                figures.killed_processes += 1;
            }
            _ => {}
        }
        seen.extend(now);
    }
    stop.store(true, Ordering::SeqCst);

    let mut said = 0;
    for client in clients {
        let ledger = tokio::time::timeout(Duration::from_secs(300), client);
        let ledger = ledger.await.unwrap_or_else(|_| panic!("a lane is stuck\n{}", service.log()));
        let ledger = ledger.unwrap_or_else(|error| panic!("{error}\n{}", service.log()));
        for end in ledger.ends() {
            said += 1;
            let kind = [&end["status"], &end["code"], &end["error"]];
            let kind = kind.map(|part| part.as_str().unwrap_or("-"));
            *figures.ends.entry(kind.join(" ")).or_default() += 1;
        }
    }
    figures.turns = said;
    let rows = tasks(&service).await;
    let open: Vec<&Value> = rows.iter().filter(|row| !has_ended(row)).collect();
    assert_eq!((rows.len(), open.len()), (said, 0), "tasks for messages: {open:#?}");
    no_effect_is_repeated(&service);
    seen.extend(descendants(service.pid()));
    until("no process is left", async || !seen.iter().any(is_there)).await;
    figures
}

/// EN-125, CH-80: each message has one end, no effect is repeated, no lane is stuck and no process stays.
/// `HIVEWRIGHT_ROUNDS` is the number of turns of each engine, `HIVEWRIGHT_ENGINES` names some of them.
#[actix::test]
async fn turns_under_kills_and_stops_each_have_one_end_on_every_engine() {
    let Some(agents) = agents() else { return };
    let turns = rounds(6);
    let wanted = std::env::var("HIVEWRIGHT_ENGINES").unwrap_or_default();
    let engines = ["native"].into_iter().chain(AGENTS);
    let engines = engines.filter(|sdk| wanted.is_empty() || wanted.contains(sdk)).enumerate();
    let run = engines.map(async |(salt, sdk)| {
        let service = home(&agents, sdk, "")
            .with_file("data/config/channels.yaml", CHANNELS)
            .with_file("run/teams/main/config.yaml", &team(sdk))
            .with_file("run/teams/main/effects/log", "")
            .started()
            .await;
        let began = Instant::now();
        // A turn of our own loop takes no more than a moment.
        let pace = if sdk == "native" { 150 } else { 1_500 };
        let figures = soak(service, salt as u64, turns, pace).await;
        println!("{sdk}: {figures:?} in {:.0} s", began.elapsed().as_secs_f64());
    });

    join_all(run).await;
}

/// Walks, unless `HIVEWRIGHT_ROUNDS` says so.
const WALKS: usize = 2;

/// The order that begins a walk. Each team has the name of its engine, asks the operator, asks the team above, and reports.
fn order(walk: usize) -> String {
    let calls = AGENTS.map(|sdk| {
        let question = json!({ "question": format!("q-{walk}-{sdk}") });
        let above = json!({
            "message": format!("#reply up-{walk}-{sdk}"),
            "correlation_id": format!("{walk}-{sdk}"),
        });
        let task = format!(
            "#call ask_operator {question}\n#then\n#call escalate {above}\n#then\n#reply r-{walk}-{sdk}"
        );
        let order = json!({ "team": sdk, "task": task, "overlap_policy": "allow" });
        format!("#call delegate_task {order}")
    });
    format!("{}\n#reply given {walk}", calls.join("\n"))
}

/// OR-76, OR-84, PL-88, EN-19, EN-114: work goes from our own loop to each agent and back; each asks a person once.
/// The service is killed once in each walk; `HIVEWRIGHT_ROUNDS` is the number of walks.
#[actix::test]
async fn work_walks_between_engines_and_comes_back_once() {
    let Some(agents) = agents() else { return };
    let mut service = home(&agents, "native", "")
        .with_file("data/config/channels.yaml", CHANNELS)
        .started()
        .await;
    for sdk in AGENTS {
        let wish = json!({
            "name": sdk, "description": "works", "scope_accepts": [sdk], "allowed_tools": ["*"], "sdk": sdk,
        });
        let (status, made) = service.api("POST", "/api/v1/teams", Some(wish)).await;
        assert_eq!(status, 201, "{made}");
    }
    for sdk in AGENTS {
        let path = format!("/api/v1/tasks?team={sdk}");
        service.until(&path, |tasks| tasks[0]["state"] == "done").await;
    }
    let mut client = service.connect().await;
    let channel = client.channel.clone().expect("a channel");
    let mut dice = Dice::new(9);
    let mut topics = BTreeMap::new();
    for walk in 0..rounds(WALKS) {
        if walk > 0 {
            // A connection that nobody reads is given up.
            let last_seq = client.last_seq;
            client = service.connect().await;
            client.resume(&channel, last_seq).await;
        }
        client.say(&format!("m-{walk}"), &order(walk)).await;
        let ack = client.until(|frame| frame["type"] == "ack").await;
        topics.insert(walk, ack["topic_id"].clone());
        let pause = tokio::time::sleep(Duration::from_millis(dice.below(4_000)));
        pause.await;
        let (last_seq, before) = (client.last_seq, descendants(service.pid()));
        service.kill();
        until("nothing outlives the service", async || !before.iter().any(is_there)).await;
        service.launch().await;
        client = service.connect().await;
        client.resume(&channel, last_seq).await;
        let three = |rows: &Value| rows.as_array().is_some_and(|rows| rows.len() == AGENTS.len());
        let asked = service.until("/api/v1/questions?status=open", three).await;
        for question in asked.as_array().into_iter().flatten() {
            let path = format!("/api/v1/questions/{}/answer", question["id"].as_str().unwrap());
            let word = json!({ "text": format!("a{}", question["question"].as_str().unwrap()) });
            let (status, answered) = service.api("POST", &path, Some(word)).await;
            assert_eq!(status, 200, "{answered}");
        }
        let all_ended =
            |rows: &Value| rows.as_array().is_some_and(|rows| rows.iter().all(has_ended));
        service.until("/api/v1/tasks?limit=200", all_ended).await;
    }

    // All that was told since the beginning.
    let mut again = service.connect().await;
    again.resume(&channel, 0).await;
    let mut told: Vec<(Value, String)> = Vec::new();
    while told.len() < rounds(WALKS) * AGENTS.len() * 3 {
        let frame = again.frame().await;
        if frame["type"] == "notification" && frame["kind"] == "task" {
            let words = frame["content"].as_str().unwrap_or_default().to_owned();
            told.push((frame["topic_id"].clone(), words));
        }
    }
    for (walk, topic) in &topics {
        for sdk in AGENTS {
            let result = format!("[{sdk}] r-{walk}-{sdk}");
            let above = format!("\nup-{walk}-{sdk}\n");
            let answer = format!("\"text\":\"aq-{walk}-{sdk}\"");
            for words in [result, above, answer] {
                let times = told.iter().filter(|(_, said)| said.contains(&words));
                let topics: Vec<&Value> = times.map(|(topic, _)| topic).collect();
                assert_eq!(topics, [topic], "where {words:?} is told: {told:#?}");
            }
        }
    }
    until("no process is left", async || descendants(service.pid()).is_empty()).await;
}
