//! Inbox: what happened to the work of a lane while it did something else, shown to its next turn.

use std::{borrow::Cow, collections::HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    clock::Timestamp,
    excerpt::{self, Part},
    ids::TeamKey,
    storage::{Storage, StorageError},
    store::{
        keys::{Key, KeyReader, KeyWriter, Life, Parts, PrefixOf},
        reads::{Range, get, parse, scan_keyed},
        records::Record,
        redact::{Owner, Texts},
    },
    task::{Audience, Label, Lane, records::LaneKey},
};

pub const TEXTS: &[Texts] = &[Texts::of(InboxEvent::KIND, Owner::Key, &["text"])];

/// What stands before and behind the events in a message.
pub const AROUND: (&str, &str) = ("--- Since your last turn ---\n", "--- End ---\n\n");
/// A turn is shown at most this many events …
pub const MAX_EVENTS: usize = 20;
/// … of at most this many characters in all.
const MAX_CHARACTERS: usize = 8_000;

/// Something for a lane's next turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxEvent {
    /// Names it: a repeat is dropped.
    pub id: String,
    /// What, with its source, for the model.
    pub text: String,
    #[serde(default)]
    pub label: Label,
    pub at: Timestamp,
    /// Who may be shown it. Rows of former versions don't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<Audience>,
}

impl InboxEvent {
    /// Whether a turn of a lane is shown it. Several people may talk in a topic, and the one lane of another team serves
    /// everyone: each is shown what is theirs.
    pub fn is_for(&self, lane: &Lane, audience: &Audience) -> bool {
        let in_topic = lane.topic.is_some();
        match &self.audience {
            Some(meant) if in_topic => meant.is_of_nobody() || meant.is_of_person_behind(audience),
            Some(meant) => meant.includes(audience),
            None => in_topic || audience.is_everyone(),
        }
    }
}

crate::records! {
    /// An event that waits, by its place in the order of acceptance.
    InboxEvent: "inbox", (LaneKey, u64);
    PartlyShown<'_>: InboxEvent::KIND, ShownKey;
}

/// All that waits for a team.
impl PrefixOf<(LaneKey, u64)> for Life {}

/// An event that was shown in part: the whole stays for whoever reads on. It goes with its team and its age as those
/// that wait do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartlyShown<'a>(pub Cow<'a, InboxEvent>);

/// The lane that was shown an event, and the event's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownKey(pub LaneKey, pub String);

/// No topic's name begins with this: such events are not among those that wait.
const SHOWN_TOPIC: char = '\u{1}';

impl Parts for ShownKey {
    fn write(&self, key: &mut KeyWriter) {
        let Self(lane, event) = self;
        Life(lane.team()).write(key);
        key.text(&format!("{SHOWN_TOPIC}{}", lane.topic()));
        key.text(event);
    }
}

impl Key for ShownKey {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        let Life(team) = Key::read(key)?;
        let lane = LaneKey::of(team, key.text()?.strip_prefix(SHOWN_TOPIC)?);
        Some(Self(lane, key.text()?.to_owned()))
    }
}

/// What waits for the next turn of a lane, oldest first, with its numbers.
pub fn waiting(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
) -> Result<Vec<(u64, InboxEvent)>, StorageError> {
    let lane = LaneKey::new(lane, generation);
    let events = scan_keyed::<InboxEvent>(storage, Range::under(&(&lane,)))?;
    Ok(events.into_iter().map(|((_, number), event)| (number, event)).collect())
}

/// The stored keys of all that waits for a lane, or was shown to it in part.
pub(crate) fn keys_of_lane(
    storage: &dyn Storage,
    lane: &LaneKey,
) -> Result<Vec<Vec<u8>>, StorageError> {
    let shown = LaneKey::of(lane.team(), &format!("{SHOWN_TOPIC}{}", lane.topic()));
    let keys = |lane: &LaneKey| Range::<InboxEvent>::under(&(lane,)).keys(storage);
    Ok([keys(lane)?, keys(&shown)?].concat())
}

/// An event that was shown to a turn of this lane in part.
pub fn partly_shown(
    storage: &dyn Storage,
    lane: &Lane,
    generation: u32,
    id: &str,
) -> Result<Option<InboxEvent>, StorageError> {
    let key = ShownKey(LaneKey::new(lane, generation), id.to_owned());
    Ok(get::<PartlyShown<'_>>(storage, &key)?.map(|PartlyShown(event)| event.into_owned()))
}

/// The stored keys of all that waits for a team.
pub fn keys_of(storage: &dyn Storage, team: &TeamKey) -> Result<Vec<Vec<u8>>, StorageError> {
    Range::<InboxEvent>::under(&Life(team.clone())).keys(storage)
}

/// The lanes that find something in their inbox.
pub fn lanes(storage: &dyn Storage) -> Result<HashSet<LaneKey>, StorageError> {
    let keys = Range::<InboxEvent>::all().keys(storage)?;
    Ok(keys.iter().filter_map(|key| parse::<InboxEvent>(key)).map(|(lane, _)| lane).collect())
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The text before the task; empty if there is nothing.
    pub text: String,
    pub count: usize,
    /// Some of it is not to be believed.
    pub label: Label,
    /// The first of them is too long to be shown whole: the rest is there to be read.
    pub is_cut: bool,
}

/// The oldest events that fit, as one text. Those that don't stay for the next turn.
///
/// A single event that is too long is cut for a turn that can read the rest of it, and shown whole to
/// one that cannot.
pub fn show(events: &[InboxEvent], can_read: bool) -> Shown {
    let mut shown = Shown::default();
    let mut length = 0;
    for event in events.iter().take(MAX_EVENTS) {
        let size = event.text.chars().count();
        if shown.count > 0 && length + size > MAX_CHARACTERS {
            break;
        }
        let text = if can_read && size > MAX_CHARACTERS {
            shown.is_cut = true;
            let rest = excerpt::to_read(&event.id, Part::Result, MAX_CHARACTERS);
            excerpt::excerpt(&event.text, MAX_CHARACTERS, &rest)
        } else {
            event.text.clone()
        };
        length += size;
        shown.count += 1;
        shown.label = shown.label.max(event.label);
        shown.text.push_str(&text);
        shown.text.push('\n');
    }
    if shown.count == 0 {
        return shown;
    }
    let left = events.len() - shown.count;
    let rest = match left {
        0 => String::new(),
        left => format!("({left} more wait for the next turn.)\n"),
    };
    shown.text = format!("{}{}{rest}{}", AROUND.0, shown.text, AROUND.1);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: usize, text: String) -> InboxEvent {
        InboxEvent {
            id: number.to_string(),
            text,
            label: Label::Trusted,
            at: Timestamp(0),
            audience: None,
        }
    }

    /// OR-67
    #[test]
    fn an_empty_inbox_says_nothing() {
        assert_eq!(show(&[], true), Shown::default());
    }

    /// OR-67
    #[test]
    fn at_most_twenty_events_are_shown_and_the_rest_is_counted() {
        let events: Vec<_> = (0..23).map(|n| event(n, format!("event {n}."))).collect();

        let shown = show(&events, true);

        assert_eq!(shown.count, 20);
        assert!(shown.text.contains("event 0."), "{}", shown.text);
        assert!(shown.text.contains("event 19."), "{}", shown.text);
        assert!(!shown.text.contains("event 20."), "{}", shown.text);
        assert!(shown.text.contains("(3 more wait"), "{}", shown.text);
    }

    /// OR-67: what does not fit is counted, and can be read.
    #[test]
    fn a_long_event_is_cut_with_the_way_to_its_rest_and_others_wait() {
        let events = [event(7, "a".repeat(9_000)), event(8, "b".to_owned())];

        let shown = show(&events, true);

        let mark = r#"aaa … [1000 more characters: list_completed_tasks {"id":"7","offset":8000}]"#;
        assert!(shown.text.contains(mark), "{}", &shown.text[8_000..]);
        assert!(shown.text.contains("(1 more wait for the next turn.)"));
        assert_eq!((shown.count, shown.is_cut), (1, true));
    }

    /// OR-67: nothing is lost on a turn that has no tool to read it with.
    #[test]
    fn a_long_event_is_shown_whole_to_a_turn_that_cannot_read_its_rest() {
        let whole = "a".repeat(9_000);

        let shown = show(&[event(0, whole.clone())], false);

        assert!(shown.text.contains(&whole));
        assert!(!shown.is_cut);
    }

    /// MV-13: an event that is not to be believed makes the turn so.
    #[test]
    fn the_label_falls_to_the_worst_shown() {
        let mut events = [event(0, "a".into()), event(1, "b".into())];
        events[1].label = Label::Untrusted;

        assert_eq!(show(&events[..1], true).label, Label::Trusted);
        assert_eq!(show(&events, true).label, Label::Untrusted);
    }
}
