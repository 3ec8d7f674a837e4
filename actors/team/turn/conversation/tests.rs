//! Conversations that grow and are made smaller.

use proptest::prelude::*;

use super::*;
use crate::{
    engine::Block,
    file::FileRef,
    tool::{Args, ToolCall},
};

const TASK: &str = "the task";

fn call(id: &str) -> Message {
    Message::Assistant(vec![Block::Call(ToolCall {
        id: id.into(),
        name: "read".to_owned(),
        args: Args::Json(serde_json::json!({})),
    })])
}

fn result(id: &str, characters: usize) -> Message {
    Message::ToolResults(vec![ToolOutput {
        id: id.into(),
        name: "read".to_owned(),
        content: "é".repeat(characters),
        fault: None,
        pictures: Vec::new(),
    }])
}

/// A turn of so many steps, each with a call and its result of so many characters.
fn conversation(room: u64, results: &[usize]) -> Conversation {
    let mut conversation = Conversation::new(TASK.to_owned(), room, 400);
    for (step, characters) in (1..).zip(results) {
        let id = format!("call-{step}");
        conversation.push(call(&id), step);
        conversation.push(result(&id, *characters), step);
    }
    conversation
}

fn contents(conversation: &Conversation) -> Vec<String> {
    let messages = conversation.messages();
    let results = messages.iter().filter_map(|message| match message {
        Message::ToolResults(results) => Some(results[0].content.clone()),
        _ => None,
    });
    results.collect()
}

/// SE-91
#[test]
fn the_size_is_what_was_counted_and_a_quarter_of_what_came_since() {
    let mut conversation = Conversation::new("x".repeat(40), 1_000, 400);
    let estimated = conversation.size();
    conversation.push(call("a"), 1);
    conversation.count(&Usage {
        input: 50,
        output: 10,
        cache_read: 500,
        cache_write: 40,
        ..Usage::default()
    });
    let counted = conversation.size();
    conversation.push(result("a", 400), 1);

    assert_eq!((estimated, counted, conversation.size()), (110, 600, 700));
    conversation.count(&Usage::default());
    assert_eq!(conversation.size(), 700);
}

/// SE-92: at four fifths of the room, and not before.
#[test]
fn a_conversation_is_large_above_four_fifths() {
    let mut conversation = Conversation::new(String::new(), 1_000, 3_200);
    let state = |conversation: &Conversation| {
        (conversation.size(), conversation.is_large(), conversation.is_above_limit())
    };
    let at = state(&conversation);
    conversation.push(Message::User("xxxx".to_owned()), 1);

    assert_eq!(at, (800, false, false));
    assert_eq!(state(&conversation), (801, true, true));
}

/// SE-92: one that is as long as what it stands for is of no use.
#[test]
fn a_summary_is_shorter_than_what_it_stands_for() {
    let conversation = conversation(100_000, &[2_000, 10]);
    let told: usize = conversation.before(2).iter().map(Message::characters).sum();
    let short = "s".repeat(told - summary_of_steps("").chars().count() - 1);

    assert!(conversation.is_shorter(&short, 2));
    assert!(!conversation.is_shorter(&format!("{short}s"), 2));
}

/// SE-92: stage 1.
#[test]
fn old_long_results_become_their_size() {
    let mut all = conversation(100_000, &[2_001, 2_000, 5_000, 5_000, 5_000]);

    assert!(all.shorten(LONG));

    let sizes: Vec<usize> = contents(&all).iter().map(|text| text.chars().count()).collect();
    assert_eq!(sizes[1..], [2_000, 5_000, 5_000, 5_000]);
    assert_eq!(
        contents(&all)[0],
        "[2001 characters left out to save room; result of call call-1. Call the tool again if they \
         are needed.]"
    );
    assert!(!all.shorten(LONG), "twice");
    assert!(all.shorten(LONG_AT_LAST));
    assert!(contents(&all)[1].contains("2000 characters"));
}

/// SE-92, TO-82: old pictures make room first, however short their results are.
#[test]
fn old_pictures_are_left_out() {
    let mut all = conversation(100_000, &[10, 10, 10, 10, 10]);
    let picture = FileRef {
        id: "file-1".into(),
        name: "a.png".to_owned(),
        mime: "image/png".to_owned(),
        size: 3,
        digest: "00".to_owned(),
        path: None,
    };
    all.shrink(|messages, _| {
        for message in messages {
            if let Message::ToolResults(results) = message {
                results[0].pictures.push(picture.clone());
            }
        }
    });

    assert!(all.shorten(LONG));

    let left = all.messages().iter().map(|message| message.files().count()).sum::<usize>();
    assert!((1..5).contains(&left), "{left}");
    assert_eq!(contents(&all)[0], "éééééééééé\n[Its pictures are left out to save room.]");
    assert!(!all.shorten(LONG), "twice");
}

/// SE-92, SE-93: stage 2 keeps the task, the last messages, and calls with their results.
#[test]
fn all_but_the_last_messages_can_be_summarised() {
    assert_eq!(conversation(1_000, &[10; 7]).cut(), None);
    assert_eq!(conversation(1_000, &[10; 8]).cut(), None);
    let mut nine = conversation(1_000, &[10; 9]);
    assert_eq!(nine.cut(), Some(2));
    // With one more message the cut would lie between a call and its result.
    nine.push(Message::User("by the way".to_owned()), 9);
    assert_eq!(nine.cut(), Some(2));
    assert_eq!(nine.before(2).len(), 2);

    nine.summarise(2, "they read");

    let messages = nine.messages();
    assert_eq!(messages[0], Message::User(TASK.to_owned()));
    assert!(matches!(&messages[1], Message::User(text)
        if text.starts_with(SUMMARY) && text.ends_with("they read")));
    assert_eq!(messages[2], call("call-2"));
    assert_eq!((messages.len(), nine.cut()), (19, None));
}

/// SE-95: what the provider says counts more than what was counted.
#[test]
fn a_conversation_that_overflowed_is_too_large_until_something_is_left_out() {
    let mut all = conversation(100_000, &[3_000; 5]);
    assert!(!all.is_large());

    all.overflowed();
    let before = (all.is_large(), all.fits());
    all.shorten(LONG);

    assert_eq!(before, (true, false));
    assert!(all.fits() && !all.is_above_limit());
}

#[test]
fn what_cannot_be_made_smaller_is_left_until_it_has_grown() {
    let mut all = Conversation::new("x".repeat(3_600), 1_000, 0);
    assert!(all.is_large());
    all.settle(850);
    let left = all.is_large();
    all.push(Message::User("x".repeat(404)), 1);

    assert_eq!((left, all.is_large()), (false, true));
}

proptest! {
    /// SE-91 to SE-94: whatever is left out, the task stays, calls stand before their results, and the
    /// count of characters is that of what is there.
    #[test]
    fn what_is_left_out_leaves_a_conversation(
        results in prop::collection::vec(0..6_000_usize, 0..40),
        over in prop::sample::select(vec![LONG, LONG_AT_LAST]),
        tokens in 0..200_000_u64,
        summary in "[a-z ]{0,80}",
    ) {
        let mut all = conversation(100_000, &results);
        all.count(&Usage { input: tokens, ..Usage::default() });
        let (before, size) = (all.messages(), all.size());
        let shortened = all.shorten(over);
        prop_assert!(all.size() < size || !shortened || tokens > 0);
        prop_assert!(all.size() <= size);
        let cut = all.cut();
        if let Some(step) = cut {
            all.summarise(step, &summary);
        }
        let messages = all.messages();

        prop_assert_eq!(&messages[0], &before[0]);
        let kept = messages.len() - 1 - usize::from(cut.is_some());
        prop_assert!(kept >= (before.len() - 1).min(KEPT));
        // Those that are kept are the last, in their order.
        for (new, old) in messages.iter().rev().zip(before.iter().rev()).take(kept) {
            match (new, old) {
                (Message::ToolResults(new), Message::ToolResults(old)) => {
                    prop_assert_eq!(&new[0].id, &old[0].id);
                    prop_assert!(new[0].content == old[0].content || new[0].content.starts_with('['));
                }
                (new, old) => prop_assert_eq!(new, old),
            }
        }
        for pair in messages.windows(2) {
            if let Message::ToolResults(results) = &pair[1] {
                let Message::Assistant(blocks) = &pair[0] else {
                    return Err(TestCaseError::fail("a result without its call"));
                };
                let Block::Call(call) = &blocks[0] else {
                    return Err(TestCaseError::fail("a result without its call"));
                };
                prop_assert_eq!(&call.id, &results[0].id);
            }
        }
        let characters: usize = messages.iter().map(Message::characters).sum();
        prop_assert_eq!(all.characters, characters + 400);
        prop_assert_eq!(all.marks.len(), messages.len());
    }
}
