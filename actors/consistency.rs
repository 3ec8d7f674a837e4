//! Consistency check: whether the records of a store agree with each other. Reads all of them, and blocks.

use std::{collections::HashSet, fmt::Display, hash::Hash, ops::ControlFlow};

use serde::de::DeserializeOwned;

use crate::{
    approvals::{
        question::{Question, QuestionStatus},
        record::{Approval, Status},
        records::{OpenQuestion, PendingApproval},
    },
    channel::records::ChannelRow,
    ids::ChannelId,
    journal::records::Piece,
    router::{records::MessageRow, topics::Topic},
    storage::{Order, Storage, StorageError},
    store::{
        keys::printable,
        reads::{Range, contains, parse, scan},
        records::{Keyed, Record},
    },
    task::records::{EndedTask, FinishedTask, LaneKey},
};

/// What does not agree, one line each. Records that cannot be read are not among it.
pub fn faults(storage: &dyn Storage) -> Result<Vec<String>, StorageError> {
    let mut faults = Vec::new();
    journals(storage, &mut faults)?;
    ends(storage, &mut faults)?;
    waiting(storage, &mut faults)?;
    channels(storage, &mut faults)?;
    Ok(faults)
}

/// Events of a row are numbered on from its key, and rows of a session follow one another. Between rows there
/// may be a gap: what nobody needs any more is removed by turns.
fn journals(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    let mut before: Option<(LaneKey, u64)> = None;
    Range::<Piece<'_>>::all().walk(storage, Order::Rising, &mut |key, piece| {
        let Ok(Piece(events)) = piece else {
            return ControlFlow::Continue(());
        };
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
    let keys = Range::<EndedTask>::all().keys(storage)?;
    let mut ended: HashSet<Vec<u8>> = keys.into_iter().collect();
    Range::all().each(storage, Order::Rising, &mut |FinishedTask(task)| {
        if !ended.remove(&EndedTask::stored_key(&task)) {
            faults.push(format!("the order of ends lacks `{}`", task.id));
        }
        ControlFlow::Continue(())
    })?;
    for key in ended {
        // One whose record is damaged is reported as that.
        let is_there = parse::<EndedTask>(&key).is_some_and(|(_, _, id)| {
            !matches!(contains::<FinishedTask<'_>>(storage, &id), Ok(false))
        });
        if !is_there {
            let name = printable(&key);
            faults.push(format!("the order of ends names `{name}`, which is not there"));
        }
    }
    Ok(())
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
    M: Record + DeserializeOwned,
    R: Keyed + DeserializeOwned,
    R::Key: Eq + Hash + Display,
{
    let marks = scan::<M>(storage, Range::all())?.into_iter().map(key);
    let mut marked: HashSet<R::Key> = marks.collect();
    Range::<R>::all().each(storage, Order::Rising, &mut |row| {
        if marked.remove(&row.key()) != waits(&row) {
            faults.push(format!("the mark of {name} `{}` is wrong", row.key()));
        }
        ControlFlow::Continue(())
    })?;
    let lost = marked.into_iter().filter(|id| matches!(contains::<R>(storage, id), Ok(false)));
    faults.extend(lost.map(|id| format!("{name} `{id}` is marked and not there")));
    Ok(())
}

/// Topics and messages are of channels that are there.
fn channels(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    let keys = Range::<ChannelRow>::all().keys(storage)?;
    let known: HashSet<ChannelId> =
        keys.iter().filter_map(|key| parse::<ChannelRow>(key)).collect();
    let topics = Range::<Topic>::all()
        .keys(storage)?
        .into_iter()
        .map(|key| (parse::<Topic>(&key).map(|(channel, _)| channel), key));
    let messages = Range::<MessageRow>::all()
        .keys(storage)?
        .into_iter()
        .map(|key| (parse::<MessageRow>(&key).map(|(channel, _)| channel), key));
    for (channel, key) in topics.chain(messages) {
        if channel.is_none_or(|channel| !known.contains(&channel)) {
            faults.push(format!("`{}` is of a channel that is not there", printable(&key)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::{
        doubles::{engine::Play, world::World},
        storage::Batch,
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

        let torn: Vec<(&str, Vec<String>)> = ["done/", "end/", "chan/", "hist/"]
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
}
