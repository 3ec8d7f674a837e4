//! The promise that nothing accepted is lost or done twice, under a real `kill -9` at random moments.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    archiving::{self, Cuts, Moment},
    service::{Client, Service, rounds},
    shown::{self, Known, Shown},
};

/// How often the service is killed, unless `HIVEWRIGHT_ROUNDS` says so.
const ROUNDS: usize = 40;
/// Who talks to it meanwhile.
const CLIENTS: usize = 8;
/// It is killed within so many milliseconds of its start, and now and then within more: archiving waits half a second for
/// what gathers.
const SHORT: u64 = 120;
const LONG: u64 = 1_200;
/// Messages that each of them keeps under way.
const UNDER_WAY: usize = 3;

pub(crate) const TEAM: &str = r#"
max_steps: 20
allowed_tools: ["@files", "@shell"]
"#;

pub(crate) const CHANNELS: &str = r#"
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
"#;

/// What one client knows of its messages.
#[derive(Default)]
pub(crate) struct Ledger {
    /// What was said, by message id.
    said: BTreeMap<String, String>,
    acks: HashMap<String, usize>,
    ends: HashMap<String, Vec<Value>>,
    /// All frames about a message.
    heard: HashMap<String, Vec<Value>>,
}

impl Ledger {
    /// Each message was acknowledged and answered, once. Tells how many there were.
    pub(crate) fn check(&self) -> usize {
        for end in self.ends() {
            assert_eq!(end["type"], "response", "{end}");
        }
        self.said.len()
    }

    /// The ends of all messages. Each was acknowledged once and has one.
    pub(crate) fn ends(&self) -> Vec<&Value> {
        let end = |(id, content): (&String, &String)| {
            let ends = self.ends.get(id).map_or(&[][..], Vec::as_slice);
            assert_eq!(ends.len(), 1, "ends of {id} ({content}): {ends:?}");
            assert_eq!(self.acks.get(id), Some(&1), "acks of {id}: {:#?}", self.heard.get(id));
            &ends[0]
        };
        self.said.iter().map(end).collect()
    }
}

/// Nothing that messages asked for happened more than once.
pub(crate) fn no_effect_is_repeated(service: &Service) {
    let effects = std::fs::read_to_string(service.path("run/teams/main/effects/log")).unwrap();
    let mut times: HashMap<&str, usize> = HashMap::new();
    for line in effects.lines() {
        *times.entry(line).or_default() += 1;
    }
    let repeated: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
    assert_eq!(repeated, [], "effects that happened more than once");
}

/// A message of one of four kinds: talk, one effect, two effects in a row, a file. A search for `hello` finds each task once.
fn message(name: &str, kind: usize) -> String {
    let effect = |step: &str| {
        let command = format!("echo {name}-{step} >> effects/log");
        format!("#call bash {}", json!({ "command": command }))
    };
    let file = json!({ "file_path": format!("files/{name}"), "content": name });
    match kind % 4 {
        0 => format!("hello from {name}"),
        1 => format!("{}\n#reply hello from {name}", effect("only")),
        2 => format!("{}\n#then\n{}\n#reply hello from {name}", effect("first"), effect("second")),
        _ => format!("#call write {file}\n#reply hello from {name}"),
    }
}

/// Talks until told to stop, then until everything it said has its end.
pub(crate) async fn talk(
    number: usize,
    address: watch::Receiver<(String, String)>,
    stop: Arc<AtomicBool>,
    known: Known,
) -> Ledger {
    let mut ledger = Ledger::default();
    let mut channel: Option<String> = None;
    let mut last_seq = 0;
    loop {
        let (url, token) = address.borrow().clone();
        let Ok(mut client) = Client::try_connect(&url, &token).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        match &channel {
            Some(channel) => client.resume(channel, last_seq).await,
            // What is said from here on may be heard without a word of it.
            None => channel.clone_from(&client.channel),
        }
        // Nobody knows whether these were heard: the same id makes saying them again harmless.
        let unheard: Vec<_> = ledger
            .said
            .iter()
            .filter(|(id, _)| !ledger.acks.contains_key(*id) && !ledger.ends.contains_key(*id))
            .map(|(id, content)| json!({ "content": content, "message_id": id }))
            .collect();
        for frame in unheard {
            client.try_send(frame).await;
        }
        loop {
            let open = ledger.said.len() - ledger.ends.len();
            if stop.load(Ordering::SeqCst) {
                if open == 0 {
                    return ledger;
                }
            } else if open < UNDER_WAY {
                let id = format!("c{number}-{}", ledger.said.len());
                let content = message(&id, ledger.said.len());
                ledger.said.insert(id.clone(), content.clone());
                known.said(&id);
                client.try_send(json!({ "content": content, "message_id": id })).await;
                continue;
            }
            let Ok(frame) = client.try_frame().await else {
                break;
            };
            if frame["code"] == "cannot_resume" {
                // The channel was never stored: none of its messages had been acknowledged. What was
                // said again behind the question is heard in the channel of this connection.
                assert!(ledger.acks.is_empty(), "an acknowledged channel is gone");
            }
            let id = frame["message_id"].as_str().unwrap_or_default().to_owned();
            if !id.is_empty() {
                ledger.heard.entry(id.clone()).or_default().push(frame.clone());
            }
            match frame["type"].as_str() {
                Some("ack") if frame["duplicate"] != true => {
                    *ledger.acks.entry(id).or_default() += 1;
                }
                Some("response" | "error") if !id.is_empty() => {
                    let said = ledger.said.get(&id).map_or("", String::as_str);
                    known.ended(&id, said, &frame);
                    ledger.ends.entry(id).or_default().push(frame.clone());
                }
                _ => {}
            }
            channel.clone_from(&client.channel);
            last_seq = client.last_seq;
        }
    }
}

/// CH-80, SE-144 to SE-148, SC-104
#[actix::test]
async fn nothing_acknowledged_is_lost_or_done_twice_when_the_process_is_killed() {
    let mut service = Service::prepare()
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("run/teams/main/config.yaml", TEAM)
        .with_file("run/teams/main/effects/log", "")
        .started()
        .await;
    let (tell, address) = watch::channel((service.url(), service.token()));
    let stop = Arc::new(AtomicBool::new(false));
    let known = Known::default();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| actix::spawn(talk(number, address.clone(), stop.clone(), known.clone())))
        .collect();
    let trigger = archiving::trigger(&service).await;
    let (searching, firing) = archiving::keep_busy(&trigger, &address, &stop, &known);

    let seed = Mutex::new(std::process::id() as u64 | 1);
    let random = |below: u64| {
        let mut state = seed.lock().unwrap();
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state % below
    };
    // What was open at the last kill, and at the one before.
    let (mut cut_once, mut cut_twice) = (BTreeSet::new(), BTreeSet::new());
    let (mut shown, mut cuts) = (Shown::new(&trigger), Cuts::default());
    for round in 0..rounds(ROUNDS) {
        // A task has three attempts. What was cut off twice has its third now, which nothing disturbs.
        let undisturbed = async {
            while !known.open().is_disjoint(&cut_twice) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), undisturbed)
            .await
            .expect("every message ends");
        // Not each time: a kill soon after the start is wanted too.
        if random(5) == 0 {
            shown.look(&service, &known).await;
        }
        let window = if random(8) == 0 { LONG } else { SHORT };
        tokio::time::sleep(Duration::from_millis(random(window))).await;
        cuts.cut(&mut service, Moment::of(round), Service::kill).await;
        cut_twice = std::mem::replace(&mut cut_once, known.open())
            .intersection(&cut_once)
            .cloned()
            .collect();
        service.launch().await;
        tell.send_replace((service.url(), service.token()));
    }
    stop.store(true, Ordering::SeqCst);

    let mut said = 0;
    for client in clients {
        let ledger = tokio::time::timeout(Duration::from_secs(120), client)
            .await
            .expect("every message ends")
            .unwrap();
        said += ledger.check();
    }
    let searches = searching.await.unwrap();
    firing.await.unwrap();
    shown::nothing_else(&service, &trigger, &known).await;
    no_effect_is_repeated(&service);
    let found = cuts.found().await;
    println!("{said} messages, {} runs, {searches} searches, {found:?}", known.count_ran());
    assert!(searches > 0 && known.count_ran() > 0, "nothing was searched for, or no trigger ran");
    found.check();
}
