//! Tasks as they go on.

use std::collections::BTreeMap;

use hivewright_actors::{
    live::event::Kind,
    task::{TaskState, WaitReason},
};
use serde::Deserialize;
use serde_json::Value;

use super::SHOWN;
use crate::{
    api::{
        endpoint::ById,
        events::EventFilter,
        tasks::{LIST_TASKS, SHOW_TASK, TaskFault, TaskFilter, TaskRow, standing},
        when::Moment,
    },
    cli::{
        answer::read,
        client::Service,
        context::Context,
        events::{Follower, Step},
        failure::{Exit, Failure},
        screen::{Screen, printable},
        table::{beginning, one_line, to_the_second},
    },
};

/// What a task that has not ended can be in.
const OPEN: [TaskState; 3] = [TaskState::Running, TaskState::Waiting, TaskState::Accepted];

/// A task at one moment, from its row or from an event about it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Seen {
    id: String,
    team: String,
    state: TaskState,
    #[serde(default)]
    wait_reason: Option<WaitReason>,
    #[serde(default)]
    attempts: u32,
    #[serde(default)]
    body: String,
    /// When the event was; rows have none.
    #[serde(default)]
    at: Option<Moment>,
    created_at: Option<Moment>,
}

impl Seen {
    fn same(&self, other: &Self) -> bool {
        let reason = self.wait_reason.zip(other.wait_reason);
        self.state == other.state
            && self.attempts == other.attempts
            // A row tells that its team is paused; an event about the task does not know.
            && reason.is_none_or(|(one, another)| one == another)
    }

    fn line(&self) -> String {
        let state = standing(self.state, self.wait_reason);
        let at = self.at.or(self.created_at).map(to_the_second).unwrap_or_default();
        let words = beginning(&self.body, SHOWN);
        let line = format!("{at}  {}  {}  {state}  {words}", self.id, self.team);
        one_line(printable(line.trim_end()))
    }
}

/// What was shown of each task that has not ended.
#[derive(Debug, Default)]
struct Shown(BTreeMap<String, Seen>);

impl Shown {
    /// Notes how a task is now, and says whether that is news.
    fn is_news(&mut self, seen: &Seen) -> bool {
        let known = if seen.state.is_open() {
            self.0.insert(seen.id.clone(), seen.clone())
        } else {
            self.0.remove(&seen.id)
        };
        !known.is_some_and(|known| known.same(seen))
    }
}

/// Shows how a task is, if that is news. False if nobody reads it any more.
fn tell(row: &Value, shown: &mut Shown, screen: Screen) -> Result<bool, Failure> {
    let seen: Seen = read(row)?;
    Ok(match (shown.is_news(&seen), screen.json) {
        (false, _) => true,
        (true, true) => screen.follow(&row.to_string()),
        (true, false) => screen.follow(&seen.line()),
    })
}

/// Follows one task to its end.
pub(super) async fn one(id: &str, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let path = ById { id: id.to_owned() };
    let found = Service::find(context)?.at(&SHOW_TASK, &path).await?.data()?;
    let filter = EventFilter {
        team: Some(found.row.team.to_string()),
        task: Some(id.to_owned()),
        ..EventFilter::of([Kind::TaskChanged])
    };
    let mut follower = Follower::open(context, filter).await?;
    let mut shown = Shown::default();
    loop {
        follower.next().await?;
        let answer = follower.read(async |service: &Service| service.at(&SHOW_TASK, &path).await);
        let row = answer.await?.document["data"].take();
        if !tell(&row, &mut shown, screen)? {
            return Ok(());
        }
        if !read::<Seen>(&row)?.state.is_open() {
            return end(read(&row)?, screen);
        }
    }
}

/// What came of a task.
fn end(TaskRow { id, state, outcome, .. }: TaskRow, screen: Screen) -> Result<(), Failure> {
    let (result, error) = outcome.map(|ended| (ended.result, ended.error)).unwrap_or_default();
    if !screen.json && !result.is_empty() {
        screen.say(&screen.harmless(&result));
    }
    if state == TaskState::Done {
        return Ok(());
    }
    let reason = error.map_or(String::new(), |TaskFault { code, message }| {
        let why = message.filter(|why| !why.is_empty()).map(|why| format!(": {why}"));
        format!(": {code}{}", why.unwrap_or_default())
    });
    Err(screen.failure(Exit::Failed, format!("{id} is {state}{reason}")))
}

/// Follows all tasks, or those of a team.
pub(super) async fn all(team: Option<String>, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let filter = EventFilter { team: team.clone(), ..EventFilter::of([Kind::TaskChanged]) };
    let mut follower = Follower::open(context, filter).await?;
    let mut shown = Shown::default();
    loop {
        let rows = match follower.next().await? {
            Step::Event { data, .. } => vec![data],
            Step::Begin => {
                let known: Vec<String> = shown.0.keys().cloned().collect();
                let team = team.clone();
                let read = async |service: &Service| open(service, team.clone(), &known).await;
                follower.read(read).await?
            }
        };
        for row in &rows {
            if !tell(row, &mut shown, screen)? {
                return Ok(());
            }
        }
    }
}

/// All that is open, and what became of that which was.
async fn open(
    service: &Service,
    team: Option<String>,
    known: &[String],
) -> Result<Vec<Value>, Failure> {
    let mut rows = Vec::new();
    for state in OPEN {
        let filter = TaskFilter { state: Some(state), team: team.clone(), ..TaskFilter::default() };
        let mut answer = service.rows(&LIST_TASKS, &filter).await?;
        if let Value::Array(more) = answer.document["data"].take() {
            rows.extend(more);
        }
    }
    for id in known {
        if !rows.iter().any(|row| row["id"] == id.as_str()) {
            let path = ById { id: id.clone() };
            rows.push(service.at(&SHOW_TASK, &path).await?.document["data"].take());
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    fn seen(state: &str) -> Seen {
        read(&json!({
            "id": "task-1", "team": "ops", "state": state, "body": "Dig\na hole.", "attempts": 1,
            "created_at": "2026-11-14T23:46:40.000Z",
        }))
        .unwrap()
    }

    /// OP-79: events may tell what was read already.
    #[test]
    fn a_change_is_told_once() {
        let mut shown = Shown::default();

        let states = ["accepted", "accepted", "running", "running", "done"];
        let told = states.map(|state| shown.is_news(&seen(state)));

        assert_eq!(told, [true, false, true, false, true]);
        assert!(shown.0.is_empty());
    }

    #[test]
    fn a_line_says_when_which_and_how() {
        let mut waiting = seen("waiting");
        waiting.wait_reason = Some(WaitReason::Approval);
        waiting.at = "2026-11-14T23:50:00.000Z".parse().ok();

        assert_eq!(
            waiting.line(),
            "2026-11-14 23:50:00  task-1  ops  waiting (approval)  Dig a hole."
        );
    }
}
