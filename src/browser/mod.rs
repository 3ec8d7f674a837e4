//! Browsers of teams: a real Chromium for each team that uses one, in the sandbox, driven over the DevTools protocol.
//!
//! ```text
//! program.rs   the program and how it is started      cdp.rs       commands, answers and events
//! gate.rs      what its proxy lets through            pages.rs     its pages, as events tell of them
//! snapshot.rs  a page as lines                        session.rs   its life, and what is done with its pages
//! ```
//!
//! A browser is started by the first call, let go when nobody has called it for a while, and shares nothing with that of another
//! team. Its connections live on a thread of their own: what a page sends can keep no team waiting.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, join_all};
use hivewright_actors::{
    ids::{TeamKey, TeamName},
    org::belongings::Belongings,
    store::records::Writes,
    text::Size,
};
use parking_lot::Mutex;
use reqwest::Url;
use tokio::{
    runtime::Handle,
    sync::{OwnedMutexGuard, OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::sandbox::{
    egress::{EgressError, Guard},
    process::{Sandbox, SandboxError},
    thread::LazyThread,
};

mod cdp;
pub mod gate;
mod pages;
pub mod program;
pub mod session;
mod snapshot;

use gate::Terms;
use program::Installed;
use session::Session;

/// How long a page whose last call was given up has to say that it lives.
const DOUBT: Duration = Duration::from_secs(2);
/// How long all browsers have to end with the service.
const END: Duration = Duration::from_secs(5);

/// How many browsers there are, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Browsers at once.
    pub most: usize,
    /// How long a team waits for a place.
    pub place_timeout: Duration,
    /// A browser that nobody calls is let go after this.
    pub idle: Duration,
    /// Bytes that one may hold on the disk.
    pub disk: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            most: 4,
            place_timeout: Duration::from_secs(30),
            idle: Duration::from_secs(5 * 60),
            disk: 1 << 30,
        }
    }
}

/// Why a browser did not do it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrowserError {
    #[error("{0} teams use browsers now; try again later")]
    Busy(usize),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the browser cannot be started: {0}")]
    Unstarted(String),
    #[error("the browser ended; navigate to start another")]
    Ended,
    #[error(
        "the browser ended: its pages stored more than {} on the disk; navigate to start another",
        Size(*.0)
    )]
    Disk(u64),
    #[error("the page closed while it was used; take a snapshot to see what is open now")]
    Closed,
    #[error("the page hangs; navigate to leave it")]
    Stuck,
    #[error("no page is open; navigate first")]
    NoPage,
    #[error("there is no element `{0}` now; take a new snapshot")]
    Stale(String),
    #[error(transparent)]
    Blocked(#[from] EgressError),
    #[error("the page cannot be loaded: {0}")]
    Unloaded(String),
    #[error("{0}")]
    Unfit(String),
    #[error("a secret was typed into this page, so no picture is taken of it")]
    HoldsSecret,
    /// The browser's own words.
    #[error("the browser refused: {0}")]
    Refused(String),
}

/// The browsers of all teams. Cheap to clone.
#[derive(Clone)]
pub struct Browsers(Arc<Inner>);

struct Inner {
    program: Installed,
    sandbox: Arc<Sandbox>,
    guard: Guard,
    limits: Limits,
    places: Arc<Semaphore>,
    teams: Mutex<HashMap<TeamName, Arc<Slot>>>,
    thread: LazyThread,
}

/// The place of a team's browser. One call at a time uses it.
type Slot = tokio::sync::Mutex<Option<Open>>;

struct Open {
    session: Arc<Session>,
    /// A call was given up in the middle: the page may be stuck.
    is_doubted: bool,
    used: Instant,
    _place: OwnedSemaphorePermit,
    /// Ends it when nobody has called it for a while.
    _watch: AbortOnDropHandle<()>,
}

/// A browser while a call uses it.
pub struct InUse {
    slot: OwnedMutexGuard<Option<Open>>,
    /// The call came to its end.
    is_over: bool,
}

impl InUse {
    pub fn session(&self) -> Result<Arc<Session>, BrowserError> {
        self.slot.as_ref().map(|open| Arc::clone(&open.session)).ok_or(BrowserError::Ended)
    }

    /// The call has an answer.
    pub fn done(mut self) {
        self.is_over = true;
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(open) = &mut *self.slot {
            open.used = Instant::now();
            open.is_doubted |= !self.is_over;
        }
    }
}

impl Browsers {
    pub fn new(program: Installed, sandbox: Arc<Sandbox>, guard: Guard, limits: Limits) -> Self {
        Self(Arc::new(Inner {
            program,
            sandbox,
            guard,
            limits,
            places: Arc::new(Semaphore::new(limits.most)),
            teams: Mutex::default(),
            thread: LazyThread::new("browsers"),
        }))
    }

    fn runtime(&self) -> Result<&Handle, BrowserError> {
        let none = || BrowserError::Unstarted("the machine has no thread for it".to_owned());
        self.0.thread.runtime().ok_or_else(none)
    }

    /// Whether a team may go where a URL leads: no browser is started for one that it may not.
    pub async fn check(&self, url: &Url, terms: &Terms) -> Result<(), BrowserError> {
        Ok(self.0.guard.check(url, &terms.egress).await?)
    }

    /// The browser of a team for one call, started if there is none.
    pub async fn open(&self, team: &TeamName, terms: Terms) -> Result<InUse, BrowserError> {
        let of_team = Arc::clone(self.0.teams.lock().entry(team.clone()).or_default());
        let mut slot = Arc::clone(&of_team).lock_owned().await;
        if !is_alive(&mut slot).await {
            *slot = None;
            let (inner, of, terms) = (Arc::clone(&self.0), Arc::clone(&of_team), terms.clone());
            let opening = self.runtime()?.spawn(async move { inner.start(of, terms).await });
            let opened = AbortOnDropHandle::new(opening).await;
            *slot = Some(opened.map_err(|error| BrowserError::Unstarted(error.to_string()))??);
        }
        self.use_open(slot, terms)
    }

    /// The same if there is one.
    pub async fn find(&self, team: &TeamName, terms: Terms) -> Result<InUse, BrowserError> {
        let slot = self.0.teams.lock().get(team).cloned().ok_or(BrowserError::NoPage)?;
        let mut slot = slot.lock_owned().await;
        if slot.is_none() {
            return Err(BrowserError::NoPage);
        }
        if !is_alive(&mut slot).await {
            let ended = slot.take().map(|open| open.session.why_ended());
            return Err(ended.unwrap_or(BrowserError::Ended));
        }
        self.use_open(slot, terms)
    }

    fn use_open(
        &self,
        mut slot: OwnedMutexGuard<Option<Open>>,
        terms: Terms,
    ) -> Result<InUse, BrowserError> {
        let open = slot.as_mut().ok_or(BrowserError::Ended)?;
        open.session.set_terms(terms);
        Ok(InUse { slot, is_over: false })
    }

    /// Ends the browser of a team, if there is one. Says whether there was.
    pub async fn close(&self, team: &TeamName) -> bool {
        let slot = self.0.teams.lock().get(team).cloned();
        let Some(slot) = slot else { return false };
        let open = slot.lock().await.take();
        match open {
            Some(open) => {
                open.session.end().await;
                true
            }
            None => false,
        }
    }

    /// Ends all, and waits until nothing of them is left.
    pub async fn end(&self) {
        let teams: Vec<TeamName> = self.0.teams.lock().keys().cloned().collect();
        let ending = join_all(teams.iter().map(|team| self.close(team)));
        if tokio::time::timeout(END, ending).await.is_err() {
            tracing::warn!("some browsers did not end in time, and are killed");
        }
    }
}

impl Inner {
    async fn start(&self, slot: Arc<Slot>, terms: Terms) -> Result<Open, BrowserError> {
        let places = Arc::clone(&self.places);
        let Limits { most, place_timeout, idle, disk } = self.limits;
        let place = tokio::time::timeout(place_timeout, places.acquire_owned()).await;
        let place = place.ok().and_then(Result::ok).ok_or(BrowserError::Busy(most))?;
        let guard = self.guard.clone();
        let session = Session::start(&self.program, &self.sandbox, guard, terms, disk).await?;
        let watch = hivewright_actors::spawn::anywhere(watch(slot, session.gone(), idle));
        Ok(Open {
            session: Arc::new(session),
            is_doubted: false,
            used: Instant::now(),
            _place: place,
            _watch: AbortOnDropHandle::new(watch),
        })
    }
}

/// Whether there is a browser that can be used.
async fn is_alive(slot: &mut Option<Open>) -> bool {
    let Some(open) = slot else { return false };
    if open.session.has_ended() {
        return false;
    }
    if !open.is_doubted {
        return true;
    }
    let answered = tokio::time::timeout(DOUBT, open.session.answers()).await;
    let answers = answered.is_ok_and(|answers| answers);
    // A call that is stopped before this leaves the doubt.
    open.is_doubted = !answers;
    answers
}

/// Lets a browser go that has ended, or that nobody calls.
async fn watch(slot: Arc<Slot>, gone: CancellationToken, idle: Duration) {
    let mut due = Instant::now() + idle;
    loop {
        let has_ended = tokio::select! {
            () = tokio::time::sleep_until(due) => false,
            () = gone.cancelled() => true,
        };
        // A call that uses it comes first, and hears itself that it ended.
        let mut slot = slot.lock().await;
        let Some(open) = &*slot else { return };
        due = open.used + idle;
        if has_ended || due <= Instant::now() {
            tracing::debug!(has_ended, "a browser is let go");
            let open = slot.take();
            drop(slot);
            // Dropping it ends this task too, so nothing is done after it.
            drop(open);
            return;
        }
    }
}

/// A team that is shut down or paused leaves no browser.
impl Belongings for Browsers {
    /// A call that uses it comes first. Who is not stopped now is not waited for.
    fn rest(&self, team: &TeamName, now: bool) -> BoxFuture<'static, ()> {
        let (browsers, team) = (self.clone(), team.clone());
        Box::pin(async move {
            let closing =
                hivewright_actors::spawn::anywhere(async move { browsers.close(&team).await });
            if now {
                // What has not ended by then ends without anybody waiting for it.
                let _ = tokio::time::timeout(END, closing).await;
            }
        })
    }

    fn forget(&self, team: &TeamKey) -> BoxFuture<'static, Vec<Writes>> {
        let (browsers, team) = (self.clone(), team.name.clone());
        Box::pin(async move {
            browsers.close(&team).await;
            browsers.0.teams.lock().remove(&team);
            Vec::new()
        })
    }
}
