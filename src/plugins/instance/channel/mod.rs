//! Channel of a plugin: the conversations that it carries while it is switched on.
//!
//! ```text
//! child ──channel/inbound──▶ inbound ──PostMessage──▶ Router … Channel ──Outbound──▶ post ──channel/send──▶ child
//! ```
//!
//! The plugin translates. Who is let in, what is a topic, what was said before and what was sent already is known here,
//! and it names neither a team nor a conversation of another instance: what it calls one stands behind its own name.

use std::{collections::HashSet, sync::Arc, time::Duration};

use actix::{Addr, AsyncContext, Context};
use hivewright_actors::{
    channel::{
        Channel,
        network::{self, Network},
        records::ChannelRow,
    },
    channel_type::ChannelType,
    clock::{Clock, Timestamp},
    identities::Owner,
    ids::{ChannelId, TeamKey},
    plugin::records::WebhookCall,
    queue::Queue,
    repeats,
    router::{
        Router,
        rate::{Bucket, Rate},
    },
    storage::{Storage, StorageError},
    store::{
        reads::{Range, scan_keyed},
        records::Writes,
    },
};
use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(super) mod inbound;
mod post;
pub mod webhook;

use post::Post;

use super::TeamPlugin;
use crate::{files::FileStore, system::WallClock};

/// Conversations of one instance: each has a way out that is kept open.
const MOST_CONVERSATIONS: usize = 10_000;
/// Messages of one instance, whoever is said to have written them.
const INBOUND: Rate = Rate { per_minute: 600, burst: 200 };
/// Calls that are known no more are forgotten this often.
const TIDIED_EVERY: Duration = Duration::from_secs(60 * 60);

/// What channels of plugins need of the service.
pub struct ChannelGrounds {
    pub router: Addr<Router>,
    pub channel: Addr<Channel>,
    pub queue: Addr<Queue>,
    pub files: FileStore,
    /// Whose the conversations are.
    pub owner: Owner,
    /// Under which other programs reach the service.
    pub public_url: String,
}

impl ChannelGrounds {
    /// Where there is no service: what a channel brings in is taken by nobody.
    pub(in crate::plugins) fn unconnected(files: FileStore) -> Self {
        let operator = Owner {
            principal: "operator".into(),
            grant: "operator".into(),
            since: Timestamp::default(),
        };
        Self {
            router: Context::<Router>::new().address(),
            channel: Context::<Channel>::new().address(),
            queue: Context::<Queue>::new().address(),
            files,
            owner: operator,
            public_url: "http://localhost".to_owned(),
        }
    }
}

/// The channel of a plugin that is switched on. Dropping it closes its ways out; what is to be sent waits in the outbox.
pub(super) struct OpenChannel {
    open: Mutex<HashSet<String>>,
    bucket: Mutex<Bucket>,
    closed: CancellationToken,
    _close_on_drop: DropGuard,
}

impl OpenChannel {
    /// Opens the conversations that there were: something may wait for them.
    pub(super) fn start(plugin: &Arc<TeamPlugin>) -> Arc<Self> {
        let closed = CancellationToken::new();
        let now = WallClock.now();
        let channel = Arc::new(Self {
            open: Mutex::default(),
            bucket: Mutex::new(Bucket::new(INBOUND, now)),
            _close_on_drop: closed.clone().drop_guard(),
            closed: closed.clone(),
        });
        let (opening, of) = (Arc::downgrade(&channel), Arc::clone(plugin));
        plugin.thread.spawn(async move {
            let stored = of.stored_conversations().await;
            for conversation in stored {
                let Some(channel) = opening.upgrade() else { return };
                channel.ensure(&of, &conversation);
            }
        });
        let of = Arc::clone(plugin);
        plugin.thread.spawn(async move {
            closed.run_until_cancelled(of.tidy_calls()).await;
        });
        channel
    }

    /// Whether one more may be opened, if it is not open yet.
    fn has_room_for(&self, conversation: &str) -> bool {
        let open = self.open.lock();
        open.contains(conversation) || open.len() < MOST_CONVERSATIONS
    }

    /// Opens the way out of a conversation, if it is not open.
    fn ensure(&self, plugin: &Arc<TeamPlugin>, conversation: &str) {
        if !self.open.lock().insert(conversation.to_owned()) {
            return;
        }
        let post = Arc::new(Post::new(Arc::clone(plugin), conversation));
        let closed = self.closed.clone();
        plugin.thread.spawn(async move {
            closed.run_until_cancelled(network::run(Arc::clone(&post))).await;
            post.cursor().detach();
        });
    }

    /// Counts a message, or says after which time one may come.
    fn count(&self) -> Result<(), Duration> {
        let mut bucket = self.bucket.lock();
        bucket.take(WallClock.now())
    }
}

impl TeamPlugin {
    /// By which kind of door its people come in.
    fn channel_type(&self) -> ChannelType {
        ChannelType::Plugin(self.key.as_str().into())
    }

    /// What the names of its conversations begin with: no other instance has them.
    fn channel_prefix(&self) -> String {
        format!("{}:{}:", self.channel_type(), self.team)
    }

    fn channel_of(&self, conversation: &str) -> ChannelId {
        ChannelId::from(format!("{}{conversation}", self.channel_prefix()))
    }

    async fn stored_conversations(&self) -> Vec<String> {
        let (kind, prefix) = (self.channel_type(), self.channel_prefix());
        let read =
            self.grounds.store.read(|storage| scan_keyed::<ChannelRow>(storage, Range::all()));
        let rows = read.await.unwrap_or_else(|error| {
            tracing::error!(team = %self.team.name, plugin = self.key, %error, "the conversations of a plugin's channel cannot be read; what waits for them comes when somebody writes there");
            Vec::new()
        });
        let own = rows.into_iter().filter(|(_, row)| row.channel_type == kind);
        own.filter_map(|(id, _)| id.as_str().strip_prefix(&prefix).map(str::to_owned)).collect()
    }

    /// Forgets calls of its webhook that may come again.
    async fn tidy_calls(&self) {
        loop {
            let (of, now) = ((self.team.clone(), self.key.clone()), WallClock.now());
            let is_over = move |call: &WebhookCall| !repeats::is_known(call.at, now);
            let over = self.grounds.store.read(move |storage| calls(storage, &of, is_over)).await;
            match over {
                Ok(over) => {
                    let gone = over
                        .iter()
                        .fold(Writes::new(), |gone, key| gone.delete::<WebhookCall>(key));
                    // Those that stay are found the next time.
                    drop(self.grounds.store.commit(gone));
                }
                Err(error) => {
                    tracing::warn!(team = %self.team.name, plugin = self.key, %error, "old calls of a plugin's webhook cannot be removed yet")
                }
            }
            tokio::time::sleep(TIDIED_EVERY).await;
        }
    }
}

/// The key of a call: whose it was, and what tells it from others.
pub(super) type CallKey = (TeamKey, String, String);

/// Calls of the webhook of an instance that fit.
pub(super) fn calls(
    storage: &dyn Storage,
    of: &(TeamKey, String),
    fits: impl Fn(&WebhookCall) -> bool,
) -> Result<Vec<CallKey>, StorageError> {
    let (team, plugin) = of;
    let rows = scan_keyed::<WebhookCall>(storage, Range::under(&(team,)))?;
    let own = rows.into_iter().filter(|((_, of, _), call)| of == plugin && fits(call));
    Ok(own.map(|(key, _)| key).collect())
}
