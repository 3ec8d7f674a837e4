//! Agenda: when triggers are due in the next 24 hours.

use std::time::Duration;

use hivewright_actors::{org::record::TeamState, scheduler::trigger::Trigger};

use super::{admin::Parts, preview};
use crate::api::{
    triggers::{DueRow, TriggerDue},
    when::date,
};

/// So far ahead is looked.
const AHEAD: Duration = Duration::from_secs(24 * 60 * 60);
/// Times within the same quarter of an hour, in milliseconds, are one row: hours begin with one in every zone, and a trigger
/// that is due each minute does not bury the others.
const QUARTER: u64 = 15 * 60 * 1_000;

/// When a trigger is due, also if nothing comes of it as it stands. Blocks.
pub fn agenda(parts: &Parts, trigger: &Trigger) -> Vec<DueRow> {
    let until = parts.now() + AHEAD;
    let tree = parts.view.now();
    let team = tree.get(trigger.team.name.as_str());
    let is_held = team.is_some_and(|team| team.state == TeamState::Paused);
    let times = preview::times(parts, &trigger.definition, trigger.anchor_at);
    let mut rows: Vec<(u64, DueRow)> = Vec::new();
    for (at, local) in times.take_while(|(at, _)| *at <= until) {
        let quarter = at.0 / QUARTER;
        match rows.last_mut() {
            Some((known, row)) if *known == quarter => row.count += 1,
            _ => rows.push((
                quarter,
                DueRow {
                    trigger_id: trigger.id.clone(),
                    name: trigger.definition.name.clone(),
                    team: trigger.team.name.clone(),
                    kind: trigger.definition.kind(),
                    state: trigger.state,
                    is_held,
                    due: TriggerDue { at: date(at), local },
                    count: 1,
                },
            )),
        }
    }
    rows.into_iter().map(|(_, row)| row).collect()
}
