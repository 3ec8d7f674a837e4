//! What a model is told before the conversation begins.

pub mod compose;

mod folder;
mod parts;
mod rules;

#[cfg(test)]
mod tests;
