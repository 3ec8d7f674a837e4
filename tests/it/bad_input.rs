//! Bad input: every kind is answered or cut off with the right code, and the server goes on.

use serde_json::{Value, json};

use crate::{
    raw_socket::{BINARY, CLOSE, CONTINUATION, Heard, RawSocket, TEXT},
    service::{Client, Service},
};

const LAST: u8 = 0x80;
const MEBIBYTE: usize = 1024 * 1024;

/// The server answers a chat message, on a connection that has seen nothing of the trouble.
async fn is_well(client: &mut Client) {
    let end = client.ask("#reply All is well.").await;
    assert_eq!(end["content"], "All is well.");
}

async fn error(socket: &mut RawSocket) -> Value {
    match socket.heard().await {
        Heard::Frame(frame) if frame["type"] == "error" => frame,
        other => panic!("{other:?} instead of an error"),
    }
}

/// The connection itself is of use.
async fn still_answers(socket: &mut RawSocket) {
    socket.text(r#"{"content": "/help", "message_id": "probe"}"#).await;
    match socket.heard().await {
        Heard::Frame(frame) => assert_eq!(
            [&frame["type"], &frame["message_id"]],
            [&json!("response"), &json!("probe")]
        ),
        other => panic!("{other:?} instead of an answer"),
    }
}

/// What is no frame, by the code of its refusal.
const BAD_FRAMES: &[(&str, &[&str])] = &[
    (
        "invalid_json",
        &[
            "",
            " ",
            "nonsense",
            "{",
            "{\"content\": \"x\"} more",
            "{'content': 'x'}",
            r#"{"content": "\ud800"}"#,
            r#"{"content": "\q"}"#,
            "{\"content\": \"line\nbreak\"}",
            "{\"content\": 1e999999}",
        ],
    ),
    (
        "invalid_frame",
        &[
            "null",
            "true",
            "7",
            "-0.5",
            "\"text\"",
            "[]",
            "[{\"content\": \"x\"}]",
            r#"{"type": "cancel", "topic_id": "t-0123456789abcdef", "queued": "yes"}"#,
        ],
    ),
    (
        "missing_content",
        &[
            "{}",
            r#"{"content": null}"#,
            r#"{"content": 7}"#,
            r#"{"content": ["x"]}"#,
            r#"{"content": {"text": "x"}}"#,
            r#"{"content": ""}"#,
            r#"{"content": " \n\t"}"#,
            r#"{"content": "\u0000"}"#,
            r#"{"type": "message"}"#,
            r#"{"content": "x", "content": ""}"#,
        ],
    ),
    (
        "unknown_type",
        &[
            r#"{"type": "nonsense"}"#,
            r#"{"type": "nonsense", "content": "x"}"#,
            r#"{"type": "", "content": "x"}"#,
            r#"{"type": 7, "content": "x"}"#,
            r#"{"type": {"a": 1}, "content": "x"}"#,
        ],
    ),
    (
        "bad_message_id",
        &[
            r#"{"content": "x", "message_id": ""}"#,
            r#"{"content": "x", "message_id": 7}"#,
            r#"{"content": "x", "message_id": ["a"]}"#,
            r#"{"content": "x", "message_id": "a\nb"}"#,
        ],
    ),
    (
        "bad_topic_id",
        &[
            r#"{"content": "x", "topic_id": 7}"#,
            r#"{"content": "x", "topic_id": ""}"#,
            r#"{"content": "x", "topic_id": "../../etc"}"#,
            r#"{"type": "cancel"}"#,
            r#"{"type": "cancel", "topic_id": {}}"#,
        ],
    ),
    ("unknown_topic", &[r#"{"type": "cancel", "topic_id": "t-0123456789abcdef"}"#]),
    (
        "bad_resume",
        &[
            r#"{"type": "resume"}"#,
            r#"{"type": "resume", "channel_id": 7}"#,
            r#"{"type": "resume", "channel_id": "ws:0", "last_seq": -1}"#,
            r#"{"type": "resume", "channel_id": "ws:0", "last_seq": 18446744073709551616}"#,
        ],
    ),
];

/// SC-16, CH-38, CH-72 to CH-78
#[actix::test]
async fn a_bad_frame_is_answered_and_the_connection_stays() {
    let service = Service::start().await;
    let mut bystander = service.connect().await;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let deep_field =
        format!(r#"{{"content": "x", "extra": {}1{}}}"#, "[".repeat(64), "]".repeat(64));
    let long_id = json!({ "content": "x", "message_id": "i".repeat(129) }).to_string();
    let long: [(&str, &[&str]); 2] =
        [("invalid_json", &[&deep, &deep_field]), ("bad_message_id", &[&long_id])];

    for (code, texts) in BAD_FRAMES.iter().chain(&long) {
        let mut socket = RawSocket::open(&service).await;
        for text in *texts {
            let shown: String = text.chars().take(80).collect();
            socket.text(text).await;
            let refusal = error(&mut socket).await;
            assert_eq!(refusal["code"], *code, "{shown}: {refusal}");
            assert!(refusal["error"].as_str().is_some_and(|text| !text.is_empty()));
        }
        still_answers(&mut socket).await;
        is_well(&mut bystander).await;
    }
}

/// CH-76, CH-77
#[actix::test]
async fn a_refusal_says_what_would_have_been_right() {
    let service = Service::start().await;
    let mut socket = RawSocket::open(&service).await;

    socket.text(r#"{"type": "ping", "message_id": "m"}"#).await;
    let unknown = error(&mut socket).await;
    socket.frame(LAST | BINARY, b"\x00\xff").await;
    let binary = error(&mut socket).await;
    socket.frame(BINARY, b"\x00").await;
    socket.frame(LAST | CONTINUATION, b"\xff").await;
    let fragments = error(&mut socket).await;

    let text = unknown["error"].as_str().unwrap();
    for known in ["message", "topic_list_request", "resume", "cancel"] {
        assert!(text.contains(known), "{text}");
    }
    assert_eq!(unknown["message_id"], "m");
    for refusal in [binary, fragments] {
        assert_eq!(
            [&refusal["code"], &refusal["error"]],
            [&json!("binary_frame"), &json!("send text frames")]
        );
    }
    still_answers(&mut socket).await;
}

/// CH-38: fragments are joined, unknown fields ignored, of duplicate keys the last wins.
#[actix::test]
async fn an_unusual_frame_that_is_right_is_heard() {
    let service = Service::start().await;
    let mut socket = RawSocket::open(&service).await;

    socket.frame(TEXT, br##"{"content": "x", "future": {"a": [1]}, "##).await;
    socket.frame(CONTINUATION, br##""message_id": "m", "content": "#reply "##).await;
    socket.frame(LAST | CONTINUATION, "Joined \u{1f41d}.\"}".as_bytes()).await;
    let end = loop {
        match socket.heard().await {
            Heard::Frame(frame) if frame["type"] == "response" => break frame,
            Heard::Frame(_) => {}
            other => panic!("{other:?}"),
        }
    };

    assert_eq!([&end["content"], &end["message_id"]], [&json!("Joined \u{1f41d}."), &json!("m")]);
}

/// CH-66, CH-37
#[actix::test]
async fn a_frame_that_is_too_large_is_refused_and_the_connection_closed() {
    let service = Service::start().await;
    let mut bystander = service.connect().await;
    let ten = vec![b'x'; 10 * MEBIBYTE];

    for case in ["declared", "declared absurdly", "sent", "fragmented", "one byte"] {
        let mut socket = RawSocket::open(&service).await;
        match case {
            "declared" => socket.declare(10 * MEBIBYTE as u64).await,
            "declared absurdly" => socket.declare(u64::MAX >> 1).await,
            "sent" => socket.frame(LAST | TEXT, &ten).await,
            "one byte" => socket.frame(LAST | TEXT, &ten[..=MEBIBYTE]).await,
            _ => {
                let mut parts = ten.chunks(MEBIBYTE / 2);
                socket.frame(TEXT, parts.next().unwrap()).await;
                for part in parts {
                    socket.frame(CONTINUATION, part).await;
                }
            }
        }
        assert_eq!(error(&mut socket).await["code"], "frame_too_large", "{case}");
        assert_eq!(socket.heard().await, Heard::Close(1009), "{case}");
        is_well(&mut bystander).await;
    }
    let mut socket = RawSocket::open(&service).await;
    let frame = json!({ "content": "/help", "message_id": "m", "padding": "" }).to_string();
    let padding = "x".repeat(MEBIBYTE - frame.len());
    let frame = frame.replace(r#""padding":"""#, &format!(r#""padding":"{padding}""#));
    assert_eq!(frame.len(), MEBIBYTE);
    socket.text(&frame).await;
    let Heard::Frame(answer) = socket.heard().await else {
        panic!("a frame of 1 MiB is not refused");
    };
    assert_eq!(answer["message_id"], "m");
}

/// CH-37
#[actix::test]
async fn what_breaks_the_protocol_is_closed_with_its_code() {
    let service = Service::start().await;
    let mut bystander = service.connect().await;
    let cases: [(&str, u16); 8] = [
        ("invalid UTF-8", 1007),
        ("invalid UTF-8 in fragments", 1007),
        ("unmasked", 1002),
        ("reserved data opcode", 1002),
        ("reserved control opcode", 1002),
        ("continuation of nothing", 1002),
        ("control frame in fragments", 1002),
        ("control frame too long", 1002),
    ];

    for (case, code) in cases {
        let mut socket = RawSocket::open(&service).await;
        match case {
            "invalid UTF-8" => socket.frame(LAST | TEXT, b"{\"content\": \"\xff\xfe\"}").await,
            "invalid UTF-8 in fragments" => {
                socket.frame(TEXT, b"{\"content\": \"\xff").await;
                socket.frame(LAST | CONTINUATION, b"\"}").await;
            }
            "unmasked" => socket.unmasked(r#"{"content": "x"}"#).await,
            "reserved data opcode" => socket.frame(LAST | 0x3, b"x").await,
            "reserved control opcode" => socket.frame(LAST | 0xb, b"x").await,
            "continuation of nothing" => socket.frame(LAST | CONTINUATION, b"x").await,
            "control frame in fragments" => socket.frame(0x9, b"x").await,
            _ => socket.frame(LAST | 0x9, &[b'x'; 126]).await,
        }
        let close = loop {
            match socket.heard().await {
                Heard::Frame(_) => {}
                other => break other,
            }
        };
        assert_eq!(close, Heard::Close(code), "{case}");
        is_well(&mut bystander).await;
    }
}

/// CH-37: a close is answered, and half a frame before the end hurts nobody.
#[actix::test]
async fn a_connection_may_end_at_any_point() {
    let service = Service::start().await;
    let mut bystander = service.connect().await;

    let mut socket = RawSocket::open(&service).await;
    socket.frame(LAST | CLOSE, &1000_u16.to_be_bytes()).await;
    assert_eq!(socket.heard().await, Heard::Close(1000));
    let mut half = RawSocket::open(&service).await;
    half.declare(500).await;
    drop(half);
    let mut between = RawSocket::open(&service).await;
    between.frame(TEXT, b"{").await;
    drop(between);

    is_well(&mut bystander).await;
}

/// CH-71: the frames of one client that does not read are no burden for another.
#[actix::test]
async fn a_client_that_never_reads_holds_up_nobody() {
    let service = Service::prepare()
        .with_file("data/config/config.yaml", "store: {durability: process}\n")
        .started()
        .await;
    let mut bystander = service.connect().await;
    let mut deaf = RawSocket::open(&service).await;
    let long = "x".repeat(300_000);

    for number in 0..10 {
        let frame =
            json!({ "content": format!("#reply {long}"), "message_id": format!("m{number}") });
        deaf.text(&frame.to_string()).await;
    }

    for _ in 0..20 {
        is_well(&mut bystander).await;
    }
    drop(deaf);
}
