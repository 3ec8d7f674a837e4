//! Download of a plugin archive: over HTTPS, through the egress guard, and only as its SHA-256 says.

use std::time::Duration;

use reqwest::{Method, Url, header::HeaderMap};
use sha2::{Digest, Sha256};

use super::digest::{MOST_BYTES, hex};
use crate::{
    sandbox::egress::{
        EgressError, Guard, body,
        request::{Request, Terms},
    },
    settings::egress::Egress,
};

/// The longest download.
const SLOWEST: Duration = Duration::from_secs(120);

/// Why an archive was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error("expected an address that begins with https://")]
    Url,
    #[error("expected the SHA-256 of the archive: 64 hexadecimal digits")]
    Sum,
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("the answer was {0}")]
    Status(u16),
    #[error("it is larger than 50 MiB, or packed in a way that nobody asked for")]
    TooLarge,
    #[error("it was not there within 2 minutes")]
    TooSlow,
    #[error("its SHA-256 is {0}, which is not the one that was given")]
    OtherSum(String),
}

/// Fetches an archive.
pub async fn fetch(guard: &Guard, url: &str, sha256: &str) -> Result<Vec<u8>, FetchError> {
    let is_sum = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_sum {
        return Err(FetchError::Sum);
    }
    let url = Url::parse(url).ok().filter(|url| url.scheme() == "https").ok_or(FetchError::Url)?;
    let request = Request { method: Method::GET, url, headers: HeaderMap::new(), body: None };
    let egress = Egress::default();
    let terms = Terms::new(&egress, &|_| Ok(()), &|_| false);
    let receiving = async {
        let (mut response, _) = guard.send(request, &terms).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(FetchError::Status(status.as_u16()));
        }
        let body = body::read(&mut response, MOST_BYTES as usize).await?;
        if body.truncated || body.packed {
            return Err(FetchError::TooLarge);
        }
        Ok(body.bytes)
    };
    let bytes =
        tokio::time::timeout(SLOWEST, receiving).await.map_err(|_| FetchError::TooSlow)??;
    let sum = hex(&Sha256::digest(&bytes));
    if sum.eq_ignore_ascii_case(sha256) { Ok(bytes) } else { Err(FetchError::OtherSum(sum)) }
}
