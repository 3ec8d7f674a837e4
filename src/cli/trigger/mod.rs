//! `hivewright trigger`: what starts work without a person typing.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde_json::{Map, Value, json};

use super::{
    Context,
    failure::{Exit, Failure},
    service::{Service, given},
};

mod form;
mod show;

use form::{Form, When};

const PATH: &str = "/api/v1/triggers";

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
    List {
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
        /// Only in this state: pending, active, disabled, finished
        #[arg(long)]
        state: Option<String>,
        /// Only of this type
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Only those that this subagent works for
        #[arg(long, value_name = "NAME")]
        subagent: Option<String>,
        /// Only those with these words in name or task
        #[arg(long, value_name = "WORDS")]
        query: Option<String>,
    },
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
        /// Why
        #[arg(long)]
        reason: Option<String>,
        /// Also stop what it started last
        #[arg(long)]
        cancel_running: bool,
    },
    /// Start a run right now; the schedule stays as it is
    #[command(after_help = "Example:\n  hivewright trigger run news/morning")]
    Run {
        /// Its id, or TEAM/NAME
        which: String,
        /// A message or a body, as it would have come
        #[arg(long)]
        sample: Option<String>,
    },
    /// Show what came of a trigger's firings, newest first
    #[command(after_help = "Example:\n  hivewright trigger runs news/morning --limit 10")]
    Runs {
        /// Its id, or TEAM/NAME
        which: String,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
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
    let answer = ask(&arguments.action, &service).await?;
    if screen.json {
        return screen.document(&answer);
    }
    match &arguments.action {
        Action::List { .. } => screen.write(&show::triggers(&answer)?),
        Action::Show { .. } => screen.write(&show::trigger(&answer)),
        Action::Create { .. } | Action::Edit { .. } | Action::Enable { .. } => {
            for line in show::state(&answer) {
                screen.remark(&line);
            }
        }
        Action::Disable { which, .. } => screen.remark(&format!("{which} is disabled")),
        Action::Delete { which } => screen.remark(&format!("{which} is deleted")),
        Action::Run { .. } => screen.write(&show::started(&answer)),
        Action::Runs { .. } => screen.write(&show::runs(&answer)?),
        Action::Preview { .. } => screen.write(&show::preview(&answer)),
    }
    Ok(())
}

async fn ask(action: &Action, service: &Service) -> Result<Value, Failure> {
    match action {
        Action::List { team, state, kind, subagent, query } => {
            let fields = [
                ("team", team.clone()),
                ("state", state.clone()),
                ("type", kind.clone()),
                ("subagent", subagent.clone()),
                ("q", query.clone()),
                ("limit", Some("200".to_owned())),
            ];
            service.search(PATH, given(fields)).await
        }
        Action::Show { which } => service.get(&path(service, which, "").await?).await,
        Action::Create { team, name, when, form, enable } => {
            let mut wish = form.fields()?;
            let (kind, config) = when.config()?;
            let kind = kind.ok_or_else(|| {
                let message = "say when it fires: --cron, --at, --every, --keyword, --message, or --type with --config";
                Failure::new(Exit::Usage, message)
            })?;
            wish.insert("team".to_owned(), json!(team));
            wish.insert("name".to_owned(), json!(name));
            wish.insert("type".to_owned(), json!(kind));
            wish.insert("config".to_owned(), Value::Object(config));
            wish.insert("enable".to_owned(), json!(enable));
            service.post(PATH, &Value::Object(wish)).await
        }
        Action::Edit { which, when, form } => {
            let mut wish = form.fields()?;
            let (_, config) = when.config()?;
            if !config.is_empty() {
                wish.insert("config".to_owned(), Value::Object(config));
            }
            let path = path(service, which, "").await?;
            service.patch(&path, &Value::Object(wish)).await
        }
        Action::Enable { which } => {
            let path = path(service, which, "/enable").await?;
            service.post(&path, &json!({})).await
        }
        Action::Disable { which, reason, cancel_running } => {
            let path = path(service, which, "/disable").await?;
            let wish = json!({ "reason": reason, "cancel_running": cancel_running });
            service.post(&path, &wish).await
        }
        Action::Run { which, sample } => {
            let path = path(service, which, "/run").await?;
            service.post(&path, &json!({ "sample": sample })).await
        }
        Action::Runs { which, limit } => {
            let path = path(service, which, "/runs").await?;
            service.search(&path, [("limit", limit.to_string())]).await
        }
        Action::Delete { which } => {
            let path = path(service, which, "").await?;
            service.act(Method::DELETE, &path).await?;
            Ok(json!({ "data": { "deleted": which } }))
        }
        Action::Preview { when, sample } => {
            let (kind, config) = when.config()?;
            let mut wish = Map::new();
            wish.insert("type".to_owned(), json!(kind.unwrap_or_default()));
            wish.insert("config".to_owned(), Value::Object(config));
            if let Some(sample) = sample {
                wish.insert("sample".to_owned(), json!(sample));
            }
            let path = format!("{PATH}/preview");
            service.post(&path, &Value::Object(wish)).await
        }
    }
}

/// The path of a trigger that is named by its id, or as TEAM/NAME.
async fn path(service: &Service, which: &str, below: &str) -> Result<String, Failure> {
    let Some((team, name)) = which.split_once('/') else {
        return Ok(format!("{PATH}/{which}{below}"));
    };
    let fields = [("team", team.to_owned()), ("limit", "200".to_owned())];
    let answer = service.search(PATH, fields).await?;
    let rows = answer["data"].as_array().into_iter().flatten();
    let id = rows.filter(|row| row["name"] == name).find_map(|row| row["id"].as_str());
    match id {
        Some(id) => Ok(format!("{PATH}/{id}{below}")),
        None => Err(Failure::new(
            Exit::NotFound,
            format!(
                "team `{team}` has no trigger `{name}`; `hivewright trigger list --team {team}` shows those there are"
            ),
        )),
    }
}
