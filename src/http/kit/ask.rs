//! Asking an actor, with a timeout.

use std::time::Duration;

use actix::{Addr, Handler, Message, dev::ToEnvelope};

use super::error::ApiResult;

/// An actor that does not answer in this time is in trouble.
pub(in crate::http) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What an actor answers, if it does in time.
pub(in crate::http) async fn ask<A, M>(actor: &Addr<A>, message: M) -> ApiResult<M::Result>
where
    A: Handler<M>,
    A::Context: ToEnvelope<A, M>,
    M: Message<Result: Send> + Send + 'static,
{
    Ok(actor.send(message).timeout(ANSWER_TIMEOUT).await?)
}
