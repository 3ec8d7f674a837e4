//! `hivewright tasks`: what is done, and what was.

use clap::{Args, Subcommand};

use super::{Context, events::until_stopped, failure::Failure, send::words, service::Service};
use crate::api::{
    endpoint::{ById, Empty},
    flags::Limit,
    tasks::{
        CANCEL_TASK, CREATE_TASK, LIST_TASKS, NewTask, RETRY_TASK, SHOW_TASK, TaskCancel,
        TaskFilter,
    },
};

mod show;
mod watch;

/// See, give, follow, cancel and retry tasks
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright tasks list --team main --state running\n  \
    hivewright tasks create research \"Find out who was here first.\" --watch\n  \
    hivewright tasks cancel task-61c8864680b583eb --cascade")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with tasks.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List tasks, those that are open first, each newest first
    #[command(after_help = "Example:\n  hivewright tasks list --state dead --since 24h")]
    List {
        #[command(flatten)]
        filter: TaskFilter,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show all of one task
    #[command(after_help = "Example:\n  hivewright tasks show task-61c8864680b583eb")]
    Show {
        /// The task
        id: String,
    },
    /// Give work to a team and print the id of the task
    #[command(after_help = "Examples:\n  \
        hivewright tasks create research \"Find out who was here first.\" --deadline 2h\n  \
        hivewright tasks create research - --watch < brief.md\n\n\
        The main team works in topics: `hivewright send` is for it.")]
    Create {
        #[command(flatten)]
        new: NewTask,
        /// Follow it to its end
        #[arg(long)]
        watch: bool,
    },
    /// Follow a task to its end, or all tasks until Ctrl-C
    #[command(after_help = "Examples:\n  \
        hivewright tasks watch task-61c8864680b583eb\n  \
        hivewright tasks watch --team research --json\n\n\
        A task that does not end well is exit code 1.")]
    Watch {
        /// The task; all, if none is named
        #[arg(conflicts_with = "team")]
        id: Option<String>,
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
    },
    /// End a task, also one that runs
    #[command(
        after_help = "Example:\n  hivewright tasks cancel task-61c8864680b583eb --reason \"no need\""
    )]
    Cancel {
        /// The task
        id: String,
        #[command(flatten)]
        cancel: TaskCancel,
    },
    /// Try a task that did not end well again, as a new one
    #[command(after_help = "Example:\n  hivewright tasks retry task-61c8864680b583eb")]
    Retry {
        /// The task
        id: String,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List { filter, limit } => {
            screen.rows(&service.rows(&LIST_TASKS, &filter, &limit).await?)
        }
        Action::Show { id } => {
            screen.answer(&service.at(&SHOW_TASK, &ById { id }).await?, |task| show::one(&task))
        }
        Action::Create { new, watch } => {
            let new = NewTask { task: words(new.task).await?, ..new };
            let given = service.call(&CREATE_TASK, &Empty {}, &Empty {}, &new).await?;
            if watch {
                let id = given.data()?.id;
                return until_stopped(watch::one(id.as_str(), context)).await;
            }
            screen.answer(&given, |given| format!("{}\n", given.id))
        }
        Action::Watch { id: Some(id), .. } => until_stopped(watch::one(&id, context)).await,
        Action::Watch { id: None, team } => until_stopped(watch::all(team, context)).await,
        Action::Cancel { id, cancel } => {
            let path = ById { id };
            let cancelled = service.call(&CANCEL_TASK, &path, &Empty {}, &cancel).await?;
            let state = cancelled.data()?.state;
            screen.done(&cancelled, &format!("{} is {state}", path.id))
        }
        Action::Retry { id } => {
            let retried = service.at(&RETRY_TASK, &ById { id }).await?;
            screen.answer(&retried, |retried| format!("{}\n", retried.id))
        }
    }
}
