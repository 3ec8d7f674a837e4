//! Resumption of a channel: a connection goes on with an earlier one of its own, or with its owner's shared one.

use std::collections::HashMap;

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};

use super::{Close, Conversation, Resume, Router};
use crate::{
    channel::{
        Adopt, MOST_CONNECTIONS, outbox,
        records::{self as outboxes, ChannelRow},
        socket::{Closing, Item, Socket},
    },
    clock::Timestamp,
    frame::ErrorBody,
    identities::Owner,
    ids::{ChannelId, MessageId},
    router::records::{self as conversations, ChannelHistory, HomeChannel, MessageRow},
    storage::{Storage, StorageError},
    store::{reads::get, records::Writes},
};

/// The channel that a connection wants, as far as the store knows it.
#[derive(Default)]
struct Found {
    channel: Option<ChannelId>,
    /// It is stored as the one that its owner's connections share.
    is_home: bool,
    history: Option<ChannelHistory>,
    messages: HashMap<MessageId, MessageRow>,
    newest: u64,
}

impl Found {
    fn channel(
        storage: &dyn Storage,
        channel: Option<ChannelId>,
        said_since: Timestamp,
    ) -> Result<Self, StorageError> {
        let mut found = Self::default();
        if let Some(id) = &channel {
            found.newest = outboxes::newest_ordinal(storage, id)?;
            found.history = conversations::channel(storage, id, said_since)?;
            found.messages = conversations::messages(storage, id)?;
        }
        Ok(Self { channel, ..found })
    }

    /// The channel that an owner's connections share: the one that is known to be made, or that is stored, or else the
    /// one that is proposed, if it is their own.
    fn home(
        storage: &dyn Storage,
        owner: &Owner,
        made: Option<ChannelId>,
        proposed: Option<ChannelId>,
        said_since: Timestamp,
    ) -> Result<Self, StorageError> {
        let stored = match made {
            Some(made) => Some(made),
            None => conversations::home(storage, owner)?,
        };
        let is_home = stored.is_some();
        let channel = match (stored, proposed) {
            (None, Some(proposed)) => {
                let row = get::<ChannelRow>(storage, &proposed)?;
                row.filter(|row| row.belongs_to(owner)).map(|_| proposed)
            }
            (stored, _) => stored,
        };
        Ok(Self { is_home, ..Self::channel(storage, channel, said_since)? })
    }
}

impl Router {
    /// Gives a connection the channel it asked for, if it is its own.
    fn resume(&mut self, resume: Resume, found: Found, ctx: &mut Context<Self>) {
        let Some(mine) = self.conversations.get(&resume.fresh) else { return };
        let (owner, is_claimed) = (mine.owner.clone(), mine.sender.asserted_by.is_some());
        let made = owner.as_ref().filter(|_| resume.home).and_then(|of| self.homes.get(&of.grant));
        if made.is_some() && made != found.channel.as_ref() {
            // It was made while the store was read.
            return ctx.notify(resume);
        }
        let Resume { fresh, channel: named, home, last_seq, socket } = resume;
        let Found { channel, is_home, history, messages, newest } = found;
        if !self.admit_control(&fresh, channel.as_ref().unwrap_or(&fresh), ctx) {
            return socket.tell(Item::NotAdopted);
        }
        let known = channel.as_ref().and_then(|id| self.conversations.get(id));
        let row = known.map(|known| &known.row).or(history.as_ref().map(|history| &history.row));
        if home && row.is_none() && owner.is_some() && !is_claimed {
            return self.make_home(&fresh, &socket, ctx);
        }
        // The numbers of another channel say nothing about this one.
        let last_seq = if named == channel { last_seq } else { 0 };
        let is_own = row.zip(owner.as_ref()).is_some_and(|(row, owner)| row.belongs_to(owner));
        // Who claims to be another shares no home with those whom the same token claims to be.
        let refusal = if !is_own || channel.as_ref() == Some(&fresh) || (home && is_claimed) {
            Some(("cannot_resume", "that channel cannot be resumed here"))
        } else if outbox::ordinal(last_seq) > newest {
            Some(("bad_resume", "`last_seq` is above the newest frame of that channel"))
        } else {
            None
        };
        if let Some((code, error)) = refusal {
            socket.tell(Item::NotAdopted);
            return self.refuse(&fresh, ErrorBody::refusal(code, error));
        }
        if known.is_some_and(|known| known.connections.len() >= MOST_CONNECTIONS) {
            return socket.tell(Item::Close(Closing::Crowded));
        }
        let (Some(channel), Some(mine)) = (channel, self.conversations.get(&fresh)) else { return };
        let connection = socket.connection();
        let sender = mine.connections.get(&connection).unwrap_or(&mine.sender).clone();
        // Others may speak for the channel that it leaves, and work may be under way for it.
        self.handle(Close { channel: fresh, connection }, ctx);
        match (self.conversations.get_mut(&channel), history) {
            (Some(conversation), _) => {
                conversation.connections.insert(connection, sender);
            }
            (None, Some(history)) => {
                let stored = self.conversation(history);
                let resumed = Conversation { sender, ..stored }.connected(connection);
                self.conversations.insert(channel.clone(), resumed);
            }
            (None, None) => {}
        }
        if let Some(conversation) = self.conversations.get_mut(&channel) {
            conversation.learn(messages);
        }
        let mut writes = Writes::new();
        if let Some(owner) = owner {
            if home {
                self.homes.insert(owner.grant.clone(), channel.clone());
            }
            if home && !is_home {
                writes = writes.put_at(&owner.grant.to_string(), &HomeChannel(channel.clone()));
            }
            if let Some(conversation) = self.conversations.get_mut(&channel)
                && conversation.claim(owner)
            {
                writes = writes.put_at(&channel, &conversation.row);
            }
        }
        self.commit(writes, ctx);
        self.to.channel.do_send(Adopt { channel, socket, last_seq });
    }

    /// The channel that a connection has becomes the one that those of its owner share. It is stored at once, so that the
    /// next one finds it before anything was said.
    fn make_home(&mut self, fresh: &ChannelId, socket: &Socket, ctx: &mut Context<Self>) {
        socket.tell(Item::NotAdopted);
        let Some(conversation) = self.conversations.get_mut(fresh) else { return };
        let Some(owner) = &conversation.owner else { return };
        conversation.stored = true;
        self.homes.insert(owner.grant.clone(), fresh.clone());
        let writes = Writes::new()
            .put_at(fresh, &conversation.row)
            .put_at(&owner.grant.to_string(), &HomeChannel(fresh.clone()));
        self.commit(writes, ctx);
    }
}

impl Handler<Resume> for Router {
    type Result = ();

    fn handle(&mut self, resume: Resume, ctx: &mut Self::Context) {
        let mine = self.conversations.get(&resume.fresh);
        let owner = mine.and_then(|mine| mine.owner.clone()).filter(|_| resume.home);
        let made = owner.as_ref().and_then(|owner| self.homes.get(&owner.grant)).cloned();
        let (named, since) = (resume.channel.clone(), self.said_since());
        let read = self.to.store.read(move |storage| match &owner {
            Some(owner) => Found::home(storage, owner, made, named, since),
            None => Found::channel(storage, named, since),
        });
        ctx.spawn(read.into_actor(self).map(move |found, router, ctx| match found {
            Ok(found) => router.resume(resume, found, ctx),
            Err(error) => {
                let channel = resume.channel.as_ref().unwrap_or(&resume.fresh);
                tracing::error!(%channel, %error, "channel cannot be read; the connection is closed");
                resume.socket.tell(Item::Close(Closing::Internal));
            }
        }));
    }
}
