//! `hivewright tasks`: what is done, and what was.

use clap::{Args, Subcommand};
use serde_json::json;

use super::{
    Context,
    events::until_stopped,
    failure::{Exit, Failure},
    send::words,
    service::{Service, given},
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

const PATH: &str = "/api/v1/tasks";

/// What to do with tasks.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List tasks, those that are open first, each newest first
    #[command(after_help = "Example:\n  hivewright tasks list --state dead --since 24h")]
    List {
        /// Only in this state: accepted, running, waiting, done, failed, cancelled, expired or dead
        #[arg(long)]
        state: Option<String>,
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
        /// Only of this type: chat, delegate, query, trigger, escalation, bootstrap, message, handoff, result or agent
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Only of this priority: critical, high, normal or low
        #[arg(long)]
        priority: Option<String>,
        /// Only of this topic
        #[arg(long, value_name = "ID")]
        topic: Option<String>,
        /// Only what came of this task
        #[arg(long, value_name = "ID")]
        root: Option<String>,
        /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h
        #[arg(long)]
        since: Option<String>,
        /// Only until such a moment
        #[arg(long)]
        until: Option<String>,
        /// Only those with these words in them
        #[arg(long, value_name = "WORDS")]
        query: Option<String>,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
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
        /// The team
        team: String,
        /// What is to be done; `-` reads it from standard input
        text: String,
        /// critical, high, normal or low
        #[arg(long)]
        priority: Option<String>,
        /// How long it may take, such as 30m
        #[arg(long, value_name = "DURATION")]
        deadline: Option<String>,
        /// The most model calls, 1 to 500
        #[arg(long, value_name = "COUNT")]
        max_steps: Option<u32>,
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
        /// Why, for whoever asked for it
        #[arg(long)]
        reason: Option<String>,
        /// Also all open tasks that came of it
        #[arg(long)]
        cascade: bool,
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
        Action::List { state, team, kind, priority, topic, root, since, until, query, limit } => {
            let fields = [
                ("state", state),
                ("team", team),
                ("type", kind),
                ("priority", priority),
                ("topic", topic),
                ("root", root),
                ("since", since),
                ("until", until),
                ("q", query),
                ("limit", Some(limit.to_string())),
            ];
            let answer = service.search(PATH, given(fields)).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&show::list(&answer)?);
        }
        Action::Show { id } => {
            let answer = service.get(&path(&id, "")?).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&show::one(&answer)?);
        }
        Action::Create { team, text, priority, deadline, max_steps, watch } => {
            let mut wish = json!({"team": team, "task": words(text).await?});
            let more = [
                ("priority", priority.map(|priority| json!(priority))),
                ("deadline", deadline.map(|deadline| json!(deadline))),
                ("max_steps", max_steps.map(|steps| json!(steps))),
            ];
            for (name, value) in more {
                if let Some(value) = value {
                    wish[name] = value;
                }
            }
            let answer = service.post(PATH, &wish).await?;
            let id = answer["data"]["id"].as_str().unwrap_or_default();
            match watch {
                true => return until_stopped(watch::one(id, context)).await,
                false if screen.json => return screen.document(&answer),
                false => screen.say(id),
            }
        }
        Action::Watch { id: Some(id), .. } => return until_stopped(watch::one(&id, context)).await,
        Action::Watch { id: None, team } => return until_stopped(watch::all(team, context)).await,
        Action::Cancel { id, reason, cascade } => {
            let body = json!({ "reason": reason, "cascade": cascade });
            let answer = service.post(&path(&id, "/cancel")?, &body).await?;
            if screen.json {
                return screen.document(&answer);
            }
            let state = answer["data"]["state"].as_str().unwrap_or("cancelled");
            screen.remark(&format!("{id} is {state}"));
        }
        Action::Retry { id } => {
            let answer = service.post(&path(&id, "/retry")?, &json!({})).await?;
            if screen.json {
                return screen.document(&answer);
            }
            let new = answer["data"]["id"].as_str().unwrap_or_default();
            screen.say(new);
        }
    }
    Ok(())
}

/// The way to a task. An id that is none would lead elsewhere.
fn path(id: &str, rest: &str) -> Result<String, Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:~".contains(&byte);
    if id.is_empty() || id.starts_with('.') || !id.bytes().all(plain) {
        let message = format!("`{id}` is no id of a task");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(format!("{PATH}/{id}{rest}"))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn an_id_that_leads_elsewhere_is_none() {
        assert_eq!(path("task-1~r", "/cancel").unwrap(), "/api/v1/tasks/task-1~r/cancel");
        for id in ["", "..", "a/b", "a?b", "a b"] {
            assert_eq!(path(id, "").unwrap_err().exit, Exit::Usage, "{id}");
        }
    }
}
