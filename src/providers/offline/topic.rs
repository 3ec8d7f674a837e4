//! Choosing a topic without a model: the one that shares most words with the message.

use std::collections::HashSet;

use serde_json::{Value, json};

/// The answer to a question for topics; none if the message is no such question.
///
/// The question lists `- <id> "<name>", …` under `Topics:` and quotes the message under
/// `Message:`.
pub(super) fn choose(question: &str) -> Option<String> {
    let (task, rest) = question.split_once("\nTopics:\n")?;
    if !task.contains("\"topic_ids\"") {
        return None;
    }
    let (list, message) = rest.split_once("\nMessage:\n")?;
    let message = words(&quoted(message).unwrap_or_else(|| message.to_owned()));
    let mut best = (0, "new");
    for line in list.lines() {
        let Some((id, name)) = line.strip_prefix("- ").and_then(|entry| entry.split_once(' '))
        else {
            continue;
        };
        let name = words(&quoted(name).unwrap_or_else(|| name.to_owned()));
        let shared = name.intersection(&message).count();
        // The first listed wins a tie.
        if shared > best.0 {
            best = (shared, id);
        }
    }
    Some(json!({ "topic_ids": [best.1] }).to_string())
}

/// The JSON string at the beginning of the text.
fn quoted(text: &str) -> Option<String> {
    match serde_json::Deserializer::from_str(text).into_iter().next() {
        Some(Ok(Value::String(text))) => Some(text),
        _ => None,
    }
}

fn words(text: &str) -> HashSet<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(message: &str) -> Option<String> {
        choose(&format!(
            "Which? {{\"topic_ids\":[\"<id>\"]}}\n\nTopics:\n\
             - t-1 \"Billing\", last used just now\n\
             - t-2 \"Garden \\\"plan\\\"\", last used 2 h ago\n\n\
             Message:\n{}",
            Value::from(message)
        ))
    }

    /// SE-122
    #[test]
    fn the_topic_that_shares_most_words_is_chosen() {
        assert_eq!(
            ask("the plan of the garden\nand billing"),
            Some(r#"{"topic_ids":["t-2"]}"#.into())
        );
        assert_eq!(ask("something else"), Some(r#"{"topic_ids":["new"]}"#.into()));
    }

    #[test]
    fn other_messages_are_no_question() {
        assert_eq!(choose("hello\nTopics:\nnone\nMessage:\nx"), None);
    }
}
