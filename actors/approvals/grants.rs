//! Grants: decisions on calls that a person made in advance. Behind a lock, without awaits.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::{Approval, Resolution};
use crate::{
    clock::Timestamp,
    ids::{ApprovalId, Ids, TeamKey},
    policy::caution::{Kind, Risk},
    storage::{Storage, StorageError},
    store::{
        reads::{Range, parse, scan},
        records::Writes,
    },
    task::Label,
    tool::Asking,
};

/// The most calls that one decision is good for.
pub const MOST_USES: u32 = 100;
/// The most grants that stand at a time.
const MAX_GRANTS: usize = 1_000;
/// A grant for a number of calls ends after this.
const GRANT_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

/// A standing decision: calls that are exactly like this one need no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    pub id: String,
    pub covers: Covers,
    pub approval: ApprovalId,
    pub granted_by: String,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// For how many calls; for any number without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
}

/// What a grant covers: calls that equal it in every field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Covers {
    pub team: TeamKey,
    pub tool: String,
    /// Stands for the form of the tool: another form voids the grant.
    pub schema: String,
    pub arguments: Value,
    pub cwd: Option<String>,
    /// The secrets that it uses, with their versions.
    pub secrets: BTreeMap<String, u64>,
    /// Also for turns that have read what a stranger wrote.
    pub untrusted: bool,
}

/// Why an approval cannot stand for more than its one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotGrantable {
    #[error("it is not about a call; decide on it alone")]
    NoCall,
    #[error("its risk is high: each call is decided by itself")]
    HighRisk,
    #[error("its arguments are not shown whole; decide on it alone")]
    Hidden,
    #[error("expected a whole number from 1 to {MOST_USES}, or `always`")]
    Number,
    #[error("there are {MAX_GRANTS} grants already; revoke some first")]
    TooMany,
}

impl Covers {
    /// What an approval would stand for beyond its own call.
    pub fn of(approval: &Approval) -> Result<Self, NotGrantable> {
        let tool = approval.tool.clone();
        let Some(tool) = tool.filter(|_| approval.kind != Kind::Budget) else {
            return Err(NotGrantable::NoCall);
        };
        if approval.risk == Risk::High {
            return Err(NotGrantable::HighRisk);
        }
        if approval.scrubbed || approval.schema.is_empty() {
            return Err(NotGrantable::Hidden);
        }
        Ok(Self {
            team: approval.team.clone(),
            tool,
            schema: approval.schema.clone(),
            arguments: approval.arguments.clone(),
            cwd: approval.cwd.clone(),
            secrets: approval.secrets.clone(),
            untrusted: approval.label == Label::Untrusted,
        })
    }

    /// A call is what this is about, to the last byte. What was granted to a turn that had read
    /// nothing from outside is not good for one that has.
    fn fits(&self, call: &Call<'_>) -> bool {
        let Call { asking, .. } = call;
        self.team == *call.team
            && self.tool == call.tool
            && self.schema == asking.schema
            && self.arguments == *call.arguments
            && self.cwd == asking.cwd
            && self.secrets == asking.secrets
            && (self.untrusted || call.label != Label::Untrusted)
            && asking.shown.is_none()
            && !asking.high_risk
    }
}

impl Resolution {
    /// For how many calls after the first one a grant is needed; none for any number.
    fn further(self) -> Result<Option<Option<u32>>, NotGrantable> {
        match self {
            Self::Once | Self::Uses(1) => Ok(None),
            Self::Uses(uses @ 2..=MOST_USES) => Ok(Some(Some(uses - 1))),
            Self::Uses(_) => Err(NotGrantable::Number),
            Self::Always => Ok(Some(None)),
        }
    }

    /// Whether an approval can be good for that.
    pub(super) fn suits(self, approval: &Approval) -> Result<(), NotGrantable> {
        match self.further()? {
            Some(_) => Covers::of(approval).map(drop),
            None => Ok(()),
        }
    }
}

/// A call for which a person would be asked.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    pub team: &'a TeamKey,
    pub tool: &'a str,
    pub arguments: &'a Value,
    pub asking: &'a Asking,
    /// How far what the turn has read may be believed.
    pub label: Label,
    /// The same for every try of it, and of no other call.
    pub name: &'a str,
}

/// A grant, and the calls that used it.
#[derive(Debug)]
struct TrackedGrant {
    grant: Grant,
    used: HashSet<String>,
}

impl TrackedGrant {
    fn left(&self) -> Option<u32> {
        let used = u32::try_from(self.used.len()).unwrap_or(u32::MAX);
        self.grant.uses.map(|uses| uses.saturating_sub(used))
    }

    fn is_over(&self, now: Timestamp) -> bool {
        self.left() == Some(0) || self.grant.expires_at.is_some_and(|end| end <= now)
    }

    /// What forgets it.
    fn gone(&self) -> Writes {
        let writes = Writes::new().delete::<Grant>(&self.grant.id);
        let uses = self.used.iter().map(|name| use_key(&self.grant.id, name));
        uses.fold(writes, |writes, key| writes.delete::<Use>(&key))
    }
}

/// The grants that stand. Cheap to clone.
#[derive(Clone, Default)]
pub struct Grants(Arc<Mutex<BTreeMap<String, TrackedGrant>>>);

impl Grants {
    /// Those of a store. Blocks.
    pub fn read(storage: &dyn Storage) -> Result<Self, StorageError> {
        let grants = Self::default();
        let mut standing = grants.0.lock();
        // What cannot be read grants nothing.
        for grant in scan::<Grant>(storage, Range::all())? {
            standing.insert(grant.id.clone(), TrackedGrant { grant, used: HashSet::new() });
        }
        for key in Range::<Use>::all().keys(storage)? {
            if let Some(name) = parse::<Use>(&key)
                && let Some((id, name)) = name.split_once('/')
                && let Some(found) = standing.get_mut(id)
            {
                found.used.insert(name.to_owned());
            }
        }
        drop(standing);
        Ok(grants)
    }

    /// Those in force, with how many calls each has left.
    pub fn list(&self, now: Timestamp) -> Vec<(Grant, Option<u32>)> {
        let standing = self.0.lock();
        let alive = standing.values().filter(|found| !found.is_over(now));
        alive.map(|found| (found.grant.clone(), found.left())).collect()
    }

    /// Whether a call may run without asking anybody, and if so what must be durable before it does.
    /// The same call asked about again uses nothing more.
    pub fn permit(&self, call: &Call<'_>, now: Timestamp) -> Option<Writes> {
        let mut standing = self.0.lock();
        let found = standing.values_mut().find(|found| {
            let again = found.used.contains(call.name);
            found.grant.expires_at.is_none_or(|end| now < end)
                && (again || found.left() != Some(0))
                && found.grant.covers.fits(call)
        })?;
        if found.grant.uses.is_none() {
            return Some(Writes::new());
        }
        found.used.insert(call.name.to_owned());
        Some(Writes::new().put_at(&use_key(&found.grant.id, call.name), &Use(now)))
    }

    pub(super) fn is_full(&self, now: Timestamp) -> bool {
        let standing = self.0.lock();
        standing.values().filter(|found| !found.is_over(now)).count() >= MAX_GRANTS
    }

    /// The grant that a decision makes, and what stores it in place of those that are over. It
    /// counts from [`Grants::keep`] on.
    pub(super) fn make(
        &self,
        approval: &Approval,
        ids: &Ids,
        now: Timestamp,
    ) -> Option<(Grant, Writes)> {
        let uses = approval.resolution?.further().ok()??;
        let grant = Grant {
            id: format!("grant-{:016x}", ids.bits()),
            covers: Covers::of(approval).ok()?,
            approval: approval.id.clone(),
            granted_by: approval.resolved_by.clone()?,
            created_at: now,
            expires_at: uses.map(|_| now + GRANT_LIFETIME),
            uses,
        };
        let writes = self.forget(|found| found.is_over(now)).put(&grant);
        Some((grant, writes))
    }

    /// A grant is stored: it counts from now on.
    pub(super) fn keep(&self, grant: Grant) {
        self.0.lock().insert(grant.id.clone(), TrackedGrant { grant, used: HashSet::new() });
    }

    /// Takes back a grant at once. Returns what makes that durable; none: there is no such grant.
    pub(super) fn revoke(&self, id: &str) -> Option<Writes> {
        self.0.lock().remove(id).map(|found| found.gone())
    }

    /// The same of all grants of a team.
    pub(super) fn revoke_team(&self, team: &TeamKey) -> Writes {
        self.forget(|found| found.grant.covers.team == *team)
    }

    /// Lets go of some grants. Returns what makes that durable.
    fn forget(&self, which: impl Fn(&TrackedGrant) -> bool) -> Writes {
        let mut standing = self.0.lock();
        let gone = standing.extract_if(.., |_, found| which(found));
        gone.fold(Writes::new(), |writes, (_, found)| writes.and(found.gone()))
    }
}

crate::records! {
    Grant: "edge\0grant", String, |row| row.id.clone();
    Use: "edge\0grant_use", String;
}

/// When a call used a grant, by the grant and the call.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Use(Timestamp);

fn use_key(id: &str, name: &str) -> String {
    format!("{id}/{name}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp(1_000);

    fn asking() -> Asking {
        Asking { schema: "form-1".to_owned(), ..Asking::default() }
    }

    fn standing(uses: Option<u32>, untrusted: bool) -> Grants {
        let grants = Grants::default();
        grants.keep(Grant {
            id: "grant-1".to_owned(),
            covers: Covers {
                team: TeamKey::first("ops"),
                tool: "bash".to_owned(),
                schema: "form-1".to_owned(),
                arguments: json!({"command": "make"}),
                cwd: None,
                secrets: BTreeMap::new(),
                untrusted,
            },
            approval: "apr-1".into(),
            granted_by: "ann".to_owned(),
            created_at: NOW,
            expires_at: uses.map(|_| NOW + GRANT_LIFETIME),
            uses,
        });
        grants
    }

    fn permits(grants: &Grants, name: &str, label: Label) -> bool {
        let (team, arguments) = (TeamKey::first("ops"), json!({"command": "make"}));
        let call = Call {
            team: &team,
            tool: "bash",
            arguments: &arguments,
            asking: &asking(),
            label,
            name,
        };
        grants.permit(&call, NOW).is_some()
    }

    /// PL-83: exactly this call, of exactly this team, with the tool as it was.
    #[test]
    fn a_grant_is_good_for_exactly_what_was_shown() {
        let grants = standing(None, false);
        let other_team = TeamKey { generation: 2, ..TeamKey::first("ops") };
        let other_arguments = json!({"command": "make "});
        let other_form = Asking { schema: "form-2".to_owned(), ..asking() };
        let elsewhere = Asking { cwd: Some("/".to_owned()), ..asking() };
        let newer_secret = Asking { secrets: BTreeMap::from([("KEY".to_owned(), 2)]), ..asking() };
        let riskier = Asking { high_risk: true, ..asking() };
        let team = TeamKey::first("ops");
        let arguments = json!({"command": "make"});
        let asked = asking();
        let same = Call {
            team: &team,
            tool: "bash",
            arguments: &arguments,
            asking: &asked,
            label: Label::Trusted,
            name: "task-1/1",
        };
        let fits = |call: Call<'_>| grants.permit(&call, NOW).is_some();

        assert!(fits(same));
        assert!(!fits(Call { team: &other_team, ..same }));
        assert!(!fits(Call { tool: "write", ..same }));
        assert!(!fits(Call { arguments: &other_arguments, ..same }));
        for asking in [&other_form, &elsewhere, &newer_secret, &riskier] {
            assert!(!fits(Call { asking, ..same }), "{asking:?}");
        }
        assert!(!fits(Call { label: Label::Untrusted, ..same }));
        let wider = standing(None, true);
        assert!(permits(&wider, "task-1/1", Label::Untrusted));
    }

    /// PL-83: each call counts once, however often it is looked at, and none beyond the number.
    #[test]
    fn a_grant_for_some_calls_is_used_up() {
        let grants = standing(Some(2), false);

        for name in ["task-1/1", "task-1/1", "task-1/2", "task-1/2"] {
            assert!(permits(&grants, name, Label::Trusted), "{name}");
        }

        assert!(!permits(&grants, "task-1/3", Label::Trusted));
        assert_eq!(grants.list(NOW), []);
        let fresh = standing(Some(2), false);
        assert_eq!(fresh.list(NOW).first().unwrap().1, Some(2));
        assert_eq!(fresh.list(NOW + GRANT_LIFETIME), []);
        assert!(grants.revoke("grant-1").is_some());
        assert!(grants.revoke("grant-1").is_none());
    }
}
