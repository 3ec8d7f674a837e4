//! What the arguments mean.

use std::{any::TypeId, path::PathBuf};

use clap::{CommandFactory, error::ErrorKind};

use super::*;
use crate::cli::context::way;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split(' '))
}

#[test]
fn the_definition_of_the_command_line_is_sound() {
    Cli::command().debug_assert();
}

/// OP-74
#[test]
fn without_a_command_the_service_is_meant() {
    assert!(parse("hivewright").unwrap().command.is_none());
    let Some(Command::Serve(arguments)) =
        parse("hivewright serve --bind ::1 --port 0 --open").unwrap().command
    else {
        panic!("not `serve`");
    };

    let expected =
        serve::Arguments { bind: Some("::1".parse().unwrap()), port: Some(0), open: true };
    assert_eq!(arguments, expected);
}

#[test]
fn what_every_command_understands_may_stand_on_both_sides_of_it() {
    for line in ["hivewright --home /h --json status", "hivewright status --home /h --json"] {
        let everywhere = parse(line).unwrap().everywhere;
        assert_eq!(everywhere.flags.home, Some("/h".into()));
        assert!(everywhere.json && !everywhere.quiet);
    }
}

/// OP-87
#[test]
fn what_is_mistyped_gets_a_suggestion() {
    for (line, suggestion) in [
        ("hivewright docter", "doctor"),
        ("hivewright token lst", "list"),
        ("hivewright doctor --dep", "--deep"),
        ("hivewright init --provider antropic", "anthropic"),
    ] {
        let message = parse(line).unwrap_err().to_string();
        let expected = format!("'{suggestion}'");
        assert!(message.contains(&expected), "{message}");
    }
}

/// OP-87: who does not know whether it is `trigger` or `triggers`, `delete` or `remove`, need not know.
#[test]
fn other_names_of_a_command_are_understood() {
    for line in [
        "hivewright triggers list",
        "hivewright trigger remove news/morning",
        "hivewright plugins uninstall weather",
        "hivewright tokens rm ci",
        "hivewright team show main",
        "hivewright secrets list",
        "hivewright vault get FORGE_TOKEN --team ops",
        "hivewright settings check",
        "hivewright log --follow",
        "hivewright events --follow",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

/// OP-87
#[test]
fn the_help_of_each_command_has_an_example() {
    fn check(command: &clap::Command, name: &str) {
        let after = command.get_after_help().map(ToString::to_string);
        let after = after.unwrap_or_default();
        assert!(after.contains("Example"), "`{name}` has no example");
        // `channel` is `plugin` for those that bring one.
        let also = [("channel", "plugin"), ("plugin", "channel")].map(|(one, other)| {
            name.replace(&format!("hivewright {one} "), &format!("hivewright {other} "))
        });
        assert!(
            [name]
                .into_iter()
                .chain(also.iter().map(String::as_str))
                .any(|name| after.contains(name)),
            "the example of `{name}` shows something else"
        );
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            check(inner, &format!("{name} {}", inner.get_name()));
        }
    }
    check(&Cli::command(), "hivewright");
}

/// OP-87
#[test]
fn the_help_of_each_argument_says_what_it_is_and_shows_no_empty_default() {
    fn check(command: &clap::Command, name: &str) {
        for argument in command.get_arguments() {
            let id = argument.get_id();
            assert!(argument.get_help().is_some(), "`{name}` does not say what `{id}` is");
            let shown = !argument.is_hide_default_value_set();
            let is_empty = argument.get_default_values().iter().any(|value| value.is_empty());
            assert!(!(shown && is_empty), "`{name}` shows an empty default of `{id}`");
        }
        for inner in command.get_subcommands() {
            check(inner, &format!("{name} {}", inner.get_name()));
        }
    }
    let mut all = Cli::command();
    all.build();
    check(&all, "hivewright");
}

/// SC-05: a command that takes a path or an address stands in the table of what callers name.
#[test]
fn what_commands_take_stands_in_the_table_of_bounds() {
    const SECURITY: &str = include_str!("../../../../docs/security.md");
    fn check(command: &clap::Command, top: &str, table: &str, seen: &mut usize) {
        for argument in command.get_arguments() {
            let is_path = argument.get_value_parser().type_id() == TypeId::of::<PathBuf>();
            if !is_path && argument.get_id() != "url" {
                continue;
            }
            let name = match argument.get_long() {
                Some(long) => format!("--{long}"),
                None => "FILE".to_owned(),
            };
            let whose = if argument.is_global_set() { "every command" } else { top };
            let row = table.lines().find(|row| row.contains(whose) && row.contains(&name));
            assert!(row.is_some(), "`{whose}` takes `{name}`: not in docs/security.md");
            *seen += 1;
        }
        for inner in command.get_subcommands() {
            let top = match top {
                "every command" => format!("`hivewright {}`", inner.get_name()),
                top => top.to_owned(),
            };
            check(inner, &top, table, seen);
        }
    }
    let (_, table) = SECURITY.split_once("\n## What callers name\n").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let mut seen = 0;

    check(&Cli::command(), "every command", table, &mut seen);

    assert!(seen >= 8, "{seen}");
}

/// OP-81
#[test]
fn a_restore_has_one_source() {
    for (line, kind) in [
        ("hivewright restore", ErrorKind::MissingRequiredArgument),
        ("hivewright restore a --newest", ErrorKind::ArgumentConflict),
        ("hivewright restore --newest --force", ErrorKind::ArgumentConflict),
    ] {
        assert_eq!(parse(line).unwrap_err().kind(), kind, "{line}");
    }
    assert!(parse("hivewright restore a --force").is_ok());
    assert!(parse("hivewright restore --newest").is_ok());
}

/// OP-86
#[test]
fn a_suggested_command_leads_to_the_same_home_or_service() {
    let way = |line: &str| way(&parse(line).unwrap().everywhere);

    assert_eq!(way("hivewright status --home /h --run-dir /r"), " --home /h --run-dir /r");
    assert_eq!(way("hivewright status --context office"), " --context office");
    assert_eq!(
        way("hivewright --url https://x --cacert /c status"),
        " --cacert /c --url https://x"
    );
    assert_eq!(way("hivewright status"), "");
}

/// OP-86: what the layers below say of commands is for the same home, and said once.
#[test]
fn a_command_that_a_failure_suggests_is_for_the_same_home() {
    let context =
        |line: &str| Context::new(parse(line).unwrap().everywhere, Screen::PLAIN).unwrap();
    let said = "in use: `hivewright stop`, then `hivewright --home /h serve`";

    let led = context("hivewright --home /h status").led(said);
    let elsewhere = context("hivewright --home /h --url https://x status").led(said);

    assert_eq!(led, "in use: `hivewright --home /h stop`, then `hivewright --home /h serve`");
    assert_eq!(elsewhere, said);
}

/// OP-86
#[test]
fn completions_are_printed_where_there_is_no_home() {
    let command = parse("hivewright completions bash").unwrap().command;
    let no_home = Failure::new(Exit::Settings, "no home folder");

    assert_eq!(dispatch(command, Err(no_home), Screen::PLAIN), Ok(()));
}
