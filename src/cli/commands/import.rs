//! `hivewright import`: what another program kept becomes ours.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
};

use clap::{Args, Subcommand};
use hivewright_actors::{clock::Clock, ids::Ids};
use serde_json::json;

use crate::{
    cli::{
        blocking::interruptible,
        context::Context,
        failure::{Exit, Failure, chain},
        progress::Gauge,
        screen::{Screen, Tone, printable},
        stopped::{self, Stopped},
    },
    import::openhive::{
        Goal, Import,
        apply::{ApplyError, Site},
        plan::{Options, Plan},
        report::{Item, Outcome},
        source::{Source, SourceError},
        teams,
    },
    settings::{home::resolve, load, zone::Zone},
    system::{Randomness, WallClock},
    transcript::files,
};

/// Take over what another program kept, with the service stopped
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Example:\n  \
    hivewright import openhive --data ~/.openhive/data --run ~/.openhive/run --dry-run")]
pub(super) enum Action {
    Openhive(Openhive),
}

/// Settings, rules, teams and everything they keep, of an OpenHive installation
///
/// The installation is only read, and must be stopped. What was taken before is not taken again, so an
/// import that was broken off goes on with the same command.
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright import openhive --data /srv/openhive/data --run /srv/openhive/.run --dry-run\n  \
    hivewright import openhive --data /srv/openhive/data --run /srv/openhive/.run\n\n\
    Imported teams are paused; `hivewright teams resume --all` starts them.")]
pub(super) struct Openhive {
    /// Its data folder, with `config/` and `rules/`
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Its run folder, with `openhive.db` and `teams/`
    #[arg(long, value_name = "DIR")]
    run: PathBuf,
    /// Only say what would be taken, and what not
    #[arg(long)]
    dry_run: bool,
    /// Keep `*` in `allowed_tools` instead of the usual tools
    #[arg(long)]
    keep_wildcard: bool,
    /// Take the log too, as a file beside the report
    #[arg(long)]
    with_logs: bool,
}

pub(super) async fn run(
    Action::Openhive(arguments): Action,
    context: &Context,
) -> Result<(), Failure> {
    let (dry_run, cloned) = (arguments.dry_run, context.clone());
    let (plan, note) = interruptible(move |stop| import(&arguments, &cloned, stop)).await.0?;
    show(&plan, note.as_deref(), dry_run, context)
}

fn import(
    arguments: &Openhive,
    context: &Context,
    stop: &AtomicBool,
) -> Result<(Plan, Option<PathBuf>), Failure> {
    context.own_home()?;
    let source = Source::new(&arguments.data, &arguments.run)?;
    for theirs in [&source.data, &source.run] {
        for ours in [context.home.data(), context.home.run()] {
            apart(theirs, ours)?;
        }
    }
    let options =
        Options { keep_wildcard: arguments.keep_wildcard, with_logs: arguments.with_logs };
    let gauge = Gauge::new(context.screen, "import");
    let import = Import::read(source, options)?;
    let stopped = if arguments.dry_run && !stopped::has_store(context) {
        // There is nothing that a look at it could find, and it is not made for a look.
        None
    } else {
        Some(
            Stopped::open(context, &|progress| gauge.storage(progress))
                .map_err(|error| Failure::from(error).if_in_use())?,
        )
    };
    let config = load::load_config(&context.home, &context.environment)?.0;
    let channels = load::read_channels(&context.home, &context.environment).unwrap_or_default();
    let zone = config.timezone.unwrap_or_else(|| Zone::of_machine(&context.environment).0);
    let now = WallClock.now();
    let plan = import
        .plan(&Goal {
            home: &context.home,
            storage: stopped.as_ref().map(|stopped| &stopped.storage as _),
            environment: &context.environment,
            idle_after: channels.channels.topics.idle_after,
            zone: zone.name().to_owned(),
            ids: Ids::new(Arc::new(Randomness)),
            now,
        })
        .map_err(|error| Failure::failed(chain(&error)))?;
    let Some(stopped) = stopped.filter(|_| !arguments.dry_run) else {
        return Ok((plan, None));
    };
    let vault = stopped.vault(context)?;
    let site = Site {
        home: &context.home,
        backups: &stopped.home.backups,
        storage: &stopped.storage,
        vault,
        now,
        stop,
        progress: &|done, total| gauge.set(done, total, "things"),
    };
    let note = import.apply(&plan, &site).map_err(|error| broken_off(&error, context))?;
    files::set_incomplete(&context.home.history())
        .map_err(|error| Failure::system("transcripts may lack what was imported", error))?;
    Ok((plan, Some(note)))
}

/// Both homes would be read and written at once.
fn apart(theirs: &Path, ours: &Path) -> Result<(), Failure> {
    let (theirs_real, ours_real) = (resolve(theirs), resolve(ours));
    if theirs_real.starts_with(&ours_real) || ours_real.starts_with(&theirs_real) {
        return Err(Failure::usage(format!(
            "`{}` and `{}` lie inside each other; an import goes from one place to another",
            theirs.display(),
            ours.display()
        )));
    }
    Ok(())
}

fn broken_off(error: &ApplyError, context: &Context) -> Failure {
    let again = "the same command goes on with what is left";
    match error {
        ApplyError::Stopped => {
            Failure::new(Exit::Interrupted, format!("stopped at a safe point; {again}"))
        }
        error => {
            context.screen.remark(again);
            Failure::failed(chain(error))
        }
    }
}

fn show(plan: &Plan, note: Option<&Path>, dry_run: bool, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let totals = plan.report.totals();
    if screen.json {
        screen.document(&json!({"data": {
            "dry_run": dry_run,
            "items": plan.report.items,
            "totals": totals,
            "report": note,
        }}))?;
    } else {
        for item in &plan.report.items {
            screen.say(&line(item, screen));
        }
        screen.say(&totals.to_string());
        match note {
            Some(note) => {
                screen.remark(&format!("the report is kept in {}", note.display()));
                let taken =
                    |item: &Item| item.kind == teams::KIND && item.outcome != Outcome::Skipped;
                if plan.report.items.iter().any(taken) {
                    let resume = context.command("teams resume --all");
                    screen.remark(&format!("imported teams are paused; {resume} starts them"));
                }
            }
            None => screen.remark("nothing was changed"),
        }
    }
    if totals.errors == 0 { Ok(()) } else { Err(Failure::new(Exit::Failed, "")) }
}

fn line(item: &Item, screen: Screen) -> String {
    let text = printable(&item.to_string()).replace('\n', " ");
    let tone = match item.outcome {
        _ if item.error => Tone::Bad,
        Outcome::Imported => Tone::Good,
        Outcome::Converted => Tone::Doubtful,
        Outcome::Skipped => Tone::Faint,
    };
    screen.paint(tone, &text)
}

impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        let exit = match error {
            SourceError::Missing { .. } => Exit::NotFound,
            SourceError::Locked { .. } | SourceError::Changed { .. } => Exit::Conflict,
            _ => Exit::Failed,
        };
        Self::new(exit, chain(&error))
    }
}
