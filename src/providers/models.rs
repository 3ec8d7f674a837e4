//! Models list: which models an API offers, where it says so.

use std::time::Duration;

use serde::Deserialize;

use super::{Access, access};
use crate::settings::providers::{Profile, Provider};

const TIMEOUT: Duration = Duration::from_secs(15);
const LONGEST: usize = 4 * 1024 * 1024;
/// Which version of Anthropic's API is spoken; others take no notice.
const VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The models of an API are not known.
#[derive(Debug, thiserror::Error)]
pub enum Unlisted {
    #[error("the API cannot be reached, or broke off")]
    Unreachable(#[from] reqwest::Error),
    #[error("the API took longer than 15 seconds")]
    Slow(#[from] tokio::time::error::Elapsed),
    #[error("the API answered with status {0}")]
    Refused(u16),
    #[error("the API lists no models in a form that is known")]
    Unreadable,
}

/// A list as answers have it: the models, and why there are none.
pub fn told(listed: Result<Vec<String>, Unlisted>) -> (Vec<String>, Option<String>) {
    match listed {
        Ok(models) => (models, None),
        Err(unlisted) => (Vec::new(), Some(unlisted.to_string())),
    }
}

#[derive(Deserialize)]
struct Listing {
    data: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
}

/// Asks an API for the names of its models, sorted.
pub async fn list(http: &reqwest::Client, profile: &Profile) -> Result<Vec<String>, Unlisted> {
    if profile.provider == Provider::Offline {
        return Ok(vec![profile.model.clone()]);
    }
    let Access { url, credential } = access(profile, "models").map_err(|_| Unlisted::Unreadable)?;
    let mut request = http.get(url).header(VERSION.0, VERSION.1);
    if let Some((name, value)) = credential {
        request = request.header(name, value);
    }
    let read = async {
        let mut response = request.send().await?;
        if !response.status().is_success() {
            return Err(Unlisted::Refused(response.status().as_u16()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            body.extend_from_slice(&chunk);
            if body.len() > LONGEST {
                return Err(Unlisted::Unreadable);
            }
        }
        Ok(body)
    };
    let body = tokio::time::timeout(TIMEOUT, read).await??;
    let listing: Listing = serde_json::from_slice(&body).map_err(|_| Unlisted::Unreadable)?;
    let mut names: Vec<String> = listing.data.into_iter().map(|model| model.id).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
