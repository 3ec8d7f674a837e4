//! Sweep: what nobody needs any more is forgotten, a slice at a time.

use std::time::Duration;

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::Router;
use crate::{
    channel::{
        Forget,
        outbox::{self, Outbox},
        records::{self as outboxes, ChannelRow, OutboxWrites},
        undelivered,
    },
    clock::Timestamp,
    ids::{ChannelId, Ids},
    interactions,
    notice::Notice,
    repeats::is_known,
    router::records::{self as conversations, MessageRow},
    storage::{Storage, StorageError},
    store::{
        reads::{Range, get, scan_keyed},
        records::Writes,
    },
};

pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(60 * 60);
const INTERACTIONS_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// At least so many of a channel's newest message ids stay known.
const MOST_KNOWN_IDS: usize = 10_000;
/// Records that are removed in one commit.
const COMMIT_SIZE: usize = 500;

/// What is beyond the bounds of the outbox of a channel that nobody uses.
struct Excess {
    channel: ChannelId,
    ordinals: Vec<u64>,
    /// For the operator, if some of it nobody had.
    told: Option<Notice>,
}

impl Excess {
    fn of(
        storage: &dyn Storage,
        channel: ChannelId,
        row: &ChannelRow,
        ids: &Ids,
        now: Timestamp,
    ) -> Result<Option<Self>, StorageError> {
        let frames = outboxes::outbox(storage, &channel)?;
        let mut outbox = Outbox::default();
        for stored in &frames {
            outbox.keep(stored.ordinal, stored.bytes, &stored.frame);
        }
        let ordinals = outbox.excess(now);
        if ordinals.is_empty() {
            return Ok(None);
        }
        let gone = outboxes::unsent(storage, &channel, &ordinals)?;
        let told = undelivered::notice(&channel, Some(row), &gone, ids.notice(), now);
        Ok(Some(Self { channel, ordinals, told }))
    }
}

impl Router {
    pub(super) fn sweep(&mut self, ctx: &mut Context<Self>) {
        let now = self.to.clock.now();
        self.buckets.retain(|_, bucket| !bucket.is_full(now));
        self.control_buckets.retain(|_, bucket| !bucket.is_full(now));
        self.forget_messages(now, ctx);
        self.note_presence(now, ctx);
        let ids = self.to.ids.clone();
        let forgotten = now - self.settings.channels_kept;
        let read = self.to.store.read(move |storage| {
            let rows = interactions::before(storage, now - INTERACTIONS_KEPT)?;
            let channels = scan_keyed::<ChannelRow>(storage, Range::all())?.into_iter();
            let idle = channels.filter(|(_, row)| row.last_seen + outbox::MOST_AGE < now);
            let (unused, kept): (Vec<_>, Vec<_>) =
                idle.partition(|(_, row)| row.last_seen < forgotten);
            let mut excess = Vec::new();
            for (channel, row) in kept {
                excess.extend(Excess::of(storage, channel, &row, &ids, now)?);
            }
            Ok((rows, unused, excess))
        });
        ctx.spawn(read.into_actor(self).map(move |found, router, ctx| match found {
            Ok((rows, unused, excess)) => {
                router.forget_keys(rows, ctx);
                for (channel, _) in unused {
                    router.forget_channel(channel, ctx);
                }
                for excess in excess {
                    router.drop_excess(excess, ctx);
                }
            }
            Err(error) => tracing::error!(%error, "old records cannot be looked up"),
        }));
    }

    /// Frames that nobody came for in time go, and the operator is told.
    fn drop_excess(&self, excess: Excess, ctx: &mut Context<Self>) {
        let Excess { channel, ordinals, told } = excess;
        // Whoever uses it meanwhile looks after its outbox.
        if !self.conversations.contains_key(&channel) {
            self.commit(Writes::new().drop_frames(&channel, ordinals).put_all(&told), ctx);
        }
    }

    fn forget_messages(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        let mut writes = Writes::new();
        for (channel, conversation) in &mut self.conversations {
            let surplus = conversation.known.len().saturating_sub(MOST_KNOWN_IDS);
            if surplus == 0 {
                continue;
            }
            let mut old: Vec<_> = conversation
                .known
                .iter()
                .filter(|(_, known)| !is_known(known.at, now))
                .map(|(id, known)| (known.at, id.clone()))
                .collect();
            old.sort_unstable();
            for (_, id) in old.into_iter().take(surplus) {
                conversation.known.remove(&id);
                writes = writes.delete::<MessageRow>(&(channel, &id));
            }
        }
        self.commit(writes, ctx);
    }

    /// A channel that is in use is known to be, also if the process ends without a word.
    fn note_presence(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        let mut writes = Writes::new();
        for (channel, conversation) in &mut self.conversations {
            if conversation.stored && !conversation.connections.is_empty() {
                conversation.row.last_seen = now;
                writes = writes.put_at(channel, &conversation.row);
            }
        }
        self.commit(writes, ctx);
    }

    /// A channel without connection and open work.
    fn forget_channel(&mut self, channel: ChannelId, ctx: &mut Context<Self>) {
        if self.conversations.contains_key(&channel) {
            return;
        }
        let id = channel.clone();
        let (notice, now) = (self.to.ids.notice(), self.to.clock.now());
        let read = self.to.store.read(move |storage| {
            let row = get::<ChannelRow>(storage, &id)?;
            let frames = outboxes::outbox(storage, &id)?;
            let ordinals: Vec<_> = frames.iter().map(|stored| stored.ordinal).collect();
            let unsent = outboxes::unsent(storage, &id, &ordinals)?;
            let told = undelivered::notice(&id, row.as_ref(), &unsent, notice, now);
            Ok((conversations::channel_keys(storage, &id)?, told))
        });
        ctx.spawn(read.into_actor(self).map(move |found, router, ctx| {
            // It may have been resumed meanwhile.
            if let Ok((keys, told)) = found
                && !router.conversations.contains_key(&channel)
            {
                router.to.channel.do_send(Forget { channel: channel.clone() });
                router.homes.retain(|_, home| *home != channel);
                let writes = Writes::new().drop_keys(keys).forget_channel(&channel);
                router.commit(writes.put_all(&told), ctx);
            }
        }));
    }

    fn forget_keys(&self, keys: Vec<Vec<u8>>, ctx: &mut Context<Self>) {
        let store = self.to.store.clone();
        let work = async move {
            for slice in keys.chunks(COMMIT_SIZE) {
                let commit = store.commit(Writes::new().drop_keys(slice.to_vec()));
                if commit.await.is_err() {
                    return;
                }
            }
        };
        ctx.spawn(work.into_actor(self));
    }
}
