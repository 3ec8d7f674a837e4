//! Login codes: each logs a browser in once. They live in memory: a restart ends them.

use std::time::Duration;

use hivewright_actors::{clock::Timestamp, ids::CredentialId};
use parking_lot::Mutex;

use super::{
    error::AuthError,
    token::{self, Hash},
};
use crate::settings::secret::Secret;

/// A code is good for this long.
pub(super) const VALID: Duration = Duration::from_secs(120);
/// Codes at one time; the oldest goes.
const MOST: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Links(Mutex<Vec<Link>>);

#[derive(Debug)]
struct Link {
    hash: Hash,
    grant: CredentialId,
    ends_at: Timestamp,
}

impl Links {
    /// A code that opens a session under this grant.
    pub(super) fn make(&self, grant: CredentialId, now: Timestamp) -> Result<Secret, AuthError> {
        let code = token::fresh("")?;
        let mut links = self.0.lock();
        links.retain(|link| now < link.ends_at);
        if links.len() == MOST {
            links.remove(0);
        }
        links.push(Link { hash: Hash::of(code.expose()), grant, ends_at: now + VALID });
        Ok(code)
    }

    /// The grant of a code. It is good for nothing from now on.
    pub(super) fn take(&self, code: &str, now: Timestamp) -> Option<CredentialId> {
        let hash = Hash::of(code);
        let mut links = self.0.lock();
        let place = links.iter().position(|link| link.hash == hash)?;
        let link = links.remove(place);
        (now < link.ends_at).then_some(link.grant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant() -> CredentialId {
        CredentialId::from("operator-1".to_owned())
    }

    /// OP-130
    #[test]
    fn a_code_works_once_and_for_two_minutes() {
        let links = Links::default();
        let begin = Timestamp(1_000_000);
        let [used, late, just] = [0, 1, 2].map(|_| links.make(grant(), begin).unwrap());
        let end = begin + Duration::from_secs(120);

        assert_eq!(links.take(used.expose(), begin), Some(grant()));
        assert_eq!(links.take(used.expose(), begin), None);
        assert_eq!(links.take(just.expose(), Timestamp(end.0 - 1)), Some(grant()));
        assert_eq!(links.take(late.expose(), end), None);
        assert_eq!(links.take("", begin), None);
    }

    #[test]
    fn too_many_codes_push_out_the_oldest() {
        let links = Links::default();
        let codes: Vec<Secret> =
            (0..=MOST).map(|_| links.make(grant(), Timestamp(0)).unwrap()).collect();

        assert_eq!(links.take(codes[0].expose(), Timestamp(1)), None);
        assert_eq!(links.take(codes[1].expose(), Timestamp(1)), Some(grant()));
    }
}
