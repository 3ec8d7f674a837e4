//! When a schedule is due.

use super::{
    calendar::Calendar,
    config::{Schedule, When},
};
use crate::clock::{Timestamp, millis};

/// The first time of a schedule after a moment. `anchor` is where counting in steps begins.
pub fn next(
    schedule: &Schedule,
    zone: &str,
    anchor: Option<Timestamp>,
    after: Timestamp,
    calendar: &dyn Calendar,
) -> Option<Timestamp> {
    match schedule.when()? {
        When::Cron(pattern) => {
            calendar.next(pattern, schedule.timezone.as_deref().unwrap_or(zone), after)
        }
        When::At(at) => (at > after).then_some(at),
        When::Every(step) => {
            let (anchor, step) = (anchor?.0, millis(step).max(1));
            let steps = (after.0.checked_sub(anchor)).map_or(1, |passed| passed / step + 1);
            Some(Timestamp(anchor.saturating_add(steps.saturating_mul(step))))
        }
    }
}
