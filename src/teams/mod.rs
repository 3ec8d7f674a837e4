//! Teams as they lie on the disk: their folders and files, and what can be said of them from there.

pub mod file;
pub mod folders;
