//! Arguments: what handlers take from a request. Their types say who may ask, and for what.

use std::{
    future::{Ready, ready},
    marker::PhantomData,
};

use actix_web::{FromRequest, HttpMessage, HttpRequest, dev::Payload, web};
use futures_util::future::LocalBoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{
    State, auth::principal::Principal, error::ApiError, json, limits::Running, query::Query,
    record::Target, routes,
};
use crate::api::{draft::Draft, endpoint::Needs, input::Reader, scope::Scope};

/// One argument of a handler.
pub(super) trait Argument {
    /// Adds what it asks of a request.
    fn describe(_: &mut Draft) {}
}

/// All arguments of a handler.
pub(super) trait Arguments {
    fn describe(draft: &mut Draft);
}

macro_rules! arguments {
    ($($part:ident)*) => {
        impl<$($part: Argument),*> Arguments for ($($part,)*) {
            #[allow(unused_variables)]
            fn describe(draft: &mut Draft) {
                $($part::describe(draft);)*
            }
        }
    };
}

arguments!();
arguments!(A);
arguments!(A B);
arguments!(A B C);
arguments!(A B C D);
arguments!(A B C D E);

impl Argument for web::Data<State> {}
impl Argument for HttpRequest {}
impl Argument for web::Payload {}
impl<T> Argument for web::Path<T> {}

/// What a caller must have.
pub(super) trait Right: 'static {
    const NEEDS: Needs;
}

macro_rules! rights {
    ($($name:ident => $needs:expr),* $(,)?) => {$(
        #[doc = concat!("See `", stringify!($needs), "`.")]
        pub(super) struct $name;

        impl Right for $name {
            const NEEDS: Needs = $needs;
        }
    )*};
}

rights! {
    Login => Needs::Login,
    Read => Needs::Scope(Scope::Read),
    Operate => Needs::Scope(Scope::Operate),
    Admin => Needs::Scope(Scope::Admin),
    Metrics => Needs::Scope(Scope::Metrics),
}

/// Who asks, having the right to, and what stands in the query, which is read after that.
pub(super) struct Caller<R = Checked> {
    pub(super) principal: Principal,
    pub(super) query: Query,
    target: Target,
    right: PhantomData<R>,
}

/// The endpoint said what is needed.
pub(super) struct Checked;

impl Caller {
    pub(super) fn new(principal: Principal, target: Target) -> Self {
        Self { principal, query: Query::default(), target, right: PhantomData }
    }
}

impl<R> Caller<R> {
    /// Tells the audit what this is about, where the path does not.
    pub(super) fn names(&self, what: impl Into<String>) {
        self.target.name(what.into());
    }

    /// They may act on this team.
    pub(super) fn reaches(&self, team: &str) -> bool {
        let teams = self.principal.teams();
        teams.is_none_or(|teams| teams.iter().any(|name| name == team))
    }

    /// Refuses whoever may not act on this team.
    pub(super) fn team(&self, team: &str) -> Result<(), ApiError> {
        if self.reaches(team) { Ok(()) } else { Err(ApiError::other_team()) }
    }

    /// Refuses whoever may act on some teams only: this is not about one of them.
    pub(super) fn all_teams(&self) -> Result<(), ApiError> {
        match self.principal.teams() {
            None => Ok(()),
            Some(_) => Err(ApiError::other_team()),
        }
    }
}

impl<R: Right> Argument for Caller<R> {
    fn describe(draft: &mut Draft) {
        draft.needs = R::NEEDS;
    }
}

impl<R: Right> FromRequest for Caller<R> {
    type Error = ApiError;
    type Future = Ready<Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(caller(request))
    }
}

/// Counts a request of a token, once, and refuses what is too much.
pub(super) fn within_limits(
    state: &State,
    request: &HttpRequest,
    principal: &Principal,
) -> Result<(), ApiError> {
    if !request.extensions().contains::<Running>() {
        let now = state.access.auth.now();
        let running = state.limits.admit(principal.grant(), now)?;
        request.extensions_mut().insert(running);
    }
    Ok(())
}

fn caller<R: Right>(request: &HttpRequest) -> Result<Caller<R>, ApiError> {
    let state = request.app_data::<web::Data<State>>();
    let state = state.ok_or_else(|| ApiError::internal("no state"))?;
    let principal = match R::NEEDS {
        Needs::Nothing | Needs::Login => state.access.principal(request)?,
        Needs::Scope(scope) => state.access.require(request, scope)?,
    };
    within_limits(state, request, &principal)?;
    let target = Target::default();
    request.extensions_mut().insert(target.clone());
    Ok(Caller { principal, query: query(request)?, target, right: PhantomData })
}

/// Reads the query by the description of the operation.
fn query(request: &HttpRequest) -> Result<Query, ApiError> {
    let operation = routes::operation(request);
    let operation = operation.ok_or_else(|| ApiError::internal("no description"))?;
    Query::read(request.path(), request.query_string(), operation)
}

/// A body in JSON, with no field that its type does not have. It comes last among the arguments: it
/// is not read of someone who has no right to send one.
pub(super) struct Json<T>(pub(super) T);

impl<T: DeserializeOwned + JsonSchema> Argument for Json<T> {
    fn describe(draft: &mut Draft) {
        draft.takes::<T>();
    }
}

impl<T: DeserializeOwned + JsonSchema + 'static> FromRequest for Json<T> {
    type Error = ApiError;
    type Future = LocalBoxFuture<'static, Result<Self, ApiError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), web::Payload::from_request(request, payload));
        Box::pin(async move {
            let payload = payload.await.map_err(ApiError::internal)?;
            json::read(&Reader::default(), &request, payload).await.map(Self)
        })
    }
}
