//! Session with a browser: its life, where its pages are, and what is said of that.

use std::{mem, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use reqwest::Url;
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    process::ChildStderr,
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    BrowserError,
    cdp::{Event, Link},
    gate::{TeamGate, Terms},
    pages::{Page, Pages},
    program::{self, Installed},
    snapshot::quote,
};
use crate::sandbox::{
    egress::{EgressError, Guard, proxy},
    process::{
        Sandbox,
        agent::{Agent, Life},
    },
};

mod acting;
pub mod looking;

/// How long a browser takes to be ready.
const START_TIMEOUT: Duration = Duration::from_secs(25);
/// What an act on a page starts, it starts within this.
const SOON: Duration = Duration::from_millis(300);
/// How long a new window has to go somewhere.
const NEW_WINDOW: Duration = Duration::from_secs(2);
/// How long a page is waited for. What is there then is what there is.
const LOAD_TIMEOUT: Duration = Duration::from_secs(12);
/// How long a way through the history may take to begin.
const MOVE_TIMEOUT: Duration = Duration::from_secs(10);
/// What a browser says of a page that is between two documents: from when the next one is ready to be shown until its process
/// shows it, which takes a while on a busy machine.
const NO_DOCUMENT: &str = "Not attached to an active page";
/// How long such a page is asked again, and after which pause.
const BETWEEN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);
/// What it says of a page that is not to be loaded any more.
const ABORTED: &str = "net::ERR_ABORTED";
/// How long a page that goes elsewhere by itself may take to be there.
const LEAVING: Duration = Duration::from_secs(5);
/// What it says of a page that is not there any more.
const NO_PAGE: &str = "Session with given id not found";
/// A page that does not answer for so long is left alone.
const STUCK: Duration = Duration::from_secs(5);
const LONGEST_TITLE: usize = 200;
const LONGEST_URL: usize = 2_000;

/// A browser that runs. Dropping it kills the browser with all it started.
pub struct Session {
    link: Link,
    pages: Arc<watch::Sender<Pages>>,
    gate: Arc<TeamGate>,
    /// Apart from what the browser does for itself.
    context: String,
    end: CancellationToken,
    /// The connection is gone.
    gone: CancellationToken,
    /// Nothing is left of it.
    over: CancellationToken,
}

/// Where a way through the history leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Back,
    Forward,
}

/// What a browser runs with.
struct Body {
    life: Life,
    errors: ChildStderr,
    relay: TcpListener,
    /// Bytes that it may hold on the disk.
    disk: u64,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Session {
    pub(super) async fn start(
        program: &Installed,
        sandbox: &Sandbox,
        guard: Guard,
        terms: Terms,
        disk: u64,
    ) -> Result<Self, BrowserError> {
        let Agent { streams, errors, relay, life, .. } = program.start(sandbox).await?;
        let (link, connection, events) = Link::over(streams);
        let (end, gone) = (CancellationToken::new(), CancellationToken::new());
        let mut session = Self {
            link,
            pages: Arc::new(watch::Sender::new(Pages::default())),
            gate: Arc::new(TeamGate::new(terms)),
            context: String::new(),
            end: end.clone(),
            gone,
            over: CancellationToken::new(),
        };
        let body = Body { life, errors, relay, disk };
        hivewright_actors::spawn::anywhere(session.run(body, guard, connection, events, end));
        let prepared = tokio::time::timeout(START_TIMEOUT, session.prepare()).await;
        session.context = prepared.map_err(|_| unstarted("it does not answer"))?.map_err(
            |error| match error {
                BrowserError::Ended => unstarted("it ended at once"),
                error => error,
            },
        )?;
        Ok(session)
    }

    /// Runs the browser until it ends, or is to end.
    fn run(
        &self,
        Body { life, errors, relay, disk }: Body,
        guard: Guard,
        connection: BoxFuture<'static, ()>,
        events: mpsc::UnboundedReceiver<Event>,
        end: CancellationToken,
    ) -> impl Future<Output = ()> + Send + use<> {
        let (gone, over) = (self.gone.clone(), self.over.clone().drop_guard());
        let link = self.link.clone();
        let gate = Arc::clone(&self.gate);
        let following = follow(events, link.clone(), Arc::clone(&self.pages), Arc::clone(&gate));
        async move {
            tokio::select! {
                () = connection => {}
                () = following => {}
                () = proxy::serve(relay, guard, gate) => {}
                () = drained(errors) => {}
                () = life.holds_more_than(disk) => link.exceeded(disk),
                () = end.cancelled() => {}
            }
            link.close();
            gone.cancel();
            life.end(Duration::ZERO).await;
            drop(over);
        }
    }

    async fn prepare(&self) -> Result<String, BrowserError> {
        let context = json!({
            "disposeOnDetach": true,
            "proxyServer": program::proxy(),
            "proxyBypassList": "<-loopback>",
        });
        let context = self.link.call(None, "Target.createBrowserContext", context).await?;
        let context = context["browserContextId"].as_str().unwrap_or_default().to_owned();
        let downloads =
            json!({ "behavior": "deny", "browserContextId": context, "eventsEnabled": true });
        self.link.call(None, "Browser.setDownloadBehavior", downloads).await?;
        let attach =
            json!({ "autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true });
        self.link.call(None, "Target.setAutoAttach", attach).await?;
        Ok(context)
    }

    pub(super) fn set_terms(&self, terms: Terms) {
        self.gate.set(terms);
    }

    pub fn has_ended(&self) -> bool {
        self.gone.is_cancelled()
    }

    pub(super) fn why_ended(&self) -> BrowserError {
        self.link.why_closed()
    }

    pub(super) fn gone(&self) -> CancellationToken {
        self.gone.clone()
    }

    /// Ends it, and waits until nothing of it is left.
    pub(super) async fn end(&self) {
        self.end.cancel();
        self.over.cancelled().await;
    }

    /// Stops what the current page loads.
    pub fn stop(&self) {
        if let Ok(page) = self.current() {
            self.link.tell(Some(&page.session), "Page.stopLoading", json!({}));
        }
    }

    /// Whether its current page does what it is told.
    pub(super) async fn answers(&self) -> bool {
        let asked = json!({ "expression": "1" });
        match self.current() {
            Ok(page) => self.on(&page, "Runtime.evaluate", asked).await.is_ok(),
            Err(_) => self.link.call(None, "Browser.getVersion", json!({})).await.is_ok(),
        }
    }

    fn current(&self) -> Result<Page, BrowserError> {
        self.pages.borrow().current().cloned().ok_or(BrowserError::NoPage)
    }

    /// Says a command to a page. One that is between two documents does nothing, and is told again.
    async fn on(&self, page: &Page, method: &str, params: Value) -> Result<Value, BrowserError> {
        let due = Instant::now() + BETWEEN;
        loop {
            match self.say(page, method, params.clone()).await {
                Err(BrowserError::Refused(words)) if words.contains(NO_DOCUMENT) => {
                    if Instant::now() > due {
                        return Err(BrowserError::Stuck);
                    }
                    tokio::time::sleep(PAUSE).await;
                }
                done => return done,
            }
        }
    }

    /// Says a command to a page as it is now. One that closes meanwhile answers nothing any more.
    async fn say(&self, page: &Page, method: &str, params: Value) -> Result<Value, BrowserError> {
        let mut pages = self.pages.subscribe();
        let closed = pages.wait_for(|pages| pages.of(&page.session).is_none());
        tokio::select! {
            biased;
            answer = self.link.call(Some(&page.session), method, params) => match answer {
                Err(BrowserError::Refused(words)) if words.contains(NO_PAGE) => {
                    Err(BrowserError::Closed)
                }
                answer => answer,
            },
            _ = closed => Err(BrowserError::Closed),
        }
    }

    /// Waits until something is so; false if it is not within this time.
    async fn until(&self, within: Duration, mut is_so: impl FnMut(&Pages) -> bool) -> bool {
        let mut pages = self.pages.subscribe();
        let waiting = pages.wait_for(|pages| is_so(pages));
        tokio::select! {
            waited = tokio::time::timeout(within, waiting) => waited.is_ok(),
            () = self.gone.cancelled() => false,
        }
    }

    /// The current page, or a new one if there is none or it is stuck.
    async fn page(&self) -> Result<Page, BrowserError> {
        if let Ok(page) = self.current() {
            if tokio::time::timeout(STUCK, self.answers()).await.is_ok_and(|answers| answers) {
                return Ok(page);
            }
            self.leave(&page);
        }
        self.new_page().await
    }

    /// Leaves a page that is stuck alone.
    fn leave(&self, page: &Page) {
        self.pages.send_modify(|pages| pages.forget(&page.session));
        self.link.tell(None, "Target.closeTarget", json!({ "targetId": page.target }));
    }

    async fn new_page(&self) -> Result<Page, BrowserError> {
        let new = json!({ "url": "about:blank", "browserContextId": self.context });
        let new = self.link.call(None, "Target.createTarget", new).await?;
        let is_new = |page: &Page| new["targetId"] == page.target.as_str();
        self.until(MOVE_TIMEOUT, |pages| pages.current().is_some_and(is_new)).await;
        let page = self.current()?;
        // Of what it does before this is answered, it does not tell.
        self.on(&page, "Page.enable", json!({})).await?;
        Ok(page)
    }

    fn is_loading(&self) -> bool {
        self.pages.borrow().current().is_some_and(|page| page.is_loading)
    }

    async fn loaded(&self) -> bool {
        let is_loaded = |pages: &Pages| !pages.current().is_some_and(|page| page.is_loading);
        self.until(LOAD_TIMEOUT, is_loaded).await
    }

    /// Waits for what an act on a page led to.
    async fn settle(&self, before: &Page) -> bool {
        let is_other = |now: &Page| now.session != before.session;
        self.until(SOON, |pages| {
            let now = pages.current();
            now.is_none_or(|now| is_other(now) || now.is_loading || now.moves > before.moves)
        })
        .await;
        // A new window is there before it goes where it is to go.
        self.until(NEW_WINDOW, |pages| {
            pages.current().is_none_or(|now| !is_other(now) || now.moves > 0)
        })
        .await;
        self.loaded().await
    }

    pub async fn navigate(&self, url: &Url) -> Result<String, BrowserError> {
        let page = self.page().await?;
        let done = self.navigate_on(&page, url).await;
        let page = match &done {
            Err(BrowserError::Stuck) => {
                self.leave(&page);
                self.new_page().await?
            }
            Err(BrowserError::Unloaded(why)) if why == ABORTED && self.has_moved(&page).await => {
                page
            }
            _ => return done,
        };
        self.navigate_on(&page, url).await
    }

    /// Whether a page went elsewhere by itself, which ends what else it was to load.
    async fn has_moved(&self, before: &Page) -> bool {
        let has_moved =
            |pages: &Pages| pages.of(&before.session).is_some_and(|now| now.moves > before.moves);
        self.until(LEAVING, has_moved).await
    }

    async fn navigate_on(&self, page: &Page, url: &Url) -> Result<String, BrowserError> {
        self.gate.take_failures();
        let answer = self.on(page, "Page.navigate", json!({ "url": url.as_str() })).await?;
        if let Some(error) = answer["errorText"].as_str() {
            let mut failures = self.gate.take_failures().list;
            // Where a page is led to is asked for last.
            let own = failures.iter().position(|(failed, _)| failed == url);
            return Err(match (own, failures.pop()) {
                (Some(own), Some(last)) => {
                    failures.push(last);
                    failures.swap_remove(own).1.into()
                }
                (None, Some((_, error))) => error.into(),
                (_, None) => {
                    let notes = self.take_notes();
                    let why = notes.into_iter().next().unwrap_or_else(|| error.to_owned());
                    BrowserError::Unloaded(why)
                }
            });
        }
        // Where it goes is known now; one that got stuck after it was asked never shows that.
        if let Err(BrowserError::Stuck) = self.history(page).await {
            return Err(BrowserError::Stuck);
        }
        let is_loaded = self.loaded().await;
        self.told(is_loaded).await
    }

    pub async fn go(&self, way: Way) -> Result<String, BrowserError> {
        let page = self.current()?;
        let (entries, now) = self.history(&page).await?;
        let there = match way {
            Way::Back => now.checked_sub(1),
            Way::Forward => now.checked_add(1),
        };
        let entry = there.and_then(|there| entries.get(there));
        // Each page begins with an empty one.
        let entry = entry.filter(|entry| entry["url"] != "about:blank").ok_or_else(|| {
            let side = if way == Way::Back { "before" } else { "after" };
            BrowserError::Unfit(format!("there is no page {side} this one"))
        })?;
        let entry = json!({ "entryId": entry["id"] });
        self.on(&page, "Page.navigateToHistoryEntry", entry).await?;
        let session = &page.session;
        self.until(MOVE_TIMEOUT, |pages| {
            pages.of(session).is_none_or(|now| now.moves > page.moves)
        })
        .await;
        let is_loaded = self.loaded().await;
        self.told(is_loaded).await
    }

    async fn history(&self, page: &Page) -> Result<(Vec<Value>, usize), BrowserError> {
        let mut history = self.on(page, "Page.getNavigationHistory", json!({})).await?;
        let now = history["currentIndex"].as_u64().unwrap_or_default();
        let entries = match history["entries"].take() {
            Value::Array(entries) => entries,
            _ => Vec::new(),
        };
        Ok((entries, usize::try_from(now).unwrap_or_default()))
    }

    fn take_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        self.pages.send_modify(|pages| notes = pages.take_notes());
        notes
    }

    /// Where the current page is, and what happened beside.
    async fn told(&self, mut is_loaded: bool) -> Result<String, BrowserError> {
        let (mut lines, scrubber) = (Vec::new(), self.gate.scrubber());
        let mut may_wait = is_loaded;
        while let Ok(page) = self.current() {
            let (entries, now) = match self.history(&page).await {
                // The one before it is current now.
                Err(BrowserError::Closed) => {
                    self.pages.send_modify(|pages| pages.forget(&page.session));
                    continue;
                }
                history => history?,
            };
            // It went on meanwhile: what is there now has no title yet.
            if self.is_loading() && mem::take(&mut may_wait) {
                is_loaded = self.loaded().await;
                continue;
            }
            let text = |name: &str| entries.get(now).and_then(|entry| entry[name].as_str());
            let (title, url) = (text("title").unwrap_or_default(), text("url"));
            let url = url.unwrap_or_default();
            self.keep_out(&page, url).await?;
            lines.push(format!("page: {}", quote(&scrubber, title, LONGEST_TITLE)));
            lines.push(format!("address: {}", quote(&scrubber, url, LONGEST_URL)));
            if !is_loaded {
                lines.push("it is still loading".to_owned());
            }
            break;
        }
        if lines.is_empty() {
            lines.push("no page is open now".to_owned());
        }
        lines.extend(self.take_notes());
        lines.extend(self.gate.take_failures().lines(&scrubber));
        Ok(lines.join("\n"))
    }

    /// No page shows what belongs to the machine or the browser.
    async fn keep_out(&self, page: &Page, url: &str) -> Result<(), BrowserError> {
        let scheme = url.split(':').next().unwrap_or_default();
        if matches!(scheme, "" | "http" | "https" | "about" | "blob" | "data" | "chrome-error") {
            return Ok(());
        }
        self.on(page, "Page.navigate", json!({ "url": "about:blank" })).await?;
        Err(EgressError::Scheme(scheme.to_owned()).into())
    }
}

fn unstarted(why: &str) -> BrowserError {
    BrowserError::Unstarted(why.to_owned())
}

/// Keeps the list of pages, and does what follows from events at once.
async fn follow(
    mut events: mpsc::UnboundedReceiver<Event>,
    link: Link,
    pages: Arc<watch::Sender<Pages>>,
    gate: Arc<TeamGate>,
) {
    while let Some(event) = events.recv().await {
        // Within the change: whoever sees a page speaks to it after this.
        pages.send_modify(|pages| {
            for order in pages.on(&event, &gate.scrubber()) {
                link.tell(order.session.as_deref(), order.method, order.params);
            }
        });
    }
}

/// Takes what the program prints, which may hold words of pages. It never ends.
async fn drained(mut errors: ChildStderr) {
    // One that can be read no more says nothing more.
    let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
    std::future::pending().await
}
