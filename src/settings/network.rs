//! Addresses as settings name them: origins, networks, private hosts.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use hivewright_actors::wildcard::fits_host;
use reqwest::Url;

/// Where a page comes from: scheme, host and port.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin(Url);

impl Origin {
    /// As a browser sends it, such as `https://example.org`.
    pub fn text(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected an origin such as https://example.org";
        let url = Url::parse(text).map_err(|_| EXPECTED)?;
        if is_bare(&url) && matches!(url.scheme(), "http" | "https") && url.has_host() {
            Ok(Self(url))
        } else {
            Err(EXPECTED)
        }
    }
}

/// A range of addresses, such as `10.0.0.0/8`. An address alone is a range of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u8,
}

impl Network {
    /// The address is in the range. IPv4 addresses in IPv6 clothes count as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix));
                (ours.to_bits() ^ theirs.to_bits()) & mask.unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix));
                (ours.to_bits() ^ theirs.to_bits()) & mask.unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "expected an address range such as 10.0.0.0/8";
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| EXPECTED)?;
        if address != address.to_canonical() {
            return Err("write an IPv4 range as IPv4");
        }
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            Some(prefix) => prefix.parse().map_err(|_| EXPECTED)?,
            None => most,
        };
        if prefix > most {
            return Err(EXPECTED);
        }
        Ok(Self { address, prefix })
    }
}

/// Hosts by name: one, or with `*.` in front all below a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern(String);

impl HostPattern {
    /// The host, in lower case, is one of them.
    pub fn fits(&self, host: &str) -> bool {
        fits_host(&self.0, host)
    }

    /// All hosts of another pattern, such as `*.example.org`, are among them.
    pub fn covers(&self, pattern: &str) -> bool {
        match (self.0.strip_prefix("*."), pattern.strip_prefix("*.")) {
            (Some(above), Some(below)) => above == below || self.fits(below),
            (None, Some(_)) => false,
            _ => self.fits(pattern),
        }
    }

    /// How much of a name it says: of two that fit, the longer one is meant.
    pub(crate) fn length(&self) -> usize {
        self.0.len()
    }
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for HostPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str =
            "expected a host such as example.org, or *.example.org for all below it";
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => ("*.", name),
            None => ("", text),
        };
        match host_and_port(name) {
            Some((host, None)) => Ok(Self(format!("{below}{host}"))),
            _ => Err(EXPECTED),
        }
    }
}

/// A host with its port, such as `wiki.internal:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    pub host: String,
    pub port: u16,
}

impl FromStr for HostPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match host_and_port(text) {
            Some((host, Some(port))) => Ok(Self { host, port }),
            _ => Err("expected a host and a port, such as wiki.internal:8080"),
        }
    }
}

/// A host as URLs write it, whichever way it is spelled here, and the port if one is given.
fn host_and_port(text: &str) -> Option<(String, Option<u16>)> {
    // The last colon behind any bracket: a URL would not say that 80 was given.
    let port = match text.rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => Some(port.parse().ok()?),
        _ => None,
    };
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let host = host_name(&url).filter(|host| is_bare(&url) && !host.contains('*'))?;
    Some((host, port))
}

/// An address with no more than a scheme, a host and a port.
fn is_bare(url: &Url) -> bool {
    url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none()
        && url.username().is_empty()
        && url.password().is_none()
}

/// The host of a URL in its one spelling: lower case, without a dot at the end.
pub(crate) fn host_name(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    (!host.is_empty()).then(|| host.to_owned())
}

/// The URL of a model API.
pub(crate) fn api_url(text: &str) -> Result<String, &'static str> {
    let url = secure_url(text, "a URL may not hold a user name or password; use `api_key`")?;
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a URL may not have `?` or `#` here");
    }
    Ok(text.to_owned())
}

/// The URL of a tool server.
pub(crate) fn server_url(text: &str) -> Result<String, &'static str> {
    secure_url(text, "a URL may not hold a user name or password; use `headers`")?;
    Ok(text.to_owned())
}

/// A URL that is encrypted, unless it stays on private ground.
fn secure_url(text: &str, credentials: &'static str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "expected a URL such as https://api.example.org/v1")?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err("expected a URL that begins with https:// or http://");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(credentials);
    }
    if url.scheme() == "http" && !is_private(&url) {
        return Err("http:// is only for private addresses; use https://");
    }
    Ok(url)
}

/// The URL leads to this machine or a network of its own.
pub(crate) fn is_private_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| is_private(&url))
}

fn is_private(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(v4)) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        Ok(IpAddr::V6(v6)) => {
            v6 == Ipv6Addr::LOCALHOST || v6.is_unique_local() || v6.is_unicast_link_local()
        }
        Err(_) => {
            !host.contains('.')
                || [".localhost", ".local", ".internal"].iter().any(|end| host.ends_with(end))
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let good = ["https://Example.org", "http://10.0.0.1:8080/", "https://a.b:443"];
        let bad = [
            "example.org",
            "ftp://a.b",
            "https://a.b/path",
            "https://a.b/?q",
            "https://u:p@a.b",
            "*",
        ];

        let read = good.map(|text| text.parse::<Origin>().unwrap());

        assert_eq!(
            read.each_ref().map(Origin::text),
            ["https://example.org", "http://10.0.0.1:8080", "https://a.b"]
        );
        assert_eq!(read[0].host(), "example.org");
        for text in bad {
            assert!(text.parse::<Origin>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_network_contains_its_addresses_only() {
        let contains = |network: &str, address: &str| {
            let network: Network = network.parse().unwrap();
            network.contains(address.parse().unwrap())
        };

        assert!(contains("10.0.0.0/8", "10.255.0.1"));
        assert!(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(!contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("192.168.1.7", "192.168.1.7"));
        assert!(!contains("192.168.1.7", "192.168.1.6"));
        assert!(contains("0.0.0.0/0", "203.0.113.9"));
        assert!(!contains("0.0.0.0/0", "::1"));
        assert!(contains("fd00::/8", "fd12::1"));
        assert!(contains("::/0", "2001:db8::1"));
        for text in
            ["10.0.0.0/33", "10.0.0/8", "::/129", "here", "10.0.0.0/-1", "::ffff:1.2.3.4/96"]
        {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }

    /// TO-71, TO-74: however a host is spelled, it is one.
    #[test]
    fn a_host_has_one_spelling() {
        let pattern = |text: &str| text.parse::<HostPattern>();
        let pair =
            |text: &str| text.parse::<HostPort>().map(|HostPort { host, port }| (host, port));

        assert!(pattern("Example.ORG").unwrap().fits("example.org"));
        assert!(!pattern("example.org").unwrap().fits("a.example.org"));
        assert!(pattern("*.Example.org").unwrap().fits("a.b.example.org"));
        assert!(!pattern("*.example.org").unwrap().fits("example.org"));
        assert!(!pattern("*.example.org").unwrap().fits("badexample.org"));
        assert!(pattern("bücher.example").unwrap().fits("xn--bcher-kva.example"));
        assert_eq!(pair("Wiki.Internal:80"), Ok(("wiki.internal".to_owned(), 80)));
        assert_eq!(pair("0x7f.1:8080"), Ok(("127.0.0.1".to_owned(), 8080)));
        assert_eq!(pair("[::1]:80"), Ok(("[::1]".to_owned(), 80)));
        for text in ["", "*", "*.", "a b", "a/b", "u@a.b", "a.b:80", "*.*.a", "a.b?c", "a.b#c"] {
            assert!(pattern(text).is_err(), "{text}");
        }
        for text in ["a.b", "a.b:", "a.b:x", "a.b:70000", "*.a.b:80", "[::1]", "u@a.b:80"] {
            assert!(pair(text).is_err(), "{text}");
        }
    }

    /// SE-98
    #[test]
    fn a_model_is_reached_in_the_clear_on_private_ground_only() {
        let good = [
            "https://api.example.org",
            "https://api.example.org/v1",
            "http://localhost:11434/v1",
            "http://127.0.0.1:1",
            "http://[::1]:8000",
            "http://192.168.0.9",
            "http://ollama:11434",
            "http://box.local",
        ];
        let bad = [
            "http://api.example.org",
            "http://8.8.8.8",
            "ftp://localhost",
            "https://key@api.example.org",
            "https://api.example.org/?key=1",
            "api.example.org",
        ];

        for text in good {
            assert_eq!(api_url(text).as_deref(), Ok(text));
        }
        for text in bad {
            assert!(api_url(text).is_err(), "{text}");
        }
        assert!(is_private_url("http://ollama:11434") && !is_private_url("https://a.example.org"));
    }
}
