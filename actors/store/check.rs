//! Consistency check: whether the records of a store agree with each other. Reads all of them, and blocks.

use std::{collections::HashSet, ops::ControlFlow};

use super::{
    damage::{one, row},
    records::{self, printable},
    scan_prefix,
};
use crate::{
    approvals::{
        question::{Question, QuestionStatus},
        record::{Approval, Status},
    },
    history::HistoryEvent,
    ids::{ApprovalId, QuestionId},
    storage::{Order, Storage, StorageError},
    task::Task,
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
    let mut before: Option<(Vec<u8>, u64)> = None;
    let prefix = records::journals_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        let Some(events) = row::<Vec<HistoryEvent>>(storage, key, value) else {
            return ControlFlow::Continue(());
        };
        let session = key[..key.len().saturating_sub(8)].to_vec();
        let first = records::number_at_end(key);
        let mut numbered = events.iter().zip(first.unwrap_or_default()..);
        if first.is_none() || numbered.any(|(event, seq)| event.seq != seq) {
            let name = printable(key);
            faults.push(format!("the events of `{name}` are not numbered one by one"));
        }
        if let Some((same, last)) = &before
            && *same == session
            && first.is_some_and(|first| first <= *last)
        {
            faults.push(format!("`{}` has numbers of the row before it", printable(key)));
        }
        before = events.last().map(|event| (session, event.seq));
        ControlFlow::Continue(())
    })
}

/// The order of ends names all finished tasks and no others.
fn ends(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    let mut ended = HashSet::new();
    let prefix = records::ended_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, _| {
        ended.insert(key.to_vec());
        ControlFlow::Continue(())
    })?;
    let prefix = records::finished_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        if let Some(task) = row::<Task>(storage, key, value)
            && !ended.remove(&records::ended_key(&task))
        {
            faults.push(format!("the order of ends lacks `{}`", task.id));
        }
        ControlFlow::Continue(())
    })?;
    for key in ended {
        let found = records::ended_task(&key, &[]).map(|ended| ended.id);
        // One whose record is damaged is reported as that.
        let is_there = match &found {
            Some(id) => !matches!(storage.get(&records::finished_key(id)), Ok(None)),
            None => false,
        };
        if !is_there {
            let name = printable(&key);
            faults.push(format!("the order of ends names `{name}`, which is not there"));
        }
    }
    Ok(())
}

/// What waits for a person is marked, and what is marked waits.
fn waiting(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    let mut marked = HashSet::new();
    let marks = records::approval_marks();
    scan_prefix(storage, &marks, Order::Rising, &mut |key, value| {
        marked.extend(row::<ApprovalId>(storage, key, value));
        ControlFlow::Continue(())
    })?;
    let prefix = records::approvals_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        if let Some(approval) = row::<Approval>(storage, key, value)
            && marked.remove(&approval.id) != (approval.status == Status::Pending)
        {
            faults.push(format!("the mark of approval `{}` is wrong", approval.id));
        }
        ControlFlow::Continue(())
    })?;
    let lost = marked.into_iter().filter(|id| {
        let found = one::<Approval>(storage, &records::approval_key(id));
        matches!(found, Ok(None))
    });
    faults.extend(lost.map(|id| format!("approval `{id}` is marked and not there")));
    let mut marked = HashSet::new();
    let marks = records::question_marks();
    scan_prefix(storage, &marks, Order::Rising, &mut |key, value| {
        marked.extend(row::<QuestionId>(storage, key, value));
        ControlFlow::Continue(())
    })?;
    let prefix = records::questions_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, value| {
        if let Some(question) = row::<Question>(storage, key, value)
            && marked.remove(&question.id) != (question.status == QuestionStatus::Open)
        {
            faults.push(format!("the mark of question `{}` is wrong", question.id));
        }
        ControlFlow::Continue(())
    })?;
    let lost = marked.into_iter().filter(|id| {
        let found = one::<Question>(storage, &records::question_key(id));
        matches!(found, Ok(None))
    });
    faults.extend(lost.map(|id| format!("question `{id}` is marked and not there")));
    Ok(())
}

/// Topics and messages are of channels that are there.
fn channels(storage: &dyn Storage, faults: &mut Vec<String>) -> Result<(), StorageError> {
    let mut known = HashSet::new();
    let prefix = records::channels_prefix();
    scan_prefix(storage, &prefix, Order::Rising, &mut |key, _| {
        known.insert(key[prefix.len()..].to_vec());
        ControlFlow::Continue(())
    })?;
    for prefix in [records::topics_prefix(), records::messages_prefix()] {
        scan_prefix(storage, &prefix, Order::Rising, &mut |key, _| {
            let channel = key[prefix.len()..].split(|byte| *byte == 0).next();
            if channel.is_none_or(|channel| !known.contains(channel)) {
                faults.push(format!("`{}` is of a channel that is not there", printable(key)));
            }
            ControlFlow::Continue(())
        })?;
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
                storage.commit(&Batch { changes }).unwrap();
                (kind, faults(&*storage).unwrap())
            })
            .collect();

        assert_eq!(sound, Vec::<String>::new());
        for (kind, found) in torn {
            assert!(!found.is_empty(), "{kind}");
        }
    }
}
