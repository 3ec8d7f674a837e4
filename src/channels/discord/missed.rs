//! Missed messages: what was written in a watched channel while nobody listened, read once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hivewright_actors::{
    clock::{Clock, Timestamp},
    ids::{ChannelId, MessageId},
    router::records::MessageRow,
    store::{
        reads::{contains, get},
        records::Writes,
    },
};
use serde::{Deserialize, Serialize};
use serenity::model::id;
use tokio::time::sleep;

use super::{
    Bot,
    inbound::{self, Incoming, Said},
    post::Post,
    rest::RestError,
};
use crate::{settings::channels::Discord as Settings, system::WallClock};

/// So many messages of people in a channel are read …
const MOST: usize = 50;
/// … among so many pages with those of bots …
const MOST_PAGES: usize = 5;
/// … and none that is older.
const OLDEST: Duration = Duration::from_secs(15 * 60);
/// Discord is asked so often, with pauses between that double; what comes meanwhile waits.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The moment from which Discord counts, in milliseconds since 1970.
const EPOCH: u64 = 1_420_070_400_000;

const CUT: &str = "More was written here while I was away than I have read: at most 50 messages, of the last 15 minutes. \
    Please send again what is missing.";
const COMMANDS: &str =
    "Commands that were written while I was away are not run late. Please send them again.";
const UNREAD: &str =
    "What was written here while I was away could not be read. Please send it again.";

hivewright_actors::records! {
    HeardMark: "edge\0discord-heard", ChannelId;
}

/// The last message of a channel that was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct HeardMark {
    message: u64,
}

/// What one channel has missed, and the messages that are heard in it.
pub(super) struct Missed {
    bot: Arc<Bot>,
    post: Arc<Post>,
    settings: Arc<Settings>,
    id: id::ChannelId,
    channel: ChannelId,
    /// The newest message that is noted: an older one that is repeated changes nothing.
    newest: AtomicU64,
}

struct Found {
    messages: Vec<Incoming>,
    /// There was more: all up to this one is not read the next time either.
    cut_until: Option<u64>,
}

impl Missed {
    pub(super) fn new(
        bot: Arc<Bot>,
        post: Arc<Post>,
        settings: Arc<Settings>,
        id: id::ChannelId,
    ) -> Self {
        let channel = ChannelId::from(id.to_string());
        Self { bot, post, settings, id, channel, newest: AtomicU64::new(0) }
    }

    /// Says a message that came, and notes that it was heard.
    pub(super) async fn say(&self, incoming: Incoming) {
        let message = incoming.message;
        match inbound::say(self.bot.clone(), self.post.clone(), incoming).await {
            Said::Settled | Said::Later(_) => self.heard(message.get()).await,
            Said::Gone => {}
        }
    }

    /// Says what was written since a message was last heard.
    pub(super) async fn catch_up(&self) {
        let mut pause = FIRST_PAUSE;
        for attempt in 1..=ATTEMPTS {
            let error = match self.find().await {
                Ok(None) => return,
                Ok(Some(found)) => return self.bring(found).await,
                Err(error) => error,
            };
            tracing::debug!(channel = %self.channel, %error, "missed messages cannot be read");
            match error {
                // No such channel, or none that we see.
                RestError::Never(_) | RestError::Unauthorized => return,
                RestError::Later(told, _) if attempt < ATTEMPTS => {
                    sleep(told.unwrap_or(pause).min(LONGEST_PAUSE)).await;
                    pause *= 2;
                }
                RestError::Later(..) => {}
            }
        }
        tracing::warn!(channel = %self.channel, "messages that were missed could not be read; the channel is told");
        self.post.tell("unread", UNREAD).await;
    }

    /// The messages since the last one that was heard; none if the channel is not watched, or new.
    async fn find(&self) -> Result<Option<Found>, RestError> {
        let is_listed = !self.settings.watched_channels.is_empty();
        if !self.settings.watches(self.id.get())
            || (!is_listed && !self.bot.rest.is_of_server(self.id).await?)
        {
            return Ok(None);
        }
        let Some(mark) = self.mark().await else {
            let newest = self.bot.rest.newest(self.id).await?;
            self.heard(newest.unwrap_or_default()).await;
            return Ok(None);
        };
        self.newest.fetch_max(mark.message, Ordering::Relaxed);
        let oldest = first_of(WallClock.now() - OLDEST);
        let (messages, mut is_cut) = self.read_after(mark.message.max(oldest)).await?;
        if mark.message < oldest {
            let (older, _) = self.bot.rest.messages_after(self.id, mark.message).await?;
            is_cut |= older.first().is_some_and(|message| message.id.get() < oldest);
        }
        let cut_until = if is_cut { self.bot.rest.newest(self.id).await? } else { None };
        Ok(Some(Found { messages, cut_until }))
    }

    /// The first messages for us behind another one, and whether there are more.
    async fn read_after(&self, mut from: u64) -> Result<(Vec<Incoming>, bool), RestError> {
        let mut messages = Vec::new();
        for _ in 0..MOST_PAGES {
            let (page, is_full) = self.bot.rest.messages_after(self.id, from).await?;
            from = page.last().map_or(from, |last| last.id.get());
            // A channel of a person is not looked at.
            let for_us = |message| Incoming::read(message, true, &self.settings);
            messages.extend(page.into_iter().filter_map(for_us));
            if messages.len() > MOST {
                messages.truncate(MOST);
                return Ok((messages, true));
            }
            if !is_full {
                return Ok((messages, false));
            }
        }
        Ok((messages, true))
    }

    async fn bring(&self, Found { messages, cut_until }: Found) {
        let mut has_commands = false;
        for incoming in messages {
            let id = incoming.message.get();
            if incoming.is_command() {
                has_commands |= !self.was_said(id).await;
            } else if !self.say_patiently(incoming).await {
                return;
            }
            self.heard(id).await;
        }
        if let Some(newest) = cut_until {
            self.heard(newest).await;
            self.post.tell("cut", CUT).await;
        }
        if has_commands {
            self.post.tell("commands", COMMANDS).await;
        }
    }

    /// A command was carried out when it came: those are not noted as heard, since they do not wait for their turn.
    async fn was_said(&self, message: u64) -> bool {
        let id = MessageId::from(message.to_string());
        if self.post.asked.contains(&id) {
            return true;
        }
        let channel = self.channel.clone();
        let known =
            self.bot.store.read(move |storage| contains::<MessageRow>(storage, &(channel, id)));
        known.await.unwrap_or_default()
    }

    /// Says a message as soon as its author may send one more. Returns whether it is settled.
    async fn say_patiently(&self, incoming: Incoming) -> bool {
        let Some(ready) = inbound::prepare(&self.bot, &self.post, incoming).await else {
            return true;
        };
        let mut said = ready.say(&self.bot, &self.post, true).await;
        for _ in 0..MOST {
            match said {
                Said::Settled => return true,
                Said::Gone => return false,
                Said::Later(pause) => sleep(pause.min(LONGEST_PAUSE)).await,
            }
            said = ready.say(&self.bot, &self.post, true).await;
        }
        true
    }

    async fn mark(&self) -> Option<HeardMark> {
        let channel = self.channel.clone();
        let read = self.bot.store.read(move |storage| get::<HeardMark>(storage, &channel));
        read.await.unwrap_or_else(|error| {
            tracing::error!(channel = %self.channel, %error, "which message was heard last cannot be read; those that were missed are not looked for");
            None
        })
    }

    /// Notes the last message that was heard: what comes after it is read after a restart.
    async fn heard(&self, message: u64) {
        let is_new = self.newest.fetch_max(message, Ordering::Relaxed) < message || message == 0;
        if !is_new || !self.settings.watches(self.id.get()) {
            return;
        }
        let mark = HeardMark { message };
        let stored = self.bot.store.commit(Writes::new().put_at(&self.channel, &mark)).await;
        if let Err(error) = stored {
            tracing::error!(channel = %self.channel, %error, "which message was heard last cannot be stored; after a restart it is looked at again");
        }
    }
}

/// The first id that Discord could give at a moment.
fn first_of(at: Timestamp) -> u64 {
    at.0.saturating_sub(EPOCH) << 22
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_tells_when_it_was_given() {
        // Of Discord's own documentation.
        let (id, at) = (175_928_847_299_117_063, Timestamp(1_462_015_105_796));

        assert!(first_of(at) <= id && id < first_of(Timestamp(at.0 + 1)));
        assert_eq!(first_of(Timestamp(0)), 0);
    }
}
