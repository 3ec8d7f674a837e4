//! Flags of a trigger: what a person says about it on the command line.

use clap::Args;
use hivewright_actors::scheduler::trigger::config::TriggerType;
use serde_json::{Map, Value, json};

use crate::{
    api::flags::{pair, words},
    cli::failure::Failure,
};

const NO_TYPE: &str =
    "say when it fires: --cron, --at, --every, --keyword, --message, or --type with --config";

/// When it fires.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "When it fires")]
pub(in crate::cli) struct When {
    /// At the times of a pattern: minute hour day month weekday
    #[arg(long, value_name = "PATTERN", group = "moment")]
    cron: Option<String>,
    /// Once, such as 2030-01-31T09:00
    #[arg(long, value_name = "TIME", group = "moment")]
    at: Option<String>,
    /// In steps, such as 30m
    #[arg(long, value_name = "DURATION", group = "moment")]
    every: Option<String>,
    /// When a message contains this text, or fits /expression/flags
    #[arg(long, value_name = "TEXT", group = "moment")]
    keyword: Option<String>,
    /// When a message fits this expression
    #[arg(long, value_name = "EXPRESSION", group = "moment")]
    message: Option<String>,
    /// The time zone of local times, such as Europe/Berlin [default: that of the settings]
    #[arg(long, value_name = "ZONE")]
    timezone: Option<String>,
    /// The type [default: as the flags above say]
    #[arg(long = "type", value_name = "TYPE", value_parser = words::<TriggerType>())]
    kind: Option<TriggerType>,
    /// The rest of its config, as a JSON object
    #[arg(long, value_name = "JSON")]
    config: Option<String>,
}

impl When {
    /// The type and the config of something that can fire.
    pub(super) fn trigger(&self) -> Result<(TriggerType, Map<String, Value>), Failure> {
        let (kind, config) = self.config()?;
        Ok((kind.ok_or_else(|| Failure::usage(NO_TYPE))?, config))
    }

    /// The type, as far as it is known, and the config.
    pub(super) fn config(&self) -> Result<(Option<TriggerType>, Map<String, Value>), Failure> {
        let mut config = match &self.config {
            None => Map::new(),
            Some(text) => match serde_json::from_str(text) {
                Ok(Value::Object(config)) => config,
                _ => {
                    let message =
                        "--config: expected a JSON object such as '{\"cron\":\"0 8 * * *\"}'";
                    return Err(Failure::usage(message));
                }
            },
        };
        let flags = [
            (TriggerType::Schedule, "cron", &self.cron),
            (TriggerType::Schedule, "at", &self.at),
            (TriggerType::Schedule, "every", &self.every),
            (TriggerType::Keyword, "pattern", &self.keyword),
            (TriggerType::Message, "pattern", &self.message),
        ];
        let mut kind = self.kind;
        for (of, field, value) in flags {
            let Some(value) = value else { continue };
            config.insert(field.to_owned(), json!(value));
            kind.get_or_insert(of);
        }
        if let Some(zone) = &self.timezone {
            config.insert("timezone".to_owned(), json!(zone));
        }
        Ok((kind, config))
    }
}

/// What it does.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(next_help_heading = "What it does")]
pub(in crate::cli) struct Form {
    /// What the team is asked to do
    #[arg(long, value_name = "TEXT")]
    task: Option<String>,
    /// Who of the team does it
    #[arg(long, value_name = "NAME")]
    subagent: Option<String>,
    /// Where people hear of runs: the id of a channel
    #[arg(long, value_name = "ID")]
    notify_channel: Option<String>,
    /// Any other field, such as missed=all or max_steps=20; null clears
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = assignment)]
    set: Vec<(String, Value)>,
}

impl Form {
    pub(super) fn fields(&self) -> Result<Map<String, Value>, Failure> {
        let named = [
            ("task", &self.task),
            ("subagent", &self.subagent),
            ("notify_channel", &self.notify_channel),
        ];
        let mut fields: Map<String, Value> = named
            .into_iter()
            .filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))))
            .collect();
        for (name, value) in &self.set {
            if fields.insert(name.clone(), value.clone()).is_some() {
                return Err(Failure::usage(format!("`{name}` is given twice")));
            }
        }
        Ok(fields)
    }
}

/// Reads `field=value`: JSON where it is some, else text.
fn assignment(text: &str) -> Result<(String, Value), String> {
    let (name, value) = pair(text, "", "a field and a value, such as missed=all")?;
    Ok((name.to_owned(), serde_json::from_str(value).unwrap_or_else(|_| json!(value))))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::api::trigger_form::DEFINITIONS;

    #[test]
    fn flags_make_a_type_and_a_config() {
        let when = When {
            cron: Some("0 8 * * *".to_owned()),
            timezone: Some("Europe/Berlin".to_owned()),
            ..When::default()
        };

        let (kind, config) = when.config().unwrap();

        assert_eq!(kind, Some(TriggerType::Schedule));
        let expected = json!({"cron": "0 8 * * *", "timezone": "Europe/Berlin"});
        assert_eq!(Value::Object(config), expected);
    }

    /// Flags that are fields of a definition have their names.
    #[test]
    fn flags_are_fields_of_the_definition() {
        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            form: Form,
        }
        let sent = ["--task", "a", "--subagent", "b", "--notify-channel", "c"];
        let line = Line::try_parse_from(["create"].iter().chain(&sent)).unwrap();
        let definition = DEFINITIONS.schema();
        let of_type = |kind: TriggerType| {
            let types = definition["oneOf"].as_array().unwrap();
            let is_it = |one: &&Value| one["properties"]["type"]["const"] == kind.as_str();
            types.iter().find(is_it).unwrap()["properties"]["config"]["properties"].clone()
        };

        let fields = line.form.fields().unwrap();
        assert_eq!(fields.len(), 3);
        for name in fields.keys() {
            assert!(definition["properties"].get(name).is_some(), "{name}");
        }
        let text = || Some("x".to_owned());
        for when in [
            When { cron: text(), timezone: text(), ..When::default() },
            When { at: text(), ..When::default() },
            When { every: text(), ..When::default() },
            When { keyword: text(), ..When::default() },
            When { message: text(), ..When::default() },
        ] {
            let (kind, config) = when.config().unwrap();
            let known = of_type(kind.unwrap());
            for name in config.keys() {
                assert!(known.get(name).is_some(), "{name}");
            }
        }
    }

    #[test]
    fn what_is_json_is_read_as_such() {
        let read = ["a=1", "a=null", "a=all", "a={\"b\":2}", "a=x=y"].map(assignment);

        let values = read.map(|read| read.unwrap().1);
        assert_eq!(values, [json!(1), Value::Null, json!("all"), json!({"b": 2}), json!("x=y")]);
        assert!(assignment("a").is_err());
    }
}
