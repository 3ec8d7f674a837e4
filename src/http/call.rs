//! Calls: a request of an endpoint as its handler gets it, read by the endpoint's types.

use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{
    State,
    caller::{Caller, within_limits},
    error::ApiError,
    json,
    query::{Page, pairs},
    record::Target,
};
use crate::api::{
    endpoint::{Empty, Endpoint, Needs},
    input::{Reader, convert},
    page::PageQuery,
    reply::Reply,
};

/// A request by someone who has the right to it, checked whole.
pub(super) struct Call<P = Empty, Q = Empty, B = Empty, W = Caller> {
    pub(super) state: web::Data<State>,
    pub(super) caller: W,
    pub(super) path: P,
    pub(super) query: Q,
    /// The part of the rows that is wanted, where rows are listed.
    pub(super) page: Page,
    pub(super) body: B,
    /// The body, where the endpoint says nothing of one.
    pub(super) payload: Option<web::Payload>,
    pub(super) request: HttpRequest,
}

/// Who sends a request, having what the endpoint needs.
pub(super) trait Requester: Sized {
    fn admit(needs: Needs, state: &State, request: &HttpRequest) -> Result<Self, ApiError>;
}

impl Requester for Caller {
    fn admit(needs: Needs, state: &State, request: &HttpRequest) -> Result<Self, ApiError> {
        let principal = match needs {
            Needs::Nothing | Needs::Login => state.access.principal(request)?,
            Needs::Scope(scope) => state.access.require(request, scope)?,
        };
        within_limits(state, request, &principal)?;
        let target = Target::default();
        request.extensions_mut().insert(target.clone());
        Ok(Self::new(principal, target))
    }
}

/// Somebody, whoever it is.
pub(super) struct Anyone;

impl Requester for Anyone {
    fn admit(needs: Needs, _: &State, _: &HttpRequest) -> Result<Self, ApiError> {
        match needs {
            Needs::Nothing => Ok(Self),
            Needs::Login | Needs::Scope(_) => Err(ApiError::internal("not for everybody")),
        }
    }
}

/// What reads the requests of an endpoint.
pub(super) struct Readers<Q, B> {
    needs: Needs,
    raw: bool,
    sorts: &'static [&'static str],
    usual_sort: fn(&Q) -> Option<&'static str>,
    query: Reader<Q>,
    body: Option<Reader<B>>,
}

impl<Q, B> Readers<Q, B>
where
    Q: DeserializeOwned + JsonSchema,
    B: DeserializeOwned + JsonSchema,
{
    pub(super) fn new<R: Reply, P>(endpoint: &Endpoint<R, P, Q, B>) -> Self {
        Self {
            needs: endpoint.needs,
            raw: endpoint.raw,
            sorts: endpoint.sorts,
            usual_sort: endpoint.usual_sort,
            query: endpoint.query(),
            body: endpoint.has_body().then(Reader::default),
        }
    }

    /// Rights come first, then the query. The body is not read of someone who has no right to send one.
    pub(super) async fn read<P: DeserializeOwned, W: Requester>(
        &self,
        request: HttpRequest,
        payload: web::Payload,
    ) -> Result<Call<P, Q, B, W>, ApiError> {
        let state = request.app_data::<web::Data<State>>().cloned();
        let state = state.ok_or_else(|| ApiError::internal("no state"))?;
        let caller = W::admit(self.needs, &state, &request)?;
        let given = if self.raw { Vec::new() } else { pairs(request.query_string())? };
        let fields = self.query.query(given)?;
        let page: PageQuery = convert(fields.clone())?;
        let query: Q = convert(fields)?;
        let usual = (self.usual_sort)(&query).or(self.sorts.first().copied()).unwrap_or("id");
        let page = Page::new(request.path(), &page, self.sorts, usual)?;
        let path = web::Path::<P>::extract(&request).await.map_err(ApiError::internal)?;
        let (body, payload) = match &self.body {
            Some(reader) => (json::read(reader, &request, payload).await?, None),
            None => (convert(serde_json::json!({}))?, Some(payload)),
        };
        let path = path.into_inner();
        Ok(Call { state, caller, path, query, page, body, payload, request })
    }
}
