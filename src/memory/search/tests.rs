//! Ranking, against sums done by hand.

use hivewright_actors::ids::TeamKey;
use proptest::prelude::*;

use super::*;
use crate::memory::entry::{Actor, Review};

fn entry(number: u32, key: &str, content: &str) -> Entry {
    Entry {
        id: format!("mem-{number}").into(),
        team: TeamKey::first("main"),
        key: Key::parse(key).unwrap(),
        version: 1,
        content: content.to_owned(),
        kind: Kind::Context,
        active: true,
        supersedes_id: None,
        supersede_reason: None,
        rollback_to: None,
        provenance: Actor::System.provenance(),
        sources: Vec::new(),
        review: Review::NotNeeded,
        reviewed: None,
        pinned: false,
        expires_at: None,
        ended: None,
        updated_by: Actor::System,
        created_at: Timestamp(0),
        updated_at: Timestamp(u64::from(number)),
        call: None,
        deleted_by_call: None,
    }
}

fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Index {
    let mut index = Index::default();
    entries.into_iter().for_each(|entry| index.put(entry));
    index
}

fn found(index: &Index, query: &str) -> Vec<(String, f64)> {
    let hits = index.search(query, None, 50).into_iter();
    hits.map(|hit| (hit.key.to_string(), hit.score)).collect()
}

fn keys(index: &Index, query: &str) -> Vec<String> {
    found(index, query).into_iter().map(|(key, _)| key).collect()
}

/// MV-25, MV-69
#[test]
fn the_entry_with_the_rare_word_comes_first_with_score_one() {
    let entries = [
        entry(1, "a", "the server listens on a port"),
        entry(2, "b", "the server has a quirk: restarts lose the cache"),
        entry(3, "c", "the server is in Frankfurt"),
    ];
    let index = of(&entries);

    let first = found(&index, "server quirk");

    assert_eq!(first.len(), 3);
    assert_eq!(first[0], ("b".to_owned(), 1.0));
    assert!(first[1].1 < 0.5 && first[2].1 < first[1].1);
    for turn in 0..3 {
        let mut other = Index::default();
        let (head, tail) = entries.split_at(turn);
        tail.iter().chain(head).for_each(|entry| other.put(entry));
        assert_eq!(found(&other, "quirk server"), first);
    }
}

/// MV-25: k1 1.2, b 0.75, by hand.
#[test]
fn a_score_is_the_sum_that_the_formula_says() {
    let (one, two) = (entry(1, "k1", "red red blue"), entry(2, "k2", "blue"));
    let index = of([&one, &two]);

    let hits = index.search("blue", None, 5);

    // Lengths: 3 + 2 (key) + 1 (type) and 1 + 2 + 1, on average 5. `blue` is in both of 2 chunks.
    let worth = (1.0 + (2.0 - 2.0 + 0.5) / (2.0 + 0.5_f64)).ln();
    let score = |length: f64| worth * 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * length / 5.0));
    assert_eq!(hits[0].key.as_str(), "k2");
    assert_eq!(hits[0].score, 1.0);
    assert!((hits[1].score - score(6.0) / score(4.0)).abs() < 1e-12);
}

/// MV-24
#[test]
fn the_key_counts_twice_and_the_type_once() {
    let index = of(&[
        entry(1, "deploy", "how we ship"),
        entry(2, "ship", "how we deploy"),
        entry(3, "other", "nothing here"),
    ]);

    assert_eq!(keys(&index, "deploy"), ["deploy", "ship"]);
    assert_eq!(keys(&index, "CONTEXT").len(), 3);
}

/// MV-25
#[test]
fn signs_mean_nothing_and_a_query_without_words_finds_nothing() {
    let index = of(&[entry(1, "a", "alpha beta"), entry(2, "b", "gamma")]);

    for query in ["", "  ", "*", "?!", "\"\" -- ()", "zeta"] {
        assert_eq!(found(&index, query), [], "{query}");
    }
    for query in ["alpha", "+alpha -beta", "\"beta\"", "alpha:*", "(ALPHA AND zeta)"] {
        assert_eq!(keys(&index, query), ["a"], "{query}");
    }
}

/// MV-25, MV-29: equals are told apart by age, then by key.
#[test]
fn equal_scores_have_a_fixed_order() {
    let mut entries = vec![entry(7, "b", "same"), entry(7, "a", "same"), entry(9, "c", "same")];
    entries[1].id = "mem-8".into();

    let orders: Vec<_> = (0..3)
        .map(|_| {
            entries.rotate_left(1);
            keys(&of(&entries), "same")
        })
        .collect();

    assert_eq!(orders, vec![["c", "a", "b"]; 3]);
}

/// MV-24
#[test]
fn a_long_content_is_found_by_its_end_and_shows_it() {
    let filler = "word ".repeat(2_000);
    let index =
        of(&[entry(1, "long", &format!("{filler}needle in the end")), entry(2, "short", "word")]);

    let hits = index.search("needle", None, 5);

    let content = format!("{filler}needle in the end");
    let shown = snippet(&content, &hits[0].chunk, "needle", SNIPPET);
    assert!(shown.starts_with("…word") && shown.ends_with("needle in the end"));
    assert!(shown.chars().count() <= SNIPPET);
    assert!(hits[0].chunk.start > 8_000);
}

#[test]
fn a_type_narrows_the_search_and_the_best_of_it_has_score_one() {
    let mut lesson = entry(2, "b", "blue blue sky is above");
    lesson.kind = Kind::Lesson;
    let index = of(&[entry(1, "a", "blue"), lesson]);

    let hits = index.search("blue", Some(Kind::Lesson), 5);

    assert_eq!(hits.len(), 1);
    assert_eq!((hits[0].key.as_str(), hits[0].score), ("b", 1.0));
}

proptest! {
    /// MV-24: an index that was kept in step says the same as one made anew.
    #[test]
    fn an_index_in_step_is_the_index_made_anew(
        changes in prop::collection::vec((0u32..6, "[abc ]{0,12}", any::<bool>()), 1..30)
    ) {
        let mut index = Index::default();
        let mut kept = std::collections::BTreeMap::new();
        for (number, content, stays) in changes {
            let entry = entry(number, "key", &content);
            if stays {
                index.put(&entry);
                kept.insert(number, entry);
            } else {
                index.remove(&entry.id);
                kept.remove(&number);
            }
        }

        let anew = of(kept.values());

        prop_assert_eq!(&index.spread, &anew.spread);
        prop_assert_eq!((index.chunks, index.length), (anew.chunks, anew.length));
        prop_assert_eq!(index.search("a b key", None, 50), anew.search("a b key", None, 50));
    }

    /// MV-09
    #[test]
    fn a_snippet_is_short_and_whole(unit in "[aé漢 \n]{1,9}", times in 1usize..300, at in 0usize..300) {
        let content = format!("{} needle {}", unit.repeat(at), unit.repeat(times));
        let index = of(&[entry(1, "k", &content)]);

        let hit = index.search("needle", None, 1).remove(0);
        let shown = snippet(&content, &hit.chunk, "needle", SNIPPET);

        prop_assert!(shown.chars().count() <= SNIPPET);
        prop_assert!(shown.contains("needle"));
    }
}

/// MV-09: entries that are not kept are worth what an index of them says.
#[test]
fn a_count_weighs_like_an_index() {
    let long = "blue sky over the harbour ".repeat(400);
    let entries = [
        entry(1, "a", "blue sky"),
        entry(2, "b", "green sea and blue sky"),
        entry(3, "blue", &long),
        entry(4, "d", "nothing of it"),
    ];
    let query = "blue harbour";

    let mut count = Count::new(query, false);
    entries.iter().for_each(|entry| count.add(entry));
    let mut weighed: Vec<Hit> = entries.iter().filter_map(|entry| count.weigh(entry)).collect();
    weighed.sort_by(order);
    let best = weighed[0].score;
    weighed.iter_mut().for_each(|hit| hit.score /= best);

    assert_eq!(weighed, of(&entries).search(query, None, 50));
    assert_eq!(weighed.len(), 3);
}

/// MV-09: however many there are, few are kept.
#[test]
fn only_the_best_are_kept() {
    let mut best = Best::new(3, |a: &u32, b: &u32| b.cmp(a));

    let mut kept = 0;
    for number in 0..10_000_u32 {
        best.push(number.wrapping_mul(7_919) % 10_000);
        kept = kept.max(best.kept.len());
    }

    assert_eq!(kept, 6);
    assert_eq!(best.sorted(), [9_999, 9_998, 9_997]);
}
