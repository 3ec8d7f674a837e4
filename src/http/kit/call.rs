//! Calls: a request of an endpoint as its handler gets it, read by the endpoint's types, and who sends it.

use std::{cell::OnceCell, sync::Arc};

use actix_web::{FromRequest, HttpMessage, HttpRequest, http::Method, web};
use hivewright_actors::ids::TeamName;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::{
    error::{ApiError, ApiResult},
    json,
    limits::Running,
    query::{Page, pairs},
};
use crate::{
    api::{
        endpoint::{Empty, Endpoint, Needs, Operation},
        input::{InputSchema, Reader, convert},
        page::PageQuery,
        reply::Reply,
        scope::Scopes,
    },
    http::{auth::authenticator::Principal, state::State},
};

/// A request by someone who has the right to it, checked whole.
pub(in crate::http) struct Call<P = Empty, Q = Empty, B = Empty, W = Caller> {
    pub(in crate::http) state: web::Data<State>,
    pub(in crate::http) caller: W,
    pub(in crate::http) path: P,
    pub(in crate::http) query: Q,
    /// The part of the rows that is wanted, where rows are listed.
    pub(in crate::http) page: Page,
    pub(in crate::http) body: B,
    /// The body, where the endpoint says nothing of one.
    pub(in crate::http) payload: Option<web::Payload>,
    pub(in crate::http) request: HttpRequest,
}

/// Who sends a request, having what the endpoint needs.
pub(in crate::http) trait Requester: Sized {
    fn admit(needs: Needs, state: &State, request: &HttpRequest) -> ApiResult<Self>;
}

/// Somebody, whoever it is.
pub(in crate::http) struct Anyone;

impl Requester for Anyone {
    fn admit(needs: Needs, _: &State, _: &HttpRequest) -> ApiResult<Self> {
        match needs {
            Needs::Nothing => Ok(Self),
            Needs::Login | Needs::Scope(_) => Err(ApiError::internal("not for everybody")),
        }
    }
}

/// Who asks, having the right to, and which teams they reach.
pub(in crate::http) struct Caller {
    pub(in crate::http) principal: Principal,
    target: Target,
}

impl Requester for Caller {
    fn admit(needs: Needs, state: &State, request: &HttpRequest) -> ApiResult<Self> {
        let principal = match needs {
            Needs::Nothing | Needs::Login => state.access.principal(request)?,
            Needs::Scope(scope) => state.access.require(request, scope)?,
        };
        within_limits(state, request, &principal)?;
        let target = Target::default();
        request.extensions_mut().insert(target.clone());
        Ok(Self { principal, target })
    }
}

impl Caller {
    /// Tells the audit what this is about, where the path does not.
    pub(in crate::http) fn names(&self, what: impl Into<String>) {
        *self.target.0.lock() = what.into();
    }

    /// They may act on this team.
    pub(in crate::http) fn reaches(&self, team: &str) -> bool {
        self.principal.reaches(team)
    }

    /// The same test, for rows that are looked at on another thread.
    pub(in crate::http) fn reach(&self) -> impl Fn(&str) -> bool + Clone + Send + 'static + use<> {
        let principal = self.principal.clone();
        move |team| principal.reaches(team)
    }

    /// A test for rows of lists: of teams that they may act on, or of the one among them that is wanted.
    pub(in crate::http) fn lists(
        &self,
        wanted: Option<String>,
    ) -> impl Fn(&str) -> bool + Send + use<> {
        let reaches = self.reach();
        move |team| reaches(team) && wanted.as_ref().is_none_or(|wanted| wanted == team)
    }

    /// The teams whose things are listed: of those that they may act on, the one that is wanted. None is all.
    pub(in crate::http) fn teams(&self, wanted: Option<String>) -> Option<Vec<TeamName>> {
        match wanted {
            Some(team) if self.reaches(&team) => Some(vec![team.into()]),
            Some(_) => Some(Vec::new()),
            None => {
                let teams = self.principal.teams.as_ref()?;
                Some(teams.iter().map(|team| team.as_str().into()).collect())
            }
        }
    }

    /// A test for things of teams that they may act on, and of none for whoever may act on all.
    pub(in crate::http) fn sight(
        &self,
    ) -> impl Fn(Option<&str>) -> bool + Clone + Send + 'static + use<> {
        let principal = self.principal.clone();
        move |team| principal.teams.is_none() || team.is_some_and(|team| principal.reaches(team))
    }

    /// Refuses whoever may not act on this team.
    pub(in crate::http) fn team(&self, team: &str) -> ApiResult<()> {
        if self.reaches(team) { Ok(()) } else { Err(ApiError::other_team()) }
    }

    /// Refuses whoever may act on some teams only: this is not about one of them.
    pub(in crate::http) fn all_teams(&self) -> ApiResult<()> {
        if self.principal.teams.is_none() { Ok(()) } else { Err(ApiError::other_team()) }
    }

    /// Refuses whoever has not every right on all teams.
    pub(in crate::http) fn everything(&self) -> ApiResult<()> {
        if let Some(missing) = Scopes::all().beyond(self.principal.scopes) {
            return Err(ApiError::forbidden(missing));
        }
        self.all_teams()
    }

    /// Refuses whoever may act on some teams only, unless it is about one that they reach.
    pub(in crate::http) fn team_or_all(&self, team: Option<&str>) -> ApiResult<()> {
        team.map_or_else(|| self.all_teams(), |team| self.team(team))
    }
}

/// What a request is about, as far as its path does not say it: the name of what was made.
#[derive(Clone, Debug, Default)]
struct Target(Arc<Mutex<String>>);

/// What the handler of a request said that it is about.
pub(in crate::http) fn target(request: &HttpRequest) -> Option<String> {
    let target = request.extensions().get::<Target>().cloned()?;
    let named = target.0.lock();
    Some(named.clone())
}

/// Counts a request of a token, once, and refuses what is too much.
pub(in crate::http) fn within_limits(
    state: &State,
    request: &HttpRequest,
    principal: &Principal,
) -> ApiResult<()> {
    if !request.extensions().contains::<Running>() {
        let running = state.limits.admit(&principal.grant, state.now())?;
        request.extensions_mut().insert(running);
    }
    Ok(())
}

/// The operations of the path that was asked for.
pub(in crate::http) struct Here(pub(in crate::http) Vec<(Method, &'static Operation)>);

/// The operation that a request asks for.
pub(in crate::http) fn operation(request: &HttpRequest) -> Option<&'static Operation> {
    let Here(operations) = request.app_data::<Here>()?;
    let method = if request.method() == Method::HEAD { &Method::GET } else { request.method() };
    operations.iter().find(|(known, _)| known == method).map(|(_, operation)| *operation)
}

/// What reads the requests of an endpoint. Its schemas are made when the first one comes: a start would make
/// those of all endpoints, for each thread that serves, and most are never asked for.
pub(in crate::http) struct Readers<R: 'static, P: 'static, Q: 'static, B: 'static> {
    pub(in crate::http) endpoint: &'static Endpoint<R, P, Q, B>,
    query: OnceCell<Reader<Q>>,
    body: OnceCell<Reader<B>>,
}

impl<R, P, Q, B> Readers<R, P, Q, B>
where
    R: Reply,
    P: DeserializeOwned,
    Q: DeserializeOwned + JsonSchema,
    B: DeserializeOwned + JsonSchema,
{
    pub(in crate::http) fn new(endpoint: &'static Endpoint<R, P, Q, B>) -> Self {
        Self { endpoint, query: OnceCell::new(), body: OnceCell::new() }
    }

    /// A request as the handler gets it. All that needs none of the types is done by [`checked`], which is compiled
    /// once and not for each handler.
    pub(in crate::http) async fn read<W: Requester>(
        &self,
        request: HttpRequest,
        payload: web::Payload,
    ) -> ApiResult<Call<P, Q, B, W>> {
        let endpoint = self.endpoint;
        let query = self.query.get_or_init(|| endpoint.query());
        let body = endpoint.has_body().then(|| &**self.body.get_or_init(Reader::default));
        let checked = checked(endpoint, query, body, request, payload).await?;
        let Checked { state, caller, query, page, body, payload, request } = checked;
        let query: Q = convert(query)?;
        let usual = (endpoint.usual_sort)(&query);
        let page = part(endpoint, &request, &page, usual)?;
        let (path, body) = (path(&request)?, convert(body)?);
        Ok(Call { state, caller, path, query, page, body, payload, request })
    }
}

/// A request that fits the schemas of its endpoint, not yet of its types.
struct Checked<W> {
    state: web::Data<State>,
    caller: W,
    query: Value,
    page: PageQuery,
    body: Value,
    payload: Option<web::Payload>,
    request: HttpRequest,
}

/// Rights come first, then the query. The body is not read of someone who has no right to send one.
async fn checked<W: Requester>(
    operation: &Operation,
    query: &InputSchema,
    schema: Option<&InputSchema>,
    request: HttpRequest,
    payload: web::Payload,
) -> ApiResult<Checked<W>> {
    let state = request.app_data::<web::Data<State>>().cloned();
    let state = state.ok_or_else(|| ApiError::internal("no state"))?;
    let caller = W::admit(operation.needs, &state, &request)?;
    let query = fields(operation, query, &request)?;
    let page = convert(query.clone())?;
    let (body, payload) = body(schema, &request, payload).await?;
    Ok(Checked { state, caller, query, page, body, payload, request })
}

/// The part of the rows that is wanted.
fn part(
    operation: &Operation,
    request: &HttpRequest,
    page: &PageQuery,
    usual: Option<&'static str>,
) -> ApiResult<Page> {
    let usual = usual.or(operation.sorts.first().copied()).unwrap_or("id");
    Page::new(request.path(), page, operation.sorts, usual)
}

/// What the path names.
fn path<P: DeserializeOwned>(request: &HttpRequest) -> ApiResult<P> {
    let path = web::Path::<P>::extract(request).into_inner().map_err(ApiError::internal)?;
    Ok(path.into_inner())
}

/// The fields of a request's query, checked.
fn fields(operation: &Operation, schema: &InputSchema, request: &HttpRequest) -> ApiResult<Value> {
    let given = if operation.raw { Vec::new() } else { pairs(request.query_string())? };
    Ok(schema.query(given)?)
}

/// The body of a request, checked, or what was sent where the endpoint says nothing of a body.
async fn body(
    schema: Option<&InputSchema>,
    request: &HttpRequest,
    payload: web::Payload,
) -> ApiResult<(Value, Option<web::Payload>)> {
    match schema {
        Some(schema) => Ok((json::read(schema, request, payload).await?, None)),
        None => Ok((Value::Object(Map::new()), Some(payload))),
    }
}
