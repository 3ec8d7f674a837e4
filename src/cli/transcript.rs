//! Transcript of one message: how its answer looks on a terminal, piece by piece.

use hivewright_actors::{
    excerpt,
    frame::{ErrorBody, Progress, ProgressKind, Response},
    ids::TopicId,
};

use super::{
    channel_state::{Incoming, Words},
    message_tracker::{Heard, MessageTracker},
    screen::Screen,
};
use crate::api::{me::ConversationMessage, messages::MessageRow};

/// So much of the arguments of a tool is shown, in characters.
const PREVIEW: usize = 80;

/// Something to print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Print {
    /// A piece of the answer, without a line end.
    Text(String),
    /// Ends the line, if one was begun.
    EndLine,
    /// A line beside the answer.
    Remark(String),
    /// What went wrong.
    Error(String),
}

/// A message that was sent, and what was printed of its answer.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) exchange: MessageTracker,
    /// To whom, if not to the main team.
    pub(super) team: Option<String>,
    transcript: Transcript,
    /// Somebody reads it as it comes.
    live: bool,
}

impl Sent {
    pub(super) fn new(words: &Words, screen: Screen) -> Self {
        Self::of(MessageTracker::new(words.id.clone()), None, screen)
    }

    /// A message that another team than the main one has already.
    pub(super) fn to_team(team: &str, row: MessageRow, screen: Screen) -> Self {
        let exchange = MessageTracker::accepted(row.message_id, row.task_id);
        Self::of(exchange, Some(team.to_owned()), screen)
    }

    /// A message of an earlier chat that has not ended. Its answer is shown in one piece: what a step has said before this
    /// chat began is not told again.
    pub(super) fn earlier(message: ConversationMessage, topic: &TopicId, screen: Screen) -> Self {
        let exchange = MessageTracker::accepted(message.message_id, Some(message.task_id));
        Self { live: false, ..Self::of(exchange.within(topic), None, screen) }
    }

    fn of(exchange: MessageTracker, team: Option<String>, screen: Screen) -> Self {
        let live = screen.live && !screen.json;
        Self { exchange, team, transcript: Transcript::default(), live }
    }

    /// What a frame says about the message, and what to print of it; none if it is about something else.
    pub(super) fn hear<'f>(&mut self, frame: &'f Incoming) -> Option<(Heard<'f>, Vec<Print>)> {
        let heard = self.exchange.take(frame)?;
        let transcript = &mut self.transcript;
        let prints = if self.live { transcript.live(&heard) } else { transcript.whole(&heard) };
        Some((heard, prints))
    }
}

/// What was printed of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Transcript {
    /// Since the last tool call or reset.
    step: String,
    /// Since the beginning.
    all: String,
    /// The last note.
    note: String,
}

impl Transcript {
    /// Shows the next thing that was heard, with text as it comes.
    pub(super) fn live(&mut self, heard: &Heard<'_>) -> Vec<Print> {
        match heard {
            Heard::Progress(progress) if progress.snapshot => self.restate(&progress.content),
            Heard::Progress(progress) if progress.kind == ProgressKind::TextDelta => {
                self.step.push_str(&progress.content);
                self.all.push_str(&progress.content);
                vec![Print::Text(progress.content.clone())]
            }
            Heard::Progress(progress) => {
                let repeats = self.repeats(progress);
                if progress.kind != ProgressKind::ToolResult {
                    self.step.clear();
                }
                if progress.reset {
                    self.all.clear();
                }
                if repeats {
                    return Vec::new();
                }
                vec![Print::EndLine, Print::Remark(self.remark(progress))]
            }
            Heard::Answer(response) => self.answer(response),
            other => self.whole(other),
        }
    }

    /// Shows the next thing that was heard, with the answer in one piece at its end.
    pub(super) fn whole(&mut self, heard: &Heard<'_>) -> Vec<Print> {
        match heard {
            Heard::Accepted("") => Vec::new(),
            Heard::Accepted(words) => vec![Print::Remark((*words).to_owned())],
            Heard::Progress(progress) if progress.kind == ProgressKind::TextDelta => Vec::new(),
            Heard::Progress(progress) if self.repeats(progress) => Vec::new(),
            Heard::Progress(progress) => vec![Print::Remark(self.remark(progress))],
            Heard::Answer(response) => {
                let mut prints = vec![Print::Text(response.content.clone()), Print::EndLine];
                prints.extend(closing(response));
                prints
            }
            Heard::Error(error) => vec![Print::EndLine, Print::Error(complaint(error))],
            Heard::Forgotten(status) => vec![
                Print::EndLine,
                Print::Error(format!(
                    "the message ended ({status}) while the connection was lost, and its answer is no longer kept for this client; it is in the history"
                )),
            ],
        }
    }

    /// Whether a note says what the one before it said, with nothing in between.
    fn repeats(&self, progress: &Progress) -> bool {
        progress.kind == ProgressKind::Note && self.step.is_empty() && remark(progress) == self.note
    }

    /// A line beside the answer. Each try of a failing call gives the same reason, which is told once.
    fn remark(&mut self, progress: &Progress) -> String {
        let line = remark(progress);
        if progress.kind != ProgressKind::Note {
            self.note.clear();
            return line;
        }
        let before = std::mem::replace(&mut self.note, line.clone());
        format!("· {}", news(&before, &line).trim_start_matches("· "))
    }

    /// All of the step so far, after a break: what is printed already is not printed again.
    fn restate(&mut self, step: &str) -> Vec<Print> {
        let before = self.all.len() - self.step.len();
        let prints = match step.strip_prefix(self.step.as_str()) {
            Some(rest) => vec![Print::Text(rest.to_owned())],
            None => vec![Print::EndLine, Print::Text(step.to_owned())],
        };
        self.all.truncate(before);
        self.all.push_str(step);
        self.step = step.to_owned();
        prints
    }

    fn answer(&self, response: &Response) -> Vec<Print> {
        let content = &response.content;
        let mut prints = if *content == self.step || *content == self.all {
            Vec::new()
        } else if let Some(rest) = content.strip_prefix(&self.step)
            && !self.step.is_empty()
        {
            vec![Print::Text(rest.to_owned())]
        } else {
            vec![Print::EndLine, Print::Text(content.clone())]
        };
        prints.push(Print::EndLine);
        prints.extend(closing(response));
        prints
    }
}

/// What a line says that the one before has not said, from its first new sentence on.
fn news<'l>(before: &str, line: &'l str) -> &'l str {
    let same = before.bytes().zip(line.bytes()).take_while(|(one, other)| one == other).count();
    let end = line.get(..same).and_then(|same| same.rfind(". "));
    end.map_or(line, |end| &line[end + 2..])
}

/// An error frame in one line.
pub(super) fn complaint(error: &ErrorBody) -> String {
    let wait = error
        .retry_after_ms
        .map_or(String::new(), |pause| format!("; try again in {} s", pause.div_ceil(1000)));
    format!("{} ({}){wait}", error.error, error.code)
}

fn remark(progress: &Progress) -> String {
    let mut line = format!("· {}", progress.content);
    match progress.kind {
        ProgressKind::ToolCall => {
            if let Some(preview) = &progress.preview {
                line.push(' ');
                line.push_str(&first_line(preview));
            }
        }
        ProgressKind::ToolResult => {
            let outcome = match progress.ok {
                Some(false) if progress.denied => "denied",
                Some(false) => "failed",
                _ => "ok",
            };
            line.push_str(&match progress.duration_ms {
                Some(duration) => format!(" ({outcome}, {duration} ms)"),
                None => format!(" ({outcome})"),
            });
            if progress.untrusted {
                line.push_str(" · untrusted");
            }
        }
        ProgressKind::Note | ProgressKind::TextDelta | ProgressKind::UserMessage => {}
    }
    line
}

fn closing(response: &Response) -> Option<Print> {
    let text = match (response.status.as_str(), response.truncated) {
        ("cancelled", _) => "· stopped",
        (_, true) => {
            "· the answer was cut here; say `go on`, or see all there is with `hivewright tasks show`"
        }
        _ => return None,
    };
    Some(Print::Remark(text.to_owned()))
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let (shown, missing) = excerpt::split(line, PREVIEW);
    if missing > 0 || line.len() < text.trim_end().len() {
        format!("{shown}…")
    } else {
        shown.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use hivewright_actors::frame::FrameUsage;

    use super::*;

    fn delta(content: &str) -> Progress {
        Progress::new(ProgressKind::TextDelta, content)
    }

    fn response(content: &str, status: &str) -> Response {
        Response {
            content: content.into(),
            message_id: "m".into(),
            task_id: None,
            status: status.into(),
            joined_task_id: None,
            truncated: false,
            usage: None::<FrameUsage>,
        }
    }

    fn text(text: &str) -> Print {
        Print::Text(text.into())
    }

    fn said(text: &str) -> Print {
        Print::Remark(text.into())
    }

    /// What a terminal shows of these pieces and the answer.
    fn shown(pieces: &[Progress], answer: &Response) -> Vec<Print> {
        let mut transcript = Transcript::default();
        let mut prints: Vec<_> =
            pieces.iter().flat_map(|piece| transcript.live(&Heard::Progress(piece))).collect();
        prints.extend(transcript.live(&Heard::Answer(answer)));
        prints
    }

    /// OP-78
    #[test]
    fn streamed_text_is_not_printed_twice() {
        let pieces = [delta("Hel"), delta("lo")];

        let whole = shown(&pieces, &response("Hello", "done"));
        let longer = shown(&pieces, &response("Hello there", "done"));
        let other = shown(&pieces, &response("Bye", "done"));

        assert_eq!(whole, [text("Hel"), text("lo"), Print::EndLine]);
        assert_eq!(longer, [text("Hel"), text("lo"), text(" there"), Print::EndLine]);
        let both = [text("Hel"), text("lo"), Print::EndLine, text("Bye"), Print::EndLine];
        assert_eq!(other, both);
    }

    /// CH-159
    #[test]
    fn after_a_break_only_what_was_missed_is_printed() {
        let whole = |text: &str| Progress { snapshot: true, ..delta(text) };
        let pieces = [delta("Hello wor"), whole("Hello world, how"), delta(" are you")];

        let prints = shown(&pieces, &response("Hello world, how are you", "done"));

        let expected = [text("Hello wor"), text("ld, how"), text(" are you"), Print::EndLine];
        assert_eq!(prints, expected);
    }

    /// OP-78, CH-63 to CH-65
    #[test]
    fn tools_and_notes_stand_on_lines_of_their_own() {
        let call = Progress {
            preview: Some(format!("{{\"command\":\"{}\"}}", "x".repeat(100))),
            ..Progress::new(ProgressKind::ToolCall, "Using bash")
        };
        let result = Progress {
            ok: Some(false),
            duration_ms: Some(12),
            untrusted: true,
            ..Progress::new(ProgressKind::ToolResult, "Used bash")
        };
        let denied = Progress {
            ok: Some(false),
            denied: true,
            ..Progress::new(ProgressKind::ToolResult, "Used write")
        };
        let reset = Progress { reset: true, ..Progress::new(ProgressKind::Note, "Trying again") };
        let pieces =
            [delta("Let me see."), call, result, denied, delta("Sor"), reset, delta("Sorry")];

        let prints = shown(&pieces, &response("Sorry", "cancelled"));

        let preview = format!("· Using bash {{\"command\":\"{}…", "x".repeat(68));
        let expected = [
            text("Let me see."),
            Print::EndLine,
            said(&preview),
            Print::EndLine,
            said("· Used bash (failed, 12 ms) · untrusted"),
            Print::EndLine,
            said("· Used write (denied)"),
            text("Sor"),
            Print::EndLine,
            said("· Trying again"),
            text("Sorry"),
            Print::EndLine,
            said("· stopped"),
        ];
        assert_eq!(prints, expected);
    }

    /// OP-78: why a call failed is told once, however often it is tried.
    #[test]
    fn a_reason_that_is_the_same_is_not_repeated() {
        let note = |text: &str| Progress::new(ProgressKind::Note, text);
        let pieces = [
            note("overloaded. Please wait. Trying again in 30 s."),
            note("overloaded. Please wait. Trying again in 120 s."),
            note("no route"),
            note("no route"),
            note("no route. Trying again in 300 s."),
        ];

        let prints = shown(&pieces, &response("Hello", "done"));

        let remarks: Vec<_> =
            prints.into_iter().filter(|print| matches!(print, Print::Remark(_))).collect();
        let expected = [
            "· overloaded. Please wait. Trying again in 30 s.",
            "· Trying again in 120 s.",
            "· no route",
            "· no route. Trying again in 300 s.",
        ];
        assert_eq!(remarks, expected.map(said));
    }

    #[test]
    fn in_a_pipe_the_answer_comes_in_one_piece() {
        let error = ErrorBody {
            retry_after_ms: Some(1500),
            ..ErrorBody::refusal("rate_limited", "too many messages")
        };
        let answer = response("Hello", "done");

        let mut transcript = Transcript::default();
        assert_eq!(transcript.whole(&Heard::Progress(&delta("Hel"))), []);
        assert_eq!(transcript.whole(&Heard::Answer(&answer)), [text("Hello"), Print::EndLine]);
        assert_eq!(
            transcript.whole(&Heard::Error(&error)),
            [
                Print::EndLine,
                Print::Error("too many messages (rate_limited); try again in 2 s".into())
            ]
        );
    }
}
