//! Partial output: what the turns under way have said so far, for a client that comes back in the middle.

use std::collections::{BTreeMap, VecDeque};

use crate::{
    clock::Timestamp,
    frame::{Body, Frame, Progress, ProgressKind},
    ids::{MessageId, TaskId},
    task::TopicRef,
};

/// So many bytes of text are kept of one turn.
const MOST_BYTES: usize = 512 * 1024;
/// So many turns are kept: an end that nobody announced must not keep a turn for ever.
const MOST_TURNS: usize = 100;
/// So many bytes of turns that have ended: the answer repeats only what was said last.
const MOST_ENDED: usize = 64 * 1024;

/// The text of the turns of one channel, as its frames told it, in the same pieces that a client
/// parts it into: a tool call or a note ends a piece.
#[derive(Debug, Default)]
pub(super) struct PartialOutput {
    turns: BTreeMap<TaskId, Turn>,
    /// The newest durable frame that was taken in.
    newest: u64,
}

#[derive(Debug)]
struct Turn {
    message: Option<MessageId>,
    topic: Option<TopicRef>,
    at: Timestamp,
    /// Pieces that ended, each with the ordinal of the frame that ended it.
    past: VecDeque<(u64, String)>,
    /// The piece that grows; none if it has become too long to be kept.
    present: Option<String>,
    ended: bool,
}

/// The piece of an answer that a frame is.
pub(super) fn text(frame: &Frame) -> Option<&Progress> {
    match &frame.body {
        Body::Progress(progress) if progress.kind == ProgressKind::TextDelta => Some(progress),
        _ => None,
    }
}

impl PartialOutput {
    /// A piece of text was sent, or would have been.
    pub(super) fn said(&mut self, frame: &Frame, piece: &Progress) {
        let Some(task) = &piece.task_id else { return };
        if self.turns.len() >= MOST_TURNS && !self.turns.contains_key(task) {
            self.make_room();
        }
        let turn = self.turns.entry(task.clone()).or_insert_with(|| Turn {
            message: piece.message_id.clone(),
            topic: frame.topic.clone(),
            at: frame.ts,
            past: VecDeque::new(),
            present: Some(String::new()),
            ended: false,
        });
        turn.at = frame.ts;
        turn.add(&piece.content);
    }

    pub(super) fn stored(&mut self, ordinal: u64, frame: &Frame) {
        self.newest = self.newest.max(ordinal);
        match &frame.body {
            Body::Progress(progress) => {
                if let Some(turn) =
                    progress.task_id.as_ref().and_then(|task| self.turns.get_mut(task))
                {
                    turn.part(ordinal, progress);
                }
            }
            Body::Response(response) => self.end(response.task_id.as_ref()),
            Body::Error(error) => self.end(error.task_id.as_ref()),
            Body::Ack(_) | Body::Notification(_) | Body::TopicList { .. } => {}
        }
    }

    /// Takes in what the store holds. Whoever stored it may not have announced it yet.
    pub(super) fn found<'a>(&mut self, rows: impl Iterator<Item = (u64, &'a Frame)>) {
        let known = self.newest;
        for (ordinal, frame) in rows {
            // Before the first announcement nobody knows which of them a text stands behind.
            if known > 0 && ordinal > known {
                self.stored(ordinal, frame);
            }
            self.newest = self.newest.max(ordinal);
        }
    }

    /// The whole text that stands before a durable frame and is ended by it.
    pub(super) fn before(&self, ordinal: u64, frame: &Frame) -> Option<Frame> {
        let Body::Progress(progress) = &frame.body else { return None };
        let task = progress.task_id.as_ref()?;
        let turn = self.turns.get(task)?;
        let (_, text) = turn.past.iter().find(|(end, _)| *end == ordinal)?;
        Some(turn.restated(task, text))
    }

    /// The whole text behind all durable frames, of each turn.
    pub(super) fn present(&self) -> impl Iterator<Item = Frame> {
        self.turns.iter().filter_map(|(task, turn)| {
            let text = turn.present.as_ref().filter(|text| !text.is_empty())?;
            Some(turn.restated(task, text))
        })
    }

    /// All turns ended before a moment, or were last heard of before another, earlier one.
    pub(super) fn is_over(&self, ended: Timestamp, lost: Timestamp) -> bool {
        self.turns.values().all(|turn| turn.at < if turn.ended { ended } else { lost })
    }

    fn end(&mut self, task: Option<&TaskId>) {
        let Some(turn) = task.and_then(|task| self.turns.get_mut(task)) else { return };
        turn.ended = true;
        turn.present = None;
        let ended = |output: &Self| -> usize {
            let turns = output.turns.values().filter(|turn| turn.ended);
            turns.map(Turn::bytes).sum()
        };
        while ended(self) > MOST_ENDED {
            self.make_room();
        }
    }

    /// Lets the oldest go, of those that have ended if there are any.
    fn make_room(&mut self) {
        let turns = self.turns.iter();
        let oldest = turns.min_by_key(|(_, turn)| (!turn.ended, turn.at));
        if let Some(task) = oldest.map(|(task, _)| task.clone()) {
            self.turns.remove(&task);
        }
    }
}

impl Turn {
    fn add(&mut self, piece: &str) {
        let Some(present) = &mut self.present else { return };
        present.push_str(piece);
        while self.bytes() > MOST_BYTES && self.past.pop_front().is_some() {}
        if self.bytes() > MOST_BYTES {
            self.present = None;
        }
    }

    fn bytes(&self) -> usize {
        let past: usize = self.past.iter().map(|(_, text)| text.len()).sum();
        past + self.present.as_ref().map_or(0, String::len)
    }

    fn part(&mut self, ordinal: u64, progress: &Progress) {
        if !matches!(progress.kind, ProgressKind::ToolCall | ProgressKind::Note) {
            return;
        }
        let ended = self.present.replace(String::new()).unwrap_or_default();
        // What is void is not said again.
        if ended.is_empty() || progress.reset {
            return;
        }
        match self.past.back_mut() {
            // It was found in the store before its last words and itself were announced.
            Some((end, text)) if *end == ordinal => text.push_str(&ended),
            _ => self.past.push_back((ordinal, ended)),
        }
    }

    fn restated(&self, task: &TaskId, text: &str) -> Frame {
        Frame {
            topic: self.topic.clone(),
            ts: self.at,
            body: Body::Progress(Progress {
                message_id: self.message.clone(),
                task_id: Some(task.clone()),
                snapshot: true,
                ..Progress::new(ProgressKind::TextDelta, text)
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::ErrorBody;

    fn frame(kind: ProgressKind, content: &str, reset: bool) -> Frame {
        Frame {
            topic: None,
            ts: Timestamp(1),
            body: Body::Progress(Progress {
                task_id: Some("task-1".into()),
                reset,
                ..Progress::new(kind, content)
            }),
        }
    }

    fn says(output: &mut PartialOutput, words: &str) {
        let frame = frame(ProgressKind::TextDelta, words, false);
        if let Some(piece) = text(&frame) {
            output.said(&frame, piece);
        }
    }

    fn content(frame: Frame) -> String {
        match frame.body {
            Body::Progress(progress) if progress.snapshot => progress.content,
            other => unreachable!("no text: {other:?}"),
        }
    }

    fn present(output: &PartialOutput) -> Vec<String> {
        output.present().map(content).collect()
    }

    /// CH-159: what stands before a call is told before it, what stands behind it behind.
    #[test]
    fn text_stands_where_it_was_said() {
        let mut output = PartialOutput::default();
        let call = frame(ProgressKind::ToolCall, "Using read", false);
        let result = frame(ProgressKind::ToolResult, "Used read", false);
        output.stored(1, &frame(ProgressKind::Note, "before all", false));
        says(&mut output, "one ");
        says(&mut output, "two");
        output.stored(2, &call);
        says(&mut output, "three ");
        output.stored(3, &result);
        says(&mut output, "four");

        assert_eq!(output.before(2, &call).map(content).as_deref(), Some("one two"));
        assert_eq!(output.before(3, &result), None);
        assert_eq!(present(&output), ["three four"]);
    }

    #[test]
    fn what_is_void_is_not_said_again() {
        let mut output = PartialOutput::default();
        let again = frame(ProgressKind::Note, "It begins again.", true);
        says(&mut output, "half a sen");
        output.stored(1, &again);

        assert_eq!(output.before(1, &again), None);
        assert!(present(&output).is_empty());
    }

    /// A frame may be read from the store before whoever stored it has announced it.
    #[test]
    fn a_frame_that_was_found_and_is_then_announced_counts_once() {
        let mut output = PartialOutput::default();
        let call = frame(ProgressKind::ToolCall, "Using read", false);
        output.stored(1, &frame(ProgressKind::Note, "before all", false));
        says(&mut output, "one");
        output.found([(2, &call)].into_iter());
        let found = present(&output);
        says(&mut output, " two");
        output.stored(2, &call);

        assert!(found.is_empty() && present(&output).is_empty());
        assert_eq!(output.before(2, &call).map(content).as_deref(), Some("one two"));
    }

    #[test]
    fn text_without_end_is_not_kept() {
        let mut output = PartialOutput::default();
        says(&mut output, &"x".repeat(MOST_BYTES));
        says(&mut output, "y");
        let too_long = present(&output);
        output.stored(1, &frame(ProgressKind::ToolCall, "Using read", false));
        says(&mut output, "short");

        assert!(too_long.is_empty());
        assert_eq!(present(&output), ["short"]);
    }

    fn ends(output: &mut PartialOutput, ordinal: u64) {
        let body = Body::Error(ErrorBody {
            task_id: Some("task-1".into()),
            ..ErrorBody::refusal("stopped", "it was stopped")
        });
        let (topic, ts) = (None, Timestamp(1));
        output.stored(ordinal, &Frame { topic, ts, body });
    }

    /// The answer holds no more than the last piece.
    #[test]
    fn what_stood_before_a_call_is_told_also_after_the_end_and_not_for_ever() {
        let mut output = PartialOutput::default();
        let call = frame(ProgressKind::ToolCall, "Using read", false);
        says(&mut output, "one");
        output.stored(1, &call);
        says(&mut output, "two");
        ends(&mut output, 2);

        assert_eq!(output.before(1, &call).map(content).as_deref(), Some("one"));
        assert!(present(&output).is_empty());

        let mut long = PartialOutput::default();
        says(&mut long, &"x".repeat(MOST_ENDED + 1));
        long.stored(1, &call);
        ends(&mut long, 2);

        assert!(long.turns.is_empty());
    }
}
