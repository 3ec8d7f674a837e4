//! What is done to elements of a page.

use hivewright_actors::excerpt;
use reqwest::Url;
use serde_json::{Value, json};

use super::Session;
use crate::{
    browser::{BrowserError, pages::Page, snapshot::Place},
    settings::network::host_name,
};

/// Chooses an option of a list by its words or its value.
const CHOOSE: &str = "function (text) {
    const option = [...this.options].find((o) => o.label.trim() === text.trim() || o.value === text);
    if (!option) return false;
    option.selected = true;
    this.dispatchEvent(new Event('input', { bubbles: true }));
    this.dispatchEvent(new Event('change', { bubbles: true }));
    return true;
}";

/// Types a text in place of what an element holds.
const INSERT: &str = "function (text) {
    const page = this.ownerDocument;
    this.focus();
    if (this.select) this.select();
    else page.getSelection().selectAllChildren(this);
    return page.execCommand(text ? 'insertText' : 'delete', false, text) || !text;
}";

impl Session {
    /// The current page and where an element of its last snapshot is.
    fn place(&self, name: &str) -> Result<(Page, Place), BrowserError> {
        let page = self.current()?;
        let stale = || BrowserError::Stale(quoted_name(name));
        let place = page.places.get(name).cloned().ok_or_else(stale)?;
        Ok((page, place))
    }

    pub async fn click(&self, name: &str) -> Result<String, BrowserError> {
        let (page, Place { node, .. }) = self.place(name)?;
        let node = json!({ "backendNodeId": node });
        let hidden = |error| unseen(name, error);
        self.on(&page, "DOM.scrollIntoViewIfNeeded", node.clone()).await.map_err(hidden)?;
        let quads = self.on(&page, "DOM.getContentQuads", node).await.map_err(hidden)?;
        let (x, y) = middle(&quads["quads"]).ok_or_else(|| invisible(name))?;
        for (kind, count) in [("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)] {
            let button = if count == 0 { "none" } else { "left" };
            let event =
                json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": count });
            // What is there after another document came is not what was meant.
            if kind == "mousePressed" && self.place(name)?.0.session != page.session {
                return Err(BrowserError::Stale(quoted_name(name)));
            }
            match self.say(&page, "Input.dispatchMouseEvent", event).await {
                // It may be what closes its page, or replaces it.
                Err(BrowserError::Closed) if count == 1 => break,
                Err(BrowserError::Refused(_)) if kind == "mouseReleased" => break,
                done => done?,
            };
        }
        let is_loaded = self.settle(&page).await;
        self.told(is_loaded).await
    }

    /// Types a text in place of what a field holds. A text that is a secret is for one host.
    pub async fn fill(
        &self,
        name: &str,
        text: &str,
        host: Option<&str>,
        submit: bool,
    ) -> Result<String, BrowserError> {
        let (page, place) = self.place(name)?;
        if let Some(host) = host {
            let of_field = Url::parse(&place.frame).ok().and_then(|url| host_name(&url));
            if of_field.as_deref() != Some(host) {
                let words = "the field is not on a page of `host`, so nothing was typed";
                return Err(BrowserError::Unfit(words.to_owned()));
            }
            self.pages.send_modify(|pages| {
                if let Some(now) = pages.current_mut().filter(|now| now.session == page.session) {
                    now.holds_secret = true;
                }
            });
        }
        let node = json!({ "backendNodeId": place.node });
        let gone = |error| unseen(name, error);
        let found = self.on(&page, "DOM.describeNode", node.clone()).await.map_err(gone)?;
        if found["node"]["nodeName"] == "SELECT" {
            self.choose(&page, node, text).await?;
        } else if place.takes_text && host.is_some() {
            self.insert(&page, node, text).await.map_err(|error| unseen(name, error))?;
        } else if place.takes_text {
            self.on(&page, "DOM.focus", node).await.map_err(|error| unseen(name, error))?;
            self.command(&page, "selectAll").await?;
            if text.is_empty() {
                self.command(&page, "deleteBackward").await?;
            } else {
                self.say(&page, "Input.insertText", json!({ "text": text })).await?;
            }
        } else {
            return Err(BrowserError::Unfit(format!("`{}` takes no text", quoted_name(name))));
        }
        if submit {
            for kind in ["keyDown", "keyUp"] {
                let event = json!({
                    "type": kind, "key": "Enter", "code": "Enter", "text": "\r",
                    "windowsVirtualKeyCode": 13, "nativeVirtualKeyCode": 13,
                });
                match self.say(&page, "Input.dispatchKeyEvent", event).await {
                    Err(BrowserError::Closed) => break,
                    done => done?,
                };
            }
        }
        let is_loaded = self.settle(&page).await;
        self.told(is_loaded).await
    }

    async fn command(&self, page: &Page, command: &str) -> Result<(), BrowserError> {
        let event = json!({ "type": "rawKeyDown", "commands": [command] });
        self.say(page, "Input.dispatchKeyEvent", event).await.map(drop)
    }

    async fn choose(&self, page: &Page, node: Value, text: &str) -> Result<(), BrowserError> {
        if self.call(page, node, CHOOSE, text).await? {
            return Ok(());
        }
        Err(BrowserError::Unfit("the list has no such option; its words are wanted".to_owned()))
    }

    /// Types into this element and no other, whatever document the page has by then.
    async fn insert(&self, page: &Page, node: Value, text: &str) -> Result<(), BrowserError> {
        if self.call(page, node, INSERT, text).await? {
            return Ok(());
        }
        Err(BrowserError::Unfit("the field takes no text now".to_owned()))
    }

    /// Runs a function on an element, which belongs to its document. Says whether it did what it is for.
    async fn call(
        &self,
        page: &Page,
        node: Value,
        function: &str,
        text: &str,
    ) -> Result<bool, BrowserError> {
        let element = self.on(page, "DOM.resolveNode", node).await?;
        let call = json!({
            "objectId": element["object"]["objectId"], "functionDeclaration": function,
            "arguments": [{ "value": text }], "returnByValue": true,
        });
        let done = self.say(page, "Runtime.callFunctionOn", call).await?;
        Ok(done["result"]["value"] == true)
    }
}

/// A name as a model wrote it, cut.
fn quoted_name(name: &str) -> String {
    excerpt::line(name, 40)
}

fn invisible(name: &str) -> BrowserError {
    let name = quoted_name(name);
    BrowserError::Unfit(format!(
        "`{name}` is not to be seen on the page; an option is chosen by typing its words into its list"
    ))
}

/// Why an element cannot be acted on.
fn unseen(name: &str, error: BrowserError) -> BrowserError {
    match error {
        BrowserError::Refused(words) if words.contains("layout") || words.contains("focusable") => {
            invisible(name)
        }
        BrowserError::Refused(_) => BrowserError::Stale(quoted_name(name)),
        error => error,
    }
}

/// The middle of the first part of an element that is to be seen.
fn middle(quads: &Value) -> Option<(f64, f64)> {
    quads.as_array()?.iter().find_map(|quad| {
        let numbers: Vec<f64> = quad.as_array()?.iter().filter_map(Value::as_f64).collect();
        let [x0, y0, x1, y1, x2, y2, x3, y3] = numbers[..] else { return None };
        let area =
            (x0 * y1 - x1 * y0) + (x1 * y2 - x2 * y1) + (x2 * y3 - x3 * y2) + (x3 * y0 - x0 * y3);
        (area.abs() / 2.0 >= 1.0).then(|| ((x0 + x1 + x2 + x3) / 4.0, (y0 + y1 + y2 + y3) / 4.0))
    })
}
