//! Quarantine of damaged records: one policy for all.
//!
//! A record that cannot be read is left out by its readers and stays where it is. A copy with what can still be
//! read goes into the quarantine, and the operator gets a notice, once. Whoever waited for it is told that it is
//! lost: a task ends as dead, a message that had no topic yet is answered with an error, an event of an inbox is
//! shown as lost.

use std::{collections::HashSet, ops::ControlFlow, sync::Arc};

use actix::Addr;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    channel::{Channel, Deliver, records::OutboxWrites},
    clock::{Clock, Timestamp},
    excerpt,
    frame::{Body, ErrorBody, Frame},
    ids::{Ids, MAIN, TaskId},
    inbox::{InboxEvent, PartlyShown},
    notice::{Notice, NoticeKind},
    router::records::{MessageRow, Undecided},
    storage::{Damage, Order, Storage, StorageError},
    store::{
        StoreHandle,
        keys::{Key, KeyReader, KeyWriter, Parts, key_of, printable},
        reads::{Range, contains, parse, scan},
        records::{Record, Writes, digest},
        redact::{Owner, Texts},
    },
    task::{Audience, Label, Lane, Source, Task, Tasks, cause::Cause},
};

#[cfg(test)]
mod tests;

/// A copy holds at most this much of a record: bytes that are no text take several times their room.
const LARGEST_COPY: usize = 1024 * 1024;
/// A notice shows at most this many characters of it.
const MAX_EXCERPT_CHARACTERS: usize = 300;

pub const TEXTS: &[Texts] = &[Texts::of(Quarantined::KIND, Owner::Main, &["text"])];

/// A copy of a damaged record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantined {
    /// The key of the record, made readable.
    pub record: String,
    pub reason: String,
    pub at: Timestamp,
    /// What it held, as far as it is text.
    pub text: String,
    /// All that it held, if it is not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<Vec<u8>>,
}

crate::records! {
    Quarantined: "quarantine", RecordKey;
}

/// The stored key of the record that was copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordKey(Vec<u8>);

impl RecordKey {
    pub(crate) fn of(record: &[u8]) -> Self {
        Self(record.to_vec())
    }
}

/// The longest key that its copy in the quarantine is named by in full.
const LONGEST_NAMED: usize = 900;

impl Parts for RecordKey {
    /// Keys have a limit, so that of a long one its end is told by its digest.
    fn write(&self, key: &mut KeyWriter) {
        match self.0.get(..LONGEST_NAMED) {
            Some(start) => {
                key.bytes(start);
                key.bytes(format!("{:016x}", digest(&printable(&self.0))).as_bytes());
            }
            None => key.bytes(&self.0),
        }
    }
}

impl Key for RecordKey {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        Some(Self(key.rest().to_vec()))
    }
}

/// The records in the quarantine, oldest first.
pub fn quarantined(storage: &dyn Storage) -> Result<Vec<Quarantined>, StorageError> {
    let mut rows = scan::<Quarantined>(storage, Range::all())?;
    rows.sort_by(|a, b| (a.at, &a.record).cmp(&(b.at, &b.record)));
    Ok(rows)
}

/// Takes the copies of records of a deleted topic out of the quarantine, and their words out of notices.
pub(crate) fn forgetting(
    storage: &dyn Storage,
    records: &[Vec<u8>],
) -> Result<Writes, StorageError> {
    let copy = |record: &Vec<u8>| key_of(Quarantined::KIND, &RecordKey::of(record));
    let copies: HashSet<Vec<u8>> = records.iter().map(copy).collect();
    let kept = Range::<Quarantined>::all().keys(storage)?;
    let names: HashSet<String> = records.iter().map(|record| printable(record)).collect();
    let mut writes = Writes::new().drop_keys(kept.into_iter().filter(|key| copies.contains(key)));
    for notice in scan::<Notice>(storage, Range::all())? {
        let tells = notice.kind == NoticeKind::DamagedRecord;
        if let Some(record) = notice.refs.iter().find(|record| tells && names.contains(*record)) {
            let text = format!("The record `{record}` was damaged. It is gone with its topic.");
            writes = writes.put(&Notice { text, ..notice });
        }
    }
    Ok(writes)
}

/// What the keeper of the quarantine talks to.
pub(crate) struct Keeper {
    pub(crate) store: StoreHandle,
    pub(crate) channel: Addr<Channel>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Ids,
}

impl Keeper {
    /// Puts what was reported so far into the quarantine, before anything else is written, and all that is
    /// reported from now on.
    pub(crate) fn start(self) {
        let storage = self.store.storage().clone();
        let Some(reports) = storage.damage_reports() else { return };
        self.put(&*storage, reports.take());
        crate::spawn::local(async move {
            while let Some(reports) = storage.damage_reports() {
                reports.wait().await;
                self.put(&*storage, reports.take());
            }
        });
    }

    fn put(&self, storage: &dyn Storage, damages: Vec<Damage>) {
        for damage in damages {
            let key = RecordKey::of(&damage.key);
            // Of one that is known from a former start everybody has been told; one that is gone nobody misses.
            if matches!(contains::<Quarantined>(storage, &key), Ok(true))
                || matches!(storage.get(&damage.key), Ok(None))
            {
                continue;
            }
            let now = self.clock.now();
            let writes = Writes::new()
                .put_at(&key, &copy(&damage, now))
                .put(&self.notice(&damage, now))
                .and(consequence(&damage, now));
            let committed = self.store.commit(writes);
            let channel = self.channel.clone();
            crate::spawn::local(async move {
                match committed.await {
                    Ok(frames) => channel.do_send(Deliver { frames }),
                    Err(error) => {
                        tracing::error!(%error, "a damaged record cannot be put into quarantine, and nobody has a notice of it; it stays in the store")
                    }
                }
            });
        }
    }

    fn notice(&self, damage: &Damage, at: Timestamp) -> Notice {
        let record = printable(&damage.key);
        let held = excerpt(damage);
        let text = format!(
            "The record `{record}` is damaged ({}) and is left out. A copy is in quarantine, which `hivewright doctor` lists while the service is stopped. {held}",
            damage.reason
        );
        let (id, text) = (self.ids.notice(), text.trim_end().to_owned());
        Notice { refs: vec![record], ..Notice::new(id, NoticeKind::DamagedRecord, text, at) }
    }
}

/// What can still be read of a record, for a person. Sealed values and hashes say nothing.
fn excerpt(damage: &Damage) -> String {
    let is_credential = ["edge/vault", "edge/token", "edge/session", "edge/grant"]
        .iter()
        .any(|kind| printable(&damage.key).starts_with(kind));
    let text = String::from_utf8_lossy(&damage.held);
    if is_credential || text.trim().is_empty() {
        return String::new();
    }
    match excerpt::split(&text, MAX_EXCERPT_CHARACTERS) {
        (shown, 0) => format!("It holds: {shown}"),
        (shown, left) => format!("It holds: {shown} … ({left} characters more)"),
    }
}

fn copy(damage: &Damage, at: Timestamp) -> Quarantined {
    let held = damage.held.get(..LARGEST_COPY).unwrap_or(&damage.held);
    let is_text = std::str::from_utf8(held).is_ok();
    Quarantined {
        record: printable(&damage.key),
        reason: damage.reason.clone(),
        at,
        text: String::from_utf8_lossy(held).into_owned(),
        bytes: (!is_text).then(|| held.to_vec()),
    }
}

/// What the loss means for whoever waited for what the record held.
fn consequence(damage: &Damage, at: Timestamp) -> Writes {
    if let Some((channel, message)) = parse::<Undecided>(&damage.key) {
        let lost = ErrorBody {
            message_id: Some(message.clone()),
            ..ErrorBody::refusal(
                "internal",
                "this message was damaged in the store and is lost; please send it again"
                    .to_owned(),
            )
        };
        let frame = Frame { topic: None, ts: at, body: Body::Error(lost) };
        return Writes::new()
            .delete::<Undecided>(&(&channel, &message))
            .delete::<MessageRow>(&(&channel, &message))
            .frame(&channel, frame);
    }
    if parse::<InboxEvent>(&damage.key).is_some() || parse::<PartlyShown<'_>>(&damage.key).is_some()
    {
        let event = InboxEvent {
            id: printable(&damage.key),
            text: "[system] An event for you was damaged in the store and is lost; the operator was told."
                .to_owned(),
            label: Label::Trusted,
            at,
            audience: Some(Audience::new(Cause::System, None)),
        };
        return Writes::new().put_json(damage.key.clone(), &event);
    }
    Writes::new()
}

/// The open tasks, with what can still be read of those whose records are damaged, and which these are.
pub(crate) fn open_tasks(storage: &dyn Storage) -> Result<(Tasks, HashSet<TaskId>), StorageError> {
    let (mut tasks, mut damaged) = (Vec::new(), Vec::new());
    Range::<Task>::all().walk(storage, Order::Rising, &mut |key, task| {
        match task {
            Ok(task) => tasks.push(Box::new(task)),
            Err(_) => damaged.extend(parse::<Task>(key).map(|id| (key.to_vec(), id))),
        }
        ControlFlow::Continue(())
    })?;
    let mut lost = HashSet::new();
    for (key, id) in damaged {
        tasks.push(Box::new(lost_task(storage, &key, &id)?));
        lost.insert(id);
    }
    Ok((tasks, lost))
}

/// A task whose record is damaged, with every field that can still be read.
fn lost_task(storage: &dyn Storage, key: &[u8], id: &TaskId) -> Result<Task, StorageError> {
    let lane = Lane { team: MAIN.into(), topic: None };
    let blank = Task::new(id.clone(), lane, String::new(), String::new(), Timestamp::default());
    let held = storage.salvage(key).unwrap_or_default();
    let mut task = salvaged(&blank, &String::from_utf8_lossy(&held));
    if task.source.is_none() {
        task.source = source_of(storage, id)?;
    }
    Ok(Task { id: id.clone(), lease: None, parked: None, outcome: None, ..task })
}

/// Puts every field that can be read alone into a row. In JSON a name in quotes with a colon after it stands
/// nowhere but before its value.
fn salvaged<T: Serialize + DeserializeOwned + Clone>(blank: &T, text: &str) -> T {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(blank) else { return blank.clone() };
    let mut row = blank.clone();
    let mut rest = text;
    while let Some((name, value, after)) = next_field(rest) {
        rest = after;
        let Some(value) = value else { continue };
        let mut tried: Map<String, Value> = fields.clone();
        tried.insert(name, value);
        if let Ok(better) = serde_json::from_value(Value::Object(tried.clone())) {
            row = better;
            fields = tried;
        }
    }
    row
}

/// The next `"name":` of a text with the value behind it, if that is whole, and where to go on.
fn next_field(text: &str) -> Option<(String, Option<Value>, &str)> {
    let colon = text.find("\":")?;
    let start = text[..colon].rfind('"').map_or(0, |quote| quote + 1);
    let (name, after) = (text[start..colon].to_owned(), &text[colon + 2..]);
    let mut values = serde_json::Deserializer::from_str(after).into_iter::<Value>();
    match values.next() {
        Some(Ok(value)) => {
            let read = values.byte_offset();
            Some((name, Some(value), &after[read..]))
        }
        _ => Some((name, None, after)),
    }
}

/// The message that became a task, found by its own row.
fn source_of(storage: &dyn Storage, id: &TaskId) -> Result<Option<Source>, StorageError> {
    let mut source = None;
    Range::<MessageRow>::all().walk(storage, Order::Rising, &mut |key, row| {
        if row.is_ok_and(|row| row.task.as_ref() == Some(id)) {
            source = parse::<MessageRow>(key).map(|(channel, message)| Source {
                message: Some(message),
                ..Source::channel(channel)
            });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(source)
}
