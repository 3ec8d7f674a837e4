//! JavaScript host: code of teams and plugins runs in a process of its own, in the sandbox, with an embedded engine.
//!
//! `process` is the service's side, `child` the other one. Nothing that the child says is believed: what its code asks for
//! is judged here, and it never has a secret, a file or a connection.

mod calls;
pub mod child;
pub mod engine;
mod plugin;
pub mod process;
pub mod wire;
