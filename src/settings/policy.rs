//! `policy:` in `config/config.yaml`: the operator's rules that are changed in the file only.

use std::{fmt::Display, str::FromStr, sync::Arc};

use hivewright_actors::policy::rule::{Condition, Rule};
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
    let id = rule.maybe("id", |field| field.text());
    let note = rule.get("note", String::new(), |field| field.text());
    let expires_at = rule.maybe("expires_at", |field| field.parse(time::read));
    let team = rule.maybe("team", |field| field.text());
    let mode = rule.maybe("mode", |field| read_word(&field, is_known));
    let principal = rule.maybe("principal", |field| read_word(&field, is_known));
    let when = rule.maybe("when", |field| field.list(|item| Some(item.section(read_condition))));
    let quorum = rule.maybe("quorum", |field| field.integer(1..=5));
    let risk = rule.maybe("risk", |field| read_word(&field, is_known));
    let id = id.filter(|id| !id.is_empty()).unwrap_or_else(|| format!("config-{number}"));
    let plain = Rule::new(&id, resource?, effect?);
    Some(Rule {
        note,
        expires_at,
        team: team.unwrap_or(plain.team),
        mode,
        principal: principal.unwrap_or_default(),
        when: when.unwrap_or_default(),
        quorum,
        risk: risk.unwrap_or_default(),
        ..plain
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
