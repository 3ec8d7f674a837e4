//! Triggers at the edge: the calendar, expressions, forms, and the administration where triggers are managed.

pub mod admin;
pub mod agenda;
pub mod calendar;
#[cfg(test)]
#[path = "tests/clock_story.rs"]
mod clock_story;
pub mod expressions;
pub mod form;
mod pattern;
pub mod preconditions;
pub mod preview;
pub(crate) mod signature;
#[cfg(test)]
#[path = "tests/stage.rs"]
pub(crate) mod stage;
pub mod upkeep;
