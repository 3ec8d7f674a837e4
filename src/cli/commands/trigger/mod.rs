//! `hivewright trigger`: what starts work without a person typing.

use clap::{Args, Subcommand};
use hivewright_actors::scheduler::trigger::State;
use serde_json::Value;

use crate::{
    api::{endpoint::ById, flags::Limit, triggers::*},
    cli::{
        answer::{Answer, Listing},
        client::Service,
        context::Context,
        failure::Failure,
        screen::printable,
        table::{self, columns, date},
        watch::Watched,
    },
    text::plain,
};

mod form;

use form::{Form, When};

/// Make, change and watch triggers: tasks that start at times, on messages or on calls
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright trigger create news morning --cron \"0 8 * * MON-FRI\" --task \"Sum up the news.\" --enable\n  \
    hivewright trigger runs news/morning")]
pub(super) enum Action {
    /// List triggers
    #[command(after_help = "Example:\n  hivewright trigger list --team news --state active")]
    List(Watched<TriggerFilter>),
    /// Show when triggers are due in the next 24 hours
    #[command(after_help = "Example:\n  hivewright trigger agenda --team news")]
    Agenda(Listing<TriggerFilter>),
    /// Show all of a trigger
    #[command(after_help = "Example:\n  hivewright trigger show news/morning")]
    Show(Which),
    /// Make a trigger
    #[command(after_help = "Examples:\n  \
        hivewright trigger create news morning --cron \"0 8 * * *\" --timezone Europe/Berlin --task \"Sum up the news.\" --enable\n  \
        hivewright trigger create ops alarm --keyword \"server down\" --task \"Find out what is wrong.\" --set priority=high\n  \
        hivewright trigger create ci push --type webhook --config '{\"secret\":\"${vault:CI_KEY}\",\"scheme\":\"github\"}' --task \"Look at it.\"")]
    Create {
        /// The team that does the work
        team: String,
        /// Its name, unique in the team
        name: String,
        #[command(flatten)]
        when: When,
        #[command(flatten)]
        form: Form,
        /// Let it fire from the start
        #[arg(long)]
        enable: bool,
    },
    /// Change a trigger; what is not named stays as it is
    #[command(after_help = "Examples:\n  \
        hivewright trigger edit news/morning --cron \"30 7 * * *\"\n  \
        hivewright trigger edit news/morning --set subagent=null --set max_steps=20")]
    Edit {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        when: When,
        #[command(flatten)]
        form: Form,
    },
    /// Let a trigger fire from now on
    #[command(after_help = "Example:\n  hivewright trigger enable news/morning")]
    Enable(Which),
    /// Let a trigger fire no more
    #[command(
        after_help = "Example:\n  hivewright trigger disable news/morning --reason \"holidays\""
    )]
    Disable {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        off: TriggerOff,
    },
    /// Start a run right now; the schedule stays as it is
    #[command(after_help = "Example:\n  hivewright trigger run news/morning")]
    Run {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        start: TriggerStart,
    },
    /// Show what came of a trigger's firings, newest first
    #[command(after_help = "Example:\n  hivewright trigger runs news/morning --limit 10")]
    Runs {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        limit: Limit,
    },
    /// Remove a trigger; what runs goes on, and its runs are kept
    #[command(aliases = ["remove", "rm"], after_help = "Example:\n  hivewright trigger delete news/morning")]
    Delete(Which),
    /// Show what a trigger would do: its next times, or whether a sample fits
    #[command(after_help = "Examples:\n  \
        hivewright trigger preview --cron \"30 2 * * *\" --timezone Europe/Berlin\n  \
        hivewright trigger preview --keyword \"/order (?<number>\\\\d+)/i\" --sample \"Order 77\"")]
    Preview {
        #[command(flatten)]
        when: When,
        /// A message to try it on
        #[arg(long)]
        sample: Option<String>,
    },
}

// A doc comment here would become that of every command that has it.
#[derive(Debug, PartialEq, Args)]
pub(super) struct Which {
    /// The id of the trigger, or TEAM/NAME
    which: String,
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List(list) => list.show_all(&LIST_TRIGGERS, context).await,
        Action::Agenda(list) => service.list(&LIST_DUE, &list).await?.table(screen),
        Action::Show(which) => {
            let shown = service.at(&SHOW_TRIGGER, &which.find(&service).await?).await?;
            shown.show(screen, |_| fields(&shown.document["data"]))
        }
        Action::Create { team, name, when, form, enable } => {
            let (kind, config) = when.trigger()?;
            let mut fields = form.fields()?;
            if !fields.contains_key("task") {
                return Err(Failure::usage("say what the team is asked to do: --task"));
            }
            fields.insert("name".to_owned(), name.into());
            fields.insert("type".to_owned(), kind.as_str().into());
            fields.insert("config".to_owned(), config.into());
            let new = NewTrigger { team, enable: Some(enable), fields };
            service.give(&CREATE_TRIGGER, &new).await?.tell(screen, |row| state(row, context))
        }
        Action::Edit { which, when, form } => {
            let mut fields = form.fields()?;
            let (_, config) = when.config()?;
            if !config.is_empty() {
                fields.insert("config".to_owned(), config.into());
            }
            let path = which.find(&service).await?;
            let changed = service.send(&CHANGE_TRIGGER, &path, &TriggerChange { fields }).await?;
            changed.tell(screen, |row| state(row, context))
        }
        Action::Enable(which) => {
            let enabled = service.at(&ENABLE_TRIGGER, &which.find(&service).await?).await?;
            enabled.tell(screen, |row| state(row, context))
        }
        Action::Disable { which, off } => {
            let path = which.find(&service).await?;
            let disabled = service.send(&DISABLE_TRIGGER, &path, &off).await?;
            disabled.tell(screen, |_| format!("{} is disabled", which.which))
        }
        Action::Run { which, start } => {
            let path = which.find(&service).await?;
            service.send(&RUN_TRIGGER, &path, &start).await?.show(screen, started)
        }
        Action::Runs { which, limit } => {
            let (path, all) = (which.find(&service).await?, RunFilter::default());
            service.limited(&LIST_RUNS, &path, &all, &limit).await?.table(screen)
        }
        Action::Delete(which) => {
            service.at(&DELETE_TRIGGER, &which.find(&service).await?).await?;
            let which = which.which;
            Answer::naming("deleted", &which).tell(screen, |_| format!("{which} is deleted"))
        }
        Action::Preview { when, sample } => {
            let (kind, config) = when.trigger()?;
            let sketch = TriggerSketch { kind, config, sample };
            service.give(&PREVIEW_TRIGGER, &sketch).await?.show(screen, preview)
        }
    }
}

impl Which {
    async fn find(&self, service: &Service) -> Result<ById, Failure> {
        let Some((team, name)) = self.which.split_once('/') else {
            return Ok(ById { id: self.which.clone() });
        };
        let filter = TriggerFilter { team: Some(team.to_owned()), ..TriggerFilter::default() };
        let rows = service.rows(&LIST_TRIGGERS, &filter).await?.data()?;
        let found = rows.into_iter().find(|row| row.definition.name == name);
        found.map(|row| ById { id: row.id.to_string() }).ok_or_else(|| {
            Failure::not_found(format!(
                "team `{team}` has no trigger `{name}`; `hivewright trigger list --team {team}` shows those there are"
            ))
        })
    }
}

columns!(TriggerRow {
    "ID" => |row| row.id.to_string(),
    "TRIGGER" => |row| format!("{}/{}", row.team, row.definition.name),
    "TYPE" => |row| row.definition.kind().to_string(),
    "STATE" => |row| row.state.to_string(),
    "NEXT" => |row| date(&row.next_due_at),
    "LAST RUN" => |row| row.last_run.iter().flatten().map(end).collect(),
});

columns!(DueRow {
    "TRIGGER" => |row| format!("{}/{}", row.team, row.name),
    "DUE" => |row| row.due.local.clone(),
    "TIMES" => |row| row.count.to_string(),
    "STATE" => |row| if row.is_held { "team paused".to_owned() } else { row.state.to_string() },
});

columns!(RunRow {
    "FIRED" => |row| date(&row.fired_at),
    "CAUSE" => |row| row.cause.to_string(),
    "DECISION" => |row| row.decision.to_string(),
    "OUTCOME" => |row| row.outcome.map(|outcome| outcome.to_string()).unwrap_or_default(),
    "TASK" => |row| row.task_id.as_ref().map(ToString::to_string).unwrap_or_default(),
    "REASON" => |row| row.reason.clone().unwrap_or_default(),
});

/// What a run came to.
fn end(run: &RunRow) -> String {
    match run.outcome {
        Some(outcome) => format!("{} {outcome}", run.decision),
        None => run.decision.to_string(),
    }
}

/// All fields of a trigger, one below the other.
fn fields(row: &Value) -> String {
    let said = row.as_object().into_iter().flatten().filter_map(|(name, value)| {
        let text = match value {
            Value::Null => return None,
            Value::Array(list) if list.is_empty() => return None,
            Value::Object(map) if map.is_empty() => return None,
            value => plain(value),
        };
        Some((name.as_str(), printable(&text)))
    });
    table::fields(22, said)
}

/// What has become of a trigger.
fn state(row: TriggerRow, context: &Context) -> String {
    let name = format!("{}/{}", row.team, row.definition.name);
    let mut text = format!("{name} ({}) is {}", row.id, row.state);
    let is_off = matches!(row.state, State::Pending | State::Disabled);
    if is_off {
        let enable = context.command(&format!("trigger enable {name}"));
        text += &format!(", and fires once {enable} lets it");
    }
    if let Some(next) = row.next_due.as_ref().filter(|next| !next.is_empty()) {
        let then = if is_off { ", then" } else { "" };
        text += &format!("\nnext times{then}: {}", next.join(", "));
    }
    if let Some(path) = &row.path {
        text += &format!("\nprograms call it at {path}");
    }
    text
}

/// What a run by hand led to.
fn started(run: RunRow) -> String {
    let task = run.task_id.as_ref().map(ToString::to_string);
    let led_to = task.or_else(|| run.reason.clone()).unwrap_or_default();
    format!("{} {} {led_to}\n", run.id, run.decision)
}

/// What a trigger would do.
fn preview(preview: TriggerPreview) -> String {
    if let Some(due) = &preview.due {
        return due.iter().map(|time| format!("{}\n", time.local)).collect();
    }
    match preview.matches {
        Some(true) => {
            let captures = preview.captures.iter().flatten();
            let found = captures.map(|(name, value)| format!("{name}: {}\n", printable(value)));
            format!("it fits\n{}", found.collect::<String>())
        }
        Some(false) => "it does not fit\n".to_owned(),
        None => "it is valid\n".to_owned(),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    /// OP-80
    #[test]
    fn triggers_are_listed_in_columns() {
        let row = json!({
            "id": "trg-1", "team": "news", "name": "morning", "type": "schedule", "state": "active",
            "config": {"cron": "0 8 * * *"}, "task": "Sum up.", "next_due_at": "2026-11-15T08:00:00.000Z",
            "consecutive_failures": 0, "overlap_count": 0, "cursors": {}, "revision": 1, "created_by": "main",
            "last_run": {
                "id": "run-1", "trigger": "trg-1", "cause": "schedule", "decision": "enqueued",
                "outcome": "ok", "tokens": 0, "notify": {"notified": false},
            },
        });
        let rows: Vec<TriggerRow> = serde_json::from_value(json!([row])).unwrap();

        let expected = "\
ID     TRIGGER       TYPE      STATE   NEXT                  LAST RUN
trg-1  news/morning  schedule  active  2026-11-15 08:00 UTC  enqueued ok
";
        assert_eq!(table::rows(&rows), expected);
    }
}
