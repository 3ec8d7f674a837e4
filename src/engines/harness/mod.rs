//! Harness: engines that are command-line agents, each turn a process of its own in the sandbox.

pub mod program;
