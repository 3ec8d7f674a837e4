//! The program: a service, its command line, a launcher of confined commands, or a host of scripts in the sandbox.

use std::process::ExitCode;

use hivewright::{
    cli,
    plugins::host::child,
    sandbox::process::{launch, script},
};
use mimalloc::MiMalloc;

/// A turn passes through several threads, and what one allocates another frees: the system's
/// allocator spends a third of the CPU time of a message on that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    // First of all: both confine themselves, and must have one thread only.
    match std::env::args_os().nth(1) {
        Some(argument) if argument == launch::ARGUMENT => return launch::main(),
        Some(argument) if argument == script::ARGUMENT => return child::main(),
        _ => {}
    }
    cli::run(std::env::args_os())
}
