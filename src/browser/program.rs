//! The browser program: where it is, and how it is started in the sandbox.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::sandbox::process::{
    SYSTEM_FOLDERS, Sandbox, SandboxError,
    agent::{Agent, AgentJob},
    layout::PORT,
    plan::Executable,
};

/// What it is called, the first that is found counts.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// What it reads beside its own files and those of the system, where that is.
const READ: [&str; 5] =
    ["/etc/chromium", "/etc/chromium.d", "/etc/fonts", "/etc/opt/chrome", "/var/cache/fontconfig"];
/// Processes and threads at once: each site that is open has some tens.
const PROCESSES: u64 = 1_024;
/// It talks through descriptors 3 and 4; what it prints is for nobody.
const START: &str = r#"exec 3<&0 4>&1 </dev/null >/dev/null; exec "$0" "$@""#;

/// How it is started. It has no network but through a context with a proxy: what it wants itself leads nowhere.
const ARGUMENTS: [&str; 39] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-startup-window",
    // Its own sandbox needs namespaces of its own, which ours gives nobody. All of it is in ours.
    "--no-sandbox",
    "--user-data-dir=/tmp/profile",
    "--disk-cache-size=104857600",
    "--proxy-server=http://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--deny-permission-prompts",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--in-process-gpu",
    "--window-size=1280,800",
    "--hide-scrollbars",
    "--mute-audio",
    "--force-color-profile=srgb",
    "--password-store=basic",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-pings",
    "--no-service-autorun",
    "--metrics-recording-only",
    "--disable-background-networking",
    "--disable-breakpad",
    "--disable-client-side-phishing-detection",
    "--disable-component-extensions-with-background-pages",
    "--disable-component-update",
    "--disable-crash-reporter",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-extensions",
    "--disable-hang-monitor",
    "--disable-infobars",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    // Frames of other sites are in the process of their page, where they are seen and acted on as part of it. An address
    // is taken as it is given. Who goes back loads again. What pops up for addresses that are typed is a process with pages
    // of its own, which takes more time and memory than the page.
    "--disable-features=IsolateOrigins,site-per-process,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable,\
     BackForwardCache,Translate,MediaRouter,OptimizationHints,AutofillServerCommunication,InterestFeedContentSuggestions,\
     WebUIOmniboxPopup,WebUIOmniboxAimPopup",
];

/// A browser that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed(PathBuf);

impl Installed {
    /// Looks where programs are. Blocks.
    pub fn find() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
        let mut places = NAMES
            .iter()
            .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
            .filter_map(|place| place.canonicalize().ok());
        places.find(|place| place.is_file()).map(Self)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Starts it, with nothing but its standard streams and one port.
    pub(super) async fn start(&self, sandbox: &Sandbox) -> Result<Agent, SandboxError> {
        let is_outside =
            |path: &&Path| !SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder));
        let own = self.0.parent().filter(is_outside).map(Path::to_owned);
        let read = READ.iter().map(PathBuf::from).filter(|path| path.exists());
        let arguments = [START, &self.0.to_string_lossy()].map(str::to_owned).into_iter();
        let arguments = std::iter::once("-c".to_owned()).chain(arguments);
        let program = Executable {
            command: "/bin/sh".into(),
            args: arguments.chain(ARGUMENTS.map(str::to_owned)).collect(),
            shown: read.chain(own).collect(),
        };
        let job = AgentJob {
            program,
            path: Vec::new(),
            env: BTreeMap::new(),
            files: Vec::new(),
            processes: PROCESSES,
        };
        sandbox.start(job).await
    }
}

/// Where its context finds the proxy.
pub(super) fn proxy() -> String {
    format!("http://127.0.0.1:{PORT}")
}
