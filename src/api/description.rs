//! The description of all routes.

use super::{
    endpoint::{Endpoint, Method::*, Needs::Login},
    reply::Content,
};

pub const SHOW_OPENAPI: Endpoint<Content> =
    Endpoint::needing(Login, Get, "/api/v1/openapi.json", "Describes all routes, in OpenAPI 3.1.");

pub const SHOW_DOCS: Endpoint<Content> =
    Endpoint::needing(Login, Get, "/api/v1/docs", "Describes all routes, as a page.");
