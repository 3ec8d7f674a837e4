//! The only doors from a tool to the machine: the file boundary of a team, and the box its processes run in.

pub mod process;
pub mod quota;
pub mod workspace;
