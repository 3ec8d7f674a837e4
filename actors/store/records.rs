//! Records: what a kind of row that is stored has to say of itself, and how a commit is put together.

use std::{borrow::Cow, sync::Arc};

use futures_util::future::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    keys::{Key, KeyOf, key_of, printable},
    log,
    redact::Texts,
};
use crate::{
    frame::Frame,
    ids::{ChannelId, LeaseId, TaskId},
    live::event::Event,
    storage::{Batch, StorageError},
};

/// A kind of row. The module that owns the row implements it; the store knows none of them.
pub trait Record {
    /// What its keys begin with. Records of the edges stand apart from those of the spine, under `edge\0`.
    const KIND: &'static str;
    /// What its rows are found by.
    type Key: Key;

    /// What whoever watches is told once it is durable.
    fn told(&self, _key: &Self::Key) -> Option<Event> {
        None
    }

    /// What is written with it: entries that it is found by, rows that it takes the place of.
    fn along(&self, _key: &Self::Key, writes: Writes) -> Writes {
        writes
    }
}

/// A row that holds its own key.
pub trait Keyed: Record {
    fn key(&self) -> Self::Key;
}

/// Declares kinds of rows: what their keys begin with, what they are found by and, for a row that holds its own key,
/// how that is made: `Notice: "notice", NoticeId, |row| row.id.clone();`
#[macro_export]
macro_rules! records {
    ($($(#[$doc:meta])* $row:ty: $kind:expr, $key:ty $(, |$this:ident| $made:expr)?;)*) => {$(
        $(#[$doc])*
        impl $crate::store::records::Record for $row {
            const KIND: &'static str = $kind;
            type Key = $key;
        }

        $(
            impl $crate::store::records::Keyed for $row {
                fn key(&self) -> Self::Key {
                    let $this = self;
                    $made
                }
            }
        )?
    )*};
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    Put { key: Vec<u8>, value: Vec<u8> },
    Delete { key: Vec<u8> },
    Append { entry: Append, value: Vec<u8> },
    Fence { task: TaskId, lease: Option<LeaseId> },
    ForgetLog { log: Vec<u8> },
    LookAgain { key: Vec<u8> },
    Empty { key: Vec<u8>, texts: &'static [Texts] },
}

/// A frame for a log whose entries the store numbers, from 1 and without gaps.
#[derive(Clone, Debug, PartialEq)]
pub struct Append {
    /// What the keys of the log begin with; the number follows.
    pub log: Vec<u8>,
    /// Whose log it is.
    pub channel: ChannelId,
    pub frame: Arc<Frame>,
    /// The entry directly behind it in the same commit takes it in: one record costs the disk half of two.
    pub joins_next: bool,
}

/// A commit in the making.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Writes {
    pub(super) guard: Option<(TaskId, LeaseId)>,
    pub(super) list: Vec<Write>,
    /// What is true once it is durable.
    pub(super) told: Vec<Event>,
    /// The first row that could not be put into a record: the commit is refused for it.
    pub(super) unwritable: Option<Unwritable>,
}

/// A row that does not serialise.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {key} cannot be written: {reason}")]
pub struct Unwritable {
    /// Its key, made readable.
    pub key: String,
    pub reason: String,
}

impl Writes {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.unwritable.is_none()
    }

    /// The commit is made only while this lease is good.
    pub fn under_lease(mut self, task: &TaskId, lease: &LeaseId) -> Self {
        self.guard = Some((task.clone(), lease.clone()));
        self
    }

    /// The task whose lease it is made under.
    pub fn task(&self) -> Option<&TaskId> {
        self.guard.as_ref().map(|(task, _)| task)
    }

    pub fn and(mut self, other: Self) -> Self {
        debug_assert!(other.guard.is_none());
        self.list.extend(other.list);
        self.told.extend(other.told);
        self.unwritable = self.unwritable.or(other.unwritable);
        self
    }

    /// A row, in place of the one under its key.
    pub fn put<R: Keyed + Serialize>(self, row: &R) -> Self {
        self.put_at(&row.key(), row)
    }

    pub fn put_all<'a, R: Keyed + Serialize + 'a>(
        self,
        rows: impl IntoIterator<Item = &'a R>,
    ) -> Self {
        rows.into_iter().fold(self, Self::put)
    }

    /// A row that does not hold its own key.
    pub fn put_at<R: Record + Serialize>(self, key: &R::Key, row: &R) -> Self {
        let writes = self.put_json(key_of(R::KIND, key), row);
        row.along(key, writes).tell_all(row.told(key))
    }

    /// Bytes under the key of a record that is not stored as JSON.
    pub fn put_bytes<R: Record>(self, key: &R::Key, value: Vec<u8>) -> Self {
        self.with(Write::Put { key: key_of(R::KIND, key), value })
    }

    /// A row in place of a record that was found under this stored key.
    pub fn put_json<T: Serialize>(self, key: Vec<u8>, row: &T) -> Self {
        match encode(row) {
            Ok(value) => self.with(Write::Put { key, value }),
            Err(error) => self.refused(&key, &error),
        }
    }

    pub fn delete<R: Record>(self, key: &(impl KeyOf<R::Key> + ?Sized)) -> Self {
        self.with(Write::Delete { key: key_of(R::KIND, key) })
    }

    /// Removes records by their stored keys, as a sweep found them.
    pub fn drop_keys(mut self, keys: impl IntoIterator<Item = Vec<u8>>) -> Self {
        self.list.extend(keys.into_iter().map(|key| Write::Delete { key }));
        self
    }

    /// An entry of a log. The store numbers it.
    pub fn append(self, entry: Append) -> Self {
        match encode(&*entry.frame) {
            Ok(value) => self.with(Write::Append { entry, value }),
            Err(error) => self.refused(&entry.log, &error),
        }
    }

    /// A log is gone for good, with all keys that a sweep found: its numbers begin again.
    pub fn forget_log(self, log: Vec<u8>) -> Self {
        self.with(Write::ForgetLog { log })
    }

    /// From now on the task is held under this lease alone, or under none.
    pub fn fence(self, task: &TaskId, lease: Option<&LeaseId>) -> Self {
        self.with(Write::Fence { task: task.clone(), lease: lease.cloned() })
    }

    /// Whoever watches is told this once the commit is durable.
    pub fn tell(mut self, event: Event) -> Self {
        self.told.push(event);
        self
    }

    /// Whoever watches is told all of this once the commit is durable.
    pub fn tell_all(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.told.extend(events);
        self
    }

    /// Records that may hold what has become a secret since.
    pub(super) fn look_again(mut self, keys: &[Vec<u8>]) -> Self {
        self.list.extend(keys.iter().cloned().map(|key| Write::LookAgain { key }));
        self
    }

    /// Takes all words out of a record, as it is then, which is one of these kinds. One that is gone stays gone.
    pub fn empty(self, key: Vec<u8>, texts: &'static [Texts]) -> Self {
        self.with(Write::Empty { key, texts })
    }

    /// A commit that cannot be put together is not made.
    pub fn refused(mut self, key: &[u8], error: &serde_json::Error) -> Self {
        self.unwritable
            .get_or_insert_with(|| Unwritable { key: printable(key), reason: error.to_string() });
        self
    }

    fn with(mut self, write: Write) -> Self {
        self.list.push(write);
        self
    }

    /// The changes, for a storage that no store runs on. Entries of logs are not among them: only a store
    /// numbers them.
    pub fn batch(self) -> Result<Batch, StorageError> {
        if let Some(unwritable) = self.unwritable {
            return Err(StorageError::Write(unwritable.to_string()));
        }
        let change = |write| match write {
            Write::Put { key, value } => Some((key, Some(value))),
            Write::Delete { key } => Some((key, None)),
            Write::Append { .. }
            | Write::Fence { .. }
            | Write::ForgetLog { .. }
            | Write::LookAgain { .. }
            | Write::Empty { .. } => None,
        };
        Ok(Batch::from(self.list.into_iter().filter_map(change).collect::<Vec<_>>()))
    }

    /// The keys that this will write; of an entry of a log one that is as long.
    pub(super) fn keys(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.list.iter().filter_map(|write| match write {
            Write::Put { key, .. }
            | Write::Delete { key }
            | Write::LookAgain { key }
            | Write::Empty { key, .. } => Some(Cow::Borrowed(key.as_slice())),
            Write::Append { entry, .. } => Some(Cow::Owned(log::key(&entry.log, 0))),
            Write::Fence { .. } | Write::ForgetLog { .. } => None,
        })
    }

    /// Roughly the bytes that this will write.
    pub(super) fn size(&self) -> usize {
        self.list
            .iter()
            .map(|write| match write {
                Write::Put { key, value } => key.len() + value.len(),
                Write::Append { value, .. } => value.len() + 64,
                Write::Delete { key } | Write::LookAgain { key } | Write::Empty { key, .. } => {
                    key.len()
                }
                Write::Fence { .. } | Write::ForgetLog { .. } => 0,
            })
            .sum()
    }
}

/// Changes of another part that count with a commit.
pub struct Alongside {
    /// What belongs into it.
    pub writes: Writes,
    /// To be done once it is durable. Dropped if it never is.
    pub then: BoxFuture<'static, ()>,
}

/// Room for a row of usual length.
const ROW: usize = 1024;

pub fn encode<T: Serialize + ?Sized>(row: &T) -> serde_json::Result<Vec<u8>> {
    // Most rows fit, so that they are written without being moved.
    let mut value = Vec::with_capacity(ROW);
    serde_json::to_writer(&mut value, row)?;
    Ok(value)
}

/// A record as read. Readers of a store use typed reads, which report what cannot be read.
pub fn decode<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, StorageError> {
    serde_json::from_slice(value)
        .map_err(|error| StorageError::Damaged { key: printable(key), reason: error.to_string() })
}

/// Tells texts apart (FNV-1a): the same on every machine and in every version.
pub fn digest(text: &str) -> u64 {
    digest_on(0xcbf2_9ce4_8422_2325, text)
}

/// The digest of a text of which the beginning has this one.
pub fn digest_on(beginning: u64, text: &str) -> u64 {
    text.bytes()
        .fold(beginning, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
