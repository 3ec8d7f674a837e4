//! A converted trigger as the scheduler defines one.

use std::time::Duration;

use hivewright_actors::{
    ids::ChannelId,
    scheduler::{
        config::{Config, Listen, Schedule, Span, When, Window},
        trigger::{Definition, MissedPolicy, OverlapPolicy},
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
    let mut fields =
        Fields { rest: trigger.config.as_object().cloned().unwrap_or_default(), problem: None };
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
    // OpenHive made nothing up that fell into a time when it was off.
    definition.missed = MissedPolicy::Skip;
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
        self.problem.get_or_insert_with(|| format!("config.{key}: {reason}"));
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
            Some(Value::Array(items)) => {
                items.into_iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
            }
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
            channels: channels.iter().map(|id| ChannelId::from(bare_channel(id))).collect(),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn trigger(kind: &str, config: Value) -> Trigger {
        Trigger {
            name: "daily".into(),
            kind: kind.into(),
            config,
            task: "Look.".into(),
            subagent: Some("scout".into()),
            max_steps: 20,
            failure_threshold: 5,
            consecutive_failures: 0,
            overlap_policy: "always-replace".into(),
            state: "active".into(),
            disabled_reason: None,
            channel: Some("discord:7".into()),
            created_at: None,
            updated_at: None,
            changes: Vec::new(),
        }
    }

    /// OR-29
    #[test]
    fn every_type_means_here_what_it_meant_there() {
        let config = |kind, config| {
            let (definition, problem) = of(&trigger(kind, config));
            assert_eq!(problem, None);
            definition.config
        };

        assert_eq!(
            config("schedule", json!({"cron": "0 8 * * *", "timezone": "Europe/Berlin"})),
            Config::Schedule(Schedule {
                when: When::Cron("0 8 * * *".into()),
                timezone: Some("Europe/Berlin".into()),
            })
        );
        assert_eq!(
            config("message", json!({"pattern": "^hi", "channel": "discord:9"})),
            Config::Message(Listen {
                pattern: "^hi".into(),
                channels: vec!["9".into()],
                ..Listen::default()
            })
        );
        let window = json!({"watch": "* 9 * * *", "tick_interval": "1m", "max_ticks_per_window": 3,
            "max_tokens_per_window": 500});
        assert_eq!(
            config("window", window),
            Config::Window(Window {
                span: Span::Watch("* 9 * * *".into()),
                timezone: None,
                tick_interval: Duration::from_secs(60),
                max_ticks: 3,
                max_tokens: Some(500),
                max_usd: None,
                stop_on_first_hit: false,
                backoff: false,
            })
        );
    }

    #[test]
    fn what_stands_beside_the_configuration_is_kept() {
        let (definition, _) = of(&trigger("schedule", json!({"cron": "0 8 * * *"})));

        assert_eq!(definition.subagent.as_deref(), Some("scout"));
        assert_eq!(definition.max_steps, Some(20));
        assert_eq!(definition.failure_threshold, 5);
        assert_eq!(definition.missed, MissedPolicy::Skip);
        assert_eq!(definition.overlap_policy, OverlapPolicy::AlwaysReplace);
        assert_eq!(definition.notify_channel, Some("7".into()));
    }

    /// TR-02
    #[test]
    fn what_cannot_be_understood_is_named_by_its_field() {
        let problem = |kind, config| of(&trigger(kind, config)).1.unwrap_or_default();

        assert_eq!(problem("schedule", json!({})), "config.cron: is missing");
        assert_eq!(
            problem("keyword", json!({"pattern": "x", "volume": 11})),
            "config.volume: unknown field"
        );
        assert_eq!(
            problem("window", json!({"watch": "* 9 * * *", "tick_interval": 5})),
            "config.tick_interval: expected text"
        );
    }
}
