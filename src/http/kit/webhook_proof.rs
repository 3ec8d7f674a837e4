//! Proof of a webhook call: a signature by a secret of the team, and the time it was made.

use std::time::Duration;

use actix_web::{
    HttpRequest,
    http::{StatusCode, header},
};
use hivewright_actors::{
    clock::Timestamp,
    ids::TeamKey,
    scheduler::trigger::webhook::{Encoding, KnownScheme, Scheme, Signed},
};

use super::error::{ApiError, ApiResult};
use crate::{
    logging::throttle::Throttle, system::hex, triggers::signature, vault::reading::SecretSource,
};

/// The longest name of a delivery.
const LONGEST_ID: usize = 256;

/// Whose signature a call needs.
pub(in crate::http) struct Signer<'a> {
    pub(in crate::http) secrets: &'a dyn SecretSource,
    pub(in crate::http) team: &'a TeamKey,
    /// Keys of the secrets that are good now.
    pub(in crate::http) keys: Vec<&'a str>,
    pub(in crate::http) scheme: &'a Scheme,
}

/// What a call brings to prove where it comes from.
#[derive(Debug)]
pub(in crate::http) struct Proof {
    /// The name of the delivery, where the signature covers it.
    id: Option<String>,
    /// The time, as it was written.
    timestamp: Option<String>,
    /// Signatures, of which one has to be right.
    signatures: Vec<Vec<u8>>,
}

pub(in crate::http) fn text<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok().map(str::trim)
}

fn malformed(header: &str) -> ApiError {
    ApiError::invalid(format!("the header `{header}` is missing or malformed"))
}

fn unproved() -> ApiError {
    let message = "the signature or its time is not right";
    ApiError::new(StatusCode::UNAUTHORIZED, "unauthenticated", message)
}

impl Proof {
    pub(in crate::http) fn read(request: &HttpRequest, scheme: &Scheme) -> ApiResult<Self> {
        let needed = |name: &str| text(request, name).ok_or_else(|| malformed(name));
        match scheme {
            Scheme::Known(KnownScheme::Standard) => {
                let id = needed("webhook-id")?;
                let is_name = |byte: u8| byte.is_ascii_graphic();
                if id.is_empty() || id.len() > LONGEST_ID || !id.bytes().all(is_name) {
                    return Err(malformed("webhook-id"));
                }
                let signatures: Vec<Vec<u8>> = needed("webhook-signature")?
                    .split_ascii_whitespace()
                    .filter_map(|one| one.strip_prefix("v1,"))
                    .filter_map(|one| signature::decode(one, Encoding::Base64))
                    .collect();
                if signatures.is_empty() {
                    return Err(malformed("webhook-signature"));
                }
                Ok(Self {
                    id: Some(id.to_owned()),
                    timestamp: Some(needed("webhook-timestamp")?.to_owned()),
                    signatures,
                })
            }
            Scheme::Known(KnownScheme::Github) => {
                let name = "x-hub-signature-256";
                let signature = needed(name)?
                    .strip_prefix("sha256=")
                    .and_then(|digits| signature::decode(digits, Encoding::Hex))
                    .ok_or_else(|| malformed(name))?;
                Ok(Self { id: None, timestamp: None, signatures: vec![signature] })
            }
            Scheme::Custom(custom) => {
                let coded = needed(&custom.header)?;
                let coded = match &custom.prefix {
                    Some(prefix) => coded.strip_prefix(prefix.as_str()),
                    None => Some(coded),
                };
                let signature = coded
                    .and_then(|coded| signature::decode(coded, custom.encoding))
                    .ok_or_else(|| malformed(&custom.header))?;
                let timestamp = custom.timestamp_header.as_deref().map(needed).transpose()?;
                Ok(Self {
                    id: None,
                    timestamp: timestamp.map(str::to_owned),
                    signatures: vec![signature],
                })
            }
        }
    }

    /// The time that it says is now, or not further from it than this.
    pub(in crate::http) fn check_time(&self, tolerance: Duration, now: Timestamp) -> ApiResult<()> {
        let Some(text) = &self.timestamp else {
            return Ok(());
        };
        let unreadable = |_| ApiError::invalid("the timestamp is no number of seconds since 1970");
        let seconds: u64 = text.parse().map_err(unreadable)?;
        let sent = Timestamp(seconds.saturating_mul(1_000));
        let off = now.since(sent).max(sent.since(now));
        if off <= tolerance { Ok(()) } else { Err(unproved()) }
    }

    /// One of the secrets that are good now made one of the signatures.
    pub(in crate::http) fn check(&self, signer: &Signer<'_>, body: &[u8]) -> ApiResult<()> {
        let Signer { secrets, team, keys, scheme } = signer;
        let [id, timestamp] =
            [&self.id, &self.timestamp].map(|text| text.as_deref().unwrap_or_default().as_bytes());
        let signed: Vec<&[u8]> = match scheme {
            Scheme::Known(KnownScheme::Standard) => vec![id, b".", timestamp, b".", body],
            Scheme::Custom(custom) if custom.signed == Signed::TimestampBody => {
                vec![timestamp, b".", body]
            }
            Scheme::Known(KnownScheme::Github) | Scheme::Custom(_) => vec![body],
        };
        for name in keys {
            let Some(secret) = secrets.secret(team, name) else {
                static TOLD: Throttle = Throttle::new();
                if let Some(times) = TOLD.due() {
                    tracing::warn!(team = %team.name, secret = %name, times, "a webhook was called, and refused, since its secret is not in the vault; set it");
                }
                continue;
            };
            let key = match scheme {
                Scheme::Known(KnownScheme::Standard) => signature::standard_key(&secret),
                _ => secret,
            };
            // All are tried, so that the time it takes tells nothing.
            let right = self
                .signatures
                .iter()
                .map(|one| signature::is_signed(&key, &signed, one))
                .fold(false, |any, right| any | right);
            if right {
                secrets.used(team, name);
                return Ok(());
            }
        }
        Err(unproved())
    }

    /// What tells this delivery from others: its name where that is signed, else the signature itself,
    /// by its bytes and not by how they were written.
    pub(in crate::http) fn key(&self) -> String {
        match (&self.id, self.signatures.first()) {
            (Some(id), _) => format!("id:{id}"),
            (None, Some(signature)) => format!("sig:{}", hex(signature)),
            (None, None) => String::new(),
        }
    }
}

/// The body has a length, and is not too long.
pub(in crate::http) fn check_length(request: &HttpRequest, most: usize) -> ApiResult<()> {
    match text(request, header::CONTENT_LENGTH.as_str()).map(str::parse::<usize>) {
        Some(Ok(length)) if length > most => Err(ApiError::too_large(most)),
        Some(Ok(_)) => Ok(()),
        _ => {
            let (code, message) = ("length_required", "a call needs `Content-Length`");
            Err(ApiError::new(StatusCode::LENGTH_REQUIRED, code, message))
        }
    }
}
