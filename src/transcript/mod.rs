//! Transcripts: a journal as people and programs read it.

pub mod conversation;
pub mod lines;
pub mod merge;
pub mod page;
