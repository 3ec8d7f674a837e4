//! A calendar in which every hour is the same: patterns are a minute, `a-b`, `*/n` or `*`.

use crate::{clock::Timestamp, scheduler::calendar::Calendar};

const MINUTE: u64 = 60_000;

pub(crate) struct Hours;

fn fits(pattern: &str, minute: u64) -> bool {
    let minute = minute % 60;
    match (pattern.strip_prefix("*/"), pattern.split_once('-')) {
        (Some(step), _) => minute % step.parse::<u64>().unwrap_or(1) == 0,
        (_, Some((from, to))) => {
            let bound = |text: &str| text.parse::<u64>().unwrap_or_default();
            (bound(from)..=bound(to)).contains(&minute)
        }
        _ if pattern == "*" => true,
        _ => pattern.parse() == Ok(minute),
    }
}

impl Calendar for Hours {
    fn check_cron(&self, pattern: &str, _: Timestamp) -> Result<(), String> {
        match (0..60).any(|minute| fits(pattern, minute)) {
            true => Ok(()),
            false => Err(format!("\"{pattern}\" is not 0-59")),
        }
    }

    fn check_zone(&self, zone: &str) -> Result<(), String> {
        match zone {
            "UTC" => Ok(()),
            _ => Err(format!("there is no time zone `{zone}`")),
        }
    }

    fn next(&self, pattern: &str, _: &str, after: Timestamp) -> Option<Timestamp> {
        let first = after.0 / MINUTE + 1;
        (first..first + 60)
            .find(|minute| fits(pattern, *minute))
            .map(|minute| Timestamp(minute * MINUTE))
    }

    fn matches(&self, pattern: &str, _: &str, at: Timestamp) -> bool {
        fits(pattern, at.0 / MINUTE)
    }

    fn moment(&self, text: &str, _: &str) -> Result<Timestamp, String> {
        text.parse()
            .map(Timestamp)
            .map_err(|_| "no time".to_owned())
    }

    fn minute_of_day(&self, _: &str, at: Timestamp) -> u32 {
        u32::try_from(at.0 / MINUTE % (24 * 60)).unwrap_or_default()
    }

    fn next_minute_of_day(&self, minute: u32, _: &str, after: Timestamp) -> Option<Timestamp> {
        let day = 24 * 60 * MINUTE;
        let today = after.0 / day * day + u64::from(minute) * MINUTE;
        Some(Timestamp(if today > after.0 { today } else { today + day }))
    }

    fn show(&self, _: &str, at: Timestamp) -> String {
        format!("{}:{:02}", at.0 / MINUTE / 60, at.0 / MINUTE % 60)
    }
}
