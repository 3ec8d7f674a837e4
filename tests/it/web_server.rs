//! A web server that answers as a test wants, and remembers what it was asked.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::service::PATIENCE;

/// What is said to a request; nothing is to let it wait.
type Answer = dyn Fn(&str) -> Option<String> + Send + Sync;

/// A running server. Dropping it stops it.
pub(crate) struct WebServer {
    /// Such as `127.0.0.1:4711`.
    pub(crate) address: String,
    requests: Arc<Mutex<Vec<String>>>,
    /// How many connections are open.
    open: watch::Receiver<usize>,
    task: JoinHandle<()>,
}

impl Drop for WebServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl WebServer {
    /// Answers each request, heads and bodies, with a whole response.
    pub(crate) async fn start(
        answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self::start_at("127.0.0.1:0", answer).await
    }

    pub(crate) async fn start_at(
        at: &str,
        answer: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (count, open) = watch::channel(0);
        let (answer, heard): (Arc<Answer>, _) = (Arc::new(answer), requests.clone());
        let task = actix::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.send_modify(|open| *open += 1);
                let (answer, heard, count) = (answer.clone(), heard.clone(), count.clone());
                actix::spawn(async move {
                    serve(stream, &*answer, &heard).await;
                    count.send_modify(|open| *open -= 1);
                });
            }
        });
        Self { address, requests, open, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// Until so many connections are open.
    pub(crate) async fn until_open(&mut self, count: usize) {
        let met = self.open.wait_for(|open| *open == count);
        tokio::time::timeout(PATIENCE, met).await.expect("in time").unwrap();
    }
}

async fn serve(mut stream: TcpStream, answer: &Answer, heard: &Mutex<Vec<String>>) {
    let mut bytes = Vec::new();
    let request = loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let length = text.lines().find_map(|line| {
            line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse::<usize>().ok()
        });
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && body.len() >= length.unwrap_or_default()
        {
            break text;
        }
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
            return;
        }
    };
    heard.lock().unwrap().push(request.clone());
    match answer(&request) {
        Some(answer) => {
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
            // What was not read when a socket closes takes the answer with it.
            let _ = tokio::time::timeout(Duration::from_secs(1), stream.read(&mut [0; 64])).await;
        }
        // Until the other side goes.
        None => drop(stream.read(&mut [0; 64]).await),
    }
}

/// A whole response; `head` is the status and further headers.
pub(crate) fn response(head: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

pub(crate) fn page(html: &str) -> String {
    response("200 OK\r\nContent-Type: text/html; charset=utf-8", html)
}
