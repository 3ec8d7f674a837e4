//! The command line: the commands, and what they share.

mod answer;
mod blocking;
mod channel_state;
mod chat_output;
mod client;
pub mod commands;
mod connection;
mod context;
mod delegated;
mod earlier;
mod editor;
mod events;
mod external_editor;
pub mod failure;
mod markdown;
mod message_tracker;
mod named_services;
mod notice;
mod progress;
mod prompt;
mod screen;
mod stopped;
mod table;
mod team_message;
mod transcript;
mod unknown;
mod watch;
