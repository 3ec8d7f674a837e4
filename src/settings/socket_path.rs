//! The path of the service's Unix socket, also where it is longer than the kernel takes.

use std::{
    fs::File,
    io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use super::home::Home;

/// The kernel takes paths of sockets up to this many bytes.
const LONGEST: usize = 107;
const NAME: &str = "control.sock";

/// A path that the kernel takes, as long as this lives.
#[derive(Debug)]
pub struct SocketPath {
    path: PathBuf,
    /// The run dir, if the path goes through it as an open file.
    _folder: Option<File>,
}

impl SocketPath {
    /// Where the service of a home has its socket.
    pub fn of(home: &Home) -> io::Result<Self> {
        let path = home.run().join(NAME);
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self { path, _folder: None });
        }
        let folder = File::open(home.run())?;
        let path = format!("/proc/self/fd/{}/{NAME}", folder.as_raw_fd());
        Ok(Self { path: path.into(), _folder: Some(folder) })
    }

    /// The same, if there is one.
    pub fn existing(home: &Home) -> Option<Self> {
        Self::of(home).ok().filter(|socket| socket.path.exists())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {

    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::settings::{home::Flags, references::Environment};

    /// OP-77
    #[test]
    fn a_home_with_a_long_path_has_a_socket_too() {
        let folder = tempfile::tempdir().unwrap();
        let flags = Flags { home: Some(folder.path().join("h".repeat(200))), ..Flags::default() };
        let home = Home::new(&flags, &Environment::fixed([])).unwrap();
        home.prepare().unwrap();

        let socket = SocketPath::of(&home).unwrap();
        let _listener = UnixListener::bind(socket.path()).unwrap();
        let found = SocketPath::existing(&home).unwrap();

        UnixStream::connect(found.path()).unwrap();
        assert!(home.run().join(NAME).exists());
    }
}
