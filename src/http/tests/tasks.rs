//! Tasks over HTTP.

use hivewright_actors::{
    file::FileRef,
    ids::TaskId,
    queue::submit::Submit,
    store::{reads::get, records::Writes},
    task::{
        Kind, Lane, OnResult, Task, TopicRef,
        cause::Cause,
        outcome::{Ending, Outcome},
        records::FinishedTask,
    },
    usage::Usage,
};
use serde_json::json;

use super::*;

fn outcome(task: &Task, ending: Ending, text: &str) -> Outcome {
    Outcome {
        code: (ending != Ending::Done).then_some(Code::Internal),
        text: text.to_owned(),
        ..Outcome::new(ending, task.created_at + Duration::from_secs(2))
    }
}

impl Bench {
    pub(super) fn task(&self, id: &str, team: &str, kind: Kind, body: &str) -> Task {
        let now = hivewright_actors::clock::Clock::now(&*self.clock);
        let lane = Lane { team: team.into(), topic: None };
        Task { kind, ..Task::new(id.into(), lane, body.to_owned(), "ann".to_owned(), now) }
    }

    /// A task that has ended.
    pub(super) async fn ended(&self, mut task: Task, ending: Ending, text: &str) {
        task.outcome = Some(outcome(&task, ending, text));
        let writes = Writes::new().put(&FinishedTask::of(&task));
        self.state.spine.store.commit(writes).await.unwrap();
    }

    /// A task that waits, since its team rests.
    async fn open(&self, task: Task) {
        let pause = json!({});
        let path = format!("/api/v1/teams/{}/pause", task.lane.team);
        self.post(&path, &self.operator(), pause).await;
        let submit = Submit { task, writes: Writes::new(), overlap: None, giver: None };
        self.state.spine.queue.send(submit).await.unwrap().unwrap();
    }

    /// A task that has not ended, as it is stored.
    async fn open_task(&self, id: &str) -> Task {
        let id = TaskId::from(id);
        let read = self.state.spine.store.read(move |storage| get::<Task>(storage, &id));
        read.await.unwrap().unwrap()
    }

    async fn ids(&self, query: &str) -> Vec<String> {
        let path = format!("/api/v1/tasks?{query}");
        let answer = self.get(&path, &self.operator()).await.json();
        let rows = answer["data"].as_array().unwrap();
        rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// OP-01: a value that there is not is no empty list.
#[actix_web::test]
async fn a_word_that_there_is_not_is_refused_with_those_that_there_are() {
    let bench = Bench::new().await;
    for (query, field, word) in [
        ("priority=urgent", "priority", "`critical`, `high`, `normal`, `low`"),
        ("type=chore", "type", "`chat`, `delegate`"),
        ("state=over", "state", "`accepted`, `running`, `waiting`"),
    ] {
        let answer = bench.get(&format!("/api/v1/tasks?{query}"), &bench.operator()).await;

        assert_eq!(answer.refusal(), (400, "invalid_input".to_owned()), "{query}");
        assert_eq!(answer.field(), field);
        assert!(answer.body.contains(word), "{}", answer.body);
        assert!(!answer.body.contains("urgent"), "{}", answer.body);
    }
}

/// OP-24: messages are found after they were answered, by all that is known of them, and told from
/// other work without it.
#[actix_web::test]
async fn messages_that_ended_are_found() {
    let bench = Bench::new().await;
    let chat = |id, body| bench.task(id, "main", Kind::Chat, body);
    let answered = chat("task-1", "Dig a hole.");
    bench.ended(answered, Ending::Done, "Dug.").await;
    bench.clock.advance(Duration::from_secs(60));
    let failed = chat("task-2", "Fill it.");
    bench.ended(failed, Ending::Failed, "").await;
    let work = bench.task("task-3", "ops", Kind::Delegate, "Carry sand.");
    bench.ended(work, Ending::Done, "Carried.").await;

    assert_eq!(bench.ids("type=chat").await, ["task-2", "task-1"]);
    assert_eq!(bench.ids("type=chat&state=failed").await, ["task-2"]);
    assert_eq!(bench.ids("state=done&q=dug").await, ["task-1"]);
    assert_eq!(bench.ids("root=task-1").await, ["task-1"]);
    assert_eq!(bench.ids("type=delegate").await, ["task-3"]);
    let stats = bench.get("/api/v1/tasks/stats", &bench.operator()).await;
    let stats = stats.json()["data"].clone();
    assert_eq!(stats["by_type"], json!({"chat": 2, "delegate": 1}));
}

/// OP-24
#[actix_web::test]
async fn counts_are_of_all_tasks_however_many_have_ended() {
    let bench = Bench::new().await;
    let mut writes = Writes::new();
    for number in 0..2_500 {
        let mut task = bench.task(&format!("task-{number}"), "main", Kind::Chat, "Dig.");
        task.outcome = Some(outcome(&task, Ending::Done, "Dug."));
        writes = writes.put(&FinishedTask::of(&task));
    }
    bench.state.spine.store.commit(writes).await.unwrap();

    let stats = bench.get("/api/v1/tasks/stats", &bench.operator()).await;

    let stats = stats.json()["data"].clone();
    assert_eq!((&stats["all"], &stats["open"]), (&json!(2_500), &json!(0)));
    assert_eq!(stats["by_state"], json!({"done": 2_500}));
}

/// OP-24, OR-71
#[actix_web::test]
async fn tasks_are_found_by_what_is_known_of_them() {
    let bench = Bench::new().await;
    bench.open(bench.task("task-1", "main", Kind::Chat, "Dig a hole.")).await;
    bench.clock.advance(Duration::from_secs(3_600));
    bench.ended(bench.task("task-2", "main", Kind::Trigger, "Look."), Ending::Done, "Ore!").await;
    bench.clock.advance(Duration::from_secs(3_600));
    bench.ended(bench.task("task-3", "scouts", Kind::Delegate, "Go."), Ending::Failed, "").await;

    assert_eq!(bench.ids("").await, ["task-3", "task-2", "task-1"]);
    assert_eq!(bench.ids("sort=created_at&limit=1").await, ["task-1"]);
    assert_eq!(bench.ids("state=accepted").await, ["task-1"]);
    assert_eq!(bench.ids("state=failed").await, ["task-3"]);
    assert_eq!(bench.ids("team=main").await, ["task-2", "task-1"]);
    assert_eq!(bench.ids("type=trigger").await, ["task-2"]);
    assert_eq!(bench.ids("q=ORE!").await, ["task-2"]);
    assert_eq!(bench.ids("since=90m").await, ["task-3", "task-2"]);
    assert_eq!(bench.ids("until=90m").await, ["task-1"]);
    assert_eq!(bench.ids("root=task-3").await, ["task-3"]);
    assert_eq!(bench.ids("limit=1&offset=1").await, ["task-2"]);
    let wrong = bench.get("/api/v1/tasks?state=sleeping", &bench.operator()).await;
    assert_eq!((wrong.status, wrong.field()), (400, "state".to_owned()));

    let one = bench.get("/api/v1/tasks/task-2", &bench.operator()).await.json();
    let row = &one["data"];
    assert_eq!((&row["type"], &row["state"]), (&json!("trigger"), &json!("done")));
    assert_eq!(row["outcome"]["result"], "Ore!");
    assert_eq!(row["outcome"]["duration_ms"], 2_000);
    assert_eq!(row["lineage"]["root"], "task-2");
    let missing = bench.get("/api/v1/tasks/task-9", &bench.operator()).await;
    assert_eq!(missing.refusal(), (404, "not_found".to_owned()));
}

/// OR-71: a running task whose question to another team is open says so, until the answer is there.
#[actix_web::test]
async fn a_task_that_waits_for_an_answer_says_so() {
    let bench = Bench::new().await;
    let asker = Task {
        lease: Some("lease-1".into()),
        ..bench.task("task-1", "main", Kind::Chat, "How deep?")
    };
    let question = |id: &str, kind| {
        let asked = bench.task(id, "scouts", kind, "How deep?");
        Task { lineage: Some(asker.lineage_below()), ..asked }
    };
    let store = async |task: Task| {
        let writes = Writes::new().put(&task);
        bench.state.spine.store.commit(writes).await.unwrap();
    };
    store(asker.clone()).await;
    store(question("task-2", Kind::Delegate)).await;
    let reasons = async || {
        let row = bench.get("/api/v1/tasks/task-1", &bench.operator()).await.json()["data"].clone();
        let rows = bench.get("/api/v1/tasks?team=main", &bench.operator()).await.json();
        [row, rows["data"][0].clone()].map(|row| (row["state"].clone(), row["wait_reason"].clone()))
    };

    let delegated = reasons().await;
    store(question("task-3", Kind::Query)).await;
    let asked = reasons().await;
    let answer = question("task-3", Kind::Query);
    bench.ended(answer, Ending::Done, "Six feet.").await;
    let answered = reasons().await;

    let running = (json!("running"), json!(null));
    assert_eq!(delegated, [running.clone(), running.clone()]);
    let asking = (json!("running"), json!("query"));
    assert_eq!(asked, [asking.clone(), asking]);
    assert_eq!(answered, [running.clone(), running]);
}

/// OP-34
#[actix_web::test]
async fn an_open_task_is_cancelled_and_a_final_one_is_not() {
    let bench = Bench::new().await;
    bench.open(bench.task("task-1", "main", Kind::Chat, "Dig.")).await;
    bench.ended(bench.task("task-2", "main", Kind::Chat, "Dig."), Ending::Done, "Dug.").await;
    let cancel = async |id: &str| {
        let path = format!("/api/v1/tasks/{id}/cancel");
        bench.post(&path, &bench.operator(), json!({"reason": "no need"})).await
    };

    let first = cancel("task-1").await;
    assert_eq!((first.status, &first.json()["data"]["state"]), (200, &json!("cancelled")));
    let again = cancel("task-1").await;
    assert_eq!(again.json()["data"]["state"], "cancelled");
    assert_eq!(cancel("task-2").await.refusal(), (409, "final".to_owned()));
    assert_eq!(cancel("task-9").await.refusal(), (404, "not_found".to_owned()));
    let row = bench.get("/api/v1/tasks/task-1", &bench.operator()).await.json();
    assert!(row["data"]["outcome"]["error"]["message"].as_str().unwrap().contains("no need"));
}

/// OP-34: with all that it led to.
#[actix_web::test]
async fn a_task_is_cancelled_with_what_comes_of_it() {
    let bench = Bench::new().await;
    let above = bench.task("task-1", "main", Kind::Chat, "Dig.");
    let below = Task {
        lineage: Some(above.lineage_below()),
        ..bench.task("task-2", "main", Kind::Delegate, "Dig there.")
    };
    bench.open(bench.task("task-3", "main", Kind::Chat, "Other.")).await;
    bench.ended(above, Ending::Done, "They dig.").await;
    bench.open(below).await;

    let path = "/api/v1/tasks/task-1/cancel";
    let answer = bench.post(path, &bench.operator(), json!({"cascade": true})).await;

    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(bench.ids("state=cancelled").await, ["task-2"]);
    assert_eq!(bench.ids("state=accepted").await, ["task-3"]);
}

/// OP-127: only the task that tells an end names the one that it tells of.
#[actix_web::test]
async fn a_result_names_the_task_that_it_tells_of() {
    let bench = Bench::new().await;
    bench.open(bench.task("task-1-end", "main", Kind::Result, "They dug.")).await;
    bench.open(bench.task("task-2-end", "main", Kind::Delegate, "Dig.")).await;
    let told = async |id: &str| {
        let row = bench.get(&format!("/api/v1/tasks/{id}"), &bench.operator()).await.json();
        row["data"]["lineage"]["result_of"].clone()
    };

    assert_eq!(told("task-1-end").await, "task-1");
    assert_eq!(told("task-2-end").await, Value::Null);
}

/// OP-34, OR-75
#[actix_web::test]
async fn what_did_not_end_well_is_tried_again_as_a_linked_task() {
    let bench = Bench::new().await;
    bench.post("/api/v1/teams/main/pause", &bench.operator(), json!({})).await;
    let mut task = bench.task("task-1", "main", Kind::Chat, "Dig.");
    task.source = Some(hivewright_actors::task::Source {
        channel: "ws:1".into(),
        message: Some("m-1".into()),
        topic: Some(TopicRef { id: "t-1".into(), name: "Holes".to_owned() }),
        notify: None,
    });
    task.cause = Some(Cause::Sender {
        channel_type: "discord".to_owned(),
        id: "ann".to_owned(),
        guest: true,
        principal: None,
    });
    task.files = vec![FileRef {
        id: "file-1".into(),
        name: "plan.pdf".to_owned(),
        mime: "application/pdf".to_owned(),
        size: 3,
        digest: "0".repeat(64),
        path: None,
    }];
    bench.ended(task.clone(), Ending::Dead, "").await;
    let run = Task {
        on_result: OnResult::Silent,
        ..bench.task("task-5", "main", Kind::Trigger, "Look.")
    };
    bench.ended(run, Ending::Failed, "").await;
    bench.ended(bench.task("task-2", "main", Kind::Chat, "x"), Ending::Done, "y").await;
    bench.ended(bench.task("task-3", "main", Kind::Query, "x"), Ending::Failed, "").await;
    bench.ended(bench.task("task-4", "gone", Kind::Chat, "x"), Ending::Failed, "").await;
    let retry = async |id: &str| {
        let path = format!("/api/v1/tasks/{id}/retry");
        bench.post(&path, &bench.operator(), json!({})).await
    };

    let answer = retry("task-1").await;

    assert_eq!(answer.status, 201, "{}", answer.body);
    let id = answer.json()["data"]["id"].as_str().unwrap().to_owned();
    let row = bench.get(&format!("/api/v1/tasks/{id}"), &bench.operator()).await.json();
    assert_eq!(row["data"]["body"], "Dig.");
    assert_eq!(row["data"]["lineage"]["parent"], "task-1");
    assert_eq!(row["data"]["topic_id"], "t-1");
    // PL-68: nobody may do more because somebody else tries it again.
    let again = bench.open_task(&id).await;
    assert_eq!((again.cause, again.files), (task.cause, task.files));
    // Nobody else would hear of a run that is accounted for.
    let answer = retry("task-5").await.json();
    let again = bench.open_task(answer["data"]["id"].as_str().unwrap()).await;
    assert_eq!((again.kind, again.on_result), (Kind::Delegate, OnResult::Notify));
    assert_eq!(retry("task-2").await.refusal(), (409, "final".to_owned()));
    assert_eq!(retry("task-3").await.refusal().0, 409);
    assert_eq!(retry("task-4").await.refusal().0, 409);
    assert_eq!(retry(&id).await.refusal(), (409, "final".to_owned()));
}

/// OP-24: a list that ends says so, and a text that is cut in it says where the whole is.
#[actix_web::test]
async fn what_a_task_does_not_show_is_marked() {
    let bench = Bench::new().await;
    let parent = bench.task("task-1", "main", Kind::Chat, "Dig.");
    let below = parent.lineage_below();
    bench.ended(parent, Ending::Done, "Dug.").await;
    let mut writes = Writes::new();
    for number in 0..=200 {
        let mut child = bench.task(&format!("task-1{number}"), "main", Kind::Delegate, "Dig.");
        child.lineage = Some(below.clone());
        child.outcome = Some(outcome(&child, Ending::Done, "Dug."));
        writes = writes.put(&FinishedTask::of(&child));
    }
    bench.state.spine.store.commit(writes).await.unwrap();
    let one = bench.get("/api/v1/tasks/task-1", &bench.operator()).await;
    let one = one.json()["data"].clone();
    assert_eq!(one["children"].as_array().unwrap().len(), 200);
    assert_eq!(one["more_children"], true);

    let long = bench.task("task-2", "ops", Kind::Delegate, &"d".repeat(201));
    let cut = Outcome { truncated: true, ..outcome(&long, Ending::Done, &"r".repeat(10_002)) };
    let long = Task { outcome: Some(cut), ..long };
    let writes = Writes::new().put(&FinishedTask::of(&long));
    bench.state.spine.store.commit(writes).await.unwrap();
    let list = bench.get("/api/v1/tasks?team=ops", &bench.operator()).await;
    let row = list.json()["data"][0].clone();
    let body = row["body"].as_str().unwrap();
    let result = row["outcome"]["result"].as_str().unwrap();
    assert!(body.ends_with("d … [1 more character: GET /api/v1/tasks/task-2]"));
    assert!(result.ends_with("r … [2 more characters: GET /api/v1/tasks/task-2]"));
    // SE-12
    assert_eq!(row["outcome"]["truncated"], true);
}

/// SE-139: what one cause led to is summed up, whoever did it.
#[actix_web::test]
async fn a_task_says_what_all_work_of_its_cause_has_come_to() {
    let bench = Bench::new().await;
    let first = bench.task("task-1", "main", Kind::Chat, "Dig.");
    let other = bench.task("task-9", "main", Kind::Chat, "Fill.");
    let mut writes = Writes::new();
    let below = Some(first.lineage_below());
    let second = Task { lineage: below, ..bench.task("task-2", "ops", Kind::Delegate, "Dig.") };
    for mut task in [first, second, other] {
        task.outcome = Some(Outcome {
            usage: Usage { input: 10, cost_usd: Some(0.5), ..Usage::default() },
            ..outcome(&task, Ending::Done, "Done.")
        });
        writes = writes.put(&FinishedTask::of(&task));
    }
    bench.state.spine.store.commit(writes).await.unwrap();

    for id in ["task-1", "task-2"] {
        let path = format!("/api/v1/tasks/{id}");
        let tree = bench.get(&path, &bench.operator()).await.json()["data"]["tree"].clone();
        assert_eq!(tree["ended"], 2, "{id}");
        assert_eq!(
            (&tree["usage"]["input"], &tree["usage"]["cost_usd"]),
            (&json!(20), &json!(1.0))
        );
    }
}
