//! Test doubles: hosts that answer as they are told, and names that lead where a test wants.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::sandbox::egress::resolve::Resolver;

/// What a host does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Send(Vec<u8>),
    /// Says nothing more, and hears when the other side goes.
    Wait,
}

/// A host on the loopback. Ends with the test.
pub(crate) struct Host {
    pub(crate) address: String,
    requests: watch::Receiver<Vec<String>>,
    /// How many were left alone by the other side while they waited.
    left: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for Host {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Host {
    pub(crate) async fn start(answer: impl Fn(&str) -> Vec<Act> + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", answer).await
    }

    pub(crate) async fn start_at(
        at: &str,
        answer: impl Fn(&str) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (heard, requests) = watch::channel(Vec::new());
        let (gone, left) = watch::channel(0);
        let answer = Arc::new(answer);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, answer.clone(), heard.clone(), gone.clone()));
            }
        });
        Self { address, requests, left, task }
    }

    /// Answers everything with the same text.
    pub(crate) async fn saying(head: &str, body: &str) -> Self {
        let answer = response(head, body.as_bytes());
        Self::start(move |_| vec![Act::Send(answer.clone())]).await
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// What was asked for, heads and bodies.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.borrow().clone()
    }

    /// Until somebody asks for something.
    pub(crate) async fn until_asked(&mut self) {
        self.requests.wait_for(|requests| !requests.is_empty()).await.unwrap();
    }

    /// Until somebody goes away who was made to wait.
    pub(crate) async fn until_left(&mut self) {
        self.left.wait_for(|count| *count > 0).await.unwrap();
    }
}

async fn serve(
    mut stream: TcpStream,
    answer: Arc<impl Fn(&str) -> Vec<Act>>,
    heard: watch::Sender<Vec<String>>,
    gone: watch::Sender<usize>,
) {
    let Some(request) = read(&mut stream).await else { return };
    heard.send_modify(|requests| requests.push(request.clone()));
    let acts = answer(&request);
    for act in acts {
        match act {
            Act::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Act::Wait => {
                let _ = stream.read(&mut [0; 64]).await;
                gone.send_modify(|count| *count += 1);
            }
        }
    }
}

/// A whole request; none if it does not come.
async fn read(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
            });
            if body.len() >= length.and_then(Result::ok).unwrap_or_default() {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}

/// A response with its length; `head` is the status and further headers.
pub(crate) fn response(head: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

pub(crate) fn redirect(status: &str, to: &str) -> Vec<u8> {
    response(&format!("{status}\r\nLocation: {to}"), b"")
}

/// A resolver that answers what it is told, and counts how often it is asked.
#[derive(Clone)]
pub(crate) struct Answers(Arc<(Option<Vec<IpAddr>>, AtomicUsize)>);

impl Answers {
    pub(crate) fn of(addresses: &[&str]) -> Self {
        let parsed = addresses.iter().map(|text| text.parse().unwrap()).collect();
        Self(Arc::new((Some(parsed), AtomicUsize::new(0))))
    }

    /// It knows no name.
    pub(crate) fn none() -> Self {
        Self(Arc::new((None, AtomicUsize::new(0))))
    }

    pub(crate) fn asked(&self) -> usize {
        self.0.1.load(Ordering::SeqCst)
    }
}

impl Resolver for Answers {
    fn resolve(&self, _: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.0.1.fetch_add(1, Ordering::SeqCst);
        let answer = self.0.0.clone().ok_or_else(|| io::ErrorKind::NotFound.into());
        Box::pin(std::future::ready(answer))
    }
}
