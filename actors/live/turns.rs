//! Turns under way: enough of each to draw it after a reload, and to go on with what comes.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::event::{Data, Event, Moment, Stream, TurnEvent, date};
use crate::{
    clock::Timestamp,
    excerpt,
    ids::{CallId, TaskId, TeamName, TopicId, TurnId},
    task::TaskState,
    usage::Usage,
};

/// So many characters of a result are kept with its call.
const MAX_RESULT_CHARACTERS: usize = 500;
/// No more text of a turn than this is kept, in bytes.
const LONGEST_TEXT: usize = 1024 * 1024;
/// No more turns than this are kept: beyond, those go that wait.
const MAX_TURNS: usize = 1_000;

/// A turn under way.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ActiveTurn {
    /// Its task.
    pub task_id: Option<TaskId>,
    /// The turn.
    pub turn: TurnId,
    /// Whose.
    pub team: TeamName,
    /// Its session.
    pub session_id: String,
    /// Its topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_id: Option<TopicId>,
    /// When it began, or went on.
    #[serde(serialize_with = "date")]
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// Its step, from 1.
    pub step: u32,
    /// `running` or `waiting`.
    pub state: &'static str,
    /// What it waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_reason: Option<&'static str>,
    /// What it cost so far.
    pub usage: Usage,
    /// The engine.
    pub sdk: String,
    /// The model.
    pub model: String,
    /// The newest event that is in here.
    pub seq: u64,
    /// The last note on it, until it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What it has said and done.
    pub active_turn: Content,
    /// Where the present step begins in text and thinking.
    #[serde(skip)]
    marks: (usize, usize),
}

/// Where a running turn is found in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnPlace {
    pub task: TaskId,
    pub turn: TurnId,
    /// When it began, or went on.
    pub started_at: Timestamp,
}

/// What a turn has said and done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// What it was asked.
    pub user_text: String,
    /// What it thought.
    pub thinking: String,
    /// What it said.
    pub text: String,
    /// What it did.
    pub tool_calls: Vec<ActiveCall>,
}

/// A call of a turn.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActiveCall {
    /// The call.
    pub id: CallId,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
    /// `pending`, `running`, `done` or `failed`.
    pub status: &'static str,
    /// When it was asked for.
    #[serde(serialize_with = "date")]
    #[schemars(with = "String")]
    pub started_at: Timestamp,
    /// The beginning of its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Turns {
    turns: HashMap<TurnId, ActiveTurn>,
    /// The turn that works on a task.
    tasks: HashMap<TaskId, TurnId>,
}

impl Turns {
    /// All of them, oldest first.
    pub(super) fn all(&self) -> Vec<ActiveTurn> {
        let mut turns: Vec<ActiveTurn> = self.turns.values().cloned().collect();
        turns.sort_by_key(|turn| (turn.started_at, turn.turn.clone()));
        turns
    }

    /// The turn of a topic, the one that runs before one that waits.
    pub(super) fn of_topic(&self, topic: &TopicId) -> Option<ActiveTurn> {
        let own = self.turns.values().filter(|turn| turn.topic_id.as_ref() == Some(topic));
        own.min_by_key(|turn| (turn.state, turn.started_at)).cloned()
    }

    /// The turn that runs in a session. One that waits does not hold it.
    pub(super) fn in_session(&self, id: &str) -> Option<TurnPlace> {
        let own = |turn: &&ActiveTurn| turn.session_id == id && turn.state == "running";
        let turn = self.turns.values().find(own)?;
        let task = turn.task_id.clone()?;
        Some(TurnPlace { task, turn: turn.turn.clone(), started_at: turn.started_at })
    }

    /// Whether an event says nothing that was not said before.
    pub(super) fn knows(&self, event: &Event) -> bool {
        match &event.data {
            Data::Task(task) => task.state == TaskState::Running && self.runs(&task.id),
            _ => false,
        }
    }

    fn runs(&self, task: &TaskId) -> bool {
        let turn = self.tasks.get(task).and_then(|turn| self.turns.get(turn));
        turn.is_some_and(|turn| turn.state == "running")
    }

    /// Takes in what happened.
    pub(super) fn fold(&mut self, seq: u64, at: Timestamp, event: &Event) {
        match &event.data {
            Data::Turn(told) => self.fold_turn(seq, at, event, told),
            Data::Task(task) => {
                let is_over = match task.state {
                    TaskState::Running | TaskState::Waiting => false,
                    // One that waited goes on; one that ran has been cut off.
                    TaskState::Accepted => self.runs(&task.id),
                    _ => true,
                };
                if is_over && let Some(turn) = self.tasks.remove(&task.id) {
                    self.turns.remove(&turn);
                }
            }
            _ => {}
        }
    }

    fn fold_turn(&mut self, seq: u64, at: Timestamp, event: &Event, told: &TurnEvent) {
        match &told.moment {
            Moment::TurnStart { .. } => self.begin(seq, at, event, told),
            Moment::TurnEnd { .. } | Moment::State { state: "stopped", .. } => {
                self.forget(&told.turn);
            }
            moment => {
                if let Some(turn) = self.turns.get_mut(&told.turn) {
                    turn.seq = seq;
                    turn.fold(at, moment);
                }
            }
        }
    }

    fn begin(&mut self, seq: u64, at: Timestamp, event: &Event, told: &TurnEvent) {
        let Moment::TurnStart { session_id, body, sdk, model, .. } = &told.moment else { return };
        let Some(team) = &event.team else { return };
        if self.turns.len() >= MAX_TURNS {
            self.make_room();
        }
        if let Some(task) = &event.task {
            self.tasks.insert(task.clone(), told.turn.clone());
        }
        let former = self.turns.remove(&told.turn);
        let mut turn = ActiveTurn {
            task_id: event.task.clone(),
            turn: told.turn.clone(),
            team: team.clone(),
            session_id: session_id.clone(),
            topic_id: event.topic.clone(),
            started_at: at,
            step: 1,
            state: "running",
            wait_reason: None,
            usage: Usage::default(),
            sdk: sdk.clone(),
            model: model.clone(),
            seq,
            note: None,
            active_turn: Content { user_text: body.clone(), ..Content::default() },
            marks: (0, 0),
        };
        // One that goes on after it waited keeps what it has said.
        if let Some(former) = former {
            turn.started_at = former.started_at;
            turn.step = former.step;
            turn.usage = former.usage;
            turn.active_turn = former.active_turn;
            turn.mark();
        }
        self.turns.insert(told.turn.clone(), turn);
    }

    fn make_room(&mut self) {
        let waiting = self.turns.values().filter(|turn| turn.state == "waiting");
        let oldest = waiting.min_by_key(|turn| turn.started_at);
        if let Some(turn) = oldest.map(|turn| turn.turn.clone()) {
            self.forget(&turn);
        }
    }

    fn forget(&mut self, turn: &TurnId) {
        if let Some(gone) = self.turns.remove(turn)
            && let Some(task) = gone.task_id
        {
            self.tasks.remove(&task);
        }
    }
}

impl ActiveTurn {
    /// Where its present step begins in text and thinking, in units of UTF-16 as browsers count.
    pub fn step_begins(&self) -> (usize, usize) {
        let units =
            |text: &str, end: usize| text.get(..end).map_or(0, |text| text.encode_utf16().count());
        let content = &self.active_turn;
        (units(&content.text, self.marks.0), units(&content.thinking, self.marks.1))
    }

    fn fold(&mut self, at: Timestamp, moment: &Moment) {
        let content = &mut self.active_turn;
        self.note = match moment {
            Moment::Note { text, .. } => Some(text.clone()),
            _ => None,
        };
        match moment {
            Moment::State { state: "waiting", reason, .. } => {
                self.state = "waiting";
                self.wait_reason = *reason;
            }
            Moment::State { step, usage, .. } => {
                if let Some(usage) = usage {
                    self.usage += *usage;
                }
                if let Some(step) = step {
                    // The step is over: what is said from here on is of the next.
                    self.step = step + 1;
                    self.mark();
                }
            }
            Moment::Stream { value } => match value {
                Stream::Text { data } => append(&mut content.text, data, self.marks.0),
                Stream::Thinking { data } => append(&mut content.thinking, data, self.marks.1),
                Stream::Reset => {
                    content.text.truncate(self.marks.0);
                    content.thinking.truncate(self.marks.1);
                }
                Stream::ToolCall { id, name, arguments } => {
                    content.tool_calls.push(ActiveCall {
                        id: id.clone(),
                        name: name.clone(),
                        arguments: arguments.clone(),
                        status: "pending",
                        started_at: at,
                        preview: None,
                    });
                    // Some engines run tools within a step: what follows stands apart all the same.
                    self.mark();
                }
                Stream::ToolStart { id, .. } => content.set(id, "running", None),
                Stream::ToolResult { id, content: said, is_error, .. } => {
                    let status = if *is_error { "failed" } else { "done" };
                    content.set(id, status, Some(excerpt::line(said, MAX_RESULT_CHARACTERS)));
                }
                Stream::FileOutput { .. }
                | Stream::ToolEnd { .. }
                | Stream::Done { .. }
                | Stream::Error { .. } => {}
            },
            _ => {}
        }
    }

    fn mark(&mut self) {
        let content = &self.active_turn;
        self.marks = (content.text.len(), content.thinking.len());
    }
}

impl Content {
    fn set(&mut self, id: &CallId, status: &'static str, preview: Option<String>) {
        // Models may use the name of a call again: the newest is meant.
        if let Some(call) = self.tool_calls.iter_mut().rev().find(|call| call.id == *id) {
            call.status = status;
            call.preview = preview;
        }
    }
}

/// Steps are parted by a blank line.
fn append(text: &mut String, more: &str, step_begins: usize) {
    if text.len() + more.len() > LONGEST_TEXT {
        return;
    }
    if step_begins > 0 && text.len() == step_begins {
        text.push_str("\n\n");
    }
    text.push_str(more);
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::{
        store::records::{Keyed, Record},
        task::{Lane, Parked, Task, WaitReason},
    };

    fn turn(moment: Moment) -> Event {
        let topic = TopicId::from("t-1");
        let task = TaskId::from("task-1");
        Event::turn(&"main".into(), Some(&topic), Some(&task), &"turn-1".into(), moment)
    }

    fn start() -> Event {
        turn(Moment::TurnStart {
            session_id: "main:t-1".to_owned(),
            from: "ann".to_owned(),
            body: "hello".to_owned(),
            sdk: "native".to_owned(),
            provider: "offline".to_owned(),
            model: "m".to_owned(),
            attempt: 1,
            redelivered: false,
        })
    }

    fn told(task: &Task) -> Event {
        task.told(&task.key()).unwrap()
    }

    fn says(text: &str) -> Event {
        let data = text.to_owned();
        turn(Moment::Stream { value: Stream::Text { data } })
    }

    fn stream(value: Stream) -> Event {
        turn(Moment::Stream { value })
    }

    fn step_over(step: u32) -> Event {
        turn(Moment::State {
            state: "running",
            reason: None,
            step: Some(step),
            usage: Some(Usage { input: 10, ..Usage::default() }),
        })
    }

    fn fold(events: &[Event]) -> Turns {
        let mut turns = Turns::default();
        for (seq, event) in (1..).zip(events) {
            turns.fold(seq, Timestamp(seq), event);
        }
        turns
    }

    fn task(parked: bool, lease: bool) -> Task {
        let lane = Lane { team: "main".into(), topic: Some("t-1".into()) };
        let mut task =
            Task::new("task-1".into(), lane, "hello".to_owned(), "ann".to_owned(), Timestamp(1));
        task.lease = lease.then(|| "lease".into());
        task.parked = parked.then_some(Parked {
            reason: WaitReason::Approval,
            since: Timestamp(1),
            until: None,
        });
        task
    }

    /// OP-45
    #[test]
    fn a_turn_under_way_can_be_drawn() {
        let id = CallId::from("c1");
        let turns = fold(&[
            start(),
            says("one "),
            says("two"),
            step_over(1),
            stream(Stream::ToolCall {
                id: id.clone(),
                name: "read".to_owned(),
                arguments: json!({"path": "a"}),
            }),
            stream(Stream::ToolStart { id: id.clone(), tool_name: "read".to_owned() }),
            stream(Stream::ToolResult {
                id,
                name: "read".to_owned(),
                content: "x".repeat(600),
                is_error: false,
                truncated: false,
                duration_ms: 3,
            }),
            says("three"),
        ]);

        let found = turns.of_topic(&"t-1".into()).unwrap();

        assert_eq!(found.active_turn.text, "one two\n\nthree");
        assert_eq!(found.active_turn.user_text, "hello");
        assert_eq!((found.step, found.seq, found.usage.input), (2, 8, 10));
        let [call] = found.active_turn.tool_calls.as_slice() else {
            unreachable!("one call");
        };
        assert_eq!((call.status, call.started_at), ("done", Timestamp(5)));
        assert_eq!(
            call.preview.as_ref().map(|text| text.chars().count()),
            Some(MAX_RESULT_CHARACTERS)
        );
    }

    #[test]
    fn a_step_that_begins_again_takes_its_text_back() {
        let turns = fold(&[
            start(),
            says("kept"),
            step_over(1),
            says("void"),
            stream(Stream::Reset),
            says("again"),
        ]);

        let found = turns.of_topic(&"t-1".into()).unwrap();

        assert_eq!(found.active_turn.text, "kept\n\nagain");
    }

    #[test]
    fn a_turn_that_waits_is_kept_and_one_whose_task_waits_anew_is_not() {
        let mut turns = fold(&[
            start(),
            says("one"),
            turn(Moment::State {
                state: "waiting",
                reason: Some("approval"),
                step: None,
                usage: None,
            }),
            told(&task(true, false)),
        ]);
        let waiting = turns.all();

        turns.fold(8, Timestamp(8), &told(&task(false, false)));
        turns.fold(9, Timestamp(9), &start());
        let goes_on = turns.all();
        turns.fold(10, Timestamp(10), &told(&task(false, false)));

        assert_eq!(waiting[0].wait_reason, Some("approval"));
        assert_eq!(goes_on[0].state, "running");
        assert_eq!(goes_on[0].active_turn.text, "one");
        assert!(turns.all().is_empty() && turns.tasks.is_empty());
    }

    #[test]
    fn a_lease_that_is_known_to_run_is_told_once() {
        let mut turns = Turns::default();
        let leased = told(&task(false, true));
        assert!(!turns.knows(&leased));

        turns.fold(1, Timestamp(1), &start());

        assert!(turns.knows(&leased));
        assert!(!turns.knows(&told(&task(false, false))));
    }
}
