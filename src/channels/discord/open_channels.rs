//! The Discord channels that are in use, each with its way in and its way out.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use hivewright_actors::{
    channel::{
        network::{self, Network},
        records::ChannelRow,
    },
    channel_type::ChannelType,
    store::reads::{Range, scan_keyed},
};
use parking_lot::Mutex;
use serenity::model::id::ChannelId;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::{
    Bot,
    gateway::Event,
    inbound::{self, Incoming},
    missed::Missed,
    post::Post,
};
use crate::settings::channels::Discord as Settings;

/// Messages of one channel that may wait to be taken in …
const MOST_WAITING: usize = 1_000;
/// … and of one author there, so that a flood of theirs keeps nobody else out.
const MOST_OF_AUTHOR: usize = 20;

pub(super) struct OpenChannels {
    bot: Arc<Bot>,
    settings: Arc<Settings>,
    open: Mutex<HashMap<ChannelId, OpenChannel>>,
}

struct OpenChannel {
    post: Arc<Post>,
    queue: Arc<Queue>,
    _out: AbortOnDropHandle<()>,
    _in: AbortOnDropHandle<()>,
}

impl OpenChannels {
    /// Those that were used before, and those that settings name: something may wait for them, or come.
    pub(super) async fn open(bot: Arc<Bot>, settings: Settings) -> Self {
        let rows = bot.store.read(|storage| scan_keyed::<ChannelRow>(storage, Range::all()));
        let rows = rows.await.unwrap_or_else(|error| {
            tracing::error!(%error, "the Discord channels of before cannot be read; what waits for them comes when somebody writes there");
            Vec::new()
        });
        let used = rows.into_iter().filter(|(_, row)| row.channel_type == ChannelType::Discord);
        let used = used.filter_map(|(id, _)| id.as_str().parse().ok());
        let named = settings.watched_channels.iter().chain(&settings.operator_channels);
        let named = named.map(|id| ChannelId::new(id.get()));
        let ids: Vec<ChannelId> = used.chain(named).collect();
        let channels = Self { bot, settings: Arc::new(settings), open: Mutex::default() };
        for id in ids {
            channels.ensure(id);
        }
        channels
    }

    /// Takes in what happens on Discord. Returns at once.
    pub(super) fn take(&self, event: Event) {
        match event {
            Event::Ready { is_resumed: true } => {}
            Event::Ready { is_resumed: false } => {
                let open = self.open.lock();
                open.values().for_each(|channel| channel.queue.look_back());
            }
            Event::Message(message) => {
                let is_of_server = message.guild_id.is_some();
                if let Some(incoming) = Incoming::read(*message, is_of_server, &self.settings) {
                    self.bring(incoming);
                }
            }
            Event::Press(press) => {
                hivewright_actors::spawn::local(inbound::press(self.bot.clone(), press));
            }
        }
    }

    fn bring(&self, incoming: Incoming) {
        let (post, queue) = self.ensure(incoming.channel);
        if incoming.is_command() {
            let said = inbound::say(self.bot.clone(), post, incoming);
            hivewright_actors::spawn::local(async move {
                said.await;
            });
        } else if let Err(refused) = queue.push(incoming) {
            hivewright_actors::spawn::local(inbound::refuse_full(self.bot.clone(), post, *refused));
        }
    }

    fn ensure(&self, id: ChannelId) -> (Arc<Post>, Arc<Queue>) {
        let mut open = self.open.lock();
        let start = || OpenChannel::start(&self.bot, &self.settings, id);
        let channel = open.entry(id).or_insert_with(start);
        (channel.post.clone(), channel.queue.clone())
    }
}

impl OpenChannel {
    fn start(bot: &Arc<Bot>, settings: &Arc<Settings>, id: ChannelId) -> Self {
        let post = Arc::new(Post::new(bot.clone(), id));
        let queue = Arc::new(Queue::default());
        let missed = Missed::new(bot.clone(), post.clone(), settings.clone(), id);
        let listening = listen(missed, queue.clone());
        Self {
            _out: AbortOnDropHandle::new(hivewright_actors::spawn::local(network::run(
                post.clone(),
            ))),
            _in: AbortOnDropHandle::new(hivewright_actors::spawn::local(listening)),
            post,
            queue,
        }
    }
}

impl Drop for OpenChannel {
    fn drop(&mut self) {
        self.post.cursor().detach();
    }
}

/// Takes messages in, one after another; those that were missed before those that come.
async fn listen(missed: Missed, queue: Arc<Queue>) {
    loop {
        match queue.next().await {
            Next::LookBack => missed.catch_up().await,
            Next::Message(incoming) => missed.say(*incoming).await,
        }
    }
}

/// What is to be done next in a channel.
enum Next {
    LookBack,
    Message(Box<Incoming>),
}

/// Messages that wait to be taken in.
#[derive(Default)]
struct Queue {
    waiting: Mutex<VecDeque<Incoming>>,
    /// Some may have been missed before them.
    looks_back: AtomicBool,
    filled: Notify,
}

impl Queue {
    /// Gives a message back for which there is no room.
    fn push(&self, incoming: Incoming) -> Result<(), Box<Incoming>> {
        let mut waiting = self.waiting.lock();
        let of_author = waiting.iter().filter(|other| other.author == incoming.author).count();
        if waiting.len() >= MOST_WAITING || of_author >= MOST_OF_AUTHOR {
            return Err(Box::new(incoming));
        }
        waiting.push_back(incoming);
        drop(waiting);
        self.filled.notify_one();
        Ok(())
    }

    fn look_back(&self) {
        self.looks_back.store(true, Ordering::Relaxed);
        self.filled.notify_one();
    }

    async fn next(&self) -> Next {
        loop {
            if self.looks_back.swap(false, Ordering::Relaxed) {
                return Next::LookBack;
            }
            let first = self.waiting.lock().pop_front();
            if let Some(incoming) = first {
                return Next::Message(Box::new(incoming));
            }
            self.filled.notified().await;
        }
    }
}
