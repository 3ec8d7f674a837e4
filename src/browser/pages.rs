//! Pages of a browser, as its events tell of them: which there are, where each is, and what it wanted.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    cdp::Event,
    snapshot::{Place, quote},
};
use crate::scrub::Scrubber;

/// Pages at once. A further one is closed.
const MOST_PAGES: usize = 5;
/// Notes that are kept, and the length of what is quoted in one, in characters.
const MOST_NOTES: usize = 20;
const LONGEST_QUOTE: usize = 200;

/// A page that is open.
#[derive(Clone, Debug, Default)]
pub(super) struct Page {
    /// Its name, and that of its outermost frame.
    pub(super) target: String,
    /// What commands to it are sent with.
    pub(super) session: String,
    pub(super) is_loading: bool,
    /// How often it went to another address.
    pub(super) moves: u64,
    /// What the last snapshot called its elements.
    pub(super) places: HashMap<String, Place>,
    /// Somebody typed a secret into it.
    pub(super) holds_secret: bool,
}

/// All pages, the current one last.
#[derive(Debug, Default)]
pub(super) struct Pages {
    list: Vec<Page>,
    notes: Vec<String>,
    /// Elements that were named so far: no name is given twice.
    pub(super) named: u64,
}

/// A command that follows from an event.
#[derive(Debug, PartialEq)]
pub(super) struct Order {
    pub(super) session: Option<String>,
    pub(super) method: &'static str,
    pub(super) params: Value,
}

impl Order {
    fn to(session: &str, method: &'static str, params: Value) -> Self {
        Self { session: Some(session.to_owned()), method, params }
    }

    fn close(target: &str) -> Self {
        let params = json!({ "targetId": target });
        Self { session: None, method: "Target.closeTarget", params }
    }
}

impl Pages {
    pub(super) fn current(&self) -> Option<&Page> {
        self.list.last()
    }

    pub(super) fn current_mut(&mut self) -> Option<&mut Page> {
        self.list.last_mut()
    }

    pub(super) fn of(&self, session: &str) -> Option<&Page> {
        self.list.iter().find(|page| page.session == session)
    }

    /// A page is gone, or is not used any more.
    pub(super) fn forget(&mut self, session: &str) {
        self.list.retain(|page| page.session != session);
    }

    /// What there is to say beside an answer, once.
    pub(super) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MOST_NOTES {
            self.notes.push(note);
        }
    }

    /// Learns of an event. What follows is to be done at once.
    pub(super) fn on(&mut self, event: &Event, scrubber: &Scrubber) -> Vec<Order> {
        let Event { method, params, session } = event;
        match (method.as_str(), session) {
            ("Target.attachedToTarget", None) => self.attached(params),
            ("Target.detachedFromTarget", None) => {
                self.forget(params["sessionId"].as_str().unwrap_or_default());
                Vec::new()
            }
            ("Browser.downloadWillBegin", _) => {
                let name = quoted(scrubber, &params["suggestedFilename"]);
                self.note(format!("a download was refused: {name}"));
                Vec::new()
            }
            (method, Some(session)) => self.of_page(session, method, params, scrubber),
            _ => Vec::new(),
        }
    }

    fn attached(&mut self, params: &Value) -> Vec<Order> {
        let (session, info) = (text(&params["sessionId"]), &params["targetInfo"]);
        let target = text(&info["targetId"]);
        if info["type"] != "page" {
            return Vec::new();
        }
        if self.list.len() >= MOST_PAGES {
            self.note(format!("a page more than {MOST_PAGES} was closed"));
            return vec![Order::close(&target)];
        }
        if !self.list.is_empty() {
            self.note("a new window opened; it is the page now".to_owned());
        }
        self.list.push(Page { target, session: session.clone(), ..Page::default() });
        let orders = ["Page.enable", "Runtime.runIfWaitingForDebugger"];
        orders.map(|method| Order::to(&session, method, json!({}))).into()
    }

    fn of_page(
        &mut self,
        session: &str,
        method: &str,
        params: &Value,
        scrubber: &Scrubber,
    ) -> Vec<Order> {
        let Some(page) = self.list.iter_mut().find(|page| page.session == session) else {
            return Vec::new();
        };
        let is_outermost = params["frameId"].as_str() == Some(&page.target);
        match method {
            "Page.frameStartedLoading" if is_outermost => page.is_loading = true,
            "Page.frameStoppedLoading" if is_outermost => page.is_loading = false,
            "Page.navigatedWithinDocument" if is_outermost => page.moves += 1,
            "Page.frameNavigated" if params["frame"]["parentId"].is_null() => {
                page.moves += 1;
                page.places.clear();
                page.holds_secret = false;
            }
            "Page.javascriptDialogOpening" => {
                // Who leaves a page leaves it.
                let accept = params["type"] == "beforeunload";
                if !accept {
                    let message = quoted(scrubber, &params["message"]);
                    self.note(format!("a dialog of the page was dismissed: {message}"));
                }
                let params = json!({ "accept": accept });
                return vec![Order::to(session, "Page.handleJavaScriptDialog", params)];
            }
            "Inspector.targetCrashed" => {
                let target = page.target.clone();
                self.forget(session);
                self.note("the page crashed, and was closed".to_owned());
                return vec![Order::close(&target)];
            }
            _ => {}
        }
        Vec::new()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Words of a page, in quotes that they cannot end.
fn quoted(scrubber: &Scrubber, value: &Value) -> String {
    quote(scrubber, value.as_str().unwrap_or_default(), LONGEST_QUOTE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(method: &str, session: Option<&str>, params: Value) -> Event {
        let session = session.map(str::to_owned);
        Event { method: method.to_owned(), params, session }
    }

    impl Pages {
        fn hear(&mut self, event: &Event) -> Vec<Order> {
            self.on(event, &Scrubber::new(["canary-value-1"]))
        }
    }

    fn opened(number: usize) -> Event {
        let info =
            json!({ "type": "page", "targetId": format!("t{number}"), "url": "about:blank" });
        let params = json!({ "sessionId": format!("s{number}"), "targetInfo": info });
        event("Target.attachedToTarget", None, params)
    }

    /// TO-90: a new window is the page now, up to five; one that closes leaves the one before it.
    #[test]
    fn a_new_window_is_the_page_up_to_five() {
        let mut pages = Pages::default();

        let orders: Vec<_> = (1..=6).map(|number| pages.hear(&opened(number)).len()).collect();
        let last = pages.hear(&opened(7));
        let current = pages.current().unwrap().session.clone();
        pages.hear(&event("Target.detachedFromTarget", None, json!({ "sessionId": "s5" })));

        assert_eq!(orders, [2, 2, 2, 2, 2, 1]);
        assert_eq!(last[0].method, "Target.closeTarget");
        assert_eq!((&*current, &*pages.current().unwrap().session), ("s5", "s4"));
        assert_eq!(pages.take_notes().len(), 4 + 2);
        assert_eq!(pages.take_notes().len(), 0);
    }

    /// TO-90, SC-66: what a dialog says is quoted and its question answered with no, but for leaving the page.
    #[test]
    fn dialogs_are_dismissed_and_told() {
        let mut pages = Pages::default();
        pages.hear(&opened(1));
        let dialog = |kind: &str, message: &str| {
            let params = json!({ "type": kind, "message": message });
            event("Page.javascriptDialogOpening", Some("s1"), params)
        };

        // The cut would go through a secret.
        let secret = format!("{}canary-value-1", "x".repeat(LONGEST_QUOTE - 10));
        let dialogs =
            [dialog("confirm", "pay\"\nnow"), dialog("alert", &secret), dialog("beforeunload", "")];
        let orders = dialogs.map(|event| pages.hear(&event));

        let accepts = orders.map(|orders| orders[0].params["accept"].clone());
        assert_eq!(accepts, [json!(false), json!(false), json!(true)]);
        let notes = pages.take_notes();
        assert_eq!(notes[0], "a dialog of the page was dismissed: \"pay\\\"\\nnow\"");
        assert!(!notes[1].contains("canary"), "{}", notes[1]);
    }

    /// MV-45: names of elements and what was typed belong to a document, not to the page of the browser.
    #[test]
    fn another_document_forgets_what_the_last_one_held() {
        let mut pages = Pages::default();
        pages.hear(&opened(1));
        let page = pages.current_mut().unwrap();
        page.holds_secret = true;
        page.places
            .insert("e1".to_owned(), Place { node: 1, frame: String::new(), takes_text: true });
        let frame =
            json!({ "frame": { "id": "inner", "parentId": "t1", "url": "https://b.example/" } });
        let whole = json!({ "frame": { "id": "t1", "url": "https://c.example/" } });

        pages.hear(&event("Page.frameNavigated", Some("s1"), frame));
        let kept = pages.current().unwrap().clone();
        pages.hear(&event("Page.frameNavigated", Some("s1"), whole));
        let new = pages.current().unwrap();

        assert_eq!((kept.holds_secret, kept.places.len()), (true, 1));
        assert_eq!((new.holds_secret, new.places.len()), (false, 0));
    }
}
