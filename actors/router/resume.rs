//! A connection that goes on with an earlier channel, if it is its own.

use actix::{ActorFutureExt, AsyncContext, Context, Handler, WrapFuture};

use super::{Conversation, Resume, Router};
use crate::{
    channel::{
        Adopt, MOST_CONNECTIONS, outbox, records as outboxes,
        socket::{Closing, Item},
    },
    frame::ErrorBody,
    router::records::{self as conversations, ChannelHistory},
    store::records::Writes,
};

impl Router {
    /// Gives a connection the channel it asked for, if it is its own.
    fn resume(
        &mut self,
        resume: Resume,
        history: Option<ChannelHistory>,
        newest: u64,
        ctx: &mut Context<Self>,
    ) {
        let Resume { fresh, channel, last_seq, socket } = resume;
        if !self.admit_control(&fresh, &channel, ctx) {
            return socket.tell(Item::NotAdopted);
        }
        let Some(mine) = self.conversations.get(&fresh) else {
            return;
        };
        let known = self.conversations.get(&channel).map(|conversation| &conversation.row);
        let row = known.or(history.as_ref().map(|history| &history.row));
        let is_own = row.zip(mine.owner.as_ref()).is_some_and(|(row, owner)| row.belongs_to(owner));
        let refusal = if !is_own || fresh == channel {
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
        let shared = self.conversations.get(&channel);
        if shared.is_some_and(|shared| shared.connections.len() >= MOST_CONNECTIONS) {
            return socket.tell(Item::Close(Closing::Crowded));
        }
        let Some(mine) = self.conversations.remove(&fresh) else {
            return;
        };
        let connection = socket.connection();
        match (self.conversations.get_mut(&channel), history) {
            (Some(conversation), _) => {
                conversation.connections.insert(connection, mine.sender);
            }
            (None, Some(history)) => {
                let stored = Conversation::from_history(history);
                let resumed = Conversation { sender: mine.sender, ..stored }.connected(connection);
                self.conversations.insert(channel.clone(), resumed);
            }
            (None, None) => {}
        }
        if let (Some(conversation), Some(owner)) =
            (self.conversations.get_mut(&channel), mine.owner)
            && conversation.claim(owner)
        {
            let writes = Writes::new().put_at(&channel, &conversation.row);
            self.commit(writes, ctx);
        }
        self.to.channel.do_send(Adopt { fresh, channel, socket, last_seq });
    }
}

impl Handler<Resume> for Router {
    type Result = ();

    fn handle(&mut self, resume: Resume, ctx: &mut Self::Context) {
        let channel = resume.channel.clone();
        let read = self.to.store.read(move |storage| {
            let newest = outboxes::newest_ordinal(storage, &channel)?;
            Ok((conversations::channel(storage, &channel)?, newest))
        });
        ctx.spawn(read.into_actor(self).map(move |found, router, ctx| match found {
            Ok((history, newest)) => router.resume(resume, history, newest, ctx),
            Err(error) => {
                tracing::error!(channel = %resume.channel, %error, "channel cannot be read");
                resume.socket.tell(Item::Close(Closing::Internal));
            }
        }));
    }
}
