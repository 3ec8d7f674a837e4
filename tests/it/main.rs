//! The service from outside: what a user or an operator would see.

mod workspace;
