//! Discord: a bot whose channels are conversations. Off unless there is a token.
//!
//! ```text
//! gateway ──Event──▶ open_channels ──PostMessage──▶ Router … Channel ──Outbound──▶ post ──▶ rest
//!    missed ─────────────┘ └ attachments                                            └ uploads
//! ```

use std::{sync::Arc, time::Duration};

use actix::{Addr, Arbiter};
use hivewright_actors::{
    channel::Channel, identities::Owner, live::Publisher, router::Router, store::StoreHandle,
};
use tokio::{
    sync::{oneshot, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

mod attachments;
mod cards;
mod chunks;
pub mod connection_state;
mod gateway;
mod inbound;
mod missed;
mod open_channels;
mod post;
mod recent;
pub mod rest;
mod speech;
mod typing;
mod uploads;

use connection_state::{ConnectionState, SharedState};
use gateway::{End, Event, Identity, Session};
use inbound::Refusals;
use open_channels::OpenChannels;
use rest::{Rest, RestError};

use crate::{
    files::FileStore,
    logging::Secrets,
    scrub::Mask,
    settings::channels::Discord as Settings,
    vault::{Vault, scrubbers::Scrubbers},
};

/// A connection that lasted this long was a good one: the next attempt is the first again.
const GOOD: Duration = Duration::from_secs(60);
/// After so many attempts in a row a session is given up, and a new one begun.
const MOST_RESUMES: u32 = 3;
/// How long what is being posted has to end when the settings change.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// What Discord needs from the rest.
#[derive(Clone)]
pub struct Parts {
    pub router: Addr<Router>,
    pub channel: Addr<Channel>,
    pub store: StoreHandle,
    pub vault: Vault,
    /// What no log line shows.
    pub log: Secrets,
    /// Whose the channels are.
    pub owner: Owner,
    pub files: FileStore,
    pub live: Publisher,
}

/// The bot, and what it works with.
struct Bot {
    rest: Rest,
    router: Addr<Router>,
    channel: Addr<Channel>,
    store: StoreHandle,
    secrets: Scrubbers,
    owner: Owner,
    files: FileStore,
    refusals: Refusals,
}

/// The switch: runs a bot as the settings want it, or none.
pub struct Discord {
    settings: watch::Sender<Settings>,
    state: SharedState,
    /// Nothing more is taken in.
    draining: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

impl Discord {
    pub fn start(parts: Parts, settings: Settings) -> Self {
        let state = SharedState::new(parts.live.clone());
        let draining = CancellationToken::new();
        let (sender, receiver) = watch::channel(settings);
        let keeper = Keeper { parts, state: state.clone(), draining: draining.clone() };
        let task = hivewright_actors::spawn::local(keeper.run(receiver));
        Self { settings: sender, state, draining, _task: AbortOnDropHandle::new(task) }
    }

    /// Other settings from now on. The bot connects anew if they differ.
    pub fn set(&self, settings: &Settings) {
        self.settings.send_if_modified(|now| {
            let is_new = now != settings;
            now.clone_from(settings);
            is_new
        });
    }

    pub fn reconnect(&self) {
        self.settings.send_modify(|_| {});
    }

    pub fn state(&self) -> ConnectionState {
        self.state.now()
    }

    /// Takes nothing more in; what is told still goes out.
    pub fn drain(&self) {
        self.draining.cancel();
    }
}

/// Keeps one bot running, or none.
struct Keeper {
    parts: Parts,
    state: SharedState,
    draining: CancellationToken,
}

impl Keeper {
    async fn run(self, mut settings: watch::Receiver<Settings>) {
        loop {
            let wanted = settings.borrow_and_update().clone();
            let running = self.begin(wanted);
            if settings.changed().await.is_err() {
                return;
            }
            if let Some(running) = running {
                running.stop().await;
            }
        }
    }

    fn begin(&self, settings: Settings) -> Option<Running> {
        if let Some(problem) = &settings.disabled {
            self.state.set(ConnectionState::Failed { reason: problem.to_string() });
            return None;
        }
        let Some(token) = settings.token.clone() else {
            self.state.set(ConnectionState::Off);
            return None;
        };
        self.parts.log.learn([token.expose().to_owned()]);
        self.state.set(ConnectionState::Connecting);
        let rest = match Rest::new(&settings.api_url, token.clone()) {
            Ok(rest) => rest,
            Err(error) => {
                self.state.set(ConnectionState::Failed { reason: error.to_string() });
                return None;
            }
        };
        let Parts { router, channel, store, vault, owner, files, .. } = self.parts.clone();
        let bot = Bot {
            rest,
            router,
            channel,
            store,
            secrets: Scrubbers::new(vault, [Mask::hidden(token.expose())]),
            owner,
            files,
            refusals: Refusals::default(),
        };
        let identity = Identity { token, direct_messages: settings.direct_messages };
        let listener = Listener {
            bot: Arc::new(bot),
            identity,
            state: self.state.clone(),
            draining: self.draining.clone(),
        };
        Some(Running::start(listener, settings))
    }
}

/// A bot on a thread of its own: what happens on Discord delays nobody else.
struct Running {
    thread: Arbiter,
    stop: CancellationToken,
    stopped: oneshot::Receiver<()>,
}

impl Running {
    fn start(listener: Listener, settings: Settings) -> Self {
        let (thread, stop) = (Arbiter::new(), CancellationToken::new());
        let (stopping, stopped) = oneshot::channel();
        let told = stop.clone();
        thread.spawn_fn(move || {
            hivewright_actors::spawn::local(async move {
                let channels = OpenChannels::open(listener.bot.clone(), settings).await;
                tokio::select! {
                    () = listener.run(&channels) => {}
                    () = told.cancelled() => {}
                }
                drop(channels);
                let _gone = stopping.send(());
            });
        });
        Self { thread, stop, stopped }
    }

    async fn stop(self) {
        self.stop.cancel();
        let _late = tokio::time::timeout(STOP_TIMEOUT, self.stopped).await;
        self.thread.stop();
    }
}

/// Listens to the gateway, over one connection after another.
struct Listener {
    bot: Arc<Bot>,
    identity: Identity,
    state: SharedState,
    draining: CancellationToken,
}

impl Listener {
    /// Does not return: what is told goes out also when nothing comes in.
    async fn run(&self, channels: &OpenChannels) {
        tokio::select! {
            reason = self.connect(channels) => self.state.set(ConnectionState::Failed { reason }),
            () = self.draining.cancelled() => {}
        }
        std::future::pending().await
    }

    /// Connects again and again, until Discord says that it is no use.
    async fn connect(&self, channels: &OpenChannels) -> String {
        let mut session = None;
        let mut attempt = 0;
        loop {
            let began = Instant::now();
            let lost = match self.url(session.as_ref()).await {
                Ok(url) => match self.listen(&url, &mut session, channels).await {
                    End::Broken(reason) => reason,
                    End::Refused(reason) => return reason,
                },
                Err(RestError::Unauthorized) => return RestError::Unauthorized.to_string(),
                Err(error) => error.to_string(),
            };
            let was_connected = self.state.now() == ConnectionState::Connected;
            attempt = if was_connected && began.elapsed() >= GOOD { 1 } else { attempt + 1 };
            if !was_connected && attempt >= MOST_RESUMES {
                session = None;
            }
            let pause = self.state.retry(attempt, lost);
            tokio::time::sleep(pause).await;
        }
    }

    /// Where a session is gone on with, or a new one begun. The token is checked first: a gateway that refuses it
    /// says less.
    async fn url(&self, session: Option<&Session>) -> Result<String, RestError> {
        match session {
            Some(session) => Ok(session.url.clone()),
            None => {
                self.bot.rest.me().await?;
                self.bot.rest.gateway().await
            }
        }
    }

    async fn listen(
        &self,
        url: &str,
        session: &mut Option<Session>,
        channels: &OpenChannels,
    ) -> End {
        tracing::debug!(url, resumes = session.is_some(), "connecting to Discord's gateway");
        let mut heard = |event| {
            if matches!(event, Event::Ready { .. }) {
                self.state.set(ConnectionState::Connected);
            }
            channels.take(event);
        };
        gateway::listen(url, &self.identity, session, &mut heard).await
    }
}
