//! Network access of a team: which hosts its tools reach, and how often.

use std::collections::BTreeMap;

use reqwest::Url;

use super::{
    declare::settings,
    field::Field,
    network::{HostPattern, HostPort, host_name},
    setting::Setting,
};

/// Bounds of a bucket: calls in a second, and calls at once.
const MOST_A_SECOND: f64 = 1_000.0;
const MOST_AT_ONCE: u64 = 10_000;
/// The longest name of a bucket, in bytes: as long as that of a host.
const LONGEST_NAME: usize = 253;

settings! {
    /// Which hosts its tools may reach.
    pub struct Egress {
        /// Hosts such as example.org, or *.example.org for all below it. Empty: all public ones.
        allowed_domains: Vec<HostPattern> = Vec::new(),
        /// Hosts of private networks with their port, such as wiki.internal:8080: no others are reached there.
        allow_private: Vec<HostPort> = Vec::new(),
    }
}

impl Egress {
    /// The way to an address that the operator names: it may be on private ground, and nothing else there may be
    /// reached. None if it names no host.
    pub fn to_endpoint(url: &Url) -> Option<Self> {
        let own = HostPort { host: host_name(url)?, port: url.port_or_known_default()? };
        Some(Self { allow_private: vec![own], ..Self::default() })
    }
}

/// Token buckets by name: a host, `*.` and a domain, `*` for all other hosts, or any name that calls give.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Buckets(BTreeMap<String, Bucket>);

/// How often calls are let through.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Calls in a second, in the long run.
    pub rps: f64,
    /// Calls at once, after a rest.
    pub burst: u32,
}

impl Buckets {
    /// A bucket by its name.
    pub fn named(&self, name: &str) -> Option<(&str, Bucket)> {
        self.0.get_key_value(name).map(|(name, bucket)| (&**name, *bucket))
    }

    /// The bucket of a host: its own, that of the nearest domain above it, or that of all others.
    pub fn of_host(&self, host: &str) -> Option<(&str, Bucket)> {
        let above = || {
            let fitting = self.0.iter().filter_map(|(name, bucket)| {
                let pattern = name.parse::<HostPattern>().ok()?;
                (name.starts_with("*.") && pattern.fits(host))
                    .then(|| (pattern.length(), name, *bucket))
            });
            let nearest = fitting.max_by_key(|(length, ..)| *length);
            nearest.map(|(_, name, bucket)| (&**name, bucket))
        };
        self.named(host).or_else(above).or_else(|| self.named("*"))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(|name| &**name)
    }
}

impl Setting for Buckets {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let members = field.members()?.into_iter().filter_map(|(name, field)| {
            if name.is_empty() || name.len() > LONGEST_NAME {
                return field.reject(format!("a name has 1 to {LONGEST_NAME} bytes"));
            }
            // Hosts are compared in the one spelling that they have in a URL.
            let name = name.to_lowercase();
            read_bucket(&field).map(|bucket| (name, bucket))
        });
        Some(Self(members.collect()))
    }
}

fn read_bucket(field: &Field<'_>) -> Option<Bucket> {
    field.section(|bucket| {
        let rps = bucket.required("rps", |field| match field.amount()? {
            rps if rps > 0.0 && rps <= MOST_A_SECOND => Some(rps),
            _ => field.reject(format!("expected a number above 0, at most {MOST_A_SECOND}")),
        });
        let burst = bucket.required("burst", |field| field.integer(1..=MOST_AT_ONCE));
        Some(Bucket { rps: rps?, burst: burst? })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TO-79
    #[test]
    fn the_bucket_of_a_host_is_the_nearest_one() {
        let bucket = |burst| Bucket { rps: 1.0, burst };
        let names = [
            ("a.example.org", 1),
            ("*.example.org", 2),
            ("*.b.example.org", 3),
            ("*", 4),
            ("slow", 5),
        ];
        let buckets = Buckets(names.map(|(name, burst)| (name.to_owned(), bucket(burst))).into());
        let of = |host: &str| buckets.of_host(host).map(|(name, bucket)| (name, bucket.burst));

        assert_eq!(of("a.example.org"), Some(("a.example.org", 1)));
        assert_eq!(of("c.example.org"), Some(("*.example.org", 2)));
        assert_eq!(of("x.b.example.org"), Some(("*.b.example.org", 3)));
        assert_eq!(of("example.org"), Some(("*", 4)));
        assert_eq!(buckets.named("slow").map(|(_, bucket)| bucket.burst), Some(5));
        assert_eq!(buckets.named("fast"), None);
        assert_eq!(Buckets::default().of_host("a.example.org"), None);
    }
}
