//! `hivewright vault`: secrets of the service and of teams. None is ever shown.

use std::io::{self, IsTerminal, Read};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::{ArgGroup, Args, Subcommand};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{
    Context,
    backup::blocking,
    failure::{Exit, Failure},
    hidden,
    service::Service,
    stopped::Stopped,
    table::{moment, table},
};
use crate::{
    machine::WallClock,
    vault::{
        entry::{LARGEST_VALUE, is_key},
        master::KeyFiles,
        rotate::{forget_old_at_rest, rotate_at_rest},
    },
};

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
    let document = match (&action, Service::if_running(context)?) {
        (Action::RotateMaster { forget_old }, None) => at_rest(*forget_old, context).await?,
        (_, Some(service)) => ask(&action, &service).await?,
        (_, None) => ask(&action, &Service::find(context)?).await?,
    };
    if context.screen.json {
        return context.screen.document(&document);
    }
    show(&action, &document, context)
}

/// Lets the service do it.
async fn ask(action: &Action, service: &Service) -> Result<Value, Failure> {
    match action {
        Action::List { of, prefix } => {
            let prefix = Some(prefix.clone()).filter(|prefix| !prefix.is_empty());
            let limit = Some("200".to_owned());
            let fields = [("scope", of.name()), ("prefix", prefix), ("limit", limit)];
            service.search(PATH, given(fields)).await
        }
        Action::Set { key, of, .. } => {
            let path = of.path(key)?;
            let wish = wish(action).await?;
            service.put(&path, &wish).await
        }
        Action::Show { key, of } => service.get(&of.path(key)?).await,
        Action::Delete { key, of } => {
            service.delete(&of.path(key)?, []).await?;
            Ok(json!({"data": {"deleted": key}}))
        }
        Action::RotateMaster { forget_old } => {
            let wish = json!({"forget_old": forget_old});
            service.post(&format!("{PATH}/rotate"), &wish).await
        }
        Action::Audit {
            of,
            key,
            action,
            since,
            limit,
        } => {
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

/// What is to be set.
async fn wish(action: &Action) -> Result<Value, Failure> {
    let Action::Set {
        key,
        tools,
        hosts,
        note,
        public,
        keep_value,
        ..
    } = action
    else {
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
    let value = match io::stdin().is_terminal() {
        true => hidden::ask(&format!("Value of {key}: "))?,
        false => {
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
        }
    };
    match value.is_empty() {
        true => Err(Failure::new(Exit::Usage, "there is no value")),
        false => Ok(value),
    }
}

/// Replaces the master key of a service that is stopped.
async fn at_rest(forget_old: bool, context: &Context) -> Result<Value, Failure> {
    let cloned = context.clone();
    let stopped = blocking(move || Stopped::open(&cloned, &|_| {})).await?;
    let files = KeyFiles::new(&context.home.secrets(), &context.environment);
    let clock = std::sync::Arc::new(WallClock);
    Ok(match forget_old {
        true => {
            let forgotten = forget_old_at_rest(&stopped.storage, files, clock)?;
            json!({"data": {"forgotten": forgotten}})
        }
        false => {
            let rotated = rotate_at_rest(&stopped.storage, files, clock).await?;
            json!({"data": {"data_keys": rotated.data_keys}})
        }
    })
}

#[derive(Debug, Deserialize)]
struct Row {
    scope: String,
    key: String,
    secret: bool,
    tools: Vec<String>,
    hosts: Vec<String>,
    note: String,
    version: u64,
    updated_by: String,
    updated_at: Option<String>,
    last_used_at: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Act {
    at: Option<String>,
    scope: String,
    key: Option<String>,
    action: String,
    actor: Value,
    tool: Option<String>,
    outcome: String,
}

fn show(action: &Action, document: &Value, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match action {
        Action::List { .. } => {
            let rows: Vec<Row> = read(document)?;
            screen.write(&listed(&rows));
            let total = document["total"].as_u64().unwrap_or_default();
            if total > rows.len() as u64 {
                screen.remark(&format!(
                    "{} of {total}; `--prefix` narrows them down",
                    rows.len()
                ));
            }
        }
        Action::Show { .. } => screen.write(&screen.harmless(&described(&read(document)?))),
        Action::Set { key, of, .. } => {
            let version = &document["data"]["version"];
            let reference = match of.system {
                true => format!("`${{vault:{key}}}` in settings files stands for it"),
                false => format!("its tools know it as `${{vault:{key}}}`"),
            };
            screen.remark(&format!("{key} is set (version {version}); {reference}"));
        }
        Action::Delete { key, .. } => screen.remark(&format!("deleted {key}")),
        Action::RotateMaster { forget_old: true } => {
            screen.remark(match document["data"]["forgotten"] == true {
                true => "the replaced master key is removed; backups from before the rotation cannot be used any more",
                false => "there is no replaced master key",
            });
        }
        Action::RotateMaster { forget_old: false } => {
            let file = context.home.secrets().join("master.key");
            let file = file.display();
            screen.remark(&format!(
                "the master key in {file} is another one now; keep a copy of it in a safe place\n\
                 the old one is in {file}.old; {} removes it, once no backup needs it",
                context.command("vault rotate-master --forget-old")
            ));
        }
        Action::Audit { .. } => screen.write(&acts(read(document)?)),
    }
    Ok(())
}

fn read<T: serde::de::DeserializeOwned>(document: &Value) -> Result<T, Failure> {
    serde_json::from_value(document["data"].clone())
        .map_err(|error| Failure::system("the service's answer cannot be read", error))
}

fn listed(rows: &[Row]) -> String {
    let rows = rows.iter().map(|row| {
        [
            row.scope.clone(),
            row.key.clone(),
            if row.secret { "secret" } else { "public" }.to_owned(),
            row.tools.join(","),
            row.hosts.join(","),
            used(row),
            row.note.clone(),
        ]
    });
    let heading = [
        "SCOPE",
        "KEY",
        "KIND",
        "TOOLS",
        "HOSTS",
        "LAST USED",
        "NOTE",
    ];
    table(heading, rows)
}

fn used(row: &Row) -> String {
    row.last_used_at
        .as_deref()
        .map_or("never".to_owned(), moment)
}

fn described(row: &Row) -> String {
    let value = match (row.secret, &row.value, &row.value_base64) {
        (true, _, _) => "not shown: it is a secret".to_owned(),
        (false, Some(text), _) => text.clone(),
        (false, None, Some(base64)) => format!("base64: {base64}"),
        (false, None, None) => String::new(),
    };
    let changed = row.updated_at.as_deref().map(moment).unwrap_or_default();
    let lines = [
        ("key", row.key.clone()),
        ("scope", row.scope.clone()),
        ("value", value),
        ("tools", row.tools.join(", ")),
        ("hosts", row.hosts.join(", ")),
        ("note", row.note.clone()),
        ("version", row.version.to_string()),
        ("changed", format!("{changed} by {}", row.updated_by)),
        ("last used", used(row)),
    ];
    let lines = lines
        .iter()
        .map(|(name, text)| format!("{name:<9}  {text}"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

fn acts(rows: Vec<Act>) -> String {
    let rows = rows.into_iter().map(|row| {
        let actor = match row.actor["kind"].as_str() {
            Some("team") => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (team, task) = (text(&row.actor["team"]["name"]), text(&row.actor["task"]));
                format!("team:{team} {task}")
            }
            Some("operator") => {
                let name = row.actor["name"].as_str().unwrap_or_default();
                format!("operator:{name}")
            }
            _ => "system".to_owned(),
        };
        [
            row.at.as_deref().map(moment).unwrap_or_default(),
            row.action,
            row.scope,
            row.key.unwrap_or_default(),
            actor,
            row.tool.unwrap_or_default(),
            row.outcome,
        ]
    });
    let heading = ["WHEN", "WHAT", "SCOPE", "KEY", "WHO", "TOOL", "OUTCOME"];
    table(heading, rows)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn scope(team: Option<&str>) -> OneScope {
        OneScope {
            team: team.map(str::to_owned),
            system: team.is_none(),
        }
    }

    #[test]
    fn only_a_key_and_a_team_lead_to_an_entry() {
        assert_eq!(
            scope(Some("ops")).path("A.b:c").unwrap(),
            "/api/v1/vault/team:ops/A.b:c"
        );
        assert_eq!(scope(None).path("K").unwrap(), "/api/v1/vault/system/K");
        for (team, key) in [
            (None, "a/b"),
            (None, ""),
            (Some("a/.."), "k"),
            (None, "a?b"),
        ] {
            let failure = scope(team).path(key).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{team:?} {key}");
        }
    }

    /// MV-62
    #[test]
    fn what_is_shown_of_a_secret_is_not_its_value() {
        let row = json!({"data": {
            "scope": "team:ops", "key": "TOKEN", "secret": true, "tools": ["bash"], "hosts": [],
            "note": "forge", "version": 2, "updated_by": "operator:ann",
            "created_at": "2026-11-14T23:46:40.000Z", "updated_at": "2026-11-14T23:46:40.000Z",
            "last_used_at": null,
        }});

        let shown = described(&read(&row).unwrap());
        let listed = listed(&[read(&row).unwrap()]);

        assert_eq!(
            shown,
            "key        TOKEN\nscope      team:ops\nvalue      not shown: it is a secret\n\
             tools      bash\nhosts\nnote       forge\nversion    2\n\
             changed    2026-11-14 23:46 UTC by operator:ann\nlast used  never\n"
        );
        assert_eq!(
            listed,
            "SCOPE     KEY    KIND    TOOLS  HOSTS  LAST USED  NOTE\n\
             team:ops  TOKEN  secret  bash          never      forge\n"
        );
    }

    /// MV-65
    #[test]
    fn the_audit_names_who_did_it() {
        let rows = json!({"data": [
            {"at": "2026-11-14T23:46:40.000Z", "scope": "team:ops", "key": "TOKEN", "action": "expand",
             "actor": {"kind": "team", "team": {"name": "ops", "generation": 1}, "task": "task-1"},
             "tool": "bash", "host": null, "outcome": "ok"},
            {"at": "2026-11-14T23:46:40.000Z", "scope": "*", "key": null, "action": "list",
             "actor": {"kind": "operator", "name": "ann", "token": "t-1"},
             "tool": null, "host": null, "outcome": "ok"},
        ]});

        let shown = acts(read(&rows).unwrap());

        assert_eq!(
            shown,
            "WHEN                  WHAT    SCOPE     KEY    WHO              TOOL  OUTCOME\n\
             2026-11-14 23:46 UTC  expand  team:ops  TOKEN  team:ops task-1  bash  ok\n\
             2026-11-14 23:46 UTC  list    *                operator:ann           ok\n"
        );
    }
}
