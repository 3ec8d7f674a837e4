//! The tools over a real organisation.
