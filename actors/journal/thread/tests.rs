//! Conversations that are read back, and grow.

use std::borrow::Cow;

use super::*;
use crate::{
    doubles::disk::Disk,
    history::{Compaction, Fact, HistoryEvent, Meta, Origin, Trigger},
    journal::{
        fold::tests::{call, end, events, nothing, start, user},
        records::Piece,
    },
    store::records::Writes,
    task::{Lane, cause::Cause, outcome::Ending},
};

fn lane() -> LaneKey {
    LaneKey::new(&Lane { team: "main".into(), topic: Some("t-1".into()) }, 1)
}

fn reader(label: Label) -> Reader {
    let scope = Scope::Person { cause: Cause::sender("ws", "ann"), channel: Some("ws:1".into()) };
    Reader { scope, label, clean: nothing() }
}

/// A turn in which somebody said something, and a tool was called.
fn turn(words: &str, start: Fact) -> Vec<Fact> {
    vec![
        start,
        user(words, Origin::Person, Label::Trusted),
        call("call-1", 1),
        end(Ending::Done, None, "Fine."),
    ]
}

/// Stores each of these as a piece of its own.
fn stored(pieces: &[Vec<HistoryEvent>]) -> std::sync::Arc<crate::doubles::disk::MemoryStorage> {
    let disk = Disk::default();
    let storage = disk.mount(None);
    for piece in pieces {
        let key = (lane(), piece[0].seq);
        let writes = Writes::new().put_at(&key, &Piece(Cow::Borrowed(piece)));
        storage.commit(&writes.batch().unwrap()).unwrap();
    }
    storage
}

fn read(storage: &dyn Storage, label: Label) -> Thread {
    Thread::read(storage, &lane(), reader(label), Timestamp(0), 10_000).unwrap()
}

/// The first words of each part.
fn first_words(earlier: &Earlier) -> Vec<String> {
    let parts = earlier.parts();
    let words = parts.iter().map(|part| match &part[0] {
        Message::User(text) => text.clone(),
        other => panic!("{other:?}"),
    });
    words.collect()
}

fn ids(earlier: &Earlier) -> Vec<String> {
    let parts = earlier.parts();
    let calls = parts.iter().flat_map(|part| part.iter()).flat_map(Message::calls);
    calls.map(|call| call.id.to_string()).collect()
}

fn summary(text: &str, keep_from_seq: u64, trigger: Trigger, label: Label) -> Fact {
    Fact::Meta(Meta::Compaction(Box::new(Compaction {
        summary: Some(text.to_owned()),
        keep_from_seq: Some(keep_from_seq),
        keep_from_step: None,
        shortened_over: None,
        tokens_before: 0,
        tokens_after: 0,
        trigger,
        step: 1,
        label,
        paid: None,
    })))
}

fn changed(change: impl FnOnce(&mut Fact)) -> Fact {
    let mut start = start();
    change(&mut start);
    start
}

/// CH-151: of another person, in another channel or of another beginning.
#[test]
fn turns_of_others_are_not_part_of_it() {
    let of = |id: &str, to: &str| {
        changed(|start| {
            if let Fact::TurnStart { cause, source_channel, .. } = start {
                *cause = Some(Cause::sender("ws", id));
                *source_channel = Some(to.into());
            }
        })
    };
    let known_by_now = changed(|start| {
        if let Fact::TurnStart { cause: Some(Cause::Sender { principal, guest, .. }), .. } = start {
            (*principal, *guest) = (Some("ann".to_owned()), true);
        }
    });
    let storage = stored(&[
        events(1, turn("one", start())),
        events(11, turn("two", of("bob", "ws:1"))),
        events(21, turn("three", of("ann", "ws:2"))),
        events(31, turn("four", known_by_now)),
    ]);

    let thread = read(&*storage, Label::Trusted);

    assert_eq!(first_words(&thread.before(u64::MAX)), ["one", "four"]);
}

/// SE-21, SE-31: what ended after a turn began is not shown to it; a turn that has not ended is shown to nobody. The
/// order is that of their ends.
#[test]
fn a_turn_is_shown_what_had_ended_when_it_began() {
    let (one, two) = (events(1, turn("one", start())), events(3, turn("two", start())));
    let mut one: Vec<HistoryEvent> = one;
    // It was set aside after its first two events, and ended behind the second.
    for (seq, event) in [7, 8].into_iter().zip(&mut one[2..]) {
        event.seq = seq;
    }
    let open = vec![start(), user("three", Origin::Person, Label::Trusted)];
    let storage = stored(&[one[..2].to_vec(), two, one[2..].to_vec(), events(9, open)]);

    let thread = read(&*storage, Label::Trusted);

    assert_eq!(first_words(&thread.before(u64::MAX)), ["two", "one"]);
    assert_eq!(first_words(&thread.before(8)), ["two"]);
    assert_eq!(first_words(&thread.before(6)), [""; 0]);
}

/// SE-41, SE-92: what a summary stands for is not read; one of a person's command counts too.
#[test]
fn a_summary_stands_for_the_turns_before_it() {
    for trigger in [Trigger::Size, Trigger::Command] {
        let mut third = turn("three", start());
        let compaction = summary("of one", 11, trigger, Label::Trusted);
        let last = match trigger {
            Trigger::Command => vec![start(), compaction, end(Ending::Done, None, "Summarised.")],
            _ => {
                third.insert(2, compaction);
                Vec::new()
            }
        };
        let mut pieces = vec![
            events(1, turn("one", start())),
            events(11, turn("two", start())),
            events(21, third),
        ];
        pieces.extend((!last.is_empty()).then(|| events(31, last)));
        let storage = stored(&pieces);

        let believed = read(&*storage, Label::Trusted).before(u64::MAX);
        let other = read(&*storage, Label::Untrusted).before(u64::MAX);

        let words = first_words(&believed);
        assert!(words[0].contains("of one"), "{words:?}");
        assert_eq!(words[1..], ["two", "three"]);
        // It was made for others.
        assert_eq!(first_words(&other), ["one", "two", "three"]);
    }
}

/// SE-31: a conversation that is read back is the one that was there, call for call, though servers count calls anew.
#[test]
fn what_is_read_back_is_what_was_there() {
    let turns: Vec<_> =
        (0..5).map(|n| events(10 * n + 1, turn(&format!("words {n}"), start()))).collect();
    let mut living = Thread::new(reader(Label::Trusted), 10_000);
    for events in &turns {
        let mut fold = TurnFold::default();
        events.iter().cloned().for_each(|event| fold.on(event));
        living.end(fold);
    }

    let again = read(&*stored(&turns), Label::Trusted);

    let (living, again) = (living.before(u64::MAX), again.before(u64::MAX));
    let all = |earlier: &Earlier| format!("{:?}", earlier.before(u64::MAX));
    assert_eq!(all(&living), all(&again));
    assert_eq!(ids(&again), ["call-1", "call-1_11", "call-1_21", "call-1_31", "call-1_41"]);
}

/// SE-41: no more than is asked for is read, or kept.
#[test]
fn the_oldest_turns_are_left_out_where_there_are_too_many() {
    let turns: Vec<_> =
        (0..9).map(|n| events(10 * n + 1, turn(&"x".repeat(100), start()))).collect();
    let storage = stored(&turns);

    let thread = Thread::read(&*storage, &lane(), reader(Label::Trusted), Timestamp(0), 500);

    let thread = thread.unwrap();
    assert!(thread.characters() <= 500);
    assert_eq!(thread.before(u64::MAX).parts().len(), 2);
}

/// OP-26: whole turns count, or don't.
#[test]
fn a_turn_from_before_the_conversation_began_anew_is_left_out() {
    let storage = stored(&[events(1, turn("one", start())), events(11, turn("two", start()))]);
    let since = |at| Thread::read(&*storage, &lane(), reader(Label::Trusted), Timestamp(at), 9_999);

    assert_eq!(first_words(&since(3).unwrap().before(u64::MAX)), ["two"]);
    assert_eq!(first_words(&since(1).unwrap().before(u64::MAX)), ["one", "two"]);
}

fn of_sizes(sizes: &[usize]) -> Earlier {
    let turn = |size: &usize| vec![Message::User("x".repeat(*size))];
    Earlier::of(sizes.iter().map(turn).collect())
}

/// SE-92: the newest stay, the last one also if it is larger than the others may be.
#[test]
fn a_cut_keeps_the_newest_turns() {
    assert_eq!(of_sizes(&[10, 10, 10]).cut(30), None);
    assert_eq!(of_sizes(&[10, 10, 10]).cut(29), Some(20));
    assert_eq!(of_sizes(&[10, 10, 10]).cut(9), Some(30));
    assert_eq!(of_sizes(&[10, 10, 10]).cut(4), Some(THIS_TURN));
    assert_eq!(of_sizes(&[]).cut(0), None);
}

/// EN-36
#[test]
fn a_command_keeps_so_many_messages() {
    assert_eq!(of_sizes(&[1; 4]).cut_behind(4), None);
    assert_eq!(of_sizes(&[1; 5]).cut_behind(4), Some(20));
}

/// SE-94: a later cut stands for what an earlier one did; one that is older than what is left out already does nothing.
#[test]
fn a_summary_takes_the_place_of_the_former() {
    let mut earlier = of_sizes(&[1, 2, 3]);

    earlier.keep_from(20, Some("first"));
    earlier.keep_from(30, Some("second"));
    earlier.keep_from(20, Some("late"));

    let words = first_words(&earlier);
    assert!(words[0].contains("second"), "{words:?}");
    assert_eq!(words[1], "xxx");
    let parts = earlier.parts();
    let size: usize = parts.iter().map(|part| part.characters()).sum();
    assert_eq!(earlier.characters(), size);
    // Without a summary the former stays.
    earlier.keep_from(THIS_TURN, None);
    assert_eq!(first_words(&earlier), words[..1]);
}
