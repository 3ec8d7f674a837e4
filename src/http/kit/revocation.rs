//! Revocation: a request ends with the credential that it came with.

use std::{error::Error as StdError, time::Duration};

use actix_web::{
    Error,
    body::{EitherBody, MessageBody},
    dev::{ServiceRequest, ServiceResponse},
    middleware::Next,
    web,
    web::Bytes,
};
use futures_util::{Stream, StreamExt, stream};

use super::error::ApiError;
use crate::http::{auth::authenticator::Principal, state::State};

/// What a request has left when its credential ends: one that ends its own still answers.
const GRACE: Duration = Duration::from_millis(500);

/// Wraps every route.
pub(in crate::http) async fn pass<B: MessageBody + 'static>(
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
            // It was cut off somewhere.
            let refused = ServiceResponse::from_err(ApiError::unauthenticated().unsure(), asked);
            Ok(refused.map_into_right_body())
        }
    }
}

/// A body that breaks off when the credential it was asked with ends: its reader sees that it is not whole.
pub(in crate::http) fn until_ended<E: Into<Box<dyn StdError>> + 'static>(
    principal: &Principal,
    body: impl Stream<Item = Result<Bytes, E>> + 'static,
) -> impl Stream<Item = Result<Bytes, Box<dyn StdError>>> + 'static {
    let parts = (body.boxed_local(), Box::pin(principal.ended()));
    stream::unfold(Some(parts), |parts| async {
        let (mut body, mut ended) = parts?;
        tokio::select! {
            biased;
            () = &mut ended => {
                let revoked = Error::from(ApiError::unauthenticated());
                Some((Err(revoked.into()), None))
            }
            piece = body.next() => Some((piece?.map_err(Into::into), Some((body, ended)))),
        }
    })
}
