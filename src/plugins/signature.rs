//! Signature of a package: Ed25519 over its digest, by a key that the operator trusts.

use std::{fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::{
    SignatureScheme,
    crypto::ring::{default_provider, sign::any_eddsa_type},
    pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer, pem::PemObject},
};

use super::{
    digest::SIGNATURE,
    fault::{Fault, FaultCode},
    package::Files,
};
use crate::removal::if_there;

/// What stands before the 32 bytes of a public Ed25519 key in its standard form.
const PUBLIC_KEY: [u8; 12] =
    [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Why something is not signed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    #[error("it is no Ed25519 key in PEM; `openssl genpkey -algorithm ed25519` makes one")]
    Key,
    #[error(transparent)]
    Sign(#[from] rustls::Error),
}

fn bad(reason: impl Into<String>) -> Fault {
    Fault::new(FaultCode::SignatureBad, SIGNATURE, "", reason)
}

/// The fault of a package that nobody has signed.
pub(super) fn missing() -> Fault {
    let reason = "there is no such file, and `plugins.signatures` is `require`";
    Fault::new(FaultCode::SignatureMissing, SIGNATURE, "", reason)
}

/// The name of the trusted key that has signed a package; none if there is no signature. It blocks.
pub(super) fn signer(files: &Files, digest: &str, keys: &Path) -> Result<Option<String>, Fault> {
    let text = if_there(files.read(SIGNATURE)).map_err(|error| bad(error.to_string()))?;
    let Some(text) = text else { return Ok(None) };
    let signature = BASE64_STANDARD.decode(text.trim_ascii());
    let signature = signature.map_err(|_| bad("expected a signature in base64"))?;
    let algorithms = default_provider().signature_verification_algorithms.mapping;
    let known = algorithms.iter().find(|(scheme, _)| *scheme == SignatureScheme::ED25519);
    let has_signed = |key: &[u8]| {
        let mut algorithms = known.into_iter().flat_map(|(_, algorithms)| algorithms.iter());
        algorithms.any(|known| known.verify_signature(key, digest.as_bytes(), &signature).is_ok())
    };
    for entry in fs::read_dir(keys).into_iter().flatten().flatten() {
        let Ok(key) = SubjectPublicKeyInfoDer::from_pem_file(entry.path()) else { continue };
        if key.as_ref().strip_prefix(&PUBLIC_KEY).is_some_and(has_signed) {
            let name = entry.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
            return Ok(Some(name));
        }
    }
    Err(bad("no key that is trusted here has signed these files"))
}

/// The signature of a digest by a private key in PEM.
pub fn sign(digest: &str, key: &[u8]) -> Result<String, SignError> {
    let key = PrivatePkcs8KeyDer::from_pem_slice(key).map_err(|_| SignError::Key)?;
    let key = any_eddsa_type(&key).map_err(|_| SignError::Key)?;
    let signer = key.choose_scheme(&[SignatureScheme::ED25519]).ok_or(SignError::Key)?;
    Ok(BASE64_STANDARD.encode(signer.sign(digest.as_bytes())?))
}
