//! The demo that needs no network: it echoes, or plays the script in the message.
//!
//! It answers from the last user message and the tool results after it, and from nothing else, so
//! the same conversation always gives the same answer.

use std::time::Duration;

use hivewright_actors::{
    engine::{Block, EngineEvent, Message},
    tool::{Args, ToolCall},
    usage::Usage,
};

mod script;
mod topic;

use super::{Answer, Ask, Listener};
use script::{Action, Script};

const HELP: &str = "This is the offline demo: no model is connected, so it does what a script \
tells it. A script is a message with lines like these:\n\
#say TEXT: say something\n\
#think TEXT: think aloud\n\
#call TOOL {JSON}: call a tool; neighbouring calls run together\n\
#then: begin the next step\n\
#wait MS: pause, at most 60000\n\
#reply TEXT: the final answer; {result} is the last tool result, {result:1} the first\n\
To connect a model, set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY`, or write `providers.yaml`.";

/// Answers, word by word. Dropping the future ends a `#wait`.
pub(super) async fn answer(ask: Ask<'_>, listener: &mut Listener<'_>) -> Answer {
    let scene = Scene::of(ask.messages);
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
        stop_reason: match blocks.iter().any(|block| matches!(block, Block::Call(_))) {
            true => "tool_use",
            false => "end_turn",
        }
        .to_owned(),
        blocks,
        ..Answer::default()
    }
}

/// What the answer depends on.
struct Scene<'a> {
    message: &'a str,
    /// The tool results since the message.
    results: Vec<&'a str>,
    /// How many steps with calls were played since the message.
    played: usize,
}

impl<'a> Scene<'a> {
    fn of(messages: &'a [Message]) -> Self {
        let mut scene = Self {
            message: "",
            results: Vec::new(),
            played: 0,
        };
        for message in messages {
            match message {
                Message::User(text) => {
                    scene = Self {
                        message: text,
                        results: Vec::new(),
                        played: 0,
                    }
                }
                Message::Assistant(_) => scene.played += 1,
                Message::ToolResults(results) => scene
                    .results
                    .extend(results.iter().map(|result| result.content.as_str())),
            }
        }
        scene
    }

    fn actions(&self) -> Vec<Action> {
        if let Some(choice) = topic::choose(self.message) {
            return vec![Action::Say(choice)];
        }
        match Script::parse(self.message) {
            Ok(Some(script)) => script.step(self.played, &self.results),
            Ok(None) => vec![Action::Say(plain(self.message))],
            Err(error) => vec![Action::Say(format!("[offline demo] {error}"))],
        }
    }

    fn usage(&self, blocks: &[Block]) -> Usage {
        let words = |text: &str| text.split_whitespace().count() as u64;
        Usage {
            input: words(self.message)
                + self.results.iter().map(|result| words(result)).sum::<u64>(),
            output: blocks
                .iter()
                .map(|block| match block {
                    Block::Text { text } | Block::Thinking { text, .. } => words(text),
                    Block::Call(call) => match &call.args {
                        Args::Json(args) => 1 + words(&args.to_string()),
                        Args::Unreadable { unreadable, .. } => 1 + words(unreadable),
                    },
                })
                .sum(),
            ..Usage::default()
        }
    }
}

fn plain(message: &str) -> String {
    let message = message.trim();
    match message.eq_ignore_ascii_case("help") {
        true => HELP.to_owned(),
        false => format!(
            "[offline demo] You said: {message}\n\nType `help` to see what the demo can do."
        ),
    }
}

/// The longest `#wait`.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hivewright_actors::engine::{SystemPrompt, ToolOutput};
    use serde_json::json;

    use super::*;
    use crate::{
        providers::LeftOut,
        settings::providers::{Profile, Provider},
    };

    async fn play(step: u32, messages: &[Message]) -> (Answer, Vec<EngineEvent>) {
        let mut heard = Vec::new();
        let profile = Profile::new("default", Provider::Offline);
        let answer = answer(
            Ask {
                profile: &profile,
                model: "demo",
                max_output_tokens: 100,
                step,
                system: &SystemPrompt::default(),
                tools: &[],
                messages,
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
        assert_eq!(
            heard[..2],
            ["[offline ", "demo] "].map(|word| EngineEvent::Text(word.into()))
        );
        assert_eq!(heard.last(), Some(&EngineEvent::TextEnd));
    }

    #[actix::test]
    async fn help_tells_the_grammar() {
        let (answer, _) = play(1, &[Message::User("Help ".into())]).await;

        assert_eq!(answer.blocks, [text(HELP)]);
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
            Block::Call(ToolCall {
                id: id.into(),
                name: name.into(),
                args: Args::Json(args),
            })
        };
        assert_eq!(
            first.blocks,
            [
                Block::Thinking {
                    text: "hm".into(),
                    block: None
                },
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
