//! `--watch`: something is shown again whenever an event says that it may have changed.

use std::{marker::PhantomData, time::Duration};

use clap::Args;
use futures_util::future::LocalBoxFuture;
use hivewright_actors::live::event::Kind;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    answer::{Answer, Listing},
    client::Service,
    context::Context,
    events::{Follower, until_stopped},
    failure::Failure,
    table::{self, Columns},
};
use crate::api::{
    endpoint::{Empty, Endpoint},
    events::EventFilter,
    reply::Readable,
};

/// What changes within this time is shown at once.
const TOGETHER: Duration = Duration::from_millis(250);
/// How long ago something was is told to the minute.
const MINUTE: Duration = Duration::from_secs(60);

// A doc comment here would become that of every command that has it.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(super) struct Watched<L: Args> {
    #[command(flatten)]
    pub(super) list: L,
    /// Show it again whenever something changes, until Ctrl-C
    #[arg(long)]
    pub(super) watch: bool,
}

impl<F: Args + Serialize> Watched<F> {
    /// Shows all rows of a list that fit, once or whenever they change.
    pub(super) async fn show_all<R: Readable<Content = Vec<T>>, T: Columns + DeserializeOwned>(
        &self,
        endpoint: &Endpoint<R, Empty, F>,
        context: &Context,
    ) -> Result<(), Failure> {
        let read = async |service: &Service| service.all(endpoint, &self.list).await;
        show_rows(self.watch, context, read).await
    }
}

impl<F: Args + Serialize> Watched<Listing<F>> {
    /// The same with as many rows as are wanted.
    pub(super) async fn show<R: Readable<Content = Vec<T>>, T: Columns + DeserializeOwned>(
        &self,
        endpoint: &Endpoint<R, Empty, F>,
        context: &Context,
    ) -> Result<(), Failure> {
        let read = async |service: &Service| service.list(endpoint, &self.list).await;
        show_rows(self.watch, context, read).await
    }
}

/// Something that is shown again and again.
pub(super) trait Shown {
    fn read<'a>(&'a self, service: &'a Service) -> LocalBoxFuture<'a, Result<Value, Failure>>;

    /// What of it says that it has changed.
    fn essence(&self, document: &Value) -> Value {
        document.clone()
    }

    fn draw(&self, document: &Value, service: &Service) -> Result<String, Failure>;
}

/// Rows, by what reads them.
struct Rows<R, F> {
    read: F,
    of: PhantomData<R>,
}

impl<R, F> Shown for Rows<R, F>
where
    R: Columns + DeserializeOwned,
    F: AsyncFn(&Service) -> Result<Answer<Vec<R>>, Failure>,
{
    fn read<'a>(&'a self, service: &'a Service) -> LocalBoxFuture<'a, Result<Value, Failure>> {
        Box::pin(async move { Ok((self.read)(service).await?.document) })
    }

    fn draw(&self, document: &Value, _: &Service) -> Result<String, Failure> {
        Ok(table::rows(&Answer::<Vec<R>>::new(document.clone()).data()?))
    }
}

/// Shows rows, once or whenever they change.
async fn show_rows<R: Columns + DeserializeOwned>(
    again: bool,
    context: &Context,
    read: impl AsyncFn(&Service) -> Result<Answer<Vec<R>>, Failure>,
) -> Result<(), Failure> {
    if !again {
        return read(&Service::find(context)?).await?.table(context.screen);
    }
    // All but what moves within a turn, and the log.
    let within = |kind: &Kind| matches!(kind, Kind::Turn | Kind::Message | Kind::Log | Kind::Gap);
    let kinds = Kind::ALL.iter().copied().filter(|kind| !within(kind)).collect();
    repeat(kinds, context, &Rows { read, of: PhantomData }).await
}

/// Reads something again after each event of these kinds, and draws it if its essence has changed.
pub(super) async fn repeat(
    kinds: Vec<Kind>,
    context: &Context,
    shown: &dyn Shown,
) -> Result<(), Failure> {
    let follower = Follower::open(context, EventFilter::of(kinds)).await?;
    until_stopped(following(follower, context, shown)).await
}

async fn following(
    mut follower: Follower,
    context: &Context,
    shown: &dyn Shown,
) -> Result<(), Failure> {
    let screen = context.screen;
    let is_drawn = screen.live && !screen.json;
    let mut before = None;
    loop {
        let is_old = match timeout_at(Instant::now() + MINUTE, follower.next()).await {
            Ok(step) => step.map(|_| false)?,
            Err(_) => is_drawn,
        };
        let until = Instant::now() + TOGETHER;
        while before.is_some()
            && let Ok(step) = timeout_at(until, follower.next()).await
        {
            step?;
        }
        let document = follower.read(async |service: &Service| shown.read(service).await).await?;
        let now = Some(shown.essence(&document));
        if before == now && !is_old {
            continue;
        }
        let is_first = std::mem::replace(&mut before, now).is_none();
        let drawn = if screen.json {
            document.to_string()
        } else {
            let clear = match (is_first, screen.redraws) {
                (false, true) => "\x1b[H\x1b[J",
                (false, false) => "\n",
                (true, _) => "",
            };
            format!("{clear}{}", shown.draw(&document, follower.service())?.trim_end())
        };
        if !screen.follow(&drawn) {
            return Ok(());
        }
    }
}
