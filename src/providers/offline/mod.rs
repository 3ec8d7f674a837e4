//! The demo that needs no network: it echoes, or plays the script in the message.
//!
//! It answers from the last user message and the tool results after it, and from nothing else, so
//! the same conversation always gives the same answer.

use std::time::Duration;

use hivewright_actors::{
    engine::{Block, EngineEvent, JoinedWords, Message, ToolOutput},
    history::SUMMARY,
    inbox::AROUND,
    tool::{Args, ToolCall, specs::ToolSpec},
    usage::Usage,
};
use serde_json::json;

mod commands;
mod script;
mod summary;
mod topic;

use super::{Answer, Ask, Listener};
use commands::Command;
use script::{Action, Script};

const HELP: &str = "This is the offline demo: no model is connected, so it does only what it is \
told. It understands these messages:";

const SCRIPTS: &str = "It plays scripts too, messages with lines like these:\n\
#say TEXT: say something\n\
#think TEXT: think aloud\n\
#call TOOL {JSON}: call a tool; neighbouring calls run together\n\
#then: begin the next step\n\
#wait MS: pause, at most 60000\n\
#reply TEXT: the final answer; {result} is the last tool result, {result:1} the first\n\
To connect a model, set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or write `providers.yaml`.";

/// Answers, word by word. Dropping the future ends a `#wait`.
pub(super) async fn answer(ask: Ask<'_>, listener: &mut Listener<'_>) -> Answer {
    let mut scene = Scene::of(ask.messages, ask.tools);
    if scene.summarised {
        // Those that were left out were played too.
        scene.played = ask.step.saturating_sub(1) as usize;
    }
    let mut blocks = Vec::new();
    for action in scene.actions() {
        match action {
            Action::Say(text) => {
                for word in text.split_inclusive(char::is_whitespace) {
                    listener(EngineEvent::Text(word.to_owned()));
                }
                listener(EngineEvent::TextEnd);
                blocks.push(Block::Text { text });
            }
            Action::Think(text) => {
                for word in text.split_inclusive(char::is_whitespace) {
                    listener(EngineEvent::Thinking(word.to_owned()));
                }
                blocks.push(Block::Thinking { text, block: None });
            }
            Action::Wait(pause) => tokio::time::sleep(pause).await,
            Action::Call { tool, args } => blocks.push(Block::Call(ToolCall {
                id: format!("offline_{}_{}", ask.step, blocks.len()).into(),
                name: tool,
                args: Args::Json(args),
            })),
        }
    }
    Answer {
        usage: scene.usage(&blocks),
        stop_reason: if blocks.iter().any(|block| matches!(block, Block::Call(_))) {
            "tool_use"
        } else {
            "end_turn"
        }
        .to_owned(),
        blocks,
        ..Answer::default()
    }
}

const FIRST_TASK: &str = include_str!("../../../config/prompt/bootstrap.md");

/// What the answer depends on.
struct Scene<'a> {
    message: &'a str,
    tools: &'a [ToolSpec],
    /// The tool results since the message.
    results: Vec<&'a ToolOutput>,
    /// How many steps with calls were played since the message.
    played: usize,
    /// Some of them are not shown any more.
    summarised: bool,
}

impl<'a> Scene<'a> {
    fn of(messages: &'a [Message], tools: &'a [ToolSpec]) -> Self {
        let mut scene =
            Self { message: "", tools, results: Vec::new(), played: 0, summarised: false };
        for message in messages {
            match message {
                // What stands for steps that were played: the script goes on behind them.
                Message::User(text) if text.starts_with(SUMMARY) => scene.summarised = true,
                Message::User(text) | Message::Joined(JoinedWords { text, .. }) => {
                    scene.message = text;
                    scene.results.clear();
                    scene.played = 0;
                    scene.summarised = false;
                }
                Message::Files(_) => {}
                Message::Assistant(_) => scene.played += 1,
                Message::ToolResults(results) => scene.results.extend(results),
            }
        }
        scene
    }

    /// The message without what happened before: that is not for us to obey.
    fn asked(&self) -> &'a str {
        match self.message.strip_prefix(AROUND.0) {
            Some(rest) => rest.rsplit_once(AROUND.1).map_or("", |(_, asked)| asked),
            None => self.message,
        }
    }

    fn actions(&self) -> Vec<Action> {
        let asked = self.asked();
        if let Some(summary) = summary::write(asked) {
            return vec![Action::Say(summary)];
        }
        if let Some(choice) = topic::choose(asked) {
            return vec![Action::Say(choice)];
        }
        if let Some(purpose) = first_task(asked) {
            return self.set_up(purpose);
        }
        if let Some(command) = Command::parse(asked) {
            return vec![match self.results.first() {
                Some(result) => Action::Say(command.report(result)),
                None => {
                    let (tool, args) = command.call();
                    Action::Call { tool: tool.to_owned(), args }
                }
            }];
        }
        match Script::parse(asked) {
            Ok(Some(script)) => {
                let results: Vec<_> = self.results.iter().map(|result| &*result.content).collect();
                script.step(self.played, &results)
            }
            Ok(None) => vec![Action::Say(plain(asked))],
            Err(error) => vec![Action::Say(format!("[offline demo] {error}"))],
        }
    }

    /// The first task of a team: it keeps something, so that there is something of it, and is ready.
    fn set_up(&self, purpose: &str) -> Vec<Action> {
        let purpose = match purpose {
            "" => "to do what it is asked",
            purpose => purpose,
        };
        let has = |tool: &str| self.tools.iter().any(|spec| spec.name == tool);
        let call = |tool: &str, args| Action::Call { tool: tool.to_owned(), args };
        let kept = format!("This team's purpose: {purpose}");
        vec![match self.played {
            0 if has("memory_save") => call(
                "memory_save",
                json!({ "key": "purpose", "content": kept, "type": "identity" }),
            ),
            0 if has("write") => {
                call("write", json!({ "file_path": "team-rules/purpose.md", "content": kept }))
            }
            _ => Action::Say(format!("Ready: {purpose}")),
        }]
    }

    fn usage(&self, blocks: &[Block]) -> Usage {
        let words = |text: &str| text.split_whitespace().count() as u64;
        Usage {
            input: words(self.message)
                + self.results.iter().map(|result| words(&result.content)).sum::<u64>(),
            output: blocks
                .iter()
                .map(|block| match block {
                    Block::Text { text } | Block::Thinking { text, .. } => words(text),
                    Block::Call(call) => 1 + words(&call.args.to_string()),
                })
                .sum(),
            ..Usage::default()
        }
    }
}

/// What a new team is for, if this is its first task.
fn first_task(message: &str) -> Option<&str> {
    let first = FIRST_TASK.lines().next()?;
    if !message.trim_start().starts_with(first) {
        return None;
    }
    let purpose = message.lines().find_map(|line| line.strip_prefix("Purpose:"));
    Some(purpose.unwrap_or_default().trim())
}

fn plain(message: &str) -> String {
    let message = message.trim();
    if message.eq_ignore_ascii_case("help") {
        help()
    } else {
        format!("[offline demo] You said: {message}\n\nType `help` to see what the demo can do.")
    }
}

fn help() -> String {
    format!("{HELP}\n{}\n\n{SCRIPTS}", commands::HELP)
}

/// The longest `#wait`.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {

    use hivewright_actors::{
        engine::{SystemPrompt, ToolOutput},
        shared_list::SharedList,
        tool::specs::ToolSpecs,
    };
    use serde_json::json;

    use super::*;
    use crate::{
        providers::LeftOut,
        settings::providers::{Profile, Provider},
    };

    async fn play(step: u32, messages: &[Message]) -> (Answer, Vec<EngineEvent>) {
        play_with(&[], step, messages).await
    }

    async fn play_with(
        tools: &[&str],
        step: u32,
        messages: &[Message],
    ) -> (Answer, Vec<EngineEvent>) {
        let tools: ToolSpecs = tools
            .iter()
            .map(|name| ToolSpec {
                name: (*name).to_owned(),
                description: String::new(),
                schema: json!({}),
            })
            .collect();
        let mut heard = Vec::new();
        let profile = Profile::new("default", Provider::Offline);
        let answer = answer(
            Ask {
                profile: &profile,
                model: "demo",
                max_output_tokens: 100,
                step,
                system: &SystemPrompt::default(),
                tools: &tools,
                earlier: &SharedList::default(),
                messages,
                pictures: &crate::providers::Pictures::default(),
                thinking: None,
                without: LeftOut::default(),
            },
            &mut |event| heard.push(event),
        )
        .await;
        (answer, heard)
    }

    fn text(text: &str) -> Block {
        Block::Text { text: text.into() }
    }

    fn results(contents: &[&str]) -> Message {
        Message::ToolResults(
            contents
                .iter()
                .map(|content| ToolOutput {
                    id: "x".into(),
                    name: "t".into(),
                    content: (*content).into(),
                    fault: None,
                    pictures: Vec::new(),
                })
                .collect(),
        )
    }

    /// SE-118
    #[actix::test]
    async fn plain_text_is_echoed_word_by_word_with_a_hint() {
        let (answer, heard) = play(1, &[Message::User("hello you".into())]).await;

        let said = "[offline demo] You said: hello you\n\nType `help` to see what the demo can do.";
        assert_eq!(answer.blocks, [text(said)]);
        assert_eq!((answer.usage.input, answer.usage.output), (2, 15));
        assert_eq!(heard[..2], ["[offline ", "demo] "].map(|word| EngineEvent::Text(word.into())));
        assert_eq!(heard.last(), Some(&EngineEvent::TextEnd));
    }

    #[actix::test]
    async fn help_tells_the_grammar() {
        let (answer, _) = play(1, &[Message::User("Help ".into())]).await;

        assert_eq!(answer.blocks, [text(&help())]);
    }

    /// SE-119
    #[actix::test]
    async fn a_script_is_played_step_by_step() {
        let script = "Please:\n#think hm\n#say I look\n#call a {\"n\": 1}\n#call b {}\n#then\n#call c {}\n#reply {result:1}, {result:2}, {result} and {result:9}";
        let mut messages = vec![Message::User(script.into())];

        let (first, _) = play(1, &messages).await;
        messages.push(Message::Assistant(first.blocks.clone()));
        messages.push(results(&["one", "two"]));
        let (second, _) = play(2, &messages).await;
        messages.push(Message::Assistant(second.blocks.clone()));
        messages.push(results(&["three"]));
        let (last, _) = play(3, &messages).await;

        let call = |id: &str, name: &str, args| {
            Block::Call(ToolCall { id: id.into(), name: name.into(), args: Args::Json(args) })
        };
        assert_eq!(
            first.blocks,
            [
                Block::Thinking { text: "hm".into(), block: None },
                text("I look"),
                call("offline_1_2", "a", json!({"n": 1})),
                call("offline_1_3", "b", json!({})),
            ]
        );
        assert_eq!(second.blocks, [call("offline_2_0", "c", json!({}))]);
        assert_eq!(last.blocks, [text("one, two, three and {result:9}")]);
    }

    /// SE-119
    #[actix::test]
    async fn a_script_without_a_reply_sums_up() {
        let messages = [
            Message::User("#call a {}".into()),
            Message::Assistant(Vec::new()),
            results(&["one\nmore", "two"]),
        ];

        assert_eq!(play(2, &messages).await.0.blocks, [text("Done.\none\ntwo")]);
    }

    /// SE-119
    #[actix::test]
    async fn a_wait_takes_its_time() {
        tokio::time::pause();
        let before = tokio::time::Instant::now();

        play(1, &[Message::User("#wait 60000\n#reply ok".into())]).await;

        assert_eq!(before.elapsed().as_secs(), LONGEST_WAIT.as_secs());
    }

    fn calls(answer: &Answer) -> Vec<(String, serde_json::Value)> {
        let calls = answer.blocks.iter().filter_map(|block| match block {
            Block::Call(ToolCall { name, args: Args::Json(args), .. }) => {
                Some((name.clone(), args.clone()))
            }
            _ => None,
        });
        calls.collect()
    }

    /// SE-121
    #[actix::test]
    async fn a_command_calls_its_tool_and_tells_the_result() {
        let mut messages = vec![Message::User("ask scouts: ready?\n#reply yes".into())];

        let (first, _) = play(1, &messages).await;
        messages.push(Message::Assistant(first.blocks.clone()));
        messages.push(results(&[r#"{"success":true,"response":"yes"}"#]));
        let (last, _) = play(2, &messages).await;

        let args = json!({ "team": "scouts", "query": "ready?\n#reply yes" });
        assert_eq!(calls(&first), [("query_team".to_owned(), args)]);
        assert_eq!(last.blocks, [text("scouts says: yes")]);
    }

    /// SE-122, OR-63
    #[actix::test]
    async fn a_new_team_keeps_its_purpose_and_is_ready() {
        let task = format!("{}\n\nPurpose: They look around.", FIRST_TASK.trim());
        let mut messages = vec![Message::User(task)];

        let (remembers, _) = play_with(&["memory_save", "write"], 1, &messages).await;
        let (writes, _) = play_with(&["write"], 1, &messages).await;
        let (neither, _) = play(1, &messages).await;
        messages.push(Message::Assistant(remembers.blocks.clone()));
        messages.push(results(&[r#"{"success":true}"#]));
        let (last, _) = play_with(&["memory_save"], 2, &messages).await;

        let kept = "This team's purpose: They look around.";
        let memory = json!({ "key": "purpose", "content": kept, "type": "identity" });
        let file = json!({ "file_path": "team-rules/purpose.md", "content": kept });
        assert_eq!(calls(&remembers), [("memory_save".to_owned(), memory)]);
        assert_eq!(calls(&writes), [("write".to_owned(), file)]);
        let ready = [text("Ready: They look around.")];
        assert_eq!((&neither.blocks[..], &last.blocks[..]), (&ready[..], &ready[..]));
    }

    /// SE-122: what a team is told of the past, or quotes, is not a script.
    #[actix::test]
    async fn a_script_in_the_past_or_in_a_quotation_is_not_obeyed() {
        let before = "--- Since your last turn ---\nResult:\n<<<\n#call bash {}\n--- End ---\n\n#reply no\n>>>\n--- End ---\n\n";
        let told = format!("{before}#reply yes");
        let quoted = "Result of the task you gave (team a, task b, done):\n<<<\n#reply no\n>>>\n";

        let (told, _) = play(1, &[Message::User(told)]).await;
        let (quoted, _) = play(1, &[Message::User(quoted.into())]).await;

        assert_eq!(told.blocks, [text("yes")]);
        let Block::Text { text } = &quoted.blocks[0] else {
            unreachable!("{quoted:?}");
        };
        assert!(text.starts_with("[offline demo] You said: Result of"), "{text}");
    }

    #[actix::test]
    async fn a_faulty_script_is_answered_with_the_line() {
        let (answer, _) = play(1, &[Message::User("#say hi\n#call a {".into())]).await;

        assert_eq!(
            answer.blocks,
            [text(
                "[offline demo] line 2: the arguments are not JSON: EOF while parsing an object at line 1 column 1"
            )]
        );
    }
}
