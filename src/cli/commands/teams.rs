//! `hivewright teams`: who works here.

use std::{fs, path::Path, time::Duration};

use clap::{Args, Subcommand};
use hivewright_actors::org::{Removed, record::Capability};
use serde_json::json;

use super::untrusted_files;
use crate::{
    api::{
        endpoint::{ByName, Empty},
        flags::words,
        mcp::*,
        reply::Settled,
        teams::*,
    },
    cli::{
        client::Service,
        context::Context,
        failure::Failure,
        prompt::confirm,
        screen::printable,
        table::{self, columns, date, first_line, joined},
        watch::Watched,
    },
};

/// How much of what a team is for a line shows, in characters.
const SHOWN: usize = 60;

/// See, make, pause and shut down teams
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright teams list\n  \
    hivewright teams create research --scope web --scope reports --description \"Finds things out\"\n  \
    hivewright teams pause research --now")]
pub(super) enum Action {
    /// List teams
    #[command(after_help = "Example:\n  hivewright teams list --state paused")]
    List(Watched<TeamFilter>),
    /// Show all of one team
    #[command(after_help = "Example:\n  hivewright teams show research")]
    Show(Which),
    /// Show who is below whom
    #[command(after_help = "Example:\n  hivewright teams tree")]
    Tree,
    /// Make a team; it sets itself up first
    #[command(after_help = "Examples:\n  \
        hivewright teams create research --scope web --description \"Finds things out\"\n  \
        hivewright teams create coders --template coder")]
    Create {
        /// A kind of team that is common: what is not said here is taken from it
        #[arg(long, value_parser = words::<Template>())]
        template: Option<Template>,
        #[command(flatten)]
        team: NewTeam,
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
        #[command(flatten)]
        pause: TeamPause,
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
        #[command(flatten)]
        team: Which,
        /// What it may do
        #[arg(value_name = "CAPABILITY", value_parser = words::<Capability>())]
        capabilities: Vec<Capability>,
    },
    /// List files that untrusted turns of a team wrote
    #[command(after_help = "Example:\n  hivewright teams untrusted research")]
    Untrusted(Which),
    /// Accept files that untrusted turns of a team wrote, as they are now
    #[command(after_help = "Examples:\n  \
        hivewright teams accept research notes/plan.md\n  \
        hivewright teams accept research --all")]
    Accept {
        #[command(flatten)]
        team: Which,
        /// Paths, as `untrusted` lists them
        #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "PATH")]
        paths: Vec<String>,
        /// All that are listed
        #[arg(long)]
        all: bool,
    },
    /// List the MCP servers of teams, and how they stand
    #[command(
        after_help = "Examples:\n  hivewright teams servers\n  hivewright teams servers research"
    )]
    Servers(McpServerFilter),
    /// End an MCP server of a team; the next turn or call starts it again
    #[command(after_help = "Example:\n  hivewright teams restart-server research github")]
    RestartServer {
        #[command(flatten)]
        team: Which,
        /// The server
        server: String,
    },
    /// Let a team that could not set itself up try again
    #[command(after_help = "Example:\n  hivewright teams bootstrap research")]
    Bootstrap(Which),
    /// Shut a team down for good; its folder goes to the trash
    #[command(after_help = "Example:\n  hivewright teams shutdown research --cascade --yes")]
    Shutdown {
        #[command(flatten)]
        team: Which,
        #[command(flatten)]
        how: TeamShutdown,
    },
}

// A doc comment here would become that of every command that has it.
#[derive(Debug, PartialEq, Args)]
pub(super) struct Which {
    /// The team
    name: String,
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List(list) => list.show_all(&LIST_TEAMS, context).await,
        Action::Show(Which { name }) => {
            service.at(&SHOW_TEAM, &ByName { name }).await?.show(screen, one)
        }
        Action::Tree => service.at(&SHOW_ORG, &Empty {}).await?.show(screen, |root| {
            let mut text = String::new();
            draw(&root, "", "", &mut text);
            text
        }),
        Action::Create { template, team } => {
            let team = wanted(template, team)?;
            let remark = format!("team {} is made and sets itself up", team.name);
            let order = TeamOrder { team, credentials: Default::default() };
            service.give(&CREATE_TEAM, &order).await?.tell(screen, |_| remark)
        }
        Action::Pause { name, pause, .. } => {
            let paused = match name {
                Some(name) => service.send(&PAUSE_TEAM, &ByName { name }, &pause).await?,
                None => service.give(&PAUSE_ALL, &pause).await?,
            };
            paused.tell(screen, |paused| format!("paused: {}", joined(&paused.teams)))
        }
        Action::Resume { name, .. } => {
            let resumed = match name {
                Some(name) => service.at(&RESUME_TEAM, &ByName { name }).await?,
                None => service.at(&RESUME_ALL, &Empty {}).await?,
            };
            resumed.tell(screen, |resumed| format!("working: {}", joined(&resumed.teams)))
        }
        Action::Capabilities { team: Which { name }, capabilities } => {
            let remark = if capabilities.is_empty() {
                format!("team {name} may do nothing beyond its tools")
            } else {
                format!("team {name} may also: {}", joined(&capabilities))
            };
            let capabilities = Some(capabilities.into_iter().collect());
            let change = TeamChange { capabilities, ..TeamChange::default() };
            let changed = service.send(&CHANGE_TEAM, &ByName { name }, &change).await?;
            changed.tell(screen, |_| remark)
        }
        Action::Untrusted(Which { name }) => {
            untrusted_files::rows(&service, &ByName { name }).await?.table(screen)
        }
        Action::Accept { team: Which { name }, paths, all } => {
            let paths = (!all).then_some(paths.as_slice());
            untrusted_files::accept(&service, &ByName { name }, paths, screen).await
        }
        Action::Servers(filter) => service.all(&LIST_SERVERS, &filter).await?.table(screen),
        Action::RestartServer { team: Which { name: team }, server } => {
            let ended = service.at(&RESTART_SERVER, &ByServer { team, server }).await?;
            ended.tell(screen, |McpServerRow { server, team, .. }| {
                format!("ended: {server} of team {team}; the next turn or call starts it again")
            })
        }
        Action::Bootstrap(Which { name }) => {
            let path = ByName { name };
            let name = &path.name;
            service.at(&BOOTSTRAP_TEAM, &path).await?.tell(screen, |begun| match begun.task_id {
                Some(task) => format!("team {name} sets itself up again, as {task}"),
                None => format!("team {name} is ready; there is nothing to set up"),
            })
        }
        Action::Shutdown { team: Which { name }, how } => {
            shut_down(&service, ByName { name }, how, context).await
        }
    }
}

/// The team with what the file says that it should know, and what the template adds.
fn wanted(template: Option<Template>, team: NewTeam) -> Result<NewTeam, Failure> {
    let contents =
        |file: String| fs::read_to_string(&file).map_err(Failure::unreadable(Path::new(&file)));
    let init_context = team.init_context.map(contents).transpose()?;
    let team = NewTeam { init_context, ..team };
    let Some(template) = template else { return Ok(team) };
    let read = template.read().map_err(|found| Failure::failed(found.to_string()))?;
    Ok(read.complete(team))
}

async fn shut_down(
    service: &Service,
    path: ByName,
    how: TeamShutdown,
    context: &Context,
) -> Result<(), Failure> {
    let found = service.at(&SHOW_TEAM, &path).await?.data()?;
    let question = if how.cascade {
        "Shut it down for good, with all teams below it?"
    } else {
        "Shut it down for good?"
    };
    confirm(context, &one(found), question)?;
    let ended = service.call(&SHUT_DOWN_TEAM, &path, &how, &Empty {}).await?;
    ended.tell(context.screen, |ended| match ended {
        Settled::Done(Removed { removed, trash, .. }) => {
            let folder = trash.map(|trash| format!("; its folder is {trash}"));
            format!("shut down: {}{}", joined(&removed), folder.unwrap_or_default())
        }
        Settled::GoesOn(_) => {
            format!("team {} still has work to end; it goes after that", path.name)
        }
    })
}

columns!(TeamRow {
    "NAME" => |row| row.name.to_string(),
    "PARENT" => |row| row.parent.as_ref().map_or("-".to_owned(), ToString::to_string),
    "STATE" => |row| row.state.to_string(),
    "PHASE" => |row| row.phase.to_string(),
    "RUNNING" => |row| row.running.to_string(),
    "QUEUED" => |row| row.pending.to_string(),
    "MODEL" => |row| row.model.clone().unwrap_or_else(|| "-".to_owned()),
    "FOR" => |row| first_line(&row.description, SHOWN),
});

columns!(McpServerRow {
    "TEAM" => |row| row.team.clone(),
    "SERVER" => |row| row.server.clone(),
    "BY" => |row| row.transport.clone(),
    "STATE" => |row| row.state.to_string(),
    "TOOLS" => |row| row.tools.len().to_string(),
    "CALLS" => |row| row.calls.to_string(),
    "PROBLEM" => |row| row.last_error.clone().unwrap_or_else(|| row.left_out.join(", ")),
});

/// A team, and those below it further in.
fn draw(node: &TeamNode, before: &str, below: &str, text: &mut String) {
    let TeamNode { row, teams, .. } = node;
    let work = match (row.running, row.pending) {
        (0, 0) => String::new(),
        (running, pending) => format!(", {running} running, {pending} queued"),
    };
    text.push_str(&printable(&format!("{before}{} ({}{work})\n", row.name, row.state)));
    for (place, child) in teams.iter().enumerate() {
        let (before, further) = if place + 1 == teams.len() {
            ("└── ", "    ")
        } else {
            ("├── ", "│   ")
        };
        draw(child, &format!("{below}{before}"), &format!("{below}{further}"), text);
    }
}

fn one(team: OneTeam) -> String {
    let budget = json!(team.budget);
    let caps: Vec<String> = budget
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, cap)| !cap.is_null())
        .map(|(name, cap)| format!("{name} {cap}"))
        .collect();
    let OneTeam { row, .. } = team;
    let or_none = |text: String| if text.is_empty() { "none".to_owned() } else { text };
    let mut lines = vec![
        ("name", format!("{}, life {}", row.name, row.generation)),
        ("state", format!("{}, {}", row.state, row.phase)),
        ("for", or_none(row.description)),
        ("parent", row.parent.map_or("none".to_owned(), |parent| parent.to_string())),
        ("teams", joined(&team.teams)),
        ("scope", joined(&row.scope)),
        ("model", or_none(row.model.unwrap_or_default())),
        ("today", format!("{} tokens, {:.4} USD", row.usage_today.tokens, row.usage_today.usd)),
        ("budget", joined(&caps)),
        ("made", format!("{} by {}", date(&team.created_at), team.created_by)),
    ];
    if let Some(fault) = row.fault {
        lines.insert(2, ("fault", fault));
    }
    for TeamWork { task_id, kind, state, wait_reason, age_ms } in team.tasks {
        let why = wait_reason.map_or(String::new(), |reason| format!(" for {reason}"));
        let age = Duration::from_secs(age_ms / 1_000);
        lines.push(("task", format!("{task_id} {kind} {state}{why}, since {age:?}")));
    }
    printable(&table::fields(9, lines))
}

#[cfg(test)]
mod tests {
    use hivewright_actors::{
        budget::Spent,
        org::record::{Phase, TeamState},
    };

    use super::*;
    use crate::cli::{client::target, failure::Exit};

    fn team(name: &str) -> TeamRow {
        TeamRow {
            name: name.into(),
            generation: 1,
            parent: None,
            description: String::new(),
            scope: Vec::new(),
            state: TeamState::Active,
            fault: None,
            phase: Phase::Ready,
            pending: 0,
            running: 0,
            waiting: 0,
            sdk: "native".to_owned(),
            model: None,
            usage_today: Spent::default(),
            children: 0,
            last_error: None,
        }
    }

    /// OP-79, OP-84
    #[test]
    fn teams_are_listed_in_columns() {
        let main = TeamRow { running: 1, model: Some("llama3".to_owned()), ..team("main") };
        let scouts = TeamRow {
            parent: Some("main".into()),
            state: TeamState::Paused,
            phase: Phase::Failed,
            pending: 12,
            description: "Looks around.\nAnd back.".to_owned(),
            ..team("scouts")
        };

        let expected = "\
NAME    PARENT  STATE   PHASE   RUNNING  QUEUED  MODEL   FOR
main    -       active  ready   1        0       llama3
scouts  main    paused  failed  0        12      -       Looks around.
";
        assert_eq!(table::rows(&[main, scouts]), expected);
    }

    /// OP-79
    #[test]
    fn a_tree_is_drawn() {
        let leaf = |name: &str| TeamNode { row: team(name), budget: None, teams: Vec::new() };
        let mut scouts = TeamNode { teams: vec![leaf("guides")], ..leaf("scouts") };
        scouts.row.running = 2;
        let main = TeamNode { teams: vec![scouts, leaf("smiths")], ..leaf("main") };
        let mut text = String::new();

        draw(&main, "", "", &mut text);

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
        let path = |name: &str| target(&PAUSE_TEAM, &ByName { name: name.to_owned() });

        assert_eq!(path("far-scouts").unwrap(), "/api/v1/teams/far-scouts/pause");
        for name in ["", "../tokens", "a/b", "a?b", "a b"] {
            assert_eq!(path(name).unwrap_err().exit, Exit::Usage, "{name}");
        }
    }
}
