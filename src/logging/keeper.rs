//! Log lines in the store: written a few times a second at most, and forgotten after two weeks.

use std::{ops::ControlFlow, sync::atomic::Ordering, time::Duration};

use hivewright_actors::{
    clock::{Clock, Timestamp},
    live::{Publisher, watch::MAX_WAITING},
    storage::{Order, Storage, StorageError},
    store::{
        StoreHandle,
        keys::key_of,
        reads::Range,
        records::{Record, Writes},
    },
};
use serde_json::Map;
use tokio::{sync::mpsc, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::tap::{Line, Lines, WAITING, told};
use crate::system::WallClock;

/// Lines are kept so long …
const KEPT: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// … and no more than this.
const MOST: usize = 200_000;
/// So many lines at most are written at a time …
const AT_ONCE: usize = 256;
/// … and so many are told of: among more, a watcher would lose other events …
const TOLD_AT_ONCE: usize = MAX_WAITING / 2;
/// … and so often.
const PAUSE: Duration = Duration::from_secs(1);
/// Old lines are looked for this often, first when a start is well over.
const SWEEP: Duration = Duration::from_secs(60 * 60);
const FIRST_SWEEP: Duration = Duration::from_secs(5 * 60);
/// How long the last lines may take to be stored.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// Whoever stores lines, and how they are told to stop.
#[derive(Debug)]
pub struct LogKeeper {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl LogKeeper {
    /// Stores all lines from the first one, and tells whoever watches of them.
    pub fn start(lines: Lines, store: StoreHandle, live: Publisher) -> Self {
        let stop = CancellationToken::new();
        let (kept, waiting) = mpsc::channel(WAITING);
        let to_keep = Lines { lines: waiting, left_out: lines.left_out.clone() };
        hivewright_actors::spawn::local(show(lines, live, kept, stop.clone()));
        let task = hivewright_actors::spawn::local(keep(to_keep, store, stop.clone()));
        Self { stop, task }
    }

    /// Ends once all lines from before are stored, or after a while without.
    pub async fn stop(self) {
        self.stop.cancel();
        let _late = tokio::time::timeout(STOP_TIMEOUT, self.task).await;
    }
}

/// Tells whoever watches of each line, until it is told to stop, and hands it on. It never waits for the store, which may
/// have no room: that is when an operator watches. Of lines that come too fast it only says how many they were.
async fn show(
    mut lines: Lines,
    live: Publisher,
    kept: mpsc::Sender<Line>,
    stop: CancellationToken,
) {
    let (mut since, mut shown, mut untold) = (Instant::now(), 0, 0);
    loop {
        let line = tokio::select! {
            line = lines.lines.recv() => line,
            () = tokio::time::sleep_until(since + PAUSE), if untold > 0 => {
                live.publish(told(&own(format!("{untold} lines came too fast to be shown here"))));
                (since, shown, untold) = (Instant::now(), 0, 0);
                continue;
            }
            () = stop.cancelled(), if !lines.lines.is_closed() => {
                lines.lines.close();
                continue;
            }
        };
        let Some(line) = line else { return };
        if untold == 0 && since.elapsed() >= PAUSE {
            (since, shown) = (Instant::now(), 0);
        }
        if shown < TOLD_AT_ONCE {
            shown += 1;
            live.publish(told(&line));
        } else {
            untold += 1;
        }
        if kept.try_send(line).is_err() {
            lines.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Stores lines as they come until there are no more: once it is told to stop, without a pause.
async fn keep(mut lines: Lines, store: StoreHandle, stop: CancellationToken) {
    // How many there are is known once they were counted.
    let (mut number, mut kept) = (0, None);
    let mut sweep = tokio::time::interval_at(Instant::now() + FIRST_SWEEP, SWEEP);
    let mut gathered = Vec::new();
    let mut due = Instant::now();
    let (mut is_stopping, mut is_over) = (false, false);
    while !is_over {
        let room = AT_ONCE - gathered.len();
        tokio::select! {
            count = lines.lines.recv_many(&mut gathered, room), if room > 0 => {
                is_over = count == 0;
                if !is_over || gathered.is_empty() {
                    continue;
                }
            }
            () = tokio::time::sleep_until(due), if !gathered.is_empty() => {}
            _ = sweep.tick() => {
                kept = forget(&store, kept).await;
                continue;
            }
            () = stop.cancelled(), if !is_stopping => {
                is_stopping = true;
                due = Instant::now();
                continue;
            }
        }
        let left_out = lines.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            gathered.push(own(format!(
                "{left_out} lines are not kept: they came too fast, or the disk was full"
            )));
        }
        kept = kept.map(|kept| kept + gathered.len());
        let writes = gathered.drain(..).fold(Writes::new(), |writes, line| {
            number += 1;
            writes.put_at(&key(line.at, number), &line)
        });
        // If the store is gone, so is the process.
        let _stored = store.commit(writes).await;
        due = if is_stopping { Instant::now() } else { Instant::now() + PAUSE };
    }
}

/// What is said of the log itself.
fn own(message: String) -> Line {
    Line {
        at: WallClock.now(),
        level: "warn".to_owned(),
        target: "hivewright::logging".to_owned(),
        message,
        fields: Map::new(),
    }
}

hivewright_actors::records! {
    Line: "edge\0log-line", String;
}

/// In the order of time.
fn key(at: Timestamp, number: u64) -> String {
    format!("{:015}-{number:010}", at.0)
}

pub fn since(moment: Timestamp) -> Range<Line> {
    Range::all().since(&key(moment, 0))
}

/// The stored keys of lines that are too old, or too many of those that there are.
fn old(
    storage: &dyn Storage,
    before: Timestamp,
    too_many: usize,
) -> Result<Vec<Vec<u8>>, StorageError> {
    let first_kept = key_of(Line::KIND, &key(before, 0));
    let mut keys = Vec::new();
    Range::<Line>::all().visit(storage, Order::Rising, &mut |key, _| {
        if key >= first_kept.as_slice() && keys.len() >= too_many {
            return ControlFlow::Break(());
        }
        keys.push(key.to_vec());
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

fn count(storage: &dyn Storage) -> Result<usize, StorageError> {
    let mut count = 0;
    Range::<Line>::all().visit(storage, Order::Rising, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// Removes old lines of so many, which are counted if that is not known. Returns how many are left.
async fn forget(store: &StoreHandle, kept: Option<usize>) -> Option<usize> {
    let before = WallClock.now() - KEPT;
    let read = store.read(move |storage| {
        let kept = kept.map_or_else(|| count(storage), Ok)?;
        Ok((kept, old(storage, before, kept.saturating_sub(MOST))?))
    });
    let (kept, keys) = read.await.ok()?;
    for some in keys.chunks(4_096) {
        let writes = Writes::new().drop_keys(some.iter().cloned());
        let _stored = store.commit(writes).await;
    }
    Some(kept - keys.len())
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;

    use actix::Arbiter;
    use hivewright_actors::{
        doubles::disk::{Disk, MemoryStorage},
        live::watch::Filter,
        store::{Store, StoreParts, reads::newest},
    };

    use super::*;

    fn line(at: u64) -> Line {
        Line {
            at: Timestamp(at),
            level: "info".to_owned(),
            target: "x".to_owned(),
            message: at.to_string(),
            fields: Map::new(),
        }
    }

    /// OP-50
    #[test]
    fn lines_come_newest_first_and_go_when_they_are_old() {
        let storage = Arc::new(MemoryStorage::default());
        let times = [5, 999, 1_000, 20_000_000_000];
        for (number, at) in (1..).zip(times) {
            let writes = Writes::new().put_at(&key(Timestamp(at), number), &line(at));
            storage.commit(&writes.batch().unwrap()).unwrap();
        }

        let newest = newest(&*storage, since(Timestamp(6)), 10).unwrap();
        let seen: Vec<u64> = newest.iter().map(|line| line.at.0).collect();
        let gone = |before, too_many| old(&*storage, Timestamp(before), too_many).unwrap().len();

        assert_eq!(seen, [20_000_000_000, 1_000, 999]);
        assert_eq!((gone(1_000, 0), gone(1_000, 1), gone(0, 3), gone(0, 0)), (2, 2, 3, 0));
        assert_eq!(count(&*storage).unwrap(), 4);
    }

    /// OP-50, SC-115: whoever watches sees each line at once while there is no room to store any, and none is lost.
    #[actix::test]
    async fn lines_are_told_while_the_disk_is_full() {
        let storage = Disk::default().mount(None);
        storage.fill(true);
        let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
        let live = Publisher::new(1, Arc::new(WallClock));
        let mut watch = live.watch(None, Filter::default());
        let (lines, waiting) = mpsc::channel(WAITING);
        let waiting = Lines { lines: waiting, left_out: Arc::default() };
        let keeper = LogKeeper::start(waiting, store, live);

        for number in 1..=20 {
            lines.send(line(number)).await.unwrap();
            let told = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
            assert!(told.expect("a line is told of").is_some());
        }
        let stored_when_full = count(&*storage).unwrap();
        storage.mend();
        keeper.stop().await;

        assert_eq!((stored_when_full, count(&*storage).unwrap()), (0, 20));
    }

    /// OP-50, OP-51: lines that come too fast are kept, and leave whoever watches room for other events.
    #[actix::test]
    async fn of_lines_that_come_too_fast_it_is_said_how_many_they_were() {
        // However slow the machine is, all lines come at once.
        tokio::time::pause();
        let storage = Disk::default().mount(None);
        let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
        let live = Publisher::new(1, Arc::new(WallClock));
        let mut watch = live.watch(None, Filter::default());
        let (lines, waiting) = mpsc::channel(WAITING);
        let waiting = Lines { lines: waiting, left_out: Arc::default() };
        let keeper = LogKeeper::start(waiting, store, live);
        for number in 0..300 {
            lines.try_send(line(number)).unwrap();
        }

        let mut told = Vec::new();
        while told.last().is_none_or(|message: &String| !message.contains("too fast")) {
            let batch = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
            let batch = batch.expect("lines are told of").unwrap();
            assert_eq!((batch.before, batch.after), (None, None));
            told.extend(batch.events.iter().map(|told| {
                let data = serde_json::to_value(&told.event.data).unwrap();
                data["message"].as_str().unwrap().to_owned()
            }));
        }
        tokio::time::resume();
        keeper.stop().await;

        assert_eq!(told.len(), TOLD_AT_ONCE + 1);
        let rest = 300 - TOLD_AT_ONCE;
        assert_eq!(told[TOLD_AT_ONCE], format!("{rest} lines came too fast to be shown here"));
        assert_eq!(count(&*storage).unwrap(), 300);
    }
}
