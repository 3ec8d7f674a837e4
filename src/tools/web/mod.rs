//! The web tools: pages of the public internet, through the egress guard.

use hivewright_actors::tool::ToolFault;

use super::{error::ToolError, made::tools};
use crate::sandbox::egress::{EgressError, Guard};

mod buckets;
mod contacted;
mod content;
mod endpoint;
pub(super) mod fetch;
mod page;
pub mod repository;
pub mod search;

use buckets::Limiter;
use contacted::Contacted;
use fetch::WebFetch;

/// What the web tools share. Cheap to clone.
#[derive(Clone, Default)]
pub struct Web {
    pub(crate) guard: Guard,
    limiter: Limiter,
    pub(super) contacted: Contacted,
}

tools! {
    pub fn made(web: &Web) {
        WebFetch(web.clone()),
    }
}

impl From<EgressError> for ToolError {
    fn from(error: EgressError) -> Self {
        let fault = match &error {
            EgressError::InvalidUrl
            | EgressError::Scheme(_)
            | EgressError::UserInfo
            | EgressError::Private(_)
            | EgressError::NotAllowed(_)
            | EgressError::TooManyRedirects => ToolFault::BlockedAddress,
            EgressError::Denied(_) => ToolFault::Denied,
            EgressError::SecretRedirected(_) => ToolFault::SecretNotAllowed,
            _ => ToolFault::ToolFailed,
        };
        Self::new(fault, error.to_string())
    }
}
