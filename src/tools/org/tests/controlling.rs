//! Teams that are stopped and started by those above them.

use std::collections::BTreeSet;

use hivewright_actors::org::{Pause, Update, record::Capability};

use super::*;

impl super::Bench {
    fn state(&self, team: &str) -> TeamState {
        self.view.now().get(team).unwrap().state
    }

    async fn control(&self, caller: &str, team: &str, action: &str) -> Value {
        self.call(caller, "control_team", json!({"team": team, "action": action})).await
    }

    /// An operator lets a team rest, or work.
    async fn keep(&self, team: &str, paused: bool) {
        let pause = Pause { team: Some(team.into()), paused, now: false, by: operator() };
        self.org.send(pause).await.unwrap().unwrap();
    }

    async fn give(&self, team: &str, capabilities: BTreeSet<Capability>) {
        let update = Update {
            name: team.into(),
            by: operator(),
            add: Vec::new(),
            remove: Vec::new(),
            description: None,
            capabilities: Some(capabilities),
            call: None,
        };
        self.org.send(update).await.unwrap().unwrap();
    }
}

/// EN-112: what runs is stopped and waits; `restart` begins it again.
#[actix_web::test]
async fn the_main_team_stops_and_starts_those_below_it() {
    let bench = bench().await;
    let dismissed = || bench.work.dismissed.lock().unwrap().clone();

    let paused = bench.control("main", "guides", "pause").await;
    assert_eq!(paused, json!({"success": true, "team": "guides", "state": "paused"}));
    assert_eq!((bench.state("guides"), dismissed()), (TeamState::Paused, vec!["guides".into()]));

    let waits = json!({"team": "guides", "task": "Dig."});
    let note = bench.call("scouts", "delegate_task", waits).await["note"].clone();
    assert!(note.as_str().unwrap().contains("until `main` or an operator resumes it"), "{note}");

    let resumed = bench.control("main", "guides", "resume").await;
    assert_eq!(resumed["state"], "active");
    assert_eq!((bench.state("guides"), dismissed().len()), (TeamState::Active, 1));

    let restarted = bench.control("main", "guides", "restart").await;
    assert_eq!(restarted["state"], "active");
    assert_eq!((bench.state("guides"), dismissed().len()), (TeamState::Active, 2));
}

/// EN-112, EN-116
#[actix_web::test]
async fn a_team_needs_the_capability_and_stops_neither_itself_nor_others() {
    let bench = bench().await;

    let without = bench.control("scouts", "guides", "pause").await;
    bench.give("scouts", [Capability::Lifecycle].into()).await;
    let with = bench.control("scouts", "guides", "pause").await;

    assert_eq!(code(&without), "not_authorized");
    assert!(without["message"].as_str().unwrap().contains("`lifecycle`"), "{without}");
    assert_eq!(with["state"], "paused");
    for (team, expected) in [
        ("scouts", "self_forbidden"),
        ("smiths", "not_authorized"),
        ("main", "not_authorized"),
        ("nobody", "not_found"),
    ] {
        let refused = bench.control("scouts", team, "pause").await;
        assert_eq!(code(&refused), expected, "{refused}");
    }
}

/// EN-112, OR-95: a model does not undo what a person decided.
#[actix_web::test]
async fn what_an_operator_paused_no_team_resumes() {
    let bench = bench().await;
    bench.keep("scouts", true).await;

    for action in ["resume", "restart", "pause"] {
        let refused = bench.control("main", "scouts", action).await;
        assert_eq!(code(&refused), "not_authorized");
        assert!(refused["message"].as_str().unwrap().contains("an operator"), "{refused}");
    }
    // Also if a team had paused it before.
    bench.control("main", "smiths", "pause").await;
    bench.keep("smiths", true).await;
    let refused = bench.control("main", "smiths", "resume").await;
    assert_eq!(code(&refused), "not_authorized");
    bench.keep("smiths", false).await;
    assert_eq!(bench.state("smiths"), TeamState::Active);
}

/// EN-108
#[actix_web::test]
async fn a_turn_is_told_who_it_is() {
    let bench = bench().await;
    bench.give("scouts", [Capability::Triggers].into()).await;
    let waits = OpenTask { state: TaskState::Accepted, ..busy("scouts", Kind::Message) };
    bench.work.open.lock().unwrap().extend([busy("scouts", Kind::Delegate), waits]);

    let own = bench.call("scouts", "whoami", json!({})).await;
    let main = bench.call("main", "whoami", json!({})).await;

    let deadline = bench.context("scouts").caller.deadline_at.date();
    let limit = json!({"usd_per_day": null, "tokens_per_day": null, "usd_per_task": null});
    assert_eq!(
        own,
        json!({
            "success": true, "team": "scouts", "parent": "main", "session_id": "scouts:main",
            "topic_id": null, "turn": "turn-1", "task_id": "task-caller", "deadline": deadline,
            "capabilities": ["triggers"], "waiting": 1,
            "budget": {"spent": {"usd": 1.5, "tokens": 10}, "limit": limit},
        })
    );
    assert_eq!((&main["parent"], &main["topic_id"]), (&Value::Null, &json!("t-1")));
    assert_eq!(main["capabilities"], json!(["lifecycle", "spawn", "configure", "triggers"]));
}
