//! A message during a turn: it joins the turn, or ends it, as the team's file says.

use serde_json::json;

use crate::{
    fake_model::{FakeModel, KEY, Reply},
    service::{Client, Service},
};

async fn service(model: &FakeModel, mode: &str) -> Service {
    let providers = format!(
        "profiles:\n  default: {{provider: openai, api_url: \"{}/v1\", api_key: {KEY}, model: m}}\n",
        model.url()
    );
    Service::prepare()
        .with_file("data/config/providers.yaml", &providers)
        .with_file(
            "run/teams/main/config.yaml",
            &format!("queue_mode: {mode}\nallowed_tools: [\"@shell\"]\n"),
        )
        .started()
        .await
}

/// Opens a topic whose next turn is in the middle of a tool call.
async fn in_a_turn(client: &mut Client, model: &FakeModel) -> String {
    model.say([Reply::text("Hello.")]);
    let topic = client.open_topic("tulips in the garden").await;
    model.say([Reply::call(
        "bash",
        json!({"command": "while [ ! -e go ]; do sleep 0.05; done; echo went"}),
    )]);
    client.say_in(&topic, "first", "plant tulips").await;
    client.until(|frame| frame["kind"] == "tool_call").await;
    topic
}

/// CH-84, EN-21, SE-134
#[actix::test]
async fn a_steering_message_joins_the_running_turn() {
    let model = FakeModel::start();
    let service = service(&model, "steer").await;
    let mut client = service.connect().await;
    let topic = in_a_turn(&mut client, &model).await;
    model.say([Reply::text("Both done.")]);

    client.say_in(&topic, "second", "and roses").await;
    client.until(|frame| frame["type"] == "ack" && frame["message_id"] == "second").await;
    service.write("run/teams/main/go", "");
    let ends = [client.terminal().await, client.terminal().await];

    let by_id = |id: &str| ends.iter().find(|end| end["message_id"] == id).unwrap();
    let (first, second) = (by_id("first"), by_id("second"));
    assert_eq!([&first["status"], &first["content"]], [&json!("done"), &json!("Both done.")]);
    assert_eq!(second["status"], "done");
    assert_eq!(second["joined_task_id"], first["task_id"]);
    assert_eq!(first.get("joined_task_id"), None);
    let requests = model.requests();
    assert_eq!(requests.len(), 3, "no turn of its own");
    let messages = requests[2].body["messages"].as_array().unwrap();
    let last = &messages[messages.len() - 1];
    assert_eq!(last["role"], "user");
    assert!(last["content"].to_string().contains("and roses"), "{last}");
}

/// CH-84, EN-23, EN-28, SE-134
#[actix::test]
async fn an_interrupting_message_ends_the_running_turn_and_runs_next() {
    let model = FakeModel::start();
    let service = service(&model, "interrupt").await;
    let mut client = service.connect().await;
    let topic = in_a_turn(&mut client, &model).await;
    model.say([Reply::text("Roses instead.")]);

    client.say_in(&topic, "second", "roses instead").await;
    let first = client.terminal().await;
    let second = client.terminal().await;

    assert_eq!(
        [&first["type"], &first["message_id"], &first["status"]],
        [&json!("response"), &json!("first"), &json!("cancelled")]
    );
    assert_eq!(
        [&second["message_id"], &second["status"], &second["content"]],
        [&json!("second"), &json!("done"), &json!("Roses instead.")]
    );
    assert_eq!(second.get("joined_task_id"), None);
}
