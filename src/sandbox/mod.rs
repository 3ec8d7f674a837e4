//! The only doors from a tool to the machine: the file boundary of a team, the box its processes
//! run in, and the guard of what goes out to the network.

pub mod egress;
pub mod process;
pub mod quota;
pub mod thread;
pub mod workspace;
