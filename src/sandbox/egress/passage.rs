//! Passage: a connection of a browser, counted, bounded and logged.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
};

use reqwest::Url;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use super::{EgressError, gate::Gate};

/// Bytes that the pages of one call may move, both ways.
pub(super) const MOST_BYTES: u64 = 100 << 20;

/// A connection with one request or tunnel, as the log has it when it is over.
pub(super) struct Passage {
    pub(super) gate: Arc<dyn Gate>,
    /// Where it goes, once that is known.
    pub(super) target: OnceLock<Url>,
    bytes: AtomicU64,
    /// Why it went no further.
    failure: OnceLock<String>,
}

impl Passage {
    pub(super) fn new(gate: Arc<dyn Gate>) -> Self {
        let (target, failure) = (OnceLock::new(), OnceLock::new());
        Self { gate, target, bytes: AtomicU64::new(0), failure }
    }

    pub(super) fn fail(&self, error: EgressError) {
        let Some(url) = self.target.get() else { return };
        if self.failure.set(error.to_string()).is_ok() {
            self.gate.failed(url, error);
        }
    }

    /// Counts bytes, and refuses more than a call may move. Until the target is known, they are few.
    pub(super) fn count(&self, bytes: usize) -> Result<(), EgressError> {
        let bytes = bytes as u64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let all = self.gate.spend(bytes);
        if all > MOST_BYTES && self.target.get().is_some() {
            return Err(EgressError::TooMuch(MOST_BYTES));
        }
        Ok(())
    }

    fn count_io(&self, bytes: usize) -> io::Result<()> {
        self.count(bytes).map_err(|error| {
            self.fail(error);
            io::ErrorKind::QuotaExceeded.into()
        })
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let Some(url) = self.target.get() else { return };
        let (team, host) = (self.gate.team(), url.host_str().unwrap_or_default());
        let port = url.port_or_known_default();
        let bytes = self.bytes.load(Ordering::Relaxed);
        let error = self.failure.get().map(String::as_str);
        let decision = if error.is_none() { "allowed" } else { "refused" };
        tracing::info!(%team, host, port, bytes, decision, error, "connection of a browser");
    }
}

/// The browser's end of a connection, counted.
pub(super) struct Metered {
    pub(super) stream: TcpStream,
    pub(super) passage: Arc<Passage>,
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        Poll::Ready(self.passage.count_io(buffer.filled().len() - before))
    }
}

impl AsyncWrite for Metered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        Poll::Ready(self.passage.count_io(written).map(|()| written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
