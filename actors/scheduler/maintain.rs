//! System triggers: those that the settings of a team keep, its heartbeat and its learning cycles.

use std::time::Duration;

use actix::{Handler, Message, ResponseFuture};

use super::{
    Refusal, Scheduler,
    records::removed,
    run::RunOutcome,
    trigger::{
        SystemKind, Trigger,
        config::{Config, Schedule},
        definition::{Definition, MissedPolicy, NotifyPolicy, OverlapPolicy},
    },
};
use crate::{
    ids::TeamKey,
    store::records::{Writes, digest},
    task::outcome::{Ending, Outcome},
    text::Span,
};

/// A reflection waits for a person's decision, who may be asleep when it asks.
const REFLECTION_DEADLINE: Duration = Duration::from_secs(25 * 60 * 60);
/// A heartbeat that has nothing to say says this.
pub const HEARTBEAT_OK: &str = "HEARTBEAT_OK";
/// What may stand beside it.
const MAX_BESIDE_OK: usize = 300;

/// What the settings of a team ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// From one heartbeat to the next; none is no heartbeat.
    pub heartbeat: Option<Duration>,
    /// It learns: once for each subagent, or once for a team without.
    pub learning: Option<Vec<String>>,
}

/// Keeps the triggers of a team in line with its settings. Answered when that is durable.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Result<(), Refusal>")]
pub struct Maintain {
    pub team: TeamKey,
    /// What its settings ask for.
    pub wanted: Wanted,
}

/// The triggers that settings ask for.
pub fn definitions(team: &TeamKey, wanted: &Wanted) -> Vec<(SystemKind, Definition)> {
    let heartbeat = wanted.heartbeat.map(|every| {
        let config = Config::Schedule(Schedule::every(every));
        let definition = Definition {
            overlap_policy: OverlapPolicy::AlwaysSkip,
            missed: Some(MissedPolicy::Skip),
            // What it says is never silent: it goes to the operator, who has the inbox.
            notify: NotifyPolicy::Always,
            ..Definition::new(
                "heartbeat",
                config,
                "Go through your heartbeat list and say what needs attention.",
            )
        };
        (SystemKind::Heartbeat, definition)
    });
    let subagents = match &wanted.learning {
        None => Vec::new(),
        Some(subagents) if subagents.is_empty() => vec![None],
        Some(subagents) => subagents.iter().map(|name| Some(name.as_str())).collect(),
    };
    let cycles = subagents.into_iter().flat_map(|subagent| {
        [SystemKind::Learning, SystemKind::Reflection].map(|kind| cycle(team, kind, subagent))
    });
    heartbeat.into_iter().chain(cycles).collect()
}

fn cycle(team: &TeamKey, kind: SystemKind, subagent: Option<&str>) -> (SystemKind, Definition) {
    let (name, hour, max_steps, task) = match kind {
        SystemKind::Learning => (
            "learning-cycle",
            2,
            100,
            "Carry out your learning cycle as the skill `learning-cycle` says.",
        ),
        _ => (
            "reflection-cycle",
            3,
            30,
            "Carry out your reflection cycle as the skill `reflection-cycle` says.",
        ),
    };
    // The same minute each night, another one for each team and subagent.
    let minute = digest(&format!("{}/{}", team.name, subagent.unwrap_or_default())) % 60;
    let config = Config::Schedule(Schedule::cron(format!("{minute} {hour} * * *")));
    let name = subagent.map_or_else(|| name.to_owned(), |subagent| format!("{name}-{subagent}"));
    let mut definition = Definition {
        subagent: subagent.map(str::to_owned),
        max_steps: Some(max_steps),
        overlap_policy: OverlapPolicy::AlwaysSkip,
        missed: Some(MissedPolicy::Skip),
        notify: NotifyPolicy::OnFailure,
        ..Definition::new(&name, config, task)
    };
    if kind == SystemKind::Reflection {
        definition.deadline = Span(REFLECTION_DEADLINE);
    }
    (kind, definition)
}

/// Whether a heartbeat has something to say.
pub fn judge_heartbeat(how: RunOutcome, outcome: &Outcome) -> (RunOutcome, &'static str) {
    match how {
        RunOutcome::Failed | RunOutcome::Missed => (how, "failed"),
        RunOutcome::Cancelled => (how, "skipped"),
        RunOutcome::Noop => (how, "ok_empty"),
        RunOutcome::Ok if outcome.ending == Ending::Done && is_all_well(&outcome.text) => {
            (RunOutcome::Noop, "ok_token")
        }
        RunOutcome::Ok => (how, "sent"),
    }
}

/// The token, also inside markup, with little beside it.
fn is_all_well(text: &str) -> bool {
    let Some(place) = text.find(HEARTBEAT_OK) else { return false };
    let rest = [&text[..place], &text[place + HEARTBEAT_OK.len()..]];
    let others: usize = rest.iter().map(|part| part.trim().chars().count()).sum();
    others <= MAX_BESIDE_OK
}

impl Handler<Maintain> for Scheduler {
    type Result = ResponseFuture<Result<(), Refusal>>;

    fn handle(
        &mut self,
        Maintain { team, wanted }: Maintain,
        ctx: &mut Self::Context,
    ) -> Self::Result {
        let wanted = definitions(&team, &wanted);
        let is_wanted = |name: &str| wanted.iter().any(|(_, definition)| definition.name == name);
        let unwanted = self.drop_all(|trigger| {
            trigger.team == team && trigger.system.is_some() && !is_wanted(&trigger.definition.name)
        });
        let mut writes = unwanted.iter().map(removed).fold(Writes::new(), Writes::and);
        let now = self.now();
        for (kind, definition) in wanted {
            if let Err(problems) = self.check(&definition, false) {
                tracing::warn!(team = %team.name, trigger = definition.name, %problems, "settings ask for a trigger that cannot be");
                continue;
            }
            let trigger = match self.named(&team, &definition.name).cloned() {
                Some(present) if present.definition == definition => continue,
                // Someone switched it off: it stays off, with the new settings.
                Some(mut present) => {
                    let is_active = present.is_active();
                    present.definition = definition;
                    present.revise(now);
                    if is_active {
                        present.enable(now);
                    }
                    present
                }
                None => {
                    let id = self.to.ids.trigger();
                    let mut trigger = Trigger::new(id, team.clone(), definition, "system", now);
                    trigger.system = Some(kind);
                    trigger.enable(now);
                    trigger
                }
            };
            let id = trigger.id.clone();
            self.take_in(trigger);
            writes = writes.and(self.row_of(&id));
        }
        self.arm(ctx);
        if writes.is_empty() {
            return Box::pin(std::future::ready(Ok(())));
        }
        Box::pin(self.keep(writes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TR-71
    #[test]
    fn the_token_is_found_inside_markup() {
        for text in [
            "HEARTBEAT_OK",
            "**HEARTBEAT_OK**",
            "<p>HEARTBEAT_OK</p>\n",
            "All is well. `HEARTBEAT_OK`",
        ] {
            assert!(is_all_well(text), "{text}");
        }
        let long = "x".repeat(301);
        assert!(is_all_well(&format!("HEARTBEAT_OK{}", &long[..300])));
        assert!(!is_all_well(&format!("HEARTBEAT_OK{long}")));
        assert!(!is_all_well("the disk is full"));
    }

    /// TR-62, TR-63
    #[test]
    fn a_team_that_learns_has_a_pair_for_each_subagent() {
        let wanted = Wanted {
            heartbeat: None,
            learning: Some(vec!["editor".to_owned(), "scout".to_owned()]),
        };

        let made = definitions(&TeamKey::first("news"), &wanted);

        let names: Vec<&str> =
            made.iter().map(|(_, definition)| definition.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "learning-cycle-editor",
                "reflection-cycle-editor",
                "learning-cycle-scout",
                "reflection-cycle-scout"
            ]
        );
        let again = definitions(&TeamKey::first("news"), &wanted);
        assert_eq!(made, again);
        let crons: Vec<String> = made
            .iter()
            .map(|(_, definition)| match &definition.config {
                Config::Schedule(Schedule { cron: Some(pattern), .. }) => pattern.clone(),
                _ => String::new(),
            })
            .collect();
        assert!(crons[0].ends_with(" 2 * * *") && crons[1].ends_with(" 3 * * *"));
        assert_ne!(crons[0], crons[2]);
    }

    /// TR-61, TR-69
    #[test]
    fn nothing_is_kept_unless_asked_for() {
        assert_eq!(definitions(&TeamKey::first("news"), &Wanted::default()), []);
    }
}
