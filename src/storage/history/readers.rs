//! Readers of the archive: a few connections, which all who read share.
//!
//! A connection takes some hundred kilobytes of memory that the system does not get back, and longer to be opened than most
//! reads take. A burst of turns would open one on each thread that may block.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex};

use super::{Reader, packing::Unpacker, shrink};

/// So many read at once; others wait for them.
const MOST: usize = 8;
/// So many of them for lists: turns always find one.
const MOST_LISTS: usize = 5;
/// A list that takes longer is broken off.
pub(super) const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// A statement looks at the time after about so many instructions.
const LOOK_EVERY: i32 = 10_000;

/// What is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Work, which reads single records and short ranges.
    Work,
    /// A list, a sum or a search that somebody asked for, and that may go through all there is.
    List,
}

#[derive(Debug)]
pub(super) struct Readers {
    state: Mutex<State>,
    returned: Condvar,
    list_timeout: Duration,
}

impl Default for Readers {
    fn default() -> Self {
        let (state, returned) = Default::default();
        Self { state, returned, list_timeout: LIST_TIMEOUT }
    }
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Reader>,
    in_use: usize,
    /// How many of those in use are for lists.
    lists: usize,
}

impl Readers {
    /// Reads with a connection that is idle, or with a new one. One that failed is closed. `read` itself must not come back for
    /// another. A list that takes too long fails as interrupted.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        purpose: Purpose,
        read: impl FnOnce(&mut Reader) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut lent = self.lend(purpose);
        let mut reader = match lent.reader.take() {
            Some(reader) => reader,
            None => Reader::open(path)?,
        };
        if purpose == Purpose::List {
            let deadline = Instant::now() + self.list_timeout;
            let is_over = move || Instant::now() > deadline;
            reader.connection.progress_handler(LOOK_EVERY, Some(is_over))?;
        }
        let result = read(&mut reader)?;
        if purpose == Purpose::List {
            reader.connection.progress_handler(0, None::<fn() -> bool>)?;
        }
        lent.reader = Some(reader);
        Ok(result)
    }

    /// Closes those that are idle but one, and has that one give back what it can.
    pub(super) fn shrink(&self) -> rusqlite::Result<()> {
        let mut idle = std::mem::take(&mut self.state.lock().idle);
        let Some(mut kept) = idle.pop() else { return Ok(()) };
        drop(idle);
        kept.unpacker = Unpacker::default();
        shrink(&kept.connection)?;
        self.state.lock().idle.push(kept);
        Ok(())
    }

    fn lend(&self, purpose: Purpose) -> Lent<'_> {
        let is_list = usize::from(purpose == Purpose::List);
        let mut state = self.state.lock();
        self.returned.wait_while(&mut state, |state| {
            state.in_use == MOST || state.lists + is_list > MOST_LISTS
        });
        state.in_use += 1;
        state.lists += is_list;
        Lent { readers: self, purpose, reader: state.idle.pop() }
    }
}

/// The place of one who reads, with the connection that goes back.
struct Lent<'a> {
    readers: &'a Readers,
    purpose: Purpose,
    reader: Option<Reader>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.state.lock();
        state.in_use -= 1;
        state.lists -= usize::from(self.purpose == Purpose::List);
        state.idle.extend(self.reader.take());
        // Who comes next depends on what they want.
        self.readers.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Barrier, RwLock,
            atomic::{AtomicUsize, Ordering},
            mpsc,
        },
        thread,
    };

    use super::{super::History, *};

    /// Ends only if somebody ends it.
    const ENDLESS: &str =
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n";

    #[test]
    fn a_burst_is_read_by_a_few_connections_and_a_failure_takes_none_away() {
        let folder = tempfile::tempdir().unwrap();
        let archive = History::create(folder.path(), 1).unwrap();
        let (path, readers) = (archive.path.as_deref().unwrap(), Readers::default());
        let (together, reading, most) =
            (Barrier::new(MOST), AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..=MOST {
            let failed = readers
                .read(path, Purpose::Work, |reader| reader.connection.execute_batch("nonsense"));
            assert!(failed.is_err());
        }

        thread::scope(|scope| {
            for _ in 0..4 * MOST {
                scope.spawn(|| {
                    let read = readers.read(path, Purpose::Work, |_| {
                        most.fetch_max(
                            reading.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        // As many as may read at once do.
                        together.wait();
                        reading.fetch_sub(1, Ordering::SeqCst);
                        Ok(())
                    });
                    read.unwrap();
                });
            }
        });

        assert_eq!(most.into_inner(), MOST);
        let left = || {
            let state = readers.state.lock();
            (state.idle.len(), state.in_use)
        };
        assert_eq!(left(), (MOST, 0));
        readers.shrink().unwrap();
        assert_eq!(left(), (1, 0));
        readers
            .read(path, Purpose::Work, |reader| reader.connection.execute_batch("SELECT 1"))
            .unwrap();
        assert_eq!(left(), (1, 0));
    }

    /// SC-115: whoever asks for many long lists holds up no turn, and is told that they take too long.
    #[test]
    fn lists_leave_readers_for_work_and_end_in_time() {
        let folder = tempfile::tempdir().unwrap();
        let archive = History::create(folder.path(), 1).unwrap();
        let path = archive.path.as_deref().unwrap();
        let readers = Readers { list_timeout: Duration::from_millis(100), ..Readers::default() };
        let (begin, begun) = mpsc::channel();
        let (end, ended) = (RwLock::new(()), mpsc::channel());
        let held = end.write().unwrap();

        let worked = thread::scope(|scope| {
            for _ in 0..2 * MOST {
                let (begin, end, readers) = (begin.clone(), &end, &readers);
                scope.spawn(move || {
                    let read = readers.read(path, Purpose::List, |reader| {
                        begin.send(()).unwrap();
                        drop(end.read().unwrap());
                        reader.connection.query_row(ENDLESS, [], |row| row.get::<_, i64>(0))
                    });
                    let code = read.unwrap_err().sqlite_error_code();
                    assert_eq!(code, Some(rusqlite::ErrorCode::OperationInterrupted));
                });
            }
            (0..MOST_LISTS).for_each(|_| begun.recv().unwrap());
            let (tell, readers) = (ended.0.clone(), &readers);
            scope.spawn(move || tell.send(readers.read(path, Purpose::Work, |_| Ok(())).is_ok()));
            let worked = ended.1.recv_timeout(Duration::from_secs(60));
            drop(held);
            worked
        });

        assert_eq!(worked, Ok(true));
        let left = readers.state.lock();
        assert_eq!((left.in_use, left.lists), (0, 0));
    }
}
