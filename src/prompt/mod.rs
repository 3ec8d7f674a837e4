//! What a model is told before the conversation begins.

pub mod compose;
pub mod instructions;
pub mod library;
pub mod role;
pub mod subagents;

mod folder;
pub(crate) mod markdown;
pub mod parts;
mod rules;
mod skills;

#[cfg(test)]
mod tests;
