//! Test doubles of the ports, and a world in which a whole spine runs in one process on paused time.
//!
//! The edges get those of storage, clock, randomness and a builtin plugin by the crate's feature `doubles`.

pub mod builtin;
pub mod clock;
pub mod disk;
pub mod entropy;

#[cfg(test)]
pub(crate) mod adapter;
#[cfg(test)]
pub(crate) mod asked;
#[cfg(test)]
pub(crate) mod client;
#[cfg(test)]
pub(crate) mod engine;
#[cfg(test)]
pub(crate) mod folders;
#[cfg(test)]
pub(crate) mod log;
#[cfg(test)]
pub(crate) mod redactor;
#[cfg(test)]
pub(crate) mod tools;
#[cfg(test)]
pub(crate) mod triggers;
#[cfg(test)]
pub(crate) mod world;
