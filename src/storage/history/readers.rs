//! Readers of the archive: a few connections, which all who read share.
//!
//! A connection takes some hundred kilobytes of memory that the system does not get back, and longer to be opened than most
//! reads take. A burst of turns would open one on each thread that may block.

use std::{
    path::Path,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
};

use super::Reader;

/// So many read at once; others wait for them.
const MOST: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Readers {
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Reader>,
    in_use: usize,
}

impl Readers {
    /// Reads with a connection that is idle, or with a new one. One that failed is closed. `read` itself must not come back for
    /// another.
    pub(super) fn read<T>(
        &self,
        path: &Path,
        read: impl FnOnce(&mut Reader) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let mut lent = self.lend();
        let mut reader = match lent.reader.take() {
            Some(reader) => reader,
            None => Reader::open(path)?,
        };
        let result = read(&mut reader)?;
        lent.reader = Some(reader);
        Ok(result)
    }

    fn lend(&self) -> Lent<'_> {
        let free = self.returned.wait_while(self.state(), |state| state.in_use == MOST);
        let mut state = free.unwrap_or_else(PoisonError::into_inner);
        state.in_use += 1;
        Lent { readers: self, reader: state.idle.pop() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of one who reads, with the connection that goes back.
struct Lent<'a> {
    readers: &'a Readers,
    reader: Option<Reader>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.state();
        state.in_use -= 1;
        state.idle.extend(self.reader.take());
        self.readers.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Barrier,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
    };

    use super::{super::History, *};

    #[test]
    fn a_burst_is_read_by_a_few_connections_and_a_failure_takes_none_away() {
        let folder = tempfile::tempdir().unwrap();
        let archive = History::create(folder.path(), 1).unwrap();
        let (path, readers) = (archive.path.as_deref().unwrap(), Readers::default());
        let (together, reading, most) =
            (Barrier::new(MOST), AtomicUsize::new(0), AtomicUsize::new(0));
        for _ in 0..=MOST {
            let failed = readers.read(path, |reader| reader.connection.execute_batch("nonsense"));
            assert!(failed.is_err());
        }

        thread::scope(|scope| {
            for _ in 0..4 * MOST {
                scope.spawn(|| {
                    let read = readers.read(path, |_| {
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
        let left = readers.state();
        assert_eq!((left.idle.len(), left.in_use), (MOST, 0));
    }
}
