//! Tests of credentials over a real store actor, with a clock that tests set.

use std::{path::Path, sync::Arc, time::Duration};

use actix::Arbiter;
use futures_util::FutureExt;
use hivewright_actors::{
    clock::{Clock, Timestamp},
    doubles::{clock::ManualClock, disk::MemoryStorage},
    ids::CredentialId,
    store::{Store, StoreParts},
    text::Span,
};
use proptest::prelude::*;
use tempfile::TempDir;

use super::{
    authenticator::Authenticator, error::AuthError, offline, operator, registry::Registry,
    rows::Grant, token::Hash,
};
use crate::api::{
    scope::{Scope, Scopes},
    tokens::{NewToken, TokenKind},
    when::Expiry,
};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

struct Place {
    storage: Arc<MemoryStorage>,
    clock: Arc<ManualClock>,
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            storage: Arc::default(),
            clock: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn secrets(&self) -> &Path {
        self.folder.path()
    }

    /// A start of the service over what is stored.
    async fn start(&self) -> Authenticator {
        let store = Store::start(&Arbiter::current(), StoreParts::of(self.storage.clone()));
        Authenticator::open(store, self.clock.clone(), self.secrets()).await.unwrap()
    }

    fn operator_token(&self) -> String {
        let token = operator::read(self.secrets()).unwrap().unwrap();
        token.expose().to_owned()
    }
}

fn after(span: Duration) -> Expiry {
    Expiry::After(Span(span))
}

fn wish(name: &str, scopes: &[Scope]) -> NewToken {
    NewToken {
        name: name.to_owned(),
        scopes: scopes.to_vec(),
        teams: None,
        expires: Some(after(DAY)),
    }
}

/// Whether it ends now, without waiting for anything but what is already due.
async fn has_ended(ended: impl Future<Output = ()>) -> bool {
    tokio::time::timeout(Duration::from_millis(50), ended).await.is_ok()
}

fn has_ended_at_once(ended: impl Future<Output = ()>) -> bool {
    ended.now_or_never().is_some()
}

/// OP-10, OP-11
#[actix::test]
async fn the_operator_token_has_all_scopes() {
    let place = Place::new();
    let auth = place.start().await;

    let operator = auth.token(&place.operator_token()).unwrap();

    assert_eq!(operator.id.as_str(), "operator");
    assert_eq!(operator.scopes, Scopes::all());
    assert!(auth.token("").is_none());
    assert!(auth.token(&format!("hwo_{}", "A".repeat(43))).is_none());
    assert!(auth.token(&place.operator_token().replace("hwo_", "hwt_")).is_none());
}

/// OP-11, OP-12, SC-01
#[actix::test]
async fn a_token_has_the_stored_scopes_until_it_expires() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();

    let minted = auth.mint(wish("ci", &[Scope::Read, Scope::Chat]), &operator).await.unwrap();

    let holder = auth.token(minted.text.expose()).unwrap();
    assert_eq!(holder.id.as_str(), "ci");
    assert_eq!(holder.scopes.iter().collect::<Vec<_>>(), [Scope::Read, Scope::Chat]);
    place.clock.advance(DAY - Duration::from_millis(1));
    assert!(auth.token(minted.text.expose()).is_some());
    place.clock.advance(Duration::from_millis(1));
    assert!(auth.token(minted.text.expose()).is_none());
}

/// OP-11: an ended token is shown for a year.
#[actix::test]
async fn a_token_that_ended_long_ago_is_forgotten() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    auth.mint(wish("ci", &[Scope::Read]), &operator).await.unwrap();
    let shown = async || place.start().await.grants().len();

    place.clock.advance(366 * DAY);
    let first = shown().await;
    place.clock.advance(DAY);
    let then = shown().await;

    assert_eq!((first, then), (2, 1));
}

/// OP-11, SC-01
#[actix::test]
async fn a_token_gives_away_only_what_it_has() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    let admin = auth.mint(wish("admin", &[Scope::Admin, Scope::Read]), &operator).await.unwrap();
    let admin = auth.token(admin.text.expose()).unwrap();

    let narrower = auth.mint(wish("reader", &[Scope::Read]), &admin).await;
    let wider = auth.mint(wish("writer", &[Scope::Read, Scope::Chat]), &admin).await;

    assert!(narrower.is_ok());
    assert!(matches!(wider, Err(AuthError::BeyondOwn(Scope::Chat))));
}

/// OP-11
#[actix::test]
async fn a_wish_that_makes_no_sense_is_refused() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    auth.mint(wish("ci", &[Scope::Read]), &operator).await.unwrap();
    let lasting = |expires| NewToken { expires: Some(expires), ..wish("other", &[Scope::Read]) };

    for name in ["", "operator", "ws-client", "Ann", "-x", "a b", "hwt_x", &"x".repeat(65)] {
        let refused = auth.mint(wish(name, &[Scope::Read]), &operator).await;
        assert!(matches!(refused, Err(AuthError::Name)), "{name}");
    }
    let taken = auth.mint(wish("ci", &[Scope::Read]), &operator).await;
    assert!(matches!(taken, Err(AuthError::NameTaken(name)) if name == "ci"));
    let empty = auth.mint(wish("other", &[]), &operator).await;
    assert!(matches!(empty, Err(AuthError::NoScopes)));
    for span in [Duration::ZERO, DAY * 3651] {
        let refused = auth.mint(lasting(after(span)), &operator).await;
        assert!(matches!(refused, Err(AuthError::Expiry)), "{span:?}");
    }
    assert!(auth.mint(lasting(Expiry::Never), &operator).await.is_ok());
}

/// OP-12, CH-34
#[actix::test]
async fn revoking_wakes_whoever_holds_the_token_or_a_session_of_it() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    let minted = auth.mint(wish("ci", &[Scope::Chat]), &operator).await.unwrap();
    let holder = auth.token(minted.text.expose()).unwrap();
    let browser = auth.log_in(minted.text.expose()).await.unwrap();
    let ended = [holder.ended(), browser.principal.ended()].map(actix::spawn);
    assert!(!has_ended(holder.ended()).await);

    auth.revoke("ci", false, &operator).await.unwrap();

    for ended in ended {
        tokio::time::timeout(Duration::from_secs(1), ended).await.unwrap().unwrap();
    }
    assert!(auth.token(minted.text.expose()).is_none());
    assert!(auth.session(browser.cookie.expose()).is_none());
    assert!(!has_ended(operator.ended()).await);
    assert!(matches!(auth.revoke("ci", false, &operator).await, Err(AuthError::Unknown(_))));
    assert!(place.start().await.token(minted.text.expose()).is_none());
}

/// CH-34
#[actix::test]
async fn a_token_that_runs_out_wakes_whoever_holds_it() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    let minted = auth.mint(wish("ci", &[Scope::Chat]), &operator).await.unwrap();
    let holder = auth.token(minted.text.expose()).unwrap();

    place.clock.advance(DAY - Duration::from_millis(20));
    assert!(!has_ended_at_once(holder.ended()));
    let soon = holder.ended();
    place.clock.advance(Duration::from_millis(20));

    assert!(has_ended(soon).await);
}

/// OP-14, CH-34: an open connection of a browser ends with the token it was logged in by, however busy it is.
#[actix::test]
async fn a_token_that_runs_out_wakes_whoever_holds_a_session_of_it() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    let minted = auth.mint(wish("ci", &[Scope::Chat]), &operator).await.unwrap();
    let browser = auth.log_in(minted.text.expose()).await.unwrap();
    for _ in 0..2 {
        place.clock.advance(11 * HOUR);
        browser.principal.used();
    }

    place.clock.advance(2 * HOUR - Duration::from_millis(20));
    assert!(!has_ended_at_once(browser.principal.ended()));
    let soon = browser.principal.ended();
    place.clock.advance(Duration::from_millis(20));

    assert!(has_ended(soon).await);
}

/// OP-10, CH-34
#[actix::test]
async fn rotation_ends_the_operator_token_and_its_sessions() {
    let place = Place::new();
    let auth = place.start().await;
    let former = place.operator_token();
    let holder = auth.token(&former).unwrap();
    let browser = auth.log_in(&former).await.unwrap();

    auth.rotate_operator(&holder).await.unwrap();

    assert!(has_ended(holder.ended()).await && has_ended(browser.principal.ended()).await);
    assert!(auth.token(&former).is_none());
    assert!(auth.session(browser.cookie.expose()).is_none());
    assert!(auth.token(&place.operator_token()).is_some());
    assert!(matches!(
        auth.revoke("operator", false, &auth.token(&place.operator_token()).unwrap()).await,
        Err(AuthError::Operator)
    ));
}

/// OP-10: a crash between the file and the store, or a file that was put back.
#[actix::test]
async fn at_start_the_file_says_what_the_operator_token_is() {
    let place = Place::new();
    let former = {
        place.start().await;
        place.operator_token()
    };
    operator::replace(place.secrets()).unwrap();

    let auth = place.start().await;

    assert!(auth.token(&former).is_none());
    assert!(auth.token(&place.operator_token()).is_some());
    assert_eq!(auth.grants().len(), 1);
}

/// OP-14
#[actix::test]
async fn a_session_survives_a_restart() {
    let place = Place::new();
    let browser = place.start().await.log_in(&place.operator_token()).await.unwrap();

    let auth = place.start().await;

    let again = auth.session(browser.cookie.expose()).unwrap();
    assert_eq!(again.credential, browser.principal.credential);
    assert_eq!(again.scopes, Scopes::all());
    assert!(auth.is_csrf(browser.cookie.expose(), &browser.csrf));
    assert!(!auth.is_csrf(browser.cookie.expose(), ""));
}

/// OP-14
#[actix::test]
async fn a_session_ends_after_12_hours_unused() {
    let place = Place::new();
    let auth = place.start().await;
    let browser = auth.log_in(&place.operator_token()).await.unwrap();
    let cookie = browser.cookie.expose();

    // A use within the step at which uses are written down counts as well.
    place.clock.advance(Duration::from_secs(60));
    assert!(auth.session(cookie).is_some());
    place.clock.advance(12 * HOUR - Duration::from_millis(1));
    assert!(auth.session(cookie).is_some());
    browser.principal.used();
    place.clock.advance(12 * HOUR);

    assert!(auth.session(cookie).is_none());
    assert!(has_ended(browser.principal.ended()).await);
}

/// OP-14
#[actix::test]
async fn a_session_ends_after_7_days_however_much_it_is_used() {
    let place = Place::new();
    let auth = place.start().await;
    let browser = auth.log_in(&place.operator_token()).await.unwrap();

    for _ in 0..14 {
        assert!(auth.session(browser.cookie.expose()).is_some());
        place.clock.advance(12 * HOUR - Duration::from_secs(1));
    }
    place.clock.advance(Duration::from_secs(14));

    assert!(auth.session(browser.cookie.expose()).is_none());
}

/// OP-14, OP-20
#[actix::test]
async fn logging_out_ends_one_session() {
    let place = Place::new();
    let auth = place.start().await;
    let one = auth.log_in(&place.operator_token()).await.unwrap();
    let other = auth.log_in(&place.operator_token()).await.unwrap();

    auth.log_out(&one.principal).await.unwrap();

    assert!(auth.session(one.cookie.expose()).is_none());
    assert!(has_ended(one.principal.ended()).await);
    assert!(auth.session(other.cookie.expose()).is_some());
    assert!(!has_ended(other.principal.ended()).await);
    let bearer = auth.token(&place.operator_token()).unwrap();
    assert!(matches!(auth.log_out(&bearer).await, Err(AuthError::Ended)));
}

/// OP-130
#[actix::test]
async fn a_code_logs_one_browser_in_as_whoever_made_it() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    let minted = auth.mint(wish("ann", &[Scope::Chat, Scope::Admin]), &operator).await.unwrap();
    let ann = auth.token(minted.text.expose()).unwrap();
    let code = auth.link(&ann).unwrap();

    let browser = auth.log_in_by_link(code.expose()).await.unwrap();

    assert_eq!(browser.principal.id.as_str(), "ann");
    assert_eq!(browser.principal.scopes, ann.scopes);
    let again = auth.log_in_by_link(code.expose()).await;
    assert!(matches!(again, Err(AuthError::Ended)));
    let late = auth.operator_link().unwrap();
    place.clock.advance(Duration::from_secs(120));
    assert!(auth.log_in_by_link(late.expose()).await.is_err());
    let orphan = auth.link(&ann).unwrap();
    auth.revoke("ann", false, &operator).await.unwrap();
    assert!(auth.log_in_by_link(orphan.expose()).await.is_err());
}

/// OP-06, OP-10, OP-14
#[actix::test]
async fn the_store_holds_every_row_at_once_and_no_credential() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    let minted = auth.mint(wish("ci", &[Scope::Chat]), &operator).await.unwrap();
    let browser = auth.log_in(minted.text.expose()).await.unwrap();

    let stored = place.storage.text();
    assert!(stored.contains("\"ci\"") && stored.contains(browser.principal.credential.as_str()));

    for secret in
        [&place.operator_token(), minted.text.expose(), browser.cookie.expose(), &browser.csrf]
    {
        let random = secret.trim_start_matches("hwo_").trim_start_matches("hwt_");
        assert!(!stored.contains(random));
    }
    assert!(!format!("{minted:?} {browser:?} {operator:?}").contains(minted.text.expose()));
}

/// OP-11
#[actix::test]
async fn the_last_use_is_remembered_and_does_not_bring_back_a_revoked_token() {
    let place = Place::new();
    let auth = place.start().await;
    let operator = auth.token(&place.operator_token()).unwrap();
    let minted = auth.mint(wish("ci", &[Scope::Chat]), &operator).await.unwrap();
    place.clock.advance(HOUR);
    let holder = auth.token(minted.text.expose()).unwrap();

    let used = auth.grants().pop().unwrap().last_used_at;
    place.clock.advance(HOUR);
    let mut revoked = Box::pin(auth.revoke("ci", false, &operator));
    assert!((&mut revoked).now_or_never().is_none());
    holder.used();
    revoked.await.unwrap();

    assert_eq!(used, Some(place.clock.now() - HOUR));
    assert_eq!(names(&place.start().await.grants()), ["operator"]);
}

fn names(grants: &[Grant]) -> Vec<&str> {
    grants.iter().map(|grant| grant.name.as_str()).collect()
}

/// OP-10, OP-11
#[actix::test]
async fn tokens_are_managed_while_the_service_is_stopped() {
    let place = Place::new();
    let former = {
        place.start().await;
        place.operator_token()
    };
    let now = place.clock.now();
    let storage = &*place.storage;

    let kept = offline::create(storage, wish("kept", &[Scope::Chat]), now).unwrap();
    let gone = offline::create(storage, wish("gone", &[Scope::Chat]), now).unwrap();
    offline::revoke(storage, gone.row.id.as_str(), false).unwrap();
    offline::rotate_operator(storage, place.secrets(), now).unwrap();

    assert_eq!(names(&offline::list(storage).unwrap()), ["operator", "kept"]);
    let auth = place.start().await;
    assert!(auth.token(kept.text.expose()).is_some());
    assert!(auth.token(gone.text.expose()).is_none());
    assert!(auth.token(&former).is_none());
    assert!(auth.token(&place.operator_token()).is_some());
}

/// A browser that logs in again and again takes no more than its share.
#[test]
fn the_session_unused_for_longest_makes_room() {
    let mut registry = Registry::default();
    let token = super::token::fresh(super::token::OPERATOR).unwrap();
    registry.apply(&registry.adopt_operator(&token, Timestamp(0)).unwrap());
    let grant = registry.operator().unwrap().id.clone();
    let mut cookies = Vec::new();

    for moment in 0..=1_000 {
        let (minted, change) = registry.open_session(&grant, Timestamp(moment)).unwrap();
        registry.apply(&change);
        cookies.push(minted.text);
    }

    let now = Timestamp(1_001);
    assert!(registry.session(cookies[0].expose(), now).is_none());
    assert!(cookies[1..].iter().all(|cookie| registry.session(cookie.expose(), now).is_some()));
}

proptest! {
    /// SC-01: whoever mints, what is minted is never wider.
    #[test]
    fn minted_rights_are_a_part_of_ones_own(
        own in 0_u8..64,
        wished in 0_u8..64,
        own_teams in 0_u8..8,
        wished_teams in 0_u8..8,
        ends in proptest::option::of(60_000_u64..1_000_000),
        lasts in proptest::option::of(60_000_u64..1_000_000),
    ) {
        let set = |bits: u8| -> Scopes {
            let scopes = Scope::ALL.iter().copied().enumerate();
            scopes.filter(|(place, _)| bits & (1 << place) != 0).map(|(_, scope)| scope).collect()
        };
        // No bits are all teams.
        let teams = |bits: u8| -> Option<Vec<String>> {
            let named = ["a", "b", "c"].into_iter().enumerate();
            let named = named.filter(|(place, _)| bits & (1 << place) != 0);
            (bits != 0).then(|| named.map(|(_, team)| team.to_owned()).collect())
        };
        let wish = NewToken {
            name: "x".into(),
            scopes: set(wished).into(),
            teams: teams(wished_teams),
            expires: Some(lasts.map_or(Expiry::Never, |millis| after(Duration::from_millis(millis)))),
        };

        let maker = Grant {
            id: CredentialId::from("maker".to_owned()),
            kind: TokenKind::Api,
            name: "maker".to_owned(),
            hash: Hash::of("maker"),
            scopes: set(own),
            teams: teams(own_teams),
            created_at: Timestamp(0),
            expires_at: ends.map(Timestamp),
            last_used_at: None,
            minted_by: None,
        };
        let minted = Registry::default().mint(wish, Some(&maker), Timestamp(0));

        let allowed = wished != 0
            && wished & !own == 0
            && (own_teams == 0 || wished_teams & !own_teams == 0);
        prop_assert_eq!(minted.is_ok(), allowed);
        if let Ok((minted, _)) = minted {
            prop_assert_eq!(minted.row.scopes, set(wished));
            let reached = if wished_teams == 0 { own_teams } else { wished_teams };
            prop_assert_eq!(minted.row.teams, teams(reached));
            let soonest = [ends, lasts].into_iter().flatten().min();
            prop_assert_eq!(minted.row.expires_at, soonest.map(Timestamp));
        }
    }
}

/// OP-11: what a newer version knows, the operator of an older one may do.
#[test]
fn the_operator_token_gets_the_scopes_that_came_after_it() {
    let token = super::token::fresh(super::token::OPERATOR).unwrap();
    let mut registry = Registry::default();
    let mut made = registry.adopt_operator(&token, Timestamp(0)).unwrap();
    made.grants[0].scopes = [Scope::Read, Scope::Admin].into_iter().collect();
    registry.apply(&made);

    let change = registry.adopt_operator(&token, Timestamp(1)).unwrap();
    registry.apply(&change);

    let operator = registry.operator().unwrap();
    assert_eq!(operator.scopes, Scopes::all());
    assert_eq!(operator.id, made.grants[0].id);
    let again = registry.adopt_operator(&token, Timestamp(2)).unwrap();
    assert!(again.is_empty());
}
