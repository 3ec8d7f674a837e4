//! What a page shows: as lines, and as a picture.

use std::{collections::HashMap, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::Session;
use crate::browser::{
    BrowserError,
    pages::Page,
    snapshot::{Snapshot, Tree},
};

/// Frames whose content is listed.
const MOST_FRAMES: usize = 20;
/// The largest picture, in bytes, and the longest part of a page that is on one, in pixels.
const LARGEST_PICTURE: usize = 2 << 20;
const LONGEST_PICTURE: f64 = 10_000.0;
/// How often a picture is tried, and how long each time.
const CAPTURES: usize = 3;
const CAPTURE_TIMEOUT: Duration = Duration::from_secs(8);

/// A picture of a page.
pub struct Picture {
    pub bytes: Vec<u8>,
    pub extension: &'static str,
    /// What of the page is not on it.
    pub cut: Option<String>,
}

impl Session {
    pub async fn snapshot(&self) -> Result<String, BrowserError> {
        let page = self.current()?;
        self.loaded().await;
        let told = self.told(true).await?;
        let addresses = self.frames(&page).await?;
        let tree = self.on(&page, "Accessibility.getFullAXTree", json!({})).await?;
        let tree = Tree::new(addresses.get(&page.target).map_or("", String::as_str), tree);
        let mut open: Vec<i64> = tree.frames().collect();
        let mut frames = HashMap::new();
        while let Some(node) = open.pop() {
            if frames.len() >= MOST_FRAMES || frames.contains_key(&node) {
                continue;
            }
            // A frame that is gone by now is not listed.
            if let Ok(frame) = self.frame(&page, node, &addresses).await {
                open.extend(frame.frames());
                frames.insert(node, frame);
            }
        }
        let named = self.pages.borrow().named;
        let taken = Snapshot::of(&tree, &frames, named, &self.gate.scrubber());
        self.pages.send_modify(|pages| {
            pages.named = taken.named;
            if let Some(now) = pages.current_mut().filter(|now| now.session == page.session) {
                now.places = taken.places;
            }
        });
        Ok(format!("{told}\n\n{}", taken.text))
    }

    /// The addresses of frames, by their names.
    async fn frames(&self, page: &Page) -> Result<HashMap<String, String>, BrowserError> {
        let mut answer = self.on(page, "Page.getFrameTree", json!({})).await?;
        let mut open = vec![answer["frameTree"].take()];
        let mut addresses = HashMap::new();
        while let Some(mut tree) = open.pop() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            addresses.insert(text(&tree["frame"]["id"]), text(&tree["frame"]["url"]));
            if let Value::Array(inner) = tree["childFrames"].take() {
                open.extend(inner);
            }
        }
        Ok(addresses)
    }

    async fn frame(
        &self,
        page: &Page,
        node: i64,
        addresses: &HashMap<String, String>,
    ) -> Result<Tree, BrowserError> {
        let holder = self.on(page, "DOM.describeNode", json!({ "backendNodeId": node })).await?;
        let frame = holder["node"]["frameId"].as_str().unwrap_or_default();
        let tree = json!({ "frameId": frame });
        let tree = self.on(page, "Accessibility.getFullAXTree", tree).await?;
        Ok(Tree::new(addresses.get(frame).map_or("", String::as_str), tree))
    }

    /// A page that is replaced meanwhile may leave this without an answer, so it is asked again.
    async fn capture(&self, page: &Page, wanted: Value) -> Result<Value, BrowserError> {
        for _ in 0..CAPTURES {
            let taking = self.on(page, "Page.captureScreenshot", wanted.clone());
            if let Ok(taken) = tokio::time::timeout(CAPTURE_TIMEOUT, taking).await {
                return taken;
            }
        }
        Err(BrowserError::Unfit("the page does not hold still for a picture".to_owned()))
    }

    /// A picture of what is seen of the current page, or of all of it.
    pub async fn picture(&self, full_page: bool) -> Result<(Picture, String), BrowserError> {
        let page = self.current()?;
        if page.holds_secret {
            return Err(BrowserError::HoldsSecret);
        }
        let is_loaded = self.loaded().await;
        let told = self.told(is_loaded).await?;
        let metrics = self.on(&page, "Page.getLayoutMetrics", json!({})).await?;
        let whole = &metrics["cssContentSize"];
        let seen = &metrics["cssVisualViewport"];
        let number = |value: &Value| value.as_f64().unwrap_or(1.0).max(1.0);
        let (width, height) = if full_page {
            (number(&whole["width"]), number(&whole["height"]))
        } else {
            (number(&seen["clientWidth"]), number(&seen["clientHeight"]))
        };
        let (x, y) = if full_page {
            (0.0, 0.0)
        } else {
            let place = |value: &Value| value.as_f64().unwrap_or_default();
            (place(&seen["pageX"]), place(&seen["pageY"]))
        };
        let shown = (width.min(LONGEST_PICTURE), height.min(LONGEST_PICTURE));
        let cut = (shown != (width, height))
            .then(|| format!("it shows {}x{} of {width}x{height} pixels", shown.0, shown.1));
        for (format, quality, scale) in
            [("png", 100, 1.0), ("jpeg", 80, 1.0), ("jpeg", 60, 0.5), ("jpeg", 40, 0.25)]
        {
            let mut wanted = json!({
                "format": format, "captureBeyondViewport": full_page,
                "clip": { "x": x, "y": y, "width": shown.0, "height": shown.1, "scale": scale },
            });
            if format == "jpeg" {
                wanted["quality"] = quality.into();
            }
            let taken = self.capture(&page, wanted).await?;
            let bytes = STANDARD.decode(taken["data"].as_str().unwrap_or_default());
            let bytes = bytes.map_err(|error| BrowserError::Refused(error.to_string()))?;
            if bytes.len() <= LARGEST_PICTURE {
                let extension = if format == "png" { "png" } else { "jpg" };
                return Ok((Picture { bytes, extension, cut }, told));
            }
        }
        Err(BrowserError::Unfit("the page is too large for a picture".to_owned()))
    }
}
