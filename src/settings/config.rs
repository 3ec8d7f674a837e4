//! `config/config.yaml`: how the service runs.

use std::{
    net::{IpAddr, Ipv4Addr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{org::tree::Limits, policy::rule::Rule, retention::terms::Terms};

use serde_json::{Value as Json, json};

use super::{
    error::StartError,
    field::Field,
    network::{Network, Origin},
    policy,
    problem::{Problem, Problems},
    reader::{Document, Section},
    shown::{Shown, Size, word_of},
    tool_groups,
    zone::Zone,
};

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Where the operator's days begin and schedules run; none is the machine's `TZ`.
    pub timezone: Option<Zone>,
    /// What is logged.
    pub log: Log,
    /// Where the service listens.
    pub server: Server,
    /// How data is kept.
    pub store: Store,
    /// What runs at once.
    pub runtime: Runtime,
    /// How many teams there may be.
    pub limits: Limits,
    /// What they may keep on the disk.
    pub disk: Disk,
    /// How long work may take.
    pub tasks: Tasks,
    /// What new teams are given.
    pub defaults: Defaults,
    /// How long a decision is waited for.
    pub approvals: Approvals,
    /// What teams may do, must not, or must ask for.
    pub policy: Arc<Vec<Rule>>,
    /// What tools may use.
    pub sandbox: Sandbox,
    /// How long things are kept.
    pub retention: Terms,
    /// Where backups go.
    pub backup: Backup,
}

/// The shortest and the longest that anything is kept.
const KEPT: RangeInclusive<Duration> =
    Duration::from_secs(24 * 60 * 60)..=Duration::from_secs(3650 * 24 * 60 * 60);

/// The shortest and the longest wait for a decision.
const SHORTEST_TTL: Duration = Duration::from_secs(60);
const LONGEST_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// How long a decision is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Approvals {
    /// No decision after this is a denial.
    pub ttl: Duration,
}

impl Default for Approvals {
    fn default() -> Self {
        Self { ttl: Duration::from_secs(24 * 60 * 60) }
    }
}

/// What is logged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Log {
    /// The least important lines that are written.
    pub level: Level,
}

/// How important a log line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Every step.
    Trace,
    /// What a developer asks.
    Debug,
    /// What happens.
    #[default]
    Info,
    /// What should not happen.
    Warn,
    /// What failed.
    Error,
}

impl Level {
    /// As filters write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

const LEVELS: [(&str, Level); 5] = [
    ("trace", Level::Trace),
    ("debug", Level::Debug),
    ("info", Level::Info),
    ("warn", Level::Warn),
    ("error", Level::Error),
];

impl Shown for Level {
    fn shown(&self) -> Json {
        word_of(&LEVELS, self)
    }
}

/// Where the service listens.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// The address.
    pub bind: IpAddr,
    /// The port; 0 is any free one.
    pub port: u16,
    /// Under which browsers reach the server.
    pub public_url: Option<Origin>,
    /// How connections are encrypted.
    pub tls: Option<Tls>,
    /// Who ends TLS in front of us, and so may say who the client is.
    pub trusted_proxies: Vec<Network>,
    /// Whose pages may talk to us, beside our own.
    pub allowed_origins: Vec<Origin>,
}

/// A certificate with its key, as PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate chain.
    pub cert: PathBuf,
    /// The private key.
    pub key: PathBuf,
}

impl Default for Server {
    fn default() -> Self {
        Self {
            bind: Ipv4Addr::LOCALHOST.into(),
            port: 8080,
            public_url: None,
            tls: None,
            trusted_proxies: Vec::new(),
            allowed_origins: Vec::new(),
        }
    }
}

impl Server {
    /// Refuses to be open to the network without encryption. To be asked after flags were applied.
    pub fn check_exposure(&self) -> Result<(), StartError> {
        let loopback = self.bind.to_canonical().is_loopback();
        if loopback || self.tls.is_some() || !self.trusted_proxies.is_empty() {
            Ok(())
        } else {
            Err(StartError::Exposed { bind: self.bind })
        }
    }
}

/// How data is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Store {
    /// What acknowledged work survives.
    pub durability: Durability,
}

/// What acknowledged work survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    #[default]
    Power,
    /// A killed process, not a power cut.
    Process,
}

const DURABILITIES: [(&str, Durability); 2] =
    [("power", Durability::Power), ("process", Durability::Process)];

impl Shown for Durability {
    fn shown(&self) -> Json {
        word_of(&DURABILITIES, self)
    }
}

/// What runs at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Runtime {
    /// Turns of all teams together.
    pub max_running_turns: usize,
}

impl Default for Runtime {
    fn default() -> Self {
        Self { max_running_turns: 256 }
    }
}

/// What new teams are given.
#[derive(Clone, Debug, PartialEq)]
pub struct Defaults {
    /// What answers for them.
    pub sdk: Sdk,
    /// Patterns of the tools that they get.
    pub allowed_tools: Vec<String>,
    /// Patterns of the tools that they may be given without asking a person.
    pub grantable_tools: Vec<String>,
}

/// What answers for a team.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sdk {
    /// The models of `providers.yaml`, with our own tool loop.
    #[default]
    Native,
}

const SDKS: [(&str, Sdk); 1] = [("native", Sdk::Native)];

impl Shown for Sdk {
    fn shown(&self) -> Json {
        word_of(&SDKS, self)
    }
}

/// The tools of a team that was given no others.
const SPAWNED: [&str; 8] =
    ["@files", "@shell", "@org", "@triggers", "@memory", "@vault", "@skills", "@subagents"];

impl Default for Defaults {
    fn default() -> Self {
        let tools = SPAWNED.map(ToOwned::to_owned).to_vec();
        Self { sdk: Sdk::Native, allowed_tools: tools.clone(), grantable_tools: tools }
    }
}

/// How long work may take.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// One turn; a team may set its own.
    pub turn_timeout: Duration,
    /// One turn without any sign of life.
    pub idle_timeout: Duration,
}

impl Default for Tasks {
    fn default() -> Self {
        Self {
            turn_timeout: Duration::from_secs(30 * 60),
            idle_timeout: Duration::from_secs(5 * 60),
        }
    }
}

/// What tools may use.
#[derive(Clone, Debug, PartialEq)]
pub struct Sandbox {
    /// Memory of one tool and all its children, in bytes.
    pub memory: u64,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self { memory: 1 << 30 }
    }
}

/// What teams may keep on the disk: `limits` too, in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of one workspace.
    pub workspace: u64,
    /// With fewer bytes free no new work is taken in. No team may take them.
    pub free_space: u64,
}

impl Default for Disk {
    fn default() -> Self {
        Self { workspace: 2 << 30, free_space: 256 << 20 }
    }
}

/// The shortest and the longest time between two backups that the service makes by itself.
const APART: RangeInclusive<Duration> =
    Duration::from_secs(60 * 60)..=Duration::from_secs(365 * 24 * 60 * 60);

/// When backups are made, and where they go.
#[derive(Clone, Debug, PartialEq)]
pub struct Backup {
    /// None makes none by itself.
    pub every: Option<Duration>,
    /// None is `backups/` in the run dir.
    pub dir: Option<PathBuf>,
}

impl Default for Backup {
    fn default() -> Self {
        Self { every: Some(Duration::from_secs(24 * 60 * 60)), dir: None }
    }
}

/// The shortest duration that is not nothing.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);
/// The longest that a turn may be given.
pub(crate) const LONGEST_TURN: Duration = Duration::from_secs(6 * 60 * 60);

/// Reads the file. Relative paths in it begin at `folder`.
pub(crate) fn read(
    text: &str,
    document: Document,
    folder: &Path,
) -> Result<(Config, Vec<Problem>), Problems> {
    let config = document.read(text, |root| {
        for key in MISSING {
            root.retired(key, NOT_HERE);
        }
        read_root(root, folder)
    });
    document.finish(config)
}

/// What counts where the file says nothing.
pub(super) fn defaults(text: &str, folder: &Path) -> Vec<(String, Json)> {
    let document = Document::plain("");
    document.read(text, |root| read_root(root, folder));
    document.into_defaults()
}

/// Sections that other versions have.
const MISSING: [&str; 5] = ["sessions", "browser", "skill_repository", "engines", "plugins"];
const NOT_HERE: &str = "this version does not have what it sets; leave it out";

fn read_root(root: &mut Section<'_>, folder: &Path) -> Config {
    let (limits, disk) = root.section("limits", |limits| {
        let (count, space) = (Limits::default(), Disk::default());
        let count = Limits {
            children: limits
                .setting("max_children", count.children, |field| field.integer(1..=100)),
            teams: limits.setting("max_teams", count.teams, |field| field.integer(1..=10_000)),
        };
        let mut size = |name, default, least: u64| {
            let sized = limits
                .setting(name, Size(default), |field| field.size(least..=1024 << 30).map(Size));
            sized.0
        };
        let space = Disk {
            workspace: size("workspace", space.workspace, 1 << 20),
            free_space: size("free_space", space.free_space, 16 << 20),
        };
        (count, space)
    });
    Config {
        timezone: root.maybe("timezone", |field| field.parse(Zone::parse)),
        log: root.section("log", |log| Log {
            level: log.setting("level", Level::default(), |field| field.choice(&LEVELS)),
        }),
        server: root.section("server", |server| read_server(server, folder)),
        store: root.section("store", |store| {
            store.retired("jetstream", "this version keeps its data in sled; leave it out");
            store.maybe("backend", |field| {
                field.parse(|text| match text {
                    "sled" => Ok(()),
                    _ => Err("this version keeps its data in sled: expected `sled`"),
                })
            });
            Store {
                durability: store.setting("durability", Durability::default(), |field| {
                    field.choice(&DURABILITIES)
                }),
            }
        }),
        runtime: root.section("runtime", |runtime| Runtime {
            max_running_turns: runtime.setting(
                "max_running_turns",
                Runtime::default().max_running_turns,
                |field| field.integer(1..=10_000),
            ),
        }),
        limits,
        disk,
        defaults: root.section("defaults", read_defaults),
        tasks: root.section("tasks", |tasks| {
            let default = Tasks::default();
            Tasks {
                turn_timeout: tasks.setting("turn_timeout", default.turn_timeout, |field| {
                    field.duration(SHORTEST..=LONGEST_TURN)
                }),
                idle_timeout: tasks.setting("idle_timeout", default.idle_timeout, |field| {
                    field.duration(SHORTEST..=LONGEST_TURN)
                }),
            }
        }),
        approvals: root.section("approvals", |approvals| Approvals {
            ttl: approvals.setting("ttl", Approvals::default().ttl, |field| {
                field.duration(SHORTEST_TTL..=LONGEST_TTL)
            }),
        }),
        policy: {
            root.default_is("policy", json!([]));
            Arc::new(root.get("policy", Vec::new(), |field| policy::read(&field)))
        },
        sandbox: root.section("sandbox", |sandbox| {
            sandbox.retired("network_form", NOT_HERE);
            let memory = sandbox.setting("memory", Size(Sandbox::default().memory), |field| {
                field.size(16 << 20..=1024 << 30).map(Size)
            });
            Sandbox { memory: memory.0 }
        }),
        retention: root.section("retention", |retention| {
            let default = Terms::default();
            Terms {
                tasks: retention.setting("tasks", default.tasks, |field| field.duration(KEPT)),
                audit: retention.setting("audit", default.audit, |field| field.duration(KEPT)),
            }
        }),
        backup: root.section("backup", |backup| {
            let every = backup.setting("every", Backup::default().every, |field| {
                match field.duration(Duration::ZERO..=*APART.end())? {
                    Duration::ZERO => Some(None),
                    _ => field.duration(APART).map(Some),
                }
            });
            Backup { every, dir: path(backup, "dir", folder) }
        }),
    }
}

impl Config {
    /// Fields that differ and that a running service does not take up.
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        let (one, two) = (&self.server, &other.server);
        let fields = [
            ("server.bind", one.bind != two.bind),
            ("server.port", one.port != two.port),
            ("server.tls", one.tls != two.tls),
            ("server.trusted_proxies", one.trusted_proxies != two.trusted_proxies),
            ("store.durability", self.store != other.store),
        ];
        let differ = fields.into_iter().filter(|(_, differs)| *differs);
        differ.map(|(field, _)| field).collect()
    }
}

fn read_defaults(defaults: &mut Section<'_>) -> Defaults {
    let default = Defaults::default();
    let sdk = defaults.setting("sdk", default.sdk, |field| field.choice(&SDKS));
    let allowed_tools = defaults.setting("allowed_tools", default.allowed_tools, read_tools);
    Defaults {
        sdk,
        // Whoever narrows what teams get does not mean to leave the rest to be had for the asking.
        grantable_tools: defaults.setting("grantable_tools", allowed_tools.clone(), read_tools),
        allowed_tools,
    }
}

/// Patterns of tools.
pub(super) fn read_tools(field: Field<'_>) -> Option<Vec<String>> {
    field.list(|item| {
        let pattern = item.parse(|text| tool_groups::check(text).map(|()| text.to_owned()))?;
        if let Some(group) = tool_groups::future(&pattern) {
            item.warn(format!("`{group}` has no tools yet, and gives nothing"));
        }
        Some(pattern)
    })
}

fn read_server(server: &mut Section<'_>, folder: &Path) -> Server {
    let default = Server::default();
    for list in ["trusted_proxies", "allowed_origins"] {
        server.default_is(list, json!([]));
    }
    Server {
        bind: server.setting("bind", default.bind, |field| {
            field.parse(|text| text.parse().map_err(|_| "expected an IP address"))
        }),
        port: server.setting("port", default.port, |field| field.integer(0..=65_535)),
        public_url: server.maybe("public_url", |field| field.parse(str::parse)),
        tls: server.section("tls", |tls| read_tls(tls, folder)),
        trusted_proxies: server
            .get("trusted_proxies", Vec::new(), |field| field.list(|item| item.parse(str::parse))),
        allowed_origins: server
            .get("allowed_origins", Vec::new(), |field| field.list(|item| item.parse(str::parse))),
    }
}

fn read_tls(tls: &mut Section<'_>, folder: &Path) -> Option<Tls> {
    if tls.field("cert").is_some() != tls.field("key").is_some() {
        tls.reject("`cert` and `key` belong together; give both or none");
    }
    let (cert, key) = (path(tls, "cert", folder), path(tls, "key", folder));
    Some(Tls { cert: cert?, key: key? })
}

fn path(section: &mut Section<'_>, key: &'static str, folder: &Path) -> Option<PathBuf> {
    section.maybe(key, |field| {
        field.parse(|text| match text {
            "" => Err("expected a path"),
            _ => Ok(folder.join(text)),
        })
    })
}
