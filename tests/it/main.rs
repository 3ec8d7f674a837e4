//! The service from outside: what a user or an operator would see.

mod fake_model;
mod model_faults;
mod workspace;
