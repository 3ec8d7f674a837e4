//! What systemd is told by a service that it started.

use std::{os::unix::net::UnixDatagram, path::Path};

use crate::service::{PATIENCE, Service};

fn told(socket: &UnixDatagram) -> String {
    let mut state = [0; 256];
    let length = socket.recv(&mut state).expect("a state in time");
    String::from_utf8_lossy(&state[..length]).into_owned()
}

fn listen(at: &Path) -> UnixDatagram {
    let socket = UnixDatagram::bind(at).expect("a socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    socket
}

/// OP-89: ready once it serves, stopping once it was told to.
#[actix::test]
async fn systemd_hears_when_the_service_serves_and_when_it_stops() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = listen(&path);
    let mut service = Service::prepare()
        .with_variable("NOTIFY_SOCKET", &path.display().to_string())
        .started()
        .await;

    let first = told(&socket);
    service.signal("TERM");
    let second = told(&socket);
    let exit = service.ended().await;

    assert_eq!((first.as_str(), second.as_str(), exit), ("READY=1\n", "STOPPING=1\n", Some(0)));
}

/// A manager that is gone is no reason not to serve.
#[actix::test]
async fn a_socket_that_nobody_reads_stops_nothing() {
    let service =
        Service::prepare().with_variable("NOTIFY_SOCKET", "/nowhere/at/all").started().await;

    let (status, _) = service.api("GET", "/api/v1/overview", None).await;

    assert_eq!(status, 200);
    assert!(service.log().contains("systemd cannot be told"), "{}", service.log());
}
