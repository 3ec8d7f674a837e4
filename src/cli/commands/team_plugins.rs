//! `hivewright plugin enable|disable|restart|setup|config`: plugins of one team.

use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use clap::Subcommand;
use serde_json::{Map, Value, json};

use super::plugin_setup;
use crate::{
    api::{
        endpoint::{ByName, Empty},
        flags::pair,
        team_plugins::*,
    },
    cli::{
        answer::Answer, blocking::blocking, client::Service, context::Context,
        external_editor::open_editor, failure::Failure, screen::complain,
    },
    settings::replace::create,
};

/// The largest file of settings.
const LARGEST: u64 = 256 << 10;

#[derive(Debug, PartialEq, Subcommand)]
pub(crate) enum Action {
    /// Switch a plugin on for a team
    #[command(after_help = "Example:\n  hivewright plugin enable weather --team main")]
    Enable(ByTeamPlugin),
    /// Switch a plugin off for a team
    #[command(after_help = "Example:\n  hivewright plugin disable weather --team main")]
    Disable(ByTeamPlugin),
    /// Start a plugin of a team anew, also one that was given up
    #[command(after_help = "Example:\n  hivewright plugin restart weather --team main")]
    Restart(ByTeamPlugin),
    /// Set up the channel of a plugin step by step, and switch it on
    #[command(
        after_help = "Nobody at a terminal is asked for what `--set` says. Secrets go to the vault of the team.\n\n\
        Examples:\n  \
        hivewright channel setup echo-channel --team main\n  \
        hivewright channel setup echo-channel --team main --set secret=- < secret.txt"
    )]
    Setup(plugin_setup::Setup),
    /// Show or change what a plugin of a team is told
    #[command(
        after_help = "Secrets go to the vault of the team. `-` is what standard input says.\n\n\
        Examples:\n  \
        hivewright plugin config weather --team main\n  \
        hivewright plugin config weather --team main --set /tools/city=Oslo\n  \
        hivewright plugin config weather --team main --set /tools/token=- < token.txt\n  \
        hivewright plugin config weather --team main --file weather.json\n  \
        hivewright plugin config weather --team main --edit"
    )]
    Config {
        #[command(flatten)]
        which: ByTeamPlugin,
        /// One setting by its JSON pointer, in which `-` is a new item of a list; a value that is no JSON is text
        #[arg(long, value_name = "POINTER=VALUE", value_parser = setting, conflicts_with = "file")]
        set: Vec<(String, String)>,
        /// All settings, as JSON
        #[arg(long, value_name = "FILE")]
        file: Option<PathBuf>,
        /// All settings, in your editor (VISUAL, EDITOR)
        #[arg(long, conflicts_with_all = ["set", "file"])]
        edit: bool,
    },
}

fn setting(text: &str) -> Result<(String, String), String> {
    let expected = "a JSON pointer, `=` and a value, such as `/tools/city=Oslo`";
    let (pointer, value) = pair(text, "/", expected)?;
    Ok((pointer.to_owned(), value.to_owned()))
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::Setup(setup) => plugin_setup::run(setup, context).await,
        Action::Enable(which) => {
            let on = TeamPluginChange { enabled: Some(true), ..TeamPluginChange::default() };
            let row = service.send(&SET_TEAM_PLUGIN, &which, &on).await?;
            row.tell(screen, |row| {
                let TeamPluginRow { key, status, withheld, .. } = row;
                let team = &which.team;
                let on = format!("on: {key} for team {team}; it is {status}");
                if !withheld {
                    return on;
                }
                let file = match context.url {
                    None => format!("`{}`", context.home.team_file(team).display()),
                    Some(_) => "its file".to_owned(),
                };
                format!("{on}\n{team} cannot call its tools yet: put \"@plugins\" into `allowed_tools` of {file}")
            })
        }
        Action::Disable(which) => {
            let off = TeamPluginChange { enabled: Some(false), ..TeamPluginChange::default() };
            let row = service.send(&SET_TEAM_PLUGIN, &which, &off).await?;
            row.tell(screen, |row| format!("off: {} for team {}", row.key, which.team))
        }
        Action::Restart(which) => {
            let row = service.at(&RESTART_TEAM_PLUGIN, &which).await?;
            row.tell(screen, |row| format!("restarting: {} of team {}", row.key, which.team))
        }
        Action::Config { which, edit: true, .. } => match edit(&service, &which).await? {
            Some(row) => row.tell(screen, |row| format!("set: {} of team {}", row.key, which.team)),
            None => {
                screen.remark("nothing was changed");
                Ok(())
            }
        },
        Action::Config { which, set, file, edit: false } => {
            let before = shown(&service, &which).await?;
            let config = match (&file, set.is_empty()) {
                (Some(file), _) => object(&read(file)?)?,
                (None, false) => changed(before.config, &set)?,
                (None, true) if screen.json => {
                    return screen.document(&json!({"data": before.config}));
                }
                (None, true) => {
                    let text = serde_json::to_string_pretty(&before.config);
                    let text = text.map_err(|error| Failure::system("cannot be shown", error))?;
                    screen.say(&text);
                    return Ok(());
                }
            };
            let row = send(&service, &which, config).await?;
            row.tell(screen, |row| format!("set: {} of team {}", row.key, which.team))
        }
    }
}

async fn send(
    service: &Service,
    which: &ByTeamPlugin,
    config: Map<String, Value>,
) -> Result<Answer<TeamPluginRow>, Failure> {
    let change = TeamPluginChange { config: Some(config), ..TeamPluginChange::default() };
    service.send(&SET_TEAM_PLUGIN, which, &change).await
}

/// A file for the editor. It may hold secrets, and goes when it is dropped.
struct Draft(PathBuf);

impl Draft {
    fn make(text: &str) -> Result<Self, Failure> {
        let name = format!("hivewright-settings-{}.json", std::process::id());
        let draft = Self(std::env::temp_dir().join(name));
        create(&draft.0, text.as_bytes()).map_err(Failure::unwritable(&draft.0))?;
        Ok(draft)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // What cannot be removed is in a folder that the system empties.
        let _kept = fs::remove_file(&self.0);
    }
}

/// Sends what the person makes of the settings in their editor. What is refused is told and opened again, until they leave
/// it as it is.
async fn edit(
    service: &Service,
    which: &ByTeamPlugin,
) -> Result<Option<Answer<TeamPluginRow>>, Failure> {
    let before = shown(service, which).await?.config;
    let mut text = serde_json::to_string_pretty(&before)
        .map_err(|error| Failure::system("cannot be shown", error))?;
    text.push('\n');
    let draft = Draft::make(&text)?;
    let mut refusal = None;
    loop {
        let file = draft.0.clone();
        let changed = blocking(move || open_editor(&file).and_then(|()| read(&file))).await?;
        if changed == text {
            return refusal.map_or(Ok(None), Err);
        }
        let sent = match object(&changed) {
            Ok(config) => send(service, which, config).await,
            Err(failure) => Err(failure),
        };
        match sent {
            Ok(row) => return Ok(Some(row)),
            Err(failure) => {
                complain(&failure.message);
                refusal = Some(Failure::new(failure.exit, "the settings stay as they were"));
            }
        }
        text = changed;
    }
}

/// The plugin as it is now.
async fn shown(service: &Service, which: &ByTeamPlugin) -> Result<TeamPluginRow, Failure> {
    let path = ByName { name: which.team.clone() };
    let rows = service.all_rows(&LIST_TEAM_PLUGINS, &path, &Empty {}).await?.data()?;
    let missing = || {
        Failure::not_found(format!(
            "no plugin `{}` is installed; `hivewright plugin list` shows those there are",
            which.key
        ))
    };
    rows.into_iter().find(|row| row.key == which.key).ok_or_else(missing)
}

fn changed(config: Value, set: &[(String, String)]) -> Result<Map<String, Value>, Failure> {
    let mut config = config;
    for (pointer, value) in set {
        let value =
            if value == "-" { read(Path::new("-"))?.trim_end().to_owned() } else { value.clone() };
        let value = serde_json::from_str(&value).unwrap_or(Value::String(value));
        let mut place = &mut config;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            place = below(place, part)
                .map_err(|reason| Failure::usage(format!("`{pointer}` leads nowhere: {reason}")))?;
        }
        *place = value;
    }
    match config {
        Value::Object(config) => Ok(config),
        _ => Err(Failure::usage("the settings of a plugin are an object")),
    }
}

/// The place that one part of a JSON pointer leads to. Fields are made, and `-` is a new item of a list.
fn below(place: &mut Value, part: String) -> Result<&mut Value, String> {
    if part == "-" && place.is_null() {
        *place = Value::Array(Vec::new());
    }
    match place {
        Value::Array(items) => {
            let count = items.len();
            if part == "-" {
                items.push(Value::Null);
            }
            let index = if part == "-" { Some(count) } else { part.parse().ok() };
            let item = index.and_then(|index: usize| items.get_mut(index));
            item.ok_or_else(|| {
                format!("`{part}` is no item of a list of {count}; `-` is a new one")
            })
        }
        Value::Object(fields) => Ok(fields.entry(part).or_insert(Value::Null)),
        _ => {
            *place = Value::Object(Map::new());
            Ok(&mut place[part.as_str()])
        }
    }
}

pub(super) fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file.as_os_str() == "-" {
        io::stdin().take(LARGEST).read_to_string(&mut text)
    } else {
        fs::File::open(file).and_then(|file| file.take(LARGEST).read_to_string(&mut text))
    };
    read.map_err(Failure::unreadable(file))?;
    Ok(text)
}

pub(super) fn object(text: &str) -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(text)
        .map_err(|error| Failure::usage(format!("expected a JSON object: {error}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_setting_is_put_where_its_pointer_says() {
        let set = ["/tools/city=Oslo", "/tools/days=3", "/hooks/mode=\"3\""];
        let set: Vec<_> = set.iter().map(|text| setting(text).unwrap()).collect();

        let config = changed(json!({"tools": {"kept": true}}), &set).unwrap();

        let expected =
            json!({"tools": {"kept": true, "city": "Oslo", "days": 3}, "hooks": {"mode": "3"}});
        assert_eq!(Value::Object(config), expected);
        assert!(setting("city=Oslo").is_err());
    }

    /// PL-64
    #[test]
    fn a_pointer_leads_into_lists() {
        let apply = |text: &str| {
            let config = json!({"tools": {"keys": [{"host": "a"}, {"host": "b"}]}});
            changed(config, &[setting(text).unwrap()])
                .map(|config| Value::Object(config)["tools"].take())
        };

        let item = apply("/tools/keys/1/host=c").unwrap();
        let new = apply("/tools/keys/-/host=c").unwrap();
        let list = apply("/tools/hosts/-=c").unwrap();
        let escaped = apply("/tools/a~1b~01=c").unwrap();

        assert_eq!(item, json!({"keys": [{"host": "a"}, {"host": "c"}]}));
        assert_eq!(new, json!({"keys": [{"host": "a"}, {"host": "b"}, {"host": "c"}]}));
        assert_eq!(list["hosts"], json!(["c"]));
        assert_eq!(escaped["a/b~1"], "c");
        for nowhere in ["/tools/keys/2/host=c", "/tools/keys/x=c"] {
            let message = apply(nowhere).unwrap_err().message;
            assert!(message.contains("no item of a list of 2"), "{message}");
        }
    }
}
