//! Cron patterns, field by field: what is wrong with which one.

use croner::parser::{CronParser, Seconds, Year};
use hivewright_actors::excerpt;

/// Two occurrences are at least this many seconds apart.
const SHORTEST_DISTANCE: u32 = 10;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// A field of a pattern.
struct Field {
    name: &'static str,
    least: u32,
    most: u32,
    names: &'static [&'static str],
}

const FIELDS: [Field; 6] = [
    Field { name: "second", least: 0, most: 59, names: &[] },
    Field { name: "minute", least: 0, most: 59, names: &[] },
    Field { name: "hour", least: 0, most: 23, names: &[] },
    Field { name: "day", least: 1, most: 31, names: &[] },
    Field { name: "month", least: 1, most: 12, names: &MONTHS },
    Field { name: "weekday", least: 0, most: 7, names: &WEEKDAYS },
];

/// Why a pattern cannot be used: `field 2 "25" is not 0-23`.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    let parts: Vec<&str> = pattern.split_whitespace().collect();
    let fields = match parts.len() {
        5 => &FIELDS[1..],
        6 => &FIELDS[..],
        found => {
            return Err(format!(
                "has {found} fields; a pattern has 5 (minute hour day month weekday), or 6 with seconds before them"
            ));
        }
    };
    for (place, (field, part)) in fields.iter().zip(&parts).enumerate() {
        check_field(field, part).map_err(|reason| {
            let shown = excerpt::line(part, 40);
            format!("field {} \"{shown}\" {reason}", place + 1)
        })?;
    }
    match parts.as_slice() {
        [seconds, minutes, ..] if parts.len() == 6 => check_distance(seconds, minutes),
        _ => Ok(()),
    }
}

fn check_field(field: &Field, part: &str) -> Result<(), String> {
    let Field { name, least, most, names } = field;
    let upper = part.to_ascii_uppercase();
    for item in upper.split(',') {
        // What follows `/` or `#` counts something else.
        let bounds = item.split(['/', '#']).next().unwrap_or_default();
        for bound in bounds.split('-') {
            let digits: String = bound.chars().filter(char::is_ascii_digit).collect();
            if digits.is_empty() {
                // Names hold these letters too: `WED`, and `WEDL` for the last one of a month.
                let is_marks = bound.chars().all(|letter| "LW*?".contains(letter));
                let name = bound.strip_suffix('L').filter(|name| names.contains(name));
                if !is_marks && !names.contains(&name.unwrap_or(bound)) {
                    return Err(match names.first() {
                        Some(first) => {
                            format!("is not {least}-{most} or a name such as {first}")
                        }
                        None => format!("is not {least}-{most}"),
                    });
                }
            } else if digits.parse::<u32>().map_or(true, |number| number < *least || number > *most)
            {
                return Err(format!("is not {least}-{most}"));
            }
        }
        if let Some((_, step)) = item.split_once('/')
            && step.parse::<u32>().map_or(true, |step| step == 0)
        {
            return Err("has a step that is no number above 0".to_owned());
        }
    }
    // croner joins the rules for day and weekday if there is a `+`; here either may match.
    if upper.contains('+') || alone(name, part).is_none() {
        return Err(format!("is no {name} of a cron pattern"));
    }
    Ok(())
}

/// The values of one field, as croner reads it.
fn alone(name: &str, part: &str) -> Option<croner::Cron> {
    let mut parts = ["0", "*", "*", "*", "*", "*"];
    let place = FIELDS.iter().position(|field| field.name == name)?;
    parts[place] = part;
    CronParser::builder()
        .seconds(Seconds::Required)
        .year(Year::Disallowed)
        .build()
        .parse(&parts.join(" "))
        .ok()
}

fn check_distance(seconds: &str, minutes: &str) -> Result<(), String> {
    let values = |name, part| -> Vec<u32> {
        let Some(cron) = alone(name, part) else { return Vec::new() };
        let component = match name {
            "second" => &cron.pattern.seconds,
            _ => &cron.pattern.minutes,
        };
        component.values().into_iter().map(u32::from).collect()
    };
    let seconds = values("second", seconds);
    let minutes = values("minute", minutes);
    let close = |pair: &[u32]| pair[1] - pair[0] < SHORTEST_DISTANCE;
    let neighbours = minutes.windows(2).any(|pair| pair[1] - pair[0] == 1)
        || (minutes.first() == Some(&0) && minutes.last() == Some(&59));
    let over_the_minute = match (seconds.first(), seconds.last()) {
        (Some(first), Some(last)) => neighbours && 60 - last + first < SHORTEST_DISTANCE,
        _ => false,
    };
    if seconds.windows(2).any(close) || over_the_minute {
        return Err(format!("field 1 has occurrences less than {SHORTEST_DISTANCE} s apart"));
    }
    Ok(())
}

/// Its hour is `*` or a step: it keeps its rhythm when clocks change.
pub(super) fn follows_real_time(pattern: &str) -> bool {
    let parts: Vec<&str> = pattern.split_whitespace().collect();
    let hour = parts.len().checked_sub(4).and_then(|place| parts.get(place));
    hour.is_some_and(|hour| *hour == "*" || hour.contains('/'))
}
