//! `hivewright events`: what happens in the service, as it happens.

use clap::Args;
use serde_json::{Value, json};

use crate::{
    api::events::EventFilter,
    cli::{
        context::Context,
        events::{Follower, Step, until_stopped},
        failure::Failure,
        screen::printable,
        table::{beginning, one_line, to_the_second},
    },
};

/// So many characters of an event are shown on its line.
const SHOWN: usize = 120;

/// Show what happens in the service, as it happens, until Ctrl-C
///
/// Under `--json` each event is a line with `event`, its type, and `data`; `begin` says that what there is has
/// to be read anew, at first and after something was missed.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright events\n  \
    hivewright events --team research --types task.changed,turn\n  \
    hivewright events --json | jq .data")]
pub(super) struct Arguments {
    #[command(flatten)]
    filter: EventFilter,
    /// As of `logs`: they are followed in any case
    #[arg(long, hide = true)]
    follow: bool,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    until_stopped(show(arguments.filter, context)).await
}

async fn show(filter: EventFilter, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let team = filter.team.clone();
    let mut follower = Follower::open(context, filter).await?;
    if let Some(team) = team {
        follower.service().refuse_unknown(&team).await?;
    }
    loop {
        let line = match (follower.next().await?, screen.json) {
            (Step::Begin, true) => json!({"event": "begin"}).to_string(),
            (Step::Begin, false) => {
                screen.remark("· following; what was before is not shown");
                continue;
            }
            (Step::Event { kind, data }, true) => json!({"event": kind, "data": data}).to_string(),
            (Step::Event { kind, data }, false) => line(&kind, data),
        };
        if !screen.follow(&line) {
            return Ok(());
        }
    }
}

/// An event on one line: when, what, of which team, and the beginning of the rest.
fn line(kind: &str, mut data: Value) -> String {
    let mut taken = |name: &str| {
        let found = data.as_object_mut().and_then(|fields| fields.remove(name));
        found.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let (at, team) = (taken("at").parse().map(to_the_second).unwrap_or_default(), taken("team"));
    for number in ["seq", "team_seq"] {
        taken(number);
    }
    let rest = beginning(&data.to_string(), SHOWN);
    let line = format!("{at}  {kind:<16}  {team:<12}  {rest}");
    one_line(printable(&line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line() {
        let data = json!({"seq": 7, "team_seq": 1, "at": "2026-11-14T23:46:40.000Z", "team": "ops", "state": "done"});

        assert_eq!(
            line("task.changed", data),
            "2026-11-14 23:46:40  task.changed      ops           {\"state\":\"done\"}"
        );
    }
}
