//! Packing of archived values: compressed against a dictionary of what records look like, with a checksum over key
//! and content.

use std::{io, sync::LazyLock};

use hivewright_actors::storage::StorageError;
use zstd::{
    bulk::Compressor,
    zstd_safe::{self, DCtx, DDict},
};

use super::super::{envelope::damaged, parts::LARGEST};

/// What records look like: made by zstd of examples of each kind of record with made-up words, the most common last. It
/// halves a short value, which has no room to tell its own statistics. The form of a value says which one it was packed
/// with, so another one gets other forms, and these stay.
static DICTIONARIES: [&[u8]; 2] =
    [include_bytes!("dictionary-1.txt"), include_bytes!("dictionary-2.zdict")];
/// A higher one takes more than twice the time for a hundredth of the size.
const LEVEL: i32 = 3;

/// What very many records hold, whole.
static COMMON_VALUES: [&[u8]; 1] = [br#"{"type":"message"}"#];

/// How a value is stored: its first byte. Those between [`PLAIN`] and [`PACKED`] are of former versions, by the dictionary
/// of that number, with zstd's own first bytes.
const PLAIN: u8 = 0;
/// Compressed with the newest dictionary.
const PACKED: u8 = 3;
/// The same, of two records.
const JOINED: u8 = 4;
/// The number of a value that is common.
const COMMON: u8 = 5;
/// It cannot be read.
const DAMAGED: u8 = 0xff;
/// Form and checksum stand before the content.
const HEAD: usize = 5;
/// What zstd begins each frame with. Here the form says so.
const MAGIC: [u8; 4] = zstd_safe::MAGICNUMBER.to_le_bytes();
/// Records that are longer together are kept apart: whoever wants one of them unpacks both.
const LARGEST_JOINED: usize = 16 * 1024;

/// Two records in the row of one of them. They say much the same, and so take little more than one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Joined {
    /// The record in whose row they are.
    pub(super) host: Vec<u8>,
    /// The key of the other one.
    pub(super) guest_key: Vec<u8>,
    pub(super) guest: Vec<u8>,
}

impl Joined {
    /// The lengths of the guest and its key, these two, and the host.
    fn write(host: &[u8], guest_key: &[u8], guest: &[u8]) -> Option<Vec<u8>> {
        let length = |bytes: &[u8]| u16::try_from(bytes.len()).ok().map(u16::to_be_bytes);
        let (first, second) = (length(guest_key)?, length(guest)?);
        Some([&first, &second, guest_key, guest, host].concat())
    }

    fn read(content: &[u8]) -> Option<Self> {
        let (first, content) = content.split_first_chunk()?;
        let (second, content) = content.split_first_chunk()?;
        let (guest_key, content) = content.split_at_checked(u16::from_be_bytes(*first).into())?;
        let (guest, host) = content.split_at_checked(u16::from_be_bytes(*second).into())?;
        Some(Self { host: host.into(), guest_key: guest_key.into(), guest: guest.into() })
    }
}

/// What it needs takes memory: it is made with the first value, and anew after a rest.
#[derive(Default)]
pub(super) struct Packer(Option<Compressor<'static>>);

impl Packer {
    pub(super) fn pack(&mut self, key: &[u8], value: &[u8]) -> Vec<u8> {
        let common = COMMON_VALUES.iter().zip(0..).find(|(common, _)| **common == value);
        if let Some((_, number)) = common {
            return seal(COMMON, key, &[number]);
        }
        let compressed = self.compress(value).filter(|content| content.len() < value.len());
        compressed.map_or_else(|| seal(PLAIN, key, value), |content| seal(PACKED, key, &content))
    }

    /// Packs a record with a guest; none if they are better apart.
    pub(super) fn join(
        &mut self,
        (key, host): (&[u8], &[u8]),
        (guest_key, guest): (&[u8], &[u8]),
    ) -> Option<Vec<u8>> {
        let whole = Joined::write(host, guest_key, guest);
        let whole = whole.filter(|whole| whole.len() <= LARGEST_JOINED)?;
        Some(seal(JOINED, key, &self.compress(&whole)?))
    }

    fn compress(&mut self, value: &[u8]) -> Option<Vec<u8>> {
        if self.0.is_none() {
            self.0 = compressor().ok();
        }
        let frame = self.0.as_mut()?.compress(value).ok()?;
        frame.strip_prefix(&MAGIC).map(<[u8]>::to_vec)
    }
}

fn compressor() -> io::Result<Compressor<'static>> {
    let [.., newest] = DICTIONARIES;
    let mut compressor = Compressor::with_dictionary(LEVEL, newest)?;
    compressor.include_checksum(false)?;
    compressor.include_dictid(false)?;
    Ok(compressor)
}

/// Of many that are made, few unpack: what they need for it is made with the first value.
#[derive(Default)]
pub(super) struct Unpacker(Option<DCtx<'static>>);

impl Unpacker {
    pub(super) fn unpack(&mut self, key: &[u8], packed: &[u8]) -> Result<Vec<u8>, StorageError> {
        self.unpack_from(key, key, packed)
    }

    /// A record from a row, which may be that of another one.
    pub(super) fn unpack_from(
        &mut self,
        row: &[u8],
        key: &[u8],
        packed: &[u8],
    ) -> Result<Vec<u8>, StorageError> {
        let found = match self.open(row, packed)? {
            Opened::One(value) if row == key => Some(value),
            Opened::Two(joined) if row == key => Some(joined.host),
            Opened::Two(joined) if joined.guest_key == key => Some(joined.guest),
            _ => None,
        };
        found.ok_or_else(|| damaged(key, "not in the row that it is said to be in"))
    }

    /// What a row holds, if it is of two records.
    pub(super) fn joined(&mut self, row: &[u8], packed: &[u8]) -> Option<Joined> {
        match (packed.first() == Some(&JOINED)).then(|| self.open(row, packed))? {
            Ok(Opened::Two(joined)) => Some(joined),
            _ => None,
        }
    }

    fn open(&mut self, key: &[u8], packed: &[u8]) -> Result<Opened, StorageError> {
        let Some((head, content)) = packed.split_at_checked(HEAD) else {
            return Err(damaged(key, "shorter than its head"));
        };
        if head[0] == DAMAGED || checksum(head[0], key, content).to_be_bytes() != head[1..] {
            return Err(damaged(key, "wrong checksum"));
        }
        let newest = DICTIONARIES.len() - 1;
        let framed = || [&MAGIC, content].concat();
        match head[0] {
            PLAIN => Ok(Opened::One(content.to_vec())),
            PACKED => self.decompress(key, newest, &framed()).map(Opened::One),
            JOINED => Joined::read(&self.decompress(key, newest, &framed())?)
                .map(Opened::Two)
                .ok_or_else(|| damaged(key, "not two records")),
            COMMON => content
                .first()
                .and_then(|number| COMMON_VALUES.get(usize::from(*number)))
                .map(|value| Opened::One(value.to_vec()))
                .ok_or_else(|| damaged(key, "an unknown value")),
            former if former < PACKED => {
                self.decompress(key, usize::from(former - 1), content).map(Opened::One)
            }
            _ => Err(damaged(key, "unknown form")),
        }
    }

    fn decompress(
        &mut self,
        key: &[u8],
        dictionary: usize,
        frame: &[u8],
    ) -> Result<Vec<u8>, StorageError> {
        static LOADED: LazyLock<[DDict<'static>; 2]> =
            LazyLock::new(|| DICTIONARIES.map(DDict::create));
        let size = zstd_safe::get_frame_content_size(frame).ok().flatten();
        let size = size.and_then(|size| usize::try_from(size).ok());
        let Some(size) = size.filter(|size| *size <= LARGEST) else {
            return Err(damaged(key, "no size that it can have"));
        };
        let mut value = Vec::with_capacity(size);
        let decoder = self.0.get_or_insert_with(DCtx::create);
        let done = decoder.decompress_using_ddict(&mut value, frame, &LOADED[dictionary]);
        done.map_err(|code| damaged(key, zstd_safe::get_error_name(code)))?;
        Ok(value)
    }
}

/// What a row holds.
enum Opened {
    One(Vec<u8>),
    Two(Joined),
}

/// A value that no key opens, around content that cannot be read.
pub(super) fn unreadable(content: &[u8]) -> Vec<u8> {
    [&[DAMAGED; HEAD], content].concat()
}

/// The content of a value that may be damaged.
pub(super) fn content(packed: &[u8]) -> &[u8] {
    packed.get(HEAD..).unwrap_or_default()
}

fn seal(form: u8, key: &[u8], content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::with_capacity(HEAD + content.len());
    packed.push(form);
    packed.extend(checksum(form, key, content).to_be_bytes());
    packed.extend(content);
    packed
}

fn checksum(form: u8, key: &[u8], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(&[form]), key), content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(key: &[u8], value: &[u8]) -> Vec<u8> {
        Packer::default().pack(key, value)
    }

    fn unpacked(key: &[u8], packed: &[u8]) -> Result<Vec<u8>, StorageError> {
        Unpacker::default().unpack(key, packed)
    }

    #[test]
    fn values_come_back_as_they_were() {
        let long = "{\"text\":\"again and again\"}".repeat(1_000);
        for value in ["", "x", "{\"id\":1}", "{\"type\":\"message\"}", &long] {
            let packed = packed(b"done\0t-1", value.as_bytes());
            assert_eq!(unpacked(b"done\0t-1", &packed).unwrap(), value.as_bytes());
        }
        assert!(packed(b"done\0t-1", long.as_bytes()).len() < long.len() / 100);
    }

    /// SC-112: what was packed with a former dictionary is read with it.
    #[test]
    fn values_of_a_former_dictionary_are_read() {
        let value =
            b"{\"type\":\"message\",\"content\":\"hello, hello, hello, hello, hello, hello\"}";
        for (form, words) in (1..).zip(DICTIONARIES) {
            let mut compressor = Compressor::with_dictionary(3, words).unwrap();
            compressor.include_dictid(false).unwrap();
            let content = compressor.compress(value).unwrap();

            let packed = seal(form, b"done\0t-1", &content);

            assert_eq!(unpacked(b"done\0t-1", &packed).unwrap(), value, "{form}");
        }
        assert!(unpacked(b"done\0t-1", &seal(6, b"done\0t-1", value)).is_err());
    }

    #[test]
    fn two_records_share_a_row_and_each_is_found_by_its_own_key_alone() {
        let (task, piece) = ("the same words, said twice ".repeat(3), "the same words, said twice");
        let (key, row): (&[u8], &[u8]) = (b"done\0t-1", b"hist\0main\0\0");
        let joined =
            Packer::default().join((row, piece.as_bytes()), (key, task.as_bytes())).unwrap();
        let mut unpacker = Unpacker::default();
        let mut from = |row: &[u8], key: &[u8]| unpacker.unpack_from(row, key, &joined);

        assert_eq!(from(row, row).unwrap(), piece.as_bytes());
        assert_eq!(from(row, key).unwrap(), task.as_bytes());
        assert!(from(row, b"done\0t-2").is_err());
        assert!(from(key, key).is_err());
        let alone = packed(row, piece.as_bytes());
        assert!(unpacker.unpack_from(row, key, &alone).is_err());
        let long = "x".repeat(LARGEST_JOINED);
        assert_eq!(Packer::default().join((row, long.as_bytes()), (key, b"")), None);
    }

    /// SC-111
    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let whole = packed(b"done\0t-1", b"{\"body\":\"hello, hello, hello, hello, hello\"}");

        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(unpacked(b"done\0t-1", &flipped).is_err(), "bit {bit}");
        }
        for length in 0..whole.len() {
            assert!(unpacked(b"done\0t-1", &whole[..length]).is_err(), "{length}");
        }
        assert!(unpacked(b"done\0t-2", &whole).is_err());
    }
}
