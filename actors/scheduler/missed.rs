//! Missed times: which of them are still served.

use std::time::Duration;

use super::definition::MissedPolicy;
use crate::clock::Timestamp;

/// What is older than this is not made up.
pub const TOO_OLD: Duration = Duration::from_secs(24 * 60 * 60);
/// The most runs that are made up.
const MOST: usize = 10;
/// Times that are counted one by one; beyond it is said that there were more.
const MOST_COUNTED: u64 = 100_000;

/// What becomes of times that passed unserved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Those that are served, oldest first.
    pub serve: Vec<Timestamp>,
    /// How many there were, and when the first was: told to whoever serves the newest for all.
    pub told: Option<Missed>,
    /// Those that one row says are not served.
    pub skipped: Option<Missed>,
}

/// Times that passed unserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missed {
    /// How many.
    pub count: u64,
    /// The first.
    pub since: Timestamp,
    /// The last.
    pub until: Timestamp,
}

/// Decides on the times after `cursor` up to `now`. `next` gives the first time after a moment.
///
/// A time that comes but once is served if it is not too old, whatever the policy.
pub fn plan(
    policy: MissedPolicy,
    once_only: bool,
    cursor: Timestamp,
    now: Timestamp,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Plan {
    let times = collect(cursor, now, next);
    let Some(all) = times.all else {
        return Plan::default();
    };
    if once_only {
        return if !times.recent.is_empty() {
            Plan { serve: times.recent, ..Plan::default() }
        } else {
            Plan { skipped: Some(all), ..Plan::default() }
        };
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
    let oldest = now - TOO_OLD;
    let mut times = Times { all: None, recent: Vec::new(), last_left_out: None };
    let mut after = cursor;
    while let Some(at) = next(after)
        && at <= now
    {
        after = at;
        let all = times.all.get_or_insert(Missed { count: 0, since: at, until: at });
        all.count += 1;
        all.until = at;
        if at < oldest {
            times.last_left_out = Some(at);
            if all.count >= MOST_COUNTED {
                // Nobody wants to know it more exactly, and counting on would take its time.
                after = oldest - Duration::from_millis(1);
            }
            continue;
        }
        times.recent.push(at);
        if times.recent.len() > MOST {
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
        Some(Missed { count, since: hours(since), until: hours(until) })
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

    /// Years of a fast schedule don't take years to count.
    #[test]
    fn counting_ends() {
        let every_ten_seconds = |after: Timestamp| Some(Timestamp((after.0 / 10_000 + 1) * 10_000));
        let ten_years = Timestamp(10 * 365 * 24 * HOUR);

        let plan = plan(MissedPolicy::Once, false, Timestamp(0), ten_years, every_ten_seconds);

        assert_eq!(plan.serve, [ten_years]);
    }
}
