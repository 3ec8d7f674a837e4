//! The program: a service, its command line, a launcher of confined commands, or a host of scripts in the sandbox.

use std::{
    ffi::{c_int, c_long},
    process::ExitCode,
};

use hivewright::{
    cli::commands::dispatch,
    plugins::host::child,
    sandbox::process::{launch, script},
};
use mimalloc::MiMalloc;

/// A turn passes through several threads, and what one allocates another frees: the system's
/// allocator spends a third of the CPU time of a message on that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

#[expect(unsafe_code, reason = "the bindings leave the allocator's options out")]
unsafe extern "C" {
    safe fn mi_option_set(option: c_int, value: c_long);
}

/// `mi_option_purge_delay` of mimalloc 3.
const PURGE_DELAY: c_int = 15;
/// What is free goes back to the system after so many milliseconds. By default it is a second, and since a service at rest
/// allocates nothing, which is when the allocator looks, it would keep what its start took: 6 MB.
const GIVEN_BACK_AFTER: c_long = 100;

fn main() -> ExitCode {
    // First of all: both confine themselves, and must have one thread only.
    match std::env::args_os().nth(1) {
        Some(argument) if argument == launch::ARGUMENT => return launch::main(),
        Some(argument) if argument == script::ARGUMENT => return child::main(),
        _ => {}
    }
    mi_option_set(PURGE_DELAY, GIVEN_BACK_AFTER);
    dispatch::run(std::env::args_os())
}
