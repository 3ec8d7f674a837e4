//! Posted messages: those that come by a request instead of a connection, which is answered with what becomes of them.

use std::time::Duration;

use actix::{ActorFutureExt, Context, Handler, Message, ResponseActFuture, WrapFuture};
use tokio::sync::oneshot;

use super::{
    Accepted, Router, Waiter,
    conversation::{Conversation, Incoming},
    main_lane,
    records::Undecided,
    sender::Sender,
    topics::Topic,
};
use crate::{
    channel::records::ChannelRow,
    file::records::FileRow,
    frame::{BranchPoint, ErrorBody, TopicState},
    identities::Owner,
    ids::{ChannelId, MessageId, TeamKey, TopicId},
    journal::records::Branch,
    store::records::Writes,
    task::records::LaneKey,
};

/// Someone says something on a channel that stays between requests.
#[derive(Debug, Message)]
#[rtype(result = "Result<Accepted, ErrorBody>")]
pub struct PostMessage {
    pub channel: ChannelId,
    /// It is made if there is none.
    pub may_open: bool,
    /// Whose it must be.
    pub owner: Owner,
    pub sender: Sender,
    pub content: String,
    /// To which team; none is the main one. It is the caller's to see that there is one.
    pub team: Option<TeamKey>,
    pub topic: Option<TopicChoice>,
    pub id: MessageId,
    /// Another channel that hears of the work. It is the caller's to see that they may name it.
    pub notify: Option<ChannelId>,
    /// What comes with the words. It is the caller's to see that they may name it.
    pub files: Vec<FileRow>,
}

/// A topic that the sender chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicChoice {
    /// One that there is.
    Id(String),
    /// One by its name, made if there is none.
    Name(String),
    /// The same, named by its first words until a model has found a title. If it is made, the model of this profile
    /// answers in it.
    Words(String, Option<String>),
    /// A new one, which begins as another one does up to a message.
    Branch(Box<Fork>),
}

/// How a topic leaves another one of its channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Where, as it is shown.
    pub point: BranchPoint,
    /// Where, in the journal.
    pub journal: Branch,
}

/// When a channel without connections was last used is stored at least this exactly.
const SEEN_STORE_INTERVAL: Duration = Duration::from_secs(60 * 60);

impl Router {
    /// Tells whoever waits what becomes of a message. Returns whether somebody did.
    pub(super) fn settle(
        &mut self,
        channel: &ChannelId,
        id: &MessageId,
        fate: Result<Accepted, ErrorBody>,
    ) -> bool {
        if self.waiters.is_empty() {
            return false;
        }
        let Some(waiters) = self.waiters.remove(&(channel.clone(), id.clone())) else {
            return false;
        };
        for waiter in waiters {
            // Whoever asked may have gone; the message goes its way all the same.
            let _gone = waiter.send(fate.clone());
        }
        true
    }

    /// Tells whoever sent a message again what is known of it: who sent it first waits for its fate.
    pub(super) fn settle_repeat(
        &mut self,
        channel: &ChannelId,
        id: &MessageId,
        fate: Result<Accepted, ErrorBody>,
    ) -> bool {
        let key = (channel.clone(), id.clone());
        let Some(waiters) = self.waiters.get_mut(&key) else { return false };
        let newest = waiters.pop();
        if waiters.is_empty() {
            self.waiters.remove(&key);
        }
        newest.is_some_and(|waiter| {
            let _gone = waiter.send(fate);
            true
        })
    }

    fn say(
        &mut self,
        say: PostMessage,
        waiter: Waiter,
        ctx: &mut Context<Self>,
    ) -> Result<(), Box<ErrorBody>> {
        let PostMessage {
            channel,
            may_open,
            owner,
            sender,
            content,
            team,
            topic,
            id,
            notify,
            files,
        } = say;
        let now = self.to.clock.now();
        if may_open && !self.conversations.contains_key(&channel) {
            let row = ChannelRow::new(owner.clone(), now, sender.channel_type.clone());
            let conversation = Conversation::new(row, sender.clone());
            self.conversations.insert(channel.clone(), conversation);
        }
        let known = self.conversations.get_mut(&channel);
        // Whether there is one of somebody else is nobody's business.
        let Some(conversation) = known.filter(|known| known.row.belongs_to(&owner)) else {
            let error = "you have no such channel";
            return Err(ErrorBody::refusal("unknown_channel", error).into());
        };
        let topics_before = conversation.topics.len();
        conversation.sender = sender;
        conversation.speaking = None;
        // Nobody is connected, and yet the channel is in use.
        let was_long_ago = now.since(conversation.row.last_seen) >= SEEN_STORE_INTERVAL;
        if was_long_ago {
            conversation.row.last_seen = now;
        }
        if conversation.claim(owner) || (was_long_ago && conversation.stored) {
            let writes = Writes::new().put_at(&channel, &conversation.row);
            self.commit(writes, ctx);
        }
        let topic = match topic {
            None => None,
            Some(TopicChoice::Id(id)) => Some(id),
            Some(TopicChoice::Name(name)) => {
                Some(self.topic_named(&channel, &name, |_| ())?.to_string())
            }
            Some(TopicChoice::Branch(fork)) => {
                Some(self.branch_off(&channel, *fork, ctx)?.to_string())
            }
            Some(TopicChoice::Words(name, profile)) => {
                let make = |topic: &mut Topic| {
                    topic.untitled = true;
                    topic.profile = profile;
                };
                Some(self.topic_named(&channel, &name, make)?.to_string())
            }
        };
        let topics = self.conversations.get(&channel).map(|found| &found.topics);
        let topics = topics.filter(|topics| topics.len() > topics_before);
        let opened = topics.zip(topic.as_deref()).and_then(|(topics, id)| topics.get(id)).cloned();
        self.waiters.entry((channel.clone(), id.clone())).or_default().push(waiter);
        let incoming = Incoming { content, topic, id: Some(id), notify, team, files };
        self.receive(&channel, incoming, ctx);
        if let Some(opened) = opened {
            self.forget_if_unused(&channel, &opened, ctx);
        }
        Ok(())
    }

    /// A topic that was opened for a message which is not said in it is gone again.
    fn forget_if_unused(&mut self, channel: &ChannelId, opened: &Topic, ctx: &mut Context<Self>) {
        let is_unused = self.conversations.get(channel).is_some_and(|found| {
            let waits = |message: &Undecided| message.topic.as_deref() == Some(opened.id.as_str());
            // A command may have changed it.
            found.topics.get(opened.id.as_str()) == Some(opened)
                && !found.has_open_work(&opened.id)
                && !found.deciding.iter().any(waits)
        });
        if is_unused {
            let writes = self.forget_topic(channel, &opened.id);
            self.commit(writes, ctx);
        }
    }

    /// A new topic that leaves another one.
    fn branch_off(
        &mut self,
        channel: &ChannelId,
        Fork { point, journal }: Fork,
        ctx: &mut Context<Self>,
    ) -> Result<TopicId, Box<ErrorBody>> {
        let (fresh, now) = (self.to.ids.topic(), self.to.clock.now());
        let topics = self.conversations.get_mut(channel).map(|known| &mut known.topics);
        let left = topics.as_ref().and_then(|topics| topics.get(point.topic_id.as_str()).cloned());
        let Some((topics, left)) = topics.zip(left) else {
            let error = "this channel has no topic with that message";
            return Err(ErrorBody::refusal("unknown_topic", error).into());
        };
        let name = super::names::name(Some(&left.name), "", topics.other_names(&fresh));
        let topic = topics.open(fresh, name, "", now);
        topic.thinking = left.thinking;
        topic.profile = left.profile;
        topic.branch = Some(point);
        let topic = topic.id.clone();
        let session = LaneKey::new(&main_lane(topic.clone()), 1).session_id();
        self.commit(Writes::new().put_at(&session, &journal), ctx);
        Ok(topic)
    }

    /// The open topic of a name, or a new one.
    fn topic_named(
        &mut self,
        channel: &ChannelId,
        name: &str,
        make: impl FnOnce(&mut Topic),
    ) -> Result<TopicId, Box<ErrorBody>> {
        let (now, rules) = (self.to.clock.now(), self.settings.topics);
        let fresh = self.to.ids.topic();
        let Some(conversation) = self.conversations.get_mut(channel) else { return Ok(fresh) };
        let rows = conversation.topic_rows(now, rules.idle_after);
        let wanted = name.trim().to_lowercase();
        let mut open = rows.iter().filter(|row| row.state != TopicState::Done);
        if let Some(row) = open.find(|row| row.name.to_lowercase() == wanted) {
            return Ok(row.id.clone());
        }
        if !super::names::is_good(name) {
            let error = "a topic's name has 1 to 60 characters without `:` and `@`";
            return Err(ErrorBody::refusal("bad_topic_name", error).into());
        }
        // How many there may be bounds what is opened for a person, not what a person opens.
        let topic = conversation.topics.open(fresh, name.trim().to_owned(), "", now);
        make(topic);
        Ok(topic.id.clone())
    }
}

impl Handler<PostMessage> for Router {
    type Result = ResponseActFuture<Self, Result<Accepted, ErrorBody>>;

    fn handle(&mut self, say: PostMessage, _: &mut Self::Context) -> Self::Result {
        let read = self.read_message(&say.channel, &say.id);
        let said = read.into_actor(self).map(move |found, router: &mut Self, ctx| {
            let Ok((history, message)) = found else {
                router.know(&say.channel, None);
                router.put_away_if_idle(&say.channel);
                let error = "the channel cannot be read";
                return Err(Box::new(ErrorBody::refusal("internal", error)));
            };
            router.know(&say.channel, history);
            if let (Some(message), Some(found)) =
                (message, router.conversations.get_mut(&say.channel))
            {
                found.known.entry(say.id.clone()).or_insert(message);
            }
            let (waiter, fate) = oneshot::channel();
            let channel = say.channel.clone();
            let said = router.say(say, waiter, ctx);
            router.put_away_if_idle(&channel);
            said.map(|()| fate)
        });
        let answered = said.then(|said, router: &mut Self, _| {
            let fate = async move {
                // It may have been stored before.
                let gone = |_| ErrorBody::refusal("internal", "the service is stopping");
                match said {
                    Ok(fate) => fate.await.map_err(gone)?,
                    Err(refusal) => Err(*refusal),
                }
            };
            fate.into_actor(router)
        });
        Box::pin(answered)
    }
}
