//! The chat story: a team is asked for, set up, given work, asked about and shut down, in one
//! conversation that survives a `kill -9` between any two of its steps.

use serde_json::{Value, json};

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::{Client, Service},
};

/// Nobody else is asked about topics, and messages come as fast as they like.
const CHANNELS: &str = r#"
ws: {enabled: true}
limits: {rate: {ws: {per_minute: 0, burst: 1}}}
topics: {model: never}
"#;

/// What happens in the story, in order.
const STEPS: usize = 7;

/// One telling of the story.
struct Story {
    service: Service,
    client: Client,
    channel: String,
    topic: Option<String>,
    /// Every notification, in order.
    told: Vec<Value>,
    /// Every end of a message.
    ends: Vec<Value>,
}

impl Story {
    async fn begin(service: Service) -> Self {
        let client = service.connect().await;
        let channel = client.channel.clone().expect("a channel");
        Self { service, client, channel, topic: None, told: Vec::new(), ends: Vec::new() }
    }

    /// The process is killed and started again; the client comes back to its channel.
    async fn kill(&mut self) {
        let last_seq = self.client.last_seq;
        self.service.kill();
        self.service.launch().await;
        self.client = self.service.connect().await;
        self.client.resume(&self.channel, last_seq).await;
    }

    async fn say(&mut self, id: &str, content: &str) {
        let mut frame = json!({ "content": content, "message_id": id });
        if let Some(topic) = &self.topic {
            frame["topic_id"] = json!(topic);
        }
        self.client.send(frame).await;
    }

    /// Takes in frames until one fits.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.client.frame().await;
            match frame["type"].as_str() {
                Some("notification") => self.told.push(frame.clone()),
                Some("response" | "error") => self.ends.push(frame.clone()),
                _ => {}
            }
            if fits(&frame) {
                return frame;
            }
        }
    }

    async fn end_of(&mut self, id: &str) -> String {
        let end = self
            .until(|frame| {
                frame["message_id"] == id
                    && (frame["type"] == "response" || frame["type"] == "error")
            })
            .await;
        assert_eq!(end["type"], "response", "{end}\n{}", self.service.log());
        if self.topic.is_none() {
            self.topic = end["topic_id"].as_str().map(ToOwned::to_owned);
        }
        end["content"].as_str().expect("words").to_owned()
    }

    /// A notification of a kind from a team, which may have come already.
    async fn hear(&mut self, kind: &str, team: &str) -> Value {
        let fits = |frame: &Value| {
            frame["type"] == "notification" && frame["kind"] == kind && frame["team"] == team
        };
        match self.told.iter().find(|frame| fits(frame)) {
            Some(frame) => frame.clone(),
            None => self.until(fits).await,
        }
    }

    /// Approves what a team asks for.
    async fn approve(&mut self, id: &str, tool: &str) {
        let card = self
            .until_card(|frame| frame["content"].as_str().is_some_and(|text| text.contains(tool)))
            .await;
        let (_, approval) =
            self.service.api("GET", &format!("/api/v1/approvals/{card}"), None).await;
        let short = approval["data"]["short_id"].as_str().expect("a short id");
        let command = format!("/approve {short}");
        self.say(id, &command).await;
        self.end_of(id).await;
    }

    async fn until_card(&mut self, fits: impl Fn(&Value) -> bool) -> String {
        let card = |frame: &Value| frame["kind"] == "approval" && fits(frame);
        let known = self.told.iter().find(|frame| card(frame)).cloned();
        let frame = match known {
            Some(frame) => frame,
            None => self.until(card).await,
        };
        frame["ref_id"].as_str().expect("an approval").to_owned()
    }

    async fn step(&mut self, number: usize) {
        match number {
            0 => {
                self.say("m0", "create team research: finds things out").await;
                self.end_of("m0").await;
            }
            1 => {
                let ready = self.hear("bootstrap", "research").await;
                assert_eq!(ready["content"], "[research] Team is ready.");
                assert_eq!(ready["topic_id"].as_str(), self.topic.as_deref());
            }
            2 => {
                let reader = json!({
                    "name": "reader",
                    "description": "reads things",
                    "scope_accepts": ["reading"],
                    "init_context": "reads things",
                });
                let task = format!("#call spawn_team {reader}\n#reply The reader is asked for.");
                self.say("m2", &format!("delegate research: {task}")).await;
                self.end_of("m2").await;
                self.approve("m2-yes", "spawn_team").await;
            }
            3 => {
                self.hear("bootstrap", "reader").await;
            }
            4 => {
                let question = json!({ "team": "reader", "task": "#reply It is 42." });
                let task = format!("#call delegate_task {question}\n#reply The reader is on it.");
                self.say("m4", &format!("delegate research: {task}")).await;
                self.end_of("m4").await;
                let result = self.hear("task", "reader").await;
                assert_eq!(result["content"], "[reader] It is 42.");
                assert_eq!(result["topic_id"].as_str(), self.topic.as_deref());
            }
            5 => {
                self.say("m5", "teams").await;
                let answer = self.end_of("m5").await;
                assert!(answer.contains("research"), "{answer}");
                assert!(answer.contains("reader"), "{answer}");
            }
            _ => {
                let all = json!({ "name": "research", "cascade": true });
                let script = format!("#call shutdown_team {all}\n#reply Shut down.");
                self.say("m6", &script).await;
                self.approve("m6-yes", "shutdown_team").await;
                if !self.ends.iter().any(|end| end["message_id"] == "m6") {
                    self.end_of("m6").await;
                }
                self.say("m7", "teams").await;
                let answer = self.end_of("m7").await;
                assert!(!answer.contains("research"), "{answer}");
                assert!(!answer.contains("reader"), "{answer}");
            }
        }
    }

    /// What must be true of every telling.
    fn check(&self) {
        for id in ["m0", "m2", "m4", "m5", "m6", "m7"] {
            let ends = self.ends.iter().filter(|end| end["message_id"] == id);
            assert_eq!(ends.count(), 1, "{id}: {:#?}", self.ends);
        }
        // Each piece of work is told of once.
        let mut tasks: Vec<&str> = self
            .told
            .iter()
            .filter(|frame| frame["kind"] != "approval")
            .filter_map(|frame| frame["task_id"].as_str())
            .collect();
        tasks.sort_unstable();
        let all = tasks.len();
        tasks.dedup();
        assert_eq!(tasks.len(), all, "{:#?}", self.told);
        let folder = |team: &str| self.service.path(&format!("run/teams/{team}")).exists();
        assert!(!folder("research") && !folder("reader"));
    }
}

fn home() -> Service {
    Service::prepare().with_file("data/config/channels.yaml", CHANNELS)
}

/// OR-48, OR-49, OR-53, OR-60, OR-62 to OR-64, OR-84, CH-152, CH-154, CH-155, PL-85
#[actix_web::test]
async fn a_team_is_asked_for_given_work_and_shut_down_in_one_conversation() {
    let mut story = Story::begin(home().started().await).await;
    for step in 0..STEPS {
        story.step(step).await;
    }
    story.check();
}

/// OR-84, OR-90, SC-104: the same with a `kill -9` between any two steps.
#[actix_web::test]
async fn the_story_ends_the_same_way_whenever_the_process_is_killed() {
    for killed_after in 0..STEPS - 1 {
        let mut story = Story::begin(home().started().await).await;
        for step in 0..STEPS {
            story.step(step).await;
            if step == killed_after {
                story.kill().await;
            }
        }
        story.check();
    }
}

/// The same once more with a process that dies after every step.
#[actix_web::test]
async fn the_story_ends_the_same_way_in_seven_processes() {
    let mut story = Story::begin(home().started().await).await;
    for step in 0..STEPS {
        story.step(step).await;
        story.kill().await;
    }
    story.check();
}

/// What a model would answer to the messages of the story, decided from the request alone.
fn actor(request: &Value) -> Reply {
    let messages = request["messages"].as_array().cloned().unwrap_or_default();
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    // What came last from whoever asked; behind it stand the calls of this turn, with their results.
    let asks = |message: &Value| message["role"] == "user" && !text(message).is_empty();
    let place = messages.iter().rposition(asks).unwrap_or_default();
    let asked = messages.get(place).map(text).unwrap_or_default();
    let answered = messages.len() > place + 1;
    let words = |said: &str| asked.ends_with(said);
    let step = |call: (&str, Value), then: &str| {
        if answered { Reply::text(then) } else { Reply::call(call.0, call.1) }
    };
    let team = |name: &str| {
        json!({
            "name": name,
            "description": "finds things out",
            "scope_accepts": [name],
            "init_context": "You find things out.",
        })
    };
    let work = |team: &str, task: &str| json!({ "team": team, "task": task });
    if words("I need a research team") {
        return step(("spawn_team", team("research")), "Research is being set up.");
    }
    if words("Research needs a reader") {
        let task = work("research", "Hire a reader.");
        return step(("delegate_task", task), "Research is told.");
    }
    if words("Hire a reader.") {
        return step(("spawn_team", team("reader")), "The reader is asked for.");
    }
    if words("What is the answer?") {
        let task = work("research", "Find out the answer.");
        return step(("delegate_task", task), "Research is on it.");
    }
    if words("Find out the answer.") {
        let task = work("reader", "Look the answer up.");
        return step(("delegate_task", task), "The reader is on it.");
    }
    if words("Look the answer up.") {
        let note = json!({ "key": "answer", "content": "It is 42." });
        return step(("memory_save", note), "It is 42.");
    }
    if words("Which teams are there?") {
        let last = messages.last().map(Value::to_string).unwrap_or_default();
        return if answered {
            Reply::text(&format!("There are: {last}"))
        } else {
            Reply::call("list_teams", json!({ "recursive": true }))
        };
    }
    if words("Shut research down") {
        let teams = json!({ "name": "research", "cascade": true });
        return step(("shutdown_team", teams), "They are gone.");
    }
    // The first work of a team, and what it does when it hears of a result.
    let note = json!({ "key": "self", "content": "I find things out.", "type": "identity" });
    step(("memory_save", note), "Ready.")
}

impl Story {
    /// A step of the same story with a model behind a socket. Teams have a team of their own here too.
    async fn wire_step(&mut self, number: usize) {
        match number {
            0 => {
                self.say("m0", "I need a research team").await;
                self.end_of("m0").await;
            }
            1 => {
                let ready = self.hear("bootstrap", "research").await;
                assert_eq!(ready["content"], "[research] Team is ready.");
            }
            2 => {
                self.say("m2", "Research needs a reader").await;
                self.end_of("m2").await;
                self.approve("m2-yes", "spawn_team").await;
            }
            3 => {
                self.hear("bootstrap", "reader").await;
            }
            4 => {
                self.say("m4", "What is the answer?").await;
                self.end_of("m4").await;
                let result = self.hear("task", "reader").await;
                assert_eq!(result["content"], "[reader] It is 42.");
                assert_eq!(result["topic_id"].as_str(), self.topic.as_deref());
            }
            5 => {
                self.say("m5", "Which teams are there?").await;
                let answer = self.end_of("m5").await;
                assert!(answer.contains("research"), "{answer}");
                assert!(answer.contains("reader"), "{answer}");
            }
            _ => {
                self.say("m6", "Shut research down").await;
                self.approve("m6-yes", "shutdown_team").await;
                if !self.ends.iter().any(|end| end["message_id"] == "m6") {
                    self.end_of("m6").await;
                }
                self.say("m7", "Which teams are there?").await;
                let answer = self.end_of("m7").await;
                assert!(!answer.contains("reader"), "{answer}");
            }
        }
    }
}

/// OR-84, OR-90: the same with a model on the other side of a socket, in its vendor's wire format: told without
/// a kill, with one between any two steps, and with one after each.
#[actix_web::test]
async fn the_story_works_with_a_model_that_speaks_the_wire_format() {
    let never = |_: usize, _: usize| false;
    let once = |telling: usize, step: usize| step + 1 == telling;
    let always = |_: usize, _: usize| true;
    for telling in 0..=STEPS {
        let is_killed_after: &dyn Fn(usize, usize) -> bool = match telling {
            0 => &never,
            STEPS => &always,
            _ => &once,
        };
        let model = FakeModel::start();
        model.answer_with(actor);
        let profile = format!(
            "profiles:\n  default: {{provider: anthropic, api_url: '{}', api_key: {KEY}, model: m}}\n",
            model.url()
        );
        let service = home().with_file("data/config/providers.yaml", &profile);
        let mut story = Story::begin(service.started().await).await;
        for step in 0..STEPS {
            story.wire_step(step).await;
            if is_killed_after(telling, step) {
                story.kill().await;
            }
        }
        story.check();
    }
}

/// OR-24: the first work of a team is drawn from the budgets of those above it, too.
#[actix::test]
async fn the_setup_of_a_team_is_paid_by_those_above_it() {
    let service = Service::start().await;

    service.make_team("research", "finds out").await;
    let (_, main) = service.api("GET", "/api/v1/teams/main", None).await;
    let (_, research) = service.api("GET", "/api/v1/teams/research", None).await;

    let spent = |team: &Value| team["data"]["usage_today"]["tokens"].as_u64().unwrap();
    assert!(spent(&research) > 0, "{research}");
    assert_eq!(spent(&main), spent(&research), "{main}");
}
