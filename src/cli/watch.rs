//! `--watch`: something is shown again whenever an event says that it may have changed.

use std::time::Duration;

use clap::Args;
use hivewright_actors::live::event::Kind;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use super::{
    Context,
    answer::Answer,
    events::{Follower, until_stopped},
    failure::Failure,
    service::Service,
    table::{self, Columns},
};
use crate::api::events::EventFilter;

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

/// Shows rows, once or whenever they change.
pub(super) async fn show_rows<R: Columns + DeserializeOwned>(
    again: bool,
    context: &Context,
    read: impl AsyncFn(&Service) -> Result<Answer<Vec<R>>, Failure>,
) -> Result<(), Failure> {
    if !again {
        return read(&Service::find(context)?).await?.table(context.screen);
    }
    // All but what moves within a turn, and the log.
    let within = |kind: &Kind| matches!(kind, Kind::Turn | Kind::Message | Kind::Log | Kind::Gap);
    let kinds = Kind::ALL.iter().copied().filter(|kind| !within(kind));
    let document = async |service: &Service| Ok::<_, Failure>(read(service).await?.document);
    let draw = |document: &Value, _: &Service| {
        Ok::<_, Failure>(table::rows(&Answer::<Vec<R>>::new(document.clone()).data()?))
    };
    repeat(kinds, context, document, Value::clone, draw).await
}

/// Reads something again after each event of these kinds, and draws it if `essence` of it has changed.
pub(super) async fn repeat(
    kinds: impl IntoIterator<Item = Kind>,
    context: &Context,
    read: impl AsyncFn(&Service) -> Result<Value, Failure>,
    essence: impl Fn(&Value) -> Value,
    draw: impl Fn(&Value, &Service) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let follower = Follower::open(context, EventFilter::of(kinds)).await?;
    until_stopped(following(follower, context, read, essence, draw)).await
}

async fn following(
    mut follower: Follower,
    context: &Context,
    read: impl AsyncFn(&Service) -> Result<Value, Failure>,
    essence: impl Fn(&Value) -> Value,
    draw: impl Fn(&Value, &Service) -> Result<String, Failure>,
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
        let document = follower.read(&read).await?;
        let now = Some(essence(&document));
        if before == now && !is_old {
            continue;
        }
        let is_first = std::mem::replace(&mut before, now).is_none();
        let shown = if screen.json {
            document.to_string()
        } else {
            let clear = match (is_first, screen.live) {
                (false, true) => "\x1b[H\x1b[J",
                (false, false) => "\n",
                (true, _) => "",
            };
            format!("{clear}{}", draw(&document, follower.service())?.trim_end())
        };
        if !screen.follow(&shown) {
            return Ok(());
        }
    }
}
