use std::sync::Arc;

use serde_json::json;

use super::{
    Mark, Publisher,
    event::{Event, Gap, Kind, Moment, Reason, Stream},
    watch::{Batch, Filter, MAX_WAITING},
};
use crate::{doubles::clock::ManualClock, text::Expected};

fn live() -> Publisher {
    Publisher::new(7, Arc::new(ManualClock::default()))
}

/// Something that nobody may miss.
fn fact(number: u64) -> Event {
    Event::new(Kind::InboxChanged, json!({ "number": number }))
}

/// A piece of text, which is the first to go.
fn piece(turn: &str) -> Event {
    let moment = Moment::Stream { value: Stream::Text { data: "a".to_owned() } };
    Event::turn(&"main".into(), None, None, &turn.into(), moment)
}

fn seqs(batch: &Batch) -> Vec<u64> {
    batch.events.iter().map(|told| told.seq).collect()
}

fn mark(boot: u64, seq: u64) -> Option<Mark> {
    Some(Mark { boot, seq })
}

fn publish(live: &Publisher, times: u64) {
    live.publish_all((0..times).map(fact));
}

/// OP-41
#[actix::test]
async fn a_watcher_hears_what_comes_from_now_on_in_order() {
    let live = live();
    publish(&live, 3);
    let mut watch = live.watch(None, Filter::default());

    publish(&live, 2);
    let batch = watch.next().await.unwrap();

    assert_eq!(seqs(&batch), [4, 5]);
    assert!(batch.before.is_none() && batch.after.is_none());
    assert!(watch.take().is_none());
}

/// OP-41: a filter leaves holes in the numbers, which are no gaps.
#[actix::test]
async fn a_filter_is_applied_before_delivery() {
    let live = live();
    let of = |team: &str, task: &str| fact(0).of_team(&team.into()).of_task(Some(&task.into()));
    let kinds = Filter { kinds: vec![Kind::Log], ..Filter::default() };
    let team = Filter { team: Some("ops".into()), ..Filter::default() };
    let task = Filter { task: Some("task-1".into()), ..Filter::default() };
    let mut watches = [kinds, team, task].map(|filter| live.watch(None, filter));

    live.publish(of("main", "task-1"));
    live.publish(of("ops", "task-2"));
    live.publish(Event::new(Kind::Log, json!({})));

    let seen: Vec<Vec<u64>> =
        watches.iter_mut().map(|watch| seqs(&watch.take().unwrap())).collect();
    assert_eq!(seen, [[3], [2], [1]]);
}

/// OP-42
#[actix::test]
async fn one_who_comes_back_gets_all_that_was_kept() {
    let live = live();
    publish(&live, 9_000);
    let mut watch = live.watch(mark(7, 100), Filter::default());
    publish(&live, 10);

    let mut seen = Vec::new();
    while let Some(batch) = watch.take() {
        assert!(batch.before.is_none() && batch.after.is_none());
        seen.extend(seqs(&batch));
    }

    assert_eq!(seen, (101..=9_010).collect::<Vec<_>>());
}

/// OP-42
#[actix::test]
async fn one_who_comes_back_too_late_learns_it_first() {
    let live = live();
    publish(&live, 10_005);
    let mut watch = live.watch(mark(7, 4), Filter::default());

    let batch = watch.take().unwrap();
    publish(&live, 1);
    let next = watch.take().unwrap();

    let gap = Gap { from: 5, to: 10_005, reason: Reason::Overflow };
    assert_eq!((batch.before, batch.events.len()), (Some(gap), 0));
    assert_eq!(seqs(&next), [10_006]);
}

/// OP-42
#[actix::test]
async fn a_place_of_another_process_is_a_gap() {
    let live = live();
    publish(&live, 5);

    for from in [mark(6, 3), mark(7, 6)] {
        let mut watch = live.watch(from, Filter::default());
        let batch = watch.take().unwrap();

        let gap = Gap { from: 1, to: 5, reason: Reason::Restart };
        assert_eq!((batch.before, batch.events.len()), (Some(gap), 0));
        assert!(watch.take().is_none());
    }
}

/// OP-43
#[actix::test]
async fn a_full_queue_loses_passing_text_first_and_says_so() {
    let live = live();
    let mut slow = live.watch(None, Filter::default());
    let facts = MAX_WAITING as u64 - 6;

    live.publish_all((0..100).map(|_| piece("turn-1")));
    publish(&live, facts);
    let batch = slow.take().unwrap();

    assert_eq!(seqs(&batch), (101..=100 + facts).collect::<Vec<_>>());
    let gap = Gap { from: 1, to: 100 + facts, reason: Reason::Slow };
    assert_eq!(batch.after, Some(gap));
    assert!(slow.take().is_none());
}

/// OP-43
#[actix::test]
async fn a_queue_full_of_facts_becomes_a_gap_and_another_watcher_misses_nothing() {
    let live = live();
    let mut slow = live.watch(None, Filter::default());
    let mut quick = live.watch(None, Filter::default());
    let mut heard = Vec::new();

    for _ in 0..30 {
        publish(&live, 100);
        heard.extend(seqs(&quick.take().unwrap()));
    }
    let batch = slow.take().unwrap();
    publish(&live, 1);

    let gap = Gap { from: 1, to: 3_000, reason: Reason::Slow };
    assert_eq!((batch.after, batch.events.len()), (Some(gap), 0));
    assert_eq!(heard, (1..=3_000).collect::<Vec<_>>());
    assert_eq!(seqs(&slow.take().unwrap()), [3_001]);
}

/// OP-43: a queue that is just full is no loss.
#[actix::test]
async fn a_full_queue_is_delivered_whole() {
    let live = live();
    let mut slow = live.watch(None, Filter::default());

    publish(&live, MAX_WAITING as u64);
    let batch = slow.take().unwrap();

    assert_eq!(batch.events.len(), MAX_WAITING);
    assert_eq!(batch.after, None);
}

#[actix::test]
async fn all_watchers_end_with_the_process() {
    let live = live();
    let mut watch = live.watch(None, Filter::default());
    publish(&live, 1);

    live.end();

    assert_eq!(seqs(&watch.next().await.unwrap()), [1]);
    assert!(watch.next().await.is_none());
}

#[test]
fn a_mark_is_read_back() {
    let mark = Mark { boot: 3, seq: 99 };

    assert_eq!(mark.to_string(), "3-99");
    assert_eq!("3-99".parse(), Ok(mark));
    for text in ["", "3", "3-", "-3", "a-1", "1-2-3"] {
        let expected = Expected("the id of an event, such as 3-1042");
        assert_eq!(text.parse::<Mark>(), Err(expected), "{text}");
    }
}
