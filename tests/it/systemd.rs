//! What systemd is told by a service that it started.

use std::{os::unix::net::UnixDatagram, path::Path};

use serde_json::json;

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

/// OP-89: a restart is a reload to systemd: the process stays, and what was accepted goes on.
#[actix::test]
async fn a_restart_keeps_the_process_and_what_was_under_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = listen(&path);
    let service = Service::prepare()
        .with_variable("NOTIFY_SOCKET", &path.display().to_string())
        .started()
        .await;
    let message = json!({"content": "#wait 500\n#reply still here"});
    let (_, said) = service.api("POST", "/api/v1/messages", Some(message)).await;

    let done = service.run(&["restart"], "").await;
    let heard = [told(&socket), told(&socket), told(&socket)];
    let elsewhere = service.run(&["restart", "--url", &service.url()], "").await;

    assert_eq!(done.code, Some(0), "{done:?}\n{}", service.log());
    assert!(done.stderr.contains("the service is back at"), "{done:?}");
    assert_eq!([heard[0].as_str(), heard[2].as_str()], ["READY=1\n"; 2]);
    assert!(heard[1].starts_with("RELOADING=1\nMONOTONIC_USEC="), "{heard:?}");
    // The address says which process serves.
    let address = std::fs::read_to_string(service.path("run/service.json")).unwrap();
    assert!(address.contains(&service.pid().to_string()), "{address}");
    let (id, channel) = (&said["data"]["message_id"], &said["data"]["channel_id"]);
    let path =
        format!("/api/v1/messages/{}?channel={}", id.as_str().unwrap(), channel.as_str().unwrap());
    let answered = service.until(&path, |message| message["reply"].is_object()).await;
    assert_eq!(answered["reply"]["text"], "still here");
    assert_eq!(elsewhere.code, Some(2), "{elsewhere:?}");
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
