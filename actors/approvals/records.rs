//! Records of approvals and questions, with the marks of those that wait.

use std::collections::HashSet;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    query::WaitFacet,
    question::{Question, QuestionStatus},
    record::{Approval, Status},
};
use crate::{
    clock::Timestamp,
    excerpt,
    ids::{ApprovalId, QuestionId, TaskId},
    live::event::{Event, Kind, SAID},
    storage::{Storage, StorageError},
    store::{
        keys::key_of,
        reads::{Range, get, get_readable, parse, scan},
        records::{Keyed, Record, Writes},
        redact::{Owner, Texts},
    },
    task::{Task, WaitReason},
};

pub const TEXTS: &[Texts] = &[
    Texts::of(Approval::KIND, Owner::At("/team/name"), &["arguments", "summary", "diff"])
        .named(&["source/topic/name"]),
    Texts::of(
        Question::KIND,
        Owner::At("/team/name"),
        &["question", "options", "answer/text", "answer/selected"],
    )
    .named(&["source/topic/name"]),
];

crate::records! {
    PendingApproval: "apr-open", ApprovalId;
    ShortId: "apr-short", String;
    OpenQuestion: "qst-open", QuestionId;
}

impl Record for Approval {
    const KIND: &'static str = "apr";
    type Key = ApprovalId;

    fn told(&self, _: &ApprovalId) -> Option<Event> {
        let data = json!({
            "id": self.id,
            "short_id": self.short_id,
            "status": self.status,
            "kind": self.kind,
            "tool": self.tool,
            "summary": excerpt::line(&self.summary, SAID),
            "expires_at": self.expires_at.date(),
            "resolved_by": self.resolved_by,
            "execution": self.execution,
        });
        let topic = self.lane.as_ref().and_then(|lane| lane.topic.as_ref());
        let event = Event::new(Kind::ApprovalChanged, data).of_team(&self.team.name);
        Some(event.of_topic(topic).of_task(self.task.as_ref()))
    }

    fn along(&self, id: &ApprovalId, writes: Writes) -> Writes {
        match self.status {
            // A short id is given again once it is free: it names the newest.
            Status::Pending => writes
                .put_at(id, &PendingApproval(id.clone()))
                .put_at(&self.short_id, &ShortId(id.clone())),
            _ => writes.delete::<PendingApproval>(id),
        }
    }
}

impl Keyed for Approval {
    fn key(&self) -> ApprovalId {
        self.id.clone()
    }
}

/// The mark of an approval that waits for a decision: those are found without reading the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PendingApproval(pub ApprovalId);

/// The approval that a short id names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ShortId(pub(crate) ApprovalId);

impl Record for Question {
    const KIND: &'static str = "qst";
    type Key = QuestionId;

    /// Without the answer: it may be a secret.
    fn told(&self, _: &QuestionId) -> Option<Event> {
        let data = json!({
            "id": self.id,
            "status": self.status,
            "kind": self.kind,
            "question": excerpt::line(&self.question, SAID),
        });
        let event = Event::new(Kind::QuestionChanged, data).of_team(&self.team.name);
        Some(event.of_topic(self.lane.topic.as_ref()).of_task(Some(&self.task)))
    }

    fn along(&self, id: &QuestionId, writes: Writes) -> Writes {
        match self.status {
            QuestionStatus::Open => writes.put_at(id, &OpenQuestion(id.clone())),
            _ => writes.delete::<OpenQuestion>(id),
        }
    }
}

impl Keyed for Question {
    fn key(&self) -> QuestionId {
        self.id.clone()
    }
}

/// The mark of a question that waits for an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpenQuestion(pub QuestionId);

/// Something that waits for a person until it ends, and is kept as long as ended tasks are.
pub trait Waits: Keyed + DeserializeOwned {
    /// What marks those that wait: they are found without reading the others.
    type Mark: Record<Key = Self::Key>;

    fn created_at(&self) -> Timestamp;

    fn expires_at(&self) -> Timestamp;

    /// What it has in common with others.
    fn facet(&self) -> WaitFacet<'_>;

    /// Nobody has waited for it since before a moment.
    fn has_ended_before(&self, cut: Timestamp) -> bool;
}

impl Waits for Approval {
    type Mark = PendingApproval;

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    fn facet(&self) -> WaitFacet<'_> {
        let (team, status, kind) =
            (self.team.name.as_str(), self.status.as_str(), self.kind.as_str());
        WaitFacet { team, status, kind }
    }

    fn has_ended_before(&self, cut: Timestamp) -> bool {
        self.status != Status::Pending && self.resolved_at.unwrap_or(self.expires_at) < cut
    }
}

impl Waits for Question {
    type Mark = OpenQuestion;

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn expires_at(&self) -> Timestamp {
        self.expires_at
    }

    fn facet(&self) -> WaitFacet<'_> {
        let (team, status, kind) =
            (self.team.name.as_str(), self.status.as_str(), self.kind.as_str());
        WaitFacet { team, status, kind }
    }

    fn has_ended_before(&self, cut: Timestamp) -> bool {
        self.status != QuestionStatus::Open && self.answered_at.unwrap_or(self.expires_at) < cut
    }
}

/// Shows all that are kept, in no order.
pub fn each<R: Waits>(storage: &dyn Storage, visit: &mut dyn FnMut(R)) -> Result<(), StorageError> {
    Range::all().for_each(storage, visit)
}

/// Shows those that wait, in no order.
pub fn each_waiting<R: Waits>(
    storage: &dyn Storage,
    visit: &mut dyn FnMut(R),
) -> Result<(), StorageError> {
    for key in Range::<R::Mark>::all().keys(storage)? {
        if let Some(key) = parse::<R::Mark>(&key) {
            get_readable::<R>(storage, &key)?.into_iter().for_each(&mut *visit);
        }
    }
    Ok(())
}

pub fn waiting<R: Waits>(storage: &dyn Storage) -> Result<Vec<R>, StorageError> {
    let mut rows = Vec::new();
    each_waiting(storage, &mut |row| rows.push(row))?;
    Ok(rows)
}

pub fn count_pending(storage: &dyn Storage) -> Result<usize, StorageError> {
    Ok(Range::<PendingApproval>::all().keys(storage)?.len())
}

/// All that are kept, oldest first.
pub fn all<R: Waits>(storage: &dyn Storage) -> Result<Vec<R>, StorageError> {
    let mut rows = scan::<R>(storage, Range::all())?;
    rows.sort_by_key(R::created_at);
    Ok(rows)
}

/// An approval by its id or its short id; of several with that short id, the newest.
pub fn called(storage: &dyn Storage, name: &str) -> Result<Option<Approval>, StorageError> {
    if name.starts_with("apr-") {
        return get(storage, &ApprovalId::from(name));
    }
    let Some(ShortId(id)) = get(storage, name)? else { return Ok(None) };
    get(storage, &id)
}

/// The stored keys of all that is kept of an approval.
pub(crate) fn keys_of(
    storage: &dyn Storage,
    approval: &Approval,
) -> Result<Vec<Vec<u8>>, StorageError> {
    let mut keys = vec![key_of(Approval::KIND, &approval.id)];
    // A short id may have been given to another since.
    let named = get_readable::<ShortId>(storage, approval.short_id.as_str())?;
    if named.is_some_and(|ShortId(id)| id == approval.id) {
        keys.push(key_of(ShortId::KIND, &approval.short_id));
    }
    Ok(keys)
}

/// What a former process left behind.
#[derive(Debug, Default)]
pub struct Recovered {
    pub approvals: Vec<Approval>,
    pub questions: Vec<Question>,
    pub open: HashSet<TaskId>,
    /// Decided on, and the turn that waits may not have heard of it.
    pub decided: Vec<Approval>,
}

impl Recovered {
    /// What a store holds for these open tasks. Blocks.
    pub fn read(storage: &dyn Storage, tasks: &[Box<Task>]) -> Result<Self, StorageError> {
        let approvals = waiting::<Approval>(storage)?;
        let questions = waiting(storage)?;
        let asked_for: HashSet<_> = approvals.iter().filter_map(|row| row.task.clone()).collect();
        let unheard: HashSet<&TaskId> = tasks
            .iter()
            .filter(|task| {
                let parked = task.parked.as_ref().map(|parked| parked.reason);
                matches!(parked, Some(WaitReason::Approval | WaitReason::Budget))
                    && !asked_for.contains(&task.id)
            })
            .map(|task| &task.id)
            .collect();
        // Only after a crash between a decision and its telling is there anything to look for.
        let decided = if unheard.is_empty() {
            Vec::new()
        } else {
            let mut rows = all::<Approval>(storage)?;
            rows.retain(|row| row.task.as_ref().is_some_and(|task| unheard.contains(task)));
            rows
        };
        Ok(Self {
            approvals,
            questions,
            open: tasks.iter().map(|task| task.id.clone()).collect(),
            decided,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        approvals::question::AnswerKind,
        ids::TeamKey,
        live::watch::Filter,
        task::{Label, Lane, Lineage, cause::Cause},
    };

    const TOPIC: &str = "topic-1";

    /// OP-41
    #[test]
    fn questions_are_found_by_team_topic_and_task() {
        let question = Question {
            id: "question-1".into(),
            team: TeamKey::first("main"),
            lane: Lane { team: "main".into(), topic: Some(TOPIC.into()) },
            task: "task-1".into(),
            question: "Which?".to_owned(),
            options: Vec::new(),
            multi: false,
            kind: AnswerKind::Text,
            key: None,
            status: QuestionStatus::Open,
            answer: None,
            by: None,
            source: None,
            lineage: Lineage { root: "task-1".into(), path: Vec::new() },
            label: Label::default(),
            cause: Cause::System,
            created_at: Timestamp(1),
            expires_at: Timestamp(2),
            answered_at: None,
        };
        let event = question.told(&question.id).unwrap();
        let of_topic = |topic: &str| Filter { topic: Some(topic.into()), ..Filter::default() };

        assert!(Filter { team: Some("main".into()), ..Filter::default() }.passes(&event));
        assert!(of_topic(TOPIC).passes(&event));
        assert!(!of_topic("topic-2").passes(&event));
        assert!(Filter { task: Some("task-1".into()), ..Filter::default() }.passes(&event));
    }
}
