//! What is to be done about a schedule now.

use std::time::Duration;

use super::{
    calendar::Calendar,
    config::Schedule,
    due,
    firing::Standing,
    missed::{self, Plan},
    trigger::Trigger,
};
use crate::clock::Timestamp;

/// A time that is later than this was not late but missed: the machine slept, or its clock jumped.
const LATE: Duration = Duration::from_secs(60);

/// What is to be done about a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agenda {
    /// Nothing yet.
    Wait,
    /// It is time.
    Fire(Timestamp),
    /// It is time, and the team rests.
    Hold(Timestamp),
    /// Times passed unserved.
    MakeUp(Plan),
}

/// Where and when a schedule is looked at.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The zone of the settings.
    pub zone: &'a str,
    /// Patterns and zones.
    pub calendar: &'a dyn Calendar,
    /// The present.
    pub now: Timestamp,
    /// When the service came up.
    pub since: Timestamp,
}

/// The first time of a trigger's schedule after a moment.
pub fn next(
    trigger: &Trigger,
    schedule: &Schedule,
    view: View<'_>,
    after: Timestamp,
) -> Option<Timestamp> {
    due::next(schedule, view.zone, trigger.anchor_at, after, view.calendar)
}

/// Looks at a schedule.
pub fn agenda(
    trigger: &Trigger,
    schedule: &Schedule,
    standing: Standing,
    view: View<'_>,
) -> Agenda {
    let View { now, since, .. } = view;
    let cursor = trigger.cursor_at.unwrap_or(trigger.created_at);
    let next = |after| next(trigger, schedule, view, after);
    if standing == Standing::Paused {
        return match newest(cursor, now, next) {
            Some(due) => Agenda::Hold(due),
            None => Agenda::Wait,
        };
    }
    let definition = &trigger.definition;
    let policy = definition.missed.unwrap_or_default();
    let once_only = definition.config.is_single();
    let make_up = |from| Agenda::MakeUp(missed::plan(policy, once_only, from, now, next));
    if let Some(held_from) = trigger.held_from {
        return make_up(held_from);
    }
    match next(cursor) {
        Some(due) if due > now => Agenda::Wait,
        Some(due) if due < since || now.since(due) > LATE => make_up(cursor),
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
    let lately = now - LATE;
    let mut newest = first;
    let mut after = first.max(lately);
    while let Some(due) = next(after)
        && due <= now
    {
        newest = due;
        after = due;
    }
    Some(newest)
}
