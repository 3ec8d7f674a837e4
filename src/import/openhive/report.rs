//! What an import takes, changes and leaves behind, item by item.

use std::fmt;

use serde::Serialize;

/// All items, in the order in which they are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// One each.
    pub items: Vec<Item>,
}

/// One thing of the source. It never holds a value: keys and names only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    /// What is done with it.
    pub outcome: Outcome,
    /// What kind of thing it is: the source's table or folder.
    pub kind: Kind,
    /// The team it is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Its name there.
    pub name: String,
    /// How many there are of it, where the like is counted rather than listed.
    #[serde(skip_serializing_if = "is_one")]
    pub count: u64,
    /// What was changed, or why it stays behind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It stays behind because something is wrong with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub error: bool,
}

fn is_one(count: &u64) -> bool {
    *count == 1
}

/// What is done with a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is taken as it is.
    Imported,
    /// It is taken with changes.
    Converted,
    /// It stays behind.
    Skipped,
}

/// A kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A settings file, or a part of one.
    Settings,
    /// A rule of the operator.
    Rule,
    /// A team.
    Team,
    /// A file of a team's folder.
    File,
    /// A secret or a value of the vault.
    Vault,
    /// Something a team remembers.
    Memory,
    /// A trigger.
    Trigger,
    /// A task.
    Task,
    /// A tool that a team wrote.
    Plugin,
    /// A topic.
    Topic,
    /// What was said in a channel.
    Interactions,
    /// A decision on a sender.
    Trust,
    /// Decisions of the gate.
    Audit,
    /// A problem that was handed up.
    Escalation,
    /// Lines of the log.
    Log,
    /// A part of the database.
    Table,
}

impl Kind {
    /// As reports name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Rule => "rule",
            Self::Team => "team",
            Self::File => "file",
            Self::Vault => "vault",
            Self::Memory => "memory",
            Self::Trigger => "trigger",
            Self::Task => "task",
            Self::Plugin => "plugin",
            Self::Topic => "topic",
            Self::Interactions => "interactions",
            Self::Trust => "trust",
            Self::Audit => "audit",
            Self::Escalation => "escalation",
            Self::Log => "log",
            Self::Table => "table",
        }
    }
}

impl Outcome {
    /// As reports name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Imported => "imported",
            Self::Converted => "converted",
            Self::Skipped => "skipped",
        }
    }
}

impl Item {
    /// Something that is taken: with changes, if there are any.
    pub(super) fn taken(kind: Kind, name: impl Into<String>, changes: &[String]) -> Self {
        Self {
            outcome: if changes.is_empty() { Outcome::Imported } else { Outcome::Converted },
            kind,
            team: None,
            name: name.into(),
            count: 1,
            reason: (!changes.is_empty()).then(|| changes.join("; ")),
            error: false,
        }
    }

    /// Something that stays behind, as it should.
    pub(super) fn left(kind: Kind, name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Skipped,
            reason: Some(reason.into()),
            ..Self::taken(kind, name, &[])
        }
    }

    /// Something that stays behind though it should not.
    pub(super) fn faulty(kind: Kind, name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { error: true, ..Self::left(kind, name, reason) }
    }

    pub(super) fn of(mut self, team: impl Into<String>) -> Self {
        self.team = Some(team.into());
        self
    }

    pub(super) fn times(mut self, count: u64) -> Self {
        self.count = count;
        self
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let team = self.team.as_ref().map(|team| format!("{team}/"));
        let team = team.unwrap_or_default();
        write!(f, "{:9} {:12} {team}{}", self.outcome.as_str(), self.kind.as_str(), self.name)?;
        if self.count != 1 {
            write!(f, " ({})", self.count)?;
        }
        match &self.reason {
            Some(reason) if self.error => write!(f, ": error: {reason}"),
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// How many things had which outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Taken as they are.
    pub imported: u64,
    /// Taken with changes.
    pub converted: u64,
    /// Left behind.
    pub skipped: u64,
    /// Of these, because something is wrong with them.
    pub errors: u64,
}

impl Report {
    pub(super) fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    /// How many of each.
    pub fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for item in &self.items {
            let place = match item.outcome {
                Outcome::Imported => &mut totals.imported,
                Outcome::Converted => &mut totals.converted,
                Outcome::Skipped => &mut totals.skipped,
            };
            *place += item.count;
            if item.error {
                totals.errors += item.count;
            }
        }
        totals
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { imported, converted, skipped, errors } = self;
        write!(
            f,
            "{imported} imported, {converted} converted, {skipped} skipped, {errors} of them for an error"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OR-27
    #[test]
    fn a_line_says_what_happens_to_which_thing_and_why() {
        let changes = ["`parent` is dropped".to_owned(), "max_steps cut".to_owned()];
        let lines = [
            Item::taken(Kind::Memory, "goals", &[]).of("research"),
            Item::taken(Kind::Team, "research", &changes),
            Item::faulty(Kind::Vault, "pin", "shorter than 8 bytes").of("main"),
            Item::left(Kind::Interactions, "ws:1", "older than a day").times(7),
        ];

        assert_eq!(
            lines.clone().map(|line| line.to_string()),
            [
                "imported  memory       research/goals",
                "converted team         research: `parent` is dropped; max_steps cut",
                "skipped   vault        main/pin: error: shorter than 8 bytes",
                "skipped   interactions ws:1 (7): older than a day",
            ]
        );
        let report = Report { items: lines.to_vec() };
        assert_eq!(
            report.totals().to_string(),
            "1 imported, 1 converted, 8 skipped, 1 of them for an error"
        );
    }
}
