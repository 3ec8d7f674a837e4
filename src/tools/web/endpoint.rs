//! Endpoint: a service that the operator configured for a web tool, reached there and nowhere else.

use reqwest::{Response, Url};

use super::Web;
use crate::{
    sandbox::egress::{
        EgressError,
        request::{Request, Terms},
    },
    settings::egress::Egress,
};

pub(super) struct Endpoint {
    pub(super) web: Web,
    pub(super) url: Url,
    egress: Egress,
}

impl Endpoint {
    /// None if that is no address.
    pub(super) fn new(web: Web, address: &str) -> Option<Self> {
        let url: Url = address.parse().ok()?;
        let egress = Egress::to_endpoint(&url)?;
        Some(Self { web, url, egress })
    }

    /// Sends a request there. A key in it goes where the operator said, and nowhere that it is sent on to.
    pub(super) async fn send(&self, request: Request) -> Result<Response, EgressError> {
        let terms = Terms { most_redirects: 0, ..Terms::new(&self.egress, &|_| Ok(()), &|_| true) };
        let (response, _) = self.web.guard.send(request, &terms).await?;
        Ok(response)
    }
}
