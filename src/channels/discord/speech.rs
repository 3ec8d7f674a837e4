//! Speech: which text of a channel's frames is posted, and which is there already.

use std::{collections::HashMap, time::Duration};

use hivewright_actors::{
    channel::{
        outbound::Outbound,
        records::{DeliveryMark, SaidText},
    },
    file::FileRef,
    frame::{Body, ErrorBody, Notification, NotificationKind, Progress, ProgressKind, Response},
    ids::{MessageId, TaskId},
    task::WaitReason,
    text::sentence,
};
use tokio::time::Instant;

use crate::text;

/// Blocks of text within a turn are posted this far apart.
const APART: Duration = Duration::from_secs(5);
/// The most text that is kept of a block; a longer one is left to the answer.
const LONGEST_BLOCK: usize = 64 * 1024;
/// The most turns whose text is kept.
const MOST_TURNS: usize = 100;
const BREAK: &str = "\n\n";

/// What a frame makes to be posted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Saying {
    Text {
        text: String,
        /// The message that it answers.
        answers: Option<MessageId>,
        /// What a team gives to the person; without any the text is not blank.
        files: Vec<FileRef>,
    },
    /// A card with buttons; the text stands for it where they cannot be had.
    Card { kind: NotificationKind, id: String, text: String },
}

/// The turns under way of one channel.
#[derive(Debug, Default)]
pub(super) struct Speech {
    turns: HashMap<TaskId, Turn>,
}

#[derive(Debug, Default)]
struct Turn {
    /// The text that grows …
    block: String,
    /// … unless it has become too long to be kept.
    is_too_long: bool,
    /// Blocks that are complete and not posted yet.
    waiting: Vec<String>,
    posted_at: Option<Instant>,
    /// A card says what it waits for.
    has_card: bool,
}

impl Speech {
    /// Takes a frame in. What is in the mark has been posted; it is changed as if what this returns had been too.
    pub(super) fn take(
        &mut self,
        outbound: &Outbound,
        mark: &mut DeliveryMark,
        now: Instant,
    ) -> Option<Saying> {
        match &outbound.frame.body {
            Body::Ack(_) | Body::TopicList { .. } => None,
            Body::Progress(progress) => self.progress(progress, mark, now),
            Body::Response(response) => self.response(response, mark),
            Body::Error(error) => self.error(error, mark),
            Body::Notification(notification) => {
                let saying = card(notification);
                if let (Saying::Card { .. }, Some(task)) = (&saying, &notification.task_id) {
                    self.turn(task).has_card = true;
                }
                Some(saying)
            }
        }
    }

    fn turn(&mut self, task: &TaskId) -> &mut Turn {
        if !self.turns.contains_key(task) && self.turns.len() >= MOST_TURNS {
            // Those that ended without a word; what is not posted of others is in their answers.
            self.turns.clear();
        }
        self.turns.entry(task.clone()).or_default()
    }

    fn progress(
        &mut self,
        progress: &Progress,
        mark: &mut DeliveryMark,
        now: Instant,
    ) -> Option<Saying> {
        if let Some(gap) = progress.gap {
            let text = match gap.dropped {
                0 => progress.content.clone(),
                1 => "One message could not be kept until it could be brought here.".to_owned(),
                many => {
                    format!("{many} messages could not be kept until they could be brought here.")
                }
            };
            return Some(Saying::Text { text, answers: None, files: Vec::new() });
        }
        let task = progress.task_id.as_ref()?;
        let turn = self.turn(task);
        turn.has_card &= progress.kind == ProgressKind::Note;
        match progress.kind {
            ProgressKind::TextDelta => {
                turn.add(&progress.content, progress.snapshot);
                return None;
            }
            ProgressKind::Note if progress.reset => turn.forget_block(),
            ProgressKind::ToolCall => turn.end_block(),
            ProgressKind::ToolResult | ProgressKind::Note | ProgressKind::UserMessage => {}
        }
        // What came with somebody's own words is with them already.
        let is_given = progress.kind == ProgressKind::ToolResult;
        let files = if is_given { progress.files.clone() } else { Vec::new() };
        let answers = progress.message_id.clone();
        // Nothing else would say that nothing comes for now. An approval always has a card, which may have been posted before
        // the last start.
        let has_card = turn.has_card || progress.wait_reason == Some(WaitReason::Approval);
        let note = (progress.waits && !has_card).then(|| sentence(&progress.content));
        let is_due = turn.posted_at.is_none_or(|at| now.duration_since(at) >= APART);
        // Files and a wait are told at once, and the words before them come first.
        let is_urgent = !files.is_empty() || note.is_some();
        if !is_urgent && (turn.waiting.is_empty() || !is_due) {
            return None;
        }
        if turn.waiting.is_empty() {
            return Some(Saying::Text { text: note.unwrap_or_default(), answers, files });
        }
        turn.posted_at = Some(now);
        let text = std::mem::take(&mut turn.waiting).join(BREAK);
        let said = match mark.said.get(task) {
            Some(said) => said.and(BREAK).and(&text),
            None => SaidText::of(&text),
        };
        if mark.said.len() >= MOST_TURNS {
            mark.said.clear();
        }
        mark.said.insert(task.clone(), said);
        let text = [Some(text), note].into_iter().flatten().collect::<Vec<_>>().join(BREAK);
        Some(Saying::Text { text, answers, files })
    }

    fn response(&mut self, response: &Response, mark: &mut DeliveryMark) -> Option<Saying> {
        let rest = self.rest(response.task_id.as_ref(), &response.content, mark);
        let text = text::ending(&rest, &response.status)?;
        let answers = Some(response.message_id.clone());
        Some(Saying::Text { text, answers, files: Vec::new() })
    }

    fn error(&mut self, error: &ErrorBody, mark: &mut DeliveryMark) -> Option<Saying> {
        let content = error.content.as_deref().unwrap_or_default();
        let rest = self.rest(error.task_id.as_ref(), content, mark);
        let text = text::failure(&rest, &error.error);
        Some(Saying::Text { text, answers: error.message_id.clone(), files: Vec::new() })
    }

    /// What of the text at the end of a turn is still to be posted.
    fn rest(&mut self, task: Option<&TaskId>, text: &str, mark: &mut DeliveryMark) -> String {
        let turn = task.and_then(|task| self.turns.remove(task)).unwrap_or_default();
        let said = task.and_then(|task| mark.said.remove(task));
        if let Some(rest) = said.and_then(|said| said.rest_of(text)) {
            return rest.to_owned();
        }
        let waiting = turn.waiting.join(BREAK);
        if waiting.is_empty() || text.starts_with(&waiting) {
            return text.to_owned();
        }
        format!("{waiting}{BREAK}{text}")
    }
}

impl Turn {
    fn add(&mut self, piece: &str, is_whole: bool) {
        if is_whole {
            self.forget_block();
        }
        self.is_too_long |= self.block.len() + piece.len() > LONGEST_BLOCK;
        if !self.is_too_long {
            self.block.push_str(piece);
        }
    }

    fn forget_block(&mut self) {
        self.block.clear();
        self.is_too_long = false;
    }

    fn end_block(&mut self) {
        if !self.is_too_long && !self.block.trim().is_empty() {
            self.waiting.push(self.block.clone());
        }
        self.forget_block();
    }
}

fn card(notification: &Notification) -> Saying {
    let text = notification.content.clone();
    let waits = matches!(notification.status.as_str(), "pending" | "open");
    match (&notification.ref_id, notification.kind) {
        (Some(id), kind @ (NotificationKind::Approval | NotificationKind::Question)) if waits => {
            Saying::Card { kind, id: id.clone(), text }
        }
        _ => Saying::Text { text, answers: None, files: notification.files.clone() },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hivewright_actors::{clock::Timestamp, frame::Frame};

    use super::*;

    struct Channel {
        speech: Speech,
        mark: DeliveryMark,
        now: Instant,
    }

    impl Channel {
        fn new() -> Self {
            Self { speech: Speech::default(), mark: DeliveryMark::default(), now: Instant::now() }
        }

        /// The text that a frame makes to be posted; empty if none.
        fn take(&mut self, body: Body) -> String {
            let frame = Arc::new(Frame { topic: None, ts: Timestamp(0), body });
            let outbound = Outbound::new(&"1".into(), 1, frame);
            match self.speech.take(&outbound, &mut self.mark, self.now) {
                Some(Saying::Text { text, .. } | Saying::Card { text, .. }) => text,
                None => String::new(),
            }
        }

        fn progress(&mut self, kind: ProgressKind, content: &str) -> String {
            let progress =
                Progress { task_id: Some("task-1".into()), ..Progress::new(kind, content) };
            self.take(Body::Progress(progress))
        }

        fn say(&mut self, words: &str) -> String {
            self.progress(ProgressKind::TextDelta, words)
        }

        fn call(&mut self) -> String {
            self.progress(ProgressKind::ToolCall, "Using read")
        }

        fn respond(&mut self, content: &str, status: &str) -> String {
            self.take(Body::Response(Response {
                content: content.to_owned(),
                message_id: "7".into(),
                task_id: Some("task-1".into()),
                status: status.to_owned(),
                joined_task_id: None,
                truncated: false,
                usage: None,
            }))
        }
    }

    /// CH-97
    #[test]
    fn a_complete_block_is_posted_at_once_and_the_next_ones_merged() {
        let mut channel = Channel::new();

        let posted = [
            channel.say("Let me "),
            channel.say("look."),
            channel.call(),
            channel.say("And there."),
            channel.call(),
            channel.say("And elsewhere."),
        ];
        channel.now += APART;
        let merged = channel.call();

        assert_eq!(posted, ["", "", "Let me look.", "", "", ""]);
        assert_eq!(merged, "And there.\n\nAnd elsewhere.");
    }

    /// CH-97: what a tool gives comes at once, behind the words before it; what people brought is theirs already.
    #[test]
    fn files_of_a_tool_are_posted_behind_the_words_before_them() {
        let file = FileRef {
            id: "file-1".into(),
            name: "a.txt".to_owned(),
            mime: "text/plain".to_owned(),
            size: 1,
            digest: "00".to_owned(),
            path: None,
        };
        let mut channel = Channel::new();
        let given = |channel: &mut Channel, kind| {
            let progress = Progress {
                task_id: Some("task-1".into()),
                files: vec![file.clone()],
                ..Progress::new(kind, "send_file")
            };
            let frame = Frame { topic: None, ts: Timestamp(0), body: Body::Progress(progress) };
            let outbound = Outbound::new(&"1".into(), 1, Arc::new(frame));
            match channel.speech.take(&outbound, &mut channel.mark, channel.now) {
                Some(Saying::Text { text, files, .. }) => (text, files.len()),
                _ => (String::new(), 0),
            }
        };

        channel.say("One.");
        channel.call();
        let alone = given(&mut channel, ProgressKind::ToolResult);
        channel.say("Two.");
        channel.call();
        let behind = given(&mut channel, ProgressKind::ToolResult);
        let brought = given(&mut channel, ProgressKind::UserMessage);

        assert_eq!(alone, (String::new(), 1));
        assert_eq!(behind, ("Two.".to_owned(), 1));
        assert_eq!(brought, (String::new(), 0));
    }

    /// CH-98
    #[test]
    fn an_answer_that_begins_with_what_was_posted_is_posted_from_there_on() {
        let mut channel = Channel::new();
        channel.say("Let me look.");
        channel.call();

        assert_eq!(channel.respond("Let me look.\n\nHalf of", "cancelled"), "Half of");
        assert!(channel.mark.said.is_empty());
    }

    /// CH-98: also after a restart, when only the mark is left.
    #[test]
    fn an_answer_that_was_posted_already_is_not_posted_again() {
        let mut channel = Channel::new();
        channel.say("That is all.");
        channel.call();
        channel.speech = Speech::default();

        assert_eq!(channel.respond("That is all.", "done"), "");
    }

    /// CH-98
    #[test]
    fn another_answer_is_posted_whole_behind_what_waited() {
        let mut channel = Channel::new();
        channel.say("One.");
        channel.call();
        channel.say("Two.");
        channel.call();

        assert_eq!(channel.respond("Three.", "done"), "Two.\n\nThree.");
    }

    /// CH-15: an end is never left out.
    #[test]
    fn a_turn_that_is_stopped_or_fails_says_so() {
        let mut channel = Channel::new();
        assert_eq!(channel.respond("", "cancelled"), "Stopped.");
        let error = ErrorBody {
            content: Some("Half".to_owned()),
            task_id: Some("task-1".into()),
            ..ErrorBody::refusal("stalled", "the model does not answer")
        };

        assert_eq!(channel.take(Body::Error(error)), "Half\n\nThe model does not answer.");
    }

    /// CH-15, SE-129, SE-143: a turn that waits says so, once what it has said is posted; a card beside it says it better.
    #[test]
    fn a_turn_that_waits_says_what_for_unless_a_card_does() {
        let waits = || Progress {
            task_id: Some("task-1".into()),
            waits: true,
            ..Progress::new(ProgressKind::Note, "the provider wants fewer requests")
        };
        let mut channel = Channel::new();
        channel.say("One.");
        channel.call();
        channel.say("Two.");
        channel.call();
        let limited = channel.take(Body::Progress(waits()));
        let answer = channel.respond("One.\n\nTwo.\n\nThree.", "done");
        let card = Notification {
            task_id: Some("task-1".into()),
            status: "pending".to_owned(),
            ref_id: Some("approval-1".to_owned()),
            ..Notification::new(NotificationKind::Approval, "main".into(), "May I?".into(), "")
        };
        channel.take(Body::Notification(card));
        let held = channel.take(Body::Progress(waits()));

        assert_eq!(limited, "Two.\n\nThe provider wants fewer requests.");
        assert_eq!(answer, "Three.");
        assert_eq!(held, "");
    }

    #[test]
    fn text_that_a_note_voids_is_not_posted() {
        let mut channel = Channel::new();
        channel.say("Wrong.");
        let note = Progress {
            task_id: Some("task-1".into()),
            reset: true,
            ..Progress::new(ProgressKind::Note, "again")
        };

        assert_eq!(channel.take(Body::Progress(note)), "");
        channel.say("Right.");
        assert_eq!(channel.call(), "Right.");
    }
}
