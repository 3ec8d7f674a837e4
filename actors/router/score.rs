//! Topic scores: how well a message fits each of some topics.

use std::collections::VecDeque;

use super::words::Words;

/// How many messages of a topic are remembered.
pub(super) const MAX_REMEMBERED: usize = 10;

/// What a word is worth that stands in the name of the topic.
const IN_NAME: f64 = 3.0;

/// What a word is worth in the newest message, the one before it, and so on: powers of 0.8.
const BY_AGE: [f64; MAX_REMEMBERED] =
    [1.0, 0.8, 0.64, 0.512, 0.4096, 0.327_68, 0.262_144, 0.209_715_2, 0.167_772_16, 0.134_217_728];

/// What a topic is known by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Profile<'a> {
    pub(super) name: &'a Words,
    /// The words of its last messages, newest first.
    pub(super) recent: &'a VecDeque<Words>,
}

/// For each topic the share of the message's words that it knows, 0 to 1; rare words count more.
///
/// Reads each word of each topic once.
pub(super) fn scores(message: &Words, topics: &[Profile<'_>]) -> Vec<f64> {
    let words = message.iter().count();
    if words == 0 {
        return vec![0.0; topics.len()];
    }
    let mut weights = vec![0.0_f64; words * topics.len()];
    let mut known_by = vec![0_u32; words];
    for (weights, topic) in weights.chunks_exact_mut(words).zip(topics) {
        message.shared_with(topic.name, |word| weights[word] += IN_NAME);
        for (recent, worth) in topic.recent.iter().zip(BY_AGE) {
            message.shared_with(recent, |word| weights[word] += worth);
        }
        for (known_by, weight) in known_by.iter_mut().zip(weights) {
            *known_by += u32::from(*weight > 0.0);
        }
    }

    let all = topics.len() as f64 + 1.0;
    let rarity: Vec<f64> =
        known_by.into_iter().map(|topics| (1.0 + all / f64::from(topics.max(1))).ln()).collect();
    let total: f64 = rarity.iter().sum();
    weights
        .chunks_exact(words)
        .map(|weights| {
            let known: f64 =
                weights.iter().zip(&rarity).map(|(weight, rarity)| rarity * weight.min(1.0)).sum();
            known / total
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The scores of a message for topics given as name and messages, newest first.
    fn score(message: &str, topics: &[(&str, &[&str])]) -> Vec<f64> {
        let topics: Vec<(Words, VecDeque<Words>)> = topics
            .iter()
            .map(|(name, recent)| {
                let recent = recent.iter().map(|text| Words::of(text)).collect();
                (Words::of(name), recent)
            })
            .collect();
        let profiles: Vec<Profile<'_>> =
            topics.iter().map(|(name, recent)| Profile { name, recent }).collect();
        scores(&Words::of(message), &profiles)
    }

    /// CH-136
    #[test]
    fn the_score_is_the_weighted_share_of_known_words() {
        let found = score(
            "invoice export garden",
            &[("billing", &["export", "other things", "invoice"]), ("garden", &["export"])],
        );

        // Three is one more than the topics; `export` is known by both.
        let (one, both) = (4.0_f64.ln(), 2.5_f64.ln());
        let total = one + both + one;
        let expected = [(both + one * 0.64) / total, (both + one) / total];
        assert_eq!(found.len(), 2);
        for (found, expected) in found.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }

    /// CH-136
    #[test]
    fn a_word_counts_less_with_each_message_after_it() {
        let empty: [&str; 10] = ["filler"; 10];
        for age in 0..10 {
            let mut recent = empty;
            recent[age] = "invoice";

            let found = score("invoice", &[("billing", &recent)]);

            assert!((found[0] - 0.8_f64.powi(age as i32)).abs() < 1e-12, "{age}");
        }
    }

    #[test]
    fn a_message_without_words_fits_nothing() {
        assert_eq!(score("is it?", &[("billing", &["is it"])]), [0.0]);
        assert_eq!(score("invoice", &[]), [0.0; 0]);
    }
}
