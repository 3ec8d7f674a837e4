//! Ends that nobody decides on: time, restarts, cuts.

use std::time::Duration;

use super::bench::{Bench, TTL, permits, task, word};
use crate::{
    approvals::{
        Ended, List, Opened, SetTtl,
        record::{Approval, Choice, NotPermitted, Status},
        records::Recovered,
        refusal::NotDecided,
    },
    channel::records as outboxes,
    doubles::disk::{Crash, Disk},
    storage::Storage,
    store::{reads::get, records::Writes},
    task::records::FinishedTask,
    tool::Asking,
};

/// PL-78: expired means denied, by the alarm alone.
#[actix::test]
async fn what_nobody_decides_on_expires() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    let row = bench.row(&process, &approval);
    let late = process.decide(word(&approval, Choice::Approve, "bob")).await;

    assert_eq!(row.status, Status::Expired);
    assert_eq!(row.denial(), "denied by nobody: no decision in time");
    assert_eq!(late, Err(NotDecided::Expired(Box::new(row.clone()))));
    assert_eq!(permits(&row), Err(NotPermitted::NotApproved));
    assert_eq!(bench.resolved(), [(Status::Expired, None)]);
}

/// PL-78: one that waits for less long is not kept waiting by the alarm of another.
#[actix::test]
async fn what_runs_out_sooner_expires_sooner() {
    let bench = Bench::new();
    let process = bench.start();
    let long = process.open(&bench).await;
    process.approvals.send(SetTtl(TTL / 6)).await.unwrap();
    let short = process.open(&bench).await;

    tokio::time::sleep(TTL / 6 + Duration::from_secs(1)).await;

    assert_eq!(bench.row(&process, &short).status, Status::Expired);
    assert_eq!(bench.row(&process, &long).status, Status::Pending);
    tokio::time::sleep(TTL).await;
    assert_eq!(bench.row(&process, &long).status, Status::Expired);
}

/// PL-78: also when the time ran out while nobody was there.
#[actix::test]
async fn what_expired_while_the_service_was_down_expires_at_the_start() {
    let bench = Bench::new();
    let approval = {
        let process = bench.start();
        let approval = process.open(&bench).await;
        process.approvals.send(List).await.unwrap();
        approval
    };
    bench.resolved.lock().unwrap().clear();

    tokio::time::sleep(TTL * 2).await;
    bench.resolved.lock().unwrap().clear();
    let process = bench.start();
    let waiting = process.approvals.send(List).await.unwrap().0;
    let late = process.decide(word(&approval, Choice::Approve, "bob")).await;

    assert_eq!(waiting, []);
    assert!(matches!(late, Err(NotDecided::Expired(_))), "{late:?}");
}

/// PL-76: a restart loses nothing.
#[actix::test]
async fn what_waits_still_waits_after_a_restart() {
    let bench = Bench::new();
    let first = bench.start();
    let approval = first.open(&bench).await;

    let second = bench.start();
    let waiting = second.approvals.send(List).await.unwrap().0;
    let decided = second.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();

    assert_eq!(waiting, [approval]);
    assert_eq!(permits(&decided), Ok(()));
}

/// PL-79: if its task ends otherwise, nobody needs to decide.
#[actix::test]
async fn the_end_of_a_task_cancels_what_it_waited_for() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    process
        .approvals
        .send(Ended { task: "task-1".into(), kind: crate::task::Kind::Chat, team: "main".into() })
        .await
        .unwrap();
    let late = process.decide(word(&approval, Choice::Approve, "bob")).await;

    let row = bench.row(&process, &approval);
    assert_eq!(row.status, Status::Cancelled);
    assert_eq!(late, Err(NotDecided::AlreadyResolved(Box::new(row))));
    // Where the card is, nobody is left to think that it waits.
    let frames = outboxes::outbox(&*process.storage, &"ws:1".into()).unwrap().into_iter();
    let told: Vec<_> = frames
        .map(|row| serde_json::to_value(&row.frame).unwrap()["body"]["status"].clone())
        .collect();
    assert_eq!(told, ["pending", "cancelled"]);
    // What was kept for its calls goes with it.
    assert_eq!(*bench.vault.released.lock().unwrap(), ["task-1".into()]);
}

/// PL-79: also if nobody was there to hear of it.
#[actix::test]
async fn what_waits_for_no_open_task_is_cancelled_at_the_start() {
    let bench = Bench::new();
    let first = bench.start();
    let approval = first.open(&bench).await;
    let mut over = task();
    over.parked = None;
    first.store.commit(Writes::new().put(&FinishedTask::of(&over))).await.unwrap();

    let second = bench.start();
    let waiting = second.approvals.send(List).await.unwrap().0;
    second.store.commit(Writes::new()).await.unwrap();

    assert_eq!(waiting, []);
    assert_eq!(bench.row(&second, &approval).status, Status::Cancelled);
}

/// PL-76: a decision that its turn did not hear of is told again after a restart.
#[actix::test]
async fn a_parked_turn_hears_of_its_decision_after_a_crash() {
    let bench = Bench::new();
    let first = bench.start();
    let approval = first.open(&bench).await;
    let decided = first.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();
    bench.resolved.lock().unwrap().clear();

    let second = bench.start();
    second.approvals.send(List).await.unwrap();
    second.store.commit(Writes::new()).await.unwrap();

    assert_eq!(*bench.resolved.lock().unwrap(), [decided]);
}

/// A decision may come before the turn has said that there is something to decide.
#[actix::test]
async fn a_request_is_found_in_the_store_before_it_is_announced() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.request(bench.clock.now(), &Asking::default());
    process.store.commit(process.requests.opening(&approval).put(&task())).await.unwrap();

    let decided = process.decide(word(&approval, Choice::Deny, "bob")).await.unwrap();
    process.approvals.do_send(Opened(approval));
    let waiting = process.approvals.send(List).await.unwrap().0;

    assert_eq!(decided.status, Status::Denied);
    assert_eq!(waiting, []);
}

/// PL-95: cut at every commit point of ask and decide. A decision that was answered is there; one
/// that was not is either there or still to be made; nothing waits that was decided.
#[actix::test]
async fn a_cut_at_any_commit_loses_no_request_and_no_decision() {
    let bench = Bench::new();
    let whole = bench.start();
    let approval = whole.open(&bench).await;
    whole.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();
    let commits = whole.storage.commits();
    assert_eq!(commits, 2);

    for cut in (0..commits).flat_map(|n| [Crash::Before(n), Crash::After(n)]) {
        let bench = Bench::new();
        let doomed = bench.start_on(bench.disk.mount(Some(cut)));
        let approval = doomed.request(bench.clock.now(), &Asking::default());
        let writes = doomed.requests.opening(&approval).put(&task());
        let stored =
            tokio::time::timeout(Duration::from_secs(1), doomed.store.commit(writes)).await;
        let mut answered = None;
        if stored.is_ok_and(|stored| stored.is_ok()) {
            doomed.approvals.do_send(Opened(approval.clone()));
            let decide = doomed.decide(word(&approval, Choice::Approve, "bob"));
            answered = tokio::time::timeout(Duration::from_secs(1), decide).await.ok();
        }
        let told_before = bench.resolved().len();

        let next = bench.start();
        let waiting = next.approvals.send(List).await.unwrap().0;
        let row = get::<Approval>(&*next.storage, &approval.id).unwrap();

        let label = format!("{cut:?}");
        match &row {
            None => assert!(matches!(cut, Crash::Before(0)), "{label}"),
            Some(row) if row.status == Status::Pending => {
                assert!(!matches!(answered, Some(Ok(_))), "{label}");
                assert_eq!(told_before, 0, "{label}");
                assert_eq!(waiting.len(), 1, "{label}");
                let decided = next.decide(word(&approval, Choice::Deny, "eve")).await;
                assert_eq!(decided.unwrap().status, Status::Denied, "{label}");
            }
            Some(row) => {
                assert_eq!(row.status, Status::Approved, "{label}");
                assert_eq!(waiting, [], "{label}");
                assert_eq!(bench.resolved().len() - told_before, 1, "told after the cut: {label}");
                let late = next.decide(word(&approval, Choice::Deny, "eve")).await;
                assert!(matches!(late, Err(NotDecided::AlreadyResolved(_))), "{label}");
            }
        }
    }
}

/// What is in the store is enough to see what waits.
#[actix::test]
async fn a_store_without_approvals_recovers_nothing() {
    let storage = Disk::default().mount(None);

    let recovered = Recovered::read(&*storage as &dyn Storage, &[task().into()]).unwrap();

    assert_eq!((recovered.approvals.len(), recovered.decided.len()), (0, 0));
}
