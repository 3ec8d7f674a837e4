//! What a call asks of the team service, and how its refusals read to a model.

use actix::dev::ToEnvelope;
use hivewright_actors::{
    channel::Deliver,
    ids::TeamName,
    org::{Org, error::OrgError},
    queue::refusal::Refusal,
    storage::StorageError,
    store::{StoreError, reads::get, records::Writes},
    tool::records::Answer,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    teams::service::Parts,
    tools::{answer, contract::ToolContext, error::ToolError},
};

impl Parts {
    pub(super) async fn ask<M, T>(&self, message: M) -> Result<T, ToolError>
    where
        M: actix::Message<Result = Result<T, OrgError>> + Send + 'static,
        T: Send + 'static,
        Org: actix::Handler<M>,
        <Org as actix::Actor>::Context: ToEnvelope<Org, M>,
    {
        Ok(self.org.send(message).await.unwrap_or(Err(OrgError::Stopping))?)
    }

    /// The answer that an earlier try of this call was given.
    pub(super) async fn earlier<T: DeserializeOwned + Send + 'static>(
        &self,
        cx: &ToolContext,
        part: &str,
    ) -> Result<Option<T>, ToolError> {
        if !cx.rerun {
            return Ok(None);
        }
        let key = format!("{}{part}", cx.key);
        let found = self.store.read(move |storage| get::<Answer<T>>(storage, &key)).await?;
        Ok(found.map(|Answer(answer)| answer))
    }

    /// Commits what needs no task, and sends the frames in it.
    pub(super) async fn commit(&self, writes: Writes) -> Result<(), ToolError> {
        let frames = self.store.commit(writes).await.map_err(|error| match error {
            StoreError::TooLarge(_) => answer::refuse("invalid_input", error.to_string()),
            other => ToolError::failed(other.to_string()),
        })?;
        self.channel.do_send(Deliver { frames });
        Ok(())
    }
}

impl From<OrgError> for ToolError {
    fn from(error: OrgError) -> Self {
        let fields = match error {
            OrgError::Busy(_) => json!({ "retry_after_ms": 1_000 }),
            _ => Value::Null,
        };
        answer::refuse_with(error.code(), error.to_string(), fields)
    }
}

impl From<StorageError> for ToolError {
    fn from(error: StorageError) -> Self {
        Self::failed(error.to_string())
    }
}

pub(super) fn refused(team: &TeamName, refusal: &Refusal) -> ToolError {
    answer::refuse(refusal.code(), format!("`{team}`: {refusal}"))
}
