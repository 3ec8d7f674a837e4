//! The service from outside: what a user or an operator would see, with real processes and sockets.
//! One file per behaviour.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod approvals;
mod bad_input;
mod bad_requests;
mod browser;
mod bypasses;
mod canaries;
mod children;
mod cli;
mod cli_chat;
mod cli_config;
mod cli_delegated;
mod cli_follow;
mod cli_local;
mod cli_output;
mod cli_reading;
mod cli_routes;
mod cli_service;
mod compaction;
mod contract;
mod crash;
mod delegations;
mod events;
mod fake_model;
mod faults;
mod import;
mod injections;
mod isolation;
mod kill_switch;
mod learning;
mod lifecycle;
mod memory;
mod model_faults;
mod organisation;
mod parity;
mod protocol;
mod queue_modes;
mod racer;
mod raw_socket;
mod resume;
mod sandbox;
mod secrets;
mod service;
mod settings_files;
mod sharing;
mod skills;
mod systemd;
mod topics;
mod triggers;
mod trust;
mod vault;
mod waiting;
mod webdriver;
mod workspace;
