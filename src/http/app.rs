//! The application that the server runs: all routes, behind what each request passes.

use std::time::Duration;

use actix_web::{HttpResponse, middleware, web};

use super::{
    kit::{
        error::{ApiError, ApiResult},
        middleware::pass,
    },
    routes::table::table,
    state::State,
};

/// For the server's `client_request_timeout`: the header has to be there by then.
pub const SLOWEST_HEADER: Duration = Duration::from_secs(10);
/// For the server's `keep_alive`: an idle connection is closed by then.
pub const KEEP_ALIVE: Duration = Duration::from_secs(75);

/// All routes, for an `App`. `others` adds those that live elsewhere; they pass the same checks,
/// and a refusal of theirs gets its body the same way.
pub fn configure(
    state: web::Data<State>,
    others: impl Fn(&mut web::ServiceConfig) + Clone,
) -> impl Fn(&mut web::ServiceConfig) + Clone {
    move |app| {
        let all = web::scope("").wrap(middleware::from_fn(pass)).configure(others.clone());
        let all = table()
            .into_iter()
            .fold(all, |all, resource| resource.register(all))
            .default_service(web::to(nothing));
        app.app_data(state.clone()).service(all);
    }
}

async fn nothing() -> ApiResult<HttpResponse> {
    Err(ApiError::not_found("there is nothing under this path"))
}
