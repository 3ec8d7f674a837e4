//! Two people, one organisation: no word of one reaches the other, whatever their teams have in common.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::{Client, Service, http},
};

/// Who they are, and the word that only they say.
const PEOPLE: [(&str, &str); 2] = [("ann", "quince"), ("bob", "walrus")];
/// Messages of each …
const MESSAGES: usize = 200;
/// … in so many topics, with one under way in each.
const TOPICS: usize = 4;
/// How often the process is killed meanwhile.
const KILLS: usize = 3;
/// Pieces of work that end in a notification, of each five messages.
const NOTIFIED: usize = 3;

const CHANNELS: &str = r#"
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
"#;

/// What one person says: the same kinds of work for the same teams.
fn words(word: &str, number: usize) -> String {
    let what = ["give", "wake", "ask", "deep", "quiet"][number % 5];
    format!("{what} {word}-{number}")
}

/// What a model answers, decided from the newest words that it is given.
fn actor(request: &Value) -> Reply {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    let is_answered = messages.last().is_some_and(|last| {
        let parts = last["content"].as_array();
        parts.is_some_and(|parts| parts.iter().any(|part| part["type"] == "tool_result"))
    });
    let said = messages.iter().rev().filter(|one| one["role"] == "user");
    let said = said.map(text).find(|text| !text.trim().is_empty());
    let said = said.unwrap_or_default();
    let order = said.rsplit("--- End ---").next().unwrap_or_default().trim();
    let canary = order
        .split(|letter: char| !letter.is_alphanumeric() && letter != '-')
        .find(|part| PEOPLE.iter().any(|(_, word)| part.starts_with(&format!("{word}-"))))
        .unwrap_or("nothing");
    let step = |tool: &str, args: Value| {
        if is_answered { Reply::text(&format!("begun {canary}")) } else { Reply::call(tool, args) }
    };
    let give = |team: &str, task: &str, on_result: &str| {
        let args = json!({
            "team": team,
            "task": format!("{task} {canary}"),
            "overlap_policy": "allow",
            "on_result": on_result,
        });
        step("delegate_task", args)
    };
    match order.split_whitespace().next().unwrap_or_default() {
        "give" => give("left", "work on", "notify"),
        "wake" => give("right", "work on", "wake"),
        "quiet" => give("right", "work on", "silent"),
        "deep" => give("middle", "pass on", "notify"),
        "pass" => give("leaf", "work on", "silent"),
        "ask" => {
            step("query_team", json!({ "team": "left", "query": format!("work on {canary}") }))
        }
        "work" => Reply::text(&format!("worked on {canary}")),
        _ => Reply::text(&format!("noted {canary}")),
    }
}

/// Everything that one person hears while they say all they have to say.
async fn talk(
    word: &'static str,
    token: String,
    address: watch::Receiver<String>,
    ended: Arc<AtomicUsize>,
) -> Vec<Value> {
    let mut frames: Vec<Value> = Vec::new();
    let mut topics: BTreeMap<usize, String> = BTreeMap::new();
    let mut ends: BTreeSet<usize> = BTreeSet::new();
    let (mut channel, mut last_seq, mut told) = (None::<String>, 0, 0);
    'connection: loop {
        let url = address.borrow().clone();
        let Ok(mut client) = Client::try_connect(&url, &token).await else {
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        if let Some(channel) = &channel {
            client.resume(channel, last_seq).await;
        }
        // Said again after a crash under the same id, it is not done again.
        let mut said = ends.clone();
        loop {
            let opening = topics.len() < TOPICS;
            let wanted = if opening { topics.len()..topics.len() + 1 } else { 0..MESSAGES };
            let busy: BTreeSet<usize> = said.difference(&ends).map(|one| one % TOPICS).collect();
            let next = wanted
                .filter(|one| !said.contains(one))
                .find(|one| !busy.contains(&(one % TOPICS)));
            if let Some(number) = next {
                let id = format!("m-{number}");
                let frame = match topics.get(&(number % TOPICS)) {
                    Some(topic) => {
                        json!({"content": words(word, number), "message_id": id, "topic_id": topic})
                    }
                    None => json!({
                        "content": format!("/new {}", words(word, number)), "message_id": id,
                    }),
                };
                said.insert(number);
                client.try_send(frame).await;
                continue;
            }
            if ends.len() == MESSAGES && told == MESSAGES / 5 * NOTIFIED {
                return frames;
            }
            let Ok(frame) = client.try_frame().await else {
                continue 'connection;
            };
            if frame["code"] == "cannot_resume" {
                assert!(ends.is_empty(), "an acknowledged channel is gone");
                (channel, last_seq) = (None, 0);
                continue 'connection;
            }
            channel.clone_from(&client.channel);
            last_seq = client.last_seq;
            match frame["type"].as_str() {
                Some("response") => {
                    let id = frame["message_id"].as_str().unwrap_or_default();
                    let number: usize = id.trim_start_matches("m-").parse().unwrap();
                    ends.insert(number);
                    let topic = frame["topic_id"].as_str().unwrap().to_owned();
                    topics.entry(number % TOPICS).or_insert(topic);
                    ended.fetch_add(1, Ordering::SeqCst);
                }
                Some("notification") => told += 1,
                Some("error") => panic!("{frame}"),
                _ => {}
            }
            frames.push(frame);
        }
    }
}

/// Both words are in a text.
fn mixes(text: &[u8]) -> bool {
    let holds = |word: &str| {
        let word = word.as_bytes();
        text.windows(word.len()).any(|window| window == word)
    };
    PEOPLE.iter().all(|(_, word)| holds(word))
}

/// The number of messages that are quoted in a prompt.
fn quoted(text: &str) -> usize {
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
    let canaries = words.filter(|part| PEOPLE.iter().any(|(_, word)| part.starts_with(word)));
    canaries.collect::<BTreeSet<_>>().len()
}

/// That no session of the main team holds words of both.
async fn no_history_mixes(service: &Service) {
    let (_, sessions) = service.api("GET", "/api/v1/sessions?limit=200", None).await;
    for session in sessions["data"].as_array().unwrap() {
        let id = session["id"].as_str().unwrap();
        // A session of the main team is a topic of one person; another team's is the operator's to read.
        if id.starts_with("main:t-") {
            let path = format!("/api/v1/sessions/{id}/history?limit=200");
            let (status, history) = service.api("GET", &path, None).await;
            assert_eq!(status, 200, "{history}");
            assert!(!mixes(history.to_string().as_bytes()), "{id}: {history}");
        }
    }
}

/// CH-151, SE-41: with tokens of their own, delegations and queries to the same teams, and restarts in
/// between.
#[actix_web::test]
async fn no_word_of_one_person_is_in_a_prompt_frame_or_history_of_another() {
    let model = FakeModel::start();
    model.answer_with(actor);
    let profile = format!(
        "profiles:\n  default: {{provider: anthropic, api_url: '{}', api_key: {KEY}, model: m}}\n",
        model.url()
    );
    let mut service = Service::prepare()
        .with_file("data/config/channels.yaml", CHANNELS)
        .with_file("data/config/providers.yaml", &profile)
        .started()
        .await;
    for team in ["left", "right", "middle"] {
        service.make_team(team, "works").await;
    }
    let leaf = json!({
        "name": "leaf", "parent": "middle", "description": "works", "scope_accepts": ["leaf"],
    });
    let (status, made) = service.api("POST", "/api/v1/teams", Some(leaf)).await;
    assert_eq!(status, 201, "{made}");
    let mut tokens = Vec::new();
    for (name, _) in PEOPLE {
        let wish = json!({ "name": name, "scopes": ["chat"] });
        let (status, made) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
        assert_eq!(status, 201, "{made}");
        tokens.push(made["data"]["token"].as_str().unwrap().to_owned());
    }
    let (announce, address) = watch::channel(service.url());
    let ended = Arc::new(AtomicUsize::new(0));
    let people: Vec<_> = PEOPLE
        .iter()
        .zip(&tokens)
        .map(|((_, word), token)| {
            let talking = talk(word, token.clone(), address.clone(), ended.clone());
            actix_web::rt::spawn(talking)
        })
        .collect();

    for kill in 1..=KILLS {
        let goal = PEOPLE.len() * MESSAGES * kill / (KILLS + 1);
        while ended.load(Ordering::SeqCst) < goal && !people.iter().all(|one| one.is_finished()) {
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        service.kill();
        service.launch().await;
        announce.send_replace(service.url());
    }
    let mut heard = Vec::new();
    for person in people {
        heard.push(person.await.expect("a person"));
    }

    for ((name, _), (frames, (_, other))) in
        PEOPLE.iter().zip(heard.iter().zip(PEOPLE.iter().rev()))
    {
        let foreign = frames.iter().find(|frame| frame.to_string().contains(other));
        assert_eq!(foreign, None, "{name} hears of `{other}`");
    }
    let requests = model.requests();
    let mixed = requests.iter().find(|request| mixes(&request.bytes));
    let mixed = mixed.map(|request| String::from_utf8_lossy(&request.bytes));
    assert_eq!(mixed, None, "a prompt holds words of both");
    // What was said in the same topic is there, so that this proves something.
    let own = requests.iter().filter(|request| {
        let text = String::from_utf8_lossy(&request.bytes);
        quoted(&text) > 1
    });
    assert!(own.count() > MESSAGES, "conversations are empty");
    no_history_mixes(&service).await;
    for path in ["/api/v1/sessions", "/api/v1/tasks", "/api/v1/topics", "/api/v1/channels"] {
        let url = format!("{}{path}", service.url());
        let answer = http().get(url).bearer_auth(&tokens[0]).send().await;
        assert_eq!(answer.expect("an answer").status(), 403, "{path}");
    }
}
