//! What a model is told before the conversation begins.

pub mod compose;

mod folder;
mod markdown;
mod parts;
mod rules;

#[cfg(test)]
mod tests;
