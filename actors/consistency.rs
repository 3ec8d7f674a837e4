//! Consistency check: whether the records of a store agree with each other. Reads all of them, and blocks.

use std::{collections::HashSet, fmt::Display, ops::ControlFlow};

use serde::de::DeserializeOwned;

use crate::{
    approvals::{
        question::{Question, QuestionStatus},
        record::{Approval, Status},
        records::{OpenQuestion, PendingApproval, ShortId, each_waiting},
    },
    channel::records::ChannelRow,
    ids::ChannelId,
    journal::records::Piece,
    router::{
        records::{MessageRow, TopicChannel},
        topics::Topic,
    },
    storage::{Order, Storage, StorageError},
    store::{
        keys::{KeyOf, printable},
        reads::{Range, contains, get, parse},
        records::{Keyed, Record},
    },
    task::records::{EndedTask, FinishedTask, LaneKey},
};

/// What does not agree, one line each. Records that cannot be read are not among it.
///
/// Records may change meanwhile, and of two that are written together one may be seen before the other: what is a fault is
/// found again.
pub fn faults(storage: &dyn Storage) -> Result<Vec<String>, StorageError> {
    let mut faults = look(storage)?;
    if !faults.is_empty() {
        let again: HashSet<String> = look(storage)?.into_iter().collect();
        faults.retain(|fault| again.contains(fault));
    }
    Ok(faults)
}

fn look(storage: &dyn Storage) -> Result<Vec<String>, StorageError> {
    let mut faults = Vec::new();
    journals(storage, &mut faults)?;
    ends(storage, &mut faults)?;
    waiting(storage, &mut faults)?;
    names(storage, &mut faults)?;
    channels(storage, &mut faults)?;
    Ok(faults)
}

/// Whether a record is not there. One that is damaged is, and is reported as that.
fn lacks<R: Record>(storage: &dyn Storage, key: &impl KeyOf<R::Key>) -> bool {
    matches!(contains::<R>(storage, key), Ok(false))
}

/// Events of a row are numbered on from its key, and rows of a session follow one another. Between rows there
/// may be a gap: what nobody needs any more is removed by turns.
fn journals(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    let mut before: Option<(LaneKey, u64)> = None;
    Range::<Piece<'_>>::all().walk(storage, Order::Rising, &mut |key, piece| {
        let Ok(Piece(events)) = piece else { return ControlFlow::Continue(()) };
        let place = parse::<Piece<'_>>(key);
        let first = place.as_ref().map(|(_, first)| *first);
        let mut numbered = events.iter().zip(first.unwrap_or_default()..);
        if first.is_none() || numbered.any(|(event, seq)| event.seq != seq) {
            let name = printable(key);
            faults.push(format!("the events of `{name}` are not numbered one by one"));
        }
        if let (Some((same, last)), Some((lane, first))) = (&before, &place)
            && same == lane
            && first <= last
        {
            faults.push(format!("`{}` has numbers of the row before it", printable(key)));
        }
        before = place.zip(events.last()).map(|((lane, _), event)| (lane, event.seq));
        ControlFlow::Continue(())
    })
}

/// The order of ends names all finished tasks and no others.
fn ends(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    Range::all().for_each(storage, &mut |FinishedTask(task)| {
        if lacks::<EndedTask>(storage, &EndedTask::key_of(&task)) {
            faults.push(format!("the order of ends lacks `{}`", task.id));
        }
    })?;
    Range::<EndedTask>::all().visit(storage, Order::Rising, &mut |key, _| {
        let id = parse::<EndedTask>(key).map(|(_, _, id)| id);
        if id.is_none_or(|id| lacks::<FinishedTask<'_>>(storage, &id)) {
            let name = printable(key);
            faults.push(format!("the order of ends names `{name}`, which is not there"));
        }
        ControlFlow::Continue(())
    })
}

/// What waits for a person is marked, and what is marked waits.
fn waiting(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    marks(
        storage,
        "approval",
        faults,
        |PendingApproval(id)| id,
        |row: &Approval| row.status == Status::Pending,
    )?;
    marks(
        storage,
        "question",
        faults,
        |OpenQuestion(id)| id,
        |row: &Question| row.status == QuestionStatus::Open,
    )
}

/// The rows of a kind that wait have marks, and no others have.
fn marks<M, R>(
    storage: &dyn Storage,
    name: &str,
    faults: &mut Vec<String>,
    key: impl Fn(M) -> R::Key,
    waits: impl Fn(&R) -> bool,
) -> Result<(), StorageError>
where
    M: Record<Key = R::Key> + DeserializeOwned,
    R: Keyed + DeserializeOwned,
    R::Key: KeyOf<R::Key> + Display,
{
    Range::<R>::all().for_each(storage, &mut |row| {
        if lacks::<M>(storage, &row.key()) == waits(&row) {
            faults.push(format!("the mark of {name} `{}` is wrong", row.key()));
        }
    })?;
    Range::<M>::all().for_each(storage, &mut |mark| {
        let id = key(mark);
        if lacks::<R>(storage, &id) {
            faults.push(format!("{name} `{id}` is marked and not there"));
        }
    })
}

/// Short ids of approvals and the channels of topics lead to what is there, and who waits has its short id.
fn names(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    Range::<ShortId>::all().for_each_keyed(storage, &mut |name, ShortId(id)| {
        if lacks::<Approval>(storage, &id) {
            faults.push(format!("the short id `{name}` names approval `{id}`, which is not there"));
        }
    })?;
    each_waiting(storage, &mut |row: Approval| {
        let named = get::<ShortId>(storage, row.short_id.as_str());
        // One that is damaged is reported as such.
        if let Ok(named) = named
            && named.is_none_or(|ShortId(id)| id != row.id)
        {
            faults.push(format!("the short id of approval `{}` does not name it", row.id));
        }
    })?;
    Range::<TopicChannel>::all().for_each_keyed(storage, &mut |topic, TopicChannel(channel)| {
        if lacks::<Topic>(storage, &(&channel, &topic)) {
            faults.push(format!("the index of topics has `{topic}` in a channel that lacks it"));
        }
    })
}

/// Topics and messages are of channels that are there.
fn channels(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    let channel = |key: &[u8]| parse::<Topic>(key).map(|(channel, _)| channel);
    of_channels(storage, faults, Range::<Topic>::all(), channel)?;
    let channel = |key: &[u8]| parse::<MessageRow>(key).map(|(channel, _)| channel);
    of_channels(storage, faults, Range::<MessageRow>::all(), channel)
}

fn of_channels<R: Record>(
    storage: &dyn Storage,
    faults: &mut Vec<String>,
    range: Range<R>,
    channel: impl Fn(&[u8]) -> Option<ChannelId>,
) -> Result<(), StorageError> {
    // The rows of a channel follow one another.
    let mut last: Option<(ChannelId, bool)> = None;
    range.visit(storage, Order::Rising, &mut |key, _| {
        let known = match channel(key) {
            Some(channel) if last.as_ref().is_some_and(|(last, _)| *last == channel) => last.take(),
            channel => channel.map(|it| {
                let is_there = !lacks::<ChannelRow>(storage, &it);
                (it, is_there)
            }),
        };
        if known.as_ref().is_none_or(|(_, is_there)| !is_there) {
            faults.push(format!("`{}` is of a channel that is not there", printable(key)));
        }
        last = known;
        ControlFlow::Continue(())
    })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::{
        doubles::{disk::MemoryStorage, engine::Play, world::World},
        storage::{Batch, Visit},
        store::keys::{after_prefix, prefix_of},
    };

    /// SC-111
    #[actix::test]
    async fn a_sound_store_has_no_faults_and_a_torn_one_does() {
        let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
        let client = world.connect(&world.start());
        for message in ["m1", "m2"] {
            client.say(message, "water the garden");
            client.hear_end_of(message).await;
        }
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let sound = faults(&*world.disk.mount(None)).unwrap();

        let torn: Vec<(&str, Vec<String>)> = ["done/", "end/", "chan/", "hist/", "topic/"]
            .into_iter()
            .map(|kind| {
                let storage = world.disk.copied().mount(None);
                let mut keys = Vec::new();
                storage
                    .scan(b"", &[0xff], Order::Rising, &mut |key, _| {
                        if printable(key).starts_with(kind) {
                            keys.push(key.to_vec());
                        }
                        ControlFlow::Continue(())
                    })
                    .unwrap();
                let key = keys.remove(0);
                let changes = match kind {
                    // Under another number.
                    "hist/" => {
                        let value = storage.get(&key).unwrap();
                        let mut other = key.clone();
                        *other.last_mut().unwrap() += 1;
                        vec![(key, None), (other, value)]
                    }
                    _ => vec![(key, None)],
                };
                storage.commit(&Batch::from(changes)).unwrap();
                (kind, faults(&*storage).unwrap())
            })
            .collect();

        assert_eq!(sound, Vec::<String>::new());
        for (kind, found) in torn {
            assert!(!found.is_empty(), "{kind}");
        }
    }

    /// A storage from which a task and its end go while they are looked at.
    struct Busy {
        storage: Arc<MemoryStorage>,
        gone: Mutex<Option<Batch>>,
    }

    impl Storage for Busy {
        fn commit(&self, batch: &Batch) -> Result<(), StorageError> {
            self.storage.commit(batch)
        }

        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
            if key.starts_with(EndedTask::KIND.as_bytes())
                && let Some(gone) = self.gone.lock().unwrap().take()
            {
                self.storage.commit(&gone)?;
            }
            self.storage.get(key)
        }

        fn scan(
            &self,
            start: &[u8],
            end: &[u8],
            order: Order,
            visit: &mut Visit<'_>,
        ) -> Result<(), StorageError> {
            self.storage.scan(start, end, order, visit)
        }
    }

    /// SC-111: what a service does beside the check is no fault.
    #[actix::test]
    async fn what_goes_while_it_is_looked_at_is_no_fault() {
        let world = World::new(|_| vec![Play::Say("Fine."), Play::Answer]);
        let client = world.connect(&world.start());
        client.say("m1", "water the garden");
        client.hear_end_of("m1").await;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        let storage = world.disk.copied().mount(None);
        let mut gone = Vec::new();
        let both = [FinishedTask::KIND, EndedTask::KIND].map(|kind| prefix_of(kind, &()));
        for prefix in both {
            storage
                .scan(&prefix, &after_prefix(&prefix), Order::Rising, &mut |key, _| {
                    gone.push((key.to_vec(), None));
                    ControlFlow::Continue(())
                })
                .unwrap();
        }
        let busy = Busy { storage, gone: Mutex::new(Some(Batch::from(gone))) };

        let found = faults(&busy).unwrap();

        assert_eq!(found, Vec::<String>::new());
        assert_eq!(*busy.gone.lock().unwrap(), None);
    }
}
