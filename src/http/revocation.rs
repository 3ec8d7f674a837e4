//! Revocation: a request ends with the credential that it came with.

use std::time::Duration;

use actix_web::{
    Error,
    body::{EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web,
};

use super::{State, error::ApiError};

/// What a request has left when its credential ends: one that ends its own still answers.
const GRACE: Duration = Duration::from_millis(500);

/// Wraps every route.
pub(super) async fn pass<B: MessageBody + 'static>(
    request: ServiceRequest,
    next: Next<B>,
) -> Result<ServiceResponse<EitherBody<B>>, Error> {
    let state = request.app_data::<web::Data<State>>();
    let holder = state.and_then(|state| state.access.holder(request.request()));
    let Some(holder) = holder else {
        return Ok(next.call(request).await?.map_into_left_body());
    };
    let asked = request.request().clone();
    let ended = async move {
        holder.ended().await;
        tokio::time::sleep(GRACE).await;
    };
    tokio::select! {
        biased;
        response = next.call(request) => Ok(response?.map_into_left_body()),
        () = ended => {
            let refused = ServiceResponse::from_err(ApiError::unauthenticated(), asked);
            Ok(refused.map_into_right_body())
        }
    }
}
