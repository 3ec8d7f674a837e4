//! Results: what the lane that asked for work learns of its end. One event, whatever the end.

use crate::{
    clock::{Timestamp, millis},
    excerpt::{self, Part},
    ids::{Ids, TaskId, TeamKey, TeamName},
    inbox::InboxEvent,
    notice::{Notice, NoticeKind},
    org::{
        roster::{Availability, Roster},
        view::OrgView,
    },
    task::{
        Kind, Lane, Lineage, OnResult, Source, Task,
        outcome::{Ending, Outcome},
    },
};

/// An inbox shows this many characters of a result.
const MAX_INBOX_CHARACTERS: usize = 2_000;
/// A turn that is woken for a result is shown this many.
const MAX_RESULT_CHARACTERS: usize = 10_000;

/// The event for the inbox of the lane that asked.
pub(super) fn event(task: &Task, outcome: &Outcome) -> InboxEvent {
    InboxEvent {
        id: format!("{}:end", task.id),
        text: describe(task, outcome, MAX_INBOX_CHARACTERS),
        label: task.label,
        at: outcome.finished_at,
        audience: Some(task.audience()),
    }
}

/// The team that asked is no more, or is being shut down. Its successor is another.
pub(super) fn asker_is_gone(task: &Task, view: &OrgView) -> bool {
    task.reply_to.as_ref().is_some_and(|lane| {
        let asker = TeamKey { name: lane.team.clone(), generation: task.asker };
        view.availability(&asker) == Availability::Gone
    })
}

/// The event for the operator, if nobody else is there to get it.
///
/// None if the work ended with the team that asked, in one shutdown.
pub(super) fn for_operator(
    task: &Task,
    outcome: &Outcome,
    view: &OrgView,
    ids: &Ids,
) -> Option<Notice> {
    let both = outcome.ending == Ending::Cancelled
        && view.availability(&task.team()) == Availability::Gone;
    let text = || describe(task, outcome, MAX_INBOX_CHARACTERS);
    (!both).then(|| orphan(ids, &task.lane.team, text(), &task.id, outcome.finished_at))
}

/// A result that waits for a team that went away meanwhile, for the operator.
pub(crate) fn undeliverable(result: &Task, ids: &Ids, at: Timestamp) -> Notice {
    let told = excerpt::excerpt(&result.body, MAX_INBOX_CHARACTERS, &excerpt::of_task(&result.id));
    orphan(ids, &result.from.as_str().into(), told, &result.id, at)
}

fn orphan(ids: &Ids, team: &TeamName, told: String, task: &TaskId, at: Timestamp) -> Notice {
    let text = format!("The team that asked for this is gone. {told}");
    Notice::of_team(ids, NoticeKind::Orphan, team, text, vec![task.to_string()], at)
}

/// The task that wakes the lane that asked.
pub(super) fn follow_up(task: &Task, outcome: &Outcome, lane: Lane, ids: &Ids) -> Task {
    let source = task.source.as_ref().map(|source| Source { message: None, ..source.clone() });
    let above = task.lineage.as_ref().map(|line| Lineage {
        root: line.root.clone(),
        path: line.path[..line.path.len().saturating_sub(1)].to_vec(),
    });
    Task {
        kind: Kind::Result,
        generation: task.asker,
        arrival: ids.arrival(),
        on_result: match source {
            Some(_) => OnResult::Notify,
            None => OnResult::Silent,
        },
        source,
        lineage: above,
        label: task.label,
        cause: task.cause.clone(),
        ..Task::new(
            result_of(&task.id),
            lane,
            describe(task, outcome, MAX_RESULT_CHARACTERS),
            task.lane.team.to_string(),
            outcome.finished_at,
        )
    }
}

/// The task that wakes a lane for a result is named after what it is the result of, so that it is
/// found again by whoever finds the end.
pub(crate) fn result_of(task: &TaskId) -> TaskId {
    format!("{task}{END}").into()
}

const END: &str = "-end";

impl Task {
    /// The task whose end this one tells to whoever asked for it.
    pub fn told_end(&self) -> Option<TaskId> {
        let told = self.id.as_str().strip_suffix(END)?;
        (self.kind == Kind::Result).then(|| told.into())
    }
}

/// The end in words, quoted with its source.
fn describe(task: &Task, outcome: &Outcome, most: usize) -> String {
    let what = match task.kind {
        Kind::Escalation => "Answer to your escalation",
        Kind::Handoff => "End of the work you handed up",
        _ => "Result of the task you gave",
    };
    let rest = excerpt::to_read(task.id.as_str(), Part::Result, most);
    let said = excerpt::excerpt(&outcome.text, most, &rest);
    let text = match outcome.ending {
        Ending::Done => said,
        _ if said.is_empty() => outcome.explanation(),
        _ => format!("{}\nSo far: {said}", outcome.explanation()),
    };
    format!(
        "{what} (team {}, task {}, {}):\n<<<\n{text}\n>>>\n{}",
        task.lane.team,
        task.id,
        outcome.ending.as_str(),
        figures(task, outcome)
    )
}

/// What the work took, in one line.
fn figures(task: &Task, outcome: &Outcome) -> String {
    let error = match outcome.code {
        Some(code) => format!("error: {}, ", code.as_str()),
        None => String::new(),
    };
    let usage = &outcome.usage;
    let tokens = usage.tokens();
    let cost = match usage.cost_usd {
        Some(usd) => format!(", {usd:.4} USD"),
        None => String::new(),
    };
    format!(
        "({error}attempts: {}, duration_ms: {}, usage: {tokens} tokens{cost}, finished_at: {})",
        task.attempts,
        millis(outcome.finished_at.since(task.created_at)),
        outcome.finished_at.date()
    )
}

#[cfg(test)]
mod tests;
