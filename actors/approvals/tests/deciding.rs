//! Who decides, on what, and how often.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join;
use serde_json::{Value, json};

use super::bench::{Bench, TTL, args, digester, intended, permits, task, word};
use crate::{
    approvals::{
        List, Opened,
        ports::Deciders,
        record::{
            Approval, Choice, Decider, Execution, Intended, NotPermitted, Resolution, Status, Vote,
            Word,
        },
        records,
        refusal::NotDecided,
        requests::{CallRequest, RequestBuilder},
    },
    clock::Timestamp,
    doubles::entropy::Sequence,
    ids::{Ids, TeamKey},
    policy::caution::Risk,
    task::{Label, cause::Cause},
    tool::{Asking, Caller},
};

/// PL-74, PL-76
#[actix::test]
async fn a_decision_is_stored_before_the_waiting_turn_is_told() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let mut denial = word(&approval, Choice::Deny, "bob");
    denial.note = Some("not today".to_owned());
    let decided = process.decide(denial).await.unwrap();

    assert_eq!(bench.row(&process, &approval), decided);
    assert_eq!(decided.status, Status::Denied);
    assert_eq!(decided.resolved_via.as_deref(), Some("api"));
    assert_eq!(decided.denial(), "denied by bob: not today");
    assert_eq!(bench.resolved(), [(Status::Denied, Some("bob".to_owned()))]);
    assert_eq!(bench.disk.keys("apr-open"), Vec::<String>::new());
    assert_eq!(permits(&decided), Err(NotPermitted::NotApproved));
}

/// PL-75, PL-83: `once` is this digest, one execution.
#[actix::test]
async fn an_approval_permits_exactly_one_run_of_exactly_this() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let before = permits(&approval);
    let approved = process.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();
    let running = Approval { execution: Execution::Running, ..approved.clone() };

    assert_eq!(before, Err(NotPermitted::NotApproved));
    assert_eq!(permits(&approved), Ok(()));
    assert_eq!(approved.resolution, Some(Resolution::Once));
    assert_eq!(permits(&running), Err(NotPermitted::Used));
}

/// PL-95, SC-08: mutating any byte of tool, arguments, team, expiry or nonce → nothing runs.
#[actix::test]
async fn any_changed_byte_after_the_approval_keeps_the_call_from_running() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;
    let approved = process.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();
    let team = TeamKey::first("main");
    let none = BTreeMap::new();

    let text = args().to_string();
    let mut tried = 0;
    for place in 0..text.len() {
        for bit in 0..8 {
            let mut bytes = text.clone().into_bytes();
            bytes[place] ^= 1 << bit;
            let Ok(other) = serde_json::from_slice::<Value>(&bytes) else {
                continue;
            };
            if other == args() {
                continue;
            }
            tried += 1;
            let found = approved.permits(digester, intended(&other, &team, &none));
            assert_eq!(found, Err(NotPermitted::DigestMismatch), "{other}");
        }
    }
    assert!(tried > 100, "{tried}");

    let args = args();
    let versions = BTreeMap::from([("KEY".to_owned(), 1)]);
    let (next_life, other_team) =
        (TeamKey { generation: 2, ..team.clone() }, TeamKey::first("other"));
    let good = intended(&args, &team, &none);
    let changed = [
        Intended { tool: "bosh", ..good },
        Intended { team: &next_life, ..good },
        Intended { team: &other_team, ..good },
        Intended { cwd: Some("/"), ..good },
        Intended { secrets: &versions, ..good },
    ];
    for intended in changed {
        let found = approved.permits(digester, intended);
        assert_eq!(found, Err(NotPermitted::DigestMismatch), "{intended:?}");
    }
    let rows = [
        Approval { expires_at: Timestamp(approved.expires_at.0 + 1), ..approved.clone() },
        Approval { nonce: approved.nonce.replacen('0', "1", 1), ..approved.clone() },
        Approval { requester: Cause::System, ..approved.clone() },
        Approval { digest: digester(b"other"), ..approved.clone() },
        Approval {
            votes: vec![Vote { digest: digester(b"other"), ..approved.votes[0].clone() }],
            ..approved.clone()
        },
        Approval {
            votes: vec![Vote { choice: Choice::Deny, ..approved.votes[0].clone() }],
            ..approved.clone()
        },
    ];
    for row in rows {
        assert_eq!(permits(&row), Err(NotPermitted::DigestMismatch), "{row:?}");
    }
    let unasked = Approval { votes: Vec::new(), ..approved };
    assert_eq!(permits(&unasked), Err(NotPermitted::NotApproved));
}

/// PL-75, OP-36
#[actix::test]
async fn a_decision_on_another_digest_does_not_count() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let mut other = word(&approval, Choice::Approve, "bob");
    other.digest = Some(digester(b"something else"));
    let refused = process.decide(other).await;

    assert_eq!(refused, Err(NotDecided::DigestMismatch));
    assert_eq!(process.approvals.send(List).await.unwrap().0, [approval]);
}

/// SC-08: a row that was changed while it waited is not decided on.
#[actix::test]
async fn a_tampered_request_cannot_be_approved() {
    let bench = Bench::new();
    let process = bench.start();
    let mut approval = process.request(bench.clock.now(), &Asking::default());
    approval.arguments = json!({"command": "ls"});
    process.approvals.do_send(Opened(approval.clone()));

    let refused = process.decide(word(&approval, Choice::Approve, "bob")).await;

    assert_eq!(refused, Err(NotDecided::DigestMismatch));
}

/// PL-76: the second decider hears who was first.
#[actix::test]
async fn of_two_deciders_the_first_decides() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;

    let (first, second) = join(
        process.decide(word(&approval, Choice::Approve, "bob")),
        process.decide(word(&approval, Choice::Deny, "eve")),
    )
    .await;

    let first = first.unwrap();
    assert_eq!(second, Err(NotDecided::AlreadyResolved(Box::new(first.clone()))));
    assert_eq!(bench.row(&process, &approval), first);
    assert_eq!(bench.resolved().len(), 1);
}

/// PL-76: a decision is idempotent, also for whoever asks again after a restart.
#[actix::test]
async fn the_same_decision_again_is_no_new_one() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;
    let mine = word(&approval, Choice::Approve, "bob");
    let first = process.decide(mine.clone()).await.unwrap();

    let again = process.decide(mine.clone()).await;
    let later = bench.start();
    let after_restart = later.decide(mine).await;
    let other = later.decide(word(&approval, Choice::Deny, "eve")).await;

    assert_eq!((again, after_restart), (Ok(first.clone()), Ok(first.clone())));
    assert_eq!(other, Err(NotDecided::AlreadyResolved(Box::new(first))));
}

/// PL-74
#[actix::test]
async fn six_letters_are_enough_to_name_what_waits() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;
    let mut by_letters = word(&approval, Choice::Approve, "bob");
    by_letters.which = approval.short_id.clone();
    by_letters.digest = None;

    let decided = process.decide(by_letters.clone()).await.unwrap();
    by_letters.by = Decider::new("eve");
    let again = bench.start().decide(by_letters.clone()).await;
    by_letters.which = "zzzzzz".to_owned();
    let unknown = process.decide(by_letters).await;

    assert_eq!(approval.short_id.len(), 6);
    assert!(approval.short_id.bytes().all(|byte| byte.is_ascii_lowercase()));
    assert_eq!(again, Err(NotDecided::AlreadyResolved(Box::new(decided))));
    assert_eq!(unknown, Err(NotDecided::NotFound));
}

/// PL-74: whatever there ever was, a name is looked up and not searched for.
#[actix::test]
async fn a_short_id_is_found_without_looking_at_all_approvals() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open(&bench).await;
    let decided = process.decide(word(&approval, Choice::Approve, "bob")).await.unwrap();
    let disk = bench.disk.mount(None);
    disk.fail_scans(Some(b""));

    let found = records::called(&*disk, &approval.short_id).unwrap();
    let unknown = records::called(&*disk, "zzzzzz").unwrap();

    assert_eq!((found, unknown), (Some(decided), None));
}

/// PL-77
#[actix::test]
async fn at_high_risk_whoever_caused_the_task_does_not_decide() {
    let bench = Bench::new();
    let process = bench.start();
    let risky = Asking { high_risk: true, ..Asking::default() };
    let approval = process.open_with(&bench, risky).await;
    let as_sender = Word {
        by: Decider { sender: Some(("ws".to_owned(), "ann".to_owned())), ..Decider::new("portal") },
        ..word(&approval, Choice::Approve, "portal")
    };

    let own = process.decide(word(&approval, Choice::Approve, "ann")).await;
    let in_channel = process.decide(as_sender).await;
    let other = process.decide(word(&approval, Choice::Approve, "bob")).await;

    assert_eq!(approval.risk, Risk::High);
    assert_eq!((own, in_channel), (Err(NotDecided::NotAllowed), Err(NotDecided::NotAllowed)));
    assert_eq!(other.unwrap().status, Status::Approved);
}

/// PL-77: where nobody else could decide, they may, if they say that they mean it.
#[actix::test]
async fn at_high_risk_a_lone_person_decides_by_typing_the_short_id() {
    let mut bench = Bench::new();
    // Ann is alone, but for the team `busy`.
    bench.deciders = Deciders::new(|who, team| who.as_str() != "ann" || team.as_str() == "busy");
    let process = bench.start();
    let risky = || Asking { high_risk: true, ..Asking::default() };
    let approval = process.open_with(&bench, risky()).await;
    let typed = |confirm: &str| Word {
        confirm: Some(confirm.to_owned()),
        ..word(&approval, Choice::Approve, "ann")
    };

    let plain = process.decide(word(&approval, Choice::Approve, "ann")).await;
    let wrong = process.decide(typed("zzzzzz")).await;
    let long = process.decide(typed(approval.id.as_str())).await;
    let meant = process.decide(typed(&approval.short_id)).await.unwrap();

    let unconfirmed = || Err(NotDecided::Unconfirmed(approval.short_id.clone()));
    assert_eq!([plain, wrong, long], [(); 3].map(|()| unconfirmed()));
    assert_eq!((meant.status, meant.alone), (Status::Approved, true));
    let row = bench.row(&process, &approval);
    assert!(row.alone);
    let other = process.open_with(&bench, risky()).await;
    let by_bob = process.decide(word(&other, Choice::Approve, "bob")).await;
    assert!(!by_bob.unwrap().alone);
}

/// PL-77: nor through another door: as the principal that their chat identity is linked to, or with the token
/// that claimed them.
#[test]
fn whoever_caused_a_task_is_known_at_every_door() {
    let caused = |principal: Option<&str>| Cause::Sender {
        channel_type: "discord".to_owned(),
        id: "42".to_owned(),
        guest: false,
        principal: principal.map(ToOwned::to_owned),
    };
    let in_channel =
        Decider { sender: Some(("discord".to_owned(), "42".to_owned())), ..Decider::new("alice") };

    assert!(Decider::new("alice").is(&caused(Some("alice"))));
    assert!(!Decider::new("bob").is(&caused(Some("alice"))));
    assert!(!Decider::new("42").is(&caused(None)));
    assert!(in_channel.is(&caused(None)));
    assert!(Decider::new("ann").is(&Cause::sender("ws", "ann")));
}

/// A row from before guests were told apart reads as it did, and is written as it was.
#[test]
fn a_cause_without_the_new_fields_is_what_it_was() {
    let old = r#"{"kind":"sender","channel_type":"ws","id":"ann"}"#;

    let read: Cause = serde_json::from_str(old).unwrap();

    assert_eq!(read, Cause::sender("ws", "ann"));
    assert_eq!(serde_json::to_string(&read).unwrap(), old);
}

#[test]
fn short_ids_of_what_waits_are_unlike() {
    let requests = RequestBuilder::new(Ids::new(Arc::new(Sequence::repeating(20))), digester, TTL);
    let caller = Caller::of(&task());
    let asking = Asking::default();
    let mut names: Vec<String> = (0..3)
        .map(|_| {
            let request = CallRequest {
                caller: &caller,
                turn: &"turn-1".into(),
                label: Label::Trusted,
                call: "",
                tool: "bash",
                arguments: &args(),
                asking: &asking,
            };
            requests.request(request, Timestamp(0)).short_id
        })
        .collect();

    names.dedup();

    assert_eq!(names.len(), 3);
}

/// PL-81: what the model reads of a no names who said it, and why, if they told.
#[actix::test]
async fn a_denial_says_who_and_why() {
    let bench = Bench::new();
    let process = bench.start();
    let denied = |who: Option<&str>, note: Option<&str>| {
        let approval = Approval {
            status: Status::Denied,
            resolved_by: who.map(str::to_owned),
            note: note.map(str::to_owned),
            ..process.request(bench.clock.now(), &Asking::default())
        };
        approval.denial()
    };

    assert_eq!(denied(Some("bob"), Some("not now")), "denied by bob: not now");
    assert_eq!(denied(Some("bob"), Some("")), "denied by bob");
    assert_eq!(denied(None, None), "denied by the operator");
}
