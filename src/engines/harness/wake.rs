//! Wake prompt: what an agent is told first.
//!
//! It knows nothing of what was said before: our journal is the only history, so that whoever may not see a part of
//! it is not shown that, whatever ran the turns before.

use std::fmt::Write;

use hivewright_actors::{
    engine::{Block, FixedMessages, Message, ToolOutput},
    file,
};

const TASK: &str = "[message]\n";
const DONE: &str = "\n\n[what you have done about it already; it was interrupted, and none of this is to be done again]\n";
const GO_ON: &str = "[go on from here]";

/// The task of a turn behind the conversation before it, and behind what an earlier attempt has done.
///
/// It begins with a bracket, so that no task is taken for a command of the agent.
pub fn prompt<'a>(
    earlier: impl IntoIterator<Item = &'a FixedMessages>,
    messages: &[Message],
) -> String {
    let mut text = String::new();
    let mut before = earlier.into_iter().flat_map(|part| part.iter()).peekable();
    if before.peek().is_some() {
        text.push_str("[the conversation before this message, oldest first]\n");
        before.for_each(|message| tell(&mut text, message));
        text.push_str("[end of the conversation before this message]\n\n");
    }
    text.push_str(TASK);
    let (task, done) = match messages {
        [Message::User(task), done @ ..] => (task.as_str(), done),
        done => ("", done),
    };
    text.push_str(task);
    let done = match done {
        [Message::Files(files), done @ ..] => {
            text.push_str("\n\n");
            text.push_str(&file::lines(files));
            done
        }
        done => done,
    };
    // Words that came in since are no part of what was done.
    let is_added = |message: &&Message| matches!(message, Message::User(_));
    let added = done.iter().rev().take_while(is_added).count();
    let (done, added) = done.split_at(done.len() - added);
    if !done.is_empty() {
        text.push_str(DONE);
        done.iter().for_each(|message| tell(&mut text, message));
        text.push_str(GO_ON);
    }
    for message in added {
        if let Message::User(words) = message {
            text.push_str("\n\n");
            text.push_str(&addition(words));
        }
    }
    text
}

/// The messages that a prompt was made of, for whoever plays a model: the task, and the results of what was called.
pub fn read(prompt: &str) -> Vec<Message> {
    let begin = prompt.rfind(&format!("\n{TASK}")).map_or(0, |at| at + 1);
    let Some(told) = prompt[begin..].strip_prefix(TASK) else {
        return vec![Message::User(prompt.to_owned())];
    };
    let (task, done) = told.split_once(DONE).unwrap_or((told, ""));
    let mut messages = vec![Message::User(task.to_owned())];
    for line in done.lines().filter(|line| *line != GO_ON) {
        let result = line.strip_prefix("result of ").or(line.strip_prefix("error of "));
        match (result.and_then(|result| result.split_once(": ")), messages.last_mut()) {
            (Some((name, content)), last) => {
                let (name, content) = (name.to_owned(), content.to_owned());
                let output = ToolOutput { id: name.as_str().into(), name, content, fault: None };
                match last {
                    Some(Message::ToolResults(results)) => results.push(output),
                    _ => messages.push(Message::ToolResults(vec![output])),
                }
            }
            (None, Some(Message::Assistant(_))) => {}
            (None, _) if line.starts_with("you") => messages.push(Message::Assistant(Vec::new())),
            (None, Some(Message::ToolResults(results))) => {
                let last = results.last_mut();
                last.into_iter().for_each(|result| result.content += &format!("\n{line}"));
            }
            (None, _) => {}
        }
    }
    messages
}

/// What a person adds while the agent works.
pub fn addition(text: &str) -> String {
    format!("{TASK}{text}")
}

fn tell(text: &mut String, message: &Message) {
    // Writing to a string does not fail.
    let _ = match message {
        Message::User(words) => writeln!(text, "user: {words}"),
        Message::Files(files) => writeln!(text, "{}", file::lines(files)),
        Message::Assistant(blocks) => blocks.iter().try_for_each(|block| match block {
            Block::Text { text: words } => writeln!(text, "you: {words}"),
            Block::Thinking { .. } => Ok(()),
            Block::Call(call) => writeln!(text, "you called {} {}", call.name, call.args),
        }),
        Message::ToolResults(results) => results.iter().try_for_each(|result| {
            let what = if result.fault.is_some() { "error" } else { "result" };
            writeln!(text, "{what} of {}: {}", result.name, result.content)
        }),
    };
}

#[cfg(test)]
mod tests {
    use hivewright_actors::tool::{Args, ToolCall, ToolFault};
    use serde_json::json;

    use super::*;

    fn call() -> Message {
        let args = Args::Json(json!({"path": "a"}));
        let call = ToolCall { id: "c".into(), name: "read".into(), args };
        let thinking = Block::Thinking { text: "hm".into(), block: None };
        Message::Assistant(vec![
            thinking,
            Block::Text { text: "I look.".into() },
            Block::Call(call),
        ])
    }

    fn result(fault: Option<ToolFault>) -> Message {
        let (id, name, content) = ("c".into(), "read".into(), "text".into());
        Message::ToolResults(vec![ToolOutput { id, name, content, fault }])
    }

    /// EN-103: a task cannot be taken for a flag or a command.
    #[test]
    fn a_task_alone_stands_behind_a_bracket() {
        let told = prompt([], &[Message::User("/exit".into())]);

        assert_eq!(
            (&*told, read(&told)),
            ("[message]\n/exit", vec![Message::User("/exit".into())])
        );
    }

    /// CH-12: an agent is told where the files of its task are.
    #[test]
    fn files_are_told_with_their_task() {
        let file = file::FileRef {
            id: "file-1".into(),
            name: "a.png".to_owned(),
            mime: "image/png".to_owned(),
            size: 3,
            digest: "00".to_owned(),
            path: Some("inbox/a.png".to_owned()),
        };
        let files = Message::Files(vec![file]);

        let told = prompt([], &[Message::User("look".into()), files.clone(), call(), result(None)]);
        let later = FixedMessages::new(vec![Message::User("look".into()), files]);
        let earlier = prompt([&later], &[Message::User("again".into())]);

        let line = "[File: inbox/a.png (image/png, 3 bytes)]";
        assert!(
            told.starts_with(&format!("[message]\nlook\n\n{line}\n\n[what you have")),
            "{told}"
        );
        assert!(earlier.contains(&format!("user: look\n{line}\n")), "{earlier}");
    }

    /// EN-26: words that came in after what was done are heard as a message of their own.
    #[test]
    fn what_was_added_comes_last() {
        let added = Message::User("and roses".into());
        let told =
            prompt([], &[Message::User("tulips".into()), call(), result(None), added.clone()]);

        assert!(told.ends_with("[go on from here]\n\n[message]\nand roses"), "{told}");
        assert_eq!(read(&told), [added]);
    }

    /// EN-32, EN-19
    #[test]
    fn it_is_told_what_was_said_and_done_before() {
        let before = FixedMessages::new(vec![
            Message::User("hello".into()),
            call(),
            result(None),
            Message::Assistant(vec![Block::Text { text: "It says text.".into() }]),
        ]);
        let messages = [Message::User("again".into()), call(), result(Some(ToolFault::NotFound))];

        let told = prompt([&before], &messages);

        assert_eq!(
            told,
            "[the conversation before this message, oldest first]\n\
             user: hello\n\
             you: I look.\n\
             you called read {\"path\":\"a\"}\n\
             result of read: text\n\
             you: It says text.\n\
             [end of the conversation before this message]\n\n\
             [message]\n\
             again\n\n\
             [what you have done about it already; it was interrupted, and none of this is to be done again]\n\
             you: I look.\n\
             you called read {\"path\":\"a\"}\n\
             error of read: text\n\
             [go on from here]"
        );
        let results = ToolOutput {
            id: "read".into(),
            name: "read".into(),
            content: "text".into(),
            fault: None,
        };
        let played = [
            Message::User("again".into()),
            Message::Assistant(Vec::new()),
            Message::ToolResults(vec![results]),
        ];
        assert_eq!(read(&told), played);
    }
}
