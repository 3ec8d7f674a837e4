//! Report of an import: what is taken, changed and left behind, item by item.

use std::fmt;

use hivewright_actors::words;
use serde::{Serialize, Serializer};

/// All items, in the order in which they are planned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub items: Vec<Item>,
}

/// One thing of the source. It never holds a value: keys and names only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Item {
    pub outcome: Outcome,
    pub kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// Its name in the source.
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

words! {
    pub enum Outcome {
        /// Taken as it is.
        Imported = "imported",
        /// Taken with changes.
        Converted = "converted",
        Skipped = "skipped",
    }
}

/// A kind of thing. The file that takes it has its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    name: &'static str,
    /// Those of which the report says the same are counted.
    pub(super) is_counted: bool,
}

impl Kind {
    /// A kind whose things are reported one by one.
    pub(super) const fn listed(name: &'static str) -> Self {
        Self { name, is_counted: false }
    }

    pub(super) const fn counted(name: &'static str) -> Self {
        Self { name, is_counted: true }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name)
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
        write!(f, "{:9} {:12} ", self.outcome, self.kind)?;
        if let Some(team) = &self.team {
            write!(f, "{team}/")?;
        }
        f.write_str(&self.name)?;
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

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub imported: u64,
    pub converted: u64,
    pub skipped: u64,
    /// Those of the skipped that something is wrong with.
    pub errors: u64,
}

impl Report {
    pub(super) fn push(&mut self, item: Item) {
        if item.kind.is_counted {
            let mut alike = self.items.iter_mut().rev().take_while(|known| known.kind == item.kind);
            let same = |known: &&mut Item| {
                (known.outcome, &known.name, &known.reason)
                    == (item.outcome, &item.name, &item.reason)
            };
            if let Some(known) = alike.find(same) {
                known.count += item.count;
                return;
            }
        }
        self.items.push(item);
    }

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
            Item::taken(Kind::listed("memory"), "goals", &[]).of("research"),
            Item::taken(Kind::listed("team"), "research", &changes),
            Item::faulty(Kind::listed("vault"), "pin", "shorter than 8 bytes").of("main"),
            Item::left(Kind::listed("interactions"), "ws:1", "older than a day").times(7),
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
