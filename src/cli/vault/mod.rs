//! `hivewright vault`: secrets of the service and of teams. None is ever shown.

use std::io::{self, IsTerminal, Read};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{ArgGroup, Args, Subcommand};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{
    Context,
    ask::confirm,
    backup::blocking,
    failure::{Exit, Failure},
    hidden,
    progress::Gauge,
    service::Service,
    stopped::Stopped,
};
use crate::{
    system::WallClock,
    vault::{
        entry::{LARGEST_VALUE, is_key},
        master::KeyFiles,
        rotate::{forget_old_at_rest, rotate_at_rest},
    },
};

mod show;

const PATH: &str = "/api/v1/vault";

/// Keep secrets for the service and its teams; none is ever shown
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright vault set OPENAI_API_KEY --system\n  \
    pass show forge | hivewright vault set FORGE_TOKEN --team ops --tool bash\n  \
    hivewright vault list")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with secrets.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List what is kept, without values
    #[command(after_help = "Example:\n  hivewright vault list --team ops")]
    List {
        #[command(flatten)]
        of: MaybeScope,
        /// Only keys that begin like this
        #[arg(long, default_value = "")]
        prefix: String,
    },
    /// Set a secret; its value is asked for without showing it, or read from standard input
    ///
    /// Asks before it replaces a value; `--yes` answers that.
    #[command(after_help = "Examples:\n  \
        hivewright vault set OPENAI_API_KEY --system\n  \
        hivewright vault set FORGE_TOKEN --team ops --tool bash < token.txt\n  \
        hivewright vault set FORGE_TOKEN --team ops --keep-value --host forge.example.org\n\n\
        One line end at the end of standard input is not part of the value.")]
    Set {
        /// Its name: letters, digits, `_`, `.`, `:` and `-`
        key: String,
        /// Never here: histories and process lists would show it
        #[arg(hide = true)]
        value: Option<String>,
        #[command(flatten)]
        of: OneScope,
        /// Tools in which its reference may be used, in place of those before; `bash` must be named
        #[arg(long = "tool", value_name = "PATTERN", value_delimiter = ',')]
        tools: Vec<String>,
        /// Hosts that it may be sent to, in place of those before, such as api.example.org or *.example.org
        #[arg(long = "host", value_name = "HOST", value_delimiter = ',')]
        hosts: Vec<String>,
        /// What it is for
        #[arg(long)]
        note: Option<String>,
        /// Models may see the value
        #[arg(long)]
        public: bool,
        /// Change the rest, and leave the value as it is
        #[arg(long, conflicts_with = "public")]
        keep_value: bool,
    },
    /// Show what is known of an entry, with its value if that is no secret
    #[command(after_help = "Example:\n  hivewright vault show FORGE_TOKEN --team ops")]
    Show {
        /// Its name
        key: String,
        #[command(flatten)]
        of: OneScope,
    },
    /// Delete an entry
    #[command(after_help = "Example:\n  hivewright vault delete FORGE_TOKEN --team ops")]
    Delete {
        /// Its name
        key: String,
        #[command(flatten)]
        of: OneScope,
    },
    /// Replace the master key; the old one is kept beside it, for backups made before
    #[command(after_help = "Examples:\n  \
        hivewright vault rotate-master\n  \
        hivewright vault rotate-master --forget-old")]
    RotateMaster {
        /// Only remove the key that the last rotation replaced; backups from before it become useless
        #[arg(long)]
        forget_old: bool,
    },
    /// Show who did what with which entry, newest first
    #[command(after_help = "Example:\n  hivewright vault audit --team ops --since 24h")]
    Audit {
        #[command(flatten)]
        of: MaybeScope,
        /// Only of this entry
        #[arg(long)]
        key: Option<String>,
        /// Only this: set, delete, get, list, expand, forget, rotate, lock
        #[arg(long)]
        action: Option<String>,
        /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h
        #[arg(long)]
        since: Option<String>,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

/// Whose entries.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(group = ArgGroup::new("maybe-scope").multiple(false))]
pub(super) struct MaybeScope {
    /// Only of this team
    #[arg(long, value_name = "TEAM", group = "maybe-scope")]
    team: Option<String>,
    /// Only of the service itself
    #[arg(long, group = "maybe-scope")]
    system: bool,
}

/// Whose entry.
#[derive(Clone, Debug, PartialEq, Args)]
#[command(group = ArgGroup::new("scope").required(true).multiple(false))]
pub(super) struct OneScope {
    /// Of this team
    #[arg(long, value_name = "TEAM", group = "scope")]
    team: Option<String>,
    /// Of the service itself: keys of models, tokens of channels
    #[arg(long, group = "scope")]
    system: bool,
}

impl MaybeScope {
    fn name(&self) -> Option<String> {
        match &self.team {
            Some(team) => Some(format!("team:{team}")),
            None => self.system.then(|| "system".to_owned()),
        }
    }
}

impl OneScope {
    fn name(&self) -> String {
        match &self.team {
            Some(team) => format!("team:{team}"),
            None => "system".to_owned(),
        }
    }

    /// Where an entry is. What would lead elsewhere is no key.
    fn path(&self, key: &str) -> Result<String, Failure> {
        if !is_key(key) {
            let message =
                format!("`{key}` is no key: 1 to 128 of letters, digits, `_`, `.`, `:`, `-`");
            return Err(Failure::new(Exit::Usage, message));
        }
        if !self.team.as_deref().unwrap_or("system").chars().all(plain) {
            return Err(Failure::new(Exit::Usage, "that is no name of a team"));
        }
        Ok(format!("{PATH}/{}/{key}", self.name()))
    }
}

fn plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_".contains(c)
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let action = arguments.action;
    if let Action::Set { value: Some(_), .. } = &action {
        return Err(Failure::new(
            Exit::Usage,
            "a value may not stand on the command line, where histories and process lists keep it; \
             leave it out and you are asked for it, or send it to standard input, \
             and use another one, since this may have been recorded",
        ));
    }
    if let Action::RotateMaster { forget_old: true } = &action {
        confirm(
            context,
            "The vaults of all backups from before the last rotation cannot be opened any more.",
            "Remove the replaced keys for good?",
        )?;
    }
    let document = match (&action, Service::if_running(context)?) {
        (Action::RotateMaster { forget_old }, None) => at_rest(*forget_old, context).await?,
        (_, Some(service)) => ask(&action, &service, context).await?,
        (_, None) => ask(&action, &Service::find(context)?, context).await?,
    };
    if context.screen.json {
        return context.screen.document(&document);
    }
    show::show(&action, &document, context)
}

/// Lets the service do it.
async fn ask(action: &Action, service: &Service, context: &Context) -> Result<Value, Failure> {
    match action {
        Action::List { of, prefix } => {
            let prefix = Some(prefix.clone()).filter(|prefix| !prefix.is_empty());
            let limit = Some("200".to_owned());
            let fields = [("scope", of.name()), ("prefix", prefix), ("limit", limit)];
            service.search(PATH, given(fields)).await
        }
        Action::Set { key, of, keep_value, .. } => {
            let path = of.path(key)?;
            let create = !keep_value && !replaces(key, of, service, context).await?;
            let mut wish = wish(action).await?;
            wish["create"] = json!(create);
            service.put(&path, &wish).await
        }
        Action::Show { key, of } => service.get(&of.path(key)?).await,
        Action::Delete { key, of } => {
            service.delete(&of.path(key)?, []).await?;
            Ok(json!({"data": {"deleted": key}}))
        }
        Action::RotateMaster { forget_old } => {
            let wish = json!({"forget_old": forget_old});
            let path = format!("{PATH}/rotate");
            let gauge = Gauge::new(context.screen, "rotation");
            gauge.set(0, 1, "rotations");
            gauge.over(service.post(&path, &wish)).await
        }
        Action::Audit { of, key, action, since, limit } => {
            let fields = [
                ("scope", of.name()),
                ("key", key.clone()),
                ("action", action.clone()),
                ("since", since.clone()),
                ("limit", Some(limit.to_string())),
            ];
            let path = format!("{PATH}/audit");
            service.search(&path, given(fields)).await
        }
    }
}

fn given<const N: usize>(
    fields: [(&'static str, Option<String>); N],
) -> impl Iterator<Item = (&'static str, String)> {
    let fields = fields.into_iter();
    fields.filter_map(|(name, value)| Some((name, value?)))
}

/// There is a value under this key, and whoever asks wants another in its place.
async fn replaces(
    key: &str,
    of: &OneScope,
    service: &Service,
    context: &Context,
) -> Result<bool, Failure> {
    let fields = [("scope", of.name()), ("prefix", key.to_owned())];
    let known = service.search(PATH, fields).await?;
    let rows = known["data"].as_array().into_iter().flatten();
    let exists = rows.into_iter().any(|row| row["key"] == key);
    if exists {
        let what = format!(
            "{key} has a value, which is lost; tools, hosts and note stay unless you give others."
        );
        confirm(context, &what, "Replace it?")?;
    }
    Ok(exists)
}

/// What is to be set.
async fn wish(action: &Action) -> Result<Value, Failure> {
    let Action::Set { key, tools, hosts, note, public, keep_value, .. } = action else {
        return Ok(Value::Null);
    };
    let mut wish = Map::new();
    if !keep_value {
        let key = key.clone();
        let value = blocking(move || read_value(&key)).await?;
        wish.insert("secret".to_owned(), json!(!public));
        match std::str::from_utf8(&value) {
            Ok(text) => wish.insert("value".to_owned(), json!(text)),
            Err(_) => wish.insert("value_base64".to_owned(), json!(STANDARD.encode(&*value))),
        };
    }
    for (name, list) in [("tools", tools), ("hosts", hosts)] {
        if !list.is_empty() {
            wish.insert(name.to_owned(), json!(list));
        }
    }
    wish.extend(note.as_ref().map(|note| ("note".to_owned(), json!(note))));
    Ok(Value::Object(wish))
}

/// The value, from the keyboard without showing it, or from standard input.
fn read_value(key: &str) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let value = if io::stdin().is_terminal() {
        hidden::ask(&format!("Value of {key}: "))?
    } else {
        let mut value = Zeroizing::new(Vec::new());
        let most = LARGEST_VALUE as u64 + 2;
        io::stdin()
            .take(most)
            .read_to_end(&mut value)
            .map_err(|error| Failure::system("standard input cannot be read", error))?;
        if value.ends_with(b"\n") {
            value.pop();
        }
        value
    };
    if value.is_empty() { Err(Failure::new(Exit::Usage, "there is no value")) } else { Ok(value) }
}

/// Replaces the master key of a service that is stopped.
async fn at_rest(forget_old: bool, context: &Context) -> Result<Value, Failure> {
    let cloned = context.clone();
    let opened = blocking(move || {
        let gauge = Gauge::new(cloned.screen, "store");
        Ok(Stopped::open(&cloned, &|progress| gauge.storage(progress))?)
    });
    let stopped = opened.await?;
    let gauge = Gauge::new(context.screen, "rotation");
    let files = KeyFiles::new(&context.home.secrets(), &context.environment);
    let clock = std::sync::Arc::new(WallClock);
    Ok(if forget_old {
        let forgotten = forget_old_at_rest(&stopped.storage, files, clock)?;
        json!({"data": {"forgotten": forgotten}})
    } else {
        let step = |done, total| gauge.set(done, total, "steps");
        let rotated = rotate_at_rest(&stopped.storage, files, clock, &step);
        let rotated = gauge.over(rotated).await?;
        json!({"data": {"data_keys": rotated.data_keys}})
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    fn scope(team: Option<&str>) -> OneScope {
        OneScope { team: team.map(str::to_owned), system: team.is_none() }
    }

    #[test]
    fn only_a_key_and_a_team_lead_to_an_entry() {
        assert_eq!(scope(Some("ops")).path("A.b:c").unwrap(), "/api/v1/vault/team:ops/A.b:c");
        assert_eq!(scope(None).path("K").unwrap(), "/api/v1/vault/system/K");
        for (team, key) in [(None, "a/b"), (None, ""), (Some("a/.."), "k"), (None, "a?b")] {
            let failure = scope(team).path(key).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{team:?} {key}");
        }
    }
}
