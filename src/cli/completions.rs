//! `hivewright completions`: what a shell needs to complete commands and flags.

use clap::{
    Args, CommandFactory,
    builder::{PossibleValuesParser, TypedValueParser},
};
use clap_complete::Shell;

use super::{Cli, Context, failure::Failure};

/// Shells that are completed for.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Print completions for a shell
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright completions bash > ~/.local/share/bash-completion/completions/hivewright\n  \
    hivewright completions zsh > \"${fpath[1]}/_hivewright\"\n  \
    hivewright completions fish > ~/.config/fish/completions/hivewright.fish")]
pub(super) struct Arguments {
    /// The shell
    #[arg(value_parser = PossibleValuesParser::new(SHELLS).try_map(|name| name.parse::<Shell>()))]
    pub(super) shell: Shell,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    context.screen.write(&script(arguments.shell));
    Ok(())
}

fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "hivewright", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {

    use std::{
        io::Write,
        process::{Command, Stdio},
    };

    use super::*;

    /// OP-82: bash itself completes with what we print.
    #[test]
    fn bash_completes_commands_and_flags() {
        let mut bash = Command::new("bash")
            .args(["--norc", "--noprofile"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asked = "\nCOMP_WORDS=(hivewright teams sh); COMP_CWORD=2; _hivewright hivewright sh teams\n\
            printf '%s\\n' \"${COMPREPLY[@]}\"\n\
            COMP_WORDS=(hivewright teams pause --n); COMP_CWORD=3; _hivewright hivewright --n pause\n\
            printf '%s\\n' \"${COMPREPLY[@]}\"\n\
            COMP_WORDS=(hivewright history t); COMP_CWORD=2; _hivewright hivewright t history\n\
            printf '%s\\n' \"${COMPREPLY[@]}\"\n";
        let mut input = bash.stdin.take().unwrap();
        input.write_all(script(Shell::Bash).as_bytes()).unwrap();
        input.write_all(asked.as_bytes()).unwrap();
        drop(input);

        let output = bash.wait_with_output().unwrap();
        let words = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            words.split_whitespace().collect::<Vec<_>>(),
            ["show", "shutdown", "--now", "--no-color", "tail"]
        );
    }

    /// OP-82
    #[test]
    fn each_shell_has_its_script() {
        assert!(script(Shell::Zsh).starts_with("#compdef hivewright"));
        assert!(script(Shell::Fish).contains("complete -c hivewright"));
    }
}
