//! Triggers, as they are configured here.

use std::{collections::BTreeSet, time::Duration};

use hivewright_actors::clock::Timestamp;
use serde_json::{Map, Value, json};

use super::{moment::moment, names, rows::TriggerRow};
use crate::settings::units::show_duration;

/// The most ticks of a window.
const MOST_TICKS: u32 = 100_000;

/// A trigger to be made.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Trigger {
    pub(super) name: String,
    /// `schedule keyword message window`
    pub(super) kind: String,
    pub(super) config: Value,
    pub(super) task: String,
    pub(super) subagent: Option<String>,
    pub(super) max_steps: u32,
    pub(super) failure_threshold: u32,
    pub(super) consecutive_failures: u32,
    pub(super) overlap_policy: String,
    /// `pending active disabled`
    pub(super) state: String,
    pub(super) disabled_reason: Option<String>,
    pub(super) channel: Option<String>,
    pub(super) created_at: Option<Timestamp>,
    pub(super) updated_at: Option<Timestamp>,
    pub(super) changes: Vec<String>,
}

/// Work on itself that every team of OpenHive is given, and that is a setting here.
pub(super) fn is_cycle(name: &str) -> bool {
    ["learning-cycle", "reflection-cycle"].iter().any(|cycle| {
        name.strip_prefix(cycle).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// Converts a trigger. `taken` are names that the team has used. An error is why it cannot be made at
/// all; what is only wrong in itself becomes `disabled`.
pub(super) fn convert(row: &TriggerRow, taken: &BTreeSet<String>) -> Result<Trigger, String> {
    if !matches!(row.kind.as_str(), "schedule" | "keyword" | "message" | "window") {
        return Err(format!("there is no trigger of the type `{}`", row.kind));
    }
    let config: Value = serde_json::from_str(&row.config)
        .map_err(|error| format!("its `config` is not JSON: {error}"))?;
    let Value::Object(config) = config else {
        return Err("its `config` is not an object".into());
    };
    let mut trigger = Trigger {
        name: names::trigger(&row.name, taken),
        kind: row.kind.clone(),
        config: Value::Null,
        task: row.task.clone(),
        subagent: row.subagent.clone().filter(|name| !name.is_empty()),
        max_steps: row.max_steps.clamp(1, 500) as u32,
        failure_threshold: row.failure_threshold.clamp(1, 100) as u32,
        consecutive_failures: row.consecutive_failures.clamp(0, 100) as u32,
        overlap_policy: row.overlap_policy.clone(),
        state: row.state.clone(),
        disabled_reason: row.disabled_reason.clone(),
        channel: row.channel.clone().filter(|id| !id.is_empty()),
        created_at: moment(&row.created_at),
        updated_at: moment(&row.updated_at),
        changes: Vec::new(),
    };
    if trigger.name != row.name {
        let change = format!("it is called `{}`", trigger.name);
        trigger.changes.push(change);
    }
    if let Some(skill) = row.skill.as_deref().filter(|name| !name.is_empty()) {
        trigger.skill(skill);
    }
    if i64::from(trigger.max_steps) != row.max_steps {
        let change = format!("`max_steps` is {}", trigger.max_steps);
        trigger.changes.push(change);
    }
    let config = match row.kind.as_str() {
        "window" => trigger.window(config),
        "keyword" => trigger.pattern(config),
        _ => config,
    };
    trigger.config = Value::Object(config);
    if !matches!(trigger.state.as_str(), "pending" | "active" | "disabled") {
        trigger.disable(format!("its state `{}` is not known", row.state));
    }
    let policies = ["skip-then-replace", "always-skip", "always-replace", "allow"];
    if !policies.contains(&trigger.overlap_policy.as_str()) {
        let change = format!("`overlap_policy` was `{}`, which is not known", row.overlap_policy);
        trigger.changes.push(change);
        trigger.overlap_policy = "skip-then-replace".into();
    }
    Ok(trigger)
}

impl Trigger {
    /// It is taken, and does not fire until someone looked at it.
    pub(super) fn disable(&mut self, reason: String) {
        self.changes.push(format!("disabled: {reason}"));
        self.state = "disabled".into();
        self.disabled_reason = Some(reason);
    }

    /// A subagent chooses its skills itself, so a skill beside one was not used.
    fn skill(&mut self, skill: &str) {
        if self.subagent.is_some() {
            let change = format!("`skill: {skill}` is dropped, the subagent's skills count");
            self.changes.push(change);
            return;
        }
        self.task = format!("{}\n\nUse the skill `{skill}`.", self.task);
        let change = format!("`skill: {skill}` is said in the task");
        self.changes.push(change);
    }

    fn window(&mut self, config: Map<String, Value>) -> Map<String, Value> {
        let mut window = Map::new();
        for (key, value) in config {
            match key.as_str() {
                "watch_window" => {
                    self.changes.push("`watch_window` becomes `watch`".into());
                    window.insert("watch".into(), value);
                }
                "tick_interval_ms" => {
                    let change = "`tick_interval_ms` becomes `tick_interval`";
                    self.changes.push(change.into());
                    let interval = value
                        .as_u64()
                        .map_or(value, |ms| json!(show_duration(Duration::from_millis(ms))));
                    window.insert("tick_interval".into(), interval);
                }
                "overlap_policy" => {
                    if let Some(policy) = value.as_str() {
                        policy.clone_into(&mut self.overlap_policy);
                    }
                    let change = "`config.overlap_policy` becomes `overlap_policy`";
                    self.changes.push(change.into());
                }
                _ => {
                    window.insert(key, value);
                }
            }
        }
        if window.get("watch").is_none_or(|watch| watch == "* * * * *") {
            // It was open all the time, and here every window closes.
            window.remove("watch");
            window.insert("open".into(), json!("0 0 * * *"));
            window.insert("duration".into(), json!("1d"));
            let change = "it was always open, and is one window a day now";
            self.changes.push(change.into());
        }
        if !window.contains_key("max_ticks_per_window") {
            window.insert("max_ticks_per_window".into(), json!(MOST_TICKS));
            let change =
                format!("`max_ticks_per_window` is {MOST_TICKS}, since there was no limit");
            self.changes.push(change);
        }
        window
    }

    /// `/expression/flags` without the flags that say how to search rather than what for.
    fn pattern(&mut self, mut config: Map<String, Value>) -> Map<String, Value> {
        let Some(Value::String(pattern)) = config.get("pattern") else {
            return config;
        };
        let parts = pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
        if let Some((body, flags)) = parts {
            let kept: String = flags.chars().filter(|flag| !"guy".contains(*flag)).collect();
            if kept != flags {
                let change = format!("flags `{flags}` of the expression become `{kept}`");
                self.changes.push(change);
                let pattern = format!("/{body}/{kept}");
                config.insert("pattern".into(), pattern.into());
            }
        }
        config
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn row(kind: &str, config: Value) -> TriggerRow {
        TriggerRow {
            id: 1,
            team: "research".into(),
            name: "daily".into(),
            kind: kind.into(),
            config: config.to_string(),
            task: "Look around.".into(),
            skill: None,
            subagent: None,
            state: "active".into(),
            max_steps: 100,
            failure_threshold: 3,
            consecutive_failures: 1,
            disabled_reason: None,
            channel: Some("ws:1".into()),
            overlap_policy: "always-skip".into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
            updated_at: "2026-01-01T00:00:00.000Z".into(),
        }
    }

    fn converted(row: &TriggerRow) -> Trigger {
        convert(row, &BTreeSet::new()).unwrap()
    }

    /// OR-29
    #[test]
    fn the_fields_of_a_window_are_renamed() {
        let config = json!({"watch_window": "* 9 * * *", "tick_interval_ms": 90000,
            "max_ticks_per_window": 5, "overlap_policy": "allow"});

        let found = converted(&row("window", config));

        let expected =
            json!({"watch": "* 9 * * *", "tick_interval": "90s", "max_ticks_per_window": 5});
        assert_eq!(found.config, expected);
        assert_eq!(found.overlap_policy, "allow");
        let always = converted(&row("window", json!({"tick_interval_ms": 120000})));
        assert_eq!(
            always.config,
            json!({"open": "0 0 * * *", "duration": "1d", "tick_interval": "2m",
                "max_ticks_per_window": 100_000})
        );
    }

    /// OR-29
    #[test]
    fn flags_that_mean_nothing_here_go() {
        let pattern = |text: &str| converted(&row("keyword", json!({"pattern": text}))).config;

        assert_eq!(pattern("/deploy/giu"), json!({"pattern": "/deploy/i"}));
        assert_eq!(pattern("/a\\/b/s"), json!({"pattern": "/a\\/b/s"}));
        assert_eq!(pattern("deploy/gu"), json!({"pattern": "deploy/gu"}));
    }

    #[test]
    fn a_skill_is_asked_for_in_words() {
        let mut alone = row("schedule", json!({"cron": "0 8 * * *"}));
        alone.skill = Some("report".into());
        let mut beside = alone.clone();
        beside.subagent = Some("scout".into());

        assert_eq!(converted(&alone).task, "Look around.\n\nUse the skill `report`.");
        assert_eq!(converted(&beside).task, "Look around.");
    }

    #[test]
    fn what_cannot_be_a_trigger_says_why() {
        let refused = |row: &TriggerRow| convert(row, &BTreeSet::new()).unwrap_err();
        let mut broken = row("schedule", Value::Null);

        assert!(refused(&row("webhook", json!({}))).contains("`webhook`"));
        assert!(refused(&broken).contains("not an object"));
        broken.config = "{".into();
        assert!(refused(&broken).contains("not JSON"));
    }

    #[test]
    fn cycles_are_told_from_triggers_that_only_sound_alike() {
        assert!(is_cycle("learning-cycle") && is_cycle("reflection-cycle-scout"));
        assert!(!is_cycle("learning-cycles") && !is_cycle("my-learning-cycle"));
    }
}
