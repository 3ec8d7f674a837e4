//! Offline channels: nobody listens, and their frames wait in the store, within the bounds of an outbox.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{
    Channel,
    conversation::OfflineChannel,
    frame_size,
    records::{self as outboxes, ChannelRow, OutboxWrites},
    undelivered,
};
use crate::{
    frame::Frame,
    ids::ChannelId,
    store::{reads::get, records::Writes},
};

impl Channel {
    /// A frame waits in the store until someone resumes its channel, within the bounds of an outbox.
    pub(super) fn keep_offline_frame(
        &mut self,
        channel: &ChannelId,
        ordinal: u64,
        frame: &Frame,
        ctx: &mut Context<Self>,
    ) {
        let size = frame_size(frame);
        if let Some(offline) = self.offline.get_mut(channel) {
            offline.outbox.keep(ordinal, size, frame);
            if offline.loaded {
                let excess = offline.outbox.excess(self.clock.now());
                self.drop_offline_frames(channel, excess, ctx);
            }
            return;
        }
        let mut offline = OfflineChannel::default();
        offline.outbox.keep(ordinal, size, frame);
        self.offline.insert(channel.clone(), offline);
        let (store, id) = (self.store.clone(), channel.clone());
        let read = async move {
            let before = store.read(move |storage| {
                let row = get::<ChannelRow>(storage, &id)?;
                Ok((row, outboxes::outbox(storage, &id)?))
            });
            before.await
        };
        let channel = channel.clone();
        ctx.spawn(read.into_actor(self).map(move |before, this, ctx| {
            let now = this.clock.now();
            // Someone may have resumed it meanwhile.
            let Some(offline) = this.offline.get_mut(&channel) else { return };
            offline.loaded = true;
            match before {
                Ok((row, frames)) => {
                    offline.fetched = undelivered::is_fetched(row.as_ref());
                    offline.connected_until = undelivered::connected_until(row.as_ref());
                    for stored in &frames {
                        offline.outbox.keep(stored.ordinal, stored.bytes, &stored.frame);
                    }
                }
                Err(error) => tracing::error!(%channel, %error, "outbox cannot be read; what waits in it goes out when a client comes"),
            }
            let excess = offline.outbox.excess(now);
            this.drop_offline_frames(&channel, excess, ctx);
        }));
    }

    /// Removes frames that nobody had, and tells the operator in the same commit.
    pub(super) fn drop_offline_frames(
        &self,
        channel: &ChannelId,
        ordinals: Vec<u64>,
        ctx: &mut Context<Self>,
    ) {
        if ordinals.is_empty() {
            return;
        }
        let (store, id, gone) = (self.store.clone(), channel.clone(), ordinals.clone());
        let read = async move {
            let going = store.read(move |storage| {
                let row = get::<ChannelRow>(storage, &id)?;
                Ok((row, outboxes::unsent(storage, &id, &gone)?))
            });
            going.await
        };
        let channel = channel.clone();
        ctx.spawn(read.into_actor(self).map(move |going, this, ctx| {
            // Someone may have resumed it meanwhile, and had them.
            if this.conversations.contains_key(&channel) {
                return;
            }
            let (row, frames) = match going {
                Ok(going) => going,
                Err(error) => {
                    tracing::error!(%channel, %error, "outbox cannot be read; nobody is told what was not delivered");
                    return;
                }
            };
            let (id, now) = (this.ids.notice(), this.clock.now());
            let notice = undelivered::notice(&channel, row.as_ref(), &frames, id, now);
            let writes = Writes::new().drop_frames(&channel, ordinals).put_all(&notice);
            let commit = this.store.commit(writes);
            ctx.spawn(commit.into_actor(this).map(|_, _, _| ()));
        }));
    }
}
