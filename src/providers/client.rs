//! The HTTP client for model APIs.

use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP client cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up")]
pub struct ClientError(#[from] reqwest::Error);

/// A client that goes straight to where it is told: it uses no proxy, and follows no redirect,
/// which would carry a key to another host.
pub fn build() -> Result<reqwest::Client, ClientError> {
    // An error means that a provider is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Ok(reqwest::Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("hivewright/", env!("CARGO_PKG_VERSION")))
        .build()?)
}
