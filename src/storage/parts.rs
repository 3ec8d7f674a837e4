//! Values too large for one record: split into parts that stand in a reserved range of keys.
//!
//! sled keeps a page in one log message, and gives a message above a quarter of its segment a file
//! of its own, which it doesn't sync. A leaf page holds up to 20 records (16, and 4 when it merges), so records
//! must stay below a twentieth of that: [`WHOLE`] and [`LONGEST_KEY`] are chosen for the segment size
//! in `build.rs`, and a test holds them to it.

use std::collections::HashSet;

pub(super) use hivewright_actors::storage::LONGEST_KEY;

use super::envelope::{self, Form};

/// The largest payload that one record holds.
pub(super) const WHOLE: usize = 16 * 1024;
/// The largest value. What is larger is refused instead of stalling everyone behind it.
pub(super) const LARGEST: usize = 16 * 1024 * 1024;

/// Keys from here on are the store's own. Text never holds this byte.
pub(super) const RESERVED: &[u8] = b"\xff";
/// The records that describe the store itself.
pub(super) const META: &[u8] = b"\xffmeta/";
const PARTS: &[u8] = b"\xffpart/";
/// The log of records that are not in the archive yet, see `pending.rs`.
pub(super) const LOG: &[u8] = b"\xfflog/";

pub(super) fn part_key(key: &[u8], index: u32) -> Vec<u8> {
    [PARTS, key, &index.to_be_bytes()].concat()
}

/// Whether a key found between two part keys of `key` is a part of it, not of a longer key.
pub(super) fn is_part_of(key: &[u8], found: &[u8]) -> bool {
    found.len() == PARTS.len() + key.len() + 4
}

/// The keys whose values stand in parts.
pub(super) fn split_keys(database: &::sled::Db) -> ::sled::Result<HashSet<Vec<u8>>> {
    let parts = database.scan_prefix(PARTS).keys();
    let key_of = |part: ::sled::IVec| part[PARTS.len()..part.len().saturating_sub(4)].to_vec();
    parts.map(|part| part.map(key_of)).collect()
}

/// The records that hold a value, first the one under the key itself.
pub(super) fn split(schema: u16, key: &[u8], value: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    if value.len() <= WHOLE {
        let sealed = envelope::seal(Form::Whole, schema, key, value);
        return vec![(key.to_vec(), sealed)];
    }
    let mut records = vec![(key.to_vec(), Vec::new())];
    let mut count: u32 = 0;
    for part in value.chunks(WHOLE) {
        let part_key = part_key(key, count);
        let sealed = envelope::seal(Form::Whole, schema, &part_key, part);
        records.push((part_key, sealed));
        count += 1;
    }
    records[0].1 = envelope::seal(Form::Parts, schema, key, &count.to_be_bytes());
    records
}
