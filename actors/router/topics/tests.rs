use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const IDLE_AFTER: Duration = Duration::from_secs(30 * 60);

fn id(number: u64) -> TopicId {
    format!("t-{number:016x}").into()
}

/// Topics numbered from 1, with their name and how long ago their only message came.
fn topics<const N: usize>(names: [(&str, Duration); N]) -> Topics {
    let mut topics = Topics::default();
    for (number, (name, ago)) in (1..).zip(names) {
        topics.open(id(number), name.to_owned(), name, NOW - ago);
    }
    topics
}

/// CH-122, CH-138
#[test]
fn a_topic_goes_idle_and_then_is_done() {
    let topics = topics([("billing", Duration::ZERO)]);
    let topic = topics.get(id(1).as_str()).unwrap();
    let state = |after, work| topic.state(NOW + after, work, IDLE_AFTER);
    let tick = Duration::from_millis(1);

    assert_eq!(state(30 * MINUTE - tick, false), TopicState::Active);
    assert_eq!(state(30 * MINUTE, false), TopicState::Idle);
    assert_eq!(state(30 * MINUTE + 7 * DAY - tick, false), TopicState::Idle);
    assert_eq!(state(30 * MINUTE + 7 * DAY, false), TopicState::Done);
    assert_eq!(state(30 * MINUTE, true), TopicState::Active);
}

/// CH-138
#[test]
fn the_time_until_idle_begins_when_work_ends() {
    let mut topics = topics([("billing", 120 * MINUTE)]);

    let touched = topics.touch(&id(1), NOW - 10 * MINUTE).unwrap();

    assert_eq!(touched.state(NOW, false, IDLE_AFTER), TopicState::Active);
}

/// CH-138
#[test]
fn a_restart_changes_no_state() {
    let mut before = topics([("billing", MINUTE), ("garden", 60 * MINUTE), ("old", DAY)]);
    before.record(&id(1), "Invoices, please", NOW);
    before.close(&id(3));
    let stored: Vec<String> =
        before.0.values().map(|entry| serde_json::to_string(&entry.topic).unwrap()).collect();

    let after: Topics =
        stored.iter().map(|row| serde_json::from_str::<Topic>(row).unwrap()).collect();

    let rows = |topics: &Topics| topics.rows(NOW, IDLE_AFTER, |_| (0, false));
    assert_eq!(rows(&after), rows(&before));
    assert_eq!(
        stored[0],
        r#"{"id":"t-0000000000000001","name":"billing","created_at":1799999940000,"last_activity":1800000000000}"#
    );
}

/// CH-136
#[test]
fn only_the_last_ten_messages_are_remembered() {
    let mut topics = topics([("first", Duration::ZERO)]);
    for number in 10..30 {
        topics.record(&id(1), &format!("word{number}"), NOW);
    }

    let recent = &topics.get(id(1).as_str()).unwrap().recent;

    let expected: VecDeque<Words> =
        (20..30).rev().map(|number| Words::of(&format!("word{number}"))).collect();
    assert_eq!(*recent, expected);
}

#[test]
fn a_closed_topic_takes_no_message() {
    let mut topics = topics([("billing", MINUTE)]);
    topics.close(&id(1));
    let closed = topics.close(&id(1)).cloned();

    assert_eq!(topics.record(&id(1), "more", NOW), None);
    assert_eq!(topics.get(id(1).as_str()).cloned(), closed);
    assert!(closed.is_some_and(|topic| topic.closed && topic.recent.is_empty()));
    assert_eq!(topics.record(&id(7), "more", NOW), None);
}

/// CH-56, CH-139
#[test]
fn the_list_shows_open_topics_and_the_last_twenty_done() {
    let mut topics = Topics::default();
    for number in 1..=30 {
        let at = NOW - 8 * DAY - u32::try_from(number).unwrap() * MINUTE;
        topics.open(id(number), format!("old {number}"), "", at);
    }
    topics.open(id(40), "busy".into(), "", NOW - 9 * DAY);
    topics.open(id(41), "idle".into(), "", NOW - DAY);
    topics.open(id(42), "active".into(), "", NOW);
    topics.open(id(43), "closed".into(), "", NOW - MINUTE);
    topics.close(&id(43));
    let work = |topic: &TopicId| {
        if *topic == id(40) { (2, true) } else { (0, false) }
    };

    let rows = topics.rows(NOW, IDLE_AFTER, work);

    let row = |number, name: &str, state, ago| TopicRow {
        id: id(number),
        name: name.to_owned(),
        state,
        pinned: false,
        last_activity: NOW - ago,
        queued: 0,
        running: false,
        profile: None,
        branch: None,
        read_until: None,
    };
    let mut expected = vec![
        row(42, "active", TopicState::Active, Duration::ZERO),
        row(43, "closed", TopicState::Done, MINUTE),
        row(41, "idle", TopicState::Idle, DAY),
    ];
    // With the closed one they are twenty.
    expected.extend((1..=19).map(|number| {
        let ago = 8 * DAY + u32::try_from(number).unwrap() * MINUTE;
        row(number, &format!("old {number}"), TopicState::Done, ago)
    }));
    expected.push(TopicRow {
        queued: 2,
        running: true,
        ..row(40, "busy", TopicState::Active, 9 * DAY)
    });
    assert_eq!(rows, expected);
}
