//! The way in: what a message of a person passes before it is work.

pub mod choice;
pub mod names;
pub mod rate;
pub mod refusal;
pub mod resolve;
pub mod score;
pub mod topics;
pub mod words;
