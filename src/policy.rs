//! Policy: the operator's rules that are in force, from the settings and from the store.

use std::{ops::ControlFlow, sync::Arc};

use hivewright_actors::{
    approvals::grants::Grants,
    audit::Audit,
    clock::{Clock, Timestamp},
    ids::{Ids, PrincipalId},
    notice::{Notice, NoticeKind},
    policy::{
        decision::Policy,
        resource::Resource,
        rule::{Effect, Invalid, Rule},
    },
    storage::{Order, Storage, StorageError},
    store::{
        StoreError, StoreHandle,
        reads::{Range, parse},
        records::{Writes, decode},
    },
    words,
};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};

use crate::{
    settings::{config::Config, live::Live},
    system::WallClock,
};

const MOST: usize = 1_000;
/// The note of a rule that takes the place of one that cannot be read.
const UNREADABLE: &str = "this rule cannot be read: until it is removed, everything is denied";

words! {
    /// Where a rule comes from.
    pub enum RuleSource {
        /// The settings: it is changed there.
        Settings = "settings",
        /// REST or the command line.
        Stored = "stored",
    }
}

/// Why a rule was not stored or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("there is a rule `{0}` already")]
    Taken(String),
    #[error("there are {MOST} stored rules already; remove some first")]
    TooMany,
    #[error("there is no rule `{0}`")]
    Unknown(String),
    #[error("rule `{0}` stands in `config/config.yaml`; change it there")]
    FromSettings(String),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("these rules are fixed")]
    Fixed,
}

/// The operator's rules. Cheap to clone.
#[derive(Clone, Default)]
pub struct Policies(Arc<Inner>);

#[derive(Default)]
struct Inner {
    live: Option<Live>,
    grants: Grants,
    /// Held by whoever changes the rules.
    rules: Mutex<Rules>,
    /// What calls are judged by.
    policy: RwLock<Arc<Policy>>,
    store: Option<(StoreHandle, Ids)>,
    /// Held while a rule is being stored, so that two are not stored under one name.
    turn: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Rules {
    /// As the settings file last said when it could be read.
    settings: Arc<Vec<Rule>>,
    stored: Vec<Rule>,
    /// When the next one runs out.
    expires_at: Option<Timestamp>,
}

impl Policies {
    /// The rules of these settings, if there are any, and this store. Blocks.
    pub fn open(
        live: Option<Live>,
        storage: &dyn Storage,
        store: StoreHandle,
        ids: Ids,
    ) -> Result<Self, StorageError> {
        let stored = read(storage)?;
        let book = Self(Arc::new(Inner {
            live,
            grants: Grants::read(storage)?,
            rules: Mutex::new(Rules { stored, ..Rules::default() }),
            store: Some((store, ids)),
            ..Inner::default()
        }));
        book.take(book.settings().as_deref());
        book.renew(&mut book.0.rules.lock());
        book.report_unreadable();
        Ok(book)
    }

    /// These rules and no others: they are not stored.
    pub fn fixed(rules: Vec<Rule>) -> Self {
        let book = Self::default();
        book.fix(rules);
        book
    }

    pub fn fix(&self, stored: Vec<Rule>) {
        let mut rules = self.0.rules.lock();
        rules.stored = stored;
        self.renew(&mut rules);
    }

    /// Tells the operator of stored rules that cannot be read.
    fn report_unreadable(&self) {
        let Ok((store, ids)) = self.store() else { return };
        let rules = self.0.rules.lock();
        for rule in rules.stored.iter().filter(|rule| is_unreadable(rule)) {
            let text = format!(
                "The stored rule `{0}` cannot be read, so that no team may use any tool. Remove it with `hivewright policy remove {0}`, and add it again if it is needed.",
                rule.id
            );
            let notice = Notice::new(ids.notice(), NoticeKind::ConfigInvalid, text, self.time());
            let notice = Notice { refs: vec![rule.id.clone()], ..notice };
            drop(store.commit(Writes::new().put(&notice)));
        }
    }

    /// What calls are judged by. Looks at nothing: see [`Policies::refresh`].
    pub fn now(&self) -> Arc<Policy> {
        self.0.policy.read().clone()
    }

    pub fn grants(&self) -> Grants {
        self.0.grants.clone()
    }

    /// The time by which rules run out.
    pub fn time(&self) -> Timestamp {
        WallClock.now()
    }

    /// The same after a look at the settings file, and without rules that ran out. Blocks.
    pub fn refresh(&self) -> Arc<Policy> {
        self.refresh_with(self.settings().as_deref())
    }

    /// The same for whoever has just looked at the settings file; none cannot be read.
    pub fn refresh_with(&self, config: Option<&Config>) -> Arc<Policy> {
        let changed = self.take(config);
        let mut rules = self.0.rules.lock();
        let over = rules.expires_at.is_some_and(|end| end <= self.time());
        if changed || over {
            self.renew(&mut rules);
        }
        self.now()
    }

    /// All rules, those of the settings first.
    pub fn list(&self) -> Vec<(Rule, RuleSource)> {
        let rules = self.0.rules.lock();
        let settings = rules.settings.iter().map(|rule| (rule.clone(), RuleSource::Settings));
        let stored = rules.stored.iter().map(|rule| (rule.clone(), RuleSource::Stored));
        settings.chain(stored).collect()
    }

    /// Stores a rule. It counts from the next call of any tool.
    pub async fn add(
        &self,
        mut rule: Rule,
        by: &PrincipalId,
        from: &str,
    ) -> Result<Rule, RuleError> {
        let (store, ids) = self.store()?;
        if rule.id.is_empty() {
            rule.id = format!("rule-{:08x}", ids.bits() >> 32);
        }
        let rule = rule.check()?;
        let _turn = self.0.turn.lock().await;
        {
            let rules = self.0.rules.lock();
            let mut known = rules.settings.iter().chain(&rules.stored);
            if known.any(|known| known.id == rule.id) {
                return Err(RuleError::Taken(rule.id));
            }
            if rules.stored.len() >= MOST {
                return Err(RuleError::TooMany);
            }
        }
        let audit = Audit::new(ids, self.time(), by, "policy.add", &*rule.id, from, "stored");
        let writes = Writes::new().put(&StoredRule(rule.clone())).put(&audit);
        store.commit(writes).await?;
        let mut rules = self.0.rules.lock();
        rules.stored.push(rule.clone());
        self.renew(&mut rules);
        Ok(rule)
    }

    /// Removes a stored rule. It does not count from the next call of any tool.
    pub async fn remove(&self, id: &str, by: &PrincipalId, from: &str) -> Result<(), RuleError> {
        let (store, ids) = self.store()?;
        let _turn = self.0.turn.lock().await;
        {
            let rules = self.0.rules.lock();
            if rules.settings.iter().any(|rule| rule.id == id) {
                return Err(RuleError::FromSettings(id.to_owned()));
            }
            if !rules.stored.iter().any(|rule| rule.id == id) {
                return Err(RuleError::Unknown(id.to_owned()));
            }
        }
        let audit = Audit::new(ids, self.time(), by, "policy.remove", id, from, "removed");
        let writes = Writes::new().delete::<StoredRule>(id).put(&audit);
        store.commit(writes).await?;
        let mut rules = self.0.rules.lock();
        rules.stored.retain(|rule| rule.id != id);
        self.renew(&mut rules);
        Ok(())
    }

    /// The settings file as it is now, if these rules go by one and it can be read.
    fn settings(&self) -> Option<Arc<Config>> {
        self.0.live.as_ref()?.config_now().ok()
    }

    /// Takes over what the settings file says, if these rules go by one. One that cannot be read changes nothing: a
    /// fault in it must not lift what it forbade.
    fn take(&self, config: Option<&Config>) -> bool {
        let (Some(_), Some(config)) = (&self.0.live, config) else {
            return false;
        };
        let mut rules = self.0.rules.lock();
        let changed = !Arc::ptr_eq(&rules.settings, &config.policy);
        rules.settings = config.policy.clone();
        changed
    }

    fn renew(&self, rules: &mut Rules) {
        let now = self.time();
        let all = rules.settings.iter().chain(&rules.stored);
        let alive = all.filter(|rule| rule.expires_at.is_none_or(|end| now < end));
        let policy = Policy::new(alive.cloned().collect());
        rules.expires_at = policy.next_expiry(now);
        let mut place = self.0.policy.write();
        *place = Arc::new(policy);
    }

    fn store(&self) -> Result<&(StoreHandle, Ids), RuleError> {
        self.0.store.as_ref().ok_or(RuleError::Fixed)
    }
}

/// A rule as it is stored, by its id.
#[derive(Serialize, Deserialize)]
#[serde(try_from = "Rule")]
struct StoredRule(Rule);

impl TryFrom<Rule> for StoredRule {
    type Error = Invalid;

    fn try_from(rule: Rule) -> Result<Self, Invalid> {
        rule.check().map(Self)
    }
}

hivewright_actors::records! {
    StoredRule: "edge\0policy", String, |row| row.0.id.clone();
}

fn read(storage: &dyn Storage) -> Result<Vec<Rule>, StorageError> {
    let mut rules = Vec::new();
    Range::<StoredRule>::all().walk(storage, Order::Rising, &mut |key, rule| {
        rules.push(rule.map(|StoredRule(rule)| rule).unwrap_or_else(|error| {
            let name = parse::<StoredRule>(key).unwrap_or_default();
            tracing::error!(%error, rule = %name, "a stored rule cannot be read: all that it may be about is denied until it is removed or replaced");
            closed(storage, key).unwrap_or_else(|| unreadable(&name))
        }));
        ControlFlow::Continue(())
    })?;
    Ok(rules)
}

/// Names of stored rules that cannot be read: until they are removed, everything is denied. Blocks.
pub fn unreadable_in(storage: &dyn Storage) -> Result<Vec<String>, StorageError> {
    let rules = read(storage)?.into_iter();
    Ok(rules.filter(is_unreadable).map(|rule| rule.id).collect())
}

/// Nobody knows what it forbade, so that it forbids everything until somebody removes it.
fn unreadable(name: &str) -> Rule {
    let everything = Resource::Tool("*".to_owned());
    Rule { note: UNREADABLE.to_owned(), ..Rule::new(name, everything, Effect::Deny) }
}

fn is_unreadable(rule: &Rule) -> bool {
    rule.note == UNREADABLE && *rule == unreadable(&rule.id)
}

/// A rule that makes no sense any more denies what it was about.
fn closed(storage: &dyn Storage, key: &[u8]) -> Option<Rule> {
    #[derive(Deserialize)]
    struct About {
        id: String,
        resource: Resource,
    }
    let about: About = decode(key, &storage.get(key).ok()??).ok()?;
    let note = "this rule is not valid any more".to_owned();
    let rule = Rule { note, ..Rule::new(&about.id, about.resource, Effect::Deny) };
    rule.check().ok()
}

#[cfg(test)]
mod tests {
    use actix::Arbiter;
    use hivewright_actors::{
        doubles::disk::{self, MemoryStorage},
        policy::{By, Decision, Request, Role, Subject},
        storage::Batch,
        store::{Store, StoreParts, keys::key_of, records::Record},
        tool,
    };
    use serde_json::json;

    use super::*;
    use crate::{settings::tests::place, system::Randomness};

    fn decide(book: &Policies) -> Decision {
        let subject = Subject { role: Role::Operator, user: None, untrusted: false };
        book.now().decide(&Request {
            team: "main",
            tool: "read",
            class: "file.read",
            effect: tool::Effect::Pure,
            args: &json!({}),
            touches: &[],
            uses_secret: false,
            subject: &subject,
            caution: None,
            now: book.time(),
        })
    }

    /// SC-22, PL-73: a rule that cannot be read forbids everything, says so, and can be removed.
    #[actix::test]
    async fn a_rule_that_cannot_be_read_denies_everything_until_it_is_removed() {
        let key = |id: &str| key_of(StoredRule::KIND, id);
        let scratched = key("scratched");
        let rows = [
            (key("garbled"), Some(b"{garbled".to_vec())),
            (scratched.clone(), Some(b"{}".to_vec())),
        ];
        let storage = Arc::new(MemoryStorage::default());
        storage.scratch(scratched);
        let changes = rows.to_vec();
        storage.commit(&Batch::from(changes)).unwrap();
        let place = place();
        let live = Live::new(place.home.clone(), place.environment.clone());

        let store = Store::start(&Arbiter::current(), StoreParts::of(storage.clone()));
        let ids = Ids::new(Arc::new(Randomness));

        let book = Policies::open(Some(live), &*storage, store.clone(), ids).unwrap();

        let names = ["garbled", "scratched"];
        assert_eq!(unreadable_in(&*storage).unwrap(), names);
        assert!(matches!(decide(&book), Decision::Deny(By::Rule(_))));
        store.commit(Writes::new()).await.unwrap();
        let notices = store.read(disk::notices).await.unwrap();
        let mut about: Vec<_> = notices.iter().map(|notice| &*notice.refs[0]).collect();
        about.sort_unstable();
        assert_eq!(about, names);

        book.remove("garbled", &"operator".into(), "api").await.unwrap();
        assert!(matches!(decide(&book), Decision::Deny(_)));
        book.remove("scratched", &"operator".into(), "api").await.unwrap();
        assert_eq!(decide(&book), Decision::Allow(By::Default));
        assert!(unreadable_in(&*storage).unwrap().is_empty());
    }
}
