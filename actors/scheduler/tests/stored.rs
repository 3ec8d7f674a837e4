//! Rows of triggers: what is written is read back, and rows of former versions are read.

use serde_json::{Value, json};

use crate::{
    clock::Timestamp,
    ids::TeamKey,
    scheduler::trigger::{
        Trigger,
        config::{Config, Schedule},
        definition::Definition,
        webhook::{CustomScheme, Encoding, Scheme, SecretRef, Signed, Webhook},
    },
    task::TopicRef,
};

/// A row as it was written before there was one form for all.
fn former(config: Value) -> Value {
    json!({
        "id": "trg-1", "team": {"name": "news", "generation": 1}, "name": "scan", "config": config, "task": "Look.",
        "subagent": "editor", "max_steps": 9, "priority": "high", "deadline": 21_600_000,
        "overlap_policy": "always-skip", "missed": "once", "failure_threshold": 3, "cooldown": 60_000,
        "notify": "on_failure", "notify_channel": "ws:1", "notify_topic": {"id": "t-1", "name": "news"},
        "quiet": {"from": 1350, "to": 420, "timezone": "UTC"}, "allow_untrusted": false,
        "state": "active", "revision": 2, "created_by": "main", "created_at": 1, "updated_at": 2,
    })
}

fn read(row: Value) -> Trigger {
    serde_json::from_value(row).unwrap()
}

fn public(config: Value) -> Value {
    json!(read(former(config)).definition)
}

#[test]
fn a_row_of_a_former_version_is_read() {
    let found = public(json!({"type": "schedule", "every": 2_700_000}));

    let expected = json!({
        "name": "scan", "type": "schedule", "config": {"every": "45m"}, "task": "Look.", "subagent": "editor",
        "max_steps": 9, "priority": "high", "deadline": "6h", "overlap_policy": "always-skip",
        "missed": "once", "failure_threshold": 3, "cooldown": "1m", "notify": "on_failure",
        "notify_channel": "ws:1", "notify_topic": "t-1",
        "quiet": {"from": "22:30", "to": "07:00", "timezone": "UTC"}, "allow_untrusted": false,
    });
    assert_eq!(found, expected);
}

#[test]
fn every_type_of_a_former_version_is_read() {
    let scheme = json!({"custom": {"header": "X-Sig", "encoding": "hex", "signed": "body"}});
    let cases = [
        (
            json!({"type": "schedule", "cron": "0 8 * * *", "timezone": "UTC"}),
            json!({"cron": "0 8 * * *", "timezone": "UTC"}),
        ),
        (
            json!({"type": "schedule", "at": {"text": "2030-01-31T09:00", "at": 77}}),
            json!({"at": "2030-01-31T09:00"}),
        ),
        (
            json!({"type": "keyword", "pattern": "fire", "channels": ["ws:1"], "senders": ["ann"]}),
            json!({"pattern": "fire", "channels": ["ws:1"], "sender": ["ann"]}),
        ),
        (
            json!({"type": "message", "pattern": "^a", "flags": "i"}),
            json!({"pattern": "^a", "flags": "i"}),
        ),
        (
            json!({
                "type": "window", "span": {"lasting": {"open": "0 9 * * *", "duration": 3_600_000}},
                "tick_interval": 30_000, "max_ticks": 5, "max_tokens": 1000, "max_usd": 2.5,
                "stop_on_first_hit": true, "backoff": true,
            }),
            json!({
                "open": "0 9 * * *", "duration": "1h", "tick_interval": "30s", "max_ticks_per_window": 5,
                "max_tokens_per_window": 1000, "max_usd_per_window": 2.5, "stop_on": "first_hit", "backoff": true,
            }),
        ),
        (
            json!({
                "type": "window", "span": {"watch": "* 9 * * *"}, "tick_interval": 30_000, "max_ticks": 5,
                "stop_on_first_hit": false, "backoff": false,
            }),
            json!({"watch": "* 9 * * *", "tick_interval": "30s", "max_ticks_per_window": 5}),
        ),
        (
            json!({
                "type": "webhook", "scheme": scheme, "secret": "KEY", "secret_previous": "OLD",
                "previous_until": 88, "tolerance": 60_000, "max_body": 65_536,
                "content_types": ["text/plain"], "filter": [{"pointer": "/a", "equals": null}],
                "pass_headers": ["X-Event"], "rate": 5,
            }),
            json!({
                "scheme": {"header": "X-Sig", "encoding": "hex", "signed": "body"},
                "secret": "${vault:KEY}", "secret_previous": "${vault:OLD}", "tolerance": "1m",
                "max_body": "64KiB", "content_types": ["text/plain"],
                "filter": [{"pointer": "/a", "equals": null}], "pass_headers": ["X-Event"], "rate": "5/min",
            }),
        ),
    ];
    for (stored, expected) in cases {
        assert_eq!(public(stored)["config"], expected);
    }
}

#[test]
fn what_was_worked_out_is_kept_beside_the_public_form() {
    let at = json!({"type": "schedule", "at": {"text": "2030-01-31T09:00", "at": 77}});
    let hook = json!({
        "type": "webhook", "scheme": "github", "secret": "KEY", "secret_previous": "OLD", "previous_until": 88,
        "tolerance": 60_000, "max_body": 1, "content_types": [], "rate": 5,
    });

    let (at, hook) = (read(former(at)), read(former(hook)));

    let Config::Schedule(schedule) = &at.definition.config else { panic!("{at:?}") };
    assert_eq!(schedule.moment, Some(Timestamp(77)));
    let Config::Webhook(webhook) = &hook.definition.config else { panic!("{hook:?}") };
    assert_eq!(webhook.previous_until, Some(Timestamp(88)));
    let topic = TopicRef { id: "t-1".into(), name: "news".to_owned() };
    assert_eq!(at.definition.notify_topic, Some(topic));
    for trigger in [at, hook] {
        assert_eq!(read(json!(trigger)), trigger);
    }
}

#[test]
fn what_is_written_is_read_back() {
    let schedule = Schedule {
        at: Some("2030-01-31T09:00".to_owned()),
        moment: Some(Timestamp(77)),
        ..Schedule::default()
    };
    let custom = CustomScheme {
        header: "X-Sig".to_owned(),
        prefix: None,
        encoding: Encoding::Base64,
        timestamp_header: Some("X-Time".to_owned()),
        signed: Signed::TimestampBody,
    };
    let webhook = Webhook {
        scheme: Scheme::Custom(custom),
        secret_previous: Some(SecretRef::to("OLD")),
        previous_until: Some(Timestamp(88)),
        ..Webhook::new(SecretRef::to("KEY"))
    };
    for config in [Config::Schedule(schedule), Config::Webhook(webhook)] {
        let definition = Definition {
            notify_channel: Some("ws:1".into()),
            notify_topic: Some(TopicRef { id: "t-1".into(), name: "news".to_owned() }),
            ..Definition::new("a", config, "b")
        };
        let team = TeamKey::first("news");
        let trigger = Trigger::new("trg-1".into(), team, definition, "main", Timestamp(5));

        assert_eq!(read(json!(trigger)), trigger);
    }
}
