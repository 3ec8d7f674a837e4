<<<<<<< HEAD
//! The service from outside: what a user or an operator would see.

mod fake_model;
mod model_faults;
mod workspace;
=======
//! What a user sees, with real processes and sockets: one file per behaviour.

mod sandbox;
>>>>>>> tools
