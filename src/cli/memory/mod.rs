//! `hivewright memory`: what teams remember.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use hivewright_actors::ids::MAIN;
use serde_json::{Map, Value, json};

use super::{
    Context,
    failure::{Exit, Failure},
    send::read_input,
    service::{Service, given},
};

mod difference;
mod show;

/// See, correct and review what teams remember
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright memory list --team main\n  \
    hivewright memory set deploy/host \"build-1, port 22\" --type reference\n  \
    hivewright memory review")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with memory.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List entries, newest first; with words to look for, best first
    #[command(after_help = "Examples:\n  \
        hivewright memory list --type lesson\n  \
        hivewright memory list --search \"deploy host\" --all")]
    List {
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
        /// Only of this type: identity, lesson, decision, context, reference, historical
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Only in this state of review
        #[arg(long)]
        review: Option<Review>,
        /// Only with some of these words
        #[arg(long, value_name = "WORDS")]
        search: Option<String>,
        /// Also replaced and deleted versions
        #[arg(long)]
        all: bool,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
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
    Set {
        /// What to remember it under
        key: String,
        /// What to remember; `-` reads it from standard input
        content: String,
        /// For which team
        #[arg(long, default_value = MAIN)]
        team: String,
        /// identity, lesson, decision, context, reference or historical
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// Why it replaces what is there; needed if there is something
        #[arg(long)]
        reason: Option<String>,
        /// When it ends, such as 2026-01-31T12:00:00Z
        #[arg(long, value_name = "DATE")]
        expires: Option<String>,
    },
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
        /// Another content; `-` reads it from standard input
        #[arg(long)]
        content: Option<String>,
        /// Another type
        #[arg(long = "type", value_name = "TYPE")]
        kind: Option<String>,
        /// When it ends, such as 2026-01-31T12:00:00Z, or `never`
        #[arg(long, value_name = "DATE")]
        expires: Option<String>,
        /// Why
        #[arg(long)]
        reason: Option<String>,
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
    #[command(after_help = "Example:\n  hivewright memory delete deploy/host --note \"moved\"")]
    Delete {
        #[command(flatten)]
        which: Which,
        /// Why
        #[arg(long)]
        note: Option<String>,
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
    Review {
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
    },
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

/// Whether a person has looked at an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Review {
    /// Nobody has to.
    NotNeeded,
    /// Not yet.
    Pending,
    /// Yes, and it is fine.
    Approved,
    /// Yes, and it is not.
    Rejected,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    let action = arguments.action;
    let document = ask(&action, &service).await?;
    if screen.json {
        return screen.document(&document);
    }
    let text = |field: &str| document["data"][field].as_str().unwrap_or_default().to_owned();
    match action {
        Action::List { .. } => screen.write(&show::table(&document)?),
        Action::Review { which: None, .. } => {
            screen.write(&show::table(&document)?);
            screen.remark("`hivewright memory review KEY` shows one, with what it would change");
        }
        Action::Show { chain: true, .. } => screen.write(&show::chain(&document)?),
        Action::Show { .. } | Action::Review { approve: false, reject: false, .. } => {
            screen.write(&screen.harmless(&show::entry(&document)?))
        }
        Action::Set { key, .. } => {
            if document["data"]["unchanged"] == true {
                screen.remark(&format!("`{key}` says so already"))
            } else {
                screen.remark(&format!("saved `{key}` as {}", text("id")))
            }
        }
        Action::Edit { .. } => screen.remark(&format!("`{}` is now {}", text("key"), text("id"))),
        Action::Pin { off, .. } => {
            let now = if off { "no longer pinned" } else { "pinned" };
            screen.remark(&format!("`{}` is {now}", text("key")));
        }
        Action::Delete { which, .. } => screen.remark(&format!(
            "deleted {}; `hivewright memory rollback {}` brings it back",
            which.which,
            text("deleted")
        )),
        Action::Rollback { id } => screen.remark(&format!(
            "`{}` is as it was in {id} again, as {}",
            text("key"),
            text("id")
        )),
        Action::Review { .. } => {
            screen.remark(&format!("`{}` is {}", text("key"), text("review")));
        }
    }
    Ok(())
}

/// Lets the service do it.
async fn ask(action: &Action, service: &Service) -> Result<Value, Failure> {
    const PATH: &str = "/api/v1/memories";
    match action {
        Action::List { team, kind, review, search, all, limit } => {
            let fields = [
                ("team", team.clone()),
                ("type", kind.clone()),
                ("review", review.map(|review| named(review).to_owned())),
                ("q", search.clone()),
                // What waits for a review may not be active yet.
                ("active", (!all && review.is_none()).then(|| "true".to_owned())),
                ("limit", Some(limit.to_string())),
            ];
            service.search(PATH, given(fields)).await
        }
        Action::Show { which, chain } => {
            let id = find(service, which, false).await?;
            match chain {
                true => service.list(&format!("{PATH}/{id}/chain")).await,
                false => service.get(&format!("{PATH}/{id}")).await,
            }
        }
        Action::Set { key, content, team, kind, reason, expires } => {
            let wish = json!({
                "team": team,
                "key": key,
                "content": input(content).await?,
                "type": kind,
                "supersede_reason": reason,
                "expires_at": expires,
            });
            service.post(PATH, &wish).await
        }
        Action::Edit { which, content, kind, expires, reason } => {
            let mut wish = Map::new();
            if let Some(content) = content {
                wish.insert("content".to_owned(), json!(input(content).await?));
            }
            for (field, value) in [("type", kind), ("supersede_reason", reason)] {
                wish.extend(value.as_ref().map(|value| (field.to_owned(), json!(value))));
            }
            if let Some(expires) = expires {
                let never = expires == "never";
                let end = if never { Value::Null } else { json!(expires) };
                wish.insert("expires_at".to_owned(), end);
            }
            let id = find(service, which, false).await?;
            service.patch(&format!("{PATH}/{id}"), &wish.into()).await
        }
        Action::Pin { which, off } => {
            let id = find(service, which, false).await?;
            let wish = json!({ "pinned": !off });
            service.post(&format!("{PATH}/{id}/pin"), &wish).await
        }
        Action::Delete { which, note } => {
            let id = find(service, which, false).await?;
            let note = note.clone().map(|note| ("note", note));
            service.delete(&format!("{PATH}/{id}"), note).await?;
            Ok(json!({"data": {"deleted": id}}))
        }
        Action::Rollback { id } => service.post(&format!("{PATH}/{id}/rollback"), &json!({})).await,
        Action::Review { which: None, .. } => {
            let fields = [("review", "pending".to_owned()), ("limit", "200".to_owned())];
            service.search(PATH, fields).await
        }
        Action::Review { which: Some(which), team, approve, reject, content, note } => {
            let which = Which { which: which.clone(), team: team.clone() };
            let id = find(service, &which, true).await?;
            let decision = match (approve, reject) {
                (false, false) => return service.get(&format!("{PATH}/{id}")).await,
                (true, _) => "approve",
                (false, true) => "reject",
            };
            let mut wish = json!({"decision": decision, "note": note});
            if let Some(content) = content {
                wish["content"] = json!(input(content).await?);
            }
            service.post(&format!("{PATH}/{id}/review"), &wish).await
        }
    }
}

/// The id of an entry that was named by it or by its key.
async fn find(service: &Service, which: &Which, pending: bool) -> Result<String, Failure> {
    let Which { which, team } = which;
    if which.starts_with("mem-") {
        return Ok(which.clone());
    }
    let state =
        if pending { ("review", "pending".to_owned()) } else { ("active", "true".to_owned()) };
    let fields = [("team", team.clone()), ("key", which.clone()), state];
    let found = service.search("/api/v1/memories", fields).await?;
    let rows = found["data"].as_array().into_iter().flatten();
    // A pending version that was replaced meanwhile is not to be decided on.
    let mut open = rows.filter(|row| row["active"] == true || row["proposal"] == true);
    match open.next().and_then(|row| row["id"].as_str()) {
        Some(id) => Ok(id.to_owned()),
        None => {
            let what = if pending { "pending" } else { "active" };
            Err(Failure::new(
                Exit::NotFound,
                format!(
                    "the team `{team}` has no {what} entry `{which}`; see `hivewright memory list`"
                ),
            ))
        }
    }
}

async fn input(content: &str) -> Result<String, Failure> {
    if content != "-" {
        return Ok(content.to_owned());
    }
    tokio::task::spawn_blocking(read_input)
        .await
        .unwrap_or_else(|error| Err(Failure::system("reading was cut off", error)))
}

fn named(review: Review) -> &'static str {
    match review {
        Review::NotNeeded => "not_needed",
        Review::Pending => "pending",
        Review::Approved => "approved",
        Review::Rejected => "rejected",
    }
}
