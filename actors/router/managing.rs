//! Topic management from outside: close, reopen, rename, pin.

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
    pub channel: ChannelId,
    pub topic: TopicId,
    pub change: TopicPatch,
}

/// What becomes different in a topic; nothing stays as it is.
#[derive(Clone, Debug, Default)]
pub struct TopicPatch {
    pub name: Option<String>,
    /// What a model says that it is called: of use only as long as its first words name it, which they do for good if
    /// it is empty.
    pub title: Option<String>,
    pub closed: Option<bool>,
    pub pinned: Option<bool>,
    /// The profile whose model answers; an empty one is the team's. It is the caller's to see that there is one.
    pub profile: Option<String>,
}

/// Why a topic stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotChanged {
    #[error("there is no such topic")]
    Unknown,
    #[error("a name has 1 to 60 characters without `:`, `@` and line breaks")]
    BadName,
    #[error("another topic of the channel has that name")]
    NameTaken,
    #[error("the change could not be stored")]
    Store,
}

impl Router {
    pub(super) fn change_topic(
        &mut self,
        ChangeTopic { channel, topic: id, change }: &ChangeTopic,
    ) -> Result<(Topic, Writes), NotChanged> {
        let now = self.to.clock.now();
        let rules = self.settings.topics;
        let Some(conversation) = self.conversations.get_mut(channel) else {
            return Err(NotChanged::Unknown);
        };
        let present = conversation.topics.get(id.as_str()).ok_or(NotChanged::Unknown)?;
        let (title, first_words) =
            (change.title.as_ref().filter(|_| present.untitled), present.name.clone());
        // It may also be over because nothing was said for long.
        let state = present.state(now, conversation.has_open_work(id), rules.idle_after);
        let reopens = change.closed == Some(false) && state == TopicState::Done;
        if let Some(name) = &change.name {
            if !names::is_good(name) {
                return Err(NotChanged::BadName);
            }
            if conversation.topics.has_name(name, id) {
                return Err(NotChanged::NameTaken);
            }
        }
        // How many there may be bounds what is opened for a person, not what a person opens.
        if reopens {
            conversation.topics.reopen(id, now);
        }
        if let Some(name) = &change.name {
            conversation.topics.rename(id, name.trim());
        } else if let Some(title) = title {
            let others = conversation.topics.other_names(id);
            let name = names::title(title, others).unwrap_or(first_words);
            let name = self.to.store.without_secrets(&name).unwrap_or(name);
            conversation.topics.rename(id, &name);
        }
        if change.closed == Some(true) {
            conversation.topics.close(id);
            let lane = main_lane(id.clone());
            self.to.queue.do_send(Cancel::all_in(lane));
        }
        let topic = conversation.topics.get_mut(id).ok_or(NotChanged::Unknown)?;
        if let Some(profile) = change.profile.clone() {
            topic.profile = (!profile.is_empty()).then_some(profile);
        }
        topic.pinned = change.pinned.unwrap_or(topic.pinned);
        let writes = Writes::new().put_at(&topic.key(channel), topic);
        Ok((topic.clone(), writes))
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
                let changed =
                    changed.map(|(topic, writes)| (topic, router.to.store.commit(writes)));
                (change.channel, changed)
            })
            .then(|(channel, changed), router: &mut Self, _| {
                let stored = async move {
                    let (topic, stored) = changed?;
                    stored.await.map_err(|_| NotChanged::Store)?;
                    Ok(topic)
                };
                stored.into_actor(router).map(move |changed, router: &mut Self, _| {
                    // Everybody who has the list before them sees it change.
                    if changed.is_ok() {
                        router.list_topics(&channel);
                    }
                    changed
                })
            });
        Box::pin(changed)
    }
}
