//! The tree of teams, as it is put together here.

use std::collections::{BTreeMap, BTreeSet};

use hivewright_actors::{clock::Timestamp, ids::MAIN, org::tree::DEEPEST};

use super::{installation::Tables, moment::moment, names, schema::row};

row! {
    OrgRow in "org_tree" by "created_at, id" known by id {
        id: String,
        parent: Option<String> as "parent_id",
        status: String,
        created_at: String,
        bootstrapped: bool = "0",
    } unread ["name"]
}

row! {
    /// What a team is for, one word of it.
    KeywordRow in "scope_keywords" by "team_id, keyword" {
        team: String as "team_id",
        keyword: String,
    }
}

const LONGEST_KEYWORD: usize = 64;
const MOST_KEYWORDS: usize = 50;

/// A team to be made, with its place in the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TeamDraft<'a> {
    /// What the source calls it.
    pub(super) former: &'a str,
    pub(super) name: String,
    pub(super) mark: String,
    /// None is the main team.
    pub(super) parent: Option<String>,
    pub(super) scope: BTreeSet<String>,
    /// It has set itself up.
    pub(super) is_ready: bool,
    /// Why it cannot work as it is.
    pub(super) degraded: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) changes: Vec<String>,
}

/// The main team is always there, also if nobody wrote it down.
pub(super) fn ensure_main(tables: &mut Tables) {
    let rows = tables.of::<OrgRow>();
    if rows.iter().all(|row| row.id != MAIN) {
        let main = OrgRow {
            id: MAIN.into(),
            parent: None,
            status: "active".into(),
            created_at: String::new(),
            bootstrapped: true,
        };
        let rows = [std::slice::from_ref(&main), rows].concat();
        tables.put(rows);
    }
}

impl TeamDraft<'_> {
    pub(super) fn is_main(&self) -> bool {
        self.parent.is_none()
    }
}

/// Puts the tree together: each team after the one above it, and beside them those that stay behind with
/// the reason. `given` says what teams of earlier imports are called, `taken` are the names of all
/// others that are there.
pub(super) fn arrange<'a>(
    rows: &'a [OrgRow],
    keywords: &[KeywordRow],
    given: &BTreeMap<&str, &String>,
    taken: &BTreeSet<String>,
) -> (Vec<TeamDraft<'a>>, Vec<(&'a str, &'static str)>) {
    let mut used = taken.clone();
    used.extend(given.values().map(|name| (*name).clone()));
    let mut called: BTreeMap<&str, String> = BTreeMap::new();
    let mut left = Vec::new();
    for row in rows {
        let id = row.id.as_str();
        if row.status == "shutdown" {
            left.push((id, "it was shut down"));
        } else if id == MAIN {
            called.insert(id, MAIN.to_owned());
        } else if let Some(name) = given.get(id) {
            called.insert(id, (*name).clone());
        } else if taken.contains(id) {
            left.push((id, "there is a team of this name, and teams are not merged"));
        } else if let Some(name) = names::team(id, &used) {
            used.insert(name.clone());
            called.insert(id, name);
        } else {
            left.push((id, "nothing of its name can be used here"));
        }
    }
    let parents: BTreeMap<&str, &str> = rows
        .iter()
        .filter_map(|row| Some((row.id.as_str(), row.parent.as_deref()?)))
        .filter(|(_, parent)| called.contains_key(parent))
        .collect();
    let mut drafts: Vec<(usize, TeamDraft<'_>)> = rows
        .iter()
        .filter_map(|row| {
            let name = called.get(row.id.as_str())?.clone();
            let depth = depth(&row.id, &parents);
            let above = above(&row.id, &parents).and_then(|id| called.get(id)).cloned();
            Some((depth, draft(row, name, above, depth, keywords)))
        })
        .collect();
    drafts.sort_by_key(|(depth, _)| *depth);
    (drafts.into_iter().map(|(_, draft)| draft).collect(), left)
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

fn draft<'a>(
    row: &'a OrgRow,
    name: String,
    above: Option<String>,
    depth: usize,
    keywords: &[KeywordRow],
) -> TeamDraft<'a> {
    let (mut changes, mut degraded) = (Vec::new(), None);
    if name != row.id {
        changes.push(format!("it is called `{name}`"));
    }
    let parent = if row.id == MAIN {
        None
    } else {
        Some(above.unwrap_or_else(|| {
            let above = row.parent.as_deref().unwrap_or("none");
            let reason = format!("the team above it (`{above}`) is missing");
            changes.push(format!("{reason}; it hangs from `main` and is degraded"));
            degraded = Some(reason);
            MAIN.to_owned()
        }))
    };
    if depth > DEEPEST {
        changes.push(format!("it is {depth} levels below `main`, more than the usual {DEEPEST}"));
    }
    let words = keywords.iter().filter(|word| word.team == row.id);
    TeamDraft {
        former: &row.id,
        name,
        mark: row.mark(),
        parent,
        scope: scope(words.map(|word| word.keyword.as_str()), &mut changes),
        is_ready: row.bootstrapped,
        degraded,
        created_at: moment(&row.created_at),
        changes,
    }
}

/// Keywords of a scope as they are kept here.
pub(super) fn scope<'a>(
    words: impl Iterator<Item = &'a str>,
    changes: &mut Vec<String>,
) -> BTreeSet<String> {
    let mut scope = BTreeSet::new();
    for word in words {
        let kept: String = word.trim().to_lowercase().chars().take(LONGEST_KEYWORD).collect();
        if word.chars().count() > LONGEST_KEYWORD {
            changes
                .push(format!("the scope keyword `{kept}` is cut to {LONGEST_KEYWORD} characters"));
        }
        if kept.is_empty() {
            continue;
        }
        if scope.len() < MOST_KEYWORDS || scope.contains(&kept) {
            scope.insert(kept);
        } else {
            changes.push(format!("the scope keyword `{kept}` is one too many"));
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
            parent: parent.map(str::to_owned),
            status: "active".into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
            bootstrapped: true,
        }
    }

    fn planned<'a>(rows: &'a [OrgRow], taken: &[&str]) -> (Vec<TeamDraft<'a>>, Vec<&'a str>) {
        let taken = taken.iter().map(|name| (*name).to_owned()).collect();
        let keywords = [KeywordRow { team: "news".into(), keyword: " Papers ".into() }];
        let (drafts, left) = arrange(rows, &keywords, &BTreeMap::new(), &taken);
        (drafts, left.into_iter().map(|(id, _)| id).collect())
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
        for place in places.iter().filter(|place| !place.is_main()) {
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
