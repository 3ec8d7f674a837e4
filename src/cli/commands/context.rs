//! `hivewright context`: services that commands are for, by name.

use std::path::{self, Path};

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::cli::{
    answer::Answer,
    client::Service,
    context::Context,
    failure::Failure,
    named_services::{Contexts, FILE, LOCAL, Way, read, unknown, write},
    table::columns,
};

/// Name services on other machines, and say which one commands are for
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright context add office --url https://hive.example.org --token-file office.token\n  \
    hivewright context use office\n  \
    hivewright status --context local")]
pub(super) enum Action {
    /// Keep the service that `--url`, `--token-file` and `--cacert` lead to under a name
    #[command(
        after_help = "Example:\n  hivewright context add office --url https://hive.example.org --token-file office.token"
    )]
    Add {
        /// The name of the context
        name: String,
    },
    /// Have commands be for this service from now on; `local` is the one of the home
    #[command(after_help = "Examples:\n  \
        hivewright context use office\n  \
        hivewright context use local")]
    Use {
        /// The name of the context
        name: String,
    },
    /// List the services that have a name
    #[command(after_help = "Example:\n  hivewright context list --json")]
    List,
    /// Forget a name
    #[command(aliases = ["delete", "rm"], after_help = "Example:\n  hivewright context remove office")]
    Remove {
        /// The name of the context
        name: String,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let home = &context.home;
    let mut contexts = read(home)?;
    let (what, name) = match action {
        Action::List => {
            listed(&contexts).table(context.screen)?;
            if contexts.current.is_none() && !context.screen.json {
                context.screen.remark("· commands are for `local`, the service of the home");
            }
            return Ok(());
        }
        Action::Add { name } => {
            let way = given(context)?;
            // What leads nowhere is refused now; whether the service answers is no matter of today.
            Service::find(context)?;
            contexts.services.insert(known_name(&name)?, way);
            ("added", name)
        }
        Action::Use { name } => {
            if name != LOCAL && !contexts.services.contains_key(&name) {
                return Err(unknown(&name));
            }
            contexts.current = Some(name.clone()).filter(|name| name != LOCAL);
            ("used", name)
        }
        Action::Remove { name } => {
            contexts.services.remove(&name).ok_or_else(|| unknown(&name))?;
            contexts.current = contexts.current.filter(|current| *current != name);
            ("removed", name)
        }
    };
    write(home, &contexts)
        .map_err(|error| Failure::system(format!("`{FILE}` cannot be written"), error))?;
    Answer::naming(what, &name).tell(context.screen, |_| format!("{what}: {name}"))
}

/// The service that the flags lead to.
fn given(context: &Context) -> Result<Way, Failure> {
    let (Some(url), Some(token_file)) = (&context.url, &context.token_file) else {
        return Err(Failure::usage(
            "say where it is with `--url`, and its token with `--token-file`",
        ));
    };
    let absolute = |file: &Path| {
        path::absolute(file)
            .map_err(|error| Failure::system(format!("`{}` is no path", file.display()), error))
    };
    let cacert = context.cacert.as_deref().map(absolute).transpose()?;
    Ok(Way { url: url.clone(), token_file: absolute(token_file)?, cacert })
}

fn known_name(name: &str) -> Result<String, Failure> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name == LOCAL || !name.chars().all(is_name) {
        let message =
            format!("`{name}` is no name: letters, digits, `-`, `_` and `.`, and not `{LOCAL}`");
        return Err(Failure::usage(message));
    }
    Ok(name.to_owned())
}

/// A service with a name, as a list shows it.
#[derive(Debug, Serialize, Deserialize)]
struct ContextRow {
    name: String,
    current: bool,
    #[serde(flatten)]
    way: Way,
}

columns!(ContextRow {
    "NAME" => |row| row.name.clone(),
    "IN USE" => |row| if row.current { "yes" } else { "no" }.to_owned(),
    "URL" => |row| row.way.url.clone(),
    "TOKEN" => |row| row.way.token_file.display().to_string(),
});

fn listed(contexts: &Contexts) -> Answer<Vec<ContextRow>> {
    let row = |(name, way): (&String, &Way)| ContextRow {
        name: name.clone(),
        current: contexts.current.as_ref() == Some(name),
        way: way.clone(),
    };
    let rows: Vec<ContextRow> = contexts.services.iter().map(row).collect();
    Answer::new(json!({"data": rows, "total": rows.len()}))
}
