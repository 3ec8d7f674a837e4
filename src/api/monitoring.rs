//! Monitoring: what watches the process asks for.

use super::{
    endpoint::{Endpoint, Method::*},
    reply::Content,
    scope::Scope::*,
};

pub const SHOW_METRICS: Endpoint<Content> =
    Endpoint::new(Get, "/metrics", Metrics, "Shows figures in the text form of Prometheus.");
