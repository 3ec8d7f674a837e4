//! What is shown of triggers and runs, to people and to models.

use hivewright_actors::{
    clock::Timestamp,
    scheduler::{
        config::{Config, Encoding, Listen, Scheme, Signed, Span, Test, Webhook, When, Window},
        manage::Listed,
        run::{Notified, Run},
        trigger::{Definition, Trigger},
    },
};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::settings::units::{show_duration, show_size};

/// A moment as answers show it.
pub fn date(at: Timestamp) -> Value {
    let at = i64::try_from(at.0)
        .ok()
        .and_then(|millis| jiff::Timestamp::from_millisecond(millis).ok());
    at.map_or(Value::Null, |at| {
        at.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string().into()
    })
}

fn maybe(at: Option<Timestamp>) -> Value {
    at.map_or(Value::Null, date)
}

/// A word of an enumeration.
fn word(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// All fields of a trigger.
pub fn trigger(trigger: &Trigger) -> Value {
    let Definition {
        name,
        config: settings,
        task,
        subagent,
        max_steps,
        priority,
        deadline,
        overlap_policy,
        missed,
        failure_threshold,
        cooldown,
        notify,
        notify_channel,
        notify_topic,
        quiet,
        allow_untrusted,
    } = &trigger.definition;
    let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
    let quiet = quiet.as_ref().map(|quiet| {
        let mut shown = json!({ "from": clock(quiet.from), "to": clock(quiet.to) });
        if let Some(zone) = &quiet.timezone {
            shown["timezone"] = zone.as_str().into();
        }
        shown
    });
    let mut shown = json!({
        "id": trigger.id,
        "team": trigger.team.name,
        "name": name,
        "type": settings.type_name(),
        "config": config(settings),
        "task": task,
        "subagent": subagent,
        "max_steps": max_steps,
        "priority": word(priority),
        "deadline": show_duration(*deadline),
        "overlap_policy": word(overlap_policy),
        "failure_threshold": failure_threshold,
        "cooldown": show_duration(*cooldown),
        "notify": word(notify),
        "notify_channel": notify_channel,
        "notify_topic": notify_topic.as_ref().map(|topic| &topic.id),
        "quiet": quiet,
        "allow_untrusted": allow_untrusted,
        "state": word(&trigger.state),
        "disabled_reason": trigger.disabled_reason,
        "consecutive_failures": trigger.consecutive_failures,
        "overlap_count": trigger.overlap_count,
        "active_task_id": trigger.active_task_id,
        "cursor_at": maybe(trigger.cursor_at),
        "next_due_at": maybe(trigger.next_due_at),
        "last_fired_at": maybe(trigger.last_fired_at),
        "cursors": trigger.cursors,
        "revision": trigger.revision,
        "created_by": trigger.created_by,
        "created_at": date(trigger.created_at),
        "updated_at": date(trigger.updated_at),
    });
    match settings {
        Config::Schedule(_) => shown["missed"] = word(missed),
        Config::Window(_) => {
            shown["window"] = trigger.occurrence.as_ref().map_or(Value::Null, |window| {
                json!({
                    "state": word(&window.phase),
                    "opened_at": date(window.opened_at),
                    "closes_at": date(window.closes_at),
                    "ticks": window.ticks,
                    "noops": window.noops,
                    "tokens": window.tokens,
                    "cost_usd": window.usd,
                    "reason": word(&window.reason),
                })
            });
        }
        Config::Webhook(_) => {
            shown["path"] = format!("/hooks/{}/{name}", trigger.team.name).into();
        }
        Config::Keyword(_) | Config::Message(_) => {}
    }
    shown
}

/// A trigger with its newest run.
pub fn listed(listed: &Listed) -> Value {
    let mut shown = trigger(&listed.trigger);
    shown["last_run"] = listed.last_run.as_ref().map_or(Value::Null, run);
    shown
}

/// A row of the history.
pub fn run(run: &Run) -> Value {
    let notified = match &run.notified {
        Notified::Nobody => json!({ "notified": false }),
        Notified::Channel { channel } => json!({ "notified": true, "channel": channel }),
        Notified::Inbox => json!({ "notified": true, "channel": null, "inbox": true }),
        Notified::Later => json!({ "notified": false, "held": true }),
    };
    let mut shown = json!({
        "id": run.id,
        "trigger": run.trigger,
        "cause": run.cause.as_str(),
        "due_at": date(run.due_at),
        "fired_at": date(run.fired_at),
        "decision": run.decision.as_str(),
        "task_id": run.task_id,
        "outcome": run.outcome.map(|outcome| outcome.as_str()),
        "reason": run.reason,
        "duration_ms": run.duration_ms,
        "tokens": run.tokens,
        "cost_usd": run.cost_usd,
        "notify": notified,
    });
    if let Some(count) = run.count {
        shown["count"] = count.into();
    }
    if !run.cursors.is_empty() {
        shown["cursors"] = json!(run.cursors);
    }
    if let Some(bytes) = run.payload_bytes {
        shown["payload_bytes"] = bytes.into();
    }
    shown
}

/// A config as a form writes it.
pub fn config(config: &Config) -> Value {
    let mut map = Map::new();
    let mut set = |name: &str, value: Value| {
        map.insert(name.to_owned(), value);
    };
    match config {
        Config::Schedule(schedule) => {
            match &schedule.when {
                When::Cron(pattern) => set("cron", pattern.as_str().into()),
                When::At { text, .. } => set("at", text.as_str().into()),
                When::Every(step) => set("every", show_duration(*step).into()),
            }
            if let Some(zone) = &schedule.timezone {
                set("timezone", zone.as_str().into());
            }
        }
        Config::Keyword(listen) | Config::Message(listen) => {
            let Listen {
                pattern,
                flags,
                channels,
                senders,
            } = listen;
            set("pattern", pattern.as_str().into());
            if let Some(flags) = flags {
                set("flags", flags.as_str().into());
            }
            if !channels.is_empty() {
                set("channels", json!(channels));
            }
            if !senders.is_empty() {
                set("sender", json!(senders));
            }
        }
        Config::Window(settings) => window(settings, &mut set),
        Config::Webhook(settings) => webhook(settings, &mut set),
    }
    Value::Object(map)
}

fn window(window: &Window, set: &mut impl FnMut(&str, Value)) {
    match &window.span {
        Span::Watch(pattern) => set("watch", pattern.as_str().into()),
        Span::Between { open, close } => {
            set("open", open.as_str().into());
            set("close", close.as_str().into());
        }
        Span::Lasting { open, duration } => {
            set("open", open.as_str().into());
            set("duration", show_duration(*duration).into());
        }
    }
    if let Some(zone) = &window.timezone {
        set("timezone", zone.as_str().into());
    }
    set("tick_interval", show_duration(window.tick_interval).into());
    set("max_ticks_per_window", window.max_ticks.into());
    if let Some(tokens) = window.max_tokens {
        set("max_tokens_per_window", tokens.into());
    }
    if let Some(usd) = window.max_usd {
        set("max_usd_per_window", json!(usd));
    }
    if window.stop_on_first_hit {
        set("stop_on", "first_hit".into());
    }
    if window.backoff {
        set("backoff", true.into());
    }
}

/// Only the names of secrets are known here.
fn webhook(webhook: &Webhook, set: &mut impl FnMut(&str, Value)) {
    let reference = |key: &str| Value::from(format!("${{vault:{key}}}"));
    let scheme = match &webhook.scheme {
        Scheme::Standard => "standard".into(),
        Scheme::Github => "github".into(),
        Scheme::Custom {
            header,
            prefix,
            encoding,
            timestamp_header,
            signed,
        } => {
            let mut custom = json!({
                "header": header,
                "encoding": match encoding { Encoding::Hex => "hex", Encoding::Base64 => "base64" },
                "signed": match signed { Signed::Body => "body", Signed::TimestampBody => "timestamp.body" },
            });
            if let Some(prefix) = prefix {
                custom["prefix"] = prefix.as_str().into();
            }
            if let Some(header) = timestamp_header {
                custom["timestamp_header"] = header.as_str().into();
            }
            custom
        }
    };
    set("scheme", scheme);
    set("secret", reference(&webhook.secret));
    if let Some(key) = &webhook.secret_previous {
        set("secret_previous", reference(key));
    }
    set("tolerance", show_duration(webhook.tolerance).into());
    set("max_body", show_size(webhook.max_body).into());
    set("content_types", json!(webhook.content_types));
    if !webhook.filter.is_empty() {
        let conditions = webhook
            .filter
            .iter()
            .map(|condition| match &condition.test {
                Test::Equals(value) => json!({ "pointer": condition.pointer, "equals": value }),
                Test::Matches(pattern) => {
                    json!({ "pointer": condition.pointer, "matches": pattern })
                }
            });
        set("filter", conditions.collect());
    }
    if !webhook.pass_headers.is_empty() {
        set("pass_headers", json!(webhook.pass_headers));
    }
    set("rate", format!("{}/min", webhook.rate).into());
}
