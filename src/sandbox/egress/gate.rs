//! Gate: what the proxy of a browser is told by whoever it works for.

use std::sync::Arc;

use hivewright_actors::ids::TeamName;
use reqwest::Url;

use super::EgressError;
use crate::settings::egress::Egress;

/// What a proxy lets through. It is asked for each request and each tunnel.
pub trait Gate: Send + Sync + 'static {
    /// Whose browser it is.
    fn team(&self) -> TeamName;

    fn egress(&self) -> Arc<Egress>;

    /// Whether a host may be reached that the settings allow; the error says why not.
    fn admit(&self, host: &str) -> Result<(), String>;

    /// Counts bytes that go through. Gives all since the call began.
    fn spend(&self, bytes: u64) -> u64;

    /// Hears of what was not let through, or did not get there.
    fn failed(&self, url: &Url, error: EgressError);
}
