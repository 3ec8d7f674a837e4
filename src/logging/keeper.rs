//! Log lines in the store: written a few times a second at most, and forgotten after two weeks.

use std::{ops::ControlFlow, sync::atomic::Ordering, time::Duration};

use hivewright_actors::{
    clock::{Clock, Timestamp},
    storage::{Order, Storage, StorageError},
    store::{
        StoreHandle,
        keys::key_of,
        reads::Range,
        records::{Record, Writes},
    },
};
use serde_json::Map;

use super::tap::{Line, Lines};
use crate::system::WallClock;

/// Lines are kept so long …
const KEPT: Duration = Duration::from_secs(14 * 24 * 60 * 60);
/// … and no more than this.
const MOST: usize = 200_000;
/// So many lines at most are written at a time …
const AT_ONCE: usize = 256;
/// … and so often.
const PAUSE: Duration = Duration::from_secs(1);
/// Old lines are looked for this often.
const SWEEP: Duration = Duration::from_secs(60 * 60);

/// Stores lines as they come, until nobody writes any more.
pub async fn keep(mut lines: Lines, store: StoreHandle) {
    let mut number = 0;
    let mut sweep = tokio::time::interval(SWEEP);
    let mut gathered = Vec::new();
    loop {
        tokio::select! {
            count = lines.lines.recv_many(&mut gathered, AT_ONCE) => {
                if count == 0 {
                    return;
                }
            }
            _ = sweep.tick() => {
                forget(&store).await;
                continue;
            }
        }
        let left_out = lines.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            gathered.push(Line {
                at: WallClock.now(),
                level: "warn".to_owned(),
                target: "hivewright::logging".to_owned(),
                message: format!("{left_out} lines came too fast and are not kept"),
                fields: Map::new(),
            });
        }
        let writes = gathered.drain(..).fold(Writes::new(), |writes, line| {
            number += 1;
            writes.put_at(&key(line.at, number), &line)
        });
        // If the store is gone, so is the process.
        let _stored = store.commit(writes).await;
        tokio::time::sleep(PAUSE).await;
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

/// The stored keys of lines that are too old, or too many.
fn old(storage: &dyn Storage, before: Timestamp) -> Result<Vec<Vec<u8>>, StorageError> {
    let first_kept = key_of(Line::KIND, &key(before, 0));
    let (mut count, mut keys) = (0, Vec::new());
    Range::<Line>::all().visit(storage, Order::Falling, &mut |key, _| {
        count += 1;
        if count > MOST || key < first_kept.as_slice() {
            keys.push(key.to_vec());
        }
        ControlFlow::Continue(())
    })?;
    Ok(keys)
}

async fn forget(store: &StoreHandle) {
    let before = WallClock.now() - KEPT;
    let Ok(keys) = store.read(move |storage| old(storage, before)).await else { return };
    for some in keys.chunks(4_096) {
        let writes = Writes::new().drop_keys(some.iter().cloned());
        let _stored = store.commit(writes).await;
    }
}

#[cfg(test)]
mod tests {

    use std::sync::Arc;

    use hivewright_actors::{doubles::disk::MemoryStorage, store::reads::newest};

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
        let gone = old(&*storage, Timestamp(1_000)).unwrap();

        assert_eq!(seen, [20_000_000_000, 1_000, 999]);
        assert_eq!(gone.len(), 2);
    }
}
