//! Ends of tasks: what is written then, whoever ends it. One commit, one terminal frame.

use crate::{
    channel::records::OutboxWrites,
    excerpt,
    frame::{
        Ack, Body, ErrorBody, FRAME_TEXT, Frame, FrameUsage, Notification, NotificationKind,
        Response,
    },
    ids::{Ids, MessageId, TaskId},
    notice::{Notice, NoticeKind},
    org::view::OrgView,
    store::records::Writes,
    task::{
        Kind, Label, OnResult, Task,
        outcome::{Ending, Outcome},
        records::{FinishedTask, LaneKey},
    },
};

pub(crate) mod results;

/// An ack holds at most this many characters.
const ACK_LENGTH: usize = 2_000;
/// The reason of a failure holds at most this many characters: the text so far stands beside it.
const LONGEST_ERROR: usize = 4_000;

/// The sentence of an ack when the model has said nothing yet.
pub(crate) const WORKING: &str = "Working on it.";

/// A task that has its end, not yet written.
pub(crate) struct Closed {
    /// All that becomes durable with it.
    pub(crate) writes: Writes,
    /// Work for the lane that asked. It is among the writes.
    pub(crate) follow_up: Option<Task>,
    /// The lane that finds something in its inbox.
    pub(crate) told: Option<LaneKey>,
}

/// Ends a task that no turn ends.
pub(crate) fn close(task: &mut Task, outcome: Outcome, ids: &Ids, view: &OrgView) -> Closed {
    close_turn(task, Label::Trusted, outcome, "", None, ids, view)
}

/// Ends a task with its turn: its row, the frames that tell of it, its row in the interaction log, and the
/// one event for the lane that asked, or for the operator if that is gone.
///
/// The turn's words are believed as far as all that it had read. `first_words` is what the model said first,
/// for an ack that has not been sent yet.
pub(crate) fn close_turn(
    task: &mut Task,
    read: Label,
    outcome: Outcome,
    first_words: &str,
    joined: Option<&TaskId>,
    ids: &Ids,
    view: &OrgView,
) -> Closed {
    task.label = task.label.max(read);
    let mut writes = Writes::new();
    if let Some(source) = task.source.clone() {
        let at = outcome.finished_at;
        let frame = |body| Frame { topic: source.topic.clone(), ts: at, body };
        if let Some(message) = &source.message {
            if !task.acked {
                let ack = ack(task, message, first_words, 0);
                writes = writes.frame(&source.channel, frame(Body::Ack(ack)));
            }
            let end = terminal(task, message, &outcome, joined);
            writes = writes.frame(&source.channel, frame(end));
        } else if task.is_notified(&outcome) {
            let notification = Body::Notification(notification(task, &outcome));
            writes = writes.frame(&source.channel, frame(notification));
        }
    }
    if outcome.ending == Ending::Dead {
        let team = &task.lane.team;
        let text = format!("A task of team {team} was given up: {}", outcome.explanation());
        let (kind, refs) = (NoticeKind::DeadTask, vec![task.id.to_string()]);
        writes = writes.put(&Notice::of_team(ids, kind, team, text, refs, outcome.finished_at));
    }
    let mut follow_up = None;
    let mut told = None;
    if let Some(lane) = task.reply_to.clone() {
        match task.on_result {
            _ if results::asker_is_gone(task, view) => {
                writes = writes.put_all(&results::for_operator(task, &outcome, view, ids));
            }
            OnResult::Wake => {
                let result = results::follow_up(task, &outcome, lane, ids);
                writes = writes.put(&result);
                follow_up = Some(result);
            }
            OnResult::Notify | OnResult::Silent => {
                let event = results::event(task, &outcome);
                let asker = LaneKey { lane, generation: task.asker };
                writes = writes.put_at(&(asker.clone(), ids.arrival()), &event);
                told = Some(asker);
            }
        }
    }
    Closed { writes: finish(task, outcome, writes), follow_up, told }
}

fn finish(task: &mut Task, outcome: Outcome, writes: Writes) -> Writes {
    task.acked = true;
    task.lease = None;
    task.parked = None;
    task.outcome = Some(outcome);
    writes.put(&FinishedTask::of(task))
}

/// Ends a task that had ended before the store was put back to an earlier state. Whoever waited for it was told then; the lane
/// that asked, which may have forgotten, finds it in its inbox.
pub fn recovered(task: &mut Task, outcome: Outcome) -> Writes {
    let event = task.reply_to.clone().map(|lane| {
        // The place of the task is nobody else's.
        let place = (LaneKey { lane, generation: task.asker }, task.arrival);
        (place, results::event(task, &outcome))
    });
    let mut writes = Writes::new();
    if let Some((place, event)) = &event {
        writes = writes.put_at(place, event);
    }
    finish(task, outcome, writes)
}

/// The ack of a message: the model's first words, or a fixed sentence.
pub(crate) fn ack(task: &Task, message: &MessageId, first_words: &str, position: u64) -> Ack {
    let generated = !first_words.trim().is_empty();
    let content = if generated {
        excerpt::excerpt(first_words, ACK_LENGTH, "they follow")
    } else {
        WORKING.to_owned()
    };
    Ack {
        task_id: Some(task.id.clone()),
        generated,
        position,
        accepted_at: Some(task.created_at),
        team: task.other_team(),
        ..Ack::new(content, message.clone())
    }
}

fn terminal(task: &Task, message: &MessageId, outcome: &Outcome, joined: Option<&TaskId>) -> Body {
    let rest = excerpt::of_task(&task.id);
    let (content, cut) = excerpt::framed(&outcome.text, FRAME_TEXT, &rest);
    match outcome.ending {
        Ending::Done | Ending::Cancelled => Body::Response(Response {
            content,
            message_id: message.clone(),
            task_id: Some(task.id.clone()),
            status: outcome.ending.as_str().to_owned(),
            joined_task_id: joined.cloned(),
            truncated: cut || outcome.truncated,
            usage: Some(FrameUsage {
                input: outcome.usage.input,
                output: outcome.usage.output,
                cost_usd: outcome.usage.cost_usd,
            }),
        }),
        Ending::Failed | Ending::Expired | Ending::Dead => {
            let code = outcome.code.map_or(outcome.ending.as_str(), |code| code.as_str());
            let error = excerpt::excerpt(&outcome.explanation(), LONGEST_ERROR, &rest);
            Body::Error(ErrorBody {
                content: (!content.is_empty()).then_some(content),
                truncated: cut,
                message_id: Some(message.clone()),
                task_id: Some(task.id.clone()),
                ..ErrorBody::refusal(code, error)
            })
        }
    }
}

fn notification(task: &Task, outcome: &Outcome) -> Notification {
    let kind = match task.kind {
        Kind::Escalation => NotificationKind::Escalation,
        _ => NotificationKind::Task,
    };
    let team = &task.lane.team;
    let text = match outcome.ending {
        Ending::Done => format!("[{team}] {}", outcome.text),
        _ => format!("[{team}] {}", outcome.explanation()),
    };
    let told = Notification::new(kind, team.clone(), text, &excerpt::of_task(&task.id));
    Notification {
        task_id: Some(task.id.clone()),
        status: outcome.ending.as_str().to_owned(),
        truncated: told.truncated || outcome.truncated,
        ..told
    }
}
