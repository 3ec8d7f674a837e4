//! Notices: what the operator should know, kept until it was read.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
};

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{
    clock::Timestamp,
    excerpt,
    ids::{Ids, NoticeId, TaskId, TeamName},
    live::event::{Event, Kind, SAID},
    store::{
        records::{Keyed, Record},
        redact::{Owner, Texts},
    },
    words,
};

pub const TEXTS: &[Texts] = &[Texts::of(Notice::KIND, Owner::Main, &["text"])];

/// Something for the operator's inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    pub id: NoticeId,
    pub kind: NoticeKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamName>,
    /// What happened and what can be done, for a person.
    pub text: String,
    /// Ids of tasks, runs, triggers and approvals that it is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<String>,
    pub at: Timestamp,
    #[serde(default)]
    pub read: bool,
}

impl Record for Notice {
    const KIND: &'static str = "notice";
    type Key = NoticeId;

    fn told(&self, _: &NoticeId) -> Option<Event> {
        let data = json!({
            "id": self.id,
            "kind": self.kind,
            "text": excerpt::line(&self.text, SAID),
            "read": self.read,
        });
        let event = Event::new(Kind::InboxChanged, data);
        Some(match &self.team {
            Some(team) => event.of_team(team),
            None => event,
        })
    }
}

impl Keyed for Notice {
    fn key(&self) -> NoticeId {
        self.id.clone()
    }
}

words! {
    /// Kinds of notices.
    pub enum NoticeKind {
        /// A task was given up.
        DeadTask = "dead_task",
        /// A trigger was switched off after failures.
        Breaker = "breaker",
        /// A trigger is no longer valid.
        InvalidTrigger = "invalid_trigger",
        /// A run was missed.
        MissedRun = "missed_run",
        /// A trigger fired too often.
        RateLimited = "rate_limited",
        /// What a trigger or a task has to say, and no channel to say it in.
        Report = "report",
        /// A budget is spent.
        Budget = "budget",
        /// The main team handed something up.
        Escalation = "escalation",
        /// A frame could not be delivered.
        Undelivered = "undelivered",
        /// Teams went round in circles.
        LoopStopped = "loop_stopped",
        /// Work stood still.
        Stall = "stall",
        /// A settings file is wrong.
        ConfigInvalid = "config_invalid",
        /// No provider takes the credential.
        Login = "login",
        /// The vault has no usable key.
        VaultLocked = "vault_locked",
        /// A team keeps dying.
        TeamDegraded = "team_degraded",
        /// A team could not set itself up.
        BootstrapFailed = "bootstrap_failed",
        /// A plugin does not run.
        PluginFailed = "plugin_failed",
        /// The result of work whose asker is gone.
        Orphan = "orphan",
        /// A call whose approval was given has an unknown outcome.
        UnknownOutcome = "unknown_outcome",
        /// A token stood where others may have seen it.
        TokenExposed = "token_exposed",
        /// A record of the store is damaged.
        DamagedRecord = "damaged_record",
        /// The disk has little or no room left, or enough again.
        DiskSpace = "disk_space",
    }
}

impl Notice {
    /// A notice that concerns no team in particular.
    pub fn new(id: NoticeId, kind: NoticeKind, text: String, at: Timestamp) -> Self {
        Self { id, kind, team: None, text, refs: Vec::new(), at, read: false }
    }

    /// It differs from another in nothing but when it was said, and of what.
    pub fn says_the_same(&self, other: &Self) -> bool {
        (self.kind, &self.team, &self.text) == (other.kind, &other.team, &other.text)
    }

    fn says(&self) -> u64 {
        let mut says = DefaultHasher::new();
        (self.kind, &self.team, &self.text).hash(&mut says);
        says.finish()
    }

    /// A notice about a team, with the ids of what else it is about.
    pub fn of_team(
        ids: &Ids,
        kind: NoticeKind,
        team: &TeamName,
        text: String,
        refs: Vec<String>,
        at: Timestamp,
    ) -> Self {
        let (id, team) = (ids.notice(), Some(team.clone()));
        Self { id, kind, team, text, refs, at, read: false }
    }

    /// Work stood still: what was done about it.
    pub fn stall(
        ids: &Ids,
        team: &TeamName,
        task: Option<&TaskId>,
        done: String,
        at: Timestamp,
    ) -> Self {
        let refs: Vec<String> = task.into_iter().map(ToString::to_string).collect();
        tracing::warn!(%team, task = refs.first(), "work stood still: {done}");
        Self::of_team(ids, NoticeKind::Stall, team, done, refs, at)
    }
}

/// Equal notices within this time are one.
const REPEAT_WINDOW: std::time::Duration = std::time::Duration::from_secs(600);

/// Notices that say the same within ten minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gathered {
    /// The first of them. Its id stands for all.
    pub first: Notice,
    pub last_at: Timestamp,
    /// Their ids, oldest first.
    pub ids: Vec<NoticeId>,
    /// All were read.
    pub read: bool,
}

/// A notice without its words: enough to tell which say the same, and small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Brief {
    at: Timestamp,
    says: u64,
    read: bool,
}

impl From<&Notice> for Brief {
    fn from(notice: &Notice) -> Self {
        Self { at: notice.at, says: notice.says(), read: notice.read }
    }
}

/// Notices that say the same within ten minutes, without their words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    says: u64,
    /// When the first came.
    pub at: Timestamp,
    pub last_at: Timestamp,
    /// All were read.
    pub read: bool,
    pub count: usize,
}

impl Group {
    /// What tells it from others.
    pub fn name(&self) -> String {
        let Self { says, at, .. } = *self;
        Name { says, at }.to_string()
    }
}

/// The name of a group: what it says, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    says: u64,
    at: Timestamp,
}

impl Name {
    pub fn parse(text: &str) -> Option<Self> {
        let (says, at) = text.split_once('.')?;
        Some(Self { says: u64::from_str_radix(says, 16).ok()?, at: Timestamp(at.parse().ok()?) })
    }

    pub fn holds(&self, notice: &Notice) -> bool {
        self.at <= notice.at
            && notice.at.since(self.at) < REPEAT_WINDOW
            && notice.says() == self.says
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.says, self.at.0)
    }
}

/// Counts equal notices into one. Holds those groups only that may still grow.
pub fn groups(mut briefs: Vec<Brief>, visit: &mut dyn FnMut(Group)) {
    briefs.sort_unstable_by_key(|brief| brief.at);
    let mut growing: HashMap<u64, Group> = HashMap::new();
    let mut swept = Timestamp::default();
    for brief in briefs {
        let fresh =
            Group { says: brief.says, at: brief.at, last_at: brief.at, read: brief.read, count: 1 };
        match growing.get_mut(&brief.says) {
            Some(group) if brief.at.since(group.at) < REPEAT_WINDOW => {
                group.last_at = brief.at;
                group.read &= brief.read;
                group.count += 1;
            }
            Some(group) => visit(std::mem::replace(group, fresh)),
            None => {
                growing.insert(brief.says, fresh);
            }
        }
        if brief.at.since(swept) >= REPEAT_WINDOW {
            swept = brief.at;
            growing.retain(|_, group| {
                let grows = brief.at.since(group.at) < REPEAT_WINDOW;
                if !grows {
                    visit(*group);
                }
                grows
            });
        }
    }
    growing.into_values().for_each(visit);
}

/// Counts equal notices into one, newest first. `notices` are in the order of time.
pub fn gather(notices: Vec<Notice>) -> Vec<Gathered> {
    let mut gathered: Vec<Gathered> = Vec::new();
    for notice in notices {
        let same = |known: &&mut Gathered| {
            let first = &known.first;
            first.says_the_same(&notice) && notice.at.since(first.at) < REPEAT_WINDOW
        };
        match gathered.iter_mut().rev().find(same) {
            Some(known) => {
                known.last_at = notice.at;
                known.read &= notice.read;
                known.first.refs.extend(notice.refs);
                known.ids.push(notice.id);
            }
            None => gathered.push(Gathered {
                last_at: notice.at,
                read: notice.read,
                ids: vec![notice.id.clone()],
                first: notice,
            }),
        }
    }
    gathered.reverse();
    gathered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(id: &str, minute: u64, text: &str, read: bool) -> Notice {
        Notice {
            id: id.into(),
            kind: NoticeKind::DeadTask,
            team: Some("main".into()),
            text: text.to_owned(),
            refs: vec![format!("task-{id}")],
            at: Timestamp(minute * 60_000),
            read,
        }
    }

    /// OP-39
    #[test]
    fn equal_notices_within_ten_minutes_are_one() {
        let notices = vec![
            notice("a", 0, "same", true),
            notice("b", 1, "other", false),
            notice("c", 9, "same", false),
            notice("d", 10, "same", false),
        ];

        let briefs: Vec<Brief> = notices.iter().rev().map(Brief::from).collect();
        let mut counted = Vec::new();
        groups(briefs, &mut |group| counted.push((group.at.0, group.count)));
        counted.sort_unstable();
        assert_eq!(counted, [(0, 2), (60_000, 1), (600_000, 1)]);
        let gathered: Vec<_> = gather(notices)
            .into_iter()
            .map(|group| {
                let ids: Vec<_> = group.ids.iter().map(ToString::to_string).collect();
                (ids, group.read, group.first.refs.len())
            })
            .collect();

        let ids = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            gathered,
            [(ids(&["d"]), false, 1), (ids(&["b"]), false, 1), (ids(&["a", "c"]), false, 2)]
        );
    }
}
