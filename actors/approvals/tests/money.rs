//! Money: what an operator is asked for when a budget is spent.

use std::time::Duration;

use super::bench::{Bench, Process, TTL, word};
use crate::{
    approvals::{
        Ended,
        record::{Approval, Choice, Execution, Status},
    },
    budget::{
        Day, Days, Request,
        records::{self as spending, Raised},
    },
    doubles::world::OneDay,
    ids::TeamKey,
    task::Kind,
    tool::Asking,
};

fn request(day: u32, task: Option<&str>) -> Request {
    Request {
        team: "main".into(),
        generation: 1,
        day,
        task: task.map(Into::into),
        spent: "1.00 of 1.00 USD today".to_owned(),
        waiting: "task-1".into(),
    }
}

async fn asked(bench: &Bench, process: &Process, request: &Request) -> Approval {
    let today = today(bench);
    assert!(process.ledger.asks(&request.team, request.task.as_ref(), today));
    let asking = Asking {
        kind: "budget".to_owned(),
        shown: Some(serde_json::to_value(request).unwrap()),
        ..Asking::default()
    };
    process.open_with(bench, asking).await
}

fn today(bench: &Bench) -> Day {
    OneDay.day_of(bench.clock.now())
}

fn may_ask_again(bench: &Bench, process: &Process, request: &Request) -> bool {
    let (team, task) = (&request.team, request.task.as_ref());
    process.ledger.asks(team, task, today(bench))
}

/// SE-143: a yes is all that is needed; what counts for the day is noted for the next process.
#[actix::test]
async fn a_yes_to_more_money_is_carried_out_at_once() {
    let today = today(&Bench::new());
    let main = TeamKey::first("main");
    for (request, noted) in [
        (request(today.number, None), vec![(main, Raised(1))]),
        (request(today.number, Some("task-7")), vec![]),
        (request(today.number + 1, None), vec![]),
    ] {
        let bench = Bench::new();
        let process = bench.start();
        let approval = asked(&bench, &process, &request).await;

        let decided = process.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();

        assert_eq!(decided.execution, Execution::Done);
        let rows = spending::of_day::<Raised>(&*process.storage, today).unwrap();
        assert_eq!(rows, noted, "{request:?}");
        assert!(may_ask_again(&bench, &process, &request), "{request:?}");
    }
}

/// SE-143: who says no has said so for the day.
#[actix::test]
async fn a_no_allows_nothing_and_is_not_asked_for_again() {
    let bench = Bench::new();
    let process = bench.start();
    let request = request(today(&bench).number, None);
    let approval = asked(&bench, &process, &request).await;

    let decided = process.decide(word(&approval, Choice::Deny, "bob")).await.unwrap();

    assert_ne!(decided.execution, Execution::Done);
    let rows = spending::of_day::<Raised>(&*process.storage, today(&bench)).unwrap();
    assert_eq!(rows, []);
    assert!(!may_ask_again(&bench, &process, &request));
}

/// SE-143, PL-79: where nobody said anything, others who wait for the same money are told, and may ask.
#[actix::test]
async fn what_ends_undecided_may_be_asked_for_again() {
    for cancelled in [true, false] {
        let bench = Bench::new();
        let process = bench.start();
        let request = request(today(&bench).number, None);
        asked(&bench, &process, &request).await;

        let status = if cancelled {
            let ended = Ended { task: "task-1".into(), kind: Kind::Chat, team: "main".into() };
            process.approvals.send(ended).await.unwrap();
            Status::Cancelled
        } else {
            Status::Expired
        };
        tokio::time::sleep(TTL + Duration::from_secs(1)).await;

        assert_eq!(bench.resolved(), [(status, None)]);
        assert!(may_ask_again(&bench, &process, &request));
    }
}

/// PL-79: a cancelled call that is about no money has nobody left who waits.
#[actix::test]
async fn the_end_of_a_cancelled_call_is_told_to_nobody() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let ended = Ended { task: "task-1".into(), kind: Kind::Chat, team: "main".into() };
    process.approvals.send(ended).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;

    let row = bench.row(&process, &approval);
    assert_eq!(row.denial(), "cancelled: the work it was asked for has ended");
    assert_eq!(bench.resolved(), []);
}
