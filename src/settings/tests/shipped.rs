//! The shipped files and the table of the documentation say what the declarations say.

use std::fmt::Write as _;

use serde_json::{Value as Json, json};

use super::*;
use crate::{
    settings::{
        channels::Channels,
        config::Config,
        document::{Counts, Description, Document},
        load::{self, File, ServiceFile},
        providers::Profile,
        reader::Group,
        search::Search,
        team::{MAIN_TOOLS, Team},
    },
    tests::assert_snapshot,
};

/// How wide comments are.
const WIDTH: usize = 110;

fn described<T: Group>() -> Vec<Description> {
    Document::describe::<T>("", &place().home)
}

/// What a shipped file says other than the default, and why.
struct Shipped {
    path: &'static str,
    value: Json,
    reason: &'static str,
}

#[test]
fn the_config_file_is_made_from_the_declaration() {
    assert_snapshot("config/config.yaml", &file::<Config>(&[]), module_path!());
}

/// PL-66: whoever takes the comment signs away has a rule.
#[test]
fn the_example_of_a_rule_is_one() {
    let settings = described::<Config>();
    let policy = settings.iter().find(|setting| setting.path == "policy").unwrap();
    let text = format!("policy:{}", policy.declared.example.unwrap());

    load::validate(&place().home, &File::Service(ServiceFile::Config), &text).unwrap();
}

/// With a file a WebSocket is open only if named.
#[test]
fn the_channels_file_is_made_from_the_declaration() {
    let shipped = [Shipped { path: "ws.enabled", value: json!(true), reason: "" }];

    assert_snapshot("config/channels.yaml", &file::<Channels>(&shipped), module_path!());
}

#[test]
fn the_file_of_the_main_team_is_made_from_the_declaration() {
    let shipped = [
        Shipped { path: "max_steps", value: json!(200), reason: "" },
        Shipped {
            path: "allowed_tools",
            value: json!(MAIN_TOOLS),
            reason: "This team hands work to others, and so has none to do it itself. To let it work \
                     alone, add \"@files\" (read, write, edit, glob, grep) and \"@shell\" (bash).",
        },
    ];

    assert_snapshot("config/main-team.yaml", &file::<Team>(&shipped), module_path!());
}

#[test]
fn the_providers_file_is_made_from_the_declaration() {
    let section = |settings: Vec<Description>, indent: &str| {
        let mut section = String::new();
        for setting in settings {
            let value = setting.declared.example.map(ToOwned::to_owned);
            let value = value.unwrap_or_else(|| yaml(&setting.default.clone().unwrap()));
            section += &comment(&text_of(&setting, ""), "");
            writeln!(section, "{}: {value}", setting.declared.key).unwrap();
        }
        section.lines().fold(String::new(), |text, line| format!("{text}#{indent}{line}\n"))
    };
    let profile = section(described::<Profile>(), "     ");
    let search = section(described::<Search>(), "   ");

    assert_snapshot(
        "config/providers.yaml",
        &format!(
            "# Which models there are, as named profiles. A change counts from the next turn.
#
# As long as nothing but comments is in this file, there is one profile `default`, made from
# the variable ANTHROPIC_API_KEY, or else OPENAI_API_KEY. Without either an offline demo answers.
#
# profiles:
#   default:
{profile}#   local:
#     # A private address may be plain http, and needs no key.
#     provider: openai
#     api_url: http://localhost:11434/v1
#     model: llama3
#
# What the tool `web_search` asks. Without it there is no such tool.
#
# search:
{search}#
# What the tool `search_skill_repository` asks. Without it there is no such tool.
#
# skill_repository: https://api.skills.sh/v1/search
"
        ),
        module_path!(),
    );
}

#[test]
fn the_table_of_the_documentation_is_made_from_the_declaration() {
    let files = [
        ("config/config.yaml", vec![("", described::<Config>())]),
        (
            "config/providers.yaml",
            vec![("profiles.NAME.", described::<Profile>()), ("search.", described::<Search>())],
        ),
        ("config/channels.yaml", vec![("", described::<Channels>())]),
        ("teams/NAME/config.yaml", vec![("", described::<Team>())]),
    ];
    let mut page = "# Settings, one by one\n\n\
        Every setting of every file, as the program reads it, but for `skill_repository` of `providers.yaml` ([web](web.md)).\n\
        [Settings and models](settings.md) says how files are read and when they count.\n"
        .to_owned();
    for (name, sections) in files {
        write!(
            page,
            "\n## {name}\n\n| setting | default | allowed | what it is |\n|---|---|---|---|\n"
        )
        .unwrap();
        let settings = sections.into_iter().flat_map(|(above, settings)| {
            settings.into_iter().map(move |setting| (above, setting))
        });
        for (above, Description { path, declared, default, allowed }) in settings {
            let Some(default) = default else {
                continue;
            };
            let default = match default {
                Json::Null => String::new(),
                default => format!("`{}`", yaml(&default)),
            };
            let mut about = paragraphs(declared.about).join(" ");
            if declared.counts != Counts::AtOnce {
                write!(about, " Counts {}.", declared.counts).unwrap();
            }
            writeln!(page, "| `{above}{path}` | {default} | {allowed} | {about} |").unwrap();
        }
    }

    assert_snapshot("docs/operating/settings-table.md", &page, module_path!());
}

/// A whole file: each setting with its default, or as an example in a comment.
fn file<T: Group>(shipped: &[Shipped]) -> String {
    let mut text: String = paragraphs(T::ABOUT).iter().map(|about| comment(about, "")).collect();
    for setting in described::<T>() {
        let indent = "  ".repeat(setting.path.matches('.').count());
        if indent.is_empty() {
            text.push('\n');
        }
        let other = shipped.iter().find(|other| other.path == setting.path);
        let about = text_of(&setting, other.map_or("", |other| other.reason));
        text += &comment(&about, &indent);
        let key = setting.declared.key;
        let example = setting.declared.example.unwrap_or_default();
        match (&setting.default, other) {
            (None, _) => writeln!(text, "{indent}{key}:"),
            (_, Some(other)) => writeln!(text, "{indent}{key}: {}", yaml(&other.value)),
            (Some(Json::Null), None) => {
                let space = if example.starts_with('\n') { "" } else { " " };
                let lines = format!("{key}:{space}{example}");
                lines.lines().try_for_each(|line| writeln!(text, "{indent}# {line}"))
            }
            (Some(default), None) => {
                writeln!(text, "{indent}{key}: {}", yaml(default)).unwrap();
                example.lines().skip(1).try_for_each(|line| writeln!(text, "{indent}# {line}"))
            }
        }
        .unwrap();
    }
    text
}

/// What a comment says: what the setting is, what it may be, and when it counts.
fn text_of(setting: &Description, more: &str) -> String {
    let mut about = paragraphs(setting.declared.about);
    let mut letters = setting.allowed.chars();
    if let Some(first) = letters.next() {
        about.push(format!("{}{}.", first.to_uppercase(), letters.as_str()));
    }
    if !more.is_empty() {
        about.push(more.to_owned());
    }
    if setting.declared.counts != Counts::AtOnce {
        about.push(format!("Counts {}.", setting.declared.counts));
    }
    about.join(" ")
}

/// The paragraphs of a doc comment, each in one line.
fn paragraphs(about: &str) -> Vec<String> {
    let lines: Vec<&str> = about.lines().map(str::trim).collect();
    let paragraphs = lines.split(|line| line.is_empty()).map(|lines| lines.join(" "));
    paragraphs.filter(|paragraph| !paragraph.is_empty()).collect()
}

/// Lines of a comment, cut between words.
fn comment(text: &str, indent: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(format!("{indent}# {word}")),
        }
    }
    lines.iter().fold(String::new(), |text, line| text + line + "\n")
}

/// A value as a file writes it.
fn yaml(value: &Json) -> String {
    match value {
        Json::String(text) if is_plain(text) => text.clone(),
        Json::Array(items) => {
            let items: Vec<String> = items.iter().map(yaml).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || ".:/-_".contains(letter);
    !text.is_empty() && text.chars().all(plain)
}
