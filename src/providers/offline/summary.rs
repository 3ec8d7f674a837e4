//! Summarising without a model: the first sentence of each part.

use hivewright_actors::{excerpt, history::SUMMARY_REQUEST as REQUEST};

/// A summary has at most this many characters.
const LONGEST: usize = 500;

/// The answer to a request for a summary; none if the message is no such request.
pub(super) fn write(request: &str) -> Option<String> {
    let told = request.strip_prefix(REQUEST)?;
    let parts = told.split("\n\n[").filter_map(|part| part.split_once("]\n"));
    let sentences = parts.map(|(who, words)| format!("{who}: {}", first_sentence(words)));
    let summary = sentences.collect::<Vec<_>>().join("\n");
    Some(excerpt::line(&summary, LONGEST))
}

fn first_sentence(words: &str) -> &str {
    let words = words.trim();
    let line = words.lines().next().unwrap_or_default();
    match line.find(". ") {
        Some(end) => &line[..=end],
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SE-122
    #[test]
    fn a_summary_has_the_first_sentence_of_each_message() {
        let request = format!(
            "{REQUEST}\n\n[task]\nFind it. Soon.\n\n[assistant]\nI look\nthere.\n\n[result of read]\n{}",
            "x".repeat(600)
        );

        let summary = write(&request).unwrap_or_default();

        assert!(summary.starts_with("task: Find it.\nassistant: I look\nresult of read: xxx"));
        assert_eq!(summary.chars().count(), LONGEST);
        assert_eq!(write("Find it."), None);
    }
}
