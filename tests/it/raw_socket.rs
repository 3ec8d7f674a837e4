//! A WebSocket client that also sends what no client should: frames are written byte by byte.

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::service::{PATIENCE, Service};

pub(crate) const CONTINUATION: u8 = 0x0;
pub(crate) const TEXT: u8 = 0x1;
pub(crate) const BINARY: u8 = 0x2;
pub(crate) const CLOSE: u8 = 0x8;

const LAST: u8 = 0x80;
const MASKED: u8 = 0x80;

/// A connection after the upgrade.
pub(crate) struct RawSocket {
    stream: TcpStream,
}

/// What came from the server.
#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    /// A text frame.
    Frame(Value),
    /// A close frame with its code.
    Close(u16),
    /// The end of the connection.
    End,
}

impl RawSocket {
    /// Connects as the operator.
    pub(crate) async fn open(service: &Service) -> Self {
        Self::open_as(service, &service.token()).await
    }

    /// Connects with a token.
    pub(crate) async fn open_as(service: &Service, token: &str) -> Self {
        let url = service.url();
        let host = url.strip_prefix("http://").expect("a plain address");
        let mut stream = TcpStream::connect(host).await.expect("a connection");
        let request = format!(
            "GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Authorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("an answer"));
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{head:?}");
        Self { stream }
    }

    /// Sends a text frame as a client should.
    pub(crate) async fn text(&mut self, text: &str) {
        self.frame(LAST | TEXT, text.as_bytes()).await;
    }

    /// Sends a close frame.
    pub(crate) async fn close(&mut self, code: u16) {
        self.frame(LAST | CLOSE, &code.to_be_bytes()).await;
    }

    /// Sends a masked frame whose first byte is given.
    pub(crate) async fn frame(&mut self, first: u8, payload: &[u8]) {
        let mut bytes = header(first, payload.len() as u64, true);
        // A mask of zeros leaves the payload as it is.
        bytes.extend([0; 4]);
        bytes.extend(payload);
        self.bytes(&bytes).await;
    }

    /// Sends the header of a masked text frame of this size, and nothing of its content.
    pub(crate) async fn declare(&mut self, size: u64) {
        let mut bytes = header(LAST | TEXT, size, true);
        bytes.extend([0; 4]);
        self.bytes(&bytes).await;
    }

    /// Sends a text frame without a mask.
    pub(crate) async fn unmasked(&mut self, text: &str) {
        let mut bytes = header(LAST | TEXT, text.len() as u64, false);
        bytes.extend(text.as_bytes());
        self.bytes(&bytes).await;
    }

    /// Sends bytes. The server may have hung up already.
    async fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).await;
    }

    /// The next frame that is neither ping nor pong.
    pub(crate) async fn heard(&mut self) -> Heard {
        let next = tokio::time::timeout(PATIENCE, self.next());
        next.await.expect("a frame in time")
    }

    /// The same, however long it takes.
    pub(crate) async fn heard_late(&mut self) -> Heard {
        self.next().await
    }

    async fn next(&mut self) -> Heard {
        loop {
            let Ok((first, payload)) = self.read().await else {
                return Heard::End;
            };
            match first & 0xf {
                TEXT => return Heard::Frame(serde_json::from_slice(&payload).expect("JSON")),
                CLOSE => return Heard::Close(u16::from_be_bytes([payload[0], payload[1]])),
                _ => {}
            }
        }
    }

    async fn read(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let first = self.stream.read_u8().await?;
        let size = match self.stream.read_u8().await? {
            126 => u64::from(self.stream.read_u16().await?),
            127 => self.stream.read_u64().await?,
            size => u64::from(size),
        };
        let mut payload = vec![0; usize::try_from(size).expect("it fits")];
        self.stream.read_exact(&mut payload).await?;
        Ok((first, payload))
    }
}

fn header(first: u8, size: u64, masked: bool) -> Vec<u8> {
    let mask = if masked { MASKED } else { 0 };
    let mut bytes = vec![first];
    match size {
        0..=125 => bytes.push(mask | size as u8),
        126..=0xffff => {
            bytes.push(mask | 126);
            bytes.extend((size as u16).to_be_bytes());
        }
        _ => {
            bytes.push(mask | 127);
            bytes.extend(size.to_be_bytes());
        }
    }
    bytes
}
