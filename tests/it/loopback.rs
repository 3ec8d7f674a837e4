//! Who may open a WebSocket while no settings file says it.

use std::fs;

use crate::service::{Client, Service};

/// Whoever connects is the client that this proxy on the same machine names.
const PROXY: &str = "server: {trusted_proxies: [127.0.0.1]}\n";

/// Connects as a client of another machine, by way of a proxy.
async fn from_outside(service: &Service) -> Result<Client, String> {
    let named = [("x-forwarded-for", "192.0.2.2")];
    let connected = Client::connect_with(&service.url(), &service.token(), &named).await;
    connected.map_err(|error| error.to_string())
}

/// CH-30, OR-14: without `channels.yaml` the WebSocket is open on loopback only, and everywhere once the file says
/// so.
#[actix_web::test]
async fn without_a_channels_file_the_websocket_is_open_to_this_machine_alone() {
    let mut service =
        Service::prepare().with_file("data/config/config.yaml", PROXY).started().await;
    // The first start wrote one.
    service.kill();
    let file = service.path("data/config/channels.yaml");
    if file.exists() {
        fs::remove_file(&file).expect("it can be removed");
    }
    service.launch().await;
    assert!(!file.exists());

    let mut near = service.connect().await;
    let answer = near.ask("hello").await;
    let far = from_outside(&service).await;
    service.kill();
    service.write("data/config/channels.yaml", "ws: {enabled: true}\n");
    service.launch().await;
    let named = from_outside(&service).await;

    assert_eq!(answer["type"], "response", "{answer}");
    let refused = far.err().expect("no connection");
    assert!(refused.contains("404"), "{refused}");
    assert!(named.is_ok(), "{:?}", named.err());
}
