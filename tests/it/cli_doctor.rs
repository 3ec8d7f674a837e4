//! `doctor` beside a service that runs, or of which the test plays the part.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use crate::{
    cli::{Ended, command},
    service::Service,
};

/// Answers one request: it is ready, and fails at everything else.
fn answer(mut stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut asked, mut length) = (String::new(), 0);
    reader.read_line(&mut asked).unwrap();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(number) = line.strip_prefix("content-length: ") {
            length = number.parse().unwrap();
        }
    }
    // What is left unread would reset the connection before the answer is read.
    reader.read_exact(&mut vec![0; length]).unwrap();
    let (status, body) = if asked.starts_with("GET /readyz") {
        ("200 OK", r#"{"ready":true}"#)
    } else {
        ("500 Internal Server Error", r#"{"error":{"code":"internal","message":"it broke"}}"#)
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close");
    // Whoever asked may be gone.
    let _gone = write!(stream, "{head}\r\n\r\n{body}");
}

/// OP-76: a team whose folder is gone has no file in which anything could be wrong.
#[actix::test]
async fn a_team_without_a_folder_is_found() {
    let mut service = Service::start().await;
    service.make_team("research", "finds out").await;
    service.kill();
    fs::remove_dir_all(service.path("run/teams/research")).unwrap();
    service.launch().await;

    let found = service.run(&["doctor"], "").await;

    assert_eq!(found.code, Some(9), "{found:?}");
    assert!(found.stdout.contains("team `research` cannot work: "), "{found:?}");
    assert!(found.stdout.contains(" teams shutdown research`"), "{found:?}");
}

/// OP-76: the service has the keys, so that what it cannot say is not asked once more from here.
#[test]
fn models_that_the_service_did_not_ask_are_not_asked_again() {
    let home = tempfile::tempdir().unwrap();
    let token = home.path().join("token");
    fs::write(&token, "hwo_0123456789012345678901234567890123456789012\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || listener.incoming().map_while(Result::ok).for_each(answer));

    let arguments =
        ["doctor", "--deep", "--url", url.as_str(), "--token-file", token.to_str().unwrap()];
    let found = Ended::new(command(home.path(), &arguments).output().unwrap());

    assert!(found.out.contains("did not say whether they answer: it broke"), "{found:?}");
    assert!(!found.out.contains("`default` answers"), "{found:?}");
}
