//! Following the service: whatever happens to the connection or the process, who follows ends up with
//! what is.

use std::{collections::BTreeMap, pin::Pin};

use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt, future};
use serde_json::{Value, json};

use crate::service::{PATIENCE, Service, http};

/// An open stream of events.
pub(crate) struct Events {
    chunks: Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>,
    text: String,
    /// The id of the last event that was no gap.
    last: String,
}

impl Events {
    pub(crate) async fn open(service: &Service, last: Option<&str>) -> Self {
        let mut request =
            http().get(format!("{}/api/v1/events", service.url())).bearer_auth(service.token());
        if let Some(last) = last {
            request = request.header("Last-Event-ID", last);
        }
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        Self { chunks: Box::pin(response.bytes_stream()), text: String::new(), last: String::new() }
    }

    /// The next event with its id and kind; nothing when the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<(String, String, Value)> {
        loop {
            if let Some((whole, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = whole.lines();
                    lines.find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
                };
                let event = field("id: ").zip(field("event: ")).zip(field("data: "));
                self.text = rest.to_owned();
                match event {
                    Some(((id, kind), data)) => {
                        if kind != "gap" {
                            assert!(number(&id) > number(&self.last), "{id} after {}", self.last);
                            self.last.clone_from(&id);
                        }
                        return Some((id, kind, serde_json::from_str(&data).expect("JSON")));
                    }
                    None => continue,
                }
            }
            let chunk = self.chunks.next().await?.ok()?;
            self.text.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

/// The number of an event by its id.
fn number(id: &str) -> u64 {
    let number = id.split_once('-').map(|(_, number)| number.parse());
    number.map_or(0, |number| number.expect("a number"))
}

/// What a client knows: a snapshot, and what was told since.
#[derive(Debug, Default)]
struct Follower {
    boot: u64,
    seq: u64,
    /// The names of open topics.
    topics: BTreeMap<String, String>,
    /// Turns under way, with what they have said.
    running: BTreeMap<String, String>,
    gaps: Vec<String>,
    /// Something is missing that no gap has told of yet.
    misses: bool,
    applied: usize,
}

/// What a snapshot says, in the same form.
type State = (BTreeMap<String, String>, BTreeMap<String, String>);

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

fn state_of(snapshot: &Value) -> State {
    let list = |name: &str| snapshot[name].as_array().expect("a list").clone();
    let topics = list("topics");
    let topics = topics.iter().map(|row| (text(&row["id"]), text(&row["name"])));
    let running = list("running");
    let running = running.iter().map(|row| (text(&row["turn"]), text(&row["active_turn"]["text"])));
    (topics.collect(), running.collect())
}

impl Follower {
    fn id(&self) -> String {
        format!("{}-{}", self.boot, self.seq)
    }

    async fn begin_anew(&mut self, service: &Service) {
        let (status, answer) = service.api("GET", "/api/v1/snapshot", None).await;
        assert_eq!(status, 200, "{answer}");
        let snapshot = &answer["data"];
        (self.topics, self.running) = state_of(snapshot);
        self.boot = snapshot["boot"].as_u64().expect("a number");
        self.seq = snapshot["seq"].as_u64().expect("a number");
    }

    /// Takes in an event. What is in the snapshot already is left out; nothing else may be missing.
    async fn apply(&mut self, service: &Service, (id, kind, data): (String, String, Value)) {
        if kind == "gap" {
            self.gaps.push(text(&data["reason"]));
            self.misses = false;
            return self.begin_anew(service).await;
        }
        let (boot, seq) = id.split_once('-').expect("an id");
        assert_eq!(boot.parse(), Ok(self.boot), "an event of another process");
        let seq: u64 = seq.parse().expect("a number");
        if seq <= self.seq {
            // What the snapshot holds already; none is ever applied twice.
            return;
        }
        // Passing text may be missing; then a gap follows.
        self.misses |= seq > self.seq + 1;
        self.seq = seq;
        self.applied += 1;
        match kind.as_str() {
            "topic.changed" => {
                let id = text(&data["id"]);
                if data["state"] == "done" {
                    self.topics.remove(&id)
                } else {
                    self.topics.insert(id, text(&data["name"]))
                };
            }
            "turn" => self.apply_turn(&data),
            _ => {}
        }
    }

    fn apply_turn(&mut self, data: &Value) {
        let turn = text(&data["turn"]);
        match data["kind"].as_str().expect("a kind") {
            "turn_start" => {
                self.running.insert(turn, String::new());
            }
            "turn_end" => {
                self.running.remove(&turn);
            }
            "stream" if data["value"]["type"] == "text" => {
                let said = self.running.entry(turn).or_default();
                said.push_str(data["value"]["data"].as_str().expect("text"));
            }
            _ => {}
        }
    }

    /// Reads until it is as far as the service is now.
    async fn catch_up(&mut self, service: &Service, events: &mut Events) {
        let (_, answer) = service.api("GET", "/api/v1/snapshot", None).await;
        let number = |name: &str| answer["data"][name].as_u64().expect("a number");
        let (boot, goal) = (number("boot"), number("seq"));
        let read = async {
            while self.boot != boot || self.seq < goal || self.misses {
                let event = events.next().await.expect("the stream goes on");
                self.apply(service, event).await;
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("it catches up in time");
    }
}

/// Many conversations at once: so many messages by each of ten clients.
async fn flood(service: &Service, messages: usize) {
    let talks = (0..10).map(|number| async move {
        let mut client = service.connect().await;
        let words = format!("client {number} speaks of {}", "many things ".repeat(40));
        let topic = client.open_topic(&words).await;
        for message in 0..messages {
            let id = format!("m-{message}");
            client.say_in(&topic, &id, &words).await;
            client.end_of(&id).await;
        }
        if number % 2 == 0 {
            let path = format!("/api/v1/topics/{topic}");
            let body = json!({ "state": "done" });
            let (status, answer) = service.api("PATCH", &path, Some(body)).await;
            assert_eq!(status, 200, "{answer}");
        }
    });
    future::join_all(talks).await;
}

/// OP-42, OP-43, OP-44, OP-95
#[tokio::test]
async fn who_stalls_comes_back_and_outlives_a_restart_knows_what_is() {
    let mut service = Service::prepare()
        .with_file(
            "data/config/channels.yaml",
            "ws: {enabled: true}\nlimits: {rate: {ws: {per_minute: 0, burst: 1}}}\n",
        )
        .started()
        .await;
    let mut follower = Follower::default();
    follower.begin_anew(&service).await;
    let began = (follower.boot, follower.seq);

    // It reads while much happens.
    let mut events = Events::open(&service, Some(&follower.id())).await;
    flood(&service, 10).await;
    follower.catch_up(&service, &mut events).await;
    let (topics, running) = snapshot(&service).await;
    assert_eq!((&follower.topics, &follower.running), (&topics, &running));
    assert_eq!(topics.len(), 5);

    // It stalls, and then goes on reading.
    flood(&service, 40).await;
    follower.catch_up(&service, &mut events).await;
    assert_eq!((follower.topics.clone(), follower.running.clone()), snapshot(&service).await);

    // It is cut off, and comes back to where it was.
    drop(events);
    flood(&service, 10).await;
    let mut events = Events::open(&service, Some(&follower.id())).await;
    follower.catch_up(&service, &mut events).await;
    assert_eq!((follower.topics.clone(), follower.running.clone()), snapshot(&service).await);

    // It is away for longer than events are kept.
    drop(events);
    let away = follower.seq;
    while mark(&service).await < away + 10_100 {
        flood(&service, 60).await;
    }
    let mut events = Events::open(&service, Some(&follower.id())).await;
    follower.catch_up(&service, &mut events).await;
    assert_eq!(follower.gaps.last().map(String::as_str), Some("overflow"));
    assert_eq!((follower.topics.clone(), follower.running.clone()), snapshot(&service).await);

    // The service is killed and starts again.
    service.kill();
    service.launch().await;
    let mut events = Events::open(&service, Some(&follower.id())).await;
    flood(&service, 5).await;
    follower.catch_up(&service, &mut events).await;
    assert_eq!(follower.gaps.last().map(String::as_str), Some("restart"));
    assert_eq!(follower.boot, began.0 + 1);
    assert_eq!((follower.topics.clone(), follower.running.clone()), snapshot(&service).await);
    assert!(follower.applied > 0);
}

async fn snapshot(service: &Service) -> State {
    let (_, answer) = service.api("GET", "/api/v1/snapshot", None).await;
    state_of(&answer["data"])
}

async fn mark(service: &Service) -> u64 {
    let (_, answer) = service.api("GET", "/api/v1/snapshot", None).await;
    answer["data"]["seq"].as_u64().expect("a number")
}

/// OP-45: a turn can be drawn in its middle, and gone on with.
#[tokio::test]
async fn a_turn_under_way_is_shown_and_gone_on_with() {
    let service = Service::start_working().await;
    let mut client = service.connect().await;
    client
        .send(json!({ "content": "#say I begin.\n#call bash {\"command\":\"sleep 3\"}\n#reply I am done." }))
        .await;
    let calls = |snapshot: &Value| {
        snapshot["running"][0]["active_turn"]["toolCalls"][0]["status"] == "running"
    };
    let turn = service.until("/api/v1/snapshot", calls).await["running"][0].take();
    let topic = text(&turn["topic_id"]);
    let live = service.api("GET", &format!("/api/v1/topics/{topic}/live"), None).await;
    let id = format!("{}-{}", turn["boot"], turn["seq"]);
    let mut events = Events::open(&service, Some(&id)).await;

    client.terminal().await;
    let mut said = text(&turn["active_turn"]["text"]);
    let end = async {
        loop {
            let (_, kind, data) = events.next().await.expect("the stream goes on");
            if kind != "turn" {
                continue;
            }
            match data["kind"].as_str() {
                Some("stream") if data["value"]["type"] == "text" => {
                    said.push_str(data["value"]["data"].as_str().expect("text"));
                }
                Some("turn_end") => return data,
                _ => {}
            }
        }
    };
    let end = tokio::time::timeout(PATIENCE, end).await.expect("an end");

    assert_eq!(turn["active_turn"]["toolCalls"][0]["name"], "bash");
    assert_eq!(live.1["data"]["turn"], turn["turn"]);
    assert_eq!(end["outcome"], "done");
    assert!(said.ends_with("I am done."), "{said}");
    let (_, over) = service.api("GET", &format!("/api/v1/topics/{topic}/live"), None).await;
    assert_eq!(over["data"], Value::Null);
}
