use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::router::choice::parse_choice;

const NOW: Timestamp = Timestamp(1_800_000_000_000);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const SETTINGS: Settings = Settings {
    max_active: NonZeroUsize::new(5).unwrap(),
    idle_after: Duration::from_secs(30 * 60),
};

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

fn request(content: &str) -> Resolve<'_> {
    Resolve { content, explicit: None, now: NOW, settings: SETTINGS, open_work: &|_| false }
}

fn explicit<'a>(topic: &'a str) -> Resolve<'a> {
    Resolve { explicit: Some(topic), ..request("anything") }
}

fn open_topic(number: u64, name: &str, state: TopicState, ago: Duration) -> OpenTopic {
    OpenTopic { id: id(number), name: name.to_owned(), state, last_activity: NOW - ago }
}

fn new(name: &str) -> Resolution {
    Resolution::New { name: name.to_owned(), titled: false }
}

/// The ids of the candidates, best first, and the fallback.
fn ambiguous(resolution: Resolution) -> (Vec<TopicId>, Resolution) {
    match resolution {
        Resolution::Ambiguous { candidates, fallback } => {
            (candidates.into_iter().map(|c| c.id).collect(), *fallback)
        }
        other => panic!("not ambiguous: {other:?}"),
    }
}

/// CH-125
#[test]
fn an_explicit_topic_is_taken_whatever_the_words() {
    let topics = topics([("billing", MINUTE), ("garden", MINUTE)]);
    let topic = id(2);

    let resolution = topics.resolve(&Resolve { content: "billing", ..explicit(topic.as_str()) });

    assert_eq!(resolution, Resolution::Existing(topic));
}

/// CH-75, CH-125
#[test]
fn a_wrong_explicit_topic_is_refused_with_the_open_ones() {
    let mut topics = topics([("billing", 60 * MINUTE), ("garden", MINUTE), ("old", 8 * DAY)]);
    topics.open(id(4), "closed".into(), "closed", NOW);
    topics.close(&id(4));
    let open = vec![
        open_topic(2, "garden", TopicState::Active, MINUTE),
        open_topic(1, "billing", TopicState::Idle, 60 * MINUTE),
    ];
    let refusal = |id: &str| match topics.resolve(&explicit(id)) {
        Resolution::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    };

    for bad in ["", "billing", "t-1", "t-000000000000000g", "T-0000000000000001"] {
        assert_eq!(refusal(bad), Refusal::BadTopicId { open: open.clone() });
    }
    assert_eq!(refusal(id(9).as_str()), Refusal::UnknownTopic { open: open.clone() });
    for done in [3, 4] {
        assert_eq!(refusal(id(done).as_str()), Refusal::TopicDone { open: open.clone() });
    }
}

/// CH-127, CH-135
#[test]
fn without_candidates_a_message_begins_a_topic() {
    let mut topics = topics([("billing", 8 * DAY)]);

    assert_eq!(topics.resolve(&request("The garden")), new("garden"));
    // A topic that is over is no candidate, and keeps its name.
    assert_eq!(topics.resolve(&request("Billing?")), new("Billing 2"));

    topics.close(&id(1));
    assert_eq!(topics.resolve(&request("Billing?")), new("Billing 2"));
}

/// CH-130
#[test]
fn a_clear_winner_is_taken() {
    let topics = topics([("invoice export", 2 * MINUTE), ("garden fence", MINUTE)]);

    assert_eq!(topics.resolve(&request("Why are the invoices slow?")), Resolution::Existing(id(1)));
}

/// CH-123, CH-130
#[test]
fn a_good_score_without_a_lead_is_ambiguous() {
    let topics = topics([("invoice export", 2 * MINUTE), ("invoice layout", MINUTE)]);

    let (candidates, fallback) = ambiguous(topics.resolve(&request("invoice")));

    assert_eq!(candidates, [id(2), id(1)]);
    assert_eq!(fallback, Resolution::Existing(id(2)));
}

/// CH-123, CH-130
#[test]
fn the_best_needs_its_score_and_its_lead() {
    // A word is worth 0.8 to the power of its age; the second topic may have it too.
    let resolve = |age: u32, second: Option<u32>| {
        let mut topics = topics([("garden", 2 * MINUTE), ("billing", MINUTE)]);
        for (number, age) in [(1, Some(age)), (2, second)] {
            if let Some(age) = age {
                topics.record(&id(number), "fence", NOW - MINUTE);
                for _ in 0..age {
                    topics.record(&id(number), "filler", NOW - MINUTE);
                }
            }
        }
        topics.resolve(&request("fence"))
    };

    assert_eq!(resolve(4, None), Resolution::Existing(id(1)), "0.41");
    assert_eq!(ambiguous(resolve(5, None)).0, [id(1), id(2)], "0.33");
    assert_eq!(resolve(1, Some(2)), Resolution::Existing(id(1)), "0.16 ahead");
    assert_eq!(ambiguous(resolve(2, Some(3))).0, [id(1), id(2)], "0.13 ahead");
}

/// CH-130, CH-138
#[test]
fn an_idle_topic_that_a_message_reaches_is_active_again() {
    let mut topics = topics([("garden fence", 60 * MINUTE), ("billing", MINUTE)]);
    let resolution = topics.resolve(&request("the fence"));

    let topic = topics.record(&id(1), "the fence", NOW).unwrap();

    assert_eq!(resolution, Resolution::Existing(id(1)));
    assert_eq!(topic.state(NOW, false, SETTINGS.idle_after), TopicState::Active);
}

/// CH-131
#[test]
fn the_only_topic_takes_what_fits_a_little() {
    let little = "fence paint colour wood price delivery";
    let active = topics([("garden fence", MINUTE)]);
    let idle = topics([("garden fence", 60 * MINUTE)]);

    assert_eq!(active.resolve(&request(little)), Resolution::Existing(id(1)));
    assert_eq!(
        ambiguous(idle.resolve(&request(little))),
        (vec![id(1)], Resolution::Existing(id(1)))
    );
    assert_eq!(
        ambiguous(active.resolve(&request("billing"))),
        (vec![id(1)], Resolution::Existing(id(1)))
    );
}

/// CH-132
#[test]
fn a_model_decides_between_the_candidates() {
    let topics = topics([("garden", 2 * MINUTE), ("billing", MINUTE)]);
    let request = request("And the other thing?");
    let Resolution::Ambiguous { candidates, .. } = topics.resolve(&request) else {
        panic!("not ambiguous");
    };
    let choose = |answer| topics.choose(parse_choice(answer, &candidates), &request);

    assert_eq!(
        choose("```json\n{\"topic_ids\":[\"t-0000000000000001\"]}\n```"),
        Resolution::Existing(id(1))
    );
    let titled = Resolution::New { name: "Billing 2".to_owned(), titled: true };
    assert_eq!(choose(r#"{"topic_ids":["new"],"topic_name":"Billing"}"#), titled);
    assert_eq!(choose(r#"{"topic_ids":["new"]}"#), new("thing"));
    assert_eq!(choose("no idea"), Resolution::Existing(id(2)));
}

/// CH-132
#[test]
fn a_choice_that_was_closed_meanwhile_is_none() {
    let mut topics = topics([("garden", MINUTE), ("billing", 2 * MINUTE)]);
    topics.close(&id(1));

    let resolution = topics.choose(Some(Choice::Existing(id(1))), &request("hm"));

    assert_eq!(resolution, Resolution::Existing(id(2)));
}

/// CH-133
#[test]
fn the_fallback_prefers_active_then_related_then_new() {
    let fallback = |topics: Topics, content| topics.choose(None, &request(content));

    assert_eq!(
        fallback(topics([("a1", 3 * MINUTE), ("b1", 2 * MINUTE), ("c1", 60 * MINUTE)]), "c1"),
        Resolution::Existing(id(2))
    );
    assert_eq!(
        fallback(topics([("a1", DAY), ("b1", 2 * DAY)]), "b1 and more"),
        Resolution::Existing(id(2))
    );
    assert_eq!(fallback(topics([("a1", DAY), ("b1", 2 * DAY)]), "other things"), new("things"));
}

/// CH-121, CH-137
#[test]
fn beyond_the_cap_nothing_becomes_active() {
    let full = topics([
        ("a1", MINUTE),
        ("b1", 2 * MINUTE),
        ("c1", 3 * MINUTE),
        ("d1", 4 * MINUTE),
        ("e1", 60 * MINUTE),
        ("idle", 60 * MINUTE),
    ]);
    // The fifth is kept active by its work alone.
    let working = |topic: &TopicId| *topic == id(5);
    let with_work = |request| Resolve { open_work: &working, ..request };
    let too_many = Resolution::Refused(Refusal::TooManyTopics {
        max_active: 5,
        active: vec![
            open_topic(1, "a1", TopicState::Active, MINUTE),
            open_topic(2, "b1", TopicState::Active, 2 * MINUTE),
            open_topic(3, "c1", TopicState::Active, 3 * MINUTE),
            open_topic(4, "d1", TopicState::Active, 4 * MINUTE),
            open_topic(5, "e1", TopicState::Active, 60 * MINUTE),
        ],
    });
    let (idle, busy) = (id(6), id(5));
    let new_one = || Some(Choice::New { name: None });

    assert_eq!(full.resolve(&with_work(request("idle"))), too_many);
    assert_eq!(full.resolve(&with_work(explicit(idle.as_str()))), too_many);
    assert_eq!(full.choose(new_one(), &with_work(request("x"))), too_many);

    assert_eq!(full.resolve(&with_work(explicit(busy.as_str()))), Resolution::Existing(id(5)));
    assert_eq!(
        full.resolve(&request("idle")),
        Resolution::Existing(id(6)),
        "without its work the fifth is idle, so there is room"
    );
    assert_eq!(full.choose(new_one(), &request("garden")), new("garden"));
}

/// CH-133
#[test]
fn at_the_cap_an_ambiguous_message_still_has_its_fallback() {
    let full = topics([
        ("a1", MINUTE),
        ("b1", 2 * MINUTE),
        ("c1", 3 * MINUTE),
        ("d1", 4 * MINUTE),
        ("e1", 5 * MINUTE),
    ]);

    let (_, fallback) = ambiguous(full.resolve(&request("something else")));

    assert_eq!(fallback, Resolution::Existing(id(1)));
}

/// Messages of a few words, so that they often meet, and of anything else.
fn message() -> impl Strategy<Value = String> {
    prop_oneof!["(invoice|garden|fence|export|the|登录|错误| |!){0,6}", "\\PC{0,40}", ".{0,40}",]
}

/// What a channel was told: messages, each some time after the one before it.
fn conversation() -> impl Strategy<Value = Vec<(String, u64)>> {
    let pause = prop_oneof![0_u64..5, 0_u64..90, 0_u64..20_000];
    prop::collection::vec((message(), pause), 0..40)
}

/// Takes every message through, with the fallback where it is ambiguous.
fn talk(
    conversation: &[(String, u64)],
    mut check: impl FnMut(&Topics, &Resolve<'_>, &Resolution),
) -> Topics {
    let mut topics = Topics::default();
    let mut now = NOW;
    for (number, (content, pause)) in (0..).zip(conversation) {
        now = now + Duration::from_secs(pause * 60);
        let request = Resolve { now, ..request(content) };
        let mut resolution = topics.resolve(&request);
        check(&topics, &request, &resolution);
        if let Resolution::Ambiguous { fallback, .. } = resolution {
            resolution = *fallback;
        }
        match resolution {
            Resolution::Existing(id) => assert!(topics.record(&id, content, now).is_some()),
            Resolution::New { name, .. } => {
                topics.open(id(number), name, content, now);
            }
            Resolution::Refused(Refusal::TooManyTopics { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    topics
}

fn active(topics: &Topics, now: Timestamp) -> usize {
    let rows = topics.rows(now, SETTINGS.idle_after, |_| (0, false));
    rows.iter().filter(|row| row.state == TopicState::Active).count()
}

proptest! {
    /// CH-133, CH-136, CH-137
    #[test]
    fn a_plain_message_is_refused_only_at_the_cap(conversation in conversation()) {
        talk(&conversation, |topics, request, resolution| {
            assert_eq!(topics.resolve(request), *resolution, "same input, same result");
            match resolution {
                Resolution::Refused(refusal) => {
                    assert_eq!(refusal.code(), "too_many_topics");
                    assert_eq!(active(topics, request.now), 5);
                }
                Resolution::Ambiguous { candidates, fallback } => {
                    assert!(candidates.iter().all(|c| (0.0..=1.0).contains(&c.score)));
                    assert!(candidates.is_sorted_by(|a, b| a.score >= b.score));
                    assert!(matches!(**fallback, Resolution::Existing(_) | Resolution::New { .. }));
                }
                Resolution::Existing(_) | Resolution::New { .. } => {}
            }
            assert!(active(topics, request.now) <= 5);
        });
    }

    /// CH-135
    #[test]
    fn names_are_unique_in_the_channel(conversation in conversation()) {
        let topics = talk(&conversation, |_, _, _| {});

        let names: Vec<String> =
            topics.0.values().map(|entry| entry.topic.name.to_lowercase()).collect();
        let distinct: HashSet<&String> = names.iter().collect();
        prop_assert_eq!(distinct.len(), names.len());
    }

    /// CH-136
    #[test]
    fn the_name_of_a_topic_scores_highest_for_it(conversation in conversation()) {
        let topics = talk(&conversation, |_, _, _| {});
        let now = topics.0.values().map(|e| e.topic.last_activity).max().unwrap_or(NOW);

        for Entry { topic, name } in topics.0.values() {
            let request = Resolve { now, ..request(&topic.name) };
            let mut open = topics.open_topics(&request);
            rank(&mut open, &topic.name);
            if let Some(own) = find(&open, topic.id.as_str())
                && name.iter().next().is_some()
            {
                prop_assert_eq!(own.score, 1.0);
                prop_assert!(open.iter().all(|other| other.score <= own.score));
            }
        }
    }

    #[test]
    fn any_explicit_id_is_answered(text in "\\PC*|t-[0-9a-f]{15,17}") {
        let resolution = topics([("billing", MINUTE)]).resolve(&explicit(&text));

        let expected = if text == id(1).as_str() { None } else if is_topic_id(&text) { Some("unknown_topic") } else { Some("bad_topic_id") };
        let code = match &resolution {
            Resolution::Refused(refusal) => Some(refusal.code()),
            _ => None,
        };
        prop_assert_eq!(code, expected);
    }
}
