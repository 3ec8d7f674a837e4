//! The edges of Hivewright: what its actors need from the world.

pub mod sandbox;
pub mod tools;
