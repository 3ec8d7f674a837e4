//! Keys as the archive has them: the id of a task as the number that it is.
//!
//! A task's id stands in its row, in each index of it, and in what is listed and found by it: `task-` and sixteen digits are
//! nine bytes then. The order of keys stays, also among those that are no such id, so a range of keys is a range of rows.

use std::borrow::Cow;

use hivewright_actors::{
    conversation_log::ConversationEntry,
    ids::TaskId,
    store::records::Record,
    task::records::{EndedTask, FinishedTask},
};

/// What an id begins with, and the digits behind that.
const NAME: &[u8] = b"task-";
const DIGITS: usize = 16;
const HEX: &[u8] = b"0123456789abcdef";
/// The first byte: of what comes before all ids, of an id, and of what comes behind them.
const BEFORE: u8 = 0;
const ID: u8 = 1;
const BEHIND: u8 = 2;

/// How the keys of an archive are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    /// As they are: in archives of the first version.
    Plain,
    Short,
}

impl Keys {
    /// The rest of a key of a kind, or a bound of such rests, as it is stored.
    pub(super) fn stored<'a>(self, kind: &str, rest: &'a [u8]) -> Cow<'a, [u8]> {
        match self.parts(kind, rest) {
            Some((before, id)) => [before, &shorten(id)].concat().into(),
            None => rest.into(),
        }
    }

    /// The rest of a key from how it is stored.
    pub(super) fn rest<'a>(self, kind: &str, stored: &'a [u8]) -> Cow<'a, [u8]> {
        match self.parts(kind, stored) {
            Some((before, id)) => [before, &lengthen(id)].concat().into(),
            None => stored.into(),
        }
    }

    pub(super) fn of_task(self, id: &TaskId) -> Vec<u8> {
        self.stored(FinishedTask::KIND, id.as_str().as_bytes()).into_owned()
    }

    pub(super) fn task(self, stored: &[u8]) -> TaskId {
        TaskId::from(&*String::from_utf8_lossy(&self.rest(FinishedTask::KIND, stored)))
    }

    /// What stands before the id of a task, and the id; none if there is none, or the bound ends before.
    fn parts<'a>(self, kind: &str, rest: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        const TIME: usize = size_of::<u64>();
        let behind_text = |rest: &[u8]| rest.iter().position(|byte| *byte == 0).map(|end| end + 1);
        let before = match (self, kind) {
            (Self::Short, FinishedTask::KIND) => 0,
            (Self::Short, EndedTask::KIND) => TIME + behind_text(rest.get(TIME..)?)?,
            (Self::Short, ConversationEntry::KIND) => behind_text(rest)? + TIME,
            _ => return None,
        };
        rest.split_at_checked(before)
    }
}

/// Makes the name of a task short, so that what is compared as bytes keeps its order.
fn shorten(name: &[u8]) -> Vec<u8> {
    let Some(digits) = name.strip_prefix(NAME) else {
        return [&[if name < NAME { BEFORE } else { BEHIND }], name].concat();
    };
    let Some(number) = greatest_up_to(digits) else { return [&[BEFORE], name].concat() };
    // What is no id stands, whole, behind the id before it.
    let is_id = digits.len() == DIGITS && digits.iter().all(|digit| HEX.contains(digit));
    let more: &[u8] = if is_id { &[] } else { digits };
    [&[ID], &number.to_be_bytes()[..], more].concat()
}

fn lengthen(stored: &[u8]) -> Vec<u8> {
    match stored.split_first() {
        Some((&ID, rest)) => match rest.split_first_chunk() {
            Some((number, [])) => {
                [NAME, format!("{:016x}", u64::from_be_bytes(*number)).as_bytes()].concat()
            }
            Some((_, digits)) => [NAME, digits].concat(),
            None => rest.to_vec(),
        },
        Some((_, name)) => name.to_vec(),
        None => Vec::new(),
    }
}

/// The greatest number whose sixteen digits are not behind a text; none if all are.
fn greatest_up_to(text: &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..DIGITS {
        let byte = text.get(place);
        let smaller = HEX.iter().filter(|digit| byte.is_some_and(|byte| *digit < byte)).count();
        let next = (u128::from(number) << 4) + smaller as u128;
        if !byte.is_some_and(|byte| HEX.contains(byte)) {
            let behind = next << (4 * (DIGITS - 1 - place));
            return u64::try_from(behind.checked_sub(1)?).ok();
        }
        number = u64::try_from(next).ok()?;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of tasks, and bounds between them, in order.
    fn names() -> Vec<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = [
            "",
            "a",
            "t-1",
            "tas",
            "task",
            "task,",
            "task-",
            "task-0",
            "task-000000000000000",
            "task-0000000000000000",
            "task-00000000000000000",
            "task-0000000000000001",
            "task-1",
            "task-183450936ae807b",
            "task-183450936ae807b0",
            "task-183450936ae807b0\0",
            "task-183450936ae807b0-2",
            "task-183450936ae807b1",
            "task-183450936ae807bg",
            "task-183450936AE807b0",
            "task-18345:",
            "task-2",
            "task-f",
            "task-fffffffffffffffe",
            "task-ffffffffffffffff",
            "task-ffffffffffffffff0",
            "task-fg",
            "task-g",
            "task.",
            "task/1",
            "u",
            "zeta",
            "\u{10ffff}",
        ]
        .map(Into::into)
        .to_vec();
        names.push(vec![0xff]);
        names.sort_unstable();
        names
    }

    #[test]
    fn short_keys_have_the_order_of_the_keys_and_come_back_as_they_were() {
        let time = 0x0000_01a1_ec36_ebc6_u64.to_be_bytes();
        let kinds: [(&str, Vec<u8>); 3] = [
            (FinishedTask::KIND, Vec::new()),
            (EndedTask::KIND, [&time[..], b"main\0"].concat()),
            (ConversationEntry::KIND, [b"t-1\0", &time[..]].concat()),
        ];
        for (kind, before) in kinds {
            let mut rests: Vec<Vec<u8>> =
                names().iter().map(|name| [&*before, name].concat()).collect();
            // Bounds that end before the id.
            rests.extend((0..before.len()).map(|end| before[..end].to_vec()));
            rests.sort_unstable();
            let stored: Vec<_> = rests.iter().map(|it| Keys::Short.stored(kind, it)).collect();

            assert!(stored.is_sorted_by(|one, next| one < next), "{kind}: {stored:?}");
            for (rest, stored) in rests.iter().zip(&stored) {
                assert_eq!(&*Keys::Short.rest(kind, stored), rest);
                assert_eq!(&*Keys::Plain.stored(kind, rest), rest);
            }
        }
        assert_eq!(Keys::Short.of_task(&"task-183450936ae807b0".into()).len(), 9);
    }
}
