//! What the service shows of messages, against what those who said them know.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, Mutex},
};

use serde_json::Value;

use crate::service::Service;

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
}

/// A message that was answered, as a task and a session should show it.
#[derive(Clone, Debug)]
struct Ended {
    task: String,
    session: String,
    said: String,
    answer: String,
}

impl Known {
    /// A message has no end from now on.
    pub(crate) fn said(&self, id: &str) {
        self.0.lock().unwrap().open.insert(id.to_owned());
    }

    /// A message has this end.
    pub(crate) fn ended(&self, id: &str, said: &str, end: &Value) {
        let mut messages = self.0.lock().unwrap();
        let text = |field: &str| end[field].as_str().unwrap_or_default().to_owned();
        // One that was told twice is a fault of its own, which its ledger finds.
        if messages.open.remove(id) {
            messages.ended.push(Ended {
                task: text("task_id"),
                session: format!("main:{}", text("topic_id")),
                said: said.to_owned(),
                answer: text("content"),
            });
        }
    }

    /// How many messages have an end.
    pub(crate) fn count_ended(&self) -> usize {
        self.0.lock().unwrap().ended.len()
    }

    /// The messages that have no end yet.
    pub(crate) fn open(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().open.clone()
    }

    fn ended_behind(&self, first: usize) -> Vec<Ended> {
        self.0.lock().unwrap().ended[first..].to_vec()
    }
}

/// What lists and histories have shown so far. Each look goes on where the one before it ended.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// How many messages were looked for.
    looked: usize,
    /// The last event that was read of each session.
    read: HashMap<String, u64>,
    /// How often something was said: session, role, words.
    times: HashMap<(String, String, String), usize>,
}

impl Shown {
    /// Each message that ended since the last look is in the list of tasks and, with its answer, in the
    /// history of its session: once. Tells how many tasks it saw.
    pub(crate) async fn look(&mut self, service: &Service, known: &Known) -> usize {
        let ended = known.ended_behind(self.looked);
        self.looked += ended.len();
        let tasks = ended.iter().map(|message| message.task.as_str()).collect();
        let listed = listed(service, tasks).await;
        let sessions: BTreeSet<_> = ended.iter().map(|message| &message.session).collect();
        for session in sessions {
            self.read_on(service, session).await;
        }
        for Ended { session, said, answer, .. } in &ended {
            for (role, words) in [("user", said), ("assistant", answer)] {
                let line = (session.clone(), role.to_owned(), words.clone());
                let times = self.times.get(&line).copied().unwrap_or_default();
                assert_eq!(times, 1, "times that {line:?} is in its history");
            }
        }
        listed
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

/// Pages through the tasks, newest first, until all of these were seen. Tells how many there were.
async fn listed(service: &Service, mut wanted: BTreeSet<&str>) -> usize {
    let (mut seen, mut cursor) = (BTreeSet::new(), String::new());
    while !wanted.is_empty() {
        let path = format!("/api/v1/tasks?limit={MOST}{cursor}");
        let (status, page) = service.api("GET", &path, None).await;
        assert_eq!(status, 200, "{path}: {page}");
        for row in page["data"].as_array().expect("tasks") {
            let id = row["id"].as_str().expect("an id");
            assert!(seen.insert(id.to_owned()), "{id} is listed twice");
            if wanted.remove(id) {
                assert_eq!(row["state"], "done", "{row}");
            }
        }
        let Some(next) = page["next_cursor"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(wanted, BTreeSet::new(), "tasks that are not listed");
    seen.len()
}

/// When nobody talks any more: all messages are shown, each once, and nothing else is.
pub(crate) async fn nothing_else(service: &Service, known: &Known) {
    let mut shown = Shown::default();
    let listed = shown.look(service, known).await;
    let said = shown.times.iter().filter(|((_, role, _), _)| role == "user");
    let said: usize = said.map(|(_, times)| times).sum();
    assert_eq!((listed, said), (shown.looked, shown.looked));
}
