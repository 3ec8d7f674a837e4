//! `policy:` in `config/config.yaml`: the operator's rules that are changed in the file only.

use std::{fmt::Display, str::FromStr, sync::Arc};

use hivewright_actors::policy::{
    caution::Risk,
    rule::{Condition, Rule, Who, every_team},
};
use serde_json::{Value as Json, json};

use super::{field::Field, reader::Section, setting::Setting};
use crate::time;

/// The rules of the file. A wrong one is reported with the field that is wrong.
impl Setting for Arc<Vec<Rule>> {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let mut number = 0;
        let rules = field.list(|item| {
            number += 1;
            let is_known = !item.is_unknown();
            let rule = item.section(|section| read_rule(section, number, is_known))?;
            match rule.check() {
                _ if !is_known => None,
                Ok(rule) => Some(rule),
                Err(invalid) => item.reject(invalid.to_string()),
            }
        });
        rules.map(Arc::new)
    }

    fn shown(&self) -> Json {
        json!(**self)
    }
}

/// None if the rule does not say what it is about, or what it says of that.
fn read_rule(rule: &mut Section<'_>, number: usize, is_known: bool) -> Option<Rule> {
    let resource = rule.required("resource", |field| read_word(&field, is_known));
    let effect = rule.required("effect", |field| read_word(&field, is_known));
    let id = rule.maybe("id", |field| field.text()).filter(|id| !id.is_empty());
    Some(Rule {
        id: id.unwrap_or_else(|| format!("config-{number}")),
        note: rule.get("note", String::new(), |field| field.text()),
        expires_at: rule.maybe("expires_at", |field| field.parse(time::read)),
        team: rule.get("team", every_team(), |field| field.text()),
        mode: rule.maybe("mode", |field| read_word(&field, is_known)),
        principal: rule.get("principal", Who::Any, |field| read_word(&field, is_known)),
        when: rule
            .get("when", Vec::new(), |field| field.list(|item| Some(item.section(read_condition)))),
        quorum: rule.maybe("quorum", |field| field.integer(1..=5)),
        risk: rule.get("risk", Risk::Normal, |field| read_word(&field, is_known)),
        // Last: a rule without them is read to its end, for what else is wrong with it.
        resource: resource?,
        effect: effect?,
    })
}

/// A text of a certain form. In a rule that holds a reference which is not followed nothing is judged.
fn read_word<T: FromStr<Err: Display>>(field: &Field<'_>, is_known: bool) -> Option<T> {
    if is_known { field.parse(str::parse) } else { field.text().and(None) }
}

fn read_condition(condition: &mut Section<'_>) -> Condition {
    Condition {
        pointer: condition.get("pointer", String::new(), |field| field.text()),
        equals: condition.maybe("equals", |field| field.json()),
        glob: condition.maybe("glob", |field| field.text()),
    }
}
