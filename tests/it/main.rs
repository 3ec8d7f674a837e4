//! What a user of Hivewright sees, over real sockets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fake_model;
mod model_faults;
