//! Forms and what they mean.

use hivewright_actors::{
    ids::TeamKey,
    scheduler::trigger::config::{Hours, When},
    task::TopicRef,
};
use serde_json::json;

use super::*;
use crate::triggers::calendar::Zones;

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn writer<'a>(source: Option<&'a Source>) -> Writer<'a> {
    Writer { calendar: &Zones, zone: "UTC".to_owned(), now: NOW, source, is_operator: false }
}

fn map(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn read(form: Value) -> Result<Definition, Problems> {
    writer(None).definition(&map(form))
}

fn read_as_operator(form: Value) -> Result<Definition, Problems> {
    Writer { is_operator: true, ..writer(None) }.definition(&map(form))
}

fn first_field(read: Result<Definition, Problems>) -> String {
    read.unwrap_err().0.remove(0).field
}

fn source() -> Source {
    Source {
        channel: "ws:1".into(),
        message: None,
        topic: Some(TopicRef { id: "t-1".into(), name: "news".to_owned() }),
        notify: None,
    }
}

/// TR-01: every field of a form that names them all comes back as it was written.
#[test]
fn what_is_written_is_shown_again() {
    let configs = [
        ("schedule", json!({"cron": "0 8 * * *", "timezone": "Europe/Berlin"})),
        ("schedule", json!({"at": "2030-01-31T09:00"})),
        ("schedule", json!({"every": "45m"})),
        ("keyword", json!({"pattern": "fire", "channels": ["ws:1"], "sender": ["ann"]})),
        ("message", json!({"pattern": "^a", "flags": "im"})),
        (
            "window",
            json!({
                "open": "0 9 * * *", "duration": "1h", "tick_interval": "1m", "max_ticks_per_window": 5,
                "max_tokens_per_window": 1000, "max_usd_per_window": 2.5, "stop_on": "first_hit", "backoff": true,
            }),
        ),
        (
            "webhook",
            json!({
                "scheme": {"header": "X-Sig", "encoding": "hex", "signed": "body", "prefix": "v="},
                "secret": "${vault:KEY}", "tolerance": "1m", "max_body": "64KiB", "content_types": ["text/plain"],
                "filter": [{"pointer": "/a", "equals": 1}, {"pointer": "/b", "matches": "x"}],
                "pass_headers": ["X-Event"], "rate": "5/min",
            }),
        ),
    ];
    for (kind, config) in configs {
        let form = json!({"name": "a", "type": kind, "config": config, "task": "b"});
        let definition = read(form).unwrap();
        assert_eq!(json!(definition)["config"], config);
    }
}

/// TR-01
#[test]
fn fields_that_are_left_out_have_their_defaults() {
    let form =
        json!({"name": "a", "type": "window", "config": {"watch": "* 9 * * *"}, "task": "b"});

    let definition = read(form).unwrap();

    assert_eq!(definition.overlap_policy, OverlapPolicy::AlwaysSkip);
    let Config::Window(window) = definition.config else { unreachable!("a window was asked for") };
    assert_eq!(window.hours(), Some(Hours::Watch("* 9 * * *")));
    assert_eq!((window.tick_interval.0.as_secs(), window.max_ticks), (30, 1_000));
}

/// TR-02, TR-07, TR-17, TR-20: each complaint names its field.
#[test]
fn complaints_name_their_field() {
    let with = |kind: &str, config: Value| {
        let form = json!({"name": "a", "type": kind, "config": config, "task": "b"});
        read_as_operator(form).unwrap_err().to_string()
    };

    assert_eq!(
        with("schedule", json!({"cron": "* * * * *", "every": "1h"})),
        "config: needs exactly one of `cron`, `at` and `every`"
    );
    assert_eq!(
        with("schedule", json!({"timezon": "UTC"})),
        "config.timezon: unknown field (did you mean `timezone`?)"
    );
    assert_eq!(
        with("schedule", json!({"every": "5"})),
        "config.every: expected a duration such as 90s, 30m or 2h"
    );
    assert_eq!(with("keyword", json!({})), "config: missing field `pattern`");
    assert!(
        with("keyword", json!({"pattern": "a", "flags": "i"})).starts_with("config.flags: unknown")
    );
    assert!(with("window", json!({"open": "0 9 * * *"})).starts_with("config: needs `watch`"));
    assert!(with("schedul", json!({})).starts_with("type: expected one of"));
    let missed = json!({
        "name": "a", "type": "keyword", "config": {"pattern": "a"}, "task": "b", "missed": "all",
    });
    assert_eq!(first_field(read(missed)), "missed");
    let critical = json!({
        "name": "a", "type": "keyword", "config": {"pattern": "a"}, "task": "b", "priority": "critical",
    });
    assert_eq!(
        read(critical).unwrap_err().to_string(),
        "priority: expected one of `high`, `normal`, `low`"
    );
}

/// SE-46: a model is told the names of the fields, and what they mean once it has use for that.
#[test]
fn a_config_that_does_not_fit_is_answered_with_the_fields_of_its_type() {
    let form = |kind: &str, config: Value| json!({"name": "a", "type": kind, "config": config, "task": "b"});
    let misspelt = || form("schedule", json!({"evry": "1h"}));
    let with_both = form("schedule", json!({"cron": "* * * * *", "every": "1h"}));
    let mut critical = form("keyword", json!({"pattern": "a"}));
    critical["priority"] = json!("critical");

    let told = read(misspelt()).unwrap_err();

    let said: Vec<String> = told.0.iter().map(ToString::to_string).collect();
    assert_eq!(said[0], "config.evry: unknown field (did you mean `every`?)");
    let words = "config: the fields of a `schedule` are\n- `at`: One time, RFC 3339 or local.\n\
        - `cron`: ";
    assert!(said[1].starts_with(words), "{said:?}");
    assert!(said[1].contains("\n- `every`: In steps such as 30m"), "{said:?}");
    assert_eq!(read(with_both).unwrap_err().0.len(), 2);
    let open = read(form("window", json!({"open": "0 9 * * *"}))).unwrap_err().to_string();
    assert!(open.contains("\n- `watch`: ") && !open.contains("`every`"), "{open}");
    // Nothing is wrong with `config`, its type is unknown, or the reader has the documents.
    assert_eq!(read(critical).unwrap_err().0.len(), 1);
    assert_eq!(read(form("schedul", json!({}))).unwrap_err().0.len(), 1);
    assert_eq!(read_as_operator(misspelt()).unwrap_err().0.len(), 1);
}

/// TR-85: a secret in the wrong place is not repeated.
#[test]
fn a_literal_secret_is_refused_and_not_repeated() {
    let form = json!({
        "name": "a", "type": "webhook", "config": {"secret": "whsec_abc"}, "task": "b",
    });

    let problems = read(form).unwrap_err();

    assert_eq!(problems.0[0].field, "config.secret");
    assert!(!problems.to_string().contains("abc"));
}

/// TR-01: operators only.
#[test]
fn a_team_cannot_let_the_outside_in() {
    let form = json!({
        "name": "a", "type": "schedule", "config": {"every": "1h"}, "task": "b", "allow_untrusted": true,
    });

    assert_eq!(first_field(read(form)), "allow_untrusted");
}

/// TR-01: `source` is the channel and the topic of the turn.
#[test]
fn the_source_is_where_the_call_comes_from() {
    let form = map(json!({
        "name": "a", "type": "schedule", "config": {"every": "1h"}, "task": "b", "notify_channel": "source",
    }));
    let source = source();

    let there = writer(Some(&source)).definition(&form).unwrap();
    let nowhere = first_field(writer(None).definition(&form));

    assert_eq!(there.notify_channel, Some("ws:1".into()));
    assert_eq!(there.notify_topic, source.topic);
    assert_eq!(nowhere, "notify_channel");
}

/// TR-50: merged field by field, null clears, the type stays.
#[test]
fn a_change_leaves_what_it_does_not_name() {
    let form = json!({
        "name": "a", "type": "schedule", "config": {"cron": "0 8 * * *", "timezone": "Asia/Tokyo"},
        "task": "b", "subagent": "editor", "max_steps": 9, "cooldown": "1m",
    });
    let definition = read(form).unwrap();
    let team = TeamKey::first("news");
    let trigger = Trigger::new("trg-1".into(), team, definition.clone(), "main", NOW);
    let change = |form: Value| writer(None).changed(&trigger, &map(form));

    let same = change(json!({})).unwrap();
    let changed =
        change(json!({"config": {"timezone": null}, "subagent": null, "task": "c"})).unwrap();

    assert_eq!(same, definition);
    assert_eq!(json!(changed)["config"], json!({"cron": "0 8 * * *"}));
    assert_eq!((changed.subagent, changed.task.as_str()), (None, "c"));
    assert_eq!(changed.max_steps, Some(9));
    assert_eq!(first_field(change(json!({"type": "keyword"}))), "type");
    let other = change(json!({"config": {"cron": null, "at": "2030-01-01T00:00"}})).unwrap();
    assert!(
        matches!(other.config, Config::Schedule(schedule) if matches!(schedule.when(), Some(When::At(_))))
    );
}

#[test]
fn everything_that_is_wrong_is_named() {
    let scheme = json!({"header": "X-Sig", "sgned": "body"});
    let form = json!({
        "name": "a", "type": "webhook", "task": "b", "priorty": "high", "quiet": {"from": "25:00", "to": "07:00"},
        "config": {"scheme": scheme, "secret": "${vault:KEY}", "max_body": "1MB", "rate": "5/h", "tolerance": 5},
    });

    let expected = [
        "priorty: unknown field (did you mean `priority`?)",
        "config.max_body: expected a size such as 64KiB or 1MiB",
        "config.rate: expected calls per minute such as 60/min",
        "config.scheme.sgned: unknown field (did you mean `signed`?)",
        "config.scheme: missing field `encoding`",
        "config.tolerance: expected a duration from 10s to 1h",
        "quiet.from: expected a time of day such as 22:30",
    ];
    let problems = read_as_operator(form).unwrap_err();
    let mut found: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
    found.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(found, expected);
}

/// What can be written in several ways is kept in one.
#[test]
fn a_channel_a_sender_and_a_rate_may_be_written_in_two_ways() {
    let config = |kind: &str, config: Value| {
        let form =
            json!({"name": "a", "type": kind, "config": config, "task": "b", "deadline": null});
        json!(read(form).unwrap())["config"].clone()
    };

    let listen = config("keyword", json!({"pattern": "x", "channel": "ws:1", "sender": "ann"}));
    let hook = config(
        "webhook",
        json!({"secret": "${vault:K}", "rate": 5, "content_types": ["Text/Plain"]}),
    );

    assert_eq!(listen, json!({"pattern": "x", "channels": ["ws:1"], "sender": ["ann"]}));
    assert_eq!((&hook["rate"], &hook["content_types"]), (&json!("5/min"), &json!(["text/plain"])));
}
