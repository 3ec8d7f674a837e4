//! Triggers at the edge: the calendar, expressions, forms, and the desk where triggers are managed.

pub mod calendar;
pub mod desk;
pub mod expressions;
pub mod form;
mod pattern;
pub mod premises;
pub mod preview;
pub mod show;
pub(crate) mod signature;
pub mod upkeep;
