//! What somebody is asked for, and the work that asks.

use std::{sync::Arc, time::Duration};

use super::entropy::Sequence;
use crate::{
    approvals::{
        question::{AnswerKind, Question, QuestionStatus},
        record::Approval,
        requests::{CallRequest, RequestBuilder},
    },
    clock::Timestamp,
    ids::Ids,
    task::{Label, Lane, Lineage, Source, Task, TopicRef, cause::Cause},
    tool::{Asking, Caller},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A task of a topic.
pub(crate) fn work_in(topic: &str) -> Task {
    let lane = Lane { team: "main".into(), topic: Some(topic.into()) };
    Task::new(format!("task-{topic}").into(), lane, String::new(), "ann".to_owned(), Timestamp(1))
}

/// A task of another team that a topic gave it.
pub(crate) fn work_for(topic: &str) -> Task {
    let from = TopicRef { id: topic.into(), name: topic.to_owned() };
    Task {
        lane: Lane { team: "ops".into(), topic: None },
        source: Some(Source { topic: Some(from), ..Source::channel("ws:1".into()) }),
        ..work_in(topic)
    }
}

/// A call of a task that waits for a decision.
pub(crate) fn approval(task: &Task, at: Timestamp) -> Approval {
    let requests =
        RequestBuilder::new(Ids::new(Arc::new(Sequence::constant(1))), |_| String::new(), DAY);
    let request = CallRequest {
        caller: &Caller::of(task),
        turn: &"turn-1".into(),
        label: Label::Trusted,
        call: "turn-1:1:0",
        tool: "bash",
        arguments: &serde_json::json!({}),
        asking: &Asking::default(),
    };
    requests.request(request, at)
}

/// A question of a task that waits for a day.
pub(crate) fn question(id: &str, task: &Task, at: Timestamp) -> Question {
    Question {
        id: id.into(),
        team: task.team(),
        lane: task.lane.clone(),
        task: task.id.clone(),
        question: "Which?".to_owned(),
        options: Vec::new(),
        multi: false,
        kind: AnswerKind::Text,
        key: None,
        status: QuestionStatus::Open,
        answer: None,
        by: None,
        source: task.source.clone(),
        lineage: Lineage { root: task.id.clone(), path: Vec::new() },
        label: Label::Trusted,
        cause: Cause::System,
        created_at: at,
        expires_at: at + DAY,
        answered_at: None,
    }
}
