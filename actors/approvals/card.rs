//! Cards: how approvals and questions look in a conversation.

use super::{
    question::{AnswerKind, Question, QuestionStatus},
    record::{Approval, Status},
};
use crate::{
    clock::Timestamp,
    excerpt,
    frame::{Body, Frame, Notification, NotificationKind},
    task::Source,
};

/// Arguments are shown up to this many characters.
const MAX_ARGUMENT_CHARACTERS: usize = 2_000;
/// So many characters of a question say which one was answered.
const MAX_QUESTION_CHARACTERS: usize = 200;
/// So much of a digest is for people.
const DIGEST_CHARACTERS: usize = 8;

/// A request, shown where the work comes from.
pub fn approval(approval: &Approval) -> Frame {
    approval_frame(approval, "pending", describe(approval), approval.created_at)
}

/// What became of a request, for those who saw it there.
pub fn resolved(approval: &Approval, now: Timestamp) -> Frame {
    let name = &approval.short_id;
    let who = approval.resolved_by.as_deref().unwrap_or("nobody");
    let who = if approval.alone { format!("{who} alone") } else { who.to_owned() };
    let tool = approval.tool.as_deref().unwrap_or(approval.kind.as_str());
    let text = match approval.status {
        Status::Approved => format!("Approved by {who}: {tool} ({name})."),
        Status::Denied => match &approval.note {
            Some(note) => format!("Denied by {who}: {tool} ({name}): {note}"),
            None => format!("Denied by {who}: {tool} ({name})."),
        },
        Status::Expired => format!("Expired without a decision: {tool} ({name})."),
        Status::Cancelled | Status::Pending => format!("Cancelled: {tool} ({name})."),
    };
    approval_frame(approval, approval.status.as_str(), text, now)
}

fn approval_frame(approval: &Approval, status: &str, text: String, ts: Timestamp) -> Frame {
    let team = approval.team.name.clone();
    let text = format!("[{team}] {text}");
    let notification = Notification {
        task_id: approval.task.clone(),
        status: status.to_owned(),
        ref_id: Some(approval.id.to_string()),
        by: approval.resolved_by.clone(),
        ..Notification::new(NotificationKind::Approval, team, text, &to_show(approval))
    };
    shown(approval.source.as_ref(), ts, notification)
}

/// Everything that a person needs to decide.
pub fn describe(approval: &Approval) -> String {
    let name = &approval.short_id;
    let tool = approval.tool.as_deref().unwrap_or(approval.kind.as_str());
    let mut lines = vec![format!("wants to use {tool}. {}", approval.summary)];
    let cut = |text: &str| excerpt::excerpt(text, MAX_ARGUMENT_CHARACTERS, &to_show(approval));
    match &approval.diff {
        Some(diff) => lines.push(cut(diff)),
        None => lines.push(format!("Arguments: {}", cut(&approval.arguments.to_string()))),
    }
    lines.extend(approval.warnings().map(str::to_owned));
    lines.push(format!(
        "Digest {}. Decide with /approve {name} or /deny {name} <why>.",
        digest(approval)
    ));
    lines.join("\n")
}

/// One line of the list of what waits.
pub fn line(approval: &Approval, now: Timestamp) -> String {
    let left = match approval.expires_at.since(now).as_secs() / 60 {
        minutes @ 0..120 => format!("{minutes} min"),
        minutes => format!("{} h", minutes / 60),
    };
    let tool = approval.tool.as_deref().unwrap_or(approval.kind.as_str());
    format!(
        "{}: {tool} of {} (digest {}, {left} left). {}",
        approval.short_id,
        approval.team.name,
        digest(approval),
        approval.summary
    )
}

/// A question, shown where the work comes from.
pub fn question(question: &Question) -> Frame {
    let mut lines = vec![format!("asks: {}", question.question)];
    lines.extend(question.options.iter().map(|option| format!("- {option}")));
    lines.push(match question.kind {
        AnswerKind::Text => format!("Answer with /answer {} <text>.", question.id),
        AnswerKind::Secret => format!(
            "It asks for a secret: answer with `hivewright questions answer {}`, not in a chat.",
            question.id
        ),
    });
    question_frame(question, &lines.join("\n"), question.created_at)
}

/// What became of a question, for those who saw it there. The answer itself is for the team.
pub fn closed(question: &Question, now: Timestamp) -> Frame {
    let about = format!(
        "{} ({}).",
        excerpt::line(&question.question, MAX_QUESTION_CHARACTERS),
        question.id
    );
    let text = match question.status {
        QuestionStatus::Answered => {
            format!("Answered by {}: {about}", question.by.as_deref().unwrap_or("nobody"))
        }
        QuestionStatus::Expired => format!("Expired without an answer: {about}"),
        QuestionStatus::Cancelled | QuestionStatus::Open => format!("Cancelled: {about}"),
    };
    question_frame(question, &text, now)
}

fn question_frame(question: &Question, text: &str, ts: Timestamp) -> Frame {
    let team = question.team.name.clone();
    let text = format!("[{team}] {text}");
    let rest = "`hivewright questions list`";
    let notification = Notification {
        task_id: Some(question.task.clone()),
        status: question.status.as_str().to_owned(),
        ref_id: Some(question.id.to_string()),
        by: question.by.clone(),
        ..Notification::new(NotificationKind::Question, team, text, rest)
    };
    shown(question.source.as_ref(), ts, notification)
}

fn shown(source: Option<&Source>, ts: Timestamp, notification: Notification) -> Frame {
    let topic = source.and_then(|source| source.topic.clone());
    Frame { topic, ts, body: Body::Notification(notification) }
}

fn digest(approval: &Approval) -> &str {
    approval.digest.get(..DIGEST_CHARACTERS).unwrap_or(&approval.digest)
}

/// Where all of a request is shown.
fn to_show(approval: &Approval) -> String {
    format!("`hivewright approvals show {}`", approval.short_id)
}
