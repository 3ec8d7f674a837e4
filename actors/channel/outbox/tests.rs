//! The outbox: order on the wire, bounds in the store.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::frame::{Progress, ProgressKind};

fn frame(ordinal: u64, progress: bool, at: Timestamp) -> Arc<Frame> {
    let body = if progress {
        Body::Progress(Progress::new(ProgressKind::Note, ordinal.to_string()))
    } else {
        Body::Notification(crate::frame::Notification {
            content: ordinal.to_string(),
            team: "main".into(),
            task_id: None,
            status: "done".to_owned(),
            kind: crate::frame::NotificationKind::Task,
            ref_id: None,
            truncated: false,
            files: Vec::new(),
            by: None,
        })
    };
    Arc::new(Frame { topic: None, ts: at, body })
}

fn plain(ordinal: u64) -> Arc<Frame> {
    frame(ordinal, false, Timestamp(0))
}

/// A server, its store, and a client that is connected again and again.
#[derive(Default)]
struct Line {
    outbox: Outbox,
    store: BTreeSet<u64>,
    newest: u64,
    unannounced: Vec<u64>,
    last_seq: u64,
    received: Vec<u64>,
    lost: u64,
}

impl Line {
    fn receive(&mut self, seq: u64) -> Result<(), TestCaseError> {
        prop_assert!(seq > self.last_seq, "{seq} after {}", self.last_seq);
        self.last_seq = seq;
        Ok(())
    }

    fn announce(&mut self, place: usize) -> Result<(), TestCaseError> {
        if self.unannounced.is_empty() {
            return Ok(());
        }
        let ordinal = self.unannounced.remove(place % self.unannounced.len());
        self.outbox.stored(ordinal, 100, plain(ordinal));
        for (ordinal, _) in self.outbox.take_ready() {
            self.receive(seq(ordinal))?;
            self.received.push(ordinal);
        }
        Ok(())
    }

    fn reload(&mut self) -> Result<(), TestCaseError> {
        let rows = self.store.iter().map(|ordinal| (*ordinal, 100, plain(*ordinal)));
        let replay = self.outbox.reload(rows.collect(), self.last_seq);
        for part in replay {
            match part {
                Replay::Frame(ordinal, _) => {
                    self.receive(seq(ordinal))?;
                    self.received.push(ordinal);
                }
                Replay::Hole(gap) => {
                    self.lost += gap.dropped;
                    self.receive(gap.to_seq)?;
                }
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Step {
    Store,
    Announce(usize),
    Pass,
    Reconnect {
        restarted: bool,
    },
    Recheck,
    /// The store loses its oldest frames, as it does at its bounds.
    Drop(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Store),
        4 => (0..5_usize).prop_map(Step::Announce),
        3 => Just(Step::Pass),
        1 => any::<bool>().prop_map(|restarted| Step::Reconnect { restarted }),
        1 => Just(Step::Recheck),
        1 => (0..3_usize).prop_map(Step::Drop),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// CH-85, CH-89, CH-90: whatever the order of arrival, however often the client comes back and
    /// the server starts again, numbers rise and each frame comes once or is reported lost.
    #[test]
    fn numbers_rise_and_every_frame_comes_once_or_is_reported(
        steps in prop::collection::vec(step(), 1..80)
    ) {
        let mut line = Line::default();
        for step in steps {
            match step {
                Step::Store => {
                    line.newest += 1;
                    line.store.insert(line.newest);
                    line.unannounced.push(line.newest);
                }
                Step::Announce(place) => line.announce(place)?,
                Step::Pass => {
                    let number = line.outbox.passing().unwrap();
                    line.receive(number)?;
                }
                Step::Reconnect { restarted } => {
                    if restarted {
                        line.outbox = Outbox::default();
                        line.unannounced.clear();
                    }
                    line.reload()?;
                }
                Step::Recheck => {
                    prop_assert_eq!(line.outbox.newest_seq(), line.last_seq);
                    line.reload()?;
                }
                Step::Drop(count) => {
                    // Frames that are announced later were not dropped before: bounds apply to what
                    // is known. The newest always stays. A client that has nothing misses nothing.
                    for _ in 0..count {
                        if line.store.len() > 1 && line.last_seq > 0 {
                            let oldest = line.store.pop_first().unwrap();
                            line.unannounced.retain(|ordinal| *ordinal != oldest);
                        }
                    }
                }
            }
        }
        line.reload()?;

        let mut once = line.received.clone();
        once.dedup();
        prop_assert_eq!(&once, &line.received);
        prop_assert_eq!(line.received.len() as u64 + line.lost, line.newest);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// CH-87
    #[test]
    fn an_outbox_stays_within_its_bounds(
        frames in prop::collection::vec((any::<bool>(), 1..200_000_usize, 0..200_u64), 1..1_500)
    ) {
        let mut outbox = Outbox::default();
        let mut now = Timestamp(0);
        let mut kept: Vec<(u64, bool)> = Vec::new();
        for (ordinal, (progress, bytes, seconds)) in (1..).zip(frames) {
            now = now + Duration::from_secs(seconds);
            outbox.stored(ordinal, bytes, frame(ordinal, progress, now));
            outbox.take_ready();
            kept.push((ordinal, progress));
            let dropped = outbox.excess(now);
            prop_assert!(!dropped.contains(&ordinal), "the newest stays");
            kept.retain(|(ordinal, _)| !dropped.contains(ordinal));
            prop_assert!(outbox.kept.len() <= MOST_FRAMES);
            prop_assert!(outbox.bytes <= MOST_BYTES || outbox.kept.len() == 1);
            prop_assert_eq!(outbox.bytes, outbox.kept.iter().map(|kept| kept.bytes).sum::<usize>());
            let ordinals: Vec<u64> = outbox.kept.iter().map(|kept| kept.ordinal).collect();
            prop_assert_eq!(ordinals, kept.iter().map(|(ordinal, _)| *ordinal).collect::<Vec<_>>());
        }
    }
}

/// CH-87
#[test]
fn progress_goes_before_what_must_arrive() {
    let mut outbox = Outbox::default();
    for ordinal in 1..=MOST_FRAMES as u64 + 1 {
        outbox.stored(ordinal, 1, frame(ordinal, ordinal % 2 == 0, Timestamp(0)));
    }

    let dropped = outbox.excess(Timestamp(0));

    let oldest_progress: Vec<u64> = (1..=65).map(|number| number * 2).collect();
    assert_eq!(dropped, oldest_progress);
}

/// CH-87
#[test]
fn old_frames_go_but_never_the_newest() {
    let mut outbox = Outbox::default();
    outbox.stored(1, 1, plain(1));
    outbox.stored(2, 1, plain(2));

    let day = Timestamp(0) + MOST_AGE;
    let later = [day, day + Duration::from_millis(1), day + MOST_AGE];
    assert_eq!(later.map(|now| outbox.excess(now)), [vec![], vec![1], vec![]]);
}

/// CH-89
#[test]
fn a_hole_is_reported_where_frames_are_gone() {
    let mut outbox = Outbox::default();

    let replay = outbox.reload(vec![(4, 1, plain(4)), (7, 1, plain(7))], seq(2) + 5);

    let hole =
        |from, to, dropped| Replay::Hole(Gap { from_seq: seq(from), to_seq: seq(to), dropped });
    assert_eq!(
        replay,
        [hole(3, 3, 1), Replay::Frame(4, plain(4)), hole(5, 6, 2), Replay::Frame(7, plain(7)),]
    );
}

/// CH-85: passing frames have numbers of their own, up to the last that fits.
#[test]
fn passing_frames_are_numbered_between_durable_ones() {
    let mut outbox = Outbox::default();
    outbox.stored(1, 1, plain(1));
    outbox.take_ready();

    assert_eq!([outbox.passing(), outbox.passing()], [Some(seq(1) + 1), Some(seq(1) + 2)]);
    outbox.reload(vec![(1, 1, plain(1))], seq(2) - 2);
    assert_eq!([outbox.passing(), outbox.passing()], [Some(seq(2) - 1), None]);
}

/// CH-85, CH-91: whoever comes to others never gets a number that it had already.
#[test]
fn a_client_that_had_more_passing_frames_gets_higher_numbers() {
    let mut outbox = Outbox::default();
    outbox.reload(vec![(1, 1, plain(1))], seq(1));

    outbox.catch_up(seq(1) + 7);
    let next = outbox.passing();
    outbox.catch_up(seq(1) + 2);

    assert_eq!([next, outbox.passing()], [Some(seq(1) + 8), Some(seq(1) + 9)]);
}

/// CH-85: a frame that was stored before its turn waits for those before it, and is sent once.
#[test]
fn an_early_frame_waits_for_its_turn() {
    let mut outbox = Outbox::default();
    outbox.stored(1, 1, plain(1));
    outbox.take_ready();
    let before = (outbox.next(), outbox.early(), outbox.is_waiting());

    outbox.stored(4, 1, plain(4));
    outbox.stored(3, 1, plain(3));

    assert_eq!(before, (2, 0, false));
    assert_eq!(outbox.take_ready(), []);
    assert_eq!((outbox.next(), outbox.early(), outbox.is_waiting()), (2, 2, true));
    outbox.stored(2, 1, plain(2));
    let sent: Vec<u64> = outbox.take_ready().into_iter().map(|(place, _)| place).collect();
    assert_eq!(sent, [2, 3, 4]);
    assert!(!outbox.is_waiting());
}

/// CH-85, CH-89: a client that comes back gets what waited for its turn when its turn comes, and not twice.
#[test]
fn what_waits_for_its_turn_outlives_a_reload() {
    let mut outbox = Outbox::default();
    for early in [3, 5, 7] {
        outbox.stored(early, 1, plain(early));
    }
    let stored = (1..=4).map(|place| (place, 1, plain(place))).collect();

    let replay = outbox.reload(stored, seq(1));

    // The next one is there already.
    let frames: Vec<_> = (2..=5).map(|place| Replay::Frame(place, plain(place))).collect();
    assert_eq!(replay, frames);
    outbox.stored(6, 1, plain(6));
    assert_eq!(outbox.take_ready(), [(6, plain(6)), (7, plain(7))]);
}

/// CH-89: whoever asks for all that is kept is told of no hole before it.
#[test]
fn there_is_no_hole_before_the_beginning() {
    let stored = || [(5, plain(5))];

    assert_eq!(missed(stored(), 0), [Replay::Frame(5, plain(5))]);
    assert_eq!(missed(stored(), 1).len(), 2);
}

/// CH-87: bytes are bounded, and each frame counts once, in whatever order it is stored.
#[test]
fn a_frame_counts_once() {
    let half = MOST_BYTES / 2;
    let mut outbox = Outbox::default();
    for ordinal in [2, 2, 1, 1] {
        outbox.keep(ordinal, half, &plain(ordinal));
    }

    assert!(outbox.excess(Timestamp(0)).is_empty(), "just as much as is kept");
    outbox.keep(3, 1, &plain(3));
    assert_eq!(outbox.excess(Timestamp(0)), [1]);
}

/// CH-87: what is too old goes by age, and takes no newer progress with it.
#[test]
fn an_old_frame_goes_alone() {
    let mut outbox = Outbox::default();
    let now = Timestamp(0) + MOST_AGE + Duration::from_millis(1);
    outbox.stored(1, 1, plain(1));
    outbox.stored(2, 1, frame(2, true, now));
    outbox.stored(3, 1, frame(3, false, now));

    assert_eq!(outbox.excess(now), [1]);
}

/// SC-110: a frame that says itself what is gone before it needs no word more.
#[test]
fn a_frame_that_tells_of_a_gap_has_no_hole_before_it() {
    let mut note = Progress::new(ProgressKind::Note, "restored");
    note.gap = Some(Gap { from_seq: seq(2), to_seq: seq(9), dropped: 0 });
    let note = Arc::new(Frame { topic: None, ts: Timestamp(0), body: Body::Progress(note) });

    let replay = missed([(9, note.clone()), (11, plain(11))], seq(1));

    let hole = Replay::Hole(Gap { from_seq: seq(10), to_seq: seq(10), dropped: 1 });
    assert_eq!(replay, [Replay::Frame(9, note), hole, Replay::Frame(11, plain(11))]);
}
