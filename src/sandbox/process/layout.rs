//! Layout of what a program finds inside the sandbox: paths, and the port of agents.

/// The one port that there is for an agent.
pub const PORT: u16 = 4000;
/// The private home inside.
pub const HOME: &str = "/home/team";
/// Where the files of an agent are inside.
pub const FILES: &str = "/run/hivewright";
/// Where an agent is started: an empty folder.
pub const WORK: &str = "/run/hivewright/work";
/// The socket of our tools.
pub const SOCKET: &str = "/run/hivewright/socket";
/// The folder of an agent's files in its scratch folder.
pub(super) const FILES_FOLDER: &str = "files";
