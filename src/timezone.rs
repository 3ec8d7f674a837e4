//! Days: when one ends and the next begins, in the operator's time zone.

use std::sync::Arc;

use hivewright_actors::{
    budget::{Day, Days},
    clock::Timestamp,
};
use jiff::{ToSpan, tz::TimeZone};
use parking_lot::RwLock;

use crate::{settings::zone::Zone, time};

#[derive(Clone, Debug)]
pub struct ZoneDays(pub TimeZone);

/// The operator's time zone, which may change while the service runs. Cheap to clone; all clones show
/// the same.
#[derive(Clone, Debug)]
pub struct LocalTime(Arc<RwLock<Zone>>);

impl LocalTime {
    pub fn new(zone: Zone) -> Self {
        Self(Arc::new(RwLock::new(zone)))
    }

    pub fn set(&self, zone: Zone) {
        *self.0.write() = zone;
    }

    pub fn zone(&self) -> Zone {
        let zone = self.0.read();
        zone.clone()
    }

    pub fn name(&self) -> String {
        self.zone().name().to_owned()
    }
}

impl Days for LocalTime {
    fn day_of(&self, at: Timestamp) -> Day {
        ZoneDays(self.zone().time_zone().clone()).day_of(at)
    }
}

impl Days for ZoneDays {
    fn day_of(&self, at: Timestamp) -> Day {
        let date = time::instant(at).unwrap_or_default().to_zoned(self.0.clone()).date();
        let next = date
            .checked_add(1.day())
            .and_then(|tomorrow| tomorrow.to_zoned(self.0.clone()))
            .ok()
            .and_then(|next| time::timestamp(next.timestamp()));
        Day { number: time::number(date), ends_at: next.unwrap_or(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(zone: &str, at: &str) -> Day {
        let zone = TimeZone::get(zone).unwrap();
        ZoneDays(zone).day_of(moment(at))
    }

    fn moment(text: &str) -> Timestamp {
        time::parse(text).unwrap()
    }

    /// SE-140
    #[test]
    fn a_day_follows_the_time_zone() {
        let late = "2026-11-15T23:30:00Z";

        assert_eq!(day("UTC", late).number, 20_261_115);
        assert_eq!(day("Europe/Berlin", late).number, 20_261_116);
        assert_eq!(day("Europe/Berlin", late).ends_at, moment("2026-11-16T23:00:00Z"));
    }

    /// SE-140: a day with a change of the clock is longer or shorter.
    #[test]
    fn a_day_of_a_clock_change_ends_at_local_midnight() {
        let spring = day("Europe/Berlin", "2026-03-29T00:30:00Z");
        let autumn = day("Europe/Berlin", "2026-10-25T00:30:00Z");

        assert_eq!(spring.ends_at, moment("2026-03-29T22:00:00Z"));
        assert_eq!(autumn.ends_at, moment("2026-10-25T23:00:00Z"));
    }
}
