//! The edges of Hivewright: everything that touches the world around the actors.

pub mod storage;
