//! The service from outside: what a user or an operator would see.

mod cli;
mod cli_chat;
mod fake_model;
mod model_faults;
mod workspace;
