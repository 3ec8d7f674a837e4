//! What a team remembers goes with the team.

use futures_util::future::{BoxFuture, FutureExt};
use hivewright_actors::{ids::TeamKey, org::belongings::Belongings, store::records::Writes};

use super::Memory;

impl Belongings for Memory {
    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (memory, team) = (self.clone(), team.clone());
        async move {
            match memory.forget_team(&team).await {
                Ok(keys) if keys.is_empty() => Vec::new(),
                Ok(keys) => vec![Writes::new().drop_keys(keys)],
                Err(error) => {
                    tracing::error!(%team, %error, "the memory of a team that is gone stays in the store");
                    Vec::new()
                }
            }
        }
        .boxed()
    }

    fn has_any(&self, team: &TeamKey) -> BoxFuture<'static, bool> {
        let (memory, team) = (self.clone(), team.clone());
        async move { memory.count(&team).await.is_ok_and(|count| count > 0) }.boxed()
    }
}
