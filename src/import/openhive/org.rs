//! The tree of teams, as it is put together here.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::{clock::Timestamp, ids::MAIN};

use super::{
    moment::moment,
    names,
    rows::{KeywordRow, OrgRow},
};

/// More levels below the main team than a team can be made at.
const DEEPEST: usize = 4;
/// The longest word of a scope.
const LONGEST_WORD: usize = 64;
/// The most words of a scope.
const MOST_WORDS: usize = 50;

/// A team to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What the source calls it.
    pub(super) former: String,
    /// What it is called here.
    pub(super) name: String,
    /// None is the main team.
    pub(super) parent: Option<String>,
    pub(super) scope: BTreeSet<String>,
    /// It has set itself up.
    pub(super) ready: bool,
    /// Why it cannot work as it is.
    pub(super) degraded: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) changes: Vec<String>,
}

impl Place {
    pub(super) fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}

/// What becomes of a row of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Planned {
    /// A team to be made.
    Place(Place),
    /// A row that stays behind, and why.
    Left(String, &'static str),
}

/// Puts the tree together: each team after the one above it. `given` says what teams of earlier
/// imports are called, `taken` are the names of all others that are there.
pub(super) fn plan(
    rows: &[OrgRow],
    keywords: &[KeywordRow],
    given: &BTreeMap<String, String>,
    taken: &BTreeSet<String>,
) -> Vec<Planned> {
    let mut used = taken.clone();
    used.extend(given.values().cloned());
    let mut called: BTreeMap<&str, String> = BTreeMap::new();
    let mut planned = Vec::new();
    for row in rows {
        if row.status == "shutdown" {
            let reason = "it was shut down";
            planned.push(Planned::Left(row.id.clone(), reason));
        } else if row.id == MAIN {
            called.insert(&row.id, MAIN.to_owned());
        } else if let Some(name) = given.get(&row.id) {
            called.insert(&row.id, name.clone());
        } else if taken.contains(&row.id) {
            let reason = "there is a team of this name, and teams are not merged";
            planned.push(Planned::Left(row.id.clone(), reason));
        } else if let Some(name) = names::team(&row.id, &used) {
            used.insert(name.clone());
            called.insert(&row.id, name);
        } else {
            let reason = "nothing of its name can be used here";
            planned.push(Planned::Left(row.id.clone(), reason));
        }
    }
    let parents: BTreeMap<&str, &str> = rows
        .iter()
        .filter_map(|row| Some((row.id.as_str(), row.parent.as_deref()?)))
        .filter(|(_, parent)| called.contains_key(parent))
        .collect();
    let mut places: Vec<(usize, Place)> = rows
        .iter()
        .filter_map(|row| {
            let name = called.get(row.id.as_str())?.clone();
            let above = above(&row.id, &parents);
            let depth = depth(&row.id, &parents);
            let above = above.and_then(|id| called.get(id)).cloned();
            Some((depth, place(row, name, above, depth, keywords)))
        })
        .collect();
    places.sort_by_key(|(depth, _)| *depth);
    planned.extend(places.into_iter().map(|(_, place)| Planned::Place(place)));
    planned
}

/// The team above, if there is one and it is not also below.
fn above<'a>(id: &str, parents: &BTreeMap<&'a str, &'a str>) -> Option<&'a str> {
    let first = parents.get(id).copied()?;
    let mut at = first;
    for _ in 0..parents.len() {
        if at == id {
            return None;
        }
        match parents.get(at) {
            Some(next) => at = next,
            None => break,
        }
    }
    Some(first)
}

/// How far below the main team.
fn depth(id: &str, parents: &BTreeMap<&str, &str>) -> usize {
    let mut at = id;
    let mut depth = 0;
    while at != MAIN {
        depth += 1;
        match above(at, parents) {
            Some(next) => at = next,
            None => break,
        }
    }
    depth
}

fn place(
    row: &OrgRow,
    name: String,
    above: Option<String>,
    depth: usize,
    keywords: &[KeywordRow],
) -> Place {
    let mut changes = Vec::new();
    if name != row.id {
        changes.push(format!("it is called `{name}`"));
    }
    let mut degraded = None;
    let parent = match (row.id.as_str(), above) {
        (MAIN, _) => None,
        (_, Some(above)) => Some(above),
        (_, None) => {
            let above = row.parent.as_deref().unwrap_or("none");
            let reason = format!("the team above it (`{above}`) is missing");
            changes.push(format!("{reason}; it hangs from `main` and is degraded"));
            degraded = Some(reason);
            Some(MAIN.to_owned())
        }
    };
    if depth > DEEPEST {
        changes.push(format!("it is {depth} levels below `main`, more than the usual {DEEPEST}"));
    }
    let words = keywords.iter().filter(|word| word.team == row.id);
    let scope = scope(words.map(|word| word.keyword.as_str()), &mut changes);
    Place {
        former: row.id.clone(),
        name,
        parent,
        scope,
        ready: row.bootstrapped,
        degraded,
        created_at: moment(&row.created_at),
        changes,
    }
}

/// Words as they are kept here.
pub(super) fn scope<'a>(
    words: impl Iterator<Item = &'a str>,
    changes: &mut Vec<String>,
) -> BTreeSet<String> {
    let mut scope = BTreeSet::new();
    for word in words {
        let kept: String = word.trim().to_lowercase().chars().take(LONGEST_WORD).collect();
        if word.chars().count() > LONGEST_WORD {
            changes.push(format!("the scope keyword `{kept}` is cut to {LONGEST_WORD} characters"));
        }
        match kept.is_empty() {
            true => {}
            false if scope.len() < MOST_WORDS || scope.contains(&kept) => {
                scope.insert(kept);
            }
            false => changes.push(format!("the scope keyword `{kept}` is one too many")),
        }
    }
    scope
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, parent: Option<&str>) -> OrgRow {
        OrgRow {
            id: id.into(),
            name: id.into(),
            parent: parent.map(str::to_owned),
            status: "active".into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
            bootstrapped: true,
        }
    }

    fn planned(rows: &[OrgRow], taken: &[&str]) -> (Vec<Place>, Vec<String>) {
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        let keywords = [KeywordRow { team: "news".into(), keyword: " Papers ".into() }];
        let (mut places, mut left) = (Vec::new(), Vec::new());
        for planned in plan(rows, &keywords, &BTreeMap::new(), &taken) {
            match planned {
                Planned::Place(place) => places.push(place),
                Planned::Left(id, _) => left.push(id),
            }
        }
        (places, left)
    }

    /// OR-29
    #[test]
    fn each_team_comes_after_the_one_above_it() {
        let rows = [row("sub", Some("news")), row("news", Some("main")), row("main", None)];

        let (places, left) = planned(&rows, &[]);

        let shape: Vec<_> =
            places.iter().map(|place| (place.name.as_str(), place.parent.as_deref())).collect();
        assert_eq!(shape, [("main", None), ("news", Some("main")), ("sub", Some("news"))]);
        assert_eq!(places[1].scope, ["papers".to_owned()].into());
        assert!(left.is_empty());
    }

    /// OR-29
    #[test]
    fn a_team_whose_parent_is_missing_hangs_from_main_and_is_degraded() {
        let rows = [
            row("main", None),
            row("orphan", Some("gone")),
            row("round", Some("about")),
            row("about", Some("round")),
            row("loose", None),
            row("child", Some("about")),
        ];

        let (mut places, _) = planned(&rows, &[]);

        // What hangs from one of them still does.
        let child = places.pop();
        assert_eq!(child.and_then(|place| place.parent).as_deref(), Some("about"));
        for place in places.iter().filter(|place| !place.is_root()) {
            assert_eq!(place.parent.as_deref(), Some("main"), "{}", place.name);
            assert!(place.degraded.is_some(), "{}", place.name);
        }
        assert_eq!(places.len(), 5);
    }

    /// OR-26
    #[test]
    fn a_team_that_is_there_already_stays_as_it_is() {
        let rows = [
            row("main", None),
            row("news", Some("main")),
            row("sub", Some("news")),
            row("api", Some("main")),
        ];

        let (places, left) = planned(&rows, &["news", "main"]);

        let names: Vec<_> = places.iter().map(|place| place.name.as_str()).collect();
        assert_eq!(names, ["main", "sub", "api-team"]);
        assert_eq!(left, ["news"]);
        assert_eq!(places[1].parent.as_deref(), Some("main"));
    }
}
