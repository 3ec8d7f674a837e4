//! Tests of the scheduler: a whole spine on paused time, with doubles of its ports.

mod crash;
mod downtime;
mod life;
mod listening;
mod managing;
mod outcome;
mod overlapping;
pub(crate) mod stage;
mod windows;
