//! A copy of all records as they stood at one commit, taken while commits go on.
//!
//! The copy goes through the keys in rounds and keeps commits out only during a round. A commit between
//! two rounds puts aside the old values of what it changes further on, and the copy takes those.
//! So a commit waits for a round at most (about a millisecond), and the memory needed is that of the old values.

use std::{
    collections::BTreeMap,
    io::{self, Read, Write},
    ops::Bound,
};

use ::sled::IVec;

use super::{
    OnProgress, Unit,
    parts::{self, LARGEST, LOG, LONGEST_KEY, META},
    preserved::Preserved,
    report,
    sled::{SledStorage, Writing},
    tiers::TieredStorage,
};

/// The first bytes of an export.
const MAGIC: &[u8; 8] = b"HWSTORE1";
/// Stands in place of a key's length after the last record.
const END: u32 = u32::MAX;
/// How many records are copied while commits are kept out.
const ROUND: usize = 256;

/// Ends the keeping of old values, also when an export fails half-way.
struct Running<'a>(&'a SledStorage);

impl<'a> Running<'a> {
    fn begin(storage: &'a SledStorage, writing: &mut Writing) -> io::Result<Self> {
        if writing.export.is_some() {
            return Err(io::Error::other("an export is running already"));
        }
        writing.export = Some(Preserved::default());
        Ok(Self(storage))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.writing().export = None;
    }
}

impl TieredStorage {
    /// Writes all records as they stand now. Returns how many there were.
    pub fn export(&self, out: &mut dyn Write, progress: OnProgress<'_>) -> io::Result<u64> {
        let total = self.records();
        // All of it at one moment: nothing moves or is committed in between.
        let (running, pending, mut snapshot) = {
            let _moving = self.moving();
            let mut writing = self.hot.writing();
            let snapshot = self.cold.snapshot().map_err(io::Error::other)?;
            // Nothing may fail behind it: its end waits for the guard.
            let running = Running::begin(&self.hot, &mut writing)?;
            (running, self.pending.all(), snapshot)
        };
        let mut writer = Exported { out, count: 0 };
        writer.out.write_all(MAGIC)?;
        writer.out.write_all(&self.schema().to_be_bytes())?;
        loop {
            let (round, last) = self.hot.round()?;
            for (key, sealed) in &round {
                if !key.starts_with(META) && !key.starts_with(LOG) {
                    writer.put(key, sealed)?;
                }
            }
            // The parts of large values count too, so there may be more than the store has records.
            report(progress, writer.count, total.max(writer.count), Unit::Records)?;
            if last {
                break;
            }
        }
        drop(running);
        let over = |key: &[u8], value: &[u8]| parts::split(self.schema(), key, value);
        for (key, value) in &pending {
            for (key, sealed) in value.iter().flat_map(|value| over(key, value)) {
                writer.put(&key, &sealed)?;
            }
        }
        let mut behind = Vec::new();
        loop {
            let chunk = snapshot.behind(&behind, ROUND).map_err(io::Error::other)?;
            let Some((last, _)) = chunk.last() else { break };
            behind.clone_from(last);
            for (key, value) in chunk.iter().filter(|(key, _)| !pending.contains_key(&**key)) {
                // A damaged one says so in the new store as well.
                let records = match value {
                    Ok(value) => over(key, value),
                    Err(_) => vec![(key.clone(), Vec::new())],
                };
                for (key, sealed) in records {
                    writer.put(&key, &sealed)?;
                }
            }
            report(progress, writer.count, total.max(writer.count), Unit::Records)?;
        }
        writer.out.write_all(&END.to_be_bytes())?;
        writer.out.write_all(&writer.count.to_be_bytes())?;
        Ok(writer.count)
    }
}

/// Writes records one by one, and counts them.
struct Exported<'a> {
    out: &'a mut dyn Write,
    count: u64,
}

impl Exported<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.out.write_all(&length(key)?.to_be_bytes())?;
        self.out.write_all(&length(value)?.to_be_bytes())?;
        self.out.write_all(key)?;
        self.out.write_all(value)?;
        self.count += 1;
        Ok(())
    }
}

impl SledStorage {
    fn round(&self) -> io::Result<(BTreeMap<Vec<u8>, IVec>, bool)> {
        let mut writing = self.writing();
        let Some(preserved) = &mut writing.export else {
            return Err(io::Error::other("the export was ended"));
        };
        let from = Bound::Excluded(preserved.reached.as_slice());
        let mut round = BTreeMap::new();
        let range = self.database.range::<&[u8], _>((from, Bound::Unbounded));
        for record in range.take(ROUND) {
            let (key, value) = record?;
            round.insert(key.to_vec(), value);
        }
        let last = round.len() < ROUND;
        let end = round.keys().next_back().filter(|_| !last).cloned();
        preserved.settle(&mut round, end.as_deref());
        Ok((round, last))
    }
}

/// Reads the beginning of an export: the schema version of its records.
pub(super) fn begin(from: &mut dyn Read) -> io::Result<u16> {
    if &take::<8>(from)? != MAGIC {
        return Err(invalid("not an export of a store"));
    }
    Ok(u16::from_be_bytes(take(from)?))
}

/// Reads the records of an export after its beginning.
pub(super) fn records(
    from: &mut dyn Read,
    put: &mut dyn FnMut(Vec<u8>, Vec<u8>) -> io::Result<()>,
) -> io::Result<()> {
    let mut count: u64 = 0;
    loop {
        let key = u32::from_be_bytes(take(from)?);
        if key == END {
            break;
        }
        let value = u32::from_be_bytes(take(from)?);
        // The store's own keys are a little longer, and so is a sealed value.
        if key as usize > LONGEST_KEY + 64 || value as usize > LARGEST + 64 {
            return Err(invalid("a record is too large"));
        }
        let (key, value) = (bytes(from, key)?, bytes(from, value)?);
        put(key, value)?;
        count += 1;
    }
    if u64::from_be_bytes(take(from)?) == count {
        Ok(())
    } else {
        Err(invalid("records are missing"))
    }
}

fn take<const LENGTH: usize>(from: &mut dyn Read) -> io::Result<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn bytes(from: &mut dyn Read, length: u32) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn length(bytes: &[u8]) -> io::Result<u32> {
    u32::try_from(bytes.len()).map_err(io::Error::other)
}

fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
