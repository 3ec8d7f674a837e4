//! Triggers, as they are configured here.

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

use hivewright_actors::{
    clock::Timestamp,
    ids::ChannelId,
    scheduler::{
        manage::MAX_TRIGGERS_PER_TEAM,
        trigger::{
            State, Trigger,
            definition::{Definition, MissedPolicy, OverlapPolicy},
            limits,
            validation::Problems,
        },
    },
    store::records::Writes,
    task::STEPS,
    text::{Span, quoted},
};
use serde_json::{Map, Value, json};

use super::{
    IMPORT,
    moment::moment,
    names,
    plan::{Artifact, Conversion, Planner, Refusal, Team},
    report::Kind,
    schema::row,
    settings::bare_channel,
};
use crate::triggers::{calendar::Zones, form::Writer};

pub(super) const KIND: Kind = Kind::listed("trigger");

row! {
    TriggerRow in "trigger_configs" by "id" known by id of team {
        id: i64,
        team: String,
        name: String,
        kind: String as "type",
        config: String,
        task: String,
        skill: Option<String> = "NULL",
        subagent: Option<String> = "NULL",
        state: String,
        max_steps: i64 as "max_steps" or "max_turns" = "100",
        failure_threshold: i64,
        consecutive_failures: i64,
        disabled_reason: Option<String>,
        channel: Option<String> as "source_channel_id" = "NULL",
        overlap_policy: String = "'skip-then-replace'",
        created_at: String,
        updated_at: String,
    }
    later ["overlap_count", "active_task_id"]
}

/// A trigger to be made, as people here write one.
#[derive(Clone, Debug, PartialEq)]
struct Draft {
    form: Map<String, Value>,
    /// Where people hear of its runs.
    channel: Option<ChannelId>,
    state: State,
    disabled_reason: Option<String>,
    changes: Vec<String>,
}

pub(super) fn plan(planner: &mut Planner<'_>, team: &Team<'_>) {
    let mut names = BTreeSet::new();
    for row in planner.found.tables.of::<TriggerRow>().iter().filter(|row| row.team == team.former)
    {
        let conversion = convert_one(planner, team, row, &mut names);
        planner.take(KIND, Some(team.former), &row.name, row.mark(), conversion);
    }
}

/// `names` are those that the team has used.
fn convert_one(
    planner: &Planner<'_>,
    team: &Team<'_>,
    row: &TriggerRow,
    names: &mut BTreeSet<String>,
) -> Conversion {
    if is_cycle(&row.name) {
        return Err(Refusal::intended("`learning: true` in the team's file does this here"));
    }
    let mut draft = convert(row, names)?;
    if names.len() >= MAX_TRIGGERS_PER_TEAM && !planner.target.has(&row.mark()) {
        return Err(format!("a team has at most {MAX_TRIGGERS_PER_TEAM} triggers").into());
    }
    names.insert(draft.name().to_owned());
    if let Some(Value::String(task)) = draft.form.get_mut("task") {
        planner.redactor.clean(task, &mut draft.changes);
    }
    let definition = draft.check(row, planner, team)?;
    let stored = draft.stored(row, definition, planner, team);
    Ok((Artifact::row(&stored.id, Writes::new().put(&stored)), draft.changes))
}

/// The number of a range that is nearest.
fn clamp(number: i64, range: &RangeInclusive<u32>) -> i64 {
    number.clamp((*range.start()).into(), (*range.end()).into())
}

/// Work on itself that every team of OpenHive is given, and that is a setting here.
fn is_cycle(name: &str) -> bool {
    ["learning-cycle", "reflection-cycle"].iter().any(|cycle| {
        name.strip_prefix(cycle).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    })
}

/// Converts a trigger. `taken` are names that the team has used. An error is why it cannot be made at
/// all; what is only wrong in itself becomes `disabled`.
fn convert(row: &TriggerRow, taken: &BTreeSet<String>) -> Result<Draft, String> {
    if !matches!(row.kind.as_str(), "schedule" | "keyword" | "message" | "window") {
        return Err(format!("there is no trigger of the type `{}`", row.kind));
    }
    let config: Value = serde_json::from_str(&row.config)
        .map_err(|error| format!("its `config` is not JSON: {error}"))?;
    let Value::Object(config) = config else {
        return Err("its `config` is not an object".into());
    };
    let channel = row.channel.as_deref().filter(|id| !id.is_empty());
    let mut draft = Draft {
        form: Map::new(),
        channel: channel.map(|id| ChannelId::from(bare_channel(id))),
        state: State::Disabled,
        disabled_reason: row.disabled_reason.clone(),
        changes: Vec::new(),
    };
    let name = names::trigger(&row.name, taken);
    if name != row.name {
        draft.change(format!("it is called `{name}`"));
    }
    let subagent = row.subagent.as_ref().filter(|name| !name.is_empty());
    let task = draft.task(row, subagent.is_some());
    let max_steps = clamp(row.max_steps, &STEPS);
    if max_steps != row.max_steps {
        draft.change(format!("`max_steps` is {max_steps}"));
    }
    let mut overlap_policy = row.overlap_policy.clone();
    let config = match row.kind.as_str() {
        "window" => draft.window(config, &mut overlap_policy),
        "schedule" => config,
        kind => draft.listen(kind, config),
    };
    match row.state.as_str() {
        "active" => draft.state = State::Active,
        "pending" => draft.state = State::Pending,
        "disabled" => {}
        state => draft.disable(format!("its state `{state}` is not known")),
    }
    if overlap_policy.parse::<OverlapPolicy>().is_err() {
        draft.change(format!("`overlap_policy` was `{}`, which is not known", row.overlap_policy));
        overlap_policy = OverlapPolicy::SkipThenReplace.to_string();
    }
    let form = json!({
        "name": name,
        "type": row.kind,
        "config": config,
        "task": task,
        "subagent": subagent,
        "max_steps": max_steps,
        "failure_threshold": clamp(row.failure_threshold, &limits::FAILURES),
        "overlap_policy": overlap_policy,
    });
    if let Value::Object(form) = form {
        draft.form = form;
    }
    Ok(draft)
}

impl Draft {
    fn change(&mut self, change: impl Into<String>) {
        self.changes.push(change.into());
    }

    /// It is taken, and does not fire until someone looked at it.
    fn disable(&mut self, reason: String) {
        self.change(format!("disabled: {reason}"));
        self.state = State::Disabled;
        self.disabled_reason = Some(reason);
    }

    fn name(&self) -> &str {
        self.form.get("name").and_then(Value::as_str).unwrap_or_default()
    }

    /// What is asked. A subagent chooses its skills itself, so a skill beside one was not used.
    fn task(&mut self, row: &TriggerRow, has_subagent: bool) -> String {
        let Some(skill) = row.skill.as_deref().filter(|name| !name.is_empty()) else {
            return row.task.clone();
        };
        if has_subagent {
            self.change(format!("`skill: {skill}` is dropped, the subagent's skills count"));
            return row.task.clone();
        }
        self.change(format!("`skill: {skill}` is said in the task"));
        format!("{}\n\nUse the skill `{skill}`.", row.task)
    }

    fn window(
        &mut self,
        config: Map<String, Value>,
        overlap_policy: &mut String,
    ) -> Map<String, Value> {
        let mut window = Map::new();
        for (key, value) in config {
            match key.as_str() {
                "watch_window" => {
                    self.change("`watch_window` becomes `watch`");
                    window.insert("watch".into(), value);
                }
                "tick_interval_ms" => {
                    self.change("`tick_interval_ms` becomes `tick_interval`");
                    let interval =
                        value.as_u64().map_or(value, |ms| json!(Span(Duration::from_millis(ms))));
                    window.insert("tick_interval".into(), interval);
                }
                "overlap_policy" => {
                    self.change("`config.overlap_policy` becomes `overlap_policy`");
                    if let Some(policy) = value.as_str() {
                        policy.clone_into(overlap_policy);
                    }
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
            self.change("it was always open, and is one window a day now");
        }
        if !window.contains_key("max_ticks_per_window") {
            window.insert("max_ticks_per_window".into(), json!(limits::TICKS.end()));
            let most = limits::TICKS.end();
            self.change(format!("`max_ticks_per_window` is {most}, since there was no limit"));
        }
        window
    }

    fn listen(&mut self, kind: &str, mut config: Map<String, Value>) -> Map<String, Value> {
        let channels: Vec<Value> = ["channel", "channels"]
            .iter()
            .filter_map(|key| config.remove(*key))
            .flat_map(|value| match value {
                Value::Array(ids) => ids,
                id => vec![id],
            })
            .filter_map(|id| Some(json!(bare_channel(id.as_str()?))))
            .collect();
        if !channels.is_empty() {
            config.insert("channels".into(), channels.into());
        }
        if kind == "keyword" {
            self.pattern(&mut config);
        }
        config
    }

    /// `/expression/flags` without the flags that say how to search rather than what for.
    fn pattern(&mut self, config: &mut Map<String, Value>) {
        let pattern = config.get("pattern").and_then(Value::as_str).unwrap_or_default();
        let parts = pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'));
        let Some((body, flags)) = parts else {
            return;
        };
        let kept: String = flags.chars().filter(|flag| !"guy".contains(*flag)).collect();
        if kept != flags {
            self.change(format!("flags `{flags}` of the expression become `{kept}`"));
            let pattern = format!("/{body}/{kept}");
            config.insert("pattern".into(), pattern.into());
        }
    }

    /// What the scheduler is told, and what of the form could not be understood.
    ///
    /// What its reader refuses is taken out, so that a trigger can be looked at and mended.
    fn definition(
        &self,
        zone: &str,
        now: Timestamp,
    ) -> Result<(Definition, Option<Problems>), Problems> {
        let mut form = self.form.clone();
        let writer = Writer {
            calendar: &Zones,
            zone: zone.to_owned(),
            now,
            source: None,
            is_operator: true,
        };
        let mut first = None;
        let mut definition = loop {
            let problems = match writer.definition(&form) {
                Ok(definition) => break definition,
                Err(problems) => problems,
            };
            let Some(Value::Object(config)) = form.get_mut("config") else {
                return Err(problems);
            };
            let fields = problems.0.iter().filter_map(|one| one.field.strip_prefix("config."));
            let refused = fields.filter_map(|field| config.remove(field)).count();
            first.get_or_insert(problems);
            if refused == 0 {
                // Something is missing, or does not go together: the least that makes a trigger stays.
                let least = config.remove(self.needed()).unwrap_or_else(|| json!(""));
                *config = Map::from_iter([(self.needed().to_owned(), least)]);
                break writer.definition(&form)?;
            }
        };
        // OpenHive made nothing up that fell into a time when it was off.
        definition.missed = definition.missed.map(|_| MissedPolicy::Skip);
        definition.notify_channel.clone_from(&self.channel);
        Ok((definition, first))
    }

    /// The field of `config` that no trigger of the type can do without.
    fn needed(&self) -> &'static str {
        match self.form.get("type").and_then(Value::as_str) {
            Some("schedule") => "cron",
            Some("window") => "watch",
            _ => "pattern",
        }
    }

    /// What the scheduler is told. Without its subagent, or with something wrong in it, the trigger is
    /// disabled.
    fn check(
        &mut self,
        row: &TriggerRow,
        planner: &Planner<'_>,
        team: &Team<'_>,
    ) -> Result<Definition, String> {
        let (definition, problems) = self
            .definition(&planner.target.zone, planner.target.now)
            .map_err(|problems| problems.to_string())?;
        let subagents = team.folder.map(|folder| &folder.subagents);
        let skills = match &definition.subagent {
            Some(name) => match subagents.and_then(|subagents| subagents.get(name)) {
                Some(skills) => skills.clone(),
                None => {
                    self.disable(format!("the team has no subagent `{name}`"));
                    return Ok(definition);
                }
            },
            None => row.skill.iter().cloned().collect(),
        };
        let tools: BTreeSet<&String> =
            skills.iter().filter_map(|skill| team.broken_skills.get(skill)).flatten().collect();
        if !tools.is_empty() {
            let tools = quoted(tools);
            self.change(format!("it needs {tools}, which must be registered anew"));
        }
        if let Err(problems) = problems.map_or_else(|| planner.checks.trigger(&definition), Err) {
            self.disable(problems.to_string());
        }
        Ok(definition)
    }

    fn stored(
        &self,
        row: &TriggerRow,
        definition: Definition,
        planner: &Planner<'_>,
        team: &Team<'_>,
    ) -> Trigger {
        let now = planner.target.now;
        let id = planner.ids.trigger();
        let mut trigger = Trigger::new(id, team.key.clone(), definition, IMPORT, now);
        match self.state {
            State::Active => {
                trigger.enable(now);
                trigger.consecutive_failures = row.consecutive_failures.clamp(0, 100) as u32;
            }
            State::Pending => {}
            _ => trigger.disable(self.disabled_reason.as_deref().unwrap_or("disabled in OpenHive")),
        }
        trigger.created_at = moment(&row.created_at).unwrap_or(now);
        trigger.updated_at = moment(&row.updated_at).unwrap_or(now);
        trigger
    }
}

#[cfg(test)]
mod tests {
    use hivewright_actors::scheduler::trigger::config::{Config, Listen, Schedule, Window};

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

    fn converted(row: &TriggerRow) -> Draft {
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
        assert_eq!(found.form["config"], expected);
        assert_eq!(found.form["overlap_policy"], "allow");
        let always = converted(&row("window", json!({"tick_interval_ms": 120000})));
        assert_eq!(
            always.form["config"],
            json!({"open": "0 0 * * *", "duration": "1d", "tick_interval": "2m",
                "max_ticks_per_window": 100_000})
        );
    }

    /// OR-29
    #[test]
    fn flags_that_mean_nothing_here_go() {
        let pattern = |text: &str| {
            converted(&row("keyword", json!({"pattern": text}))).form["config"].clone()
        };

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

        assert_eq!(converted(&alone).form["task"], "Look around.\n\nUse the skill `report`.");
        assert_eq!(converted(&beside).form["task"], "Look around.");
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

    fn read(kind: &str, config: Value) -> (Definition, Option<String>) {
        let row = TriggerRow {
            subagent: Some("scout".into()),
            max_steps: 20,
            failure_threshold: 5,
            overlap_policy: "always-replace".into(),
            channel: Some("discord:7".into()),
            ..row(kind, config)
        };
        let (definition, problem) = converted(&row).definition("UTC", Timestamp(1)).unwrap();
        (definition, problem.map(|problem| problem.to_string()))
    }

    /// OR-29
    #[test]
    fn every_type_means_here_what_it_meant_there() {
        let config = |kind, config| {
            let (definition, problem) = read(kind, config);
            assert_eq!(problem, None);
            definition.config
        };

        assert_eq!(
            config("schedule", json!({"cron": "0 8 * * *", "timezone": "Europe/Berlin"})),
            Config::Schedule(Schedule {
                timezone: Some("Europe/Berlin".into()),
                ..Schedule::cron("0 8 * * *")
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
                watch: Some("* 9 * * *".into()),
                tick_interval: Span(Duration::from_secs(60)),
                max_ticks: 3,
                max_tokens: Some(500),
                ..Window::default()
            })
        );
    }

    #[test]
    fn what_stands_beside_the_configuration_is_kept() {
        let (definition, _) = read("schedule", json!({"cron": "0 8 * * *"}));

        assert_eq!(definition.subagent.as_deref(), Some("scout"));
        assert_eq!(definition.max_steps, Some(20));
        assert_eq!(definition.failure_threshold, 5);
        assert_eq!(definition.missed, Some(MissedPolicy::Skip));
        assert_eq!(definition.overlap_policy, OverlapPolicy::AlwaysReplace);
        assert_eq!(definition.notify_channel, Some("7".into()));
    }

    /// TR-02
    #[test]
    fn what_cannot_be_understood_is_named_by_its_field() {
        let problem = |kind, config| read(kind, config).1.unwrap_or_default();

        assert_eq!(
            problem("schedule", json!({})),
            "config: needs exactly one of `cron`, `at` and `every`"
        );
        assert_eq!(
            problem("keyword", json!({"channel": "ws:1"})),
            "config: missing field `pattern`"
        );
        assert_eq!(
            problem("keyword", json!({"pattern": "x", "volume": 11})),
            "config.volume: unknown field; there are `channel`, `channels`, `flags`, `pattern`, `sender`"
        );
        assert_eq!(
            problem("window", json!({"watch": "* 9 * * *", "tick_interval": 5})),
            "config.tick_interval: expected a duration from 5s to 1d"
        );
    }

    #[test]
    fn what_is_understood_stays_beside_what_is_not() {
        let (definition, problem) =
            read("message", json!({"pattern": "^hi", "flags": 5, "sender": "ann"}));

        assert_eq!(problem.as_deref(), Some("config.flags: expected text"));
        let listen =
            Listen { pattern: "^hi".into(), senders: vec!["ann".into()], ..Listen::default() };
        assert_eq!(definition.config, Config::Message(listen));
    }
}
