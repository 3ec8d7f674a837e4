//! Port: metrics of what happens.
#![warn(missing_docs)]

use std::time::Duration;

use crate::{ids::TeamName, task::outcome::Ending, usage::Usage};

/// Counts. Called on the hot path: cheap, never blocks.
pub trait Meter: Send + Sync + 'static {
    /// A turn sent its first model request, so long after its message was accepted.
    fn turn_began(&self, team: &TeamName, overhead: Duration);

    /// A turn of an engine ended.
    fn turn_ended(&self, team: &TeamName, sdk: &str, ending: Ending, took: Duration);

    /// A model call ended.
    fn model_called(&self, team: &TeamName, profile: &str, usage: &Usage);

    /// A tool call ended.
    fn tool_called(&self, tool: &str, succeeded: bool);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug)]
pub struct Unmetered;

impl Meter for Unmetered {
    fn turn_began(&self, _: &TeamName, _: Duration) {}
    fn turn_ended(&self, _: &TeamName, _: &str, _: Ending, _: Duration) {}
    fn model_called(&self, _: &TeamName, _: &str, _: &Usage) {}
    fn tool_called(&self, _: &str, _: bool) {}
}
