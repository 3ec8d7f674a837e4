//! The envelope of a stored value: its form, its schema version and a checksum over key and payload.

use hivewright_actors::storage::StorageError;

/// Form, schema version and checksum stand before the payload.
const HEAD: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Whole = 1,
    /// The count of records that hold the value between them.
    Parts = 2,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Opened<'a> {
    pub(super) form: Form,
    pub(super) schema: u16,
    pub(super) payload: &'a [u8],
}

/// Puts a payload into an envelope. It opens under this key only, so a value that strayed to another
/// key is found out.
pub(super) fn seal(form: Form, schema: u16, key: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(HEAD + payload.len());
    value.push(form as u8);
    value.extend(schema.to_be_bytes());
    value.extend(checksum(&value, key, payload).to_be_bytes());
    value.extend(payload);
    value
}

/// Verifies an envelope and takes the payload out.
pub(super) fn open<'a>(key: &[u8], value: &'a [u8]) -> Result<Opened<'a>, StorageError> {
    let Some((head, payload)) = value.split_at_checked(HEAD) else {
        return Err(damaged(key, "shorter than its envelope"));
    };
    let (described, sum) = head.split_at(3);
    if checksum(described, key, payload).to_be_bytes() != *sum {
        return Err(damaged(key, "wrong checksum"));
    }
    let form = match described[0] {
        1 => Form::Whole,
        2 => Form::Parts,
        _ => return Err(damaged(key, "unknown form")),
    };
    Ok(Opened { form, schema: u16::from_be_bytes([described[1], described[2]]), payload })
}

/// The payload of an envelope that may be damaged.
pub(super) fn content(value: &[u8]) -> &[u8] {
    value.get(HEAD..).unwrap_or_default()
}

pub(super) fn damaged(key: &[u8], reason: &str) -> StorageError {
    StorageError::Damaged { key: key.escape_ascii().to_string(), reason: reason.to_owned() }
}

fn checksum(described: &[u8], key: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(described), key), payload)
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_envelope_returns_what_was_put_in() {
        let value = seal(Form::Whole, 7, b"task/1", b"payload");

        assert_eq!(
            open(b"task/1", &value).unwrap(),
            Opened { form: Form::Whole, schema: 7, payload: b"payload" }
        );
    }

    /// SC-111
    #[test]
    fn every_flipped_bit_is_noticed() {
        let value = seal(Form::Whole, 1, b"task/1", b"payload");

        for bit in 0..value.len() * 8 {
            let mut flipped = value.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open(b"task/1", &flipped).is_err(), "bit {bit}");
        }
    }

    /// SC-111
    #[test]
    fn a_cut_value_is_noticed() {
        let value = seal(Form::Whole, 1, b"task/1", b"payload");

        for length in 0..value.len() {
            assert!(open(b"task/1", &value[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn a_value_does_not_open_under_another_key() {
        let value = seal(Form::Whole, 1, b"task/1", b"payload");

        assert_eq!(
            open(b"task/\xff", &value).unwrap_err().to_string(),
            r"record task/\xff is damaged: wrong checksum"
        );
    }
}
