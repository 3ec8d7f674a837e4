//! `policy:` in `config/config.yaml`: the operator's rules that are changed in the file only.

use std::sync::Arc;

use hivewright_actors::{
    clock::Timestamp,
    policy::{
        draft::{Draft, DraftCondition},
        rule::Rule,
    },
};

use serde_json::{Value as Json, json};

use super::{field::Field, reader::Section, setting::Setting};

/// The rules of the file. A wrong one is reported with the field that is wrong.
impl Setting for Arc<Vec<Rule>> {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let mut number = 0;
        let rules = field.list(|item| {
            number += 1;
            let mut draft = item.section(read_draft);
            if draft.id.is_empty() {
                draft.id = format!("config-{number}");
            }
            match draft.check() {
                _ if item.is_unknown() => None,
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

fn read_draft(rule: &mut Section<'_>) -> Draft {
    let text = |field: Field<'_>| field.text();
    Draft {
        id: rule.get("id", String::new(), text),
        note: rule.get("note", String::new(), text),
        expires_at: rule.maybe("expires_at", |field| field.parse(date)),
        team: rule.maybe("team", text),
        resource: rule.get("resource", String::new(), text),
        mode: rule.maybe("mode", text),
        principal: rule.maybe("principal", text),
        when: rule
            .get("when", Vec::new(), |field| field.list(|item| Some(item.section(read_condition)))),
        effect: rule.get("effect", String::new(), text),
        quorum: rule.maybe("quorum", |field| field.integer(1..=5)),
        risk: rule.maybe("risk", text),
    }
}

fn read_condition(condition: &mut Section<'_>) -> DraftCondition {
    DraftCondition {
        pointer: condition.get("pointer", String::new(), |field| field.text()),
        equals: condition.maybe("equals", |field| field.json()),
        glob: condition.maybe("glob", |field| field.text()),
    }
}

/// A date such as `2026-01-31T12:00:00Z`.
pub fn date(text: &str) -> Result<Timestamp, &'static str> {
    crate::time::parse(text).ok_or("expected a date such as 2026-01-31T12:00:00Z")
}
