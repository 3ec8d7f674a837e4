//! Managing topics from outside: close, reopen, rename.

use actix::{ActorFutureExt, Handler, Message, ResponseActFuture, WrapFuture};

use super::{Router, main_lane, names, topics::Topic};
use crate::{
    frame::TopicState,
    ids::{ChannelId, TopicId},
    queue::Cancel,
    store::records::Writes,
};

/// Changes a topic. Answered when that is durable.
#[derive(Debug, Message)]
#[rtype(result = "Result<Topic, NotChanged>")]
pub struct ChangeTopic {
    /// Its channel.
    pub channel: ChannelId,
    /// The topic.
    pub topic: TopicId,
    /// Another name.
    pub name: Option<String>,
    /// Whether it is over.
    pub closed: Option<bool>,
}

/// Why a topic stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotChanged {
    /// There is none.
    #[error("there is no such topic")]
    Unknown,
    /// The name is no good.
    #[error("a name has 1 to 60 characters without `:`, `@` and line breaks")]
    BadName,
    /// Another topic of the channel has it.
    #[error("another topic of the channel has that name")]
    NameTaken,
    /// It would be one too many.
    #[error("the channel has {0} active topics, and may not have more")]
    TooMany(usize),
    /// The store is gone.
    #[error("the change could not be stored")]
    Store,
}

impl Router {
    pub(super) fn change_topic(
        &mut self,
        change: &ChangeTopic,
    ) -> Result<(Topic, Writes), NotChanged> {
        let now = self.to.clock.now();
        let rules = self.settings.topics;
        let Some(conversation) = self.conversations.get_mut(&change.channel) else {
            return Err(NotChanged::Unknown);
        };
        let id = &change.topic;
        let present = conversation.topics.get(id.as_str()).ok_or(NotChanged::Unknown)?;
        let reopens = change.closed == Some(false) && present.closed;
        if let Some(name) = &change.name {
            if !names::is_good(name) {
                return Err(NotChanged::BadName);
            }
            if conversation.topics.has_name(name, id) {
                return Err(NotChanged::NameTaken);
            }
        }
        if reopens {
            let rows = conversation.topic_rows(now, rules.idle_after);
            let active = rows.iter().filter(|row| row.state == TopicState::Active);
            let most = rules.max_active.get();
            if active.count() >= most {
                return Err(NotChanged::TooMany(most));
            }
            conversation.topics.reopen(id, now);
        }
        if let Some(name) = &change.name {
            conversation.topics.rename(id, name.trim());
        }
        if change.closed == Some(true) {
            conversation.topics.close(id);
            let lane = main_lane(id.clone());
            self.to.queue.do_send(Cancel { lane, queued: true, channel: None });
        }
        let topic = conversation.topics.get(id.as_str()).ok_or(NotChanged::Unknown)?.clone();
        let writes = Writes::new().put_at(&topic.key(&change.channel), &topic);
        Ok((topic, writes))
    }
}

impl Handler<ChangeTopic> for Router {
    type Result = ResponseActFuture<Self, Result<Topic, NotChanged>>;

    fn handle(&mut self, change: ChangeTopic, _: &mut Self::Context) -> Self::Result {
        let changed = self
            .read_channel(&change.channel)
            .into_actor(self)
            .map(move |history, router: &mut Self, _| {
                router.know(&change.channel, history.ok().flatten());
                let changed = router.change_topic(&change);
                router.put_away_if_idle(&change.channel);
                changed.map(|(topic, writes)| (topic, router.to.store.commit(writes)))
            })
            .then(|changed, router: &mut Self, _| {
                let stored = async move {
                    let (topic, stored) = changed?;
                    stored.await.map_err(|_| NotChanged::Store)?;
                    Ok(topic)
                };
                stored.into_actor(router)
            });
        Box::pin(changed)
    }
}
