//! `hivewright teams`: who works here.

use clap::{Args, Subcommand};
use hivewright_actors::excerpt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    ask::confirm,
    failure::{Exit, Failure},
    screen::printable,
    service::{Service, data},
    table::{moment, table},
    untrusted,
};

/// See, make, pause and shut down teams
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright teams list\n  \
    hivewright teams create research --scope web --scope reports --description \"Finds things out\"\n  \
    hivewright teams pause research --now")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with teams.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List teams
    #[command(after_help = "Example:\n  hivewright teams list --state paused")]
    List {
        /// Only those in this state: active, paused, degraded or draining
        #[arg(long)]
        state: Option<String>,
        /// Only those right below this team
        #[arg(long, value_name = "TEAM")]
        parent: Option<String>,
        /// Only those with these words in name, description or scope
        #[arg(long, value_name = "WORDS")]
        query: Option<String>,
    },
    /// Show all of one team
    #[command(after_help = "Example:\n  hivewright teams show research")]
    Show {
        /// The team
        name: String,
    },
    /// Show who is below whom
    #[command(after_help = "Example:\n  hivewright teams tree")]
    Tree,
    /// Make a team; it sets itself up first
    #[command(
        after_help = "Example:\n  hivewright teams create research --scope web --description \"Finds things out\""
    )]
    Create {
        /// Lower-case words with `-` between them, 2 to 48 characters
        name: String,
        /// Words for what it takes on
        #[arg(long = "scope", required = true, value_name = "WORDS")]
        scope: Vec<String>,
        /// What it is for
        #[arg(long, default_value = "")]
        description: String,
        /// The team above it
        #[arg(long, default_value = "main", value_name = "TEAM")]
        parent: String,
        /// A file with what it should know from the start
        #[arg(long, value_name = "FILE")]
        context: Option<std::path::PathBuf>,
        /// Tools by name, pattern or group; without any, the usual ones
        #[arg(long = "tool", value_name = "PATTERN")]
        tools: Vec<String>,
        /// The profile of its model
        #[arg(long)]
        profile: Option<String>,
    },
    /// Let a team rest: tasks are accepted, none is started
    #[command(after_help = "Examples:\n  \
        hivewright teams pause research\n  \
        hivewright teams pause --all --now")]
    Pause {
        /// The team
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// All teams
        #[arg(long)]
        all: bool,
        /// Also stop what runs; it goes on from there later
        #[arg(long)]
        now: bool,
    },
    /// Let a team work again
    #[command(after_help = "Examples:\n  \
        hivewright teams resume research\n  \
        hivewright teams resume --all")]
    Resume {
        /// The team
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        name: Option<String>,
        /// All teams
        #[arg(long)]
        all: bool,
    },
    /// Say what a team may do beyond its tools; without any, nothing
    #[command(after_help = "Examples:\n  \
        hivewright teams capabilities research triggers\n  \
        hivewright teams capabilities research")]
    Capabilities {
        /// The team
        name: String,
        /// Of: triggers, lifecycle, spawn, configure
        #[arg(value_name = "CAPABILITY")]
        capabilities: Vec<String>,
    },
    /// List files that untrusted turns of a team wrote
    #[command(after_help = "Example:\n  hivewright teams untrusted research")]
    Untrusted {
        /// The team
        name: String,
    },
    /// Accept files that untrusted turns of a team wrote, as they are now
    #[command(after_help = "Examples:\n  \
        hivewright teams accept research notes/plan.md\n  \
        hivewright teams accept research --all")]
    Accept {
        /// The team
        name: String,
        /// Paths, as `untrusted` lists them
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "PATH")]
        paths: Vec<String>,
        /// All that are listed
        #[arg(long)]
        all: bool,
    },
    /// Let a team that could not set itself up try again
    #[command(after_help = "Example:\n  hivewright teams bootstrap research")]
    Bootstrap {
        /// The team
        name: String,
    },
    /// Shut a team down for good; its folder goes to the trash
    #[command(after_help = "Example:\n  hivewright teams shutdown research --cascade --yes")]
    Shutdown {
        /// The team
        name: String,
        /// Also all teams below it
        #[arg(long)]
        cascade: bool,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    let (answer, shown) = match arguments.action {
        Action::List { state, parent, query } => {
            let fields = [
                ("state", state),
                ("parent", parent),
                ("q", query),
                ("limit", Some("200".to_owned())),
            ];
            let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let answer = service.search("/api/v1/teams", fields).await?;
            let shown = Shown::Text(list(&answer)?);
            (answer, shown)
        }
        Action::Show { name } => {
            let answer = service.get(&path(&name, "")?).await?;
            let shown = Shown::Text(one(&answer)?);
            (answer, shown)
        }
        Action::Tree => {
            let answer = service.get("/api/v1/org").await?;
            let mut text = String::new();
            draw(&data::<Node>(&answer)?, "", "", &mut text);
            (answer, Shown::Text(text))
        }
        Action::Create { name, scope, description, parent, context, tools, profile } => {
            let init_context = match context {
                Some(file) => Some(std::fs::read_to_string(&file).map_err(|error| {
                    Failure::system(format!("`{}` cannot be read", file.display()), error)
                })?),
                None => None,
            };
            let wish = json!({
                "name": name,
                "parent": parent,
                "description": description,
                "scope_accepts": scope,
                "init_context": init_context,
                "allowed_tools": (!tools.is_empty()).then_some(tools),
                "provider_profile": profile,
            });
            let answer = service.post("/api/v1/teams", &wish).await?;
            let line = format!("team {name} is made and sets itself up");
            (answer, Shown::Remark(line))
        }
        Action::Pause { name, now, .. } => {
            let way = match &name {
                Some(name) => path(name, "/pause")?,
                None => "/api/v1/pause".to_owned(),
            };
            let answer = service.post(&way, &json!({ "now": now })).await?;
            let line = format!("paused: {}", names(&answer));
            (answer, Shown::Remark(line))
        }
        Action::Resume { name, .. } => {
            let way = match &name {
                Some(name) => path(name, "/resume")?,
                None => "/api/v1/resume".to_owned(),
            };
            let answer = service.post(&way, &json!({})).await?;
            let line = format!("working: {}", names(&answer));
            (answer, Shown::Remark(line))
        }
        Action::Capabilities { name, capabilities } => {
            let change = json!({ "capabilities": capabilities });
            let answer = service.patch(&path(&name, "")?, &change).await?;
            let line = if capabilities.is_empty() {
                format!("team {name} may do nothing beyond its tools")
            } else {
                format!("team {name} may also: {}", capabilities.join(", "))
            };
            (answer, Shown::Remark(line))
        }
        Action::Untrusted { name } => return untrusted::list(&service, context, name).await,
        Action::Accept { name, paths, all } => {
            let paths = (!all).then_some(paths.as_slice());
            return untrusted::accept(&service, context, name, paths).await;
        }
        Action::Bootstrap { name } => {
            let answer = service.post(&path(&name, "/bootstrap")?, &json!({})).await?;
            let line = match answer["data"]["task_id"].as_str() {
                Some(task) => format!("team {name} sets itself up again, as {task}"),
                None => format!("team {name} is ready; there is nothing to set up"),
            };
            (answer, Shown::Remark(line))
        }
        Action::Shutdown { name, cascade } => {
            let found = service.get(&path(&name, "")?).await?;
            let question = if cascade {
                "Shut it down for good, with all teams below it?"
            } else {
                "Shut it down for good?"
            };
            confirm(context, &one(&found)?, question)?;
            let way = path(&name, if cascade { "?cascade=true" } else { "" })?;
            let answer = service.remove(&way).await?;
            let line = match answer["data"]["trash"].as_str() {
                Some(trash) => format!("shut down: {}; its folder is {trash}", removed(&answer)),
                None if answer["data"]["state"] == "draining" => {
                    format!("team {name} still has work to end; it goes after that")
                }
                None => format!("shut down: {}", removed(&answer)),
            };
            (answer, Shown::Remark(line))
        }
    };
    if screen.json {
        return screen.document(&answer);
    }
    match shown {
        Shown::Text(text) => screen.write(&text),
        Shown::Remark(line) => screen.remark(&line),
    }
    Ok(())
}

/// What people see of an answer.
enum Shown {
    Text(String),
    Remark(String),
}

/// The way to a team. A name that is none would lead elsewhere.
fn path(name: &str, rest: &str) -> Result<String, Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if name.is_empty() || !name.bytes().all(plain) {
        let message = format!("`{name}` is no name of a team");
        return Err(Failure::new(Exit::Usage, message));
    }
    Ok(format!("/api/v1/teams/{name}{rest}"))
}

fn names(answer: &Value) -> String {
    joined(&answer["data"]["teams"])
}

fn removed(answer: &Value) -> String {
    joined(&answer["data"]["removed"])
}

fn joined(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten();
    let names: Vec<&str> = names.filter_map(Value::as_str).collect();
    match names.as_slice() {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

#[derive(Debug, Deserialize)]
struct Row {
    name: String,
    parent: Option<String>,
    state: String,
    phase: String,
    running: u64,
    pending: u64,
    model: Option<String>,
    description: String,
}

fn list(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        [
            row.name,
            row.parent.unwrap_or_else(|| "-".to_owned()),
            row.state,
            row.phase,
            row.running.to_string(),
            row.pending.to_string(),
            row.model.unwrap_or_else(|| "-".to_owned()),
            first_line(&row.description),
        ]
    });
    let heading = ["NAME", "PARENT", "STATE", "PHASE", "RUNNING", "QUEUED", "MODEL", "FOR"];
    Ok(table(heading, rows))
}

fn first_line(text: &str) -> String {
    excerpt::line(text.lines().next().unwrap_or_default(), 60)
}

#[derive(Debug, Deserialize)]
struct Node {
    name: String,
    state: String,
    running: u64,
    pending: u64,
    #[serde(default)]
    teams: Vec<Node>,
}

/// A team, and those below it further in.
fn draw(node: &Node, before: &str, below: &str, text: &mut String) {
    let work = match (node.running, node.pending) {
        (0, 0) => String::new(),
        (running, pending) => format!(", {running} running, {pending} queued"),
    };
    let line = format!("{before}{} ({}{work})\n", node.name, node.state);
    text.push_str(&printable(&line));
    for (place, child) in node.teams.iter().enumerate() {
        let (before, further) = if place + 1 == node.teams.len() {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        draw(child, &format!("{below}{before}"), &format!("{below}{further}"), text);
    }
}

#[derive(Debug, Deserialize)]
struct Detail {
    #[serde(flatten)]
    row: Row,
    generation: u32,
    fault: Option<String>,
    teams: Vec<String>,
    scope: Vec<String>,
    created_at: Option<String>,
    created_by: String,
    usage_today: Spent,
    budget: Option<Value>,
    tasks: Vec<Work>,
}

#[derive(Debug, Deserialize)]
struct Spent {
    usd: f64,
    tokens: u64,
}

#[derive(Debug, Deserialize)]
struct Work {
    task_id: String,
    #[serde(rename = "type")]
    kind: String,
    state: String,
    wait_reason: Option<String>,
    age_ms: u64,
}

fn one(answer: &Value) -> Result<String, Failure> {
    let Detail {
        row,
        generation,
        fault,
        teams,
        scope,
        created_at,
        created_by,
        usage_today,
        budget,
        tasks,
    } = data(answer)?;
    let since = created_at.as_deref().map(moment).unwrap_or_default();
    let caps: Vec<String> = budget
        .iter()
        .filter_map(Value::as_object)
        .flatten()
        .filter(|(_, cap)| !cap.is_null())
        .map(|(name, cap)| format!("{name} {cap}"))
        .collect();
    let or_none = |text: String| match text.as_str() {
        "" => "none".to_owned(),
        _ => text,
    };
    let mut lines = vec![
        ("name", format!("{}, life {generation}", row.name)),
        ("state", format!("{}, {}", row.state, row.phase)),
        ("for", or_none(row.description)),
        ("parent", or_none(row.parent.unwrap_or_default())),
        ("teams", or_none(teams.join(", "))),
        ("scope", or_none(scope.join(", "))),
        ("model", or_none(row.model.unwrap_or_default())),
        ("today", format!("{} tokens, {:.4} USD", usage_today.tokens, usage_today.usd)),
        ("budget", or_none(caps.join(", "))),
        ("made", format!("{since} by {created_by}")),
    ];
    if let Some(fault) = fault {
        lines.insert(2, ("fault", fault));
    }
    for task in tasks {
        let why = task.wait_reason.map(|reason| format!(" for {reason}"));
        let age = std::time::Duration::from_secs(task.age_ms / 1_000);
        lines.push((
            "task",
            format!(
                "{} {} {}{}, since {age:?}",
                task.task_id,
                task.kind,
                task.state,
                why.unwrap_or_default()
            ),
        ));
    }
    let lines = lines.iter().map(|(name, value)| printable(&format!("{name:<8} {value}\n")));
    Ok(lines.collect())
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-79, OP-84
    #[test]
    fn teams_are_listed_in_columns() {
        let answer = json!({"data": [
            {"name": "main", "parent": null, "state": "active", "phase": "ready", "running": 1,
             "pending": 0, "model": "llama3", "description": ""},
            {"name": "scouts", "parent": "main", "state": "paused", "phase": "failed", "running": 0,
             "pending": 12, "model": null, "description": "Looks around.\nAnd back."},
        ]});

        let expected = "\
NAME    PARENT  STATE   PHASE   RUNNING  QUEUED  MODEL   FOR
main    -       active  ready   1        0       llama3
scouts  main    paused  failed  0        12      -       Looks around.
";
        assert_eq!(list(&answer).unwrap(), expected);
    }

    /// OP-79
    #[test]
    fn a_tree_is_drawn() {
        let leaf =
            |name: &str| json!({"name": name, "state": "active", "running": 0, "pending": 0});
        let mut scouts = leaf("scouts");
        scouts["teams"] = json!([leaf("guides")]);
        scouts["running"] = json!(2);
        let mut main = leaf("main");
        main["teams"] = json!([scouts, leaf("smiths")]);
        let mut text = String::new();

        draw(&serde_json::from_value(main).unwrap(), "", "", &mut text);

        let expected = "\
main (active)
├── scouts (active, 2 running, 0 queued)
│   └── guides (active)
└── smiths (active)
";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_none() {
        assert_eq!(path("far-scouts", "/pause").unwrap(), "/api/v1/teams/far-scouts/pause");
        for name in ["", "../tokens", "a/b", "a?b", "a b"] {
            assert_eq!(path(name, "").unwrap_err().exit, Exit::Usage, "{name}");
        }
    }
}
