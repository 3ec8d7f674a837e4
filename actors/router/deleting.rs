//! Deletion of topics, with what was said in them.

use std::collections::HashSet;

use actix::{ActorFutureExt, Handler, Message, ResponseActFuture, WrapFuture};
use serde::{Deserialize, Serialize};

use super::{
    Router,
    records::{topic_removed, topics_in_use},
    topics::Topic,
};
use crate::{
    audit::Audit,
    clock::Timestamp,
    ids::{ChannelId, PrincipalId, TopicId},
    store::records::Writes,
};

/// Deletes a topic for good, with those that left it, which begin with what was said in it. Answered when that is durable:
/// from then on nobody finds them, and what is left of them is [removed](crate::retention::EraseDeleted).
#[derive(Debug, Message)]
#[rtype(result = "Result<(), NotDeleted>")]
pub struct DeleteTopic {
    pub channel: ChannelId,
    pub topic: TopicId,
    pub by: PrincipalId,
    /// From where, as the audit says it.
    pub from: String,
}

/// A topic that was deleted while something of it may be left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeletedTopic {
    pub channel: ChannelId,
    /// Nothing of it is older.
    pub created_at: Timestamp,
}

crate::records! {
    DeletedTopic: "deleted", TopicId;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotDeleted {
    #[error("there is no such topic")]
    Unknown,
    /// Somebody works on what was asked for in this one, or is asked about it: an answer would bring back what was said.
    #[error(
        "work for `{0}` is under way, or a question of it waits for an answer; stop or answer it, or wait for its end, and delete the topic then"
    )]
    Busy(String),
    #[error("that could not be stored")]
    Store,
}

impl Router {
    fn delete_topic(
        &mut self,
        DeleteTopic { channel, topic, by, from }: &DeleteTopic,
        in_use: &HashSet<TopicId>,
    ) -> Result<(Vec<TopicId>, Writes), NotDeleted> {
        let now = self.to.clock.now();
        let Some(conversation) = self.conversations.get_mut(channel) else {
            return Err(NotDeleted::Unknown);
        };
        let topics = conversation.topics.with_branches(topic);
        if topics.is_empty() {
            return Err(NotDeleted::Unknown);
        }
        let is_busy = |topic: &&Topic| {
            conversation.has_open_work(&topic.id)
                || in_use.contains(&topic.id)
                || conversation.deciding.iter().any(|message| {
                    message.topic.as_ref().is_some_and(|chosen| *chosen == topic.id.as_str())
                })
        };
        if let Some(busy) = topics.iter().find(is_busy) {
            return Err(NotDeleted::Busy(busy.name.clone()));
        }
        let mut writes = Writes::new();
        for Topic { id, created_at, .. } in &topics {
            conversation.forget_topic(id);
            self.deleted.insert(id.clone());
            let deleted = DeletedTopic { channel: channel.clone(), created_at: *created_at };
            writes = writes.and(topic_removed(channel, id)).put_at(id, &deleted).put(&Audit::new(
                &self.to.ids,
                now,
                by,
                "topics.delete",
                id.as_str(),
                from,
                "ok",
            ));
        }
        Ok((topics.into_iter().map(|topic| topic.id).collect(), writes))
    }
}

impl Handler<DeleteTopic> for Router {
    type Result = ResponseActFuture<Self, Result<(), NotDeleted>>;

    fn handle(&mut self, order: DeleteTopic, _: &mut Self::Context) -> Self::Result {
        let history = self.read_channel(&order.channel);
        let in_use = self.to.store.read(topics_in_use);
        let deleted = async move { (history.await, in_use.await) }
            .into_actor(self)
            .map(move |(history, in_use), router: &mut Self, _| {
                router.know(&order.channel, history.ok().flatten());
                let deleted = in_use
                    .map_err(|_| NotDeleted::Store)
                    .and_then(|in_use| router.delete_topic(&order, &in_use));
                router.put_away_if_idle(&order.channel);
                let deleted =
                    deleted.map(|(topics, writes)| (topics, router.to.store.commit(writes)));
                (order.channel, deleted)
            })
            .then(|(channel, deleted), router: &mut Self, _| {
                let stored = async move {
                    let (topics, stored) = deleted?;
                    stored.await.map_err(|_| NotDeleted::Store)?;
                    Ok(topics)
                };
                stored.into_actor(router).map(move |deleted, router: &mut Self, _| {
                    deleted.map(|topics| router.list_topics_without(&channel, topics))
                })
            });
        Box::pin(deleted)
    }
}
