//! A time zone, by its name in the IANA list.

use jiff::tz::TimeZone;

use super::references::Environment;

/// Names that differ by more letters are not meant.
const MOST_SLIPS: usize = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of a name. An unknown name is answered with the nearest ones.
    pub fn parse(name: &str) -> Result<Self, String> {
        TimeZone::get(name).map(Self).map_err(|_| {
            let near = nearest(name).into_iter().filter(|(distance, _)| *distance <= MOST_SLIPS);
            let near: Vec<String> = near.map(|(_, name)| name).collect();
            if near.is_empty() {
                "unknown time zone; use a name such as `Europe/Berlin`".to_owned()
            } else {
                format!("unknown time zone; did you mean {}?", near.join(" or "))
            }
        })
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

/// The three names that are most like this one, with how far each is. A city alone counts as near.
pub(crate) fn nearest(name: &str) -> Vec<(usize, String)> {
    let wanted = name.to_lowercase();
    let distance = |known: &str| {
        let known = known.to_lowercase();
        let city = known.rsplit('/').next().unwrap_or(&known);
        strsim::levenshtein(&wanted, &known).min(strsim::levenshtein(&wanted, city) + 1)
    };
    let known =
        jiff::tz::db().available().map(|known| (distance(known.as_str()), known.to_string()));
    let mut near: Vec<_> = known.collect();
    near.sort();
    near.truncate(3);
    near
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
