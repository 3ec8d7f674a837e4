//! History of a lane: what its next turn is shown of it, and what of it can be summarised.

use std::{ops::ControlFlow, time::Duration};

use super::turn::{
    conversation::{KEPT, length, tokens},
    digest,
};
use crate::{
    briefing::Line,
    clock::Timestamp,
    engine::{Block, Message, ToolOutput},
    history::{Compaction, Fact, HistoryEvent, SUMMARY},
    journal::{self, LaneHistory, sessions},
    storage::{Order, Storage, StorageError},
    task::{Label, records::LaneKey},
    tool::{Args, ToolCall},
};

/// The conversation that a turn is shown holds this many lines …
pub(super) const RECENT_LINES: usize = 10;
/// … that are not older than this.
pub(super) const RECENT_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// A conversation is summarised at most once in this time.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(60);
/// No more events than this are read, from the last.
const MOST_EVENTS: usize = 20_000;

impl LaneHistory {
    /// What was said lately, oldest first, for a turn on a task with this label; and how many lines
    /// were left out.
    ///
    /// A turn that is to be believed is not shown what is not: else one line of a stranger would
    /// make whatever a person says in the next 24 hours as untrusted, without a way out.
    pub(super) fn conversation(&self, now: Timestamp, label: Label) -> (Vec<Line>, usize) {
        let recent = self.recent.iter().filter(|line| line.at + RECENT_AGE > now);
        let recent = self.summary.iter().chain(recent);
        let (shown, withheld): (Vec<&Line>, Vec<&Line>) =
            recent.partition(|line| line.label <= label);
        (shown.into_iter().cloned().collect(), withheld.len())
    }

    /// Forgets what was said before then.
    pub(super) fn begin_anew(&mut self, at: Timestamp) {
        self.recent.retain(|line| line.at >= at);
        self.summary.take_if(|line| line.at < at);
    }

    /// Adds what was said in a turn.
    pub(super) fn remember(&mut self, lines: Vec<Line>) {
        self.recent.extend(lines);
        let forgotten = self.recent.len().saturating_sub(RECENT_LINES);
        self.recent.drain(..forgotten);
    }
}

/// Index of a turn's steps: where in the journal each begins.
#[derive(Debug, Default)]
pub(super) struct StepIndex(Vec<(u32, u64)>);

impl StepIndex {
    /// The steps that a journal holds.
    pub(super) fn of(journal: &[HistoryEvent]) -> Self {
        let mut index = Self::default();
        journal.iter().for_each(|event| index.note(event));
        index
    }

    pub(super) fn note(&mut self, event: &HistoryEvent) {
        if let Some(step) = event.fact.step()
            && self.0.last().is_none_or(|(last, _)| *last < step)
        {
            self.0.push((step, event.seq));
        }
    }

    /// Where all is kept from a step on.
    pub(super) fn place_of(&self, step: u32) -> Option<u64> {
        self.0.iter().find(|(kept, _)| *kept >= step).map(|(_, seq)| *seq)
    }
}

/// A part of a session that is to be summarised.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Past {
    /// What the model is asked.
    pub(super) request: String,
    /// The first event that stays as it is.
    pub(super) keep_from_seq: u64,
    /// How many tokens all of it has.
    pub(super) tokens: u64,
    /// How many of them stay.
    pub(super) kept: u64,
    /// The worst of what is summarised.
    pub(super) label: Label,
}

/// What there is to summarise in a session; else why not, for a person. Blocks.
pub(super) fn past(
    storage: &dyn Storage,
    lane: &LaneKey,
    now: Timestamp,
    most: usize,
) -> Result<Result<Past, String>, StorageError> {
    if lane.lane.topic.is_none() {
        return Ok(Err(
            "There is nothing to compact: this team does not work in topics, so that each of its turns is \
             shown only what its own message led to."
                .to_owned(),
        ));
    }
    let earlier = journal::summary(storage, lane)?;
    if let Some((at, _)) = &earlier
        && now.since(*at) < SUMMARY_INTERVAL
    {
        let rest = (SUMMARY_INTERVAL - now.since(*at)).as_secs_f64().ceil();
        return Ok(Err(format!(
            "This conversation was compacted less than a minute ago; try again in {rest} s."
        )));
    }
    let earlier = earlier.map(|(_, compaction)| compaction);
    let began = journal::began(storage, lane)?;
    let first = earlier.as_ref().and_then(|earlier| earlier.keep_from_seq);
    let range = (first.map_or(0, |first| first.saturating_sub(1)), u64::MAX);
    let mut events: Vec<HistoryEvent> = Vec::new();
    let mut add = |piece: Vec<HistoryEvent>| {
        let all = piece.len();
        let new = piece.into_iter().rev();
        let new = new.filter(|event| began.is_none_or(|began| event.timestamp >= began));
        let before = events.len();
        events.extend(new);
        if events.len() - before == all && events.len() < MOST_EVENTS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    sessions::journal(storage, lane, range, Order::Falling, &mut add)?;
    events.reverse();
    let past = of(events, earlier.as_ref(), most);
    Ok(past.ok_or_else(|| {
        format!("There is nothing to compact: the last {KEPT} messages stay as they are.")
    }))
}

/// A message of a session, as it stands in the journal.
struct Told {
    seq: u64,
    label: Label,
    message: Message,
}

/// The messages of a journal, oldest first. What the model wrote in one step is one of them, and so
/// are the results of the step.
fn messages_of(events: Vec<HistoryEvent>) -> Vec<Told> {
    let mut told: Vec<Told> = Vec::new();
    // The turn and step of the last message, if the model wrote it; else the turn alone.
    let mut place = None;
    for HistoryEvent { seq, turn, fact, .. } in events {
        let step = fact.step();
        let (label, message) = match fact {
            Fact::User { text, label, .. } => (label, Message::User(text)),
            Fact::AssistantText { text, .. } => {
                let block = Block::Text { text };
                (Label::Trusted, Message::Assistant(vec![block]))
            }
            Fact::ToolCall { id, name, args, .. } => {
                let args = Args::Json(args);
                let block = Block::Call(ToolCall { id, name, args });
                (Label::Trusted, Message::Assistant(vec![block]))
            }
            Fact::ToolResult { id, name, content, fault, taints, .. } => {
                let output = ToolOutput { id, name, content, fault };
                let label = if taints { Label::Untrusted } else { Label::Trusted };
                (label, Message::ToolResults(vec![output]))
            }
            _ => continue,
        };
        let here = Some((turn, step));
        let goes_on = place == here;
        place = here;
        match (told.last_mut(), message) {
            (Some(Told { message: Message::Assistant(blocks), .. }), Message::Assistant(more))
                if goes_on =>
            {
                blocks.extend(more)
            }
            (
                Some(Told { message: Message::ToolResults(results), label: worst, .. }),
                Message::ToolResults(more),
            ) if goes_on => {
                results.extend(more);
                *worst = label.max(*worst);
            }
            (_, message) => told.push(Told { seq, label, message }),
        }
    }
    told
}

fn of(events: Vec<HistoryEvent>, earlier: Option<&Compaction>, most: usize) -> Option<Past> {
    let mut told = messages_of(events);
    let mut cut = told.len().checked_sub(KEPT).filter(|cut| *cut > 0)?;
    // A call and its result are not separated.
    while matches!(told.get(cut)?.message, Message::ToolResults(_)) {
        cut = cut.checked_sub(1).filter(|cut| *cut > 0)?;
    }
    let kept = told.split_off(cut);
    let keep_from_seq = kept.first()?.seq;
    let size = |told: &[Told]| tokens(told.iter().map(|told| length(&told.message)).sum());
    let before = earlier.and_then(|earlier| {
        let summary = earlier.summary.as_ref()?;
        Some(Told {
            seq: 0,
            label: earlier.label,
            message: Message::User(format!("{SUMMARY}\n{summary}")),
        })
    });
    let old: Vec<Told> = before.into_iter().chain(told).collect();
    let label = old.iter().map(|told| told.label).max()?;
    let (tokens, kept) = (size(&old) + size(&kept), size(&kept));
    let messages: Vec<Message> = old.into_iter().map(|told| told.message).collect();
    Some(Past {
        request: digest::request(None, &messages, most),
        keep_from_seq,
        tokens,
        kept,
        label,
    })
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{history::Origin, tool::Effect};

    fn events(facts: Vec<(&str, Fact)>) -> Vec<HistoryEvent> {
        let numbered = (1..).zip(facts);
        numbered
            .map(|(seq, (turn, fact))| HistoryEvent {
                seq,
                turn: turn.into(),
                timestamp: Timestamp(seq),
                fact,
                redacted: false,
            })
            .collect()
    }

    fn user(number: usize, label: Label) -> Fact {
        Fact::User {
            text: format!("question {number}"),
            from: "ann".to_owned(),
            origin: Origin::Person,
            label,
            task_id: "task-1".into(),
        }
    }

    fn text(number: usize) -> Fact {
        Fact::AssistantText { text: format!("answer {number}"), step: 1 }
    }

    fn call() -> [Fact; 2] {
        let call = Fact::ToolCall {
            id: "a".into(),
            name: "read".to_owned(),
            args: serde_json::json!({}),
            step: 1,
            effect: Effect::Pure,
            idempotency_key: String::new(),
        };
        let result = Fact::ToolResult {
            id: "a".into(),
            name: "read".to_owned(),
            content: "found".to_owned(),
            fault: None,
            duration_ms: 0,
            truncated: false,
            taints: true,
            rule: None,
            approved: false,
        };
        [call, result]
    }

    /// EN-36, SE-92
    #[test]
    fn the_last_messages_of_a_session_stay() {
        let said = |turns: usize| {
            let facts = (0..turns).flat_map(|number| {
                let label = match number {
                    0 => Label::Untrusted,
                    _ => Label::Trusted,
                };
                [("t", user(number, label)), ("t", text(number))]
            });
            events(facts.collect())
        };

        let past = of(said(9), None, 10_000).unwrap();

        assert_eq!(of(said(8), None, 10_000), None);
        assert_eq!((past.keep_from_seq, past.label), (3, Label::Untrusted));
        assert!(past.request.contains("question 0") && past.request.contains("answer 0"));
        assert!(!past.request.contains("question 1"));
        assert!(past.kept < past.tokens);
    }

    /// SE-93
    #[test]
    fn a_call_of_a_session_stays_with_its_result() {
        let mut facts = vec![("t", user(0, Label::Trusted))];
        facts.extend(call().map(|fact| ("t", fact)));
        // The result is the sixteenth from the end.
        facts.extend((1..16).map(|number| ("u", user(number, Label::Trusted))));

        let past = of(events(facts), None, 10_000).unwrap();

        assert_eq!((past.keep_from_seq, past.label), (2, Label::Trusted));
        assert!(!past.request.contains("read"));
    }

    /// The worst of what was summarised before stays on what is summarised of it.
    #[test]
    fn an_earlier_summary_is_part_of_the_next() {
        let earlier = Compaction {
            summary: Some("they spoke of tulips".to_owned()),
            keep_from_seq: Some(1),
            keep_from_step: None,
            shortened_over: None,
            tokens_before: 0,
            tokens_after: 0,
            trigger: crate::history::Trigger::Command,
            step: 1,
            label: Label::Untrusted,
            paid: None,
        };
        let facts = (0..17).map(|number| ("t", user(number, Label::Trusted)));

        let past = of(events(facts.collect()), Some(&earlier), 10_000).unwrap();

        assert!(past.request.contains("they spoke of tulips"));
        assert_eq!(past.label, Label::Untrusted);
    }
}
