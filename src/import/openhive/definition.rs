//! A converted trigger as the scheduler defines one.

use std::time::Duration;

use hivewright_actors::{
    ids::ChannelId,
    scheduler::{
        config::{Config, Listen, Schedule, Span, When, Window},
        trigger::{Definition, OverlapPolicy},
    },
};
use serde_json::{Map, Value};

use super::{settings::bare_channel, triggers::Trigger};
use crate::settings::units;

/// A tick comes after this, unless another time is given.
const TICK: Duration = Duration::from_secs(30);
/// A window closes after so many ticks, unless another number is given.
const TICKS: u32 = 1_000;

/// What the scheduler is told, and the first thing in it that could not be understood.
pub(super) fn of(trigger: &Trigger) -> (Definition, Option<String>) {
    let mut fields = Fields {
        rest: trigger.config.as_object().cloned().unwrap_or_default(),
        problem: None,
    };
    let config = match trigger.kind.as_str() {
        "schedule" => Config::Schedule(Schedule {
            when: When::Cron(fields.needed("cron")),
            timezone: fields.text("timezone"),
        }),
        "keyword" => Config::Keyword(fields.listen()),
        "message" => Config::Message(fields.listen()),
        _ => Config::Window(fields.window()),
    };
    let unknown = fields.rest.keys().next().cloned();
    let unknown = unknown.map(|key| format!("config.{key}: unknown field"));
    let mut definition = Definition::new(&trigger.name, config, &trigger.task);
    definition.subagent = trigger.subagent.clone();
    definition.max_steps = Some(trigger.max_steps);
    definition.failure_threshold = trigger.failure_threshold;
    definition.overlap_policy = match trigger.overlap_policy.as_str() {
        "always-skip" => OverlapPolicy::AlwaysSkip,
        "always-replace" => OverlapPolicy::AlwaysReplace,
        "allow" => OverlapPolicy::Allow,
        _ => OverlapPolicy::SkipThenReplace,
    };
    let channel = trigger.channel.as_deref();
    definition.notify_channel = channel.map(|id| ChannelId::from(bare_channel(id)));
    (definition, fields.problem.or(unknown))
}

/// What is left to be read of a configuration.
struct Fields {
    rest: Map<String, Value>,
    problem: Option<String>,
}

impl Fields {
    fn wrong(&mut self, key: &str, reason: &str) {
        self.problem
            .get_or_insert_with(|| format!("config.{key}: {reason}"));
    }

    fn text(&mut self, key: &str) -> Option<String> {
        match self.rest.remove(key) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                self.wrong(key, "expected text");
                None
            }
        }
    }

    fn needed(&mut self, key: &str) -> String {
        self.text(key).unwrap_or_else(|| {
            self.wrong(key, "is missing");
            String::new()
        })
    }

    fn number(&mut self, key: &str) -> Option<u64> {
        match self.rest.remove(key) {
            None | Some(Value::Null) => None,
            Some(value) => value.as_u64().or_else(|| {
                self.wrong(key, "expected a whole number");
                None
            }),
        }
    }

    fn duration(&mut self, key: &str) -> Option<Duration> {
        let text = self.text(key)?;
        let duration = units::duration(&text);
        if duration.is_none() {
            self.wrong(key, "expected a duration such as `30s`");
        }
        duration
    }

    fn texts(&mut self, key: &str) -> Vec<String> {
        match self.rest.remove(key) {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(items)) => items
                .into_iter()
                .filter_map(|item| item.as_str().map(str::to_owned))
                .collect(),
            Some(_) => {
                self.wrong(key, "expected a list");
                Vec::new()
            }
        }
    }

    fn listen(&mut self) -> Listen {
        let mut channels = self.texts("channel");
        channels.extend(self.texts("channels"));
        Listen {
            pattern: self.needed("pattern"),
            flags: self.text("flags"),
            channels: channels
                .iter()
                .map(|id| ChannelId::from(bare_channel(id)))
                .collect(),
            senders: self.texts("sender"),
        }
    }

    fn window(&mut self) -> Window {
        let span = match self.text("watch") {
            Some(watch) => Span::Watch(watch),
            None => Span::Lasting {
                open: self.needed("open"),
                duration: self.duration("duration").unwrap_or_default(),
            },
        };
        let ticks = self.number("max_ticks_per_window");
        Window {
            span,
            timezone: self.text("timezone"),
            tick_interval: self.duration("tick_interval").unwrap_or(TICK),
            max_ticks: ticks.map_or(TICKS, |ticks| u32::try_from(ticks).unwrap_or(u32::MAX)),
            max_tokens: self.number("max_tokens_per_window"),
            max_usd: None,
            stop_on_first_hit: false,
            backoff: false,
        }
    }
}
