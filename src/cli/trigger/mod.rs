//! `hivewright trigger`: what starts work without a person typing.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{
    Context,
    failure::{Exit, Failure},
    service::{Answer, Service, target},
};
use crate::api::{
    endpoint::{ById, Empty},
    flags::Limit,
    triggers::{
        CHANGE_TRIGGER, CREATE_TRIGGER, DELETE_TRIGGER, DISABLE_TRIGGER, ENABLE_TRIGGER, LIST_RUNS,
        LIST_TRIGGERS, NewTrigger, PREVIEW_TRIGGER, RUN_TRIGGER, RunRow, SHOW_TRIGGER,
        TriggerChange, TriggerFilter, TriggerOff, TriggerRow, TriggerSketch, TriggerStart,
    },
};

mod form;
mod show;

use form::{Form, When};

const NO_TYPE: &str =
    "say when it fires: --cron, --at, --every, --keyword, --message, or --type with --config";
/// As many as are shown at once.
const MOST: Limit = Limit { limit: 200 };

/// Make, change and watch triggers: tasks that start at times, on messages or on calls
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright trigger create news morning --cron \"0 8 * * MON-FRI\" --task \"Sum up the news.\" --enable\n  \
    hivewright trigger runs news/morning")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with triggers. One is named by its id, or as TEAM/NAME.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List triggers
    #[command(after_help = "Example:\n  hivewright trigger list --team news --state active")]
    List(TriggerFilter),
    /// Show all of a trigger
    #[command(after_help = "Example:\n  hivewright trigger show news/morning")]
    Show {
        /// Its id, or TEAM/NAME
        which: String,
    },
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
        /// Its id, or TEAM/NAME
        which: String,
        #[command(flatten)]
        when: When,
        #[command(flatten)]
        form: Form,
    },
    /// Let a trigger fire from now on
    #[command(after_help = "Example:\n  hivewright trigger enable news/morning")]
    Enable {
        /// Its id, or TEAM/NAME
        which: String,
    },
    /// Let a trigger fire no more
    #[command(
        after_help = "Example:\n  hivewright trigger disable news/morning --reason \"holidays\""
    )]
    Disable {
        /// Its id, or TEAM/NAME
        which: String,
        #[command(flatten)]
        off: TriggerOff,
    },
    /// Start a run right now; the schedule stays as it is
    #[command(after_help = "Example:\n  hivewright trigger run news/morning")]
    Run {
        /// Its id, or TEAM/NAME
        which: String,
        #[command(flatten)]
        start: TriggerStart,
    },
    /// Show what came of a trigger's firings, newest first
    #[command(after_help = "Example:\n  hivewright trigger runs news/morning --limit 10")]
    Runs {
        /// Its id, or TEAM/NAME
        which: String,
        #[command(flatten)]
        limit: Limit,
    },
    /// Remove a trigger; what runs goes on, and its runs are kept
    #[command(after_help = "Example:\n  hivewright trigger delete news/morning")]
    Delete {
        /// Its id, or TEAM/NAME
        which: String,
    },
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

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List(filter) => screen.rows(&service.rows(&LIST_TRIGGERS, &filter, &MOST).await?),
        Action::Show { which } => {
            let shown = service.at(&SHOW_TRIGGER, &find(&service, &which).await?).await?;
            let fields = shown.document["data"].clone();
            screen.answer(&shown, |_| show::fields(&fields))
        }
        Action::Create { team, name, when, form, enable } => {
            let (kind, config) = when.config()?;
            let kind = kind.ok_or_else(|| Failure::new(Exit::Usage, NO_TYPE))?;
            let mut fields = form.fields()?;
            fields.insert("name".to_owned(), name.into());
            fields.insert("type".to_owned(), kind.as_str().into());
            fields.insert("config".to_owned(), config.into());
            let new = NewTrigger { team, enable: Some(enable), fields };
            let made = service.call(&CREATE_TRIGGER, &Empty {}, &Empty {}, &new).await?;
            screen.done(&made, &show::state(&made.data()?))
        }
        Action::Edit { which, when, form } => {
            let mut fields = form.fields()?;
            let (_, config) = when.config()?;
            if !config.is_empty() {
                fields.insert("config".to_owned(), config.into());
            }
            let path = find(&service, &which).await?;
            let change = TriggerChange { fields };
            let changed = service.call(&CHANGE_TRIGGER, &path, &Empty {}, &change).await?;
            screen.done(&changed, &show::state(&changed.data()?))
        }
        Action::Enable { which } => {
            let enabled = service.at(&ENABLE_TRIGGER, &find(&service, &which).await?).await?;
            screen.done(&enabled, &show::state(&enabled.data()?))
        }
        Action::Disable { which, off } => {
            let path = find(&service, &which).await?;
            let disabled = service.call(&DISABLE_TRIGGER, &path, &Empty {}, &off).await?;
            screen.done(&disabled, &format!("{which} is disabled"))
        }
        Action::Run { which, start } => {
            let path = find(&service, &which).await?;
            let started = service.call(&RUN_TRIGGER, &path, &Empty {}, &start).await?;
            screen.answer(&started, |run| show::started(&run))
        }
        Action::Runs { which, limit } => {
            let path = target(&LIST_RUNS, &find(&service, &which).await?)?;
            let runs = service.search(&path, [("limit", limit.limit.to_string())]).await?;
            screen.rows(&Answer::<Vec<RunRow>>::new(runs))
        }
        Action::Delete { which } => {
            service.at(&DELETE_TRIGGER, &find(&service, &which).await?).await?;
            let answer: Answer<Value> = Answer::new(json!({"data": {"deleted": which}}));
            screen.done(&answer, &format!("{which} is deleted"))
        }
        Action::Preview { when, sample } => {
            let (kind, config) = when.config()?;
            let kind = kind.ok_or_else(|| Failure::new(Exit::Usage, NO_TYPE))?;
            let sketch = TriggerSketch { kind, config, sample };
            let seen = service.call(&PREVIEW_TRIGGER, &Empty {}, &Empty {}, &sketch).await?;
            screen.answer(&seen, |preview| show::preview(&preview))
        }
    }
}

/// A trigger that is named by its id, or as TEAM/NAME.
async fn find(service: &Service, which: &str) -> Result<ById, Failure> {
    let Some((team, name)) = which.split_once('/') else {
        return Ok(ById { id: which.to_owned() });
    };
    let filter = TriggerFilter { team: Some(team.to_owned()), ..TriggerFilter::default() };
    let rows: Vec<TriggerRow> = service.rows(&LIST_TRIGGERS, &filter, &MOST).await?.data()?;
    let found = rows.into_iter().find(|row| row.definition.name == name);
    found.map(|row| ById { id: row.id.to_string() }).ok_or_else(|| {
        let message = format!(
            "team `{team}` has no trigger `{name}`; `hivewright trigger list --team {team}` shows those there are"
        );
        Failure::new(Exit::NotFound, message)
    })
}
