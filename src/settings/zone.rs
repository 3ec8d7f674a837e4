//! A time zone, by its name in the IANA list.

use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::references::Environment;

/// A known time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Zone {
    /// The zone of a name. An unknown name is answered with the nearest ones.
    pub fn parse(name: &str) -> Result<Self, String> {
        TimeZone::get(name)
            .map(Self)
            .map_err(|_| format!("unknown time zone{}", nearest(name)))
    }

    /// The zone that this machine is told to be in, else UTC.
    pub fn of_machine(environment: &Environment) -> Self {
        let named = environment.get("TZ");
        let zone = named.and_then(|name| Self::parse(name.trim_start_matches(':')).ok());
        zone.unwrap_or(Self(TimeZone::UTC))
    }

    /// For computing with it.
    pub fn time_zone(&self) -> &TimeZone {
        &self.0
    }

    /// Its name.
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
    match names.is_empty() {
        true => "; use a name such as `Europe/Berlin`".to_owned(),
        false => format!("; did you mean {}?", names.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-11
    #[test]
    fn an_unknown_zone_is_answered_with_the_nearest_names() {
        let refused = Zone::parse("Europe/Berlim");

        assert_eq!(
            refused,
            Err("unknown time zone; did you mean Europe/Berlin?".to_owned())
        );
    }

    /// OR-12 timezone
    #[test]
    fn the_machine_s_zone_is_taken_where_it_is_known() {
        let berlin = Environment::fixed([("TZ", ":Europe/Berlin")]);
        let nonsense = Environment::fixed([("TZ", "Nowhere")]);

        assert_eq!(Zone::of_machine(&berlin).name(), "Europe/Berlin");
        assert_eq!(Zone::of_machine(&nonsense).name(), "UTC");
    }
}
