//! Records of files: whose each is, and where it was said.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::FileRef;
use crate::{
    clock::Timestamp,
    identities::Owner,
    ids::{ChannelId, FileId, GrantId, TeamName},
    store::{
        records::Record,
        redact::{self, Texts},
    },
    task::Label,
};

pub const TEXTS: &[Texts] = &[Texts::of(FileRow::KIND, redact::Owner::Main, &["name"])];

/// A file that no message names is kept this long.
pub const UNNAMED_KEPT: Duration = Duration::from_secs(24 * 60 * 60);
/// It can be named until then and is removed so much later: a message that is on its way finds it.
const UNNAMED_GRACE: Duration = Duration::from_secs(60 * 60);

crate::records! {
    FileRow: "file", FileId, |row| row.file.id.clone();
}

/// A file that is kept, and who has to do with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRow {
    #[serde(flatten)]
    pub file: FileRef,
    /// When it came.
    pub at: Timestamp,
    /// What whoever brought it was let in by; none if a team sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<GrantId>,
    /// Where it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelId>,
    /// The team that it was for, or that sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<TeamName>,
    #[serde(default)]
    pub label: Label,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub named_at: Option<Timestamp>,
}

impl FileRow {
    pub fn belongs_to(&self, owner: &Owner) -> bool {
        self.owner.as_ref() == Some(&owner.grant)
    }

    /// A message may name it, where what was said is kept for this long.
    pub fn can_be_named(&self, now: Timestamp, kept: Duration) -> bool {
        self.age(now) < self.term(kept)
    }

    /// It is to be removed.
    pub fn is_over(&self, now: Timestamp, kept: Duration) -> bool {
        self.age(now) > self.term(kept) + UNNAMED_GRACE
    }

    fn age(&self, now: Timestamp) -> Duration {
        now.since(self.named_at.unwrap_or(self.at))
    }

    fn term(&self, kept: Duration) -> Duration {
        if self.named_at.is_some() { kept } else { UNNAMED_KEPT }
    }

    /// The same once a message has named it, there and then.
    pub fn named(self, channel: &ChannelId, team: &TeamName, label: Label, at: Timestamp) -> Self {
        Self {
            channel: Some(channel.clone()),
            team: Some(team.clone()),
            label: self.label.max(label),
            named_at: Some(at),
            ..self
        }
    }

    /// Whose share of the room it takes.
    pub fn account(&self) -> String {
        match (&self.owner, &self.team) {
            (Some(grant), _) => grant.to_string(),
            (None, Some(team)) => format!("team {team}"),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(named_at: Option<Timestamp>) -> FileRow {
        FileRow {
            file: FileRef {
                id: "file-1".into(),
                name: "a.txt".to_owned(),
                mime: "text/plain".to_owned(),
                size: 1,
                digest: "00".to_owned(),
                path: None,
            },
            at: Timestamp(0),
            owner: Some("grant".into()),
            channel: None,
            team: None,
            label: Label::Trusted,
            named_at,
        }
    }

    /// What can still be named is not removed meanwhile.
    #[test]
    fn an_unnamed_file_goes_after_it_can_no_longer_be_named() {
        let kept = Duration::from_secs(90 * 24 * 60 * 60);
        let fresh = Timestamp(0) + UNNAMED_KEPT / 2;
        let late = Timestamp(0) + UNNAMED_KEPT + UNNAMED_GRACE / 2;
        let gone = Timestamp(0) + UNNAMED_KEPT + UNNAMED_GRACE * 2;

        let fate = |now| (row(None).can_be_named(now, kept), row(None).is_over(now, kept));

        assert_eq!([fresh, late, gone].map(fate), [(true, false), (false, false), (false, true)]);
    }

    #[test]
    fn a_named_file_stays_as_long_as_what_was_said() {
        let kept = Duration::from_secs(90 * 24 * 60 * 60);
        let named = row(Some(Timestamp(0) + UNNAMED_KEPT));

        assert!(named.can_be_named(Timestamp(0) + kept, kept));
        assert!(!named.is_over(Timestamp(0) + UNNAMED_KEPT + kept, kept));
        assert!(named.is_over(Timestamp(0) + UNNAMED_KEPT + kept + UNNAMED_GRACE * 2, kept));
    }

    /// A file that came from somebody unknown stays so, whoever names it next.
    #[test]
    fn a_label_only_falls() {
        let team = "main".into();
        let named = |row: FileRow, label| row.named(&"ws:1".into(), &team, label, Timestamp(1));

        let doubted = named(row(None), Label::Untrusted);

        assert_eq!(named(doubted, Label::Trusted).label, Label::Untrusted);
    }
}
