//! Sweep of channels: what nobody needs any more is removed, a slice at a time.

use std::{collections::HashSet, time::Duration};

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Router, expiry};
use crate::{
    channel::{
        Forget,
        outbox::{self, Outbox},
        records::{self as outboxes, ChannelRow, OutboxWrites},
        undelivered,
    },
    clock::Timestamp,
    ids::{ChannelId, Ids, MessageId},
    interactions,
    notice::Notice,
    repeats::is_known,
    router::records::{self as conversations, MessageRow},
    storage::{Storage, StorageError},
    store::{
        keys::key_of,
        reads::{Range, get, scan_keyed},
        records::{Record, Writes},
    },
};

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

/// Those messages of a channel that need not be known any longer: the oldest beyond a number, if they are old.
fn surplus(
    known: impl ExactSizeIterator<Item = (Timestamp, MessageId)>,
    now: Timestamp,
) -> Vec<MessageId> {
    let surplus = known.len().saturating_sub(MOST_KNOWN_IDS);
    let mut old = Vec::new();
    if surplus > 0 {
        old.extend(known.filter(|(at, _)| !is_known(*at, now)));
        old.sort_unstable();
    }
    old.into_iter().take(surplus).map(|(_, id)| id).collect()
}

/// The same of a channel that nobody uses just now, as stored keys.
fn old_messages(
    storage: &dyn Storage,
    channel: &ChannelId,
    now: Timestamp,
) -> Result<Vec<Vec<u8>>, StorageError> {
    let of_channel = || Range::<MessageRow>::under(&(channel,));
    if of_channel().keys(storage)?.len() <= MOST_KNOWN_IDS {
        return Ok(Vec::new());
    }
    let rows = scan_keyed::<MessageRow>(storage, of_channel())?.into_iter();
    let old = surplus(rows.map(|((_, id), row)| (row.at, id)), now);
    Ok(old.iter().map(|id| key_of(MessageRow::KIND, &(channel, id))).collect())
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
        let in_use: HashSet<ChannelId> = self.conversations.keys().cloned().collect();
        let read = self.to.store.read(move |storage| {
            let mut rows = interactions::before(storage, now - INTERACTIONS_KEPT)?;
            let channels = scan_keyed::<ChannelRow>(storage, Range::all())?;
            for (channel, _) in channels.iter().filter(|(channel, _)| !in_use.contains(channel)) {
                rows.extend(old_messages(storage, channel, now)?);
            }
            let channels = channels.into_iter();
            let idle = channels.filter(|(_, row)| row.last_seen + outbox::MOST_AGE < now);
            let (unused, kept): (Vec<_>, Vec<_>) =
                idle.partition(|(_, row)| row.last_seen < forgotten);
            let mut excess = Vec::new();
            for (channel, row) in kept {
                excess.extend(Excess::of(storage, channel, &row, &ids, now)?);
            }
            Ok((rows, unused, excess, expiry::expired(storage, forgotten)?))
        });
        ctx.spawn(read.into_actor(self).map(move |found, router, ctx| match found {
            Ok((rows, unused, excess, expired)) => {
                router.forget_keys(rows, ctx);
                router.expire(expired, forgotten, ctx);
                for (channel, _) in unused {
                    router.forget_channel(channel, ctx);
                }
                for excess in excess {
                    router.drop_excess(excess, ctx);
                }
            }
            Err(error) => tracing::error!(%error, "old topics and channels cannot be looked up; it is tried again"),
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
            let known = conversation.known.iter().map(|(id, known)| (known.at, id.clone()));
            for id in surplus(known, now) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doubles::disk::Disk;

    /// CH-47: also of a channel that nobody uses just now; what is young or among the newest stays known.
    #[test]
    fn the_oldest_messages_of_a_channel_beyond_a_number_are_forgotten() {
        let (storage, channel) = (Disk::default().mount(None), ChannelId::from("ws:1"));
        let day = 24 * 60 * 60 * 1_000;
        let now = Timestamp(10 * day);
        let message = |number: usize| MessageId::from(format!("m{number:05}"));
        let rows = (0..MOST_KNOWN_IDS + 3).fold(Writes::new(), |writes, number| {
            let at = if number == 1 { now } else { Timestamp(day + number as u64) };
            let row = MessageRow { digest: 0, at, task: None };
            writes.put_at(&(channel.clone(), message(number)), &row)
        });
        storage.commit(&rows.batch().unwrap()).unwrap();

        let old = old_messages(&*storage, &channel, now).unwrap();
        let other = old_messages(&*storage, &"ws:2".into(), now).unwrap();

        let key = |number| key_of(MessageRow::KIND, &(&channel, &message(number)));
        assert_eq!((old, other), ([0, 2, 3].map(key).to_vec(), Vec::new()));
    }
}
