//! Origin and host check: from where, and under which name, a request may come.
//!
//! A page of someone else must not be able to use the browser of a person who is logged in here,
//! nor to make its own host name mean this machine.

use std::{net::IpAddr, sync::Arc};

use actix_web::{
    HttpRequest,
    http::{
        Method,
        header::{self, HeaderName},
    },
};
use parking_lot::RwLock;

use super::error::{ApiError, ApiResult};
use crate::settings::{
    config::Server,
    network::{Network, Origin},
};

const FORWARDED_FOR: HeaderName = header::X_FORWARDED_FOR;
const FORWARDED_HOST: HeaderName = header::X_FORWARDED_HOST;
const FORWARDED_PROTO: HeaderName = header::X_FORWARDED_PROTO;

/// Knows the names and origins that are ours. Clones know the same.
#[derive(Clone, Debug)]
pub struct Gate {
    names: Arc<RwLock<Names>>,
    proxies: Vec<Network>,
    tls: bool,
}

#[derive(Debug)]
struct Names {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// Origins of others that were named on purpose.
    guests: Vec<String>,
}

impl Names {
    fn of(server: &Server) -> Self {
        let named = || server.public_url.iter().chain(&server.allowed_origins);
        Self {
            hosts: named().map(|origin| origin.host().to_ascii_lowercase()).collect(),
            origins: named().map(Origin::text).collect(),
            guests: server.allowed_origins.iter().map(Origin::text).collect(),
        }
    }
}

impl Gate {
    pub fn new(server: &Server) -> Self {
        Self {
            names: Arc::new(RwLock::new(Names::of(server))),
            proxies: server.trusted_proxies.clone(),
            tls: server.tls.is_some(),
        }
    }

    /// Goes by other names and origins from now on.
    pub fn rename(&self, server: &Server) {
        *self.names.write() = Names::of(server);
    }

    /// We encrypt connections ourselves.
    pub fn has_tls(&self) -> bool {
        self.tls
    }

    /// Refuses what does not come from where it may.
    pub fn check(&self, request: &HttpRequest) -> ApiResult<()> {
        let host = self.host(request).ok_or_else(ApiError::unknown_host)?;
        let authority = request.uri().authority().map(|name| name.as_str());
        if !self.is_ours(&host) || authority.is_some_and(|name| !self.is_ours(name)) {
            return Err(ApiError::unknown_host());
        }
        let origin = text(request, &header::ORIGIN);
        let is_allowed = origin.is_some_and(|origin| self.is_allowed(request, &host, origin));
        let is_present = request.headers().contains_key(header::ORIGIN);
        if is_present
            && !is_allowed
            && (is_change(request.method()) || is_upgrade(request) || is_stream(request))
        {
            return Err(ApiError::origin("that `Origin` is not allowed"));
        }
        if is_cross_site(request) && !is_allowed && !is_visit(request) {
            return Err(ApiError::origin("requests from pages of another site are not allowed"));
        }
        Ok(())
    }

    /// The origin of another page that was named on purpose.
    pub fn guest<'a>(&self, request: &'a HttpRequest) -> Option<&'a str> {
        let origin = text(request, &header::ORIGIN)?;
        self.names.read().guests.iter().any(|guest| guest == origin).then_some(origin)
    }

    /// Who is at the other end. A trusted proxy says for whom it speaks.
    pub fn client(&self, request: &HttpRequest) -> Option<IpAddr> {
        let peer = peer(request)?;
        if !self.is_proxy(peer) {
            return Some(peer);
        }
        let named = request.headers().get_all(FORWARDED_FOR);
        let named: Vec<&str> = named.filter_map(|value| value.to_str().ok()).collect();
        let named = named.iter().flat_map(|value| value.split(','));
        let mut client = peer;
        for name in named.rev() {
            let Ok(address) = name.trim().parse::<IpAddr>() else {
                break;
            };
            client = address.to_canonical();
            if !self.is_proxy(client) {
                break;
            }
        }
        Some(client)
    }

    /// The address is that of a trusted proxy.
    pub fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.contains(address))
    }

    /// Neither encrypted nor in need of it, since it does not leave the machine.
    pub fn is_plain_loopback(&self, request: &HttpRequest) -> bool {
        let is_loopback = |host: String| is_loopback(name_of(&host));
        self.scheme(request) == "http" && self.host(request).is_some_and(is_loopback)
    }

    fn scheme(&self, request: &HttpRequest) -> &'static str {
        let forwarded = self.forwarded(request, &FORWARDED_PROTO);
        if self.tls || forwarded.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")) {
            "https"
        } else {
            "http"
        }
    }

    fn host(&self, request: &HttpRequest) -> Option<String> {
        let mut hosts = request.headers().get_all(header::HOST);
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return None;
        };
        let host = match self.forwarded(request, &FORWARDED_HOST) {
            Some(forwarded) => forwarded,
            None => host.to_str().ok()?,
        };
        Some(host.to_ascii_lowercase())
    }

    /// What the nearest proxy says, if it is a trusted one.
    fn forwarded<'a>(&self, request: &'a HttpRequest, name: &HeaderName) -> Option<&'a str> {
        if !self.is_proxy(peer(request)?) {
            return None;
        }
        let value = request.headers().get_all(name).last()?.to_str().ok()?;
        value.rsplit(',').next().map(str::trim)
    }

    fn is_ours(&self, host: &str) -> bool {
        let name = name_of(host).to_ascii_lowercase();
        is_loopback(&name) || self.names.read().hosts.contains(&name)
    }

    fn is_allowed(&self, request: &HttpRequest, host: &str, origin: &str) -> bool {
        let own = format!("{}://{host}", self.scheme(request)).parse::<Origin>();
        let is_own = own.is_ok_and(|own| own.text() == origin);
        is_own || self.names.read().origins.iter().any(|allowed| allowed == origin)
    }
}

/// The request changes something.
pub fn is_change(method: &Method) -> bool {
    !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

fn is_upgrade(request: &HttpRequest) -> bool {
    request.headers().contains_key(header::UPGRADE)
}

/// What happens is not for pages of others to follow.
fn is_stream(request: &HttpRequest) -> bool {
    request.path() == "/api/v1/events"
}

fn is_cross_site(request: &HttpRequest) -> bool {
    text(request, &header::HeaderName::from_static("sec-fetch-site")) == Some("cross-site")
}

/// Someone follows a link to our page from elsewhere. The page itself holds nothing.
fn is_visit(request: &HttpRequest) -> bool {
    let says = |name, value| text(request, &HeaderName::from_static(name)) == Some(value);
    request.method() == Method::GET
        && request.path() == "/"
        && says("sec-fetch-mode", "navigate")
        && says("sec-fetch-dest", "document")
}

fn text<'a>(request: &'a HttpRequest, name: &HeaderName) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

fn peer(request: &HttpRequest) -> Option<IpAddr> {
    request.peer_addr().map(|peer| peer.ip().to_canonical())
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    let end = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name.len(),
        _ => host.len(),
    };
    &host[..end]
}

fn is_loopback(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let address: Result<IpAddr, _> = match bare {
        Some(bare) => bare.parse().map(IpAddr::V6),
        None => name.parse().map(IpAddr::V4),
    };
    name == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use actix_web::{ResponseError, test::TestRequest};

    use super::*;

    fn gate(server: Server) -> Gate {
        Gate::new(&server)
    }

    fn public() -> Gate {
        gate(Server {
            public_url: Some("https://hive.example.org".parse().unwrap()),
            allowed_origins: vec!["https://tools.example.net:8443".parse().unwrap()],
            trusted_proxies: vec!["10.0.0.0/8".parse().unwrap()],
            ..Server::default()
        })
    }

    fn request(method: Method, headers: &[(&str, &str)]) -> HttpRequest {
        at("/api/v1/session", method, "127.0.0.1:9", headers)
    }

    fn at(path: &str, method: Method, peer: &str, headers: &[(&str, &str)]) -> HttpRequest {
        let mut request =
            TestRequest::with_uri(path).method(method).peer_addr(peer.parse().unwrap());
        for (name, value) in headers {
            request = request.append_header((*name, *value));
        }
        request.to_http_request()
    }

    fn status(gate: &Gate, request: &HttpRequest) -> u16 {
        match gate.check(request) {
            Ok(()) => 200,
            Err(error) => error.status_code().as_u16(),
        }
    }

    /// OP-16, CH-33
    #[test]
    fn a_host_is_loopback_or_named_in_the_settings() {
        let local = gate(Server::default());
        let host = |gate: &Gate, host| status(gate, &request(Method::GET, &[("Host", host)]));

        for good in
            ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080", "[::1]"]
        {
            assert_eq!(host(&local, good), 200, "{good}");
        }
        for bad in [
            "example.org",
            "hive.example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "::1",
            "192.168.1.2:8080",
            "0.0.0.0",
            "",
            "localhost@example.org",
        ] {
            assert_eq!(host(&local, bad), 421, "{bad}");
        }
        assert_eq!(host(&public(), "Hive.example.org:443"), 200);
        assert_eq!(host(&public(), "tools.example.net"), 200);
        assert_eq!(host(&public(), "example.org"), 421);
        assert_eq!(status(&local, &request(Method::GET, &[])), 421);
        let twice = [("Host", "localhost"), ("Host", "example.org")];
        assert_eq!(status(&local, &request(Method::GET, &twice)), 421);
        let absolute =
            at("http://example.org/", Method::GET, "127.0.0.1:9", &[("Host", "localhost")]);
        assert_eq!(status(&local, &absolute), 421);
    }

    /// OP-16, CH-32
    #[test]
    fn a_change_or_upgrade_comes_from_an_allowed_origin_or_from_none() {
        let cases = [
            ("localhost:8080", "http://localhost:8080", 200),
            ("localhost:8080", "http://localhost:3000", 403),
            ("localhost:8080", "http://localhost", 403),
            ("localhost:8080", "https://localhost:8080", 403),
            ("localhost:8080", "http://127.0.0.1:8080", 403),
            ("localhost:8080", "https://hive.example.org", 200),
            ("localhost:8080", "https://tools.example.net:8443", 200),
            ("localhost:8080", "https://tools.example.net", 403),
            ("localhost:8080", "https://evil.example.org", 403),
            ("localhost:8080", "null", 403),
            ("localhost:8080", "", 403),
            ("hive.example.org", "https://hive.example.org", 200),
        ];
        for (host, origin, expected) in cases {
            let headers = [("Host", host), ("Origin", origin)];
            let upgrade = [("Host", host), ("Origin", origin), ("Upgrade", "websocket")];
            for method in [Method::POST, Method::DELETE, Method::PUT, Method::PATCH] {
                let found = status(&public(), &request(method, &headers));
                assert_eq!(found, expected, "{host} {origin}");
            }
            let found = status(&public(), &request(Method::GET, &upgrade));
            assert_eq!(found, expected, "upgrade {host} {origin}");
            assert_eq!(status(&public(), &request(Method::GET, &headers)), 200);
        }
        let none = request(Method::POST, &[("Host", "localhost")]);
        assert_eq!(status(&public(), &none), 200);
    }

    /// OP-16, SC-02
    #[test]
    fn pages_of_other_sites_reach_nothing_but_a_link_to_the_page() {
        let from = |path, mode, dest, origin: Option<&str>| {
            let mut headers = vec![
                ("Host", "localhost"),
                ("Sec-Fetch-Site", "cross-site"),
                ("Sec-Fetch-Mode", mode),
                ("Sec-Fetch-Dest", dest),
            ];
            headers.extend(origin.map(|origin| ("Origin", origin)));
            status(&public(), &at(path, Method::GET, "127.0.0.1:9", &headers))
        };

        assert_eq!(from("/", "navigate", "document", None), 200);
        assert_eq!(from("/", "navigate", "iframe", None), 403);
        assert_eq!(from("/healthz", "no-cors", "image", None), 403);
        assert_eq!(from("/api/v1/overview", "navigate", "document", None), 403);
        assert_eq!(from("/api/v1/overview", "cors", "empty", Some("https://evil.example")), 403);
        assert_eq!(
            from("/api/v1/overview", "cors", "empty", Some("https://tools.example.net:8443")),
            200
        );
    }

    /// OP-17, SC-33
    #[test]
    fn only_a_trusted_proxy_says_who_asks_and_how() {
        let gate = public();
        let headers = [
            ("Host", "backend.internal"),
            ("X-Forwarded-Host", "hive.example.org"),
            ("X-Forwarded-Proto", "https"),
            ("X-Forwarded-For", "203.0.113.7, 198.51.100.1, 10.1.1.1"),
        ];
        let proxied = at("/", Method::GET, "10.0.0.2:9", &headers);
        let direct = at("/", Method::GET, "192.0.2.1:9", &headers);

        assert_eq!(status(&gate, &proxied), 200);
        assert_eq!(gate.client(&proxied), Some("198.51.100.1".parse().unwrap()));
        assert_eq!(gate.scheme(&proxied), "https");
        assert_eq!(status(&gate, &direct), 421);
        assert_eq!(gate.client(&direct), Some("192.0.2.1".parse().unwrap()));
        assert_eq!(gate.scheme(&direct), "http");
    }

    /// OP-14
    #[test]
    fn only_plain_loopback_needs_no_encryption() {
        let plain = |gate: &Gate, host: &str| {
            gate.is_plain_loopback(&request(Method::GET, &[("Host", host)]))
        };
        let mut encrypted = public();
        encrypted.tls = true;

        assert!(plain(&public(), "localhost:8080"));
        assert!(!plain(&public(), "hive.example.org"));
        assert!(!plain(&encrypted, "localhost:8080"));
    }
}
