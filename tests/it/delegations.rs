//! Delegations under `kill -9`: each piece of work that one team gave another is told of once.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::sync::watch;

use crate::service::{Client, Service};

/// How much is done, and how often the process dies meanwhile.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Teams below the main one.
    pub(crate) teams: usize,
    /// People who ask for work at the same time.
    pub(crate) clients: usize,
    /// Messages of each, one after the other.
    pub(crate) messages: usize,
    /// Pieces of work that each message gives away.
    pub(crate) each: usize,
    /// How often the process is killed.
    pub(crate) kills: usize,
}

impl Load {
    /// Pieces of work in all.
    pub(crate) fn delegations(self) -> usize {
        self.clients * self.messages * self.each
    }
}

const CHANNELS: &str = r#"
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
"#;
const CONFIG: &str = "limits: {max_children: 100}\n";

/// How often each piece of work was told of.
type Told = HashMap<String, usize>;

/// Gives work to teams while the process is killed, until all of it has its end. Returns how often
/// each end was told, by the words of its answer.
pub(crate) async fn run(load: Load) -> Told {
    let mut service = Service::prepare()
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("data/config/config.yaml", CONFIG)
        .started()
        .await;
    found(&service, load.teams).await;
    let (announce, address) = watch::channel((service.url(), service.token()));
    let told = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..load.clients)
        .map(|number| actix_web::rt::spawn(work(number, load, address.clone(), told.clone())))
        .collect();
    for kill in 1..=load.kills {
        // Spread over the whole of it, at moments that have nothing to do with what is under way.
        let goal = load.delegations() * kill / (load.kills + 1);
        while told.load(Ordering::SeqCst) < goal {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        service.kill();
        service.launch().await;
        announce.send_replace((service.url(), service.token()));
    }
    let mut all = Told::new();
    for client in clients {
        all.extend(client.await.expect("a client"));
    }
    all
}

/// Makes the teams.
async fn found(service: &Service, teams: usize) {
    let mut client = service.connect().await;
    for team in 0..teams {
        let answer = client.ask(&format!("create team team-{team}: works")).await;
        assert_eq!(answer["type"], "response", "{answer}");
    }
    let mut ready = 0;
    // Some were ready while others were made; the channel has told of all of them.
    let mut again = service.connect().await;
    again.resume(&client.channel.clone().expect("a channel"), 0).await;
    while ready < teams {
        let frame = again.frame().await;
        if frame["kind"] == "bootstrap" {
            assert_eq!(frame["status"], "done", "{frame}");
            ready += 1;
        }
    }
}

/// One person: says the next message when the last has its end, and waits for all that it led to.
async fn work(
    number: usize,
    load: Load,
    address: watch::Receiver<(String, String)>,
    count: Arc<AtomicUsize>,
) -> Told {
    let mut told = Told::new();
    let mut ended: HashMap<String, usize> = HashMap::new();
    let mut channel: Option<String> = None;
    let mut last_seq = 0;
    'connection: loop {
        let (url, token) = address.borrow().clone();
        let Ok(mut client) = Client::try_connect(&url, &token).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if let Some(channel) = &channel {
            client.resume(channel, last_seq).await;
        }
        let mut said = None;
        loop {
            let next = ended.len();
            if next < load.messages && said != Some(next) {
                // Said again after a crash under the same id, it is not done again.
                said = Some(next);
                let frame = message(number, next, load);
                client.try_send(frame).await;
            }
            if next == load.messages && told.len() == load.messages * load.each {
                // Nothing more may come.
                let more = tokio::time::timeout(Duration::from_millis(300), client.try_frame());
                match more.await {
                    Ok(Ok(frame)) => note(&frame, &mut told, &mut ended, &count),
                    Ok(Err(_)) => continue 'connection,
                    Err(_) => return told,
                }
                continue;
            }
            let Ok(frame) = client.try_frame().await else {
                continue 'connection;
            };
            if frame["code"] == "cannot_resume" {
                assert!(ended.is_empty(), "an acknowledged channel is gone");
                (channel, last_seq) = (None, 0);
                continue 'connection;
            }
            channel = client.channel.clone();
            last_seq = client.last_seq;
            note(&frame, &mut told, &mut ended, &count);
        }
    }
}

fn note(
    frame: &serde_json::Value,
    told: &mut Told,
    ended: &mut HashMap<String, usize>,
    count: &AtomicUsize,
) {
    match frame["type"].as_str() {
        Some("notification") => {
            assert_eq!(frame["status"], "done", "{frame}");
            let words = frame["content"].as_str().expect("words").to_owned();
            *told.entry(words).or_default() += 1;
            count.fetch_add(1, Ordering::SeqCst);
        }
        Some("response") => {
            let id = frame["message_id"].as_str().expect("an id").to_owned();
            *ended.entry(id).or_default() += 1;
        }
        Some("error") => panic!("{frame}"),
        _ => {}
    }
}

fn message(client: usize, number: usize, load: Load) -> serde_json::Value {
    let calls: Vec<String> = (0..load.each)
        .map(|piece| {
            let team = (client * 7 + number * load.each + piece) % load.teams;
            let task = json!({
                "team": format!("team-{team}"),
                "task": format!("#reply {client}-{number}-{piece}"),
                "overlap_policy": "allow",
            });
            format!("#call delegate_task {task}")
        })
        .collect();
    json!({
        "content": format!("{}\n#reply given", calls.join("\n")),
        "message_id": format!("m-{client}-{number}"),
    })
}

/// OR-76, OR-84, CH-155, SC-123: the short form; the long one is a scenario of the benches.
#[actix_web::test]
async fn delegations_under_kills_each_have_one_end() {
    let load = Load { teams: 8, clients: 3, messages: 10, each: 8, kills: 8 };

    let told = run(load).await;

    assert_eq!(told.len(), load.delegations(), "missing ends");
    let twice: Vec<_> = told.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "told twice: {twice:?}");
}
