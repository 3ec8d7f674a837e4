//! Resources: a path and what each method does there.

use actix_web::{FromRequest, Handler, HttpResponse, Resource, Route, guard, http::Method, web};

use super::error::ApiError;

/// What a path answers.
pub(super) struct Methods {
    routes: Vec<Route>,
    names: Vec<Method>,
}

impl Methods {
    pub(super) fn new() -> Self {
        Self {
            routes: Vec::new(),
            names: Vec::new(),
        }
    }

    /// GET, and HEAD, which is the same without the body.
    pub(super) fn get<F, Args>(mut self, handler: F) -> Self
    where
        F: Handler<Args, Output = Result<HttpResponse, ApiError>>,
        Args: FromRequest + 'static,
    {
        let either = guard::Any(guard::Get()).or(guard::Head());
        self.routes.push(web::route().guard(either).to(handler));
        self.names.extend([Method::GET, Method::HEAD]);
        self
    }

    pub(super) fn post<F, Args>(mut self, handler: F) -> Self
    where
        F: Handler<Args, Output = Result<HttpResponse, ApiError>>,
        Args: FromRequest + 'static,
    {
        self.routes.push(web::post().to(handler));
        self.names.push(Method::POST);
        self
    }

    pub(super) fn patch<F, Args>(mut self, handler: F) -> Self
    where
        F: Handler<Args, Output = Result<HttpResponse, ApiError>>,
        Args: FromRequest + 'static,
    {
        self.routes.push(web::patch().to(handler));
        self.names.push(Method::PATCH);
        self
    }

    pub(super) fn put<F, Args>(mut self, handler: F) -> Self
    where
        F: Handler<Args, Output = Result<HttpResponse, ApiError>>,
        Args: FromRequest + 'static,
    {
        self.routes.push(web::put().to(handler));
        self.names.push(Method::PUT);
        self
    }

    pub(super) fn delete<F, Args>(mut self, handler: F) -> Self
    where
        F: Handler<Args, Output = Result<HttpResponse, ApiError>>,
        Args: FromRequest + 'static,
    {
        self.routes.push(web::delete().to(handler));
        self.names.push(Method::DELETE);
        self
    }
}

/// A path that answers these methods and names them to whoever tries another.
pub(super) fn resource(path: &str, methods: Methods) -> Resource {
    let names: Vec<&str> = methods.names.iter().map(Method::as_str).collect();
    let allowed = names.join(", ");
    let other = move || {
        let refusal = ApiError::method(&allowed);
        async move { Err::<HttpResponse, _>(refusal) }
    };
    let resource = methods
        .routes
        .into_iter()
        .fold(web::resource(path), Resource::route);
    resource.default_service(web::to(other))
}
