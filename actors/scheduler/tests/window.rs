//! Windows in a calendar where every hour is the same.

use super::*;
use crate::doubles::triggers::Hours;

const SECOND: u64 = 1_000;
const MIN: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MIN;

/// Open from ten past to a quarter past each hour.
fn between() -> Window {
    Window { open: Some("10".to_owned()), close: Some("15".to_owned()), ..Window::default() }
}

fn view(now: u64) -> View<'static> {
    View { zone: "UTC", calendar: &Hours, now: Timestamp(now), since: Timestamp(0) }
}

/// Looks whenever something is due, and tells what happened.
fn live(
    window: &Window,
    occurrence: &mut Option<Occurrence>,
    from: u64,
    to: u64,
) -> Vec<(u64, Option<u32>)> {
    let mut cursor = Timestamp(from);
    let mut seen = Vec::new();
    while let Some(at) = next_due(view(cursor.0), window, occurrence.as_ref(), cursor)
        && at.0 <= to
    {
        let tick = advance(view(at.0), window, occurrence, cursor, false);
        seen.push((at.0, tick.map(|tick| tick.number)));
        if let Some(open) = occurrence.as_mut()
            && open.phase == Phase::Closing
        {
            open.phase = Phase::Closed;
        }
        cursor = at;
    }
    seen
}

/// TR-20, TR-21
#[test]
fn it_ticks_from_its_opening_to_its_close() {
    let mut occurrence = None;

    let seen = live(&between(), &mut occurrence, 0, 16 * MIN);

    let ticks = (0..10).map(|tick| (10 * MIN + tick * 30 * SECOND, Some(tick as u32 + 1)));
    let expected: Vec<_> = ticks.chain([(15 * MIN, None)]).collect();
    assert_eq!(seen, expected);
    let over = occurrence.map(|over| (over.phase, over.reason, over.ticks));
    assert_eq!(over, Some((Phase::Closed, Some(Closed::Time), 10)));
}

/// TR-21, TR-76: counts begin anew with the next opening.
#[test]
fn the_cap_closes_it_until_the_next_opening() {
    let mut window = between();
    window.max_ticks = 2;
    let mut occurrence = None;

    let seen = live(&window, &mut occurrence, 0, HOUR + 11 * MIN);

    let hour = |hour: u64| {
        [(hour * HOUR + 10 * MIN, Some(1)), (hour * HOUR + 10 * MIN + 30 * SECOND, Some(2))]
    };
    assert_eq!(seen, [hour(0), hour(1)].concat());
    assert_eq!(occurrence.and_then(|over| over.reason), Some(Closed::Ticks));
}

/// TR-20, TR-21, TR-76: the same where it is open in each minute that fits.
#[test]
fn the_cap_closes_a_watch_until_it_fits_again() {
    let window = Window { watch: Some("10".to_owned()), max_ticks: 1, ..Window::default() };
    let mut occurrence = None;

    let seen = live(&window, &mut occurrence, 0, 2 * HOUR + 12 * MIN);

    let opened = (0..3).map(|hour| (hour * HOUR + 10 * MIN, Some(1)));
    assert_eq!(seen, opened.collect::<Vec<_>>());
}

/// TR-23: the same opening goes on, without the ticks of the downtime.
#[test]
fn a_restart_goes_on_in_step() {
    let window = between();
    let mut occurrence = None;
    live(&window, &mut occurrence, 0, 11 * MIN);
    let back_at = 12 * MIN + 10 * SECOND;
    let restarted = View { since: Timestamp(back_at), ..view(back_at) };

    let tick = advance(restarted, &window, &mut occurrence, Timestamp(11 * MIN), false);

    assert_eq!(tick, None);
    let next = next_due(restarted, &window, occurrence.as_ref(), Timestamp(back_at));
    assert_eq!(next, Some(Timestamp(12 * MIN + 30 * SECOND)));
    let later = View { now: Timestamp(12 * MIN + 30 * SECOND), ..restarted };
    let tick = advance(later, &window, &mut occurrence, Timestamp(back_at), false);
    assert_eq!(tick.map(|tick| tick.number), Some(4));
}

/// TR-23: it opened while the service was down.
#[test]
fn a_window_that_opened_in_the_downtime_is_open() {
    let window = between();
    let mut occurrence = None;
    let now = 13 * MIN + 5 * SECOND;
    let view = View { since: Timestamp(now), ..view(now) };

    let tick = advance(view, &window, &mut occurrence, Timestamp(0), false);

    assert_eq!(tick, None);
    let open = occurrence.map(|open| (open.opened_at.0, open.next_tick_at.0));
    assert_eq!(open, Some((10 * MIN, 13 * MIN + 30 * SECOND)));
}

/// TR-20: in every minute that fits.
#[test]
fn a_watched_pattern_is_open_for_its_minutes() {
    let window = Window { watch: Some("20-22".to_owned()), ..Window::default() };
    let mut occurrence = None;

    let seen = live(&window, &mut occurrence, 0, 30 * MIN);

    assert_eq!(seen.first(), Some(&(20 * MIN, Some(1))));
    assert_eq!(seen.last(), Some(&(23 * MIN, None)));
    assert_eq!(seen.len(), 7);
}

/// TR-88
#[test]
fn a_hit_tokens_and_money_close_it() {
    let mut window = between();
    window.max_tokens = Some(100);
    window.max_usd = Some(1.0);
    window.stop_on = Some(StopOn::FirstHit);
    let open = || Occurrence::new(Timestamp(10 * MIN), Timestamp(15 * MIN));
    let ends = |outcome, tokens, usd| {
        let mut occurrence = open();
        occurrence.ended(&window, outcome, tokens, usd);
        occurrence.reason
    };

    assert_eq!(ends(RunOutcome::Noop, 10, 0.1), None);
    assert_eq!(ends(RunOutcome::Noop, 100, 0.1), Some(Closed::Tokens));
    assert_eq!(ends(RunOutcome::Noop, 10, 1.5), Some(Closed::Usd));
    assert_eq!(ends(RunOutcome::Ok, 10, 0.1), Some(Closed::FirstHit));
}

/// TR-88: doubled after ten in a row, at most tenfold, and back with a hit.
#[test]
fn ticks_become_rarer_while_nothing_is_found() {
    let mut window = between();
    window.backoff = true;
    let mut occurrence = Occurrence::new(Timestamp(0), Timestamp(HOUR));
    let mut after = |noops: u32| {
        for _ in 0..noops {
            occurrence.ended(&window, RunOutcome::Noop, 0, 0.0);
        }
        occurrence.interval(&window).as_secs()
    };

    assert_eq!([9, 1, 10, 10, 10, 100].map(&mut after), [30, 60, 120, 240, 300, 300]);
    occurrence.ended(&window, RunOutcome::Ok, 0, 0.0);
    assert_eq!(occurrence.interval(&window).as_secs(), 30);
}
