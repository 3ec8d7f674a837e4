//! A time zone, by its name in the IANA list.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::references::Environment;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of a name. An unknown name is answered with the nearest ones.
    pub fn parse(name: &str) -> Result<Self, String> {
        TimeZone::get(name).map(Self).map_err(|_| format!("unknown time zone{}", nearest(name)))
    }

    /// The zone that this machine is told to be in, else UTC; and what is wrong with what it is told.
    pub fn of_machine(environment: &Environment) -> (Self, Option<String>) {
        let utc = Self(TimeZone::UTC);
        let Some(named) = environment.get("TZ").filter(|named| !named.is_empty()) else {
            return (utc, None);
        };
        match Self::parse(named.trim_start_matches(':')) {
            Ok(zone) => (zone, None),
            Err(reason) => (
                utc,
                Some(format!(
                    "the variable TZ is `{named}`: {reason}. UTC counts; set `timezone` in `config.yaml`, or TZ"
                )),
            ),
        }
    }

    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }
}

fn nearest(name: &str) -> String {
    let wanted = name.to_lowercase();
    let database: &TimeZoneDatabase = jiff::tz::db();
    let mut near: Vec<(usize, String)> = database
        .available()
        .map(|known| {
            let known = known.as_str().to_owned();
            (strsim::levenshtein(&wanted, &known.to_lowercase()), known)
        })
        .filter(|(distance, _)| *distance <= 3)
        .collect();
    near.sort();
    let names: Vec<String> = near.into_iter().take(3).map(|(_, name)| name).collect();
    if names.is_empty() {
        "; use a name such as `Europe/Berlin`".to_owned()
    } else {
        format!("; did you mean {}?", names.join(" or "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-11
    #[test]
    fn an_unknown_zone_is_answered_with_the_nearest_names() {
        let refused = Zone::parse("Europe/Berlim");

        assert_eq!(refused, Err("unknown time zone; did you mean Europe/Berlin?".to_owned()));
    }

    /// OR-12 timezone
    #[test]
    fn the_machine_s_zone_is_taken_where_it_is_known() {
        let berlin = Environment::fixed([("TZ", ":Europe/Berlin")]);
        let nonsense = Environment::fixed([("TZ", "Nowhere")]);

        let none = Environment::fixed([("TZ", "")]);

        let (zone, fault) = Zone::of_machine(&berlin);
        assert_eq!((zone.name(), fault), ("Europe/Berlin", None));
        let (zone, fault) = Zone::of_machine(&nonsense);
        assert_eq!(zone.name(), "UTC");
        assert!(fault.is_some_and(|fault| fault.contains("TZ is `Nowhere`: unknown time zone")));
        assert_eq!(Zone::of_machine(&none).1, None);
    }
}
