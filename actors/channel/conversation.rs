//! Conversation: the connections of one channel, and what each of them has; of an offline channel, what waits.

use std::{collections::VecDeque, sync::Arc};

use super::{
    outbound::Outbound,
    outbox::{self, Outbox, Replay},
    partial_output::PartialOutput,
    socket::Socket,
};
use crate::{
    clock::Timestamp,
    frame::{Body, Frame, Progress, ProgressKind},
    ids::{ChannelId, MessageId},
};

/// A channel that someone listens to.
#[derive(Default)]
pub(super) struct Conversation {
    pub(super) outbox: Outbox,
    /// Those that have all up to the newest number of the outbox.
    pub(super) sockets: Vec<Arc<Socket>>,
    /// Those that wait for what they miss.
    pub(super) joining: VecDeque<Joining>,
    /// The outbox knows what is stored.
    pub(super) loaded: bool,
    /// The read of the outbox that is under way: what is stored meanwhile waits for it …
    pub(super) loading: Option<u64>,
    /// … text that passes is dropped, so that all have to be told where it stands …
    pub(super) dropped: bool,
    /// … and what else passes is kept for them, or for one connection.
    pub(super) held: Vec<(Option<u64>, Frame)>,
    /// Which connection the last messages came from.
    pub(super) origins: VecDeque<(MessageId, u64)>,
}

/// A channel that nobody listens to, and that was told something.
#[derive(Default)]
pub(super) struct OfflineChannel {
    pub(super) outbox: Outbox,
    /// What is stored of it has been read: its bounds count.
    pub(super) loaded: bool,
    /// When it was last connected.
    pub(super) connected_until: Timestamp,
    /// What comes of its messages is fetched.
    pub(super) fetched: bool,
}

/// A connection that comes to a channel.
pub(super) struct Joining {
    pub(super) socket: Arc<Socket>,
    /// The newest number that its client has.
    pub(super) last_seq: u64,
}

impl Conversation {
    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<Socket>> {
        let joining = self.joining.iter().map(|joining| &joining.socket);
        self.sockets.iter().chain(joining)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    /// A frame tells a connection of the message that it sent itself.
    fn is_echo(&self, socket: &Socket, frame: &Frame) -> bool {
        let Body::Progress(progress) = &frame.body else { return false };
        progress.kind == ProgressKind::UserMessage
            && self.origins.iter().rev().any(|(message, connection)| {
                *connection == socket.connection() && progress.message_id.as_ref() == Some(message)
            })
    }

    /// Sends a frame that need not arrive to all that are there, or to one connection.
    pub(super) fn pass(&mut self, channel: &ChannelId, to: Option<u64>, frame: Frame) {
        let Some(seq) = self.outbox.passing() else { return };
        let outbound = Arc::new(Outbound::new(channel, seq, Arc::new(frame)));
        for socket in &self.sockets {
            if to.is_none_or(|to| to == socket.connection()) {
                socket.push(outbound.clone(), false);
            }
        }
    }

    /// Sends a durable frame to all that have what is before it.
    pub(super) fn send(&self, channel: &ChannelId, ordinal: u64, frame: Arc<Frame>) {
        let mut sockets =
            self.sockets.iter().filter(|socket| !self.is_echo(socket, &frame)).peekable();
        // The only one there is often the one that sent it.
        if sockets.peek().is_none() {
            return;
        }
        let outbound = Arc::new(Outbound::new(channel, outbox::seq(ordinal), frame.clone()));
        sockets.for_each(|socket| socket.push(outbound.clone(), true));
    }

    /// Sends a connection what it misses.
    pub(super) fn replay(
        &self,
        channel: &ChannelId,
        socket: &Socket,
        replay: &[Replay],
        last_seq: u64,
        partial_output: &PartialOutput,
        now: Timestamp,
    ) {
        let push = |seq: u64, frame: Arc<Frame>| {
            socket.push(Arc::new(Outbound::new(channel, seq, frame)), true);
        };
        let mut sent = last_seq;
        for part in replay {
            match part {
                Replay::Frame(ordinal, frame) => {
                    if let Some(text) = partial_output.before(*ordinal, frame) {
                        push(sent + 1, Arc::new(text));
                    }
                    sent = outbox::seq(*ordinal);
                    if !self.is_echo(socket, frame) {
                        push(sent, frame.clone());
                    }
                }
                Replay::Hole(gap) => {
                    let mut note = Progress::new(ProgressKind::Note, "Some frames are gone.");
                    note.gap = Some(*gap);
                    let frame = Frame { topic: None, ts: now, body: Body::Progress(note) };
                    sent = gap.to_seq;
                    push(sent, Arc::new(frame));
                }
            }
        }
    }
}
