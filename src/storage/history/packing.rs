//! Packing of archived values: compressed against a dictionary of what records look like, with a checksum over key
//! and content.

use std::io;

use hivewright_actors::storage::StorageError;
use zstd::{
    bulk::{Compressor, Decompressor},
    dict::{DecoderDictionary, EncoderDictionary},
    zstd_safe,
};

use super::super::{envelope::damaged, parts::LARGEST};

/// What records look like: made by `zstd` of examples of each kind of record with made-up words, most common last. It
/// halves a short value, which has no room to tell its own statistics. Values hold its number, so another one gets another
/// number and this one stays.
static DICTIONARY: &[u8] = include_bytes!("dictionary.zdict");
const LEVEL: i32 = 5;

/// How a value is stored: its first byte.
const PLAIN: u8 = 0;
/// Compressed with [`DICTIONARY`].
const PACKED: u8 = 1;
/// It cannot be read.
const DAMAGED: u8 = 0xff;
/// Form and checksum stand before the content.
const HEAD: usize = 5;

pub(super) struct Packer(Compressor<'static>);

impl Packer {
    pub(super) fn new() -> io::Result<Self> {
        static ENCODER: std::sync::LazyLock<EncoderDictionary<'static>> =
            std::sync::LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
        let mut compressor = Compressor::with_prepared_dictionary(&ENCODER)?;
        compressor.include_checksum(false)?;
        compressor.include_dictid(false)?;
        Ok(Self(compressor))
    }

    pub(super) fn pack(&mut self, key: &[u8], value: &[u8]) -> Vec<u8> {
        match self.0.compress(value) {
            Ok(content) if content.len() < value.len() => seal(PACKED, key, &content),
            _ => seal(PLAIN, key, value),
        }
    }
}

pub(super) struct Unpacker(Decompressor<'static>);

impl Unpacker {
    pub(super) fn new() -> io::Result<Self> {
        static DECODER: std::sync::LazyLock<DecoderDictionary<'static>> =
            std::sync::LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));
        Ok(Self(Decompressor::with_prepared_dictionary(&DECODER)?))
    }

    pub(super) fn unpack(&mut self, key: &[u8], packed: &[u8]) -> Result<Vec<u8>, StorageError> {
        let Some((head, content)) = packed.split_at_checked(HEAD) else {
            return Err(damaged(key, "shorter than its head"));
        };
        if head[0] == DAMAGED || checksum(head[0], key, content).to_be_bytes() != head[1..] {
            return Err(damaged(key, "wrong checksum"));
        }
        match head[0] {
            PLAIN => Ok(content.to_vec()),
            PACKED => {
                let size = zstd_safe::get_frame_content_size(content).ok().flatten();
                let size = size.and_then(|size| usize::try_from(size).ok());
                let Some(size) = size.filter(|size| *size <= LARGEST) else {
                    return Err(damaged(key, "no size that it can have"));
                };
                let value = self.0.decompress(content, size);
                value.map_err(|error| damaged(key, &error.to_string()))
            }
            _ => Err(damaged(key, "unknown form")),
        }
    }
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
        Packer::new().unwrap().pack(key, value)
    }

    fn unpacked(key: &[u8], packed: &[u8]) -> Result<Vec<u8>, StorageError> {
        Unpacker::new().unwrap().unpack(key, packed)
    }

    #[test]
    fn values_come_back_as_they_were() {
        let long = "{\"text\":\"again and again\"}".repeat(1_000);
        for value in ["", "x", "{\"id\":1}", &long] {
            let packed = packed(b"done\0t-1", value.as_bytes());
            assert_eq!(unpacked(b"done\0t-1", &packed).unwrap(), value.as_bytes());
        }
        assert!(packed(b"done\0t-1", long.as_bytes()).len() < long.len() / 100);
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
