//! Store: the one writer. Gathers what is asked of it into groups, each made durable once.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use actix::{Actor, Addr, AsyncContext, Context, Handler, Message};
use tokio::sync::{oneshot, watch};

use crate::{
    archive::{ArchiveHandle, MoveAll, Written},
    blocking,
    frame::Frame,
    ids::{ChannelId, LeaseId, MAIN, TaskId},
    live::{Publisher, event::Event},
    room::Room,
    search::{Search, SearchPage},
    storage::{Batch, LONGEST_KEY, Storage, StorageError},
};

pub mod keys;
pub mod log;
pub mod reads;
pub mod records;
pub mod redact;
#[cfg(test)]
mod tests;
pub mod tiered;

use log::Logs;
use records::{Append, Unwritable, Write, Writes};
use redact::{Redaction, Texts};

/// A group holds at most this many requests …
const GROUP_REQUESTS: usize = 512;
/// … or this many bytes.
const GROUP_BYTES: usize = 1024 * 1024;
/// Records are looked at again in groups of this many.
const LOOKED_AT: usize = 64;
/// A single request above this is refused rather than stalling everyone.
const LARGEST_COMMIT: usize = 16 * 1024 * 1024;
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(60);
/// So much of a key is shown that is too long.
const SHOWN_KEY: usize = 64;
/// How long a group waits for room on the disk before it is tried again.
const ROOM_PAUSE: Duration = Duration::from_millis(250);

#[derive(Debug, Message)]
#[rtype(result = "()")]
enum Request {
    Commit(Commit),
    /// The gathered group is due.
    Flush,
    /// The group that found no room is due again.
    TryAgain,
}

/// Writes that become durable together, or not at all.
#[derive(Debug)]
struct Commit {
    writes: Writes,
    reply: oneshot::Sender<Answer>,
}

/// What a request comes to: its frames with their places, or why nothing was written.
type Answer = Result<Vec<Numbered>, StoreError>;

/// A group of requests as it goes to the disk.
struct Group {
    batch: Batch,
    answers: Vec<(oneshot::Sender<Answer>, Answer)>,
    told: Vec<Event>,
    began: Instant,
}

/// A frame that is now in its channel's outbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbered {
    pub channel: ChannelId,
    /// Its place among the channel's durable frames, from 1, without gaps.
    pub ordinal: u64,
    pub frame: Arc<Frame>,
}

/// Why a commit was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The task belongs to someone else by now. Nothing was written.
    #[error("the lease of {0} is no longer valid")]
    LeaseLost(TaskId),
    /// The request is larger than the store takes. Nothing was written.
    #[error("{0} bytes are more than one commit may hold")]
    TooLarge(usize),
    /// A row of it does not serialise. Nothing was written.
    #[error(transparent)]
    Unwritable(#[from] Unwritable),
    /// A record that is to lose words cannot be read just now. Nothing was written.
    #[error(transparent)]
    Unreadable(StorageError),
    /// What was written is safe, and the archive has not taken it in.
    #[error("the archive did not take in what was written within {} s", ARCHIVE_TIMEOUT.as_secs())]
    NotArchived,
    /// The store went away before the record was safe. It may or may not be there.
    #[error("the store stopped before the record was safe")]
    Gone,
}

impl StoreError {
    /// What was asked for can never be written: nothing is wrong with the store, and to repeat it is of no use.
    pub fn is_of_the_request(&self) -> bool {
        matches!(self, Self::TooLarge(_) | Self::Unwritable(_))
    }
}

/// How the rest of the spine reaches the store.
#[derive(Clone)]
pub struct StoreHandle {
    address: Addr<Store>,
    storage: Arc<dyn Storage>,
    redaction: Option<Redaction>,
    redactions: watch::Sender<u64>,
    failed: Arc<AtomicBool>,
    unarchived: Arc<AtomicBool>,
    groups: Groups,
    room: Room,
    archive: Option<ArchiveHandle>,
}

impl StoreHandle {
    /// Hands in writes at once, in the order of the calls; the future ends when they are durable.
    pub fn commit(
        &self,
        writes: Writes,
    ) -> impl Future<Output = Result<Vec<Numbered>, StoreError>> + use<> {
        let (reply, answer) = oneshot::channel();
        self.address.do_send(Request::Commit(Commit { writes, reply }));
        async move { answer.await.unwrap_or(Err(StoreError::Gone)) }
    }

    /// What it writes to. Reading blocks.
    pub(crate) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// The last commit could be made. Waits for nothing.
    pub fn is_usable(&self) -> bool {
        !self.failed.load(Ordering::Relaxed)
    }

    /// Whether there is room for new work. Whoever makes some asks first.
    pub fn room(&self) -> &Room {
        &self.room
    }

    /// Finds records of the archive by what they say, on the blocking pool; none where there is no archive.
    pub async fn search(&self, search: Search) -> Result<SearchPage, StorageError> {
        let Some(ArchiveHandle { archive, .. }) = self.archive.clone() else {
            return Ok(SearchPage::default());
        };
        let found = blocking::run(move || archive.search(&search)).await;
        found.unwrap_or_else(|error| Err(StorageError::Read(error.to_string())))
    }

    /// Waits until all that was written so far has moved to the archive, if there is one.
    pub async fn archived(&self) -> Result<(), StoreError> {
        let Some(archive) = &self.archive else { return Ok(()) };
        let moved = archive.move_all.send(MoveAll).await.map_err(|_| StoreError::Gone)?;
        let moved = tokio::time::timeout(ARCHIVE_TIMEOUT, moved).await;
        moved.map_err(|_| StoreError::NotArchived)?.map_err(|_| StoreError::Gone)
    }

    /// Notes whether records can move to the archive.
    pub fn note_archive(&self, works: bool) {
        self.unarchived.store(!works, Ordering::Relaxed);
    }

    /// Records can move to the archive, as far as is known.
    pub fn is_archiving(&self) -> bool {
        !self.unarchived.load(Ordering::Relaxed)
    }

    /// Runs a read on the blocking pool. Nobody hears of what it found before that is durable.
    pub fn read<T: Send + 'static, R>(
        &self,
        read: R,
    ) -> impl Future<Output = Result<T, StorageError>> + Send + use<T, R>
    where
        R: FnOnce(&dyn Storage) -> Result<T, StorageError> + Send + 'static,
    {
        let (storage, groups) = (self.storage.clone(), self.groups.clone());
        async move {
            let read = blocking::run(move || read(&*storage)).await;
            groups.settled().await;
            read.unwrap_or_else(|error| Err(StorageError::Read(error.to_string())))
        }
    }

    /// A name that was made of words which have become a secret since, without them; none if it may
    /// stay.
    pub fn without_secrets(&self, name: &str) -> Option<String> {
        self.redaction.as_ref()?.redactor.clean_name(&MAIN.into(), name)
    }

    /// Takes secrets out of what was written before they were known to be any, if something holds one: that is noted first, so
    /// that it is known whatever comes of the rest. Returns how many records held one. May be repeated.
    pub async fn redact(&self, note: Writes) -> Result<usize, StorageError> {
        let Some(redaction) = self.redaction.clone() else { return Ok(0) };
        let failed = |error: StoreError| StorageError::Write(error.to_string());
        // All that the store took in before it knew is on the disk when this is answered.
        self.commit(Writes::new()).await.map_err(failed)?;
        let (held, mut left) = self.read(move |storage| redaction.held(storage)).await?;
        if !held.is_empty() {
            self.commit(note).await.map_err(failed)?;
        }
        for keys in held.chunks(LOOKED_AT) {
            let again = Writes::new().look_again(keys);
            // A record that cannot be read keeps no other, and is looked at again the next time.
            left = self.commit(again).await.map(drop).map_err(failed).and(left);
        }
        // Whatever comes of the rest: the next try finds nothing in those that are clean.
        if !held.is_empty() {
            self.redactions.send_modify(|redactions| *redactions += 1);
        }
        // What the archive still holds of it is replaced.
        self.archived().await.map_err(failed)?;
        left?;
        Ok(held.len())
    }

    /// How often something was taken out of what had been written. Whoever keeps a copy of that reads it again when
    /// this rises.
    pub fn redactions(&self) -> u64 {
        *self.redactions.borrow()
    }

    /// The same, for whoever waits for it to rise.
    pub fn watch_redactions(&self) -> watch::Receiver<u64> {
        self.redactions.subscribe()
    }
}

impl std::fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StoreHandle")
    }
}

/// Which groups are on their way to the disk. A storage may show a group that it has not made durable yet; whoever told of
/// it would have told of something that a power cut takes back.
#[derive(Clone)]
struct Groups {
    begun: Arc<AtomicU64>,
    ended: watch::Sender<u64>,
}

impl Groups {
    fn new() -> Self {
        Self { begun: Arc::default(), ended: watch::Sender::new(0) }
    }

    /// Waits until all that was begun so far has ended.
    async fn settled(&self) {
        let begun = self.begun.load(Ordering::SeqCst);
        if *self.ended.borrow() < begun {
            // The sender is held here, so it cannot be gone.
            let _ = self.ended.subscribe().wait_for(|ended| *ended >= begun).await;
        }
    }

    /// Does the work of a group.
    fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let number = self.begun.fetch_add(1, Ordering::SeqCst) + 1;
        let done = work();
        self.ended.send_replace(number);
        done
    }
}

/// Told of the error after which nothing can be promised any more. The process ends by it.
pub type OnFailure = Box<dyn Fn(&StorageError) + Send>;

/// Told of each group: how many requests it held and how long it took.
pub type OnGroup = Box<dyn Fn(usize, Duration) + Send>;

/// What a store is made with.
pub struct StoreParts {
    pub storage: Arc<dyn Storage>,
    pub on_failure: OnFailure,
    pub on_group: OnGroup,
    /// Tells whoever watches of what became durable.
    pub live: Option<Publisher>,
    /// Where what is over moves.
    pub archive: Option<ArchiveHandle>,
    /// What is written to no record.
    pub redaction: Option<Redaction>,
}

impl StoreParts {
    /// A store by itself. What fails is found out by whoever waits for it.
    pub fn of(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            on_failure: Box::new(|_| {}),
            on_group: Box::new(|_, _| {}),
            live: None,
            archive: None,
            redaction: None,
        }
    }
}

/// The one writer. It blocks while it writes, so it lives alone on its arbiter.
pub struct Store {
    storage: Arc<dyn Storage>,
    on_failure: OnFailure,
    on_group: OnGroup,
    live: Option<Publisher>,
    archive: Option<ArchiveHandle>,
    /// A commit failed: nothing is answered any more.
    failed: Arc<AtomicBool>,
    groups: Groups,
    waiting: Vec<Commit>,
    waiting_bytes: usize,
    /// The group that found no room on the disk. Those behind it wait.
    held: Option<Group>,
    /// Leases that this process granted and that are still good.
    leases: HashMap<TaskId, LeaseId>,
    logs: Logs,
    redaction: Option<Redaction>,
}

impl Store {
    /// Starts the store on its arbiter.
    pub fn start(arbiter: &actix::ArbiterHandle, parts: StoreParts) -> StoreHandle {
        let StoreParts { storage, on_failure, on_group, live, archive, redaction } = parts;
        let failed = Arc::new(AtomicBool::new(false));
        let groups = Groups::new();
        let store = Self {
            groups: groups.clone(),
            redaction: redaction.clone(),
            storage: storage.clone(),
            on_failure,
            on_group,
            live,
            archive: archive.clone(),
            failed: failed.clone(),
            waiting: Vec::new(),
            waiting_bytes: 0,
            held: None,
            leases: HashMap::new(),
            logs: Logs::default(),
        };
        StoreHandle {
            address: Self::start_in_arbiter(arbiter, |_| store),
            storage,
            redaction,
            redactions: watch::Sender::new(0),
            failed,
            unarchived: Arc::default(),
            groups,
            room: Room::default(),
            archive,
        }
    }

    fn gather(&mut self, commit: Commit, ctx: &mut Context<Self>) {
        if self.failed.load(Ordering::Relaxed) {
            return;
        }
        if self.waiting.is_empty() {
            // The mailbox is drained before this arrives: all that has gathered meanwhile shares
            // one flush.
            ctx.notify(Request::Flush);
        }
        self.waiting_bytes += commit.writes.size();
        self.waiting.push(commit);
        if self.waiting.len() >= GROUP_REQUESTS || self.waiting_bytes >= GROUP_BYTES {
            self.flush(ctx);
        }
    }

    fn flush(&mut self, ctx: &mut Context<Self>) {
        if self.held.is_some() || self.waiting.is_empty() {
            return;
        }
        let requests = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let mut group = Group {
            batch: Batch::default(),
            answers: Vec::with_capacity(requests.len()),
            told: Vec::new(),
            began: Instant::now(),
        };
        for Commit { mut writes, reply } in requests {
            if let Err(refusal) = self.admit(&writes) {
                group.answers.push((reply, Err(refusal)));
                continue;
            }
            let (told, before) = (std::mem::take(&mut writes.told), group.batch.changes.len());
            let applied = self.apply(writes, &mut group.batch);
            match &applied {
                Ok(_) => group.told.extend(told),
                // By now the store has failed: nothing is answered.
                Err(StoreError::Gone) => return,
                Err(_) => group.batch.changes.truncate(before),
            }
            group.answers.push((reply, applied));
        }
        self.write(group, ctx);
    }

    /// Makes a group durable, and answers. One that finds no room is kept and tried again: nobody was
    /// answered yet, and what it holds must not be lost.
    fn write(&mut self, group: Group, ctx: &mut Context<Self>) {
        if group.batch != Batch::default() {
            match self.groups.run(|| self.storage.commit(&group.batch)) {
                Ok(()) => {}
                Err(StorageError::Full) => {
                    self.held = Some(group);
                    ctx.notify_later(Request::TryAgain, ROOM_PAUSE);
                    return;
                }
                Err(error) => return self.fail(&error),
            }
        }
        let Group { answers, told, began, batch } = group;
        let requests = answers.len();
        // Before the answers: whoever has one may ask for all that has happened so far.
        if let Some(live) = &self.live {
            live.publish_all(told);
        }
        for (reply, outcome) in answers {
            // Whoever asked may have gone; the record is safe all the same.
            let _ = reply.send(outcome);
        }
        (self.on_group)(requests, began.elapsed());
        if let Some(archive) = self.archive.as_ref().filter(|_| !batch.changes.is_empty()) {
            archive.written.do_send(Written);
        }
    }

    /// Each request of a group stands for itself: a refused one takes no other with it.
    fn admit(&self, writes: &Writes) -> Result<(), StoreError> {
        if let Some((task, lease)) = &writes.guard
            && self.leases.get(task) != Some(lease)
        {
            return Err(StoreError::LeaseLost(task.clone()));
        }
        if let Some(unwritable) = &writes.unwritable {
            tracing::error!(error = %unwritable, "a commit is refused");
            return Err(unwritable.clone().into());
        }
        if let Some(key) = writes.keys().find(|key| key.len() > LONGEST_KEY) {
            let reason = format!("its key has {} bytes, more than {LONGEST_KEY}", key.len());
            let unwritable = Unwritable { key: shortened(&key), reason };
            tracing::error!(error = %unwritable, "a commit is refused");
            return Err(unwritable.into());
        }
        let size = writes.size();
        if size > LARGEST_COMMIT {
            return Err(StoreError::TooLarge(size));
        }
        Ok(())
    }

    fn apply(&mut self, writes: Writes, batch: &mut Batch) -> Answer {
        let mut numbered = Vec::new();
        let mut joining = None;
        for write in writes.list {
            match write {
                Write::Put { key, value } => {
                    let value = self.redacted(&key, &value).unwrap_or(value);
                    batch.changes.push((key, Some(value)));
                }
                Write::Delete { key } => batch.changes.push((key, None)),
                Write::LookAgain { key } => {
                    // What this very group writes has been looked at.
                    if batch.changes.iter().any(|(other, _)| *other == key) {
                        continue;
                    }
                    let value = match self.storage.get(&key) {
                        Ok(value) => value.and_then(|it| self.redacted(&key, &it)).map(Some),
                        // It held a secret before, and nobody will read it again.
                        Err(StorageError::Damaged { .. }) => Some(None),
                        Err(error) => return Err(StoreError::Unreadable(error)),
                    };
                    batch.changes.extend(value.map(|value| (key, value)));
                }
                Write::Empty { key, texts } => {
                    let value = self.emptied(&key, texts, batch).map_err(StoreError::Unreadable)?;
                    batch.changes.push((key, value));
                }
                Write::Fence { task, lease } => {
                    match lease {
                        Some(lease) => self.leases.insert(task, lease),
                        None => self.leases.remove(&task),
                    };
                }
                Write::Append { entry, value } => {
                    let appended = self.append(entry, value, &mut joining, batch);
                    numbered.push(appended.map_err(|error| {
                        self.fail(&error);
                        StoreError::Gone
                    })?);
                }
                Write::ForgetLog { log } => self.logs.forget(&log),
            }
        }
        Ok(numbered)
    }

    /// A record without its words; none if there is none. One that is damaged will never be read, so it goes whole.
    fn emptied(
        &self,
        key: &[u8],
        texts: &[Texts],
        batch: &Batch,
    ) -> Result<Option<Vec<u8>>, StorageError> {
        let written = batch.changes.iter().rev().find(|(other, _)| *other == key);
        let value = match written {
            Some((_, value)) => Ok(value.clone()),
            None => self.storage.get(key),
        };
        let emptied = match value {
            Ok(None) => return Ok(None),
            Ok(Some(value)) => Texts::emptied(texts, key, &value),
            Err(StorageError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        if emptied.is_none() {
            let record = keys::printable(key);
            tracing::error!(record, "a damaged record that is to lose its words is removed whole");
        }
        Ok(emptied)
    }

    /// Numbers an entry of a log. `joining` is the key of the entry of this commit that the one directly behind it
    /// takes in.
    fn append(
        &mut self,
        Append { log, channel, frame, joins_next }: Append,
        value: Vec<u8>,
        joining: &mut Option<Vec<u8>>,
        batch: &mut Batch,
    ) -> Result<Numbered, StorageError> {
        let ordinal = self.logs.next(&*self.storage, &log)?;
        let key = log::key(&log, ordinal);
        let mut value = self.redacted(&key, &value).unwrap_or(value);
        let before = log::key(&log, ordinal - 1);
        let mut is_plain = true;
        if joining.take().as_ref() == Some(&before)
            && let Some((_, Some(joined))) = batch.changes.pop_if(|(last, _)| *last == before)
        {
            value = log::joined(&joined, &value);
            is_plain = false;
        }
        // A reader looks one entry deep: a record that has taken one in is not taken in itself.
        *joining = (joins_next && is_plain).then(|| key.clone());
        batch.changes.push((key, Some(value)));
        Ok(Numbered { channel, ordinal, frame })
    }

    /// A record without secrets; none if it is to be written as it is.
    fn redacted(&self, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        self.redaction.as_ref()?.redacted(key, value)
    }

    /// After a failed sync nobody knows what is on the disk: nothing is answered, and the next
    /// start finds out.
    fn fail(&mut self, error: &StorageError) {
        self.failed.store(true, Ordering::Relaxed);
        (self.on_failure)(error);
    }
}

impl Actor for Store {
    type Context = Context<Self>;
}

impl Handler<Request> for Store {
    type Result = ();

    fn handle(&mut self, request: Request, ctx: &mut Self::Context) {
        match request {
            Request::Commit(commit) => self.gather(commit, ctx),
            Request::Flush => self.flush(ctx),
            Request::TryAgain => {
                if let Some(group) = self.held.take() {
                    self.write(group, ctx);
                    self.flush(ctx);
                }
            }
        }
    }
}

/// The beginning of a key that is too long, for people.
fn shortened(key: &[u8]) -> String {
    format!("{}…", keys::printable(&key[..SHOWN_KEY.min(key.len())]))
}
