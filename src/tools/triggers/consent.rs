//! Consent: which triggers a model does not make, change or enable by itself, and what a person is
//! shown who decides.

use std::time::Duration;

use hivewright_actors::{
    ids::{MAIN, TeamKey},
    policy::caution::{Caution, Kind, Risk},
    scheduler::trigger::{Trigger, config::Config, definition::Definition},
    tool::Caller,
};
use serde_json::{Map, Value};

use super::{Author, Parts};
use crate::triggers::preview;

/// What fires more often than once in this time is for a person to decide.
const OFTEN: Duration = Duration::from_secs(60);
/// So many of the next times are looked at for that …
const LOOKED_AT: usize = 11;
/// … and so many are shown.
const SHOWN: usize = 5;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// What a call does to a trigger.
pub(super) enum Deed<'a> {
    Make(&'a Map<String, Value>),
    /// Changes the one of this name.
    Change(&'a str, &'a Map<String, Value>),
    /// Lets the one of this name fire.
    Enable(&'a str),
}

/// Why a person decides on a call; none if nobody need, or if the call says itself what is wrong.
pub(super) fn caution(
    parts: &Parts,
    caller: &Caller,
    team: &str,
    deed: &Deed<'_>,
) -> Option<Caution> {
    let author = Author::Team(caller);
    let key = parts.team(&author, team).ok()?;
    let (definition, cost, verb) = match deed {
        Deed::Make(form) => (parts.writer(&author).definition(form).ok()?, None, "make"),
        Deed::Change(name, form) => {
            let posted = parts.board.find(&key, name)?;
            let changed = parts.writer(&author).changed(&posted.trigger, form);
            (changed.ok()?, posted.cost_usd, "change")
        }
        Deed::Enable(name) => {
            let posted = parts.board.find(&key, name)?;
            let definition = Trigger::clone(&posted.trigger).definition;
            (definition, posted.cost_usd, "enable")
        }
    };
    let why = reason(parts, &key, &definition)?;
    let asked = format!(
        "team {} wants to {verb} the trigger `{}` of team {team}: {why}:\n{}",
        caller.team.name,
        definition.name,
        shown(parts, &definition, cost)
    );
    Some(Caution::new(Kind::Trigger, Risk::Normal, asked))
}

fn reason(parts: &Parts, team: &TeamKey, definition: &Definition) -> Option<&'static str> {
    if matches!(definition.config, Config::Webhook(_)) {
        return Some("other programs can call it");
    }
    if fires_often(parts, definition) {
        return Some("it fires more often than once a minute");
    }
    (team.name.as_str() == MAIN).then_some("it gives work to the main team")
}

fn fires_often(parts: &Parts, definition: &Definition) -> bool {
    if let Config::Window(window) = &definition.config {
        return window.tick_interval.0 < OFTEN;
    }
    let times = preview::times(parts, definition, None).take(LOOKED_AT).collect::<Vec<_>>();
    let mut steps = times.windows(2);
    steps.any(|pair| matches!(pair, [(one, _), (next, _)] if next.since(*one) < OFTEN))
}

/// Type, next times, what is asked, and what that may cost a day.
fn shown(parts: &Parts, definition: &Definition, cost: Option<f64>) -> String {
    let times = preview::times(parts, definition, None).take(SHOWN).collect::<Vec<_>>();
    let mut lines = vec![format!("type: {}", definition.kind())];
    lines.extend(times.iter().map(|(_, text)| format!("due: {text}")));
    let span = match (times.first(), times.last()) {
        (Some((first, _)), Some((last, _))) => last.since(*first),
        _ => Duration::ZERO,
    };
    let step = match &definition.config {
        Config::Window(window) => window.tick_interval.0,
        _ => span
            .checked_div(u32::try_from(times.len().saturating_sub(1)).unwrap_or_default())
            .unwrap_or_default(),
    };
    lines.push(match cost.filter(|_| !step.is_zero()) {
        Some(cost) => {
            let runs = DAY.as_secs_f64() / step.as_secs_f64();
            format!("cost: about {:.2} USD a day, by its last run", cost * runs)
        }
        None => "cost: not known, it has no runs with a price".to_owned(),
    });
    lines.push(format!("task: {}", definition.task));
    lines.join("\n")
}
