//! Who is told of the end of given work.

use std::sync::Arc;

use super::*;
use crate::{
    doubles::{
        disk::{self, Disk},
        entropy::Sequence,
    },
    org::{
        record::{TeamRecord, TeamState},
        tree::Tree,
    },
    storage::Storage,
    task::{
        ending::{Closed, close},
        outcome::Code,
    },
    usage::Usage,
};

fn team(name: &str, generation: u32, state: TeamState) -> TeamRecord {
    TeamRecord { name: TeamName::from(name), generation, state, ..TeamRecord::main(Timestamp(0)) }
}

/// Work that generation 1 of `child` gave to `main`, and its end.
fn end(view: &OrgView, on_result: OnResult, ending: Ending) -> (Closed, Vec<Notice>) {
    let lane = |team: &str| Lane { team: team.into(), topic: None };
    let mut task = Task {
        kind: Kind::Escalation,
        reply_to: Some(lane("child")),
        on_result,
        attempts: 2,
        ..Task::new(
            "task-1".into(),
            lane("main"),
            "help".to_owned(),
            "child".to_owned(),
            Timestamp(1_000),
        )
    };
    let outcome = Outcome {
        code: (ending != Ending::Done).then_some(Code::Cancelled),
        text: "Go left.".to_owned(),
        usage: Usage { input: 100, output: 20, cost_usd: Some(0.5), ..Usage::default() },
        ..Outcome::new(ending, Timestamp(6_000))
    };
    let ids = Ids::new(Arc::new(Sequence::constant(0)));
    let closed = close(&mut task, outcome, &ids, view);
    let storage = Disk::default().mount(None);
    storage.commit(&closed.writes.clone().batch().unwrap()).unwrap();
    let notices = disk::notices(&*storage).unwrap();
    (closed, notices)
}

fn view(teams: impl IntoIterator<Item = TeamRecord>) -> OrgView {
    let main = team("main", 1, TeamState::Active);
    OrgView::new(Tree::new(teams.into_iter().chain([main])))
}

/// OR-84: with all that the parent needs to judge it.
#[test]
fn the_one_who_asked_learns_what_it_took() {
    let there = view([team("child", 1, TeamState::Active)]);

    let (closed, notices) = end(&there, OnResult::Wake, Ending::Done);

    assert_eq!(notices, []);
    assert_eq!(
        closed.follow_up.unwrap().body,
        "Answer to your escalation (team main, task task-1, done):\n<<<\nGo left.\n>>>\n\
         (attempts: 2, duration_ms: 5000, usage: 120 tokens, 0.5000 USD, finished_at: 1970-01-01T00:00:06.000Z)"
    );
    let (closed, _) = end(&there, OnResult::Silent, Ending::Cancelled);
    assert_eq!(closed.told.unwrap().lane.team.as_str(), "child");
}

/// OR-84, OR-30: a team of the same name that came later did not ask.
#[test]
fn the_operator_learns_of_it_if_the_one_who_asked_is_gone() {
    for gone in [
        view([]),
        view([team("child", 2, TeamState::Active)]),
        view([team("child", 1, TeamState::Draining)]),
    ] {
        for on_result in [OnResult::Wake, OnResult::Notify, OnResult::Silent] {
            let (closed, notices) = end(&gone, on_result, Ending::Done);

            assert_eq!((closed.follow_up, closed.told), (None, None));
            let [notice] = notices.as_slice() else { unreachable!("{notices:?}") };
            assert_eq!(notice.kind, NoticeKind::Orphan);
            assert_eq!(notice.refs, ["task-1"]);
            assert!(notice.text.contains("Go left."), "{}", notice.text);
        }
    }
}

/// OR-84: what a shutdown takes along is told by its own answer.
#[test]
fn work_that_ends_with_both_teams_is_not_told() {
    let gone = OrgView::new(Tree::new([]));

    let (closed, notices) = end(&gone, OnResult::Wake, Ending::Cancelled);

    assert_eq!((closed.follow_up, closed.told, notices), (None, None, Vec::new()));
}

/// OR-67, OR-84: a result that is too long for a turn says where the rest is.
#[test]
fn a_long_result_is_cut_with_the_way_to_its_rest() {
    let lane = |team: &str| Lane { team: team.into(), topic: None };
    let mut task = Task {
        reply_to: Some(lane("child")),
        on_result: OnResult::Wake,
        ..Task::new(
            "task-1".into(),
            lane("main"),
            "help".to_owned(),
            "child".to_owned(),
            Timestamp(1_000),
        )
    };
    let outcome =
        Outcome { text: "x".repeat(10_003), ..Outcome::new(Ending::Done, Timestamp(6_000)) };
    let there = view([team("child", 1, TeamState::Active)]);

    let ids = Ids::new(Arc::new(Sequence::constant(0)));
    let closed = close(&mut task, outcome, &ids, &there);

    let body = closed.follow_up.unwrap().body;
    let mark = r#"x … [3 more characters: list_completed_tasks {"id":"task-1","offset":10000}]"#;
    assert!(body.contains(mark), "{body}");
}
