//! `hivewright memory`: what teams remember.

use clap::{ArgGroup, Args, Subcommand};
use hivewright_actors::{ids::MAIN, text::Expected};

use super::send::text;
use crate::{
    api::{
        endpoint::{ById, Empty},
        flags::Limit,
        memories::*,
        when::Moment,
    },
    cli::{answer::Answer, client::Service, context::Context, failure::Failure},
    memory::{chain::Verdict, entry::Review},
};

mod difference;
mod show;

/// See, correct and review what teams remember
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright memory list --team main\n  \
    hivewright memory set deploy/host \"build-1, port 22\" --type reference\n  \
    hivewright memory review")]
pub(super) enum Action {
    /// List entries, newest first; with words to look for, best first
    #[command(after_help = "Examples:\n  \
        hivewright memory list --type lesson\n  \
        hivewright memory list --query \"deploy host\" --versions")]
    List {
        #[command(flatten)]
        filter: MemoryFilter,
        /// Also replaced and deleted versions
        #[arg(long)]
        versions: bool,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show an entry whole: where it comes from, and its versions
    #[command(after_help = "Examples:\n  \
        hivewright memory show deploy/host\n  \
        hivewright memory show mem-61c8864680b583eb --chain")]
    Show {
        #[command(flatten)]
        which: Which,
        /// All versions of its key, newest first
        #[arg(long)]
        chain: bool,
    },
    /// Remember something for a team
    #[command(after_help = "Examples:\n  \
        hivewright memory set deploy/host \"build-1, port 22\" --type reference\n  \
        hivewright memory set deploy/notes - --reason \"new host\" < notes.md")]
    Set(NewMemory),
    /// Make a new version of an entry
    #[command(
        group = ArgGroup::new("change").args(["content", "kind", "expires"]).multiple(true).required(true),
        after_help = "Examples:\n  \
            hivewright memory edit deploy/host --content \"build-2, port 22\"\n  \
            hivewright memory edit deploy/host --type decision --expires never"
    )]
    Edit {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        correction: MemoryCorrection,
        /// When it ends, such as 2026-01-31T12:00:00Z, or `never`
        #[arg(long, value_name = "DATE", value_parser = end)]
        expires: Option<End>,
    },
    /// Put an entry before others of its type in prompts
    #[command(after_help = "Example:\n  hivewright memory pin deploy/host --off")]
    Pin {
        #[command(flatten)]
        which: Which,
        /// Not any longer
        #[arg(long)]
        off: bool,
    },
    /// End an entry; its versions are kept
    #[command(aliases = ["remove", "rm"], after_help = "Example:\n  hivewright memory delete deploy/host --note \"moved\"")]
    Delete {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        end: MemoryEnd,
    },
    /// Bring an old version back, as a new one
    #[command(after_help = "Example:\n  hivewright memory rollback mem-61c8864680b583eb")]
    Rollback {
        /// The version, by its id
        id: String,
    },
    /// Decide on what was saved after reading untrusted data; without a name, list it
    #[command(after_help = "Examples:\n  \
        hivewright memory review\n  \
        hivewright memory review deploy/host\n  \
        hivewright memory review deploy/host --approve --note \"checked\"\n  \
        hivewright memory review deploy/host --approve --content \"build-2, port 22\"")]
    Review(Reviewing),
}

// A doc comment here would become that of the command.
#[derive(Debug, PartialEq, Args)]
pub(super) struct Reviewing {
    /// The entry, by its key or id
    which: Option<String>,
    /// Whose, if it is named by its key
    #[arg(long, default_value = MAIN)]
    team: String,
    /// It is fine
    #[arg(long, conflicts_with = "reject", requires = "which")]
    approve: bool,
    /// It is not
    #[arg(long, requires = "which")]
    reject: bool,
    /// It is fine in these words; `-` reads them from standard input
    #[arg(long, requires = "approve")]
    content: Option<String>,
    /// Why
    #[arg(long)]
    note: Option<String>,
}

/// When an entry ends; none is never.
type End = Option<Moment>;

fn end(text: &str) -> Result<End, Expected> {
    if text == "never" { Ok(None) } else { text.parse().map(Some) }
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Args)]
pub(super) struct Which {
    /// The entry, by its key or id
    #[arg(value_name = "KEY|ID")]
    which: String,
    /// Whose, if it is named by its key
    #[arg(long, default_value = MAIN)]
    team: String,
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = &Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List { mut filter, versions, limit } => {
            // What waits for a review may not be active yet.
            filter.active = (!versions && filter.review.is_none()).then_some(true);
            service.limited(&LIST_MEMORIES, &Empty {}, &filter, &limit).await?.table(screen)
        }
        Action::Show { which, chain } => {
            let path = find(service, which, false).await?;
            if !chain {
                return show_entry(service, &path, context).await;
            }
            let versions = service.all_rows(&LIST_MEMORY_VERSIONS, &path, &Empty {}).await?;
            versions.show(screen, |versions| show::chain(&versions))
        }
        Action::Set(new) => {
            let new = NewMemory { content: text(new.content).await?, ..new };
            service.give(&SAVE_MEMORY, &new).await?.tell(screen, |row| {
                if row.unchanged {
                    format!("`{}` says so already", row.key)
                } else {
                    format!("saved `{}` as {}", row.key, row.id)
                }
            })
        }
        Action::Edit { which, mut correction, expires } => {
            correction.content = maybe_text(correction.content).await?;
            correction.expires_at = expires;
            let path = find(service, which, false).await?;
            let edited = service.send(&CORRECT_MEMORY, &path, &correction).await?;
            edited.tell(screen, |row| format!("`{}` is now {}", row.key, row.id))
        }
        Action::Pin { which, off } => {
            let path = find(service, which, false).await?;
            let pin = MemoryPin { pinned: !off };
            let pinned = service.send(&PIN_MEMORY, &path, &pin).await?;
            let now = if off { "no longer pinned" } else { "pinned" };
            pinned.tell(screen, |row| format!("`{}` is {now}", row.key))
        }
        Action::Delete { which, end } => {
            let name = which.which.clone();
            let path = find(service, which, false).await?;
            service.call(&END_MEMORY, &path, &end, &Empty {}).await?;
            let way_back = context.command(&format!("memory rollback {}", path.id));
            Answer::naming("deleted", path.id)
                .tell(screen, |_| format!("deleted {name}; {way_back} brings it back"))
        }
        Action::Rollback { id } => {
            let path = ById { id };
            service.at(&ROLL_BACK_MEMORY, &path).await?.tell(screen, |row| {
                format!("`{}` is as it was in {} again, as {}", row.key, path.id, row.id)
            })
        }
        Action::Review(review) => decide(review, service, context).await,
    }
}

async fn decide(review: Reviewing, service: &Service, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let Reviewing { which, team, approve, reject, content, note } = review;
    let Some(which) = which else {
        let pending = MemoryFilter { review: Some(Review::Pending), ..MemoryFilter::default() };
        service.all(&LIST_MEMORIES, &pending).await?.table(screen)?;
        if !screen.json {
            let one = context.command("memory review KEY");
            screen.remark(&format!("{one} shows one, with what it would change"));
        }
        return Ok(());
    };
    let path = find(service, Which { which, team }, true).await?;
    let decision = match (approve, reject) {
        (false, false) => return show_entry(service, &path, context).await,
        (true, _) => Verdict::Approve,
        (false, true) => Verdict::Reject,
    };
    let review = MemoryReview { decision, content: maybe_text(content).await?, note };
    let reviewed = service.send(&REVIEW_MEMORY, &path, &review).await?;
    reviewed.tell(screen, |row| format!("`{}` is {}", row.key, row.review))
}

/// An argument that may be left out, or stand on standard input.
async fn maybe_text(argument: Option<String>) -> Result<Option<String>, Failure> {
    match argument {
        Some(argument) => text(argument).await.map(Some),
        None => Ok(None),
    }
}

async fn show_entry(service: &Service, path: &ById, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let entry = service.at(&SHOW_MEMORY, path).await?;
    entry.show(screen, |entry| screen.harmless(&show::entry(&entry)))
}

/// An entry that was named by its id or by its key.
async fn find(service: &Service, which: Which, pending: bool) -> Result<ById, Failure> {
    let Which { which, team } = which;
    if which.starts_with("mem-") {
        return Ok(ById { id: which });
    }
    let filter = MemoryFilter {
        team: Some(team.clone()),
        key: Some(which.clone()),
        review: pending.then_some(Review::Pending),
        active: (!pending).then_some(true),
        ..MemoryFilter::default()
    };
    let found = service.rows(&LIST_MEMORIES, &filter).await?.data()?;
    // A pending version that was replaced meanwhile is not to be decided on.
    match found.into_iter().find(|row| row.active || row.proposal) {
        Some(row) => Ok(ById { id: row.id.to_string() }),
        None => {
            let what = if pending { "pending" } else { "active" };
            Err(Failure::not_found(format!(
                "team `{team}` has no {what} entry `{which}`; `hivewright memory list` shows those there are"
            )))
        }
    }
}
