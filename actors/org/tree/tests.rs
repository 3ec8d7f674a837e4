//! The tree alone.

use super::*;
use crate::{clock::Timestamp, org::record::Phase};

fn team(name: &str, parent: &str) -> TeamRecord {
    TeamRecord {
        name: name.into(),
        parent: Some(parent.into()),
        scope: [format!("{name} work")].into(),
        phase: Phase::Initializing,
        ..TeamRecord::main(Timestamp(0))
    }
}

/// main ─ a ─ b ─ c ─ d, and main ─ e
fn tree() -> Tree {
    Tree::new([
        team("cc", "bb"),
        team("aa", "main"),
        team("dd", "cc"),
        TeamRecord::main(Timestamp(0)),
        team("bb", "aa"),
        team("ee", "main"),
    ])
}

fn names(teams: &[&TeamRecord]) -> Vec<String> {
    teams.iter().map(|team| team.name.to_string()).collect()
}

fn spawn(tree: &Tree, name: &str, parent: &str) -> Result<TeamName, OrgError> {
    tree.check_spawn(name, &parent.into(), Limits::default(), [].into_iter())
}

#[test]
fn a_branch_stays_together_and_parents_come_first() {
    let tree = tree();

    assert_eq!(names(&tree.subtree("main")), ["main", "aa", "bb", "cc", "dd", "ee"]);
    assert_eq!(names(&tree.subtree("cc")), ["cc", "dd"]);
    assert_eq!(tree.ancestors("cc"), ["bb", "aa", "main"].map(TeamName::from));
    assert_eq!((tree.depth("main"), tree.depth("dd")), (0, 4));
}

/// OR-35
#[test]
fn a_limit_is_refused_with_limit_and_present_value() {
    let tree = tree();
    let limits = Limits { children: 2, teams: 7 };
    let check = |name: &str, parent: &str, making: &[(&TeamName, &TeamName)]| {
        tree.check_spawn(name, &parent.into(), limits, making.iter().copied())
    };

    assert_eq!(
        spawn(&tree, "ff", "dd"),
        Err(OrgError::LimitDepth { parent: "dd".into(), limit: 4, present: 4 })
    );
    assert!(spawn(&tree, "ff", "cc").is_ok());
    let full = check("ff", "main", &[]).unwrap_err();
    assert_eq!(full.code(), "limit_children");
    assert_eq!(full.to_string(), "`main` has 2 children; `limits.max_children` allows 2");
    assert!(check("ff", "aa", &[]).is_ok());
    let (coming, parent): (TeamName, TeamName) = ("gg".into(), "bb".into());
    let making = [(&coming, &parent)];
    assert_eq!(check("ff", "aa", &making).unwrap_err().code(), "limit_teams");
    assert_eq!(check("gg", "aa", &making).unwrap_err().code(), "name_taken");
}

/// OR-32, OR-33
#[test]
fn taken_and_reserved_names_are_refused() {
    let tree = tree();

    let code = |name: &str| spawn(&tree, name, "main").unwrap_err().code();
    assert_eq!(code("aa"), "name_taken");
    assert_eq!(code("main"), "name_reserved");
    assert_eq!(code("A"), "invalid_input");
    assert_eq!(spawn(&tree, "ff", "zz").unwrap_err().code(), "not_found");
}

/// OR-37
#[test]
fn authority_comes_from_the_tree() {
    let tree = tree();
    let by = |name: &str| By::Team(name.into());
    let may = |caller: &str, name: &str| tree.as_parent(&by(caller), &name.into()).is_ok();

    assert!(may("main", "aa") && may("aa", "bb"));
    // Neither the grandparent nor the team itself nor its child.
    assert!(!may("main", "bb") && !may("bb", "bb") && !may("cc", "bb"));
    assert!(tree.as_parent(&By::Operator("operator".into()), &"bb".into()).is_ok());

    let sees =
        |caller: &str, name: &str| tree.as_self_or_above(&caller.into(), &name.into()).is_ok();
    assert!(sees("aa", "aa") && sees("aa", "dd") && !sees("aa", "ee") && !sees("bb", "aa"));

    let near = |caller: &str, name: &str| tree.as_neighbour(&caller.into(), &name.into()).is_ok();
    assert!(near("aa", "main") && near("aa", "bb") && near("aa", "ee"));
    assert!(!near("aa", "aa") && !near("aa", "cc") && !near("main", "main"));
}

/// OR-36
#[test]
fn the_effective_scope_holds_that_of_all_below() {
    let tree = tree();

    let scope: Vec<_> = tree.effective_scope("bb").into_iter().collect();
    assert_eq!(scope, ["bb work", "cc work", "dd work"]);
}

/// OR-30
#[test]
fn a_name_that_was_given_before_gets_the_next_generation() {
    let mut tree = tree();
    assert_eq!(tree.next_generation(&"ff".into()), 1);

    let gone = TeamRecord { state: TeamState::Removed, ..team("ee", "main") };
    tree.put(gone.clone());

    assert_eq!(tree.get("ee"), None);
    assert_eq!(names(&tree.children("main").collect::<Vec<_>>()), ["aa"]);
    assert_eq!(tree.next_generation(&"ee".into()), 2);
    let read_back = Tree::new([TeamRecord::main(Timestamp(0)), gone]);
    assert_eq!(read_back.next_generation(&"ee".into()), 2);
    assert_eq!(read_back.len(), 1);
}

/// OR-64
#[test]
fn a_shutdown_takes_the_deepest_first_and_children_only_if_told() {
    let tree = tree();
    let by = By::Team("main".into());

    let refused = tree.check_shutdown(&by, &"aa".into(), false).unwrap_err();
    assert_eq!(refused.code(), "has_children");
    assert!(refused.to_string().contains("`bb`"), "{refused}");
    let going = tree.check_shutdown(&by, &"aa".into(), true).unwrap();
    assert_eq!(names(&going.iter().collect::<Vec<_>>()), ["dd", "cc", "bb", "aa"]);
    let operator = By::Operator("operator".into());
    let refused = tree.check_shutdown(&operator, &"main".into(), true);
    assert_eq!(refused, Err(OrgError::Root));
}

/// A parent that is missing, or a circle in damaged rows, must not lose a team.
#[test]
fn a_team_without_a_way_up_hangs_from_main() {
    let tree = Tree::new([
        TeamRecord::main(Timestamp(0)),
        team("aa", "gone"),
        team("bb", "cc"),
        team("cc", "bb"),
    ]);

    assert_eq!(tree.subtree("main").len(), 4);
    assert!(tree.is_below("bb", "main") && tree.is_below("cc", "main"));
}
