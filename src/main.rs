//! The program: a service, its command line, or a launcher of confined commands.

use std::process::ExitCode;

use hivewright::{cli, sandbox::process::launch};
use mimalloc::MiMalloc;

/// A turn passes through several threads, and what one allocates another frees: the system's
/// allocator spends a third of the CPU time of a message on that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // First of all: a launcher must have one thread only.
    if std::env::args_os().nth(1).is_some_and(|argument| argument == launch::ARGUMENT) {
        return launch::main();
    }
    cli::run(std::env::args_os())
}
