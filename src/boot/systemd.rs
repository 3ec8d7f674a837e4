//! Tells systemd how far the service is: units of `Type=notify` wait for it.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{ffi::OsStrExt, net::SocketAddr, net::UnixDatagram},
    },
};

/// Where systemd listens, if it started us and wants to know.
const SOCKET: &str = "NOTIFY_SOCKET";

pub(crate) fn ready() {
    tell("READY=1\n");
}

/// The start takes longer than most. Told again every few seconds, which is how systemd knows that it goes on.
pub(super) fn starts_longer() {
    tell("EXTEND_TIMEOUT_USEC=120000000\n");
}

/// It was told to stop, and is about to.
pub(super) fn stopping() {
    tell("STOPPING=1\n");
}

/// It is about to stop, and starts again in the same process. The moment is what tells this from a
/// reload before.
pub(super) fn restarting() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}\n"));
}

fn tell(state: &str) {
    let Some(socket) = std::env::var_os(SOCKET).filter(|socket| !socket.is_empty()) else {
        return;
    };
    if let Err(error) = send(&socket, state) {
        let socket = socket.display();
        tracing::warn!(%error, %socket, "systemd cannot be told the state of the service");
    }
}

fn send(socket: &OsString, state: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not hold the service up.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address(socket)?)?;
    Ok(())
}

/// A path, or behind `@` a name in the kernel's own space.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    match socket.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    }
}
