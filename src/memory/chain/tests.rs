//! What each act makes of the versions of a key.

use proptest::prelude::*;

use super::*;
use crate::memory::{inject::Injection, provenance::Origin};

/// A chain that acts are made on, one after another.
#[derive(Default)]
struct Bench {
    chain: Chain,
    clock: u64,
}

impl Bench {
    fn act(&mut self) -> Act {
        self.clock += 1;
        Act {
            now: Timestamp(self.clock),
            by: Actor::Operator("op".to_owned()),
            id: format!("mem-{}", self.clock).into(),
            room: true,
            lessons: 0,
        }
    }

    fn apply(&mut self, change: &Change) {
        let versions = &mut self.chain.0;
        versions.retain(|entry| !change.removed.iter().any(|gone| gone.id == entry.id));
        for entry in &change.put {
            match versions.iter_mut().find(|known| known.id == entry.id) {
                Some(known) => *known = entry.clone(),
                None => versions.push(entry.clone()),
            }
        }
        let active = versions.iter().filter(|entry| entry.active).count();
        let proposals = versions.iter().filter(|entry| entry.is_proposal()).count();
        assert!(active <= 1 && proposals <= 1, "{versions:#?}");
    }

    fn try_save(&mut self, draft: Draft) -> Result<(Saved, bool), MemoryError> {
        let act = self.act();
        let (saved, change) = self.chain.save(draft, act, false)?;
        if let Some(change) = &change {
            self.apply(change);
        }
        Ok((saved, change.is_some()))
    }

    fn save(&mut self, draft: Draft) -> Entry {
        let (saved, is_new) = self.try_save(draft).unwrap();
        assert!(is_new && !saved.unchanged, "not a new version: {saved:?}");
        saved.entry
    }

    fn review(&mut self, id: &MemoryId, verdict: Verdict) -> Result<Entry, MemoryError> {
        let act = self.act();
        let change = self.chain.review(id, verdict, Some("seen".into()), &act)?;
        self.apply(&change);
        Ok(change.entry)
    }

    fn rollback(&mut self, id: &MemoryId) -> Result<Entry, MemoryError> {
        let act = self.act();
        let change = self.chain.rollback(id, &act)?;
        self.apply(&change);
        Ok(change.entry)
    }

    fn active(&self) -> &str {
        self.chain.active().map_or("", |entry| &entry.content)
    }
}

fn draft(content: &str) -> Draft {
    Draft {
        team: TeamKey::first("main"),
        key: Key::parse("deploy").unwrap(),
        content: content.to_owned(),
        kind: None,
        reason: Some("newer".to_owned()),
        sources: Vec::new(),
        provenance: Actor::Team("main".into()).provenance(),
        by: Actor::Team("main".into()),
        call: None,
        expires_at: None,
        looks_back: false,
    }
}

fn untrusted(content: &str) -> Draft {
    let mut draft = draft(content);
    draft.provenance.label = Label::Untrusted;
    draft
}

/// MV-04
#[test]
fn an_active_key_is_replaced_only_with_a_reason() {
    let mut bench = Bench::default();
    let first = bench.save(draft(&"ä".repeat(300)));
    let without = Draft { reason: None, ..draft("new") };

    let refused = bench.try_save(without).unwrap_err();
    let second = bench.save(draft("new"));

    let begins = "ä".repeat(199) + "…";
    assert_eq!(refused.code(), "conflict");
    assert!(refused.to_string().contains(&format!("begins: {begins}\n")));
    assert_eq!(second.supersedes_id, Some(first.id.clone()));
    assert_eq!(second.supersede_reason.as_deref(), Some("newer"));
    assert_eq!((first.supersede_reason, second.version), (None, 2));
    let old = bench.chain.get(&first.id).unwrap();
    assert!(!old.active && old.content == "ä".repeat(300));
    assert_eq!(bench.active(), "new");
}

/// MV-04
#[test]
fn the_same_content_makes_no_version() {
    let mut bench = Bench::default();
    let first = bench.save(draft("same"));

    let again = bench.try_save(Draft { reason: None, ..draft("same") });
    let retyped = bench.save(Draft { kind: Some(Kind::Lesson), ..draft("same") });

    assert_eq!(again, Ok((Saved { entry: first, unchanged: true }, false)));
    assert_eq!((retyped.kind, retyped.version), (Kind::Lesson, 2));
}

/// MV-05
#[test]
fn a_save_that_was_overtaken_is_told_what_is_there_now() {
    let mut bench = Bench::default();
    bench.save(draft("first"));
    let act = bench.act();

    let late = bench.chain.save(draft("second"), act, true).unwrap_err();

    assert_eq!(late.code(), "conflict");
    assert!(late.to_string().contains("begins: first"));
}

#[test]
fn the_same_call_again_has_the_result_of_the_first() {
    let mut bench = Bench::default();
    let call = |content| Draft { call: Some("turn-1:1:0".to_owned()), ..draft(content) };
    let first = bench.save(call("one"));
    bench.save(draft("two"));

    let again = bench.try_save(call("one")).unwrap();
    let act = bench.act();
    let (_, deleted) = bench.chain.delete(&act, None, Some("turn-1:2:0"));
    bench.apply(&deleted.unwrap());
    let deleted_again = bench.chain.delete(&act, None, Some("turn-1:2:0"));
    let another = bench.chain.delete(&act, None, Some("turn-1:3:0"));

    let (found, is_new) = again;
    assert_eq!((found.entry.id, found.unchanged, is_new), (first.id, false, false));
    assert_eq!((deleted_again, another), ((true, None), (false, None)));
}

/// MV-03, MV-31: what a version does not say stays as it was.
#[test]
fn a_new_version_keeps_type_pin_and_end() {
    let mut bench = Bench::default();
    let first = bench.save(Draft {
        kind: Some(Kind::Identity),
        expires_at: Some(Timestamp(99)),
        ..draft("one")
    });
    let act = bench.act();
    let pinned = bench.chain.pin(&first.id, true, &act).unwrap();
    bench.apply(&pinned);

    let second = bench.save(draft("two"));

    assert_eq!(
        (second.kind, second.pinned, second.expires_at),
        (Kind::Identity, true, Some(Timestamp(99)))
    );
    assert_eq!(Bench::default().save(draft("one")).kind, Kind::Context);
}

/// MV-15, MV-17
#[test]
fn an_untrusted_turn_proposes_and_only_an_approval_puts_it_in_place() {
    let mut bench = Bench::default();
    let first = bench.save(draft("good"));

    let proposal = bench.save(untrusted("planted"));
    assert!(proposal.is_proposal() && Injection::refused(&proposal).is_some());
    assert_eq!(bench.active(), "good");
    let newer = bench.save(untrusted("planted better"));
    assert_eq!(bench.active(), "good");
    let too_late = bench.review(&proposal.id, Verdict::Approve);
    let approved = bench.review(&newer.id, Verdict::Approve).unwrap();

    assert!(matches!(too_late, Err(MemoryError::State(_))));
    assert_eq!(bench.active(), "planted better");
    assert_eq!(
        (approved.review, approved.supersedes_id.clone()),
        (Review::Approved, Some(first.id))
    );
    let reviewed = approved.reviewed.unwrap();
    assert_eq!(reviewed.note.as_deref(), Some("seen"));
    assert_eq!(reviewed.by, Actor::Operator("op".to_owned()));
    assert_eq!(bench.chain.0.len(), 3);
}

/// MV-15, MV-17
#[test]
fn a_rejected_entry_is_gone_and_a_decision_is_made_once() {
    let mut bench = Bench::default();
    let pending = bench.save(untrusted("planted"));
    assert!(
        pending.active
            && pending.review == Review::Pending
            && Injection::refused(&pending).is_some()
    );

    let rejected = bench.review(&pending.id, Verdict::Reject).unwrap();
    let again = bench.review(&pending.id, Verdict::Approve).unwrap_err();

    assert_eq!((rejected.active, rejected.review), (false, Review::Rejected));
    assert_eq!(bench.active(), "");
    assert_eq!(again.to_string(), "`mem-1` was rejected already, by operator:op");
}

/// MV-15: nothing is proposed against what nobody believes anyway.
#[test]
fn an_untrusted_turn_replaces_what_is_pending() {
    let mut bench = Bench::default();
    bench.save(untrusted("one"));

    let second = bench.save(untrusted("two"));
    let trusted = bench.save(draft("three"));

    assert!(second.active && second.review == Review::Pending);
    assert!(trusted.active && trusted.review == Review::NotNeeded);
    assert_eq!(bench.active(), "three");
}

/// MV-31, MV-70
#[test]
fn a_rollback_is_a_new_version_with_the_old_content() {
    let mut bench = Bench::default();
    let first = bench.save(Draft { kind: Some(Kind::Lesson), ..draft("one") });
    let second = bench.save(Draft { kind: Some(Kind::Decision), ..draft("two") });

    let restored = bench.rollback(&first.id).unwrap();

    assert_eq!(bench.active(), "one");
    assert_eq!((restored.kind, restored.version), (Kind::Lesson, 3));
    assert_eq!(restored.supersedes_id, Some(second.id));
    assert_eq!(restored.supersede_reason, Some(format!("rollback to {}", first.id)));
    assert_eq!(restored.provenance.origin, Origin::Operator);
    assert!(matches!(bench.rollback(&restored.id), Err(MemoryError::State(_))));
    assert!(matches!(bench.rollback(&"mem-x".into()), Err(MemoryError::Unknown(_))));
}

/// MV-31
#[test]
fn a_deleted_entry_is_restored_by_a_rollback() {
    let mut bench = Bench::default();
    let first = bench.save(draft("one"));
    let act = bench.act();
    let change = bench.chain.deactivate(&first.id, &act, None).unwrap();
    bench.apply(&change);
    assert_eq!(bench.active(), "");

    bench.rollback(&first.id).unwrap();

    assert_eq!(bench.active(), "one");
}

/// MV-31
#[test]
fn an_edit_is_a_new_version_unless_only_the_end_changes() {
    let mut bench = Bench::default();
    let first = bench.save(draft("one"));
    let act = bench.act();
    let later = Edit { expires_at: Some(Some(Timestamp(50))), ..Edit::default() };
    let moved = bench.chain.edit(&first.id, later, &act).unwrap();
    bench.apply(&moved);
    let act = bench.act();
    let reworded = Edit { content: Some("two".to_owned()), ..Edit::default() };
    let edited = bench.chain.edit(&first.id, reworded.clone(), &act).unwrap();
    bench.apply(&edited);

    assert_eq!((&moved.entry.id, moved.entry.version), (&first.id, 1));
    assert_eq!(edited.entry.version, 2);
    assert_eq!(edited.entry.expires_at, Some(Timestamp(50)));
    assert_eq!(edited.entry.supersede_reason.as_deref(), Some("edited by operator"));
    let stale = bench.chain.edit(&first.id, reworded, &act).unwrap_err();
    assert_eq!(stale.to_string(), "`mem-1` is not the active version; roll back to it instead");
}

/// MV-01
#[test]
fn an_entry_ends_when_its_time_is_over() {
    let mut bench = Bench::default();
    bench.save(Draft { expires_at: Some(Timestamp(3)), ..draft("one") });
    let early = bench.act();
    assert_eq!(bench.chain.expire(&early), None);
    let due = bench.act();

    let change = bench.chain.expire(&due).unwrap();

    assert!(!change.entry.active);
    assert_eq!(change.entry.ended.and_then(|ended| ended.note).as_deref(), Some("expired"));
}

/// MV-02
#[test]
fn a_full_team_takes_new_versions_but_no_new_key() {
    let full = |bench: &mut Bench| Act { room: false, ..bench.act() };
    let mut bench = Bench::default();
    let act = full(&mut bench);
    let refused = bench.chain.save(draft("one"), act, false).unwrap_err();
    bench.save(draft("one"));
    let act = full(&mut bench);

    let replaced = bench.chain.save(draft("two"), act, false);

    assert_eq!(refused.code(), "limit_entries");
    assert!(matches!(replaced, Ok((_, Some(_)))));
}

/// MV-02
#[test]
fn the_oldest_versions_make_room_but_not_the_one_that_was_brought_back() {
    let mut bench = Bench::default();
    let first = bench.save(draft("0"));
    let second = bench.save(draft("1"));
    bench.rollback(&first.id).unwrap();
    for number in 3..MOST_VERSIONS {
        bench.save(draft(&number.to_string()));
    }
    assert_eq!(bench.chain.0.len(), MOST_VERSIONS);

    bench.save(draft("last"));

    assert_eq!(bench.chain.0.len(), MOST_VERSIONS);
    assert!(bench.chain.get(&first.id).is_ok());
    assert!(bench.chain.get(&second.id).is_err());
    assert_eq!(bench.active(), "last");
}

/// MV-01
#[test]
fn what_is_too_long_is_refused_with_its_field() {
    let long = "x".repeat(501);
    let table = [
        (draft(""), "content"),
        (draft(&"x".repeat(65_537)), "content"),
        (Draft { reason: Some(long.clone()), ..draft("x") }, "supersede_reason"),
        (Draft { sources: vec![long], ..draft("x") }, "sources"),
        (Draft { sources: vec![String::new(); 21], ..draft("x") }, "sources"),
    ];
    for (draft, field) in table {
        let error = draft.check().unwrap_err();
        assert_eq!((error.code(), error.field()), ("invalid_input", Some(field)));
    }
    assert_eq!(draft(&"x".repeat(65_536)).check(), Ok(()));
}

#[derive(Clone, Debug)]
enum Step {
    Save(u8),
    Propose(u8),
    Review(usize, bool),
    Rollback(usize),
    Delete,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        any::<u8>().prop_map(Step::Save),
        any::<u8>().prop_map(Step::Propose),
        (0..20usize, any::<bool>()).prop_map(|(place, yes)| Step::Review(place, yes)),
        (0..20usize).prop_map(Step::Rollback),
        Just(Step::Delete),
    ]
}

proptest! {
    /// MV-15, MV-70: whatever is done, at most one version is active, none is lost, and none that
    /// nobody looked at is in a prompt.
    #[test]
    fn at_each_moment_one_version_counts(steps in prop::collection::vec(step(), 1..40)) {
        let mut bench = Bench::default();
        for step in steps {
            let before = bench.chain.0.len();
            let id = |place: usize| {
                let entry = bench.chain.0.get(place % before.max(1));
                entry.map_or_else(|| "mem-x".into(), |entry| entry.id.clone())
            };
            // Refusals change nothing; `apply` counts what is active.
            match step {
                Step::Save(content) => drop(bench.try_save(draft(&content.to_string()))),
                Step::Propose(content) => drop(bench.try_save(untrusted(&content.to_string()))),
                Step::Review(place, yes) => {
                    let verdict = if yes { Verdict::Approve } else { Verdict::Reject };
                    drop(bench.review(&id(place), verdict));
                }
                Step::Rollback(place) => drop(bench.rollback(&id(place))),
                Step::Delete => {
                    let act = bench.act();
                    if let (_, Some(change)) = bench.chain.delete(&act, None, None) {
                        bench.apply(&change);
                    }
                }
            }
            prop_assert!(bench.chain.0.len() >= before);
            for entry in bench.chain.0.iter().filter(|entry| Injection::refused(entry).is_none()) {
                let believed = entry.provenance.label == Label::Trusted
                    || entry.review == Review::Approved;
                prop_assert!(believed, "{entry:?}");
            }
        }
    }
}

/// OP-28: approved in other words, what was written stays in the chain as what was not believed.
#[test]
fn a_review_in_other_words_is_a_version_of_the_person() {
    for has_active in [true, false] {
        let mut bench = Bench::default();
        if has_active {
            bench.save(draft("good"));
        }
        let pending = bench.save(untrusted("good, and pay at once"));
        let act = bench.act();

        let change = bench
            .chain
            .correct(&pending.id, "better".to_owned(), Some("seen".into()), &act)
            .unwrap();
        bench.apply(&change);

        let made = change.entry;
        assert_eq!(bench.active(), "better");
        assert_eq!((made.review, made.provenance.origin), (Review::Approved, Origin::Operator));
        assert_eq!(made.reviewed.unwrap().note.as_deref(), Some("seen"));
        let written = bench.chain.get(&pending.id).unwrap();
        assert_eq!(
            (&*written.content, written.review, written.active),
            ("good, and pay at once", Review::Rejected, false)
        );
        assert!(bench.chain.proposal().is_none());
        let act = bench.act();
        let again = bench.chain.correct(&pending.id, "worse".to_owned(), None, &act);
        assert_eq!(again.unwrap_err().code(), "conflict");
    }
}
