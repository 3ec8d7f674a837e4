//! The promise that one team can't hurt another: hang, flood and panic stay where they are.

use std::{collections::HashMap, path::Path, time::Duration};

use hivewright::{
    boot::{Options, Service},
    engines::native::retry::RetryPolicy,
    settings::{
        home::{Flags, Home},
        references::Environment,
    },
    tools::{
        self,
        about::About,
        contract::{Tool, ToolContext},
        error::ToolError,
        made::Made,
    },
};
use hivewright_actors::{
    clock::Clock,
    ids::{ChannelId, TaskId},
    queue::Enqueue,
    store::records::Writes,
    task::{Lane, Source, Task},
    tool::Effect,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::Client,
};

const FLOOD: usize = 1_200;
const CALM: usize = 20;

/// A tool with a bug.
struct Panics;

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

impl Tool for Panics {
    const ABOUT: About = About::new("panics", "@plugins", "plugin", Effect::Pure)
        .within(Duration::from_secs(5), Duration::from_secs(5));
    const DESCRIPTION: &'static str = "Panics.";
    type Args = Nothing;

    async fn call(&self, _: Nothing, _: &ToolContext) -> Result<String, ToolError> {
        panic!("a bug in a tool");
    }
}

fn write(home: &Path, path: &str, content: &str) {
    let path = home.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

/// A task of a team, whose result is notified to a channel.
fn task(team: &str, number: usize, body: &str, channel: &str) -> Task {
    let now = hivewright::system::WallClock.now();
    Task {
        source: Some(Source {
            channel: ChannelId::from(channel),
            message: None,
            topic: None,
            notify: None,
        }),
        deadline_at: now + Duration::from_secs(600),
        acked: true,
        ..Task::new(
            TaskId::from(format!("task-{team}-{number}")),
            Lane { team: team.into(), topic: None },
            body.to_owned(),
            "operator".to_owned(),
            now,
        )
    }
}

struct House {
    service: Service,
    client: Client,
    channel: String,
    /// Notifications by team.
    heard: HashMap<String, Vec<Value>>,
}

impl House {
    fn give(&self, team: &str, number: usize, body: &str) {
        self.service.spine.queue.do_send(Enqueue {
            task: task(team, number, body, &self.channel),
            writes: Writes::new(),
        });
    }

    fn count(&self, team: &str) -> usize {
        self.heard.get(team).map_or(0, Vec::len)
    }

    /// Listens until a team has said so much.
    async fn until(&mut self, team: &str, count: usize) {
        while self.count(team) < count {
            let counts: Vec<_> =
                self.heard.iter().map(|(team, said)| (team.clone(), said.len())).collect();
            let frame = tokio::time::timeout(Duration::from_secs(30), self.client.frame())
                .await
                .unwrap_or_else(|_| panic!("waiting for {team} {count}: {counts:?}"));
            assert_eq!(frame["type"], "notification", "{frame}");
            let team = frame["team"].as_str().unwrap().to_owned();
            self.heard.entry(team).or_default().push(frame);
        }
    }
}

/// SC-115, OR-77, OR-79, TO-13: they are served, whatever the others do. What it costs them is a bench.
#[actix::test]
async fn a_hang_a_flood_and_a_panic_leave_other_teams_alone() {
    let model = FakeModel::start();
    model.otherwise(Reply::SlowFirstByte(Duration::from_secs(600), String::new()));
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let providers = format!(
        "profiles:\n  default: {{provider: offline}}\n  hang: {{provider: anthropic, api_url: \"{}\", api_key: {KEY}}}\n",
        model.url()
    );
    write(home, "data/config/providers.yaml", &providers);
    write(home, "data/config/config.yaml", "runtime: {max_running_turns: 4}\n");
    write(home, "run/teams/hang/config.yaml", "provider_profile: hang\nturn_timeout: 3s\n");
    write(home, "run/teams/panics/config.yaml", "allowed_tools: [panics]\n");
    write(home, "run/teams/flood/config.yaml", "description: busy\n");
    write(home, "run/teams/calm/config.yaml", "description: quiet\n");
    let environment = Environment::fixed([]);
    let flags = Flags { home: Some(home.to_owned()), ..Flags::default() };
    let service = Service::start(Options {
        home: Home::new(&flags, &environment).unwrap(),
        environment,
        bind: None,
        port: Some(0),
        launcher: env!("CARGO_BIN_EXE_hivewright").into(),
        toolbox: tools::all().with([Made::of(Panics)]),
        retry: RetryPolicy::default(),
    })
    .await
    .unwrap();
    let token = std::fs::read_to_string(home.join("data/secrets/operator-token")).unwrap();
    let client = Client::connect(&service.url, token.trim()).await;
    let channel = client.channel.clone().unwrap();
    let mut house = House { service, client, channel, heard: HashMap::new() };

    house.give("hang", 0, "are you there?");
    for number in 0..FLOOD {
        house.give("flood", number, "hello");
    }
    for number in 0..5 {
        house.give("panics", number, "#call panics {}");
    }
    for number in 0..CALM {
        let before = house.count("flood");
        house.give("calm", number, "hello");
        house.until("calm", number + 1).await;
        let passed = house.count("flood") - before;
        assert!(passed < FLOOD / 10, "{passed} turns of the flood went first");
    }
    let flooded = house.count("flood");
    house.until("panics", 5).await;
    house.until("hang", 1).await;
    house.until("flood", FLOOD).await;

    assert!(flooded < FLOOD, "the flood was over before the others began");
    for calm in &house.heard["calm"] {
        assert_eq!(calm["status"], "done", "{calm}");
    }
    for broken in &house.heard["panics"] {
        assert_eq!(broken["status"], "done", "{broken}");
        let content = broken["content"].as_str().unwrap();
        assert!(content.contains("panicked") || content.contains("failed"), "{content}");
    }
    let hang = &house.heard["hang"][0];
    assert_eq!(hang["status"], "expired", "{hang}");
    assert_eq!(hang["content"], "[hang] the turn ran out of time");
    house.service.stop().await;
}
