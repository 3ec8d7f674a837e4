//! Forms: what people and models write about a trigger becomes its definition.

use std::time::Duration;

use hivewright_actors::{
    clock::Timestamp,
    ids::ChannelId,
    scheduler::{
        ports::Calendar,
        trigger::{
            Trigger,
            config::{Config, Schedule, TriggerType},
            definition::{Definition, OverlapPolicy},
            validation::{Problem, Problems},
            webhook::Webhook,
        },
    },
    task::Source,
};
use serde_json::{Map, Value};

use crate::api::{
    check,
    trigger_form::{DEFINITIONS, config_in_words},
};

/// A former secret of a webhook is good for this long.
const ROTATION: Duration = Duration::from_secs(24 * 60 * 60);
/// Stands for where the turn that fills in a form comes from.
const SOURCE: &str = "source";

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
    pub fn definition(&self, form: &Map<String, Value>) -> Result<Definition, Problems> {
        self.read(Map::new(), form, None)
    }

    /// A trigger's definition with the fields of the form in place of its own. `config` is merged
    /// field by field; null clears.
    pub fn changed(
        &self,
        trigger: &Trigger,
        form: &Map<String, Value>,
    ) -> Result<Definition, Problems> {
        let old = &trigger.definition;
        let kind = old.kind();
        if form.get("type").and_then(Value::as_str).is_some_and(|new| new != kind.as_str()) {
            let reason = format!("is `{kind}` and cannot change; create another trigger");
            return Err(Problem::new("type", reason).into());
        }
        let fields = serde_json::to_value(old).and_then(serde_json::from_value);
        self.read(fields.unwrap_or_default(), form, Some(old))
    }

    fn read(
        &self,
        mut fields: Map<String, Value>,
        form: &Map<String, Value>,
        old: Option<&Definition>,
    ) -> Result<Definition, Problems> {
        merge(&mut fields, form);
        let kind = fields.get("type").and_then(Value::as_str).and_then(|kind| kind.parse().ok());
        if let Some(kind) = kind {
            let usual = OverlapPolicy::usual(kind);
            fields.entry("overlap_policy").or_insert_with(|| usual.as_str().into());
        }
        let read = DEFINITIONS.json(Value::Object(fields)).map_err(problems);
        let definition = read.map_err(|found| self.with_words(kind, found))?;
        definition.check_shape().map_err(|found| self.with_words(kind, found))?;
        let mut definition = definition.settled();
        match &mut definition.config {
            Config::Schedule(schedule) => self.resolve(schedule, old)?,
            Config::Webhook(webhook) => self.rotate(webhook, old),
            Config::Keyword(_) | Config::Message(_) | Config::Window(_) => {}
        }
        self.place(&mut definition, form, old)?;
        let allowed = old.is_some_and(|old| old.allow_untrusted);
        if definition.allow_untrusted != allowed && !self.is_operator {
            return Err(Problem::new("allow_untrusted", "can be set by operators only").into());
        }
        Ok(definition)
    }

    /// Problems, with the meaning of the fields of `config` where it is to blame: a model was told their
    /// names alone.
    fn with_words(&self, kind: Option<TriggerType>, mut found: Problems) -> Problems {
        let is_config = |problem: &Problem| problem.field.split('.').next() == Some("config");
        if let Some(kind) = kind
            && !self.is_operator
            && found.0.iter().any(is_config)
        {
            let words = format!("the fields of a `{kind}` are\n{}", config_in_words(kind));
            found.0.push(Problem::new("config", words));
        }
        found
    }

    /// Works out what `at` means.
    fn resolve(&self, schedule: &mut Schedule, old: Option<&Definition>) -> Result<(), Problem> {
        let Some(text) = &schedule.at else { return Ok(()) };
        // What is not changed keeps its meaning, also if the zone of the settings has changed since.
        if let Some(Config::Schedule(known)) = old.map(|old| &old.config)
            && known.at == schedule.at
            && known.timezone == schedule.timezone
        {
            schedule.moment = known.moment;
            return Ok(());
        }
        let zone = schedule.timezone.as_deref().unwrap_or(&self.zone);
        let wrong = |field| move |reason: String| Problem::new(field, reason);
        self.calendar.check_zone(zone).map_err(wrong("config.timezone"))?;
        let moment = self.calendar.moment(text, zone).map_err(wrong("config.at"))?;
        schedule.moment = Some(moment);
        Ok(())
    }

    /// A former secret that is named anew is good for a while.
    fn rotate(&self, webhook: &mut Webhook, old: Option<&Definition>) {
        webhook.previous_until = match (old.map(|old| &old.config), &webhook.secret_previous) {
            (_, None) => None,
            (Some(Config::Webhook(old)), new) if old.secret_previous == *new => old.previous_until,
            _ => Some(self.now + ROTATION),
        };
    }

    /// Where people are told. The topic of a channel goes with it.
    fn place(
        &self,
        definition: &mut Definition,
        form: &Map<String, Value>,
        old: Option<&Definition>,
    ) -> Result<(), Problem> {
        let names_topic = form.contains_key("notify_topic");
        let topic_of_source = || self.source.and_then(|source| source.topic.clone());
        if !names_topic {
            definition.notify_topic = old.and_then(|old| old.notify_topic.clone());
        } else if definition.notify_topic.as_ref().is_some_and(|topic| topic.id.as_str() == SOURCE)
        {
            definition.notify_topic = topic_of_source();
        }
        if !form.contains_key("notify_channel") {
            return Ok(());
        }
        let channel = &mut definition.notify_channel;
        let wrong = |reason| Problem::new("notify_channel", reason);
        let is_source = channel.as_ref().is_some_and(|channel| channel.as_str() == SOURCE);
        if is_source {
            let unknown =
                "`source` means nothing here: no conversation led to this; name a channel";
            *channel = Some(self.source.ok_or_else(|| wrong(unknown))?.channel.clone());
        }
        if channel.as_ref().is_some_and(|channel| ChannelId::named(channel.as_str()).is_none()) {
            return Err(wrong("expected 1 to 128 printable characters (384 bytes)"));
        }
        let is_same = *channel == old.and_then(|old| old.notify_channel.clone());
        if !names_topic && (is_source || !is_same) {
            let is_here =
                self.source.is_some_and(|source| Some(&source.channel) == channel.as_ref());
            definition.notify_topic = topic_of_source().filter(|_| is_here);
        }
        Ok(())
    }
}

/// A type and a config that are not a trigger's yet, for a look at what they would do.
pub fn sketch(
    writer: &Writer<'_>,
    kind: TriggerType,
    config: Map<String, Value>,
) -> Result<Definition, Problems> {
    let named = [("name", "preview"), ("task", "preview"), ("type", kind.as_str())];
    let mut form: Map<String, Value> =
        named.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    form.insert("config".to_owned(), Value::Object(config));
    writer.definition(&form)
}

/// Puts the fields of a form in place of those that there are. Null clears what can be left out; a
/// null under a name that nobody knows stays, so that it is refused.
fn merge(fields: &mut Map<String, Value>, form: &Map<String, Value>) {
    let schema = DEFINITIONS.schema();
    let is_needed = |name: &str| {
        let required = schema["required"].as_array().into_iter().flatten();
        ["type", "config"].contains(&name) || required.into_iter().any(|one| one == name)
    };
    for (name, value) in form {
        match (fields.get_mut(name), value) {
            (_, Value::Null) if is_needed(name) => {}
            (_, Value::Null) if schema["properties"].get(name).is_some() => {
                fields.remove(name);
            }
            (Some(Value::Object(config)), Value::Object(changes)) if name == "config" => {
                config.extend(changes.clone());
            }
            _ => {
                fields.insert(name.clone(), value.clone());
            }
        }
    }
    if let Some(Value::Object(config)) = fields.get_mut("config") {
        config.retain(|_, value| !value.is_null());
    }
}

fn problems(check::Problems(problems): check::Problems) -> Problems {
    let problem = |one: check::Problem| Problem::new(one.path.to_string(), one.reason);
    Problems(problems.into_iter().map(problem).collect())
}

#[cfg(test)]
#[path = "tests/form.rs"]
mod tests;
