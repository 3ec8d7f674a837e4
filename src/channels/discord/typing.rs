//! Typing indicator: shown in a channel while something is done for it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::ids::TaskId;
use parking_lot::Mutex;
use serenity::model::id::ChannelId;
use tokio::{sync::Notify, time::Instant};
use tokio_util::task::AbortOnDropHandle;

use super::Bot;

/// Discord takes it away after ten seconds.
const INTERVAL: Duration = Duration::from_secs(8);
/// Without a sign of its turn for this long, it is shown no more.
const SILENCE: Duration = Duration::from_secs(15 * 60);
/// So many ends are remembered, for a beginning that is heard of late.
const MOST_ENDED: usize = 100;

/// The indicator of one channel. It ends when this is dropped.
pub(super) struct Typing {
    shared: Arc<Shared>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Shared {
    work: Mutex<Work>,
    began: Notify,
}

#[derive(Default)]
struct Work {
    /// Each with its last sign of life.
    open: HashMap<TaskId, Instant>,
    ended: VecDeque<TaskId>,
}

impl Typing {
    pub(super) fn start(bot: Arc<Bot>, channel: ChannelId) -> Self {
        let shared = Arc::new(Shared::default());
        let task = hivewright_actors::spawn::local(shared.clone().run(bot, channel));
        Self { shared, _task: AbortOnDropHandle::new(task) }
    }

    /// A task is worked on, or goes on.
    pub(super) fn begin(&self, task: &TaskId) {
        let mut work = self.shared.work.lock();
        if work.ended.contains(task) {
            return;
        }
        let is_first = work.open.is_empty();
        work.open.insert(task.clone(), Instant::now());
        drop(work);
        if is_first {
            self.shared.began.notify_one();
        }
    }

    /// A task waits for a person or a provider.
    pub(super) fn pause(&self, task: &TaskId) {
        self.shared.work.lock().open.remove(task);
    }

    pub(super) fn end(&self, task: &TaskId) {
        let mut work = self.shared.work.lock();
        work.open.remove(task);
        work.ended.push_back(task.clone());
        if work.ended.len() > MOST_ENDED {
            work.ended.pop_front();
        }
    }
}

impl Shared {
    fn is_working(&self) -> bool {
        let now = Instant::now();
        let mut work = self.work.lock();
        work.open.retain(|_, sign| now.duration_since(*sign) < SILENCE);
        !work.open.is_empty()
    }

    async fn run(self: Arc<Self>, bot: Arc<Bot>, channel: ChannelId) {
        loop {
            if !self.is_working() {
                self.began.notified().await;
                continue;
            }
            // Nobody misses one of them.
            let _missed = bot.rest.type_in(channel).await;
            let _ = tokio::time::timeout(INTERVAL, self.began.notified()).await;
        }
    }
}
