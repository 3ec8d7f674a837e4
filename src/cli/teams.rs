//! `hivewright teams`: who works here.

use std::{fs, time::Duration};

use clap::Subcommand;
use hivewright_actors::{
    excerpt,
    org::{record::Capability, shutdown::Removed},
};
use serde_json::json;

use super::{
    Context,
    failure::Failure,
    prompt::confirm,
    screen::printable,
    servers,
    service::Service,
    table::{self, columns, date, joined},
    untrusted,
    watch::{Watched, show_rows},
};
use crate::api::{
    endpoint::{ByName, Empty},
    flags::words,
    mcp::{ByServer, McpServerFilter},
    reply::Settled,
    teams::{
        BOOTSTRAP_TEAM, CHANGE_TEAM, CREATE_TEAM, LIST_TEAMS, NewTeam, OneTeam, PAUSE_ALL,
        PAUSE_TEAM, RESUME_ALL, RESUME_TEAM, SHOW_ORG, SHOW_TEAM, SHUT_DOWN_TEAM, TeamChange,
        TeamFilter, TeamNode, TeamOrder, TeamPause, TeamRow, TeamShutdown, TeamWork, Template,
    },
};

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
    Show {
        /// The team
        name: String,
    },
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
        /// The team
        name: String,
        /// What it may do
        #[arg(value_name = "CAPABILITY", value_parser = words::<Capability>())]
        capabilities: Vec<Capability>,
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
    /// List the MCP servers of teams, and how they stand
    #[command(
        after_help = "Examples:\n  hivewright teams servers\n  hivewright teams servers research"
    )]
    Servers(McpServerFilter),
    /// End an MCP server of a team; the next turn or call starts it again
    #[command(after_help = "Example:\n  hivewright teams restart-server research github")]
    RestartServer {
        /// The team
        name: String,
        /// The server
        server: String,
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
        #[command(flatten)]
        how: TeamShutdown,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List(Watched { list, watch }) => {
            let read =
                async |service: &Service| service.all_rows(&LIST_TEAMS, &Empty {}, &list).await;
            show_rows(watch, context, read).await
        }
        Action::Show { name } => service.at(&SHOW_TEAM, &ByName { name }).await?.show(screen, one),
        Action::Tree => service.at(&SHOW_ORG, &Empty {}).await?.show(screen, |root| {
            let mut text = String::new();
            draw(&root, "", "", &mut text);
            text
        }),
        Action::Create { template, team } => {
            let init_context = team.init_context.map(contents).transpose()?;
            let team = NewTeam { init_context, ..team };
            let team = match template {
                Some(template) => {
                    let read = template.read().map_err(|found| Failure::failed(found.to_string()));
                    read?.complete(team)
                }
                None => team,
            };
            let remark = format!("team {} is made and sets itself up", team.name);
            let order = TeamOrder { team, credentials: Default::default() };
            service.give(&CREATE_TEAM, &order).await?.tell(screen, |_| remark)
        }
        Action::Pause { name, pause, .. } => {
            let none = Empty {};
            let paused = match name {
                Some(name) => service.call(&PAUSE_TEAM, &ByName { name }, &none, &pause).await?,
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
        Action::Capabilities { name, capabilities } => {
            let remark = if capabilities.is_empty() {
                format!("team {name} may do nothing beyond its tools")
            } else {
                format!("team {name} may also: {}", joined(&capabilities))
            };
            let capabilities = Some(capabilities.into_iter().collect());
            let change = TeamChange { capabilities, ..TeamChange::default() };
            let changed = service.call(&CHANGE_TEAM, &ByName { name }, &Empty {}, &change).await?;
            changed.tell(screen, |_| remark)
        }
        Action::Untrusted { name } => {
            untrusted::rows(&service, &ByName { name }).await?.table(screen)
        }
        Action::Accept { name, paths, all } => {
            let paths = (!all).then_some(paths.as_slice());
            untrusted::accept(&service, &ByName { name }, paths, screen).await
        }
        Action::Servers(filter) => servers::rows(&service, &filter).await?.table(screen),
        Action::RestartServer { name, server } => {
            servers::restart(&service, ByServer { team: name, server }, screen).await
        }
        Action::Bootstrap { name } => {
            let path = ByName { name };
            let name = &path.name;
            service.at(&BOOTSTRAP_TEAM, &path).await?.tell(screen, |begun| match begun.task_id {
                Some(task) => format!("team {name} sets itself up again, as {task}"),
                None => format!("team {name} is ready; there is nothing to set up"),
            })
        }
        Action::Shutdown { name, how } => shut_down(&service, ByName { name }, how, context).await,
    }
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

fn contents(file: String) -> Result<String, Failure> {
    let read = fs::read_to_string(&file);
    read.map_err(|error| Failure::system(format!("`{file}` cannot be read"), error))
}

columns!(TeamRow {
    "NAME" => |row| row.name.to_string(),
    "PARENT" => |row| row.parent.as_ref().map_or("-".to_owned(), ToString::to_string),
    "STATE" => |row| row.state.to_string(),
    "PHASE" => |row| row.phase.to_string(),
    "RUNNING" => |row| row.running.to_string(),
    "QUEUED" => |row| row.pending.to_string(),
    "MODEL" => |row| row.model.clone().unwrap_or_else(|| "-".to_owned()),
    "FOR" => |row| first_line(&row.description),
});

fn first_line(text: &str) -> String {
    excerpt::line(text.lines().next().unwrap_or_default(), 60)
}

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

    use super::{super::failure::Exit, *};
    use crate::cli::service::target;

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
