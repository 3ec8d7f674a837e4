//! Keys: under what records are stored, in an order that they are read in.
//!
//! A key is the kind of its record with parts behind it. A text is followed by a byte that no text holds: whatever an
//! id holds, it never reaches into the keys of another. A number takes eight bytes, so that keys sort as numbers do.

use crate::{
    clock::Timestamp,
    ids::{
        ApprovalId, ChannelId, CredentialId, FileId, MemoryId, MessageId, NoticeId, QuestionId,
        RunId, TaskId, TeamKey, TeamName, TopicId, TriggerId,
    },
};

/// What a key, or the beginning of one, is put together from.
pub trait Parts {
    fn write(&self, key: &mut KeyWriter);
}

/// The whole of a key behind the kind of its record.
pub trait Key: Parts + Sized {
    /// The key again; none if these bytes are not of one.
    fn read(key: &mut KeyReader<'_>) -> Option<Self>;
}

/// A key of this type, or the same parts by reference.
pub trait KeyOf<K>: Parts {}

/// The first parts of a key, to find what lies under them.
pub trait PrefixOf<K>: Parts {}

#[derive(Debug)]
pub struct KeyWriter {
    key: Vec<u8>,
    /// The last part was a text, which ends before the next part begins.
    in_text: bool,
}

impl KeyWriter {
    fn of(kind: &str) -> Self {
        let mut key = Vec::with_capacity(64);
        key.extend_from_slice(kind.as_bytes());
        Self { key, in_text: true }
    }

    pub fn text(&mut self, text: &str) {
        self.end_text();
        if text.contains(END) {
            self.key.extend(text.replace(END, "\u{fffd}").bytes());
        } else {
            self.key.extend_from_slice(text.as_bytes());
        }
        self.in_text = true;
    }

    pub fn number(&mut self, number: u64) {
        self.bytes(&number.to_be_bytes());
    }

    /// Adds bytes that nothing ends: a number, or the last part.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.end_text();
        self.key.extend_from_slice(bytes);
    }

    fn end_text(&mut self) {
        if std::mem::take(&mut self.in_text) {
            self.key.push(END as u8);
        }
    }
}

/// Stands behind a text, and in none.
const END: char = '\0';

#[derive(Debug)]
pub struct KeyReader<'a> {
    rest: &'a [u8],
}

impl<'a> KeyReader<'a> {
    pub fn text(&mut self) -> Option<&'a str> {
        let end = self.rest.iter().position(|byte| *byte == END as u8);
        let (text, rest) = match end {
            Some(end) => (&self.rest[..end], &self.rest[end + 1..]),
            None => (self.rest, &[][..]),
        };
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }

    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_be_bytes(*number))
    }
}

/// The key of a record, as it is stored.
pub fn key_of(kind: &str, parts: &(impl Parts + ?Sized)) -> Vec<u8> {
    let mut writer = KeyWriter::of(kind);
    parts.write(&mut writer);
    writer.key
}

/// What the keys begin with of all records of a kind under these parts.
pub fn prefix_of(kind: &str, parts: &(impl Parts + ?Sized)) -> Vec<u8> {
    let mut writer = KeyWriter::of(kind);
    parts.write(&mut writer);
    writer.end_text();
    writer.key
}

/// The parts of a stored key of this kind.
pub fn read_key<K: Key>(kind: &str, key: &[u8]) -> Option<K> {
    let rest = key.strip_prefix(kind.as_bytes())?.strip_prefix(&[END as u8])?;
    K::read(&mut KeyReader { rest })
}

/// The first key after all that begin with a prefix.
pub fn after_prefix(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    end
}

/// A key for people.
pub fn printable(key: &[u8]) -> String {
    key.iter()
        .map(|byte| match byte {
            0 => '/',
            b'!'..=b'~' => char::from(*byte),
            _ => '.',
        })
        .collect()
}

/// The beginning of a text that may go on.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a>(pub &'a str);

impl Parts for Beginning<'_> {
    fn write(&self, key: &mut KeyWriter) {
        key.text(self.0);
        key.in_text = false;
    }
}

impl<K> PrefixOf<K> for Beginning<'_> {}

impl<T: Parts + ?Sized> Parts for &T {
    fn write(&self, key: &mut KeyWriter) {
        (**self).write(key);
    }
}

impl Parts for str {
    fn write(&self, key: &mut KeyWriter) {
        key.text(self);
    }
}

impl KeyOf<String> for str {}

macro_rules! texts {
    ($($text:ty)*) => {$(
        impl Parts for $text {
            fn write(&self, key: &mut KeyWriter) {
                key.text(self.as_str());
            }
        }

        impl Key for $text {
            fn read(key: &mut KeyReader<'_>) -> Option<Self> {
                key.text().map(Into::into)
            }
        }
    )*};
}

texts! {
    String ApprovalId ChannelId CredentialId FileId MemoryId MessageId NoticeId QuestionId RunId TaskId TeamName TopicId TriggerId
}

impl Parts for u64 {
    fn write(&self, key: &mut KeyWriter) {
        key.number(*self);
    }
}

impl Key for u64 {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        key.number()
    }
}

impl Parts for Timestamp {
    fn write(&self, key: &mut KeyWriter) {
        key.number(self.0);
    }
}

impl Key for Timestamp {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        key.number().map(Self)
    }
}

impl Parts for TeamKey {
    fn write(&self, key: &mut KeyWriter) {
        key.text(&self.to_string());
    }
}

impl Key for TeamKey {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        Self::parse(key.text()?)
    }
}

/// One life of a team where the first has no number: `ops`, `ops~2`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Life(pub TeamKey);

impl Parts for Life {
    fn write(&self, key: &mut KeyWriter) {
        match self.0.generation {
            1 => key.text(self.0.name.as_str()),
            later => key.text(&format!("{}~{later}", self.0.name)),
        }
    }
}

impl Key for Life {
    fn read(key: &mut KeyReader<'_>) -> Option<Self> {
        let life = key.text()?;
        Some(Self(TeamKey::parse(life).unwrap_or_else(|| TeamKey::first(life))))
    }
}

macro_rules! tuples {
    ($(($($part:ident)*))*) => {$(
        impl<$($part: Parts),*> Parts for ($($part,)*) {
            #[allow(non_snake_case, unused_variables)]
            fn write(&self, key: &mut KeyWriter) {
                let ($($part,)*) = self;
                $($part.write(key);)*
            }
        }

        impl<$($part: Key),*> Key for ($($part,)*) {
            #[allow(unused_variables)]
            fn read(key: &mut KeyReader<'_>) -> Option<Self> {
                Some(($($part::read(key)?,)*))
            }
        }
    )*};
}

tuples! { () (A) (A B) (A B C) (A B C D) }

impl<K: Parts> KeyOf<K> for K {}
impl<A: Parts, B: Parts> KeyOf<(A, B)> for (&A, &B) {}
impl<A: Parts> KeyOf<(A, u64)> for (&A, u64) {}

impl<K> PrefixOf<K> for () {}
impl<A: Parts, B> PrefixOf<(A, B)> for (&A,) {}
impl<A: Parts, B, C> PrefixOf<(A, B, C)> for (&A,) {}
impl<A: Parts, B, C, D> PrefixOf<(A, B, C, D)> for (&A,) {}
