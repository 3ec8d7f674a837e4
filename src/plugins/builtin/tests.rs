//! A child of a builtin, at the other end of its pipe.

use tokio::io::split;

use super::*;

/// Says lines to a child, and hears as many as there are requests.
async fn dialogue(builtin: Arc<dyn Builtin>, said: &[Value]) -> (Vec<Value>, Option<String>) {
    let (ours, theirs) = tokio::io::duplex(1 << 12);
    let serving = tokio::spawn(serve(builtin, theirs));
    let (read, mut write) = split(ours);
    for message in said {
        write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    let awaited = said.iter().filter(|message| !message["id"].is_null()).count();
    let (mut heard, mut lines) = (Vec::new(), BufReader::new(read).lines());
    while heard.len() < awaited
        && let Some(line) = lines.next_line().await.unwrap()
    {
        heard.push(serde_json::from_str(&line).unwrap());
    }
    drop((lines, write));
    heard.sort_by_key(|message: &Value| message["id"].as_u64());
    (heard, serving.await.unwrap())
}

fn calls(questions: &[(&str, Value)]) -> Vec<Value> {
    let call = |(id, (name, args)): (usize, &(&str, Value))| {
        let params = json!({"name": name, "arguments": args});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    questions.iter().enumerate().map(call).collect()
}

/// PL-02
#[tokio::test]
async fn dates_are_calculated_with_the_calendar_and_the_clock() {
    let add = |date: &str, span: &str| ("add", json!({"date": date, "span": span}));
    let in_berlin = |date: &str, span: &str| {
        ("add", json!({"date": date, "span": span, "zone": "Europe/Berlin"}))
    };
    let between = |from: &str, to: &str| ("between", json!({"from": from, "to": to}));
    let table = [
        (add("2024-01-31", "1 month"), "2024-02-29, a Thursday"),
        (add("2026-03-01", "-1 day"), "2026-02-28, a Saturday"),
        (add("2026-03-01", "90 minutes"), "2026-03-01T01:30:00, a Sunday"),
        (add("2026-03-28T12:00", "P1D"), "2026-03-29T12:00:00, a Sunday"),
        // That night an hour is left out.
        (
            in_berlin("2026-03-28T12:00", "24 hours"),
            "2026-03-29T13:00:00+02:00[Europe/Berlin], a Sunday",
        ),
        (
            in_berlin("2026-03-28T12:00", "1 day"),
            "2026-03-29T12:00:00+02:00[Europe/Berlin], a Sunday",
        ),
        (between("2024-02-29", "2026-11-17"), "2 years 8 months 19 days, which is 992 days"),
        (between("2026-11-17", "2026-11-16"), "1 day; `to` is the earlier one"),
        (between("2026-11-17T10:00Z", "2026-11-18T12:30+01:00"), "1 day 1 hour 30 minutes"),
        (
            (
                "convert",
                json!({"time": "2026-11-17T20:30", "from": "Europe/Berlin", "to": "Asia/Tokyo"}),
            ),
            "2026-11-18T04:30:00+09:00[Asia/Tokyo], a Wednesday",
        ),
        (("weekday", json!({"date": "2027-01-01"})), "Friday, day 1 of 2027, week 53 of 2026"),
    ];
    let refused = [
        (add("yesterday", "1 day"), "`date`: "),
        (add("2026-02-30", "1 day"), "`date`: "),
        (add("2026-01-01", "some"), "`span`: "),
        (add("9999-12-31", "1 day"), "`span`: "),
        (("convert", json!({"time": "2026-11-17T20:30", "to": "Asia/Tokyo"})), "`from`: "),
        (
            ("convert", json!({"time": "2026-11-17", "to": "Asia/Tokio"})),
            "`to`: unknown time zone; did you mean Asia/Tokyo",
        ),
        (between("2026-11-17", "2026-11-17T10:00Z"), "give `zone`"),
        (("weekday", json!({"day": 1})), "unknown field `day`"),
        (("tomorrow", json!({})), "no such tool"),
    ];
    let all: Vec<_> = table
        .iter()
        .map(|(call, _)| call)
        .chain(refused.iter().map(|(call, _)| call))
        .cloned()
        .collect();

    let (answers, ended) = dialogue(dates::Dates::make(), &calls(&all)).await;

    for ((call, told), answer) in table.iter().zip(&answers) {
        assert_eq!(answer["result"]["content"][0]["text"], *told, "{call:?}");
    }
    for ((call, told), answer) in refused.iter().zip(&answers[table.len()..]) {
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(told), "{call:?}: {answer}");
    }
    assert_eq!(ended, None);
}

/// Hangs, panics, asks, or answers.
struct Moody;

impl Builtin for Moody {
    fn take(
        self: Arc<Self>,
        method: String,
        params: Value,
        host: Arc<dyn BuiltinHost>,
    ) -> BoxFuture<'static, Answer> {
        match method.as_str() {
            // Before there is a future.
            "panic" => std::panic::resume_unwind(Box::new("a bad day")),
            "hang" => Box::pin(std::future::pending()),
            "ask" => host.ask("state/get", params),
            _ => Box::pin(std::future::ready(Err(method))),
        }
    }
}

/// PL-02, PL-33: one request that hangs, is cancelled or fails touches no other; a panic ends the child, and says why.
#[tokio::test]
async fn a_builtin_answers_as_a_process_would_and_a_panic_ends_it() {
    let say =
        |id: u64, method: &str| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": {}});
    let cancel = json!({"method": "notifications/cancelled", "params": {"requestId": 1}});
    let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"value": 7}});
    let (ours, theirs) = tokio::io::duplex(64);
    let serving = tokio::spawn(serve(Arc::new(Moody), theirs));
    let (read, mut write) = split(ours);
    let mut lines = BufReader::new(read).lines();
    let mut heard =
        async || serde_json::from_str::<Value>(&lines.next_line().await.unwrap().unwrap()).unwrap();
    let mut tell =
        async |message: &Value| write.write_all(format!("{message}\n").as_bytes()).await.unwrap();

    tell(&json!({"nobody": "asked"})).await;
    tell(&say(1, "hang")).await;
    tell(&cancel).await;
    tell(&say(2, "hang")).await;
    tell(&say(3, "ask")).await;
    let asked = heard().await;
    tell(&answer).await;
    let answered = heard().await;
    tell(&say(4, "nonsense")).await;
    let refused = heard().await;
    tell(&say(5, "ping")).await;
    let pong = heard().await;
    tell(&say(6, "panic")).await;
    let ended = serving.await.unwrap();

    assert_eq!((&asked["id"], &asked["method"]), (&json!(0), &json!("state/get")), "{asked}");
    assert_eq!((&answered["id"], &answered["result"]["value"]), (&json!(3), &json!(7)));
    assert_eq!(refused["error"]["message"], "nonsense", "{refused}");
    assert_eq!((&pong["id"], &pong["result"]), (&json!(5), &json!({})));
    assert_eq!(ended.as_deref(), Some("it panicked: a bad day"));
}
