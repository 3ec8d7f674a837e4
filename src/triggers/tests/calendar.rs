//! The real calendar: fields, zones, and days on which clocks change.

use super::*;

const DAY: u64 = 24 * 60 * 60 * 1000;

fn at(text: &str) -> Timestamp {
    Zones.moment(text, "UTC").unwrap()
}

/// All occurrences in a zone's day, as its people read them.
fn day(pattern: &str, zone: &str, midnight: &str, next_midnight: &str) -> Vec<String> {
    let mut after = Timestamp(at(midnight).0 - 1);
    let end = at(next_midnight);
    let mut found = Vec::new();
    while let Some(next) = Zones.next(pattern, zone, after)
        && next < end
    {
        assert!(next > after);
        found.push(Zones.show(zone, next));
        after = next;
    }
    found
}

fn berlin_in_spring(pattern: &str) -> Vec<String> {
    day(pattern, "Europe/Berlin", "2025-03-29T23:00:00Z", "2025-03-30T22:00:00Z")
}

fn berlin_in_autumn(pattern: &str) -> Vec<String> {
    day(pattern, "Europe/Berlin", "2025-10-25T22:00:00Z", "2025-10-26T23:00:00Z")
}

/// TR-12, TR-81
#[test]
fn a_time_in_the_gap_is_the_first_moment_after_it() {
    assert_eq!(berlin_in_spring("30 2 * * *"), ["Sun 2025-03-30 03:00:00 CEST"]);
}

/// TR-12, TR-81
#[test]
fn a_time_that_comes_twice_is_its_first_pass() {
    assert_eq!(berlin_in_autumn("30 2 * * *"), ["Sun 2025-10-26 02:30:00 CEST"]);
}

/// TR-12, TR-81
#[test]
fn a_rhythm_goes_on_over_both_changes() {
    assert_eq!(berlin_in_spring("*/30 * * * *").len(), 46);
    assert_eq!(berlin_in_autumn("*/30 * * * *").len(), 50);
}

/// TR-12: croner keeps to this only where the pattern is one time of day.
#[test]
fn several_times_in_the_gap_are_one_and_several_in_the_repeated_hour_come_once_each() {
    assert_eq!(berlin_in_spring("0,30 2 * * *"), ["Sun 2025-03-30 03:00:00 CEST"]);
    assert_eq!(berlin_in_spring("*/20 2 * * *"), ["Sun 2025-03-30 03:00:00 CEST"]);
    assert_eq!(berlin_in_spring("0 2,3 * * *"), ["Sun 2025-03-30 03:00:00 CEST"]);
    assert_eq!(
        berlin_in_autumn("0,30 2,3 * * *"),
        [
            "Sun 2025-10-26 02:00:00 CEST",
            "Sun 2025-10-26 02:30:00 CEST",
            "Sun 2025-10-26 03:00:00 CET",
            "Sun 2025-10-26 03:30:00 CET",
        ]
    );
}

/// TR-12: asked in the middle of the second pass, the first is over.
#[test]
fn the_second_pass_has_nothing_left() {
    let in_second_pass = at("2025-10-26T01:10:00Z");

    let next = Zones.next("30 2 * * *", "Europe/Berlin", in_second_pass);

    assert_eq!(next, Some(at("2025-10-27T01:30:00Z")));
}

/// TR-12: half an hour in Lord Howe, a whole day in Apia.
#[test]
fn gaps_of_other_sizes() {
    let half_hour = Zones.next("10 2 * * *", "Australia/Lord_Howe", at("2025-10-04T12:00:00Z"));
    let whole_day = Zones.next("0 9 30 12 *", "Pacific/Apia", at("2011-12-29T12:00:00Z"));

    assert_eq!(half_hour, Some(at("2025-10-04T15:30:00Z")));
    assert_eq!(whole_day, Some(at("2011-12-30T10:00:00Z")));
}

/// TR-08
#[test]
fn patterns_with_all_their_forms() {
    let next = |pattern| {
        let next = Zones.next(pattern, "UTC", at("2025-01-15T12:00:00Z"));
        Zones.show("UTC", next.unwrap())
    };

    assert_eq!(next("0 9 * * MON-FRI"), "Thu 2025-01-16 09:00:00 UTC");
    assert_eq!(next("0 9 * * 7"), "Sun 2025-01-19 09:00:00 UTC");
    assert_eq!(next("0 9 * * 0"), "Sun 2025-01-19 09:00:00 UTC");
    assert_eq!(next("0 0 L * *"), "Fri 2025-01-31 00:00:00 UTC");
    assert_eq!(next("0 0 * * 5#4"), "Fri 2025-01-24 00:00:00 UTC");
    assert_eq!(next("0 0 1W FEB *"), "Mon 2025-02-03 00:00:00 UTC");
    assert_eq!(next("15,45 13-14/1 * * *"), "Wed 2025-01-15 13:15:00 UTC");
    assert_eq!(next("*/20 0 12 * * *"), "Wed 2025-01-15 12:00:20 UTC");
}

/// TR-08: a day and a weekday: either.
#[test]
fn a_day_or_a_weekday() {
    let mut after = at("2025-01-15T12:00:00Z");
    let mut found = Vec::new();
    for _ in 0..3 {
        after = Zones.next("0 0 20 * FRI", "UTC", after).unwrap();
        found.push(Zones.show("UTC", after));
    }

    assert_eq!(
        found,
        [
            "Fri 2025-01-17 00:00:00 UTC",
            "Mon 2025-01-20 00:00:00 UTC",
            "Fri 2025-01-24 00:00:00 UTC",
        ]
    );
}

/// TR-02, TR-08, TR-82
#[test]
fn a_bad_pattern_is_refused_with_its_field() {
    let refused = |pattern| Zones.check_cron(pattern, at("2025-01-15T12:00:00Z")).unwrap_err();

    assert_eq!(refused("0 25 * * *"), "field 2 \"25\" is not 0-23");
    assert_eq!(refused("60 * * * *"), "field 1 \"60\" is not 0-59");
    assert_eq!(refused("0 0 0 * *"), "field 3 \"0\" is not 1-31");
    assert_eq!(refused("0 0 * FOO *"), "field 4 \"FOO\" is not 1-12 or a name such as JAN");
    assert_eq!(refused("*/0 * * * *"), "field 1 \"*/0\" has a step that is no number above 0");
    assert!(refused("5-1 * * * *").starts_with("field 1 \"5-1\" is no minute"));
    assert!(refused("* * *").starts_with("has 3 fields"));
    assert!(refused("@daily").starts_with("has 1 fields"));
    assert!(refused("0 0 1 1 * 2030 *").starts_with("has 7 fields"));
    assert_eq!(refused("0 0 30 2 *"), "has no occurrence in the next 5 years");
}

/// TR-08
#[test]
fn every_name_of_a_month_or_weekday_is_understood() {
    let check = |pattern: &str| Zones.check_cron(pattern, at("2025-01-15T12:00:00Z"));
    let months =
        ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
    let weekdays = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

    for month in months {
        assert_eq!(check(&format!("0 9 1 {month} *")), Ok(()));
        assert_eq!(check(&format!("0 9 1 {} *", month.to_lowercase())), Ok(()));
    }
    for weekday in weekdays {
        assert_eq!(check(&format!("0 9 * * {weekday}")), Ok(()));
        assert_eq!(check(&format!("0 9 * * {weekday}L")), Ok(()));
        assert_eq!(check(&format!("0 9 * * {weekday}#1")), Ok(()));
    }
    assert_eq!(check("0 9 * * MON-WED,FRI"), Ok(()));
    assert!(check("0 9 * * LED").is_err());
}

/// TR-08
#[test]
fn occurrences_are_ten_seconds_apart() {
    let check = |pattern| Zones.check_cron(pattern, at("2025-01-15T12:00:00Z"));

    assert!(check("*/10 * * * * *").is_ok());
    assert!(check("0,55 0 * * * *").is_ok());
    assert!(check("*/5 * * * * *").is_err());
    assert!(check("* * * * * *").is_err());
    assert!(check("5,58 * * * * *").is_err());
}

/// TR-11, TR-82
#[test]
fn an_unknown_zone_is_refused_with_the_nearest() {
    let refused = Zones.check_zone("Europe/Berln").unwrap_err();

    assert!(refused.contains("`Europe/Berlin`"), "{refused}");
    assert!(Zones.check_zone("berlin").unwrap_err().contains("`Europe/Berlin`"));
    assert!(Zones.check_zone("America/New_York").is_ok());
    assert!(Zones.check_zone("").is_err());
}

/// TR-09
#[test]
fn a_moment_is_absolute_or_local() {
    let local = Zones.moment("2025-07-01T09:00", "Europe/Berlin").unwrap();

    assert_eq!(local, at("2025-07-01T07:00:00Z"));
    assert_eq!(Zones.moment("2025-07-01T09:00:00+02:00", "UTC"), Ok(local));
    assert!(Zones.moment("tomorrow", "UTC").is_err());
}

/// TR-48
#[test]
fn the_clock_of_a_zone() {
    let noon = at("2025-07-01T12:34:56Z");

    assert_eq!(Zones.minute_of_day("Europe/Berlin", noon), 14 * 60 + 34);
    assert_eq!(
        Zones.next_minute_of_day(7 * 60, "Europe/Berlin", noon),
        Some(at("2025-07-02T05:00:00Z"))
    );
}

/// Asked from anywhere, the next occurrence is later, and nothing lies between.
#[test]
fn the_next_occurrence_is_the_next_over_a_whole_year() {
    for pattern in ["30 2 * * *", "0 */3 * * *", "*/30 1-3 * * *", "15 * * * SUN"] {
        let mut walked = Vec::new();
        let mut after = at("2025-01-01T00:00:00Z");
        let end = Timestamp(after.0 + 366 * DAY);
        while let Some(next) = Zones.next(pattern, "Europe/Berlin", after)
            && next < end
        {
            walked.push(next);
            after = next;
        }
        for pair in walked.windows(2) {
            let middle = Timestamp(pair[0].0 + (pair[1].0 - pair[0].0) / 2);
            let found = Zones.next(pattern, "Europe/Berlin", middle);
            assert_eq!(found, Some(pair[1]), "{pattern} from {middle}");
        }
    }
}
