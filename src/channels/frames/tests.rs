use proptest::prelude::*;
use serde_json::json;

use super::*;

const TOPIC: &str = "t-0123456789abcdef";

fn message(content: &str) -> ClientFrame {
    ClientFrame::Message {
        content: content.to_owned(),
        topic_id: None,
        message_id: None,
        files: Vec::new(),
    }
}

fn parsed(frame: Value) -> ClientFrame {
    parse(&frame.to_string()).unwrap()
}

fn refused(text: &str) -> Refusal {
    match parse(text) {
        Err(refusal) => refusal,
        Ok(frame) => panic!("{text:.200} was taken for {frame:?}"),
    }
}

fn code(text: &str) -> &'static str {
    refused(text).code
}

/// CH-43
#[test]
fn content_alone_is_a_message() {
    assert_eq!(parsed(json!({"content": "hi"})), message("hi"));
    assert_eq!(parsed(json!({"type": "message", "content": "hi"})), message("hi"));
}

/// CH-08
#[test]
fn content_is_trimmed_and_otherwise_kept_as_sent() {
    let kept = "a\u{301}  \r\n\t\u{202e}ﬁ 🎉 {\"x\":1} \u{7}";

    let sent = format!(" \0\n\u{3000}{kept}\0 \0\n");

    assert_eq!(parsed(json!({ "content": sent })), message(kept));
    assert_eq!(parsed(json!({"content": "a\0b"})), message("ab"));
    assert_eq!(parse(r#"{"content":"\ud83c\udf89"}"#).unwrap(), message("🎉"));
}

/// CH-44, CH-46
#[test]
fn a_message_may_name_its_topic_and_itself() {
    assert_eq!(
        parsed(json!({"content": "hi", "topic_id": TOPIC, "message_id": "m 1"})),
        ClientFrame::Message {
            content: "hi".into(),
            topic_id: Some(TOPIC.into()),
            message_id: Some("m 1".into()),
            files: Vec::new(),
        }
    );
}

/// CH-75: the router refuses, with the open topics.
#[test]
fn a_wrong_topic_is_left_to_the_router() {
    for (sent, handed_on) in [
        (json!("billing"), "billing"),
        (json!(""), ""),
        (json!(5), ""),
        (json!(true), ""),
        (json!([TOPIC]), ""),
        (json!({"id": TOPIC}), ""),
    ] {
        let frame = parsed(json!({"content": "hi", "topic_id": sent}));

        let ClientFrame::Message { topic_id, .. } = frame else {
            panic!("{frame:?}");
        };
        assert!(!is_topic_id(handed_on));
        assert_eq!(topic_id.as_deref(), Some(handed_on));
    }
}

/// CH-45
#[test]
fn the_topic_list_is_requested() {
    assert_eq!(parsed(json!({"type": "topic_list_request"})), ClientFrame::TopicListRequest);
}

/// CH-48
#[test]
fn a_channel_is_resumed_from_a_number_or_from_the_beginning() {
    let resume =
        |last_seq| ClientFrame::Resume { channel_id: Some("ws:1".into()), home: false, last_seq };

    for (sent, last_seq) in [(json!(7), 7), (json!(u64::MAX), u64::MAX), (json!(null), 0)] {
        let frame = json!({"type": "resume", "channel_id": "ws:1", "last_seq": sent});
        assert_eq!(parsed(frame), resume(last_seq));
    }
    assert_eq!(parsed(json!({"type": "resume", "channel_id": "ws:1"})), resume(0));
}

/// CH-91, CH-160: the channel that all share need not be named, and one may be proposed.
#[test]
fn the_shared_channel_is_resumed_with_or_without_a_name() {
    let home = |channel_id: Option<&str>, last_seq| ClientFrame::Resume {
        channel_id: channel_id.map(Into::into),
        home: true,
        last_seq,
    };

    assert_eq!(parsed(json!({"type": "resume", "home": true})), home(None, 0));
    let named = json!({"type": "resume", "home": true, "channel_id": "ws:1", "last_seq": 7});
    assert_eq!(parsed(named), home(Some("ws:1"), 7));
    assert_eq!(code(r#"{"type":"resume","home":"yes"}"#), "bad_resume");
    assert_eq!(code(r#"{"type":"resume","home":false}"#), "bad_resume");
    assert_eq!(code(r#"{"type":"resume","home":true,"channel_id":7}"#), "bad_resume");
}

/// CH-160
#[test]
fn what_was_read_has_a_moment_and_may_have_a_topic() {
    let read = |topic_id: Option<&str>| ClientFrame::Read {
        topic_id: topic_id.map(Into::into),
        until: Timestamp(5),
    };

    assert_eq!(parsed(json!({"type": "read", "until": 5})), read(None));
    let named = json!({"type": "read", "topic_id": TOPIC, "until": 5});
    assert_eq!(parsed(named), read(Some(TOPIC)));
    for until in ["null", "-1", "1.5", "\"5\"", "[5]"] {
        let text = format!(r#"{{"type":"read","until":{until}}}"#);
        assert_eq!(code(&text), "invalid_frame", "{until}");
    }
    assert_eq!(code(r#"{"type":"read","until":5,"topic_id":"billing"}"#), "bad_topic_id");
}

/// CH-79
#[test]
fn a_malformed_resume_is_refused() {
    for last_seq in [
        "-1",
        "-0",
        "1.0",
        "1.5",
        "1e3",
        "18446744073709551616",
        "1e300",
        "\"7\"",
        "true",
        "[7]",
        "{}",
    ] {
        let text = format!(r#"{{"type":"resume","channel_id":"ws:1","last_seq":{last_seq}}}"#);
        assert_eq!(code(&text), "bad_resume", "{last_seq}");
    }
    let long = format!("\"{}\"", "x".repeat(129));
    for channel_id in ["null", "7", "\"\"", "[]", "\"a\\n\"", &long] {
        let text = format!(r#"{{"type":"resume","channel_id":{channel_id},"last_seq":7}}"#);
        assert_eq!(code(&text), "bad_resume", "{channel_id}");
    }
    assert_eq!(code(r#"{"type":"resume"}"#), "bad_resume");
}

/// CH-49
#[test]
fn a_cancel_leaves_the_queue_unless_told() {
    for (sent, queued) in [(json!(null), false), (json!(false), false), (json!(true), true)] {
        assert_eq!(
            parsed(json!({"type": "cancel", "topic_id": TOPIC, "queued": sent})),
            ClientFrame::Cancel { topic_id: TOPIC.into(), queued }
        );
    }
}

/// CH-75
#[test]
fn a_malformed_cancel_is_refused() {
    for topic_id in [
        json!(null),
        json!(5),
        json!("billing"),
        json!("t-0123456789abcde"),
        json!("t-0123456789abcdef0"),
        json!("t-0123456789abcdeg"),
    ] {
        let frame = json!({"type": "cancel", "topic_id": topic_id});
        assert_eq!(code(&frame.to_string()), "bad_topic_id", "{topic_id}");
    }
    for queued in [json!("yes"), json!(1)] {
        let frame = json!({"type": "cancel", "topic_id": TOPIC, "queued": queued});
        assert_eq!(code(&frame.to_string()), "invalid_frame", "{queued}");
    }
}

/// CH-72
#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "hi",
        "{",
        "{\"content\":\"hi\"",
        "{\"content\":\"hi\"}}",
        "{\"content\":\"hi\"} {}",
        "{content:\"hi\"}",
        "{'content':'hi'}",
        "{\"content\":\"hi\",}",
        "{\"content\":\"a\nb\"}",
        r#"{"content":"\x"}"#,
        r#"{"content":"\ud800"}"#,
        r#"{"content":"\udc00 x"}"#,
        r#"{"content":"hi","other":"\ud800\u0041"}"#,
        r#"{"\ud800":1,"content":"hi"}"#,
        "\u{feff}{\"content\":\"hi\"}",
        "NaN",
    ] {
        let refusal = refused(text);
        assert_eq!(refusal.code, "invalid_json", "{text}");
        assert!(refusal.error.starts_with("invalid JSON"), "{refusal}");
    }
}

/// CH-38, CH-72
#[test]
fn more_than_64_levels_are_refused() {
    let nested = |levels: usize| {
        // The frame itself is the first level.
        let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
        format!(r#"{{"content":"hi","other":{open}{close}}}"#)
    };

    assert_eq!(parse(&nested(64)).unwrap(), message("hi"));
    assert_eq!(code(&nested(65)), "invalid_json");
    for bomb in ["[", "{\"a\":", "[{\"a\":"] {
        let text = bomb.repeat(1_048_576 / bomb.len());
        assert_eq!(code(&text), "invalid_json");
    }
    let closed = "[".repeat(50_000) + &"]".repeat(50_000);
    assert_eq!(code(&closed), "invalid_json");
}

/// CH-38
#[test]
fn brackets_in_a_string_are_no_nesting() {
    let content = format!("\\\"{}\\", "[{\"".repeat(1_000));

    assert_eq!(parsed(json!({ "content": content })), message(&content));
}

/// CH-38
#[test]
fn unknown_fields_are_ignored_and_the_last_of_equal_keys_wins() {
    assert_eq!(
        parse(r#"{"content":5,"x":{"content":"no"},"content":"a","content":"b"}"#).unwrap(),
        message("b")
    );
    assert_eq!(code(r#"{"content":"a","content":null}"#), "missing_content");
}

/// CH-73
#[test]
fn what_is_no_object_is_refused() {
    for text in ["null", "5", "\"hi\"", "true", "[]", "[{\"content\":\"hi\"}]"] {
        assert_eq!(refused(text), Refusal::new("invalid_frame", "a frame is a JSON object"));
    }
}

/// CH-74
#[test]
fn a_message_without_content_is_refused() {
    for frame in [
        json!({}),
        json!({"type": "message"}),
        json!({"content": null}),
        json!({"content": 5}),
        json!({"content": ["hi"]}),
        json!({"content": {"text": "hi"}}),
        json!({"content": ""}),
        json!({"content": " \n\u{a0}\u{2003}\t"}),
        json!({"content": "\0 \0"}),
    ] {
        assert_eq!(
            refused(&frame.to_string()),
            Refusal::new("missing_content", "missing content field"),
            "{frame}"
        );
    }
}

/// CH-76
#[test]
fn an_unknown_type_is_refused_with_the_known_ones() {
    assert_eq!(
        refused(r#"{"type":"topic_close","content":"hi","message_id":"m-1"}"#),
        Refusal {
            code: "unknown_type",
            error: "unknown type `topic_close`; known: `message`, `topic_list_request`, `resume`, \
                    `cancel`, `read`"
                .into(),
            message_id: Some("m-1".into()),
        }
    );
    for kind in [json!(""), json!("Message"), json!(5), json!(["message"]), json!({})] {
        let frame = json!({"type": kind, "content": "hi"});
        assert_eq!(code(&frame.to_string()), "unknown_type", "{kind}");
    }
    let long = json!({"type": "ä".repeat(500_000)}).to_string();
    assert!(refused(&long).error.chars().count() < 200);
}

/// CH-77
#[test]
fn a_binary_frame_has_its_own_answer() {
    assert_eq!(
        ErrorBody::from(Refusal::binary_frame()),
        ErrorBody::refusal("binary_frame", "send text frames")
    );
}

/// CH-78
#[test]
fn a_message_id_has_1_to_128_printable_characters() {
    let with = |id: Value| json!({"content": "hi", "message_id": id}).to_string();

    for good in ["x".to_owned(), "ä".repeat(128)] {
        assert_eq!(
            parse(&with(json!(good))).unwrap(),
            ClientFrame::Message {
                content: "hi".into(),
                topic_id: None,
                message_id: Some(good.into()),
                files: Vec::new(),
            }
        );
    }
    assert_eq!(parse(&with(json!(null))).unwrap(), message("hi"));
    for bad in [
        json!(""),
        json!("ä".repeat(129)),
        json!("x".repeat(1_000_000)),
        json!("a\nb"),
        json!("\0"),
        json!("\u{7f}"),
        json!(5),
        json!(["x"]),
        json!({}),
        json!(false),
    ] {
        assert_eq!(code(&with(bad)), "bad_message_id");
    }
}

#[test]
fn a_refusal_names_the_message_it_concerns() {
    let refusal = refused(r#"{"content":"","message_id":"m-1"}"#);

    let expected = ErrorBody {
        message_id: Some("m-1".into()),
        ..ErrorBody::refusal("missing_content", "missing content field")
    };
    assert_eq!(ErrorBody::from(refusal), expected);
}

/// A field's value of any shape.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
        "(message|topic_list_request|resume|cancel|t-[0-9a-f]{16})".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map("[a-z_]{0,8}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn any_frame() -> impl Strategy<Value = Value> {
    let field = "(type|content|files|topic_id|message_id|channel_id|last_seq|queued|home|until|x)";
    prop::collection::hash_map(field, any_json(), 0..8)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in ".*|[\\[\\]{}\",:\\\\a-z0-9 ]*") {
        if let Err(refusal) = parse(&text) {
            prop_assert!(!refusal.error.is_empty());
        }
    }

    /// CH-08, CH-78
    #[test]
    fn any_object_is_parsed_or_refused(frame in any_frame()) {
        match parse(&frame.to_string()) {
            Ok(ClientFrame::Message { content, message_id, files, .. }) => {
                prop_assert!(!content.is_empty() || !files.is_empty());
                prop_assert!(content.trim() == content);
                prop_assert!(!content.contains('\0'));
                if let Some(id) = message_id {
                    prop_assert_eq!(frame.get("message_id").unwrap(), id.as_str());
                }
            }
            Ok(ClientFrame::Cancel { topic_id, .. }) => prop_assert!(is_topic_id(topic_id.as_str())),
            Ok(
                ClientFrame::TopicListRequest
                | ClientFrame::Resume { .. }
                | ClientFrame::Read { .. },
            ) => {}
            Err(refusal) => prop_assert_ne!(refusal.code, "invalid_json"),
        }
    }

    /// CH-43
    #[test]
    fn visible_content_arrives_as_sent(content in "[^\\s\\x00](.*[^\\s\\x00])?") {
        prop_assume!(content.trim() == content && !content.contains('\0'));

        prop_assert_eq!(parsed(json!({ "content": content })), message(&content));
    }

    #[test]
    fn a_piece_of_a_frame_is_parsed_or_refused(frame in any_frame(), cut in 0_usize..200) {
        let text = frame.to_string();
        let end = text.floor_char_boundary(cut);

        let _ = parse(&text[..end]);
    }
}
