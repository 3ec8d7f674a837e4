//! Grants: decisions that are good for more than one call, and how long anything waits.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::bench::{Bench, Process, TTL, args, digester, question, task, word, words};
use crate::{
    approvals::{
        Disbanded, List, Revoke, SetTtl,
        canonical::canonical,
        card,
        grants::{Call, Covers, Grants, MOST_USES, NotGrantable},
        pending_requests::PendingRequests,
        question::{AnswerKind, LONGEST_ANSWER, QuestionStatus},
        record::{Approval, Choice, Decider, Resolution, Status, Word},
        refusal::NotDecided,
        requests::{CallRequest, RequestBuilder},
    },
    clock::Timestamp,
    doubles::entropy::Sequence,
    ids::{Ids, TeamKey},
    policy::caution::{Kind, Risk},
    task::{Label, cause::Cause},
    tool::{Asking, Caller},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A request that could be granted for more than one call.
fn grantable() -> Asking {
    Asking { schema: "form-1".to_owned(), ..Asking::default() }
}

async fn decide(
    process: &Process,
    approval: &Approval,
    resolution: Resolution,
) -> Result<Approval, NotDecided> {
    let word = word(approval, Choice::Approve, "bob");
    process.decide(Word { resolution, ..word }).await
}

fn stored(process: &Process) -> Grants {
    Grants::read(&*process.storage).unwrap()
}

/// PL-83: the decision itself is the first of the calls it is good for; the rest are counted in the store.
#[actix::test]
async fn a_decision_for_three_calls_is_good_for_two_more_within_a_day() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open_with(&bench, grantable()).await;
    let now = bench.clock.now();

    decide(&process, &approval, Resolution::Uses(3)).await.unwrap();

    let (grant, left) = stored(&process).list(now).pop().unwrap();
    assert_eq!((left, grant.uses, grant.expires_at), (Some(2), Some(2), Some(now + DAY)));
    assert_eq!((&grant.approval, grant.granted_by.as_str()), (&approval.id, "bob"));
    let (team, arguments, asking) = (TeamKey::first("main"), args(), grantable());
    let call = |name| Call {
        team: &team,
        tool: "bash",
        arguments: &arguments,
        asking: &asking,
        label: Label::Trusted,
        name,
    };
    let just_before = Timestamp((now + DAY).0 - 1);
    assert!(stored(&process).permit(&call("turn-1:2"), just_before).is_some());
    assert!(stored(&process).permit(&call("turn-1:2"), now + DAY).is_none());
    let used = stored(&process).permit(&call("turn-1:2"), now).unwrap();
    process.store.commit(used).await.unwrap();
    let (_, left) = stored(&process).list(now).pop().unwrap();
    assert_eq!(left, Some(1), "a use outlives the process");
}

/// PL-83
#[actix::test]
async fn a_number_beyond_bounds_is_refused_and_the_approval_still_waits() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open_with(&bench, grantable()).await;

    for number in [0, MOST_USES + 1] {
        let refused = decide(&process, &approval, Resolution::Uses(number)).await;
        assert_eq!(refused, Err(NotGrantable::Number.into()), "{number}");
    }
    decide(&process, &approval, Resolution::Uses(1)).await.unwrap();

    assert_eq!(stored(&process).list(bench.clock.now()), []);
}

/// PL-83: what could not be seen, is dangerous or is no call is decided by itself.
#[actix::test]
async fn what_was_not_shown_whole_or_is_dangerous_stands_for_itself_alone() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open_with(&bench, grantable()).await;
    let with = |change: fn(&mut Approval)| {
        let mut other = approval.clone();
        change(&mut other);
        Covers::of(&other)
    };

    assert_eq!(with(|other| other.kind = Kind::Budget), Err(NotGrantable::NoCall));
    assert_eq!(with(|other| other.tool = None), Err(NotGrantable::NoCall));
    assert_eq!(with(|other| other.risk = Risk::High), Err(NotGrantable::HighRisk));
    assert_eq!(with(|other| other.scrubbed = true), Err(NotGrantable::Hidden));
    assert_eq!(with(|other| other.schema.clear()), Err(NotGrantable::Hidden));
    let untrusted = with(|other| other.label = Label::Untrusted).unwrap();
    assert!(untrusted.untrusted && !Covers::of(&approval).unwrap().untrusted);
    let hidden = process.open(&bench).await;
    let refused = decide(&process, &hidden, Resolution::Always).await;
    assert_eq!(refused, Err(NotGrantable::Hidden.into()));
}

/// PL-83: a thousand grants are enough; one that was taken back makes room.
#[actix::test]
async fn there_is_room_for_a_bounded_number_of_grants() {
    let bench = Bench::new();
    let process = bench.start();
    for _ in 0..1_000 {
        let approval = process.open_with(&bench, grantable()).await;
        decide(&process, &approval, Resolution::Always).await.unwrap();
    }
    let [one_more, alone] = [
        process.open_with(&bench, grantable()).await,
        process.open_with(&bench, grantable()).await,
    ];

    let refused = decide(&process, &one_more, Resolution::Always).await;
    decide(&process, &alone, Resolution::Once).await.unwrap();
    let (grant, _) = stored(&process).list(bench.clock.now()).pop().unwrap();
    let revoke = Revoke { grant: grant.id, by: Decider::new("bob") };
    assert_eq!(process.approvals.send(revoke).await.unwrap(), Ok(true));

    assert_eq!(refused, Err(NotGrantable::TooMany.into()));
    decide(&process, &one_more, Resolution::Always).await.unwrap();
}

/// PL-83: what is over goes from the store with the next grant, what is in force stays.
#[actix::test]
async fn a_new_grant_takes_the_place_of_those_that_are_over() {
    let bench = Bench::new();
    let process = bench.start();
    for resolution in [Resolution::Uses(2), Resolution::Always] {
        let approval = process.open_with(&bench, grantable()).await;
        decide(&process, &approval, resolution).await.unwrap();
    }

    tokio::time::sleep(DAY).await;
    let approval = process.open_with(&bench, grantable()).await;
    decide(&process, &approval, Resolution::Uses(2)).await.unwrap();

    // At a moment when none was over yet: all that the store holds.
    let kept = stored(&process).list(Timestamp(0));
    let mut uses: Vec<_> = kept.iter().map(|(grant, _)| grant.uses).collect();
    uses.sort();
    assert_eq!(uses, [None, Some(1)]);
}

/// OR-64: the grants of a team go with it, and only they; what it asked for is nobody's to decide.
#[actix::test]
async fn what_was_granted_to_a_team_goes_with_it() {
    let bench = Bench::new();
    let process = bench.start();
    let approval = process.open_with(&bench, grantable()).await;
    decide(&process, &approval, Resolution::Always).await.unwrap();
    let waiting = process.open(&bench).await;
    let grants = || stored(&process).list(bench.clock.now()).len();
    let disband = |name: &str| Disbanded { team: TeamKey::first(name) };

    process.approvals.send(disband("other")).await.unwrap();
    process.approvals.send(List).await.unwrap();
    assert_eq!(grants(), 1);

    process.approvals.send(disband("main")).await.unwrap();
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(bench.row(&process, &waiting).status, Status::Cancelled);
    assert_eq!(grants(), 0);
}

/// PL-78: the bound may change while the service runs; it counts for what is asked from then on.
#[actix::test]
async fn a_request_waits_as_long_as_the_settings_say_when_it_is_made() {
    let bench = Bench::new();
    let process = bench.start();
    let now = bench.clock.now();
    let before = process.request(now, &Asking::default());

    process.approvals.send(SetTtl(Duration::from_secs(90))).await.unwrap();

    let after = process.request(now, &Asking::default());
    assert_eq!(before.expires_at, now + TTL);
    assert_eq!(after.expires_at, now + Duration::from_secs(90));
    assert!(after.is_pending(Timestamp(after.expires_at.0 - 1)));
    assert!(!after.is_pending(after.expires_at));
    assert!(card::line(&before, now).contains("60 min left"), "{}", card::line(&before, now));
    let decided = Approval { status: Status::Denied, ..after };
    assert!(!decided.is_pending(now));
}

/// PL-78: the turn has a minute to tell what became of it, before its task runs out.
#[actix::test]
async fn a_request_runs_out_before_its_task_does() {
    let bench = Bench::new();
    let requests = RequestBuilder::new(bench.ids.clone(), digester, TTL);
    let now = Timestamp(10_000);
    let expiry = |left: u64| {
        let mut caller = Caller::of(&task());
        caller.deadline_at = now + Duration::from_secs(left);
        let request = CallRequest {
            caller: &caller,
            turn: &"turn-1".into(),
            label: Label::Trusted,
            call: "turn-1:1:0",
            tool: "bash",
            arguments: &args(),
            asking: &Asking::default(),
        };
        requests.request(request, now).expires_at.since(now).as_secs()
    };

    assert_eq!([600, 61, 60, 5].map(expiry), [540, 1, 1, 1]);
}

/// PL-76: which rule asks is told, if one does.
#[actix::test]
async fn a_request_names_its_rule() {
    let bench = Bench::new();
    let process = bench.start();
    let rule = |rule: &str| {
        let asking = Asking { rule: rule.to_owned(), ..Asking::default() };
        process.request(bench.clock.now(), &asking).rule
    };

    assert_eq!(rule("ask bash"), Some("ask bash".to_owned()));
    assert_eq!(rule(""), None);
}

/// PL-77: people type short ids, so no two that wait are the same; after a restart neither.
#[test]
fn short_ids_of_what_waits_differ() {
    let ids = || Ids::new(Arc::new(Sequence::repeating(4)));
    let request = |requests: &RequestBuilder| {
        let request = CallRequest {
            caller: &Caller::of(&task()),
            turn: &"turn-1".into(),
            label: Label::Trusted,
            call: "turn-1:1:0",
            tool: "bash",
            arguments: &args(),
            asking: &Asking::default(),
        };
        requests.request(request, Timestamp(0)).short_id
    };
    let requests = RequestBuilder::new(ids(), digester, TTL);
    let first = request(&requests);

    let known = RequestBuilder::new(ids(), digester, TTL);
    known.take(&first);
    assert_ne!(request(&known), first);

    let free = RequestBuilder::new(ids(), digester, TTL);
    free.take(&first);
    free.release(&first);
    assert_eq!(request(&free), first);
}

/// PL-77: the same word is two people in two kinds of chat.
#[test]
fn somebody_in_one_chat_is_not_their_namesake_in_another() {
    let cause = Cause::sender("discord", "42");
    let of = |kind: &str, id: &str| Decider {
        sender: Some((kind.to_owned(), id.to_owned())),
        ..Decider::new("token")
    };

    assert!(of("discord", "42").is(&cause));
    assert!(!of("discord", "43").is(&cause));
    assert!(!of("matrix", "42").is(&cause));
    let operator = Cause::Operator { name: "ann".to_owned() };
    assert!(Decider::new("ann").is(&operator));
    assert!(!Decider::new("bob").is(&operator));
}

/// PL-88
#[actix::test]
async fn a_question_is_open_until_it_runs_out_or_is_answered() {
    let bench = Bench::new();
    let asked = question(&bench, AnswerKind::Text);

    assert!(asked.is_open(Timestamp(asked.expires_at.0 - 1)));
    assert!(!asked.is_open(asked.expires_at));
    let mut answered = asked.clone();
    answered.status = QuestionStatus::Answered;
    assert!(!answered.is_open(asked.created_at));
    let told: Vec<&str> = QuestionStatus::ALL.iter().map(|status| status.as_str()).collect();
    assert_eq!(told, ["open", "answered", "expired", "cancelled"]);
    assert_eq!(asked.fits(&words(&"x".repeat(LONGEST_ANSWER))), Ok(()));
    assert!(asked.fits(&words(&"x".repeat(LONGEST_ANSWER + 1))).is_err());
}

/// PL-78, PL-88: time is over when it is reached; what was answered runs out no more.
#[actix::test]
async fn what_has_run_out_is_over_at_that_very_moment() {
    let bench = Bench::new();
    let asked = question(&bench, AnswerKind::Text);
    let mut pending = PendingRequests::default();
    pending.ask(asked.clone());

    assert_eq!(pending.expire(Timestamp(asked.expires_at.0 - 1)).1.len(), 0, "a moment too early");
    assert_eq!(pending.expire(asked.expires_at).1.len(), 1);

    pending.ask(asked.clone());
    let by = Decider::new("bob");
    pending.answer(&asked.id, words("red"), &by, asked.created_at).unwrap();
    assert_eq!(pending.next_due(), None);
}

/// RFC 8785: a space is no control character, and whole numbers keep all their digits.
#[test]
fn digests_are_made_of_the_exact_text() {
    let value = serde_json::json!(["a b", -9_007_199_254_740_993_i64, u64::MAX]);

    assert_eq!(canonical(&value), "[\"a b\",-9007199254740993,18446744073709551615]");
    assert_eq!(canonical(&serde_json::json!(BTreeMap::<String, u8>::new())), "{}");
}
