//! Scheduler: triggers and what becomes of their runs.

pub mod body;
pub mod breaker;
pub mod calendar;
pub mod check;
pub mod config;
pub mod due;
pub mod firing;
pub mod matcher;
pub mod missed;
pub mod notify;
pub mod overlap;
pub mod run;
#[cfg(test)]
mod tests;
pub mod trigger;
pub mod window;
