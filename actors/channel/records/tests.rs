//! Which watchers hear of what people are told.

use super::*;
use crate::{
    frame::{ErrorBody, NotificationKind, Response},
    live::watch::Filter,
};

const TOPIC: &str = "topic-1";

fn of_team(team: &str) -> Filter {
    Filter { team: Some(team.into()), ..Filter::default() }
}

fn of_topic(topic: &str) -> Filter {
    Filter { topic: Some(topic.into()), ..Filter::default() }
}

fn of_task(task: &str) -> Filter {
    Filter { task: Some(task.into()), ..Filter::default() }
}

fn heard(body: Body) -> Event {
    let said = Frame {
        topic: Some(TopicRef { id: TOPIC.into(), name: "garden".to_owned() }),
        ts: Timestamp(1),
        body,
    };
    told(&"ws:1".into(), &said).unwrap()
}

fn response() -> Body {
    Body::Response(Response {
        content: "Done.".to_owned(),
        message_id: "m1".into(),
        task_id: Some("task-1".into()),
        status: "done".to_owned(),
        joined_task_id: None,
        truncated: false,
        usage: None,
    })
}

fn error() -> Body {
    Body::Error(ErrorBody {
        task_id: Some("task-1".into()),
        ..ErrorBody::refusal("crash", "it died")
    })
}

fn notification(team: &str) -> Body {
    Body::Notification(Notification {
        content: "Done.".to_owned(),
        team: team.into(),
        task_id: Some("task-1".into()),
        status: "done".to_owned(),
        kind: NotificationKind::Task,
        ref_id: None,
        truncated: false,
        files: Vec::new(),
        by: None,
    })
}

/// OP-41: answers are found by the team that people talk to, notifications by the team they are of,
/// all of them by topic and task.
#[test]
fn what_people_are_told_is_found_by_team_topic_and_task() {
    let said = [("main", response()), ("main", error()), ("ops", notification("ops"))];

    for (team, body) in said {
        let event = heard(body);

        assert!(of_team(team).passes(&event), "{event:?}");
        assert!(!of_team("others").passes(&event), "{event:?}");
        assert!(of_topic(TOPIC).passes(&event), "{event:?}");
        assert!(!of_topic("topic-2").passes(&event), "{event:?}");
        assert!(of_task("task-1").passes(&event), "{event:?}");
    }
}

/// CH-98
#[test]
fn what_was_said_is_known_by_its_beginning() {
    let said = SaidText::of("One.").and("\n\n").and("Two.");

    assert_eq!(said, SaidText::of("One.\n\nTwo."));
    assert_eq!(said.rest_of("One.\n\nTwo. Three."), Some(" Three."));
    assert_eq!(said.rest_of("One.\n\nTwo."), Some(""));
    for other in ["", "One.", "One.\n\nTwi. Three.", "One.\n\nTw\u{f6}\u{f6}"] {
        assert_eq!(said.rest_of(other), None, "{other}");
    }
}
