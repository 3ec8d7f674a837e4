//! Resources: a path, what each method does there, and the description of it. There is no route
//! without a description, and what a description says of rights, queries, bodies and answers is what
//! the handler's types do.

use std::rc::Rc;

use actix_web::{
    HttpRequest, HttpResponse, Route, Scope,
    dev::{ServiceFactory, ServiceRequest},
    guard,
    http::Method,
    middleware, web,
};
use futures_util::future::LocalBoxFuture;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::{
    call::{Call, Here, Readers, Requester},
    error::{ApiError, ApiResult},
    idempotency,
    reply::{Answers, scrubbed},
    revocation,
};
use crate::{
    api::{
        endpoint::{self, Endpoint, Operation},
        reply::Reply,
    },
    http::state::State,
};

/// A path, and what it answers to each method.
pub(in crate::http) struct Resource {
    pub(in crate::http) path: &'static str,
    pub(in crate::http) operations: Vec<(Method, &'static Operation)>,
    routes: Vec<Route>,
    deep: bool,
}

/// The path of an endpoint, and what answers it.
pub(in crate::http) fn on<R, P, Q, B, W, H, F, A>(
    endpoint: &'static Endpoint<R, P, Q, B>,
    handler: H,
) -> Resource
where
    R: Reply,
    P: DeserializeOwned + 'static,
    Q: DeserializeOwned + JsonSchema + 'static,
    B: DeserializeOwned + JsonSchema + 'static,
    W: Requester,
    H: Fn(Call<P, Q, B, W>) -> F + Copy + 'static,
    F: Future<Output = ApiResult<A>> + 'static,
    A: Answers<R>,
{
    let readers = Rc::new(Readers::new(endpoint));
    let run = move |request: HttpRequest, payload: web::Payload| -> Running {
        let readers = readers.clone();
        Box::pin(async move {
            let call = readers.read(request, payload).await?;
            Ok(handler(call).await?.respond())
        })
    };
    resource(endpoint, Rc::new(run))
}

/// What a handler does, whatever its types are.
type Running = LocalBoxFuture<'static, ApiResult<HttpResponse>>;

/// The path of an operation, and what runs for it. It knows no types of requests, so that what actix makes
/// of a handler is compiled once and not for each.
fn resource(
    operation: &'static Operation,
    run: Rc<dyn Fn(HttpRequest, web::Payload) -> Running>,
) -> Resource {
    let (method, route) = match operation.method {
        endpoint::Method::Get => {
            let either = guard::Any(guard::Get()).or(guard::Head());
            (Method::GET, web::route().guard(either))
        }
        endpoint::Method::Post => (Method::POST, web::post()),
        endpoint::Method::Put => (Method::PUT, web::put()),
        endpoint::Method::Patch => (Method::PATCH, web::patch()),
        endpoint::Method::Delete => (Method::DELETE, web::delete()),
    };
    let route = route.to(move |request: HttpRequest, payload| {
        let state = request.app_data::<web::Data<State>>().filter(|_| operation.scrubbed).cloned();
        let running = run(request, payload);
        async move {
            let response = running.await?;
            Ok::<_, ApiError>(match state {
                Some(state) => scrubbed(response, &state.secrets),
                None => response,
            })
        }
    });
    let route = route.wrap(middleware::from_fn(revocation::pass));
    // What makes something can be repeated without making it twice.
    let route = if method == Method::POST && operation.path.starts_with("/api/") {
        route.wrap(middleware::from_fn(idempotency::pass))
    } else {
        route
    };
    let operations = vec![(method, operation)];
    Resource { path: operation.path, operations, routes: vec![route], deep: false }
}

impl Resource {
    /// Its last parameter is all the rest of a path.
    pub(in crate::http) fn deep(self) -> Self {
        Self { deep: true, ..self }
    }

    /// Answers the methods of another one of the same path too.
    pub(in crate::http) fn join(&mut self, other: Self) {
        self.operations.extend(other.operations);
        self.routes.extend(other.routes);
    }

    /// Answers these methods, and names them to whoever tries another.
    pub(in crate::http) fn register<T>(self, scope: Scope<T>) -> Scope<T>
    where
        T: ServiceFactory<ServiceRequest, Config = (), Error = actix_web::Error, InitError = ()>,
    {
        let mut names: Vec<&str> = Vec::new();
        for (method, _) in &self.operations {
            names.push(method.as_str());
            if method == Method::GET {
                names.push(Method::HEAD.as_str());
            }
        }
        let allowed = names.join(", ");
        let other = move || {
            let refusal = ApiError::method(&allowed);
            async move { Err::<HttpResponse, _>(refusal) }
        };
        let path = if self.deep { format!("{}*", self.path) } else { self.path.to_owned() };
        let resource = self
            .routes
            .into_iter()
            .fold(web::resource(path), actix_web::Resource::route)
            .app_data(Here(self.operations))
            .default_service(web::to(other));
        scope.service(resource)
    }
}
