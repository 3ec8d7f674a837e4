//! What a trigger would do: its next times, or whether a sample fits it.

use hivewright_actors::{
    clock::Timestamp,
    scheduler::{
        ports::View,
        schedule,
        trigger::{
            Trigger,
            config::{Config, Hours, TriggerType},
            definition::Definition,
            validation::{Check, Problem},
        },
        window,
    },
};
use serde_json::{Map, Value};

use super::{
    admin::{Author, Parts, TriggerError},
    form,
};
use crate::api::{
    triggers::{TriggerDue, TriggerPreview},
    when::date,
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
) -> Result<TriggerPreview, TriggerError> {
    let preview = TriggerPreview { kind, valid: None, due: None, matches: None, captures: None };
    let definition = form::sketch(&parts.writer(author), kind, config)?;
    let (zone, now, expressions) = (parts.zone.name(), parts.now(), &*parts.expressions);
    let view = View { zone: &zone, calendar: &*parts.calendar, now, since: now };
    Check { view, expressions, is_new: true }.run(&definition)?;
    if let Config::Schedule(_) | Config::Window(_) = definition.config {
        let times = times(parts, &definition, Some(now)).take(SHOWN);
        let times = times.map(|(at, local)| TriggerDue { at: date(at), local });
        return Ok(TriggerPreview { due: Some(times.collect()), ..preview });
    }
    let (Some(matcher), Some(sample)) = (definition.config.matcher(expressions), sample) else {
        return Ok(TriggerPreview { valid: Some(true), ..preview });
    };
    let matcher = matcher.map_err(|reason| Problem::new("config.pattern", reason))?;
    let found = matcher.find(sample);
    let captures =
        found.iter().flatten().map(|(name, value)| (name.clone(), value.clone())).collect();
    Ok(TriggerPreview { matches: Some(found.is_some()), captures: Some(captures), ..preview })
}

impl Parts {
    /// The next times of a trigger, as people of its zone read them.
    pub fn next_times(&self, trigger: &Trigger, most: usize) -> Vec<String> {
        let times = times(self, &trigger.definition, trigger.anchor_at);
        times.take(most).map(|(_, text)| text).collect()
    }
}

/// The times of a definition from now on: of a window, when it opens.
pub(crate) fn times<'a>(
    parts: &'a Parts,
    definition: &'a Definition,
    anchor: Option<Timestamp>,
) -> impl Iterator<Item = (Timestamp, String)> + use<'a> {
    let zone = parts.zone.name();
    let calendar = &*parts.calendar;
    let mut after = parts.now();
    let anchor = anchor.or(Some(after));
    std::iter::from_fn(move || {
        let view = View { zone: &zone, calendar, now: after, since: after };
        let (next, own_zone) = match &definition.config {
            Config::Schedule(schedule) => {
                (schedule::next(schedule, view, anchor, after), schedule.timezone.as_deref())
            }
            Config::Window(window) => {
                let opening = window::opening(view, window, after);
                // A watched window that is open at this moment began before it.
                let next = match (window.hours(), opening) {
                    (Some(Hours::Watch(_)), Some((opens, closes))) if opens <= after => {
                        window::opening(View { now: closes, ..view }, window, closes)
                    }
                    (_, opening) => opening,
                };
                (next.map(|(opens, _)| opens), window.timezone.as_deref())
            }
            _ => (None, None),
        };
        after = next?;
        Some((after, calendar.show(own_zone.unwrap_or(&zone), after)))
    })
}
