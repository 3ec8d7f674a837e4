//! Signatures of webhooks: HMAC-SHA256, compared in constant time.

use base64::{Engine, engine::general_purpose::STANDARD};
use hivewright_actors::scheduler::trigger::webhook::Encoding;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

const BLOCK: usize = 64;
/// What the secrets of Standard Webhooks begin with.
const STANDARD_PREFIX: &[u8] = b"whsec_";

/// HMAC-SHA256 (RFC 2104) over parts that follow one another.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = Zeroizing::new([0_u8; BLOCK]);
    if key.len() > BLOCK {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let pad = |with: u8| {
        let mut padded = *block;
        padded.iter_mut().for_each(|byte| *byte ^= with);
        padded
    };
    let (mut inner_pad, mut outer_pad) = (pad(0x36), pad(0x5c));
    let mut inner = Sha256::new();
    inner.update(inner_pad);
    for part in parts {
        inner.update(part);
    }
    let mut outer = Sha256::new();
    outer.update(outer_pad);
    outer.update(inner.finalize());
    inner_pad.zeroize();
    outer_pad.zeroize();
    outer.finalize().into()
}

/// Whether a signature is that of the parts. Tells nothing about where they differ.
pub(crate) fn is_signed(key: &[u8], parts: &[&[u8]], signature: &[u8]) -> bool {
    hmac(key, parts)[..].ct_eq(signature).into()
}

/// The key in a secret: Standard Webhooks write it as `whsec_` and base64.
pub(crate) fn standard_key(secret: &[u8]) -> Zeroizing<Vec<u8>> {
    let coded = secret.strip_prefix(STANDARD_PREFIX);
    let key = coded.and_then(|coded| STANDARD.decode(coded.trim_ascii()).ok());
    Zeroizing::new(key.unwrap_or_else(|| secret.to_vec()))
}

/// The bytes of a signature as it was written.
pub(crate) fn decode(text: &str, encoding: Encoding) -> Option<Vec<u8>> {
    match encoding {
        Encoding::Base64 => STANDARD.decode(text).ok(),
        Encoding::Hex => {
            let digits = text.as_bytes();
            if !digits.len().is_multiple_of(2) {
                return None;
            }
            let pairs = digits.chunks_exact(2).map(|pair| {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()
            });
            pairs.collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::hex;

    fn mac(key: &[u8], data: &[u8]) -> String {
        // In two parts: where they are cut does not matter.
        let (first, second) = data.split_at(data.len() / 2);
        hex(&hmac(key, &[first, second]))
    }

    /// RFC 4231, cases 1 to 4, 6 and 7.
    #[test]
    fn hmac_agrees_with_its_standard() {
        assert_eq!(
            mac(&[0x0b; 20], b"Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"
        );
        assert_eq!(
            mac(b"Jefe", b"what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            mac(&[0xaa; 20], &[0xdd; 50]),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"
        );
        let key: Vec<u8> = (1..=25).collect();
        assert_eq!(
            mac(&key, &[0xcd; 50]),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"
        );
        assert_eq!(
            mac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
        assert_eq!(
            mac(
                &[0xaa; 131],
                b"This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm."
            ),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"
        );
    }

    #[test]
    fn a_signature_is_compared_whole() {
        let good = hmac(b"key", &[b"body"]);

        assert!(is_signed(b"key", &[b"bo", b"dy"], &good));
        assert!(!is_signed(b"key", &[b"body"], &good[..31]));
        assert!(!is_signed(b"kez", &[b"body"], &good));
        assert!(!is_signed(b"key", &[b"body"], b""));
    }

    /// The example of the Standard Webhooks specification.
    #[test]
    fn the_key_of_a_standard_secret_is_what_its_base64_says() {
        let secret = b"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        let signed = hmac(
            &standard_key(secret),
            &[
                b"msg_p5jXN8AQM9LWM0D4loKWxJek",
                b".",
                b"1614265330",
                b".",
                br#"{"test": 2432232314}"#,
            ],
        );

        assert_eq!(STANDARD.encode(signed), "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        assert_eq!(&**standard_key(b"plain"), b"plain");
    }

    #[test]
    fn signatures_are_read_as_they_are_written() {
        assert_eq!(decode("00fF", Encoding::Hex), Some(vec![0, 255]));
        assert_eq!(decode("0", Encoding::Hex), None);
        assert_eq!(decode("0g", Encoding::Hex), None);
        assert_eq!(decode("AP8=", Encoding::Base64), Some(vec![0, 255]));
    }
}
