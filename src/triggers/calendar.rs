//! The calendar of this program: croner reads patterns, jiff knows the zones.

use std::{cell::RefCell, rc::Rc};

use croner::{
    Cron,
    parser::{CronParser, Seconds, Year},
};
use hivewright_actors::{clock::Timestamp, excerpt, scheduler::ports::Calendar, text::quoted};
use jiff::{
    SignedDuration, Zoned,
    civil::{DateTime, Time},
    tz::{AmbiguousOffset, TimeZone},
};

use super::pattern;
use crate::{settings::zone::nearest, time};

/// A pattern that stays silent for longer than this is a mistake.
const LONGEST_SILENCE_YEARS: i64 = 5;
/// Local matches that are tried in a row: a zone skips or repeats at most a day of them.
const MOST_TRIES: usize = 100_000;

/// See [`Calendar`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Zones;

impl Calendar for Zones {
    fn check_cron(&self, text: &str, now: Timestamp) -> Result<(), String> {
        pattern::check(text)?;
        let cron = parse(text).ok_or("is no cron pattern")?;
        let start = local("UTC", now).ok_or("has no occurrence")?.datetime();
        let end = start.checked_add(jiff::Span::new().years(LONGEST_SILENCE_YEARS));
        match (cron.find_next_occurrence(&start, false), end) {
            (Ok(first), Ok(end)) if first <= end => Ok(()),
            _ => Err("has no occurrence in the next 5 years".to_owned()),
        }
    }

    fn check_zone(&self, zone: &str) -> Result<(), String> {
        if find(zone).is_some() {
            return Ok(());
        }
        let near = quoted(nearest(zone).into_iter().map(|(_, name)| name));
        let shown = excerpt::line(zone, 64);
        Err(format!("there is no time zone `{shown}`; the nearest are {near}"))
    }

    fn next(&self, text: &str, zone: &str, after: Timestamp) -> Option<Timestamp> {
        let cron = parse(text)?;
        let start = local(zone, after)?;
        if pattern::follows_real_time(text) {
            return time::timestamp(cron.find_next_occurrence(&start, false).ok()?.timestamp());
        }
        // Local times that match, one after the other; what each of them is in real time is decided
        // here and not by croner, which knows the rule only for a single time of day.
        let mut civil = start.datetime();
        for _ in 0..MOST_TRIES {
            civil = cron.find_next_occurrence(&civil, false).ok()?;
            let at = resolve(civil, start.time_zone())?;
            if at > after {
                return Some(at);
            }
        }
        None
    }

    fn matches(&self, text: &str, zone: &str, at: Timestamp) -> bool {
        let minute = Timestamp(at.0 - at.0 % 60_000);
        match (parse(text), local(zone, minute)) {
            (Some(cron), Some(local)) => cron.is_time_matching(&local.datetime()).unwrap_or(false),
            _ => false,
        }
    }

    fn moment(&self, text: &str, zone: &str) -> Result<Timestamp, String> {
        if let Ok(at) = text.parse::<jiff::Timestamp>() {
            return time::timestamp(at).ok_or_else(|| "lies before 1970".to_owned());
        }
        let wrong = || {
            "expected a time such as 2030-01-31T09:00:00Z, or 2030-01-31T09:00 with `timezone`"
                .to_owned()
        };
        let civil: DateTime = text.parse().map_err(|_| wrong())?;
        let zone = find(zone).ok_or_else(wrong)?;
        resolve(civil, &zone).ok_or_else(wrong)
    }

    fn minute_of_day(&self, zone: &str, at: Timestamp) -> u32 {
        local(zone, at).map_or(0, |local| {
            u32::try_from(i32::from(local.hour()) * 60 + i32::from(local.minute())).unwrap_or(0)
        })
    }

    fn next_minute_of_day(&self, minute: u32, zone: &str, after: Timestamp) -> Option<Timestamp> {
        let start = local(zone, after)?;
        let hour = i8::try_from(minute / 60).ok()?;
        let time = Time::new(hour, i8::try_from(minute % 60).ok()?, 0, 0).ok()?;
        (0..3).find_map(|days| {
            let date = start.date().checked_add(jiff::Span::new().days(days)).ok()?;
            let at = resolve(date.to_datetime(time), start.time_zone())?;
            (at > after).then_some(at)
        })
    }

    fn show(&self, zone: &str, at: Timestamp) -> String {
        local(zone, at).map_or_else(
            || at.to_string(),
            |local| local.strftime("%a %Y-%m-%d %H:%M:%S %Z").to_string(),
        )
    }
}

thread_local! {
    /// The pattern that was read last: its times are asked for one after another, and there may be thousands.
    static LAST: RefCell<Option<(String, Rc<Cron>)>> = const { RefCell::new(None) };
}

fn parse(text: &str) -> Option<Rc<Cron>> {
    LAST.with_borrow_mut(|last| {
        if let Some((known, cron)) = last
            && known == text
        {
            return Some(cron.clone());
        }
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
        let cron = Rc::new(parser.build().parse(text).ok()?);
        *last = Some((text.to_owned(), cron.clone()));
        Some(cron)
    })
}

fn find(zone: &str) -> Option<TimeZone> {
    match zone {
        "UTC" => Some(TimeZone::UTC),
        // `Etc/Unknown` and the like are names without a place.
        _ => TimeZone::get(zone).ok().filter(|zone| !zone.is_unknown()),
    }
}

fn local(zone: &str, at: Timestamp) -> Option<Zoned> {
    Some(time::instant(at)?.to_zoned(find(zone)?))
}

/// The one moment that a local time stands for.
fn resolve(civil: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_zoned(civil);
    let zoned = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { .. } => ambiguous.unambiguous().ok()?,
        AmbiguousOffset::Fold { .. } => ambiguous.earlier().ok()?,
        // The clock jumps from the offset before to the one after: the first moment after the gap
        // is the transition itself.
        AmbiguousOffset::Gap { before, .. } => {
            let within = before.to_timestamp(civil).ok()?;
            let earlier = within.checked_sub(SignedDuration::from_hours(25)).ok()?;
            let passed = zone.following(earlier).take_while(|found| found.timestamp() <= within);
            passed.last()?.timestamp().to_zoned(zone.clone())
        }
    };
    time::timestamp(zoned.timestamp())
}

#[cfg(test)]
#[path = "tests/calendar.rs"]
mod tests;
