//! Read marks: up to when a person has read what was said, on whichever device.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::Router;
use crate::{
    clock::Timestamp,
    ids::{ChannelId, TopicId},
    router::records::ReadMark,
    store::records::Writes,
};

impl Router {
    /// Notes that something was read, and tells the other connections once that is durable. A mark never goes back.
    pub(super) fn mark_read(
        &mut self,
        channel: &ChannelId,
        topic: Option<TopicId>,
        until: Timestamp,
        ctx: &mut Context<Self>,
    ) {
        if !self.has_control_left(channel) {
            return;
        }
        let now = self.to.clock.now();
        let Some(conversation) = self.conversations.get_mut(channel) else { return };
        let is_known = |topic: &TopicId| conversation.topics.get(topic.as_str()).is_some();
        if !topic.as_ref().is_none_or(is_known) {
            let error = topic.as_ref().map(|topic| self.unknown_topic(channel, topic));
            return self.refuse(channel, error.unwrap_or_default());
        }
        let place = topic.map_or_else(|| channel.to_string(), |topic| topic.to_string());
        // Nobody has read what is still to come, whatever the clock of a device says.
        let until = until.min(now);
        let is_old = conversation.read.get(&place).is_some_and(|known| *known >= until);
        // A channel that is not stored has had nothing to read.
        if is_old || !conversation.stored {
            return;
        }
        conversation.read.insert(place.clone(), until);
        let mark = Writes::new().put_at(&(channel.clone(), place), &ReadMark(until));
        let (channel, committed) = (channel.clone(), self.to.store.commit(mark));
        ctx.spawn(committed.into_actor(self).map(move |stored, router, _| {
            if stored.is_ok() {
                router.list_topics(&channel);
            }
        }));
    }
}
