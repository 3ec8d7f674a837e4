//! What the arguments mean.

#![allow(clippy::unwrap_used, clippy::panic)]

use clap::{CommandFactory, error::ErrorKind};

use super::*;

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
    let Some(Command::Serve(arguments)) = parse("hivewright serve --bind ::1 --port 0 --open")
        .unwrap()
        .command
    else {
        panic!("not `serve`");
    };

    let expected = serve::Arguments {
        bind: Some("::1".parse().unwrap()),
        port: Some(0),
        open: true,
    };
    assert_eq!(arguments, expected);
}

#[test]
fn what_every_command_understands_may_stand_on_both_sides_of_it() {
    for line in [
        "hivewright --home /h --json status",
        "hivewright status --home /h --json",
    ] {
        let everywhere = parse(line).unwrap().everywhere;
        assert_eq!(everywhere.home, Some("/h".into()));
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

/// OP-87
#[test]
fn the_help_of_each_command_has_an_example() {
    fn check(command: &clap::Command, name: &str) {
        let after = command.get_after_help().map(ToString::to_string);
        let after = after.unwrap_or_default();
        assert!(after.contains("Example"), "`{name}` has no example");
        assert!(
            after.contains(&format!(
                "hivewright{}",
                name.trim_start_matches("hivewright")
            )),
            "the example of `{name}` shows something else"
        );
        for inner in command
            .get_subcommands()
            .filter(|inner| inner.get_name() != "help")
        {
            check(inner, &format!("{name} {}", inner.get_name()));
        }
    }
    check(&Cli::command(), "hivewright");
}

/// OP-81
#[test]
fn a_restore_has_one_source() {
    for (line, kind) in [
        ("hivewright restore", ErrorKind::MissingRequiredArgument),
        ("hivewright restore a --newest", ErrorKind::ArgumentConflict),
        (
            "hivewright restore --newest --force",
            ErrorKind::ArgumentConflict,
        ),
    ] {
        assert_eq!(parse(line).unwrap_err().kind(), kind, "{line}");
    }
    assert!(parse("hivewright restore a --force").is_ok());
    assert!(parse("hivewright restore --newest").is_ok());
}

/// OP-86
#[test]
fn a_suggested_command_leads_to_the_same_home() {
    let flags = Flags {
        home: Some("/h".into()),
        data_dir: None,
        run_dir: Some("/r".into()),
    };

    assert_eq!(way(&flags), " --home /h --run-dir /r");
    assert_eq!(way(&Flags::default()), "");
}
