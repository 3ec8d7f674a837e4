//! Connection limit: how many connections each address may hold.

use std::{net::IpAddr, sync::Arc};

use actix_web::{HttpRequest, dev::Extensions, http::StatusCode, rt::net::UnixStream};
use dashmap::DashMap;

use super::{
    error::{ApiError, ApiResult},
    origin::Gate,
};

/// One address may hold this many.
const MOST: usize = 1_024;

/// Counts connections by address. Cloning it is cheap.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<DashMap<IpAddr, usize>>);

/// One counted connection; it is counted until this is dropped, with the connection's data.
#[derive(Debug)]
struct Counted {
    peer: IpAddr,
    /// Those of the same address, this one included, when it was made.
    place: usize,
    connections: Connections,
}

/// A connection through the Unix socket.
#[derive(Debug)]
struct Local {
    /// By a user who is neither ours nor root.
    is_foreign: bool,
}

/// The socket is for commands of the user whose service it is; root may read everything anyway.
fn is_user(peer: Option<u32>, own: u32) -> bool {
    peer.is_some_and(|peer| peer == own || peer == 0)
}

impl Connections {
    /// For the server's `on_connect`: notes that a connection came through the Unix socket, and whether it
    /// is somebody else's, as the kernel knows them.
    pub fn check_user(&self, stream: &UnixStream, data: &mut Extensions) {
        let peer = stream.peer_cred().ok().map(|peer| peer.uid());
        data.insert(Local { is_foreign: !is_user(peer, rustix::process::geteuid().as_raw()) });
    }

    /// For the server's `on_connect`: counts a connection as long as the data lives that belongs
    /// to it.
    pub fn count(&self, peer: IpAddr, data: &mut Extensions) {
        data.insert(self.admit(peer.to_canonical()));
    }

    fn admit(&self, peer: IpAddr) -> Counted {
        let mut count = self.0.entry(peer).or_insert(0);
        *count += 1;
        Counted { peer, place: *count, connections: self.clone() }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.0.remove_if_mut(&self.peer, |_, count| {
            *count -= 1;
            *count == 0
        });
    }
}

impl Counted {
    /// Room may have been made since the connection was.
    fn is_too_many(&self) -> bool {
        let now = self.connections.0.get(&self.peer).map_or(0, |count| *count);
        self.place > MOST && now > MOST
    }
}

/// The request came through the Unix socket, so from this machine; it has no address.
pub fn is_local(request: &HttpRequest) -> bool {
    request.conn_data::<Local>().is_some()
}

/// Refuses a request on a connection that is one too many. Proxies speak for many.
pub(in crate::http) fn check(request: &HttpRequest, gate: &Gate) -> ApiResult<()> {
    if request.conn_data::<Local>().is_some_and(|local| local.is_foreign) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden",
            "this socket is for the user that the service runs as",
        ));
    }
    match request.conn_data::<Counted>() {
        Some(counted) if counted.is_too_many() && !gate.is_proxy(counted.peer) => {
            Err(ApiError::rate_limited(
                "this address has too many connections open; close some tabs, or try again in a moment",
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_unix_socket_is_for_its_own_user_and_root() {
        assert!(is_user(Some(1000), 1000));
        assert!(is_user(Some(0), 1000));
        assert!(!is_user(Some(1001), 1000));
        assert!(!is_user(Some(1000), 0));
        assert!(!is_user(None, 1000));
    }

    /// SC-74
    #[test]
    fn an_address_has_room_for_1024_connections_and_others_have_their_own() {
        let connections = Connections::default();
        let [one, other]: [IpAddr; 2] =
            ["192.0.2.1", "192.0.2.2"].map(|address| address.parse().unwrap());
        let mut held: Vec<Counted> = (0..1_024).map(|_| connections.admit(one)).collect();
        assert!(!held.iter().any(Counted::is_too_many));

        let late = connections.admit(one);

        assert!(late.is_too_many());
        assert!(!connections.admit(other).is_too_many());
        held.pop();
        assert!(!late.is_too_many());
        drop((held, late));
        assert!(connections.0.is_empty());
    }
}
