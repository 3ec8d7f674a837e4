//! What the service shows of messages, against what those who said them know.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};

use crate::{service::Service, transcripts};

/// The most rows of a page.
const MOST: usize = 200;

/// What all who talk know together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Arc<Mutex<Messages>>);

#[derive(Debug, Default)]
struct Messages {
    /// Those that were said and have no end yet, by their ids.
    open: BTreeSet<String>,
    /// Those that have one.
    ended: Vec<Ended>,
    /// Runs of a trigger that have one.
    ran: Vec<Ran>,
}

/// A message that was answered, as a task and a session should show it.
#[derive(Clone, Debug)]
struct Ended {
    task: String,
    topic: String,
    said: String,
    answer: String,
}

/// A run of a trigger, and its task.
#[derive(Clone, Debug)]
struct Ran {
    run: String,
    task: String,
}

impl Known {
    /// A message has no end from now on.
    pub(crate) fn said(&self, id: &str) {
        self.0.lock().unwrap().open.insert(id.to_owned());
    }

    /// Nobody knows whether it was heard, and nobody asks again.
    pub(crate) fn unsaid(&self, id: &str) {
        self.0.lock().unwrap().open.remove(id);
    }

    /// A message has this end.
    pub(crate) fn ended(&self, id: &str, said: &str, end: &Value) {
        let mut messages = self.0.lock().unwrap();
        let text = |field: &str| end[field].as_str().unwrap_or_default().to_owned();
        // One that was told twice is a fault of its own, which its ledger finds.
        if messages.open.remove(id) {
            messages.ended.push(Ended {
                task: text("task_id"),
                topic: text("topic_id"),
                said: said.to_owned(),
                answer: text("content"),
            });
        }
    }

    /// What was said under this id was a run, which has ended.
    pub(crate) fn ran(&self, id: &str, run: &Value, task: &Value) {
        let mut messages = self.0.lock().unwrap();
        let text = |id: &Value| id.as_str().expect("an id").to_owned();
        messages.open.remove(id);
        messages.ran.push(Ran { run: text(run), task: text(task) });
    }

    /// How many messages have an end.
    pub(crate) fn count_ended(&self) -> usize {
        self.0.lock().unwrap().ended.len()
    }

    /// How many runs have an end.
    pub(crate) fn count_ran(&self) -> usize {
        self.0.lock().unwrap().ran.len()
    }

    /// The messages that have no end yet.
    pub(crate) fn open(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().open.clone()
    }

    fn behind(&self, (ended, ran): (usize, usize)) -> (Vec<Ended>, Vec<Ran>) {
        let messages = self.0.lock().unwrap();
        (messages.ended[ended..].to_vec(), messages.ran[ran..].to_vec())
    }
}

/// What lists, searches and histories have shown so far. Each look goes on where the one before it ended.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// The trigger whose runs are looked for.
    trigger: String,
    /// How many messages were looked for, and how many runs.
    looked: (usize, usize),
    /// The last event that was read of each session.
    read: HashMap<String, u64>,
    /// How often something was said: session, role, words.
    times: HashMap<(String, String, String), usize>,
}

impl Shown {
    pub(crate) fn new(trigger: &str) -> Self {
        Self { trigger: trigger.to_owned(), ..Self::default() }
    }

    /// Each message that ended since the last look is in the list of tasks, is found by its words, and stands with its answer
    /// in the history of its session; each run is in the list of runs: once.
    pub(crate) async fn look(&mut self, service: &Service, known: &Known) {
        self.look_at(service, known, Until::Found).await;
    }

    /// The same, and to the end also what stands in topics. Tells how many messages tasks, topics and a search showed, and
    /// how many runs there were.
    async fn look_at(&mut self, service: &Service, known: &Known, until: Until) -> [usize; 4] {
        let (ended, ran) = known.behind(self.looked);
        self.looked.0 += ended.len();
        self.looked.1 += ran.len();
        let of_messages: BTreeSet<_> = ended.iter().map(|it| it.task.as_str()).collect();
        let of_runs = ran.iter().map(|it| it.task.as_str());

        let tasks = of_messages.iter().copied().chain(of_runs).collect();
        let tasks = paged(service, "/api/v1/tasks?", "id", tasks, until).await;
        for Ended { task, .. } in &ended {
            assert_eq!(tasks[task]["state"], "done", "{}", tasks[task]);
        }
        let chats = tasks.values().filter(|task| task["type"] == "chat").count();

        let found = paged(service, "/api/v1/search?q=hello&", "task_id", of_messages, until).await;

        let mut said = 0;
        let topics: BTreeSet<_> = ended.iter().map(|message| message.topic.as_str()).collect();
        for topic in topics {
            self.read_on(service, &session(topic)).await;
            // It takes long while they talk.
            if until == Until::End {
                said += in_topic(service, topic, &ended).await;
            }
        }
        for Ended { topic, said, answer, .. } in &ended {
            for (role, words) in [("user", said), ("assistant", answer)] {
                let line = (session(topic), role.to_owned(), words.clone());
                let times = self.times.get(&line).copied().unwrap_or_default();
                assert_eq!(times, 1, "times that {line:?} is in its history");
            }
        }

        let runs: BTreeSet<_> = ran.iter().map(|it| it.run.as_str()).collect();
        let path = format!("{}/runs?", self.trigger);
        let runs = paged(service, &path, "id", runs, until).await;
        for Ran { run, task } in &ran {
            let row = &runs[run];
            assert_eq!((&row["task_id"], &row["outcome"]), (&json!(task), &json!("ok")), "{row}");
        }
        [chats, said, found.len(), runs.len()]
    }

    async fn read_on(&mut self, service: &Service, session: &str) {
        let after = self.read.entry(session.to_owned()).or_default();
        loop {
            let path = format!("/api/v1/sessions/{session}/history?limit={MOST}&after={after}");
            let (status, page) = service.api("GET", &path, None).await;
            assert_eq!(status, 200, "{path}: {page}");
            let lines = page["data"].as_array().expect("messages");
            // One that is pending comes again, under its number.
            for line in lines.iter().filter(|line| line["pending"] != true) {
                let blocks = line["content"].as_array().expect("content").iter();
                let words = blocks.filter_map(|block| block["text"].as_str()).collect();
                let role = line["role"].as_str().expect("a role").to_owned();
                *self.times.entry((session.to_owned(), role, words)).or_default() += 1;
            }
            *after = page["next_after"].as_u64().expect("a number");
            // Not until there is nothing new: they may talk faster than this reads.
            if lines.len() < MOST {
                return;
            }
        }
    }
}

fn session(topic: &str) -> String {
    format!("main:{topic}")
}

/// All messages of a topic stand in it with their ends: once. Tells how many it saw.
async fn in_topic(service: &Service, topic: &str, ended: &[Ended]) -> usize {
    let of_topic = ended.iter().filter(|message| message.topic == topic);
    let wanted = of_topic.clone().map(|message| message.task.as_str()).collect();
    let path = format!("/api/v1/me/topics/{topic}/messages?");
    let items = paged(service, &path, "task_id", wanted, Until::End).await;
    for message in of_topic {
        let item = &items[&message.task];
        assert_eq!(item["text"], message.said, "{item}");
        assert!(!item["end"].is_null(), "{item}");
    }
    items.len()
}

/// How far a list is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Until {
    /// Until all that is looked for was seen.
    Found,
    End,
}

/// Pages through a list, newest first: what is wanted is there, by the field that names it, and nothing of the list comes
/// twice. Tells all that was seen, by that field.
async fn paged(
    service: &Service,
    list: &str,
    name: &str,
    mut wanted: BTreeSet<&str>,
    until: Until,
) -> BTreeMap<String, Value> {
    let (mut seen, mut cursor) = (BTreeMap::new(), String::new());
    while until == Until::End || !wanted.is_empty() {
        // A few have come since, if they still talk.
        let limit = if until == Until::End { MOST } else { MOST.min(wanted.len() + 10) };
        let path = format!("{list}limit={limit}{cursor}");
        let (status, mut page) = service.api("GET", &path, None).await;
        assert_eq!(status, 200, "{path}: {page}");
        if page["incomplete"] == true {
            // A search waits for the archive no longer than some seconds.
            continue;
        }
        for row in std::mem::take(page["data"].as_array_mut().expect("rows")) {
            let name = row[name].as_str().expect("a name").to_owned();
            wanted.remove(&*name);
            let before = seen.insert(name, row);
            assert_eq!(before, None, "it is in {list} twice");
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(wanted, BTreeSet::new(), "what is not in {list}");
    seen
}

/// When nobody talks any more: all messages are shown, each once, and nothing else is. Runs may be more than were
/// acknowledged.
pub(crate) async fn nothing_else(service: &Service, trigger: &str, known: &Known) {
    let mut shown = Shown::new(trigger);
    let [tasks, said, found, runs] = shown.look_at(service, known, Until::End).await;
    let in_histories = shown.times.iter().filter(|((_, role, _), _)| role == "user");
    let in_histories: usize = in_histories.map(|(_, times)| times).sum();
    let (messages, ran) = shown.looked;
    assert_eq!([tasks, said, found, in_histories], [messages; 4]);
    assert!(runs >= ran, "{runs} of {ran} runs");
    transcripts::until_all_complete(service).await;
}
