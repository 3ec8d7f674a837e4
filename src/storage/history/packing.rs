//! Packing of archived values: compressed against a dictionary of what records look like, with a checksum over key
//! and content.

use std::{io, sync::LazyLock};

use hivewright_actors::storage::StorageError;
use zstd::{
    bulk::Compressor,
    dict::EncoderDictionary,
    zstd_safe::{self, DCtx, DDict},
};

use super::super::{envelope::damaged, parts::LARGEST};

/// What records look like: made by zstd of examples of each kind of record with made-up words, the most common last. It
/// halves a short value, which has no room to tell its own statistics. Values name the one they were packed with, so
/// another one gets another form, and these stay.
static DICTIONARIES: [(u8, &[u8]); 2] =
    [(1, include_bytes!("dictionary-1.txt")), (PACKED, include_bytes!("dictionary-2.zdict"))];
const LEVEL: i32 = 5;

/// How a value is stored: its first byte.
const PLAIN: u8 = 0;
/// Compressed with the newest dictionary.
const PACKED: u8 = 2;
/// It cannot be read.
const DAMAGED: u8 = 0xff;
/// Form and checksum stand before the content.
const HEAD: usize = 5;

pub(super) struct Packer(Compressor<'static>);

impl Packer {
    pub(super) fn new() -> io::Result<Self> {
        static ENCODER: LazyLock<EncoderDictionary<'static>> = LazyLock::new(|| {
            let [.., (_, newest)] = DICTIONARIES;
            EncoderDictionary::copy(newest, LEVEL)
        });
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

/// Of many that are made, few unpack: what they need for it is made with the first value.
#[derive(Default)]
pub(super) struct Unpacker(Option<DCtx<'static>>);

impl Unpacker {
    pub(super) fn unpack(&mut self, key: &[u8], packed: &[u8]) -> Result<Vec<u8>, StorageError> {
        let Some((head, content)) = packed.split_at_checked(HEAD) else {
            return Err(damaged(key, "shorter than its head"));
        };
        if head[0] == DAMAGED || checksum(head[0], key, content).to_be_bytes() != head[1..] {
            return Err(damaged(key, "wrong checksum"));
        }
        match (head[0], dictionary(head[0])) {
            (PLAIN, _) => Ok(content.to_vec()),
            (_, Some(dictionary)) => {
                let size = zstd_safe::get_frame_content_size(content).ok().flatten();
                let size = size.and_then(|size| usize::try_from(size).ok());
                let Some(size) = size.filter(|size| *size <= LARGEST) else {
                    return Err(damaged(key, "no size that it can have"));
                };
                let mut value = Vec::with_capacity(size);
                let decoder = self.0.get_or_insert_with(DCtx::create);
                let done = decoder.decompress_using_ddict(&mut value, content, dictionary);
                done.map_err(|code| damaged(key, zstd_safe::get_error_name(code)))?;
                Ok(value)
            }
            (_, None) => Err(damaged(key, "unknown form")),
        }
    }
}

/// The dictionary of a form.
fn dictionary(form: u8) -> Option<&'static DDict<'static>> {
    static LOADED: LazyLock<[(u8, DDict<'static>); 2]> =
        LazyLock::new(|| DICTIONARIES.map(|(form, words)| (form, DDict::create(words))));
    LOADED.iter().find(|(of, _)| *of == form).map(|(_, dictionary)| dictionary)
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
        Unpacker::default().unpack(key, packed)
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

    /// SC-112: what was packed with a former dictionary is read with it.
    #[test]
    fn values_of_a_former_dictionary_are_read() {
        let value =
            b"{\"type\":\"message\",\"content\":\"hello, hello, hello, hello, hello, hello\"}";
        for (form, words) in DICTIONARIES {
            let mut compressor = Compressor::with_dictionary(3, words).unwrap();
            compressor.include_dictid(false).unwrap();
            let content = compressor.compress(value).unwrap();

            let packed = seal(form, b"done\0t-1", &content);

            assert_eq!(unpacked(b"done\0t-1", &packed).unwrap(), value, "{form}");
        }
        assert!(unpacked(b"done\0t-1", &seal(3, b"done\0t-1", value)).is_err());
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
