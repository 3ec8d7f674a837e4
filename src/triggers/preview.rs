//! What a trigger would do: its next times, or whether a sample fits it.

use hivewright_actors::{
    clock::Timestamp,
    scheduler::{
        config::{Config, Hours, TriggerType},
        definition::Definition,
        due,
        matcher::Language,
        validation::{Check, Problem},
        window::{self, View},
    },
};
use serde_json::{Map, Value};

use super::{
    desk::{Author, DeskError, Parts},
    form,
};
use crate::{
    api::triggers::{TriggerDue, TriggerPreview},
    time,
};

/// Times that a preview shows.
const SHOWN: usize = 10;

/// What a type and a config would do.
pub fn preview(
    parts: &Parts,
    author: &Author<'_>,
    kind: TriggerType,
    config: Map<String, Value>,
    sample: Option<&str>,
) -> Result<TriggerPreview, DeskError> {
    let preview = TriggerPreview { kind, valid: None, due: None, matches: None, captures: None };
    let valid = |preview| TriggerPreview { valid: Some(true), ..preview };
    let definition = form::sketch(&parts.writer(author), kind, config)?;
    let zone = parts.zone.name();
    let check = Check {
        calendar: &*parts.calendar,
        expressions: &*parts.expressions,
        zone: &zone,
        now: parts.now(),
        is_new: true,
    };
    check.run(&definition)?;
    let (language, listen) = match &definition.config {
        Config::Keyword(listen) => (Language::Keyword, listen),
        Config::Message(listen) => (Language::Message, listen),
        Config::Webhook(_) => return Ok(valid(preview)),
        Config::Schedule(_) | Config::Window(_) => {
            let times = times(parts, &definition, Some(parts.now()), SHOWN);
            let times = times.into_iter();
            let times = times.map(|(at, local)| TriggerDue { at: time::date(at), local });
            return Ok(TriggerPreview { due: Some(times.collect()), ..preview });
        }
    };
    let Some(sample) = sample else {
        return Ok(valid(preview));
    };
    let matcher = parts
        .expressions
        .read(language, &listen.pattern, listen.flags.as_deref())
        .map_err(|reason| Problem::new("config.pattern", reason))?;
    let found = matcher.find(sample);
    let captures =
        found.iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(TriggerPreview { matches: Some(found.is_some()), captures: Some(captures), ..preview })
}

/// The next times of a definition: of a window, when it opens.
pub(crate) fn times(
    parts: &Parts,
    definition: &Definition,
    anchor: Option<Timestamp>,
    most: usize,
) -> Vec<(Timestamp, String)> {
    let settings = parts.zone.name();
    let mut after = parts.now();
    let anchor = anchor.or(Some(after));
    let mut times = Vec::new();
    while times.len() < most {
        let (next, zone) = match &definition.config {
            Config::Schedule(schedule) => (
                due::next(schedule, &settings, anchor, after, &*parts.calendar),
                schedule.timezone.as_deref(),
            ),
            Config::Window(window) => {
                let view = View {
                    window,
                    zone: &settings,
                    calendar: &*parts.calendar,
                    now: after,
                    since: after,
                };
                let opening = window::opening(view, after);
                // A watched window that is open at this moment began before it.
                let next = match (window.hours(), opening) {
                    (Some(Hours::Watch(_)), Some((opens, closes))) if opens <= after => {
                        let view = View { now: closes, ..view };
                        window::opening(view, closes)
                    }
                    (_, opening) => opening,
                };
                (next.map(|(opens, _)| opens), window.timezone.as_deref())
            }
            _ => (None, None),
        };
        let Some(next) = next else { break };
        let zone = zone.unwrap_or(&settings);
        times.push((next, parts.calendar.show(zone, next)));
        after = next;
    }
    times
}
