//! Schedules: when one is due, what is to be done about it now, and which missed times are still served.

use std::time::Duration;

use super::{
    ports::View,
    trigger::{
        Trigger,
        config::{Schedule, When},
        definition::MissedPolicy,
    },
};
use crate::clock::{Timestamp, millis};

/// A time that is later than this was not late but missed: the machine slept, or its clock jumped.
const MAX_LATENESS: Duration = Duration::from_secs(60);

/// What is older than this is not made up.
const MAX_CATCH_UP: Duration = Duration::from_secs(24 * 60 * 60);
/// The most runs that are made up.
const MAX_CAUGHT_UP: usize = 10;
/// Times that are too old are counted up to here: there may be years of them, and everybody waits meanwhile.
const MOST_COUNTED: u64 = 1_000;

/// What is to be done about a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Agenda {
    Wait,
    Fire(Timestamp),
    /// It is time, and the team rests.
    Hold(Timestamp),
    /// Times passed unserved.
    MakeUp(Plan),
}

/// What becomes of times that passed unserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Those that are served, oldest first.
    pub(super) serve: Vec<Timestamp>,
    /// How many there were, and when the first was: told to whoever serves the newest for all.
    pub(super) told: Option<Missed>,
    /// Those that one row says are not served.
    pub(super) skipped: Option<Missed>,
}

/// Times that passed unserved: how many, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Missed {
    pub(super) count: u64,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    /// There were more that nobody counted.
    pub(super) more: bool,
}

impl Missed {
    /// How many, in words.
    pub(super) fn times(&self) -> String {
        let Self { count, more, .. } = self;
        if *more { format!("at least {count}") } else { count.to_string() }
    }
}

/// The first time of a schedule after a moment. `anchor` is where counting in steps begins.
pub fn next(
    schedule: &Schedule,
    view: View<'_>,
    anchor: Option<Timestamp>,
    after: Timestamp,
) -> Option<Timestamp> {
    match schedule.when()? {
        When::Cron(pattern) => {
            let zone = schedule.timezone.as_deref().unwrap_or(view.zone);
            view.calendar.next(pattern, zone, after)
        }
        When::At(at) => (at > after).then_some(at),
        When::Every(step) => {
            let (anchor, step) = (anchor?.0, millis(step).max(1));
            let steps = (after.0.checked_sub(anchor)).map_or(1, |passed| passed / step + 1);
            Some(Timestamp(anchor.saturating_add(steps.saturating_mul(step))))
        }
    }
}

/// Looks at a schedule, whose team may rest.
pub(super) fn agenda(
    trigger: &Trigger,
    schedule: &Schedule,
    is_paused: bool,
    view: View<'_>,
) -> Agenda {
    let View { now, since, .. } = view;
    let cursor = trigger.cursor();
    let next = |after| next(schedule, view, trigger.anchor_at, after);
    if is_paused {
        return newest(cursor, now, next).map_or(Agenda::Wait, Agenda::Hold);
    }
    let definition = &trigger.definition;
    let policy = definition.missed.unwrap_or_default();
    let once_only = definition.config.is_single();
    let make_up = |from| Agenda::MakeUp(plan(policy, once_only, from, now, next));
    if let Some(held_from) = trigger.held_from {
        return make_up(held_from);
    }
    match next(cursor).filter(|due| *due <= now) {
        Some(due) if due < since || now.since(due) > MAX_LATENESS => make_up(cursor),
        Some(due) => Agenda::Fire(due),
        None => Agenda::Wait,
    }
}

/// The newest time up to now. Of many, the row of one is enough.
fn newest(
    cursor: Timestamp,
    now: Timestamp,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Option<Timestamp> {
    let first = next(cursor).filter(|due| *due <= now)?;
    let following = |after: Timestamp| next(after).filter(|due| *due <= now);
    let lately =
        std::iter::successors(following(first.max(now - MAX_LATENESS)), |due| following(*due));
    lately.last().or(Some(first))
}

/// Decides on the times after `cursor` up to `now`. `next` gives the first time after a moment.
///
/// A time that comes but once is served if it is not too old, whatever the policy.
fn plan(
    policy: MissedPolicy,
    once_only: bool,
    cursor: Timestamp,
    now: Timestamp,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Plan {
    let times = collect(cursor, now, next);
    let Some(all) = times.all else { return Plan::default() };
    if once_only && !times.recent.is_empty() {
        return Plan { serve: times.recent, ..Plan::default() };
    }
    match (policy, times.recent.last()) {
        (MissedPolicy::Skip, _) | (_, None) => Plan { skipped: Some(all), ..Plan::default() },
        (MissedPolicy::Once, Some(newest)) => {
            Plan { serve: vec![*newest], told: Some(all), skipped: None }
        }
        (MissedPolicy::All, Some(_)) => {
            let rest = all.count - times.recent.len() as u64;
            Plan {
                skipped: (rest > 0).then(|| Missed {
                    count: rest,
                    until: times.last_left_out.unwrap_or(all.since),
                    ..all
                }),
                serve: times.recent,
                told: None,
            }
        }
    }
}

struct Times {
    all: Option<Missed>,
    /// The newest of those that are not too old.
    recent: Vec<Timestamp>,
    last_left_out: Option<Timestamp>,
}

fn collect(
    cursor: Timestamp,
    now: Timestamp,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Times {
    let oldest = now - MAX_CATCH_UP;
    let mut times = Times { all: None, recent: Vec::new(), last_left_out: None };
    let mut after = cursor;
    while let Some(at) = next(after)
        && at <= now
    {
        after = at;
        let none = Missed { count: 0, since: at, until: at, more: false };
        let all = times.all.get_or_insert(none);
        all.count += 1;
        all.until = at;
        if at < oldest {
            times.last_left_out = Some(at);
            if all.count >= MOST_COUNTED {
                all.more = true;
                after = oldest - Duration::from_millis(1);
            }
            continue;
        }
        times.recent.push(at);
        if times.recent.len() > MAX_CAUGHT_UP {
            times.last_left_out = Some(times.recent.remove(0));
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn hourly(after: Timestamp) -> Option<Timestamp> {
        Some(Timestamp((after.0 / HOUR + 1) * HOUR))
    }

    fn hours(hours: u64) -> Timestamp {
        Timestamp(hours * HOUR)
    }

    fn missed(count: u64, since: u64, until: u64) -> Option<Missed> {
        Some(Missed { count, since: hours(since), until: hours(until), more: false })
    }

    /// TR-29, TR-75
    #[test]
    fn three_hours_down_are_none_one_or_three_runs() {
        let now = Timestamp(103 * HOUR + 1);
        let plan = |policy| plan(policy, false, hours(100), now, hourly);

        let skipped = Plan { skipped: missed(3, 101, 103), ..Plan::default() };
        assert_eq!(plan(MissedPolicy::Skip), skipped);
        let newest = Plan { serve: vec![hours(103)], told: missed(3, 101, 103), skipped: None };
        assert_eq!(plan(MissedPolicy::Once), newest);
        let each = Plan { serve: vec![hours(101), hours(102), hours(103)], ..Plan::default() };
        assert_eq!(plan(MissedPolicy::All), each);
    }

    /// TR-29: at most the newest ten, the rest is one row.
    #[test]
    fn a_run_for_each_ends_at_ten() {
        let plan = plan(MissedPolicy::All, false, hours(100), hours(115), hourly);

        assert_eq!(plan.serve.len(), 10);
        assert_eq!(plan.serve.first(), Some(&hours(106)));
        assert_eq!(plan.serve.last(), Some(&hours(115)));
        assert_eq!(plan.skipped, missed(5, 101, 105));
    }

    /// TR-30
    #[test]
    fn what_is_older_than_a_day_is_skipped() {
        let daily_at_noon = |after: Timestamp| {
            let day = 24 * HOUR;
            Some(Timestamp((after.0 + day / 2) / day * day + day / 2)).filter(|at| *at > after)
        };
        let late = Timestamp(10 * 24 * HOUR + 13 * HOUR);
        let plan = |policy| plan(policy, false, hours(8 * 24 + 1), late, daily_at_noon);

        assert_eq!(plan(MissedPolicy::Once).serve, [Timestamp(10 * 24 * HOUR + 12 * HOUR)]);
        let all = plan(MissedPolicy::All);
        assert_eq!(all.serve.len(), 1);
        assert_eq!(all.skipped.map(|skipped| skipped.count), Some(2));
        let long_after =
            super::plan(MissedPolicy::All, false, hours(24), hours(24 + 30), |after| {
                (after < hours(25)).then(|| hours(25))
            });
        assert_eq!(long_after.serve, []);
        assert_eq!(long_after.skipped, missed(1, 25, 25));
    }

    /// TR-30: a time that comes but once is served within a day, whatever the policy.
    #[test]
    fn a_single_time_is_served_within_a_day() {
        let at = |after: Timestamp| (after < hours(50)).then(|| hours(50));

        let soon = plan(MissedPolicy::Skip, true, hours(49), hours(60), at);
        let late = plan(MissedPolicy::All, true, hours(49), hours(75), at);

        assert_eq!(soon.serve, [hours(50)]);
        assert_eq!(late.serve, []);
        assert_eq!(late.skipped, missed(1, 50, 50));
    }

    /// TR-29: years of a fast schedule don't take years to count, and it is said that there were more.
    #[test]
    fn counting_ends() {
        let asked = std::cell::Cell::new(0_u64);
        let every_ten_seconds = |after: Timestamp| {
            asked.set(asked.get() + 1);
            Some(Timestamp((after.0 / 10_000 + 1) * 10_000))
        };
        let ten_years = Timestamp(10 * 365 * 24 * HOUR);

        let plan = plan(MissedPolicy::Once, false, Timestamp(0), ten_years, every_ten_seconds);

        let of_a_day = 24 * HOUR / 10_000;
        assert_eq!(plan.serve, [ten_years]);
        assert!(asked.get() <= MOST_COUNTED + of_a_day + 2, "{}", asked.get());
        let told = plan.told.unwrap();
        assert_eq!(told.times(), format!("at least {}", MOST_COUNTED + of_a_day + 1));
    }
}
