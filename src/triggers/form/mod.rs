//! Forms: what people and models write about a trigger, and the definition it means.

use hivewright_actors::{
    clock::Timestamp,
    ids::{ChannelId, TopicId},
    scheduler::{
        calendar::Calendar,
        trigger::{Definition, MissedPolicy, NotifyPolicy, OverlapPolicy, Problem, Quiet, Trigger},
    },
    task::{Priority, Source, TopicRef},
};
use serde_json::{Map, Value};

mod config;
mod fields;
#[cfg(test)]
mod tests;

use fields::Fields;

use super::show;

/// What can be set beside `team`, `name`, `type` and `enable`.
pub(crate) const SETTABLE: [&str; 17] = [
    "allow_untrusted",
    "config",
    "cooldown",
    "deadline",
    "failure_threshold",
    "max_steps",
    "missed",
    "name",
    "notify",
    "notify_channel",
    "notify_topic",
    "overlap_policy",
    "priority",
    "quiet",
    "subagent",
    "task",
    "type",
];

const TYPES: [(&str, &str); 5] = [
    ("schedule", "schedule"),
    ("keyword", "keyword"),
    ("message", "message"),
    ("window", "window"),
    ("webhook", "webhook"),
];

/// Who fills in a form, and when.
pub struct Writer<'a> {
    /// Patterns and zones.
    pub calendar: &'a dyn Calendar,
    /// The zone of the settings.
    pub zone: String,
    /// The present.
    pub now: Timestamp,
    /// Where the turn that fills it in comes from.
    pub source: Option<&'a Source>,
    /// An operator may set more than a team.
    pub is_operator: bool,
}

impl Writer<'_> {
    /// A new definition.
    pub fn definition(&self, form: &Map<String, Value>) -> Result<Definition, Problem> {
        let fields = Fields::new(form, "", &SETTABLE)?;
        let name = fields.needed("name")?;
        let kind =
            fields.choice("type", &TYPES)?.ok_or_else(|| fields.problem("type", "is missing"))?;
        let config =
            fields.object("config")?.ok_or_else(|| fields.problem("config", "is missing"))?;
        let config = config::read(kind, config, self, None)?;
        let task = fields.needed("task")?;
        self.fill(Definition::new(name, config, task), &fields)
    }

    /// A trigger's definition with the fields of the form in place of its own. `config` is merged
    /// field by field; null clears.
    pub fn changed(
        &self,
        trigger: &Trigger,
        form: &Map<String, Value>,
    ) -> Result<Definition, Problem> {
        let fields = Fields::new(form, "", &SETTABLE)?;
        let mut definition = trigger.definition.clone();
        let kind = definition.config.type_name();
        if fields.choice("type", &TYPES)?.is_some_and(|new| new != kind) {
            let reason = format!("is `{kind}` and cannot change; create another trigger");
            return Err(fields.problem("type", reason));
        }
        if let Some(changes) = fields.object("config")? {
            let Value::Object(mut merged) = show::config(&definition.config) else {
                return Err(fields.problem("config", "expected an object"));
            };
            for (name, value) in changes {
                match value {
                    Value::Null => merged.remove(name),
                    value => merged.insert(name.clone(), value.clone()),
                };
            }
            definition.config = config::read(kind, &merged, self, Some(&definition.config))?;
        }
        if let Some(name) = fields.text("name")? {
            name.clone_into(&mut definition.name);
        }
        if let Some(task) = fields.text("task")? {
            task.clone_into(&mut definition.task);
        }
        self.fill(definition, &fields)
    }

    /// Sets what the form names, and leaves the rest.
    fn fill(&self, mut definition: Definition, fields: &Fields<'_>) -> Result<Definition, Problem> {
        let fresh = Definition::new("", definition.config.clone(), "");
        let named = |name: &str| fields.has(name);
        if named("subagent") {
            definition.subagent = fields.text("subagent")?.map(str::to_owned);
        }
        if named("max_steps") {
            definition.max_steps = fields.small("max_steps")?;
        }
        if named("priority") {
            let priority = fields.choice(
                "priority",
                &[("high", Priority::High), ("normal", Priority::Normal), ("low", Priority::Low)],
            )?;
            definition.priority = priority.unwrap_or(fresh.priority);
        }
        if named("deadline") {
            definition.deadline = fields.duration("deadline")?.unwrap_or(fresh.deadline);
        }
        if named("overlap_policy") {
            let policy = fields.choice(
                "overlap_policy",
                &[
                    ("skip-then-replace", OverlapPolicy::SkipThenReplace),
                    ("always-skip", OverlapPolicy::AlwaysSkip),
                    ("always-replace", OverlapPolicy::AlwaysReplace),
                    ("allow", OverlapPolicy::Allow),
                ],
            )?;
            definition.overlap_policy = policy.unwrap_or(fresh.overlap_policy);
        }
        if named("missed") {
            let missed = fields.choice(
                "missed",
                &[
                    ("skip", MissedPolicy::Skip),
                    ("once", MissedPolicy::Once),
                    ("all", MissedPolicy::All),
                ],
            )?;
            if missed.is_some() && definition.config.type_name() != "schedule" {
                return Err(fields.problem("missed", "is only for triggers of type `schedule`"));
            }
            definition.missed = missed.unwrap_or(fresh.missed);
        }
        if named("failure_threshold") {
            let threshold = fields.small("failure_threshold")?;
            definition.failure_threshold = threshold.unwrap_or(fresh.failure_threshold);
        }
        if named("cooldown") {
            definition.cooldown = fields.duration("cooldown")?.unwrap_or(fresh.cooldown);
        }
        if named("notify") {
            let notify = fields.choice(
                "notify",
                &[
                    ("auto", NotifyPolicy::Auto),
                    ("always", NotifyPolicy::Always),
                    ("on_failure", NotifyPolicy::OnFailure),
                    ("never", NotifyPolicy::Never),
                ],
            )?;
            definition.notify = notify.unwrap_or(fresh.notify);
        }
        self.fill_place(&mut definition, fields)?;
        if named("quiet") {
            definition.quiet = fields.object("quiet")?.map(quiet).transpose()?;
        }
        if let Some(allow) = fields.flag("allow_untrusted")? {
            if allow != definition.allow_untrusted && !self.is_operator {
                return Err(fields.problem("allow_untrusted", "can be set by operators only"));
            }
            definition.allow_untrusted = allow;
        }
        Ok(definition)
    }

    /// Where people are told. `source` is where the form comes from.
    fn fill_place(&self, definition: &mut Definition, fields: &Fields<'_>) -> Result<(), Problem> {
        if fields.has("notify_channel") {
            let channel = match fields.text("notify_channel")? {
                Some("source") => {
                    let source = self.source.ok_or_else(|| {
                        let reason = "`source` means nothing here: no conversation led to this; name a channel";
                        fields.problem("notify_channel", reason)
                    })?;
                    definition.notify_topic.clone_from(&source.topic);
                    Some(source.channel.clone())
                }
                Some("") => return Err(fields.problem("notify_channel", "is empty")),
                None => None,
                Some(channel) => Some(ChannelId::named(channel).ok_or_else(|| {
                    let reason = "expected 1 to 128 printable characters";
                    fields.problem("notify_channel", reason)
                })?),
            };
            if channel != definition.notify_channel && !fields.has("notify_topic") {
                let of_source =
                    self.source.filter(|source| Some(&source.channel) == channel.as_ref());
                definition.notify_topic = of_source.and_then(|source| source.topic.clone());
            }
            definition.notify_channel = channel;
        }
        if fields.has("notify_topic") {
            definition.notify_topic = match fields.text("notify_topic")? {
                Some("source") => self.source.and_then(|source| source.topic.clone()),
                topic => {
                    topic.map(|topic| TopicRef { id: TopicId::from(topic), name: topic.to_owned() })
                }
            };
        }
        Ok(())
    }
}

fn quiet(map: &Map<String, Value>) -> Result<Quiet, Problem> {
    let fields = Fields::new(map, "quiet", &["from", "to", "timezone"])?;
    let minute = |name| -> Result<u32, Problem> {
        let text = fields.needed(name)?;
        let parts = text.split_once(':').and_then(|(hour, minute)| {
            let two = |part: &str| (part.len() == 2).then(|| part.parse::<u32>().ok()).flatten();
            Some((two(hour)?, two(minute)?))
        });
        match parts {
            Some((hour, minute)) if hour < 24 && minute < 60 => Ok(hour * 60 + minute),
            _ => Err(fields.problem(name, "expected a time of day such as 22:30")),
        }
    };
    Ok(Quiet {
        from: minute("from")?,
        to: minute("to")?,
        timezone: fields.text("timezone")?.map(str::to_owned),
    })
}

/// A type and a config that are not a trigger's yet, for a look at what they would do.
pub fn sketch(
    writer: &Writer<'_>,
    kind: &str,
    config: &Map<String, Value>,
) -> Result<Definition, Problem> {
    let known = TYPES.iter().any(|(name, _)| *name == kind);
    if !known {
        let names: Vec<String> = TYPES.iter().map(|(name, _)| format!("`{name}`")).collect();
        let reason = format!("expected one of {}", names.join(", "));
        return Err(Problem::new("type", reason));
    }
    let config = config::read(kind, config, writer, None)?;
    Ok(Definition::new("preview", config, "preview"))
}
