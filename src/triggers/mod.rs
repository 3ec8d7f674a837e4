//! Triggers at the edge: the calendar, expressions, forms and what is shown.

pub mod calendar;
pub mod expressions;
mod pattern;
