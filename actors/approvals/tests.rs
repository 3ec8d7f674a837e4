//! What waits for a person, and what becomes of it.

mod bench;
mod cards;
mod deciding;
mod ends;
mod granting;
mod money;
mod questions;
