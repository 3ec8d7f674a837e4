//! Takes over what another program kept.

pub mod openhive;
