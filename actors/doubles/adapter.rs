//! A chat network that answers as it is told, and keeps what it was brought.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::{self, BoxFuture};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::client::short;
use crate::{
    channel::{
        adapter::{Adapter, ConnectError, Delivery, serve},
        outbound::Outbound,
        socket::{Closing, Socket},
    },
    channel_type::ChannelType,
    doubles::world::owner,
    ids::ChannelId,
    router::{Open, sender::Sender},
    spine::Spine,
};

/// What the network answers to a frame.
pub(crate) enum Answer {
    Delivered,
    RetryAfter(Duration),
    Undeliverable(&'static str),
    Panic,
    Never,
}

pub(crate) struct Network {
    spine: Spine,
    channel: ChannelId,
    socket: Arc<Socket>,
    /// The next answers; beyond them all is delivered.
    answers: Mutex<VecDeque<Answer>>,
    seen: UnboundedSender<String>,
}

/// What the network saw, for the test.
pub(crate) struct Seen(UnboundedReceiver<String>);

impl Seen {
    pub(crate) async fn next(&mut self) -> String {
        let day = Duration::from_secs(24 * 60 * 60);
        tokio::time::timeout(day, self.0.recv()).await.expect("nothing more comes").unwrap()
    }
}

impl Network {
    /// Serves a channel of a network that answers so.
    pub(crate) fn start(
        spine: &Spine,
        channel: &str,
        answers: impl IntoIterator<Item = Answer>,
    ) -> Seen {
        let (seen, receiver) = unbounded_channel();
        let socket = Arc::new(Socket::new(1_000));
        let network = Self {
            spine: spine.clone(),
            channel: channel.into(),
            socket: socket.clone(),
            answers: Mutex::new(answers.into_iter().collect()),
            seen,
        };
        let undelivered = spine.channel.clone().recipient();
        actix::spawn(serve(Arc::new(network), socket, undelivered));
        Seen(receiver)
    }
}

impl Adapter for Network {
    fn connect(&self) -> BoxFuture<'static, Result<(), ConnectError>> {
        self.spine.router.do_send(Open {
            channel: self.channel.clone(),
            owner: owner("network"),
            sender: Sender::of(&"network".into(), ChannelType::Discord),
            socket: self.socket.clone(),
        });
        Box::pin(future::ready(Ok(())))
    }

    fn deliver(&self, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery> {
        let text = short(&serde_json::from_str(&frame.text).unwrap());
        self.seen.send(text).unwrap();
        let answer = self.answers.lock().unwrap().pop_front();
        Box::pin(async move {
            match answer.unwrap_or(Answer::Delivered) {
                Answer::Delivered => Delivery::Delivered(Some(frame.seq.to_string())),
                Answer::RetryAfter(pause) => Delivery::RetryAfter(pause),
                Answer::Undeliverable(reason) => Delivery::Undeliverable(reason.to_owned()),
                Answer::Panic => panic!("as told"),
                Answer::Never => future::pending().await,
            }
        })
    }

    fn resumed(&self, _: Option<ChannelId>) {}

    fn disconnect(&self, closing: Closing) -> BoxFuture<'static, ()> {
        self.seen.send(format!("disconnect {closing:?}")).unwrap();
        Box::pin(future::ready(()))
    }
}
