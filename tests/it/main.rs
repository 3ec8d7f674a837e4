//! What a user sees, with real processes and sockets: one file per behaviour.

mod sandbox;
