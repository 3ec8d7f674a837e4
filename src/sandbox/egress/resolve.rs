//! Port: how names of hosts become addresses.

use std::{io, net::IpAddr};

use futures_util::future::BoxFuture;

/// Looks up names. Each request asks once, and goes to what was answered.
pub trait Resolver: Send + Sync + 'static {
    /// All addresses of a host.
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The resolver of the machine.
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve(&self, host: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
