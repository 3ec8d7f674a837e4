//! A small WebDriver client: a real browser, driven over chromedriver.

use std::{
    io::ErrorKind,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{
    kill_switch::started_with,
    service::{http, rest},
};

/// How long a condition may take to come true, on a machine that does much else.
const DEADLINE: Duration = Duration::from_secs(150);

/// The same browser without windows, where it is installed: it starts with a quarter of the work.
const SHELL: &str = "/usr/lib/chromium/chromium-headless-shell";

/// The keys that have no letter, as WebDriver writes them.
pub(crate) mod key {
    pub(crate) const ENTER: &str = "\u{e007}";
    pub(crate) const SHIFT: &str = "\u{e008}";
    pub(crate) const CONTROL: &str = "\u{e009}";
    pub(crate) const DOWN: &str = "\u{e015}";
    pub(crate) const UP: &str = "\u{e013}";
    pub(crate) const END: &str = "\u{e010}";
    pub(crate) const HOME: &str = "\u{e011}";
    pub(crate) const TAB: &str = "\u{e004}";
    pub(crate) const ESCAPE: &str = "\u{e00c}";
}

const ARGUMENTS: [&str; 12] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en-GB",
    "--window-size=1280,800",
    // Pages of the browser's own, for what is typed as an address. They take more than ours to start.
    "--disable-features=WebUIOmniboxPopup,WebUIOmniboxAimPopup",
];

/// A browser with one window and an empty profile. Dropping it ends both browser and driver.
pub(crate) struct Browser {
    http: reqwest::Client,
    session: String,
    driver: Driver,
}

/// A driver with the browser that it starts. Neither outlives the test, however that ends.
struct Driver {
    process: Child,
    profile: TempDir,
}

impl Driver {
    /// The argument that the browser is known by, and no other. What it starts ends with it.
    fn argument(&self) -> String {
        format!("--user-data-dir={}", self.profile.path().display())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // First, so that it starts nothing more. The browser does not end with it.
        let _ = self.process.start_kill();
        let argument = self.argument();
        let began = Instant::now();
        while kill_all(&argument) && began.elapsed() < DEADLINE {
            std::thread::sleep(Duration::from_millis(30));
        }
    }
}

/// Kills the processes that were started with this argument; tells whether there were any.
fn kill_all(argument: &str) -> bool {
    let found = started_with(argument);
    for pid in &found {
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("not 0");
        // One that has ended meanwhile needs none.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    !found.is_empty()
}

/// Keeps what the page tells in passing in `window.told`, since a busy machine may look too late.
const TOLD: &str = "window.told = []; \
    new MutationObserver(changes => changes.forEach(change => change.addedNodes.forEach(node => { \
        if (node.classList?.contains('toast')) window.told.push(node.textContent); \
    }))).observe(document, {childList: true, subtree: true});";

impl Browser {
    /// `None` only where there is no chromedriver and `HIVEWRIGHT_TESTS=quick` allows to do without.
    pub(crate) async fn start() -> Option<Self> {
        Self::start_with(&[], false).await
    }

    /// The same with further arguments of the browser. One that is traced keeps what goes over the network, which
    /// takes it time.
    pub(crate) async fn start_with(further: &[&str], traced: bool) -> Option<Self> {
        let (process, port) = start_driver().await?;
        let driver = Driver { process, profile: TempDir::new().unwrap() };
        let http = http();
        let mut arguments: Vec<String> = ARGUMENTS.map(str::to_owned).to_vec();
        arguments.extend(further.iter().map(|&argument| argument.to_owned()));
        arguments.push(driver.argument());
        let (name, options) = if Path::new(SHELL).exists() {
            ("chrome-headless-shell", json!({"args": arguments, "binary": SHELL}))
        } else {
            ("chrome", json!({"args": arguments}))
        };
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": name,
            "goog:loggingPrefs": {"browser": "ALL", "performance": if traced { "ALL" } else { "OFF" }},
            "goog:chromeOptions": options,
            // An element is waited for.
            "timeouts": {"implicit": DEADLINE.as_millis(), "script": DEADLINE.as_millis()},
        }}});
        let base = format!("http://127.0.0.1:{port}/session");
        let made = answer(http.post(&base).json(&wanted)).await;
        let id = made["sessionId"].as_str().unwrap();
        let browser = Self { session: format!("{base}/{id}"), http, driver };
        let on_load =
            json!({"cmd": "Page.addScriptToEvaluateOnNewDocument", "params": {"source": TOLD}});
        browser.post("goog/cdp/execute", on_load).await;
        Some(browser)
    }

    /// Ends the browser in good order, so that it leaves no process behind.
    pub(crate) async fn close(self) {
        answer(self.http.delete(&self.session)).await;
    }

    /// Loads an address, also one that differs from the present one in its fragment only.
    pub(crate) async fn open(&self, url: &str) {
        self.post("url", json!({"url": "about:blank"})).await;
        self.post("url", json!({"url": url})).await;
    }

    /// Opens a further tab, and goes there. Returns the one before.
    pub(crate) async fn new_tab(&self) -> String {
        let before = answer(self.http.get(format!("{}/window", self.session))).await;
        let made = self.post("window/new", json!({"type": "tab"})).await;
        self.to_tab(made["handle"].as_str().unwrap()).await;
        before.as_str().unwrap().to_owned()
    }

    /// Goes to another tab. Returns the one before.
    pub(crate) async fn to_tab(&self, tab: &str) -> String {
        let before = answer(self.http.get(format!("{}/window", self.session))).await;
        self.post("window", json!({"handle": tab})).await;
        before.as_str().unwrap().to_owned()
    }

    /// Presses the mouse on an element, moves it by so much, and lets go.
    pub(crate) async fn drag(&self, selector: &str, across: i32, down: i32) {
        let id = self.find(selector).await;
        let origin = json!({"element-6066-11e4-a52e-4f735466cecf": id});
        let moves = [
            json!({"type": "pointerMove", "origin": origin, "x": 0, "y": 0}),
            json!({"type": "pointerDown", "button": 0}),
            json!({"type": "pointerMove", "origin": "pointer", "x": across, "y": down}),
            json!({"type": "pointerUp", "button": 0}),
        ];
        let source = json!({"type": "pointer", "id": "mouse", "actions": moves});
        self.post("actions", json!({"actions": [source]})).await;
    }

    pub(crate) async fn reload(&self) {
        self.post("refresh", json!({})).await;
    }

    pub(crate) async fn forget_cookies(&self) {
        answer(self.http.delete(format!("{}/cookie", self.session))).await;
    }

    /// The value of an expression in the page.
    pub(crate) async fn value(&self, expression: &str) -> Value {
        self.run(&format!("return ({expression})")).await
    }

    pub(crate) async fn run(&self, script: &str) -> Value {
        self.post("execute/sync", json!({"script": script, "args": []})).await
    }

    /// The text of an element. What fades in has none until it can be seen, which is waited for.
    pub(crate) async fn text(&self, selector: &str) -> String {
        let began = Instant::now();
        loop {
            let id = self.find(selector).await;
            let text = answer(self.http.get(format!("{}/element/{id}/text", self.session))).await;
            let text = text.as_str().unwrap();
            if !text.is_empty() || began.elapsed() > DEADLINE {
                return text.to_owned();
            }
            rest(began).await;
        }
    }

    /// Waits until an expression in the page is true.
    pub(crate) async fn until(&self, expression: &str) {
        let began = Instant::now();
        // What it looks at may not be there yet.
        let tried = format!(
            "(() => {{ try {{ return Boolean({expression}) }} catch (error) {{ return String(error) }} }})()"
        );
        loop {
            let found = self.value(&tried).await;
            if found == Value::Bool(true) {
                return;
            }
            if began.elapsed() > DEADLINE {
                let page = self.value("document.body.innerText").await;
                let page = page.as_str().unwrap_or("");
                panic!("never true: {expression}\nit is {found}; the page says:\n{page}");
            }
            rest(began).await;
        }
    }

    /// Types into an element, as a person would.
    pub(crate) async fn keys(&self, selector: &str, text: &str) {
        let id = self.find(selector).await;
        self.post(&format!("element/{id}/value"), json!({"text": text})).await;
    }

    /// Presses keys together, wherever the focus is.
    pub(crate) async fn press(&self, keys: &[&str]) {
        let down = keys.iter().map(|key| json!({"type": "keyDown", "value": key}));
        let up = keys.iter().rev();
        let up = up.map(|key| json!({"type": "keyUp", "value": key}));
        let keys: Vec<Value> = down.chain(up).collect();
        let source = json!({"type": "key", "id": "keyboard", "actions": keys});
        self.post("actions", json!({"actions": [source]})).await;
    }

    /// Types wherever the focus is.
    pub(crate) async fn write(&self, text: &str) {
        let strokes = text.chars().flat_map(|letter| {
            let letter = letter.to_string();
            [json!({"type": "keyDown", "value": letter}), json!({"type": "keyUp", "value": letter})]
        });
        let strokes: Vec<Value> = strokes.collect();
        let source = json!({"type": "key", "id": "keyboard", "actions": strokes});
        self.post("actions", json!({"actions": [source]})).await;
    }

    /// Clicks where an element is, once it no longer moves: nobody hits what does.
    pub(crate) async fn click(&self, selector: &str) {
        let id = self.find(selector).await;
        let script = "const [element, done] = arguments; let last; const look = () => { \
                      const {x, y} = element.getBoundingClientRect(); \
                      if (last === `${x} ${y}`) done(); \
                      else { last = `${x} ${y}`; requestAnimationFrame(look); } }; look();";
        let element = json!({"element-6066-11e4-a52e-4f735466cecf": id});
        self.post("execute/async", json!({"script": script, "args": [element]})).await;
        self.post(&format!("element/{id}/click"), json!({})).await;
    }

    /// Clicks on what an expression in the page finds, as soon as it finds something.
    pub(crate) async fn click_on(&self, expression: &str) {
        self.until(expression).await;
        let found = self.value(expression).await;
        let id = found.as_object().unwrap().values().next().unwrap();
        let id = id.as_str().unwrap();
        self.post(&format!("element/{id}/click"), json!({})).await;
    }

    /// Writes into a field in place of what is there.
    pub(crate) async fn fill(&self, selector: &str, text: &str) {
        self.until(&format!("document.querySelector({})", json!(selector))).await;
        let id = self.find(selector).await;
        self.post(&format!("element/{id}/clear"), json!({})).await;
        self.keys(selector, text).await;
    }

    /// Takes an option of a list.
    pub(crate) async fn choose(&self, selector: &str, value: &str) {
        let option = format!("{selector} option[value={}]", json!(value));
        self.until(&format!("document.querySelector({})", json!(option))).await;
        self.click(&option).await;
    }

    /// Points with a finger instead of a mouse, on a screen of this size.
    pub(crate) async fn touch(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": true});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
        let touch = json!({"enabled": true, "maxTouchPoints": 1});
        self.devtools("Emulation.setTouchEmulationEnabled", touch).await;
    }

    pub(crate) async fn resize(&self, width: u32, height: u32) {
        let size =
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// What the system prefers: `light` or `dark`.
    pub(crate) async fn prefer(&self, colours: &str) {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": colours}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    /// The system asks for less motion.
    pub(crate) async fn prefer_stillness(&self) {
        let features = json!({"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    pub(crate) async fn unplug(&self, unplugged: bool) {
        self.devtools("Network.enable", json!({})).await;
        let conditions = json!({"offline": unplugged, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1});
        self.devtools("Network.emulateNetworkConditions", conditions).await;
    }

    /// A PNG, in base64.
    pub(crate) async fn screenshot(&self) -> String {
        let image = answer(self.http.get(format!("{}/screenshot", self.session))).await;
        image.as_str().unwrap().to_owned()
    }

    /// What the console holds against the page since the last call.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let entries = self.post("se/log", json!({"type": "browser"})).await;
        let entries = entries.as_array().unwrap().iter();
        entries
            .filter(|entry| entry["level"] == "SEVERE" || entry["level"] == "WARNING")
            .map(|entry| entry["message"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What went over the network of one that is traced, since the last call: events with their parameters.
    pub(crate) async fn trace(&self) -> Vec<(String, Value)> {
        let entries = self.post("se/log", json!({"type": "performance"})).await;
        let entries = entries.as_array().unwrap().iter();
        let entries = entries.map(|entry| {
            let text = entry["message"].as_str().unwrap();
            let mut told: Value = serde_json::from_str(text).unwrap();
            let method = told["message"]["method"].as_str().unwrap().to_owned();
            (method, told["message"]["params"].take())
        });
        entries.collect()
    }

    /// Runs a script that calls `done` with its result.
    pub(crate) async fn wait_for(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1]; {script}");
        self.post("execute/async", json!({"script": script, "args": []})).await
    }

    async fn find(&self, selector: &str) -> String {
        let wanted = json!({"using": "css selector", "value": selector});
        let found = self.post("element", wanted).await;
        let id = found.as_object().unwrap().values().next().unwrap();
        id.as_str().unwrap().to_owned()
    }

    async fn devtools(&self, command: &str, parameters: Value) {
        let body = json!({"cmd": command, "params": parameters});
        self.post("goog/cdp/execute", body).await;
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        answer(self.http.post(format!("{}/{path}", self.session)).json(&body)).await
    }
}

/// `./tests/run quick` does without what has to be downloaded.
pub(crate) fn is_quick() -> bool {
    std::env::var("HIVEWRIGHT_TESTS").is_ok_and(|value| value == "quick")
}

/// A driver, and its port. It takes a free port of IPv4 and the same of IPv6, and ends where somebody has the latter.
async fn start_driver() -> Option<(Child, u16)> {
    for _ in 0..5 {
        let mut driver = match Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
        {
            Ok(driver) => driver,
            Err(error) if error.kind() == ErrorKind::NotFound && is_quick() => {
                println!("skipped: no chromedriver in PATH");
                return None;
            }
            Err(error) => panic!(
                "chromedriver cannot be started (HIVEWRIGHT_TESTS=quick does without): {error}"
            ),
        };
        if let Some(port) = tokio::time::timeout(DEADLINE, port_of(&mut driver)).await.unwrap() {
            return Some((driver, port));
        }
    }
    panic!("chromedriver ended five times without saying its port");
}

/// The port that a driver says it has; `None` where it ended before.
async fn port_of(driver: &mut Child) -> Option<u16> {
    let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, rest)) = line.split_once("started successfully on port ") {
            return Some(rest.trim_end_matches('.').parse().unwrap());
        }
    }
    None
}

async fn answer(request: reqwest::RequestBuilder) -> Value {
    let mut body: Value = request.send().await.unwrap().json().await.unwrap();
    let value = body["value"].take();
    assert_eq!(value["error"], Value::Null, "{}", value["message"]);
    value
}

/// Neither browser nor driver outlives a test that fails.
#[tokio::test]
async fn a_browser_ends_with_whoever_panics() {
    let Some(browser) = Browser::start().await else { return };
    let argument = browser.driver.argument();
    let before = started_with(&argument).len();

    let failed: tokio::task::JoinHandle<()> = tokio::spawn(async move {
        let _browser = browser;
        panic!("on purpose");
    });

    assert!(failed.await.is_err() && before > 0, "{before}");
    assert_eq!(started_with(&argument), [] as [u32; 0]);
}
