//! Transcripts: a journal as people and programs read it.

pub mod conversation;
pub mod files;
pub mod follower;
pub mod lines;
pub mod merge;
pub mod page;
mod pi;
pub mod reading;
pub mod recovery;
