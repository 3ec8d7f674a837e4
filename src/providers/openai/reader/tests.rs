use hivewright_actors::{engine::SystemPrompt, tool::Args};
use serde_json::json;

use super::*;
use crate::{
    providers::LeftOut,
    settings::providers::{Profile, Provider},
};

fn reading(messages: &'static [Message]) -> Reading<'static> {
    let system = SystemPrompt { shared: "12345678".into(), ..SystemPrompt::default() };
    Reading::new(Box::leak(Box::new(Ask {
        profile: Box::leak(Box::new(Profile::new("local", Provider::OpenAi))),
        model: "m",
        max_output_tokens: 100,
        step: 3,
        system: Box::leak(Box::new(system)),
        tools: Box::leak(Box::default()),
        earlier: Box::leak(Box::default()),
        messages,
        pictures: Box::leak(Box::default()),
        thinking: None,
        without: LeftOut::default(),
    })))
}

fn read(chunks: &[Value]) -> (Result<Answer, Fault>, Vec<EngineEvent>) {
    let mut heard = Vec::new();
    let mut listener = |event| heard.push(event);
    let mut reading = reading(&[]);
    let mut result = Ok(());
    for chunk in chunks {
        result = result.and_then(|()| {
            let event = sse::Event {
                data: chunk.as_str().map_or_else(|| chunk.to_string(), str::to_owned),
                ..sse::Event::default()
            };
            reading.on(&event, &mut listener)
        });
    }
    let answer = result.and_then(|()| reading.finish(&mut listener));
    (answer, heard)
}

fn delta(delta: Value) -> Value {
    json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
}

fn end(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn piece(index: u32, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
    delta(json!({"tool_calls": [
        {"index": index, "id": id, "function": {"name": name, "arguments": arguments}},
    ]}))
}

fn call(id: &str, name: &str, args: Value) -> Block {
    Block::Call(ToolCall { id: id.into(), name: name.into(), args: Args::Json(args) })
}

#[test]
fn a_stream_becomes_blocks_and_figures() {
    let (answer, heard) = read(&[
        delta(json!({"role": "assistant", "content": ""})),
        delta(json!({"reasoning_content": "hm"})),
        delta(json!({"content": "Hello "})),
        delta(json!({"content": "you"})),
        end("stop"),
        json!({"choices": [], "usage": {
            "prompt_tokens": 30, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 20},
        }}),
        "[DONE]".into(),
    ]);

    assert_eq!(
        answer,
        Ok(Answer {
            blocks: vec![
                Block::Thinking { text: "hm".into(), block: None },
                Block::Text { text: "Hello you".into() },
            ],
            usage: Usage { input: 10, output: 5, cache_read: 20, ..Usage::default() },
            stop_reason: "stop".into(),
            truncated: false,
            paused: false,
        })
    );
    assert_eq!(
        heard,
        [
            EngineEvent::Thinking("hm".into()),
            EngineEvent::Text("Hello ".into()),
            EngineEvent::Text("you".into()),
            EngineEvent::TextEnd,
        ]
    );
}

/// SE-116
#[test]
fn calls_are_put_together_by_index_and_win_over_the_finish_reason() {
    let (answer, _) = read(&[
        piece(0, Some("a"), Some("read"), "{\"path\""),
        piece(1, Some("b"), Some("list"), ""),
        piece(0, None, None, ": \"x\"}"),
        end("stop"),
        "[DONE]".into(),
    ]);

    let answer = answer.unwrap();
    assert_eq!(
        answer.blocks,
        [call("a", "read", json!({"path": "x"})), call("b", "list", json!({})),]
    );
    assert_eq!(answer.stop_reason, "tool_calls");
}

/// SE-116
#[test]
fn missing_and_repeated_ids_are_made_up() {
    let (answer, _) = read(&[
        piece(0, None, Some("read"), "{}"),
        piece(1, Some(""), Some("list"), "{}"),
        end("tool_calls"),
    ]);
    assert_eq!(
        answer.unwrap().blocks,
        [call("call_3_0", "read", json!({})), call("call_3_1", "list", json!({})),]
    );

    let mut again = reading(vec![Message::Assistant(vec![call("a", "read", json!({}))])].leak());
    let chunk = piece(0, Some("a"), Some("read"), "{}");
    again.take(serde_json::from_value(chunk).unwrap(), &mut |_| {}).unwrap();
    again.complete = true;
    assert_eq!(again.finish(&mut |_| {}).unwrap().blocks, [call("call_3_0", "read", json!({}))]);
}

#[test]
fn calls_that_share_an_index_are_told_apart_by_id() {
    let (answer, _) = read(&[
        piece(0, Some("a"), Some("read"), "{}"),
        piece(0, Some("b"), Some("list"), "{}"),
        end("tool_calls"),
    ]);

    assert_eq!(
        answer.unwrap().blocks,
        [call("a", "read", json!({})), call("b", "list", json!({}))]
    );
}

/// SE-116
#[test]
fn an_answer_in_one_piece_is_taken() {
    let mut reading = reading(&[]);
    let body = json!({
        "choices": [{"message": {"content": "Hi", "tool_calls": null}, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    });

    reading.whole(body.to_string().as_bytes(), &mut |_| {}).unwrap();
    let answer = reading.finish(&mut |_| {}).unwrap();

    assert_eq!(answer.blocks, [Block::Text { text: "Hi".into() }]);
    assert_eq!((answer.usage.input, answer.usage.output), (3, 1));
    assert!(answer.truncated);
}

/// SE-116
#[test]
fn missing_figures_are_estimated_and_marked() {
    let (answer, _) = read(&[delta(json!({"content": "12345"})), end("stop")]);

    assert_eq!(
        answer.unwrap().usage,
        Usage { input: 2, output: 2, estimated: true, ..Usage::default() }
    );
}

#[test]
fn what_the_filter_stops_is_a_refusal() {
    let (answer, _) = read(&[end("content_filter")]);
    assert_eq!(answer, Err(Fault::refused("")));

    let (answer, _) = read(&[delta(json!({"refusal": "I can't"})), end("stop")]);
    assert_eq!(answer, Err(Fault::refused("I can't")));
}

/// SE-117
#[test]
fn an_error_in_the_stream_counts_as_its_status() {
    let cases = [
        (json!({"message": "busy", "code": 502}), 502, "busy"),
        (
            json!({"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}),
            429,
            "slow down (rate_limit_exceeded)",
        ),
        (json!({"message": "oops", "type": "server_error"}), 500, "oops"),
    ];

    for (error, status, said) in cases {
        let (answer, _) = read(&[json!({ "error": error })]);
        assert_eq!(answer, Err(Fault::status(status, said, None)));
    }
}

/// SE-125
#[test]
fn a_stream_without_an_end_is_broken() {
    let (answer, _) = read(&[delta(json!({"content": "Hel"}))]);

    assert_eq!(answer, Err(Fault::network("the answer broke off")));
}
