//! The program: a service, its command line, or a launcher of confined commands.

use std::process::ExitCode;

use hivewright::{cli, sandbox::process::launch};

fn main() -> ExitCode {
    // First of all: a launcher must have one thread only.
    if std::env::args_os()
        .nth(1)
        .is_some_and(|argument| argument == launch::ARGUMENT)
    {
        return launch::main();
    }
    cli::run(std::env::args_os())
}
