//! What is shown of triggers and runs, to people and to models.

use hivewright_actors::scheduler::{
    config::{Config, Encoding, Listen, Scheme, Signed, Span, Test, Webhook, When, Window},
    manage::Listed,
    run::{Notified, Run},
    trigger::{Definition, Trigger},
};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{
    settings::units::{show_duration, show_size},
    time::date,
};

/// A trigger as people and models see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Trigger")]
pub struct Shown {
    id: String,
    team: String,
    name: String,
    r#type: &'static str,
    /// What makes it fire, as a form writes it: the fields depend on `type`.
    #[schemars(with = "Map<String, Value>")]
    config: Value,
    task: String,
    subagent: Option<String>,
    max_steps: Option<u32>,
    priority: Value,
    deadline: String,
    overlap_policy: Value,
    failure_threshold: u32,
    cooldown: String,
    notify: Value,
    notify_channel: Option<String>,
    notify_topic: Option<String>,
    quiet: Option<QuietHours>,
    allow_untrusted: bool,
    /// Whether it fires.
    pub state: Value,
    disabled_reason: Option<String>,
    consecutive_failures: u32,
    overlap_count: u32,
    active_task_id: Option<String>,
    cursor_at: Option<String>,
    /// When it fires next.
    pub next_due_at: Option<String>,
    last_fired_at: Option<String>,
    #[schemars(with = "Map<String, Value>")]
    cursors: Value,
    revision: u64,
    created_by: String,
    created_at: Option<String>,
    updated_at: Option<String>,
    /// Of a schedule: what becomes of times at which nothing ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<Value>,
    /// Of a window: the present one.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Option<ShownWindow>>,
    /// Of a webhook: where it is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Its newest run, in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run: Option<Option<ShownRun>>,
    /// The next times in its own zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Vec<String>>,
}

/// When nobody is told.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TriggerQuiet")]
struct QuietHours {
    from: String,
    to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
}

/// A window that is open, or was last.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TriggerWindow")]
struct ShownWindow {
    state: Value,
    opened_at: Option<String>,
    closes_at: Option<String>,
    ticks: u64,
    noops: u64,
    tokens: u64,
    cost_usd: f64,
    reason: Value,
}

/// A row of the history of a trigger.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "TriggerRun")]
pub struct ShownRun {
    id: String,
    trigger: String,
    /// What made it fire.
    cause: &'static str,
    due_at: Option<String>,
    fired_at: Option<String>,
    /// What it led to.
    decision: &'static str,
    task_id: Option<String>,
    outcome: Option<&'static str>,
    reason: Option<String>,
    duration_ms: Option<u64>,
    tokens: u64,
    cost_usd: Option<f64>,
    notify: ShownNotice,
    /// How many times of the schedule the row stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Map<String, Value>>")]
    cursors: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_bytes: Option<u64>,
    /// The run of the same request before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<String>,
}

/// Whether anyone was told.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(rename = "TriggerNotice")]
struct ShownNotice {
    notified: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<Option<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inbox: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<bool>,
}

/// A word of an enumeration.
fn word(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// All fields of a trigger.
pub fn trigger(trigger: &Trigger) -> Shown {
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
    let window = || {
        trigger.occurrence.as_ref().map(|window| ShownWindow {
            state: word(&window.phase),
            opened_at: date(window.opened_at),
            closes_at: date(window.closes_at),
            ticks: window.ticks.into(),
            noops: window.noops.into(),
            tokens: window.tokens,
            cost_usd: window.usd,
            reason: word(&window.reason),
        })
    };
    Shown {
        id: trigger.id.to_string(),
        team: trigger.team.name.to_string(),
        name: name.clone(),
        r#type: settings.type_name(),
        config: config(settings),
        task: task.clone(),
        subagent: subagent.clone(),
        max_steps: *max_steps,
        priority: word(priority),
        deadline: show_duration(*deadline),
        overlap_policy: word(overlap_policy),
        failure_threshold: *failure_threshold,
        cooldown: show_duration(*cooldown),
        notify: word(notify),
        notify_channel: notify_channel.as_ref().map(ToString::to_string),
        notify_topic: notify_topic.as_ref().map(|topic| topic.id.to_string()),
        quiet: quiet.as_ref().map(|quiet| QuietHours {
            from: clock(quiet.from),
            to: clock(quiet.to),
            timezone: quiet.timezone.clone(),
        }),
        allow_untrusted: *allow_untrusted,
        state: word(&trigger.state),
        disabled_reason: trigger.disabled_reason.clone(),
        consecutive_failures: trigger.consecutive_failures,
        overlap_count: trigger.overlap_count,
        active_task_id: trigger.active_task_id.as_ref().map(ToString::to_string),
        cursor_at: trigger.cursor_at.and_then(date),
        next_due_at: trigger.next_due_at.and_then(date),
        last_fired_at: trigger.last_fired_at.and_then(date),
        cursors: word(&trigger.cursors),
        revision: trigger.revision,
        created_by: trigger.created_by.clone(),
        created_at: date(trigger.created_at),
        updated_at: date(trigger.updated_at),
        missed: matches!(settings, Config::Schedule(_)).then(|| word(missed)),
        window: matches!(settings, Config::Window(_)).then(window),
        path: matches!(settings, Config::Webhook(_))
            .then(|| format!("/hooks/{}/{name}", trigger.team.name)),
        last_run: None,
        next_due: None,
    }
}

/// A trigger with its newest run.
pub fn listed(listed: &Listed) -> Shown {
    Shown { last_run: Some(listed.last_run.as_ref().map(run)), ..trigger(&listed.trigger) }
}

/// A row of the history.
pub fn run(run: &Run) -> ShownRun {
    let notify = match &run.notified {
        Notified::Nobody => ShownNotice::default(),
        Notified::Channel { channel } => ShownNotice {
            notified: true,
            channel: Some(Some(channel.to_string())),
            ..ShownNotice::default()
        },
        Notified::Inbox => ShownNotice {
            notified: true,
            channel: Some(None),
            inbox: Some(true),
            ..ShownNotice::default()
        },
        Notified::Later => ShownNotice { held: Some(true), ..ShownNotice::default() },
    };
    ShownRun {
        id: run.id.to_string(),
        trigger: run.trigger.to_string(),
        cause: run.cause.as_str(),
        due_at: date(run.due_at),
        fired_at: date(run.fired_at),
        decision: run.decision.as_str(),
        task_id: run.task_id.as_ref().map(ToString::to_string),
        outcome: run.outcome.map(|outcome| outcome.as_str()),
        reason: run.reason.clone(),
        duration_ms: run.duration_ms,
        tokens: run.tokens,
        cost_usd: run.cost_usd,
        notify,
        count: run.count,
        cursors: (!run.cursors.is_empty()).then(|| json!(run.cursors)),
        payload_bytes: run.payload_bytes,
        duplicate_of: None,
    }
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
            let Listen { pattern, flags, channels, senders } = listen;
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
        Scheme::Custom { header, prefix, encoding, timestamp_header, signed } => {
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
        let conditions = webhook.filter.iter().map(|condition| match &condition.test {
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
