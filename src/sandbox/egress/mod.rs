//! Egress guard: the only door from a tool to the network.
//!
//! ```text
//! mod.rs      which target may be reached, and a client that reaches nothing else
//! address.rs  which addresses are public        request.rs  a request with its redirects
//! resolve.rs  names to addresses                body.rs     what comes back, within bounds
//! proxy.rs    connections of a browser          passage.rs  one of them, counted, bounded and logged
//! ```

use std::{
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

use hivewright_actors::{blocking, text::Size};
use reqwest::{Url, dns, redirect};
use rustls::{ClientConfig, crypto::ring};

use crate::settings::{
    egress::Egress,
    network::{HostPort, host_name},
};

mod address;
pub mod body;
pub mod gate;
mod passage;
pub mod proxy;
pub mod request;
pub mod resolve;
#[cfg(test)]
pub(crate) mod tests;

use resolve::{Resolver, SystemResolver};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Names that never lead to the public internet.
const PRIVATE_NAMES: [&str; 3] = ["localhost", "local", "internal"];

/// Why a request did not get through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EgressError {
    #[error("invalid URL")]
    InvalidUrl,
    #[error("blocked: scheme {0} not allowed")]
    Scheme(String),
    #[error("blocked: user name or password in the URL")]
    UserInfo,
    #[error("blocked: private or reserved address {0}")]
    Private(String),
    #[error("domain not in allowlist: {0}")]
    NotAllowed(String),
    #[error("too many redirects")]
    TooManyRedirects,
    /// A rule of the operator keeps the call from there.
    #[error("{0}")]
    Denied(String),
    /// Following a redirect would give a secret to another host.
    #[error("redirected to {0}, which must not get the secret in the body")]
    SecretRedirected(String),
    #[error("`{0}` cannot be resolved: {1}")]
    Unresolved(String, String),
    #[error("the connection to `{0}` failed: {1}")]
    Connection(String, String),
    #[error("the answer broke off after {0} bytes: {1}")]
    BrokenOff(u64, String),
    /// A connection of a browser had its share.
    #[error("the pages of one call may move {}", Size(*.0))]
    TooMuch(u64),
    #[error("a connection may be open for {} minutes", .0.as_secs() / 60)]
    TooLong(Duration),
    #[error("this machine cannot make TLS connections: {0}")]
    Tls(String),
}

/// The guard of all that leaves. Cheap to clone.
#[derive(Clone)]
pub struct Guard(Arc<Inner>);

struct Inner {
    resolver: Box<dyn Resolver>,
    /// Made for the first connection: it reads the certificates of the machine.
    tls: OnceLock<ClientConfig>,
}

/// Where a request goes: addresses that were checked.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    addresses: Vec<SocketAddr>,
}

impl Default for Guard {
    fn default() -> Self {
        Self::new(SystemResolver)
    }
}

impl Guard {
    pub fn new(resolver: impl Resolver) -> Self {
        Self(Arc::new(Inner { resolver: Box::new(resolver), tls: OnceLock::new() }))
    }

    /// A guard that trusts these certificates, and not those of the machine.
    #[cfg(test)]
    pub(crate) fn trusting(resolver: impl Resolver, roots: rustls::RootCertStore) -> Self {
        let guard = Self::new(resolver);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let _ = guard.0.tls.set(config);
        guard
    }

    /// Whether a team may go where a URL leads.
    pub async fn check(&self, url: &Url, egress: &Egress) -> Result<(), EgressError> {
        self.locate(url, egress).await.map(drop)
    }

    /// Where a URL leads, if a team may go there. The name is looked up once; if any of its addresses is
    /// private, none is used.
    async fn locate(&self, url: &Url, egress: &Egress) -> Result<Target, EgressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EgressError::Scheme(url.scheme().to_owned()));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::UserInfo);
        }
        let host = host_name(url).ok_or(EgressError::InvalidUrl)?;
        let port = url.port_or_known_default().ok_or(EgressError::InvalidUrl)?;
        let is_meant = |pair: &HostPort| pair.host == host && pair.port == port;
        let exempt = egress.allow_private.iter().any(is_meant);
        let literal = literal(&host);
        if literal.is_none() && !exempt && is_private_name(&host) {
            return Err(EgressError::Private(host));
        }
        if let Some(address) = literal {
            check(address, exempt)?;
        }
        let allowed = &egress.allowed_domains;
        if !allowed.is_empty() && !allowed.iter().any(|pattern| pattern.fits(&host)) {
            return Err(EgressError::NotAllowed(host));
        }
        let addresses = match literal {
            Some(address) => vec![address],
            None => self.resolve(&host).await?,
        };
        for address in &addresses {
            check(*address, exempt)?;
        }
        let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port));
        Ok(Target { host, addresses: addresses.collect() })
    }

    async fn resolve(&self, host: &str) -> Result<Vec<IpAddr>, EgressError> {
        let unresolved = |why: String| EgressError::Unresolved(host.to_owned(), why);
        let found = self.0.resolver.resolve(host.to_owned()).await;
        let found = found.map_err(|error| unresolved(error.to_string()))?;
        if found.is_empty() { Err(unresolved("it has no address".to_owned())) } else { Ok(found) }
    }

    /// A client that connects to this target and nowhere else: no proxy, no redirect, no name looked up
    /// again, no connection kept.
    async fn client(&self, target: &Target) -> Result<reqwest::Client, EgressError> {
        let failed = |error: reqwest::Error| EgressError::Tls(error.to_string());
        reqwest::Client::builder()
            .tls_backend_preconfigured(self.tls().await?)
            .dns_resolver(Pinned(target.addresses.clone()))
            .no_proxy()
            .redirect(redirect::Policy::none())
            .pool_max_idle_per_host(0)
            .connect_timeout(CONNECT_TIMEOUT)
            .user_agent(concat!("hivewright/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(failed)
    }

    async fn tls(&self) -> Result<ClientConfig, EgressError> {
        if let Some(made) = self.0.tls.get() {
            return Ok(made.clone());
        }
        let made = blocking::run(tls_config).await;
        let made = made.map_err(|error| EgressError::Tls(error.to_string()))?;
        let made = made.map_err(|error| EgressError::Tls(error.to_string()))?;
        Ok(self.0.tls.get_or_init(|| made).clone())
    }
}

/// Trusts what the machine trusts. Blocks.
fn tls_config() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier = rustls_platform_verifier::Verifier::new(provider.clone())?;
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    Ok(config.with_no_client_auth())
}

/// Answers every name with addresses that were checked.
struct Pinned(Vec<SocketAddr>);

impl dns::Resolve for Pinned {
    fn resolve(&self, _: dns::Name) -> dns::Resolving {
        let addresses: dns::Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}

fn check(address: IpAddr, exempt: bool) -> Result<(), EgressError> {
    if address::is_metadata(address) || (!exempt && !address::is_public(address)) {
        return Err(EgressError::Private(address.to_string()));
    }
    Ok(())
}

/// The address that a host is, if it is none that has to be looked up.
fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn is_private_name(host: &str) -> bool {
    PRIVATE_NAMES.iter().any(|name| {
        let rest = host.strip_suffix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}
