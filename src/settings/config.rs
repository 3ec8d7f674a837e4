//! `config/config.yaml`: how the service runs.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hivewright_actors::{
    org::tree, policy::rule::Rule, retention::terms::Terms, text::Size, words,
};

use super::{
    declare::settings,
    document::{Cure, Document},
    error::StartError,
    field::Field,
    home::Home,
    network::{Network, Origin},
    problem::{Problem, Problems},
    reader::{Group, Section},
    setting::{Interval, SHORTEST, Setting, choices},
    tool_groups,
    zone::Zone,
};

pub(crate) const LONGEST_TURN: Duration = hours(6);

pub(super) const DAY: Duration = hours(24);
const KEPT: RangeInclusive<Duration> = DAY..=hours(24 * 3650);

const fn mib(count: u64) -> Size {
    Size(count << 20)
}

const fn gib(count: u64) -> Size {
    Size(count << 30)
}

const fn hours(count: u64) -> Duration {
    Duration::from_secs(count * 60 * 60)
}

const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

settings! {
    /// How the service runs. Every setting is optional; what is written here is the default.
    ///
    /// Durations: 250ms, 90s, 30m, 6h, 7d. Sizes: 512B, 64KiB, 256MiB, 1GiB.
    ///
    /// Text may hold ${env:NAME} and ${file:PATH}; write $${ for a plain ${.
    ///
    /// Relative paths begin at the data dir. A change counts at once, unless a comment says when.
    #[retired(RETIRED)]
    pub struct Config {
        /// The time zone of schedules and of the days that budgets count, by its IANA name. Without it the
        /// variable TZ counts, else UTC.
        #[example("Europe/Berlin")]
        timezone: Option<Zone> = None,
        log: Log,
        server: Server,
        approvals: Approvals,
        /// Rules for what teams do, beside those of `hivewright policy`. Deny wins over approval, approval
        /// over allow; where some calls are allowed by rules, others of their kind are not.
        #[example(POLICY_EXAMPLE)]
        #[counts(NextTurn)]
        policy: Arc<Vec<Rule>> = Arc::default(),
        store: Store,
        runtime: Runtime,
        limits: Limits,
        defaults: Defaults,
        tasks: Tasks,
        sessions: Sessions,
        sandbox: Sandbox,
        engines: Engines,
        plugins: Plugins,
        retention: Terms,
        backup: Backup,
    }

    pub struct Log {
        /// The least important lines that are written.
        level: Level = Level::Info,
    }

    /// Where the service listens.
    pub struct Server {
        /// The address. Beyond this machine (not 127.0.0.1 or ::1) either `tls` or `trusted_proxies` is needed.
        #[counts(NextStart)]
        bind: IpAddr = Ipv4Addr::LOCALHOST.into(),
        /// The port; 0 is any free one, which is then printed.
        #[range(0..=65_535)]
        #[counts(NextStart)]
        port: u16 = 8080,
        /// The origin under which browsers reach the server.
        #[example("https://hive.example.org")]
        public_url: Option<Origin> = None,
        /// A certificate with its key, as PEM files. A renewed file is read by itself.
        #[example("\n  cert: tls/cert.pem\n  key: tls/key.pem")]
        #[counts(NextStart)]
        tls: Option<Tls> = None,
        /// Address ranges of proxies that end TLS. Only they may say who the client is.
        #[counts(NextStart)]
        trusted_proxies: Vec<Network> = Vec::new(),
        /// Other origins whose pages may talk to the server.
        allowed_origins: Vec<Origin> = Vec::new(),
    }

    #[derive(Copy, Eq)]
    pub struct Approvals {
        /// No decision after this is a denial.
        #[range(minutes(1)..=30 * DAY)]
        ttl: Duration = DAY,
    }

    /// How data is kept.
    #[retired([("jetstream", Cure::Remove, "this version keeps its data in sled; leave it out")])]
    #[check(Store::accept_backend)]
    pub struct Store {
        /// What acknowledged work survives: a power cut, or a killed process only.
        #[counts(NextStart)]
        durability: Durability = Durability::Power,
    }

    pub struct Runtime {
        /// Turns of all teams at once.
        #[range(1..=10_000)]
        max_running_turns: usize = 256,
    }

    /// How many teams there may be, and what they may keep on the disk.
    pub struct Limits {
        /// Children of one team.
        #[range(1..=100)]
        max_children: usize = tree::Limits::default().children,
        /// Teams in all.
        #[range(1..=10_000)]
        max_teams: usize = tree::Limits::default().teams,
        /// What one workspace may hold.
        #[range(mib(1)..=gib(1024))]
        workspace: Size = gib(2),
        /// One file that a person attaches or a team sends.
        #[range(mib(1)..=gib(1))]
        file: Size = mib(25),
        /// All files that one person attached, or that one team sent, as long as they are kept.
        #[range(mib(1)..=gib(1024))]
        files: Size = gib(1),
        /// With less than this free on the disk no new work is taken in (`disk_full`), and no team may take
        /// it. At twice as much you are warned.
        #[range(mib(16)..=gib(1024))]
        free_space: Size = mib(256),
    }

    /// What new teams are given.
    pub struct Defaults {
        /// What answers for new teams.
        sdk: Sdk = Sdk::Native,
        /// The tools that a new team gets.
        #[read(read_tools)]
        allowed_tools: Vec<String> = TEAM_TOOLS.map(ToOwned::to_owned).to_vec(),
        /// The tools that the main team may give it without asking you; otherwise `allowed_tools`.
        // Whoever narrows what teams get does not mean to leave the rest to be had for the asking.
        #[read(read_tools)]
        grantable_tools: Vec<String> = allowed_tools.clone(),
    }

    /// How long work may take.
    pub struct Tasks {
        /// The longest turn. A team may set its own.
        #[range(SHORTEST..=LONGEST_TURN)]
        turn_timeout: Duration = minutes(30),
        /// The longest a turn may stand still before it is tried again.
        #[range(SHORTEST..=LONGEST_TURN)]
        idle_timeout: Duration = minutes(5),
    }

    /// Conversations and their history.
    pub struct Sessions {
        /// A conversation in which nothing was said for this long is over: the next message begins a new one, in which
        /// the model is not shown what was said before.
        #[range(minutes(1)..=365 * DAY)]
        #[counts(NextTurn)]
        idle: Interval = Interval(Some(hours(6))),
        /// Whether each session is also written to a file of JSON lines in `history` of the run dir, turn by turn.
        #[counts(NextStart)]
        transcripts: bool = true,
    }

    /// What tools may use.
    #[retired([("network_form", Cure::Remove, NOT_HERE)])]
    pub struct Sandbox {
        /// Memory of one tool with all its children.
        #[range(mib(16)..=gib(1024))]
        memory: Size = gib(1),
    }

    /// Command-line agents that answer for teams whose `sdk` names them.
    pub struct Engines {
        claude: ClaudeSettings,
        codex: CodexSettings,
        pi: PiSettings,
        acp: AcpSettings,
    }

    pub struct ClaudeSettings {
        /// Its program; otherwise one of its name where programs are.
        #[example("/opt/agents/bin/claude")]
        #[counts(NextTurn)]
        binary: Option<PathBuf> = None,
    }

    pub struct CodexSettings {
        /// Its program; otherwise one of its name where programs are.
        #[example("/opt/agents/bin/codex")]
        #[counts(NextTurn)]
        binary: Option<PathBuf> = None,
        /// How it is spoken to.
        #[counts(NextTurn)]
        mode: CodexMode = CodexMode::AppServer,
    }

    pub struct PiSettings {
        /// Its program; otherwise one of its name where programs are.
        #[example("/opt/agents/bin/pi")]
        #[counts(NextTurn)]
        binary: Option<PathBuf> = None,
        /// How it is spoken to.
        #[counts(NextTurn)]
        mode: PiMode = PiMode::Rpc,
    }

    /// Any agent that speaks the Agent Client Protocol.
    pub struct AcpSettings {
        /// The agent and what it is started with: the name of a program or its whole path, then arguments, such as
        /// `[some-agent, --acp]`. In them `{model}` stands for the model of the team, `{relay}` for the address
        /// where it is asked, and `{token}` for what is a key there.
        #[read(read_command)]
        #[counts(NextTurn)]
        command: Vec<String> = Vec::new(),
        /// Variables for it, such as `{AGENT_URL: "{relay}/v1"}`, beside those of Anthropic and OpenAI, which it
        /// has. A key is not needed here, nor of use.
        #[counts(NextTurn)]
        env: BTreeMap<String, String> = BTreeMap::new(),
    }

    /// Where plugins come from.
    pub struct Plugins {
        /// Folders of plugins that are worked on, beside those that are installed: each is a plugin, or holds some.
        /// Their files may change as they like, and nobody is asked.
        paths: Vec<PathBuf> = Vec::new(),
        /// What is asked of the signatures of installed plugins: nothing, that they are looked at, or that a key in
        /// `plugins/keys` of the data dir has signed each one that is loaded.
        signatures: Signatures = Signatures::Warn,
    }

    /// When backups are made, and where they go.
    pub struct Backup {
        /// How often the service makes one by itself.
        #[range(hours(1)..=365 * DAY)]
        every: Interval = Interval(Some(DAY)),
        /// Where backups go; otherwise `backups` in the run dir.
        #[example("/var/backups/hivewright")]
        dir: Option<PathBuf> = None,
    }
}

settings! {
    for Terms {
        /// How long finished tasks, runs of triggers, the journals of what has ended and unused channels
        /// with their topics are kept. What is older goes every night.
        #[range(KEPT)]
        #[counts(NextNight)]
        tasks: Duration = Terms::default().tasks,
        /// How long lines of audits are kept.
        #[range(KEPT)]
        #[counts(NextNight)]
        audit: Duration = Terms::default().audit,
    }
}

words! {
    /// How important a log line is.
    #[schemars(rename = "LogLevel")]
    pub enum Level {
        Trace = "trace",
        Debug = "debug",
        Info = "info",
        Warn = "warn",
        Error = "error",
    }
}

words! {
    /// What acknowledged work survives.
    pub enum Durability {
        Power = "power",
        /// A killed process, not a power cut.
        Process = "process",
    }
}

words! {
    /// What is asked of the signatures of plugins.
    #[derive(Default)]
    pub enum Signatures {
        Off = "off",
        #[default]
        Warn = "warn",
        Require = "require",
    }
}

words! {
    /// What answers for a team.
    pub enum Sdk {
        /// The models of `providers.yaml`, with our own tool loop.
        Native = "native",
        /// Claude Code, by its command line.
        Claude = "claude",
        /// Codex, by its command line.
        Codex = "codex",
        /// Pi, by its command line.
        Pi = "pi",
        /// The agent of `engines.acp`, by the Agent Client Protocol.
        Acp = "acp",
    }
}

words! {
    /// How Codex is spoken to.
    pub enum CodexMode {
        /// By requests: it can be told more while it works.
        AppServer = "app-server",
        /// By one prompt.
        Exec = "exec",
    }
}

words! {
    /// How Pi is spoken to.
    pub enum PiMode {
        /// By commands: it can be told more while it works.
        Rpc = "rpc",
        /// By one prompt.
        Json = "json",
    }
}

choices!(Level, Durability, Signatures, Sdk, CodexMode, PiMode);

/// The tools of a team that was given no others.
pub(crate) const TEAM_TOOLS: [&str; 9] =
    ["@files", "@shell", "@web", "@org", "@triggers", "@memory", "@vault", "@skills", "@subagents"];

/// Sections that other versions have.
const RETIRED: [(&str, Cure, &str); 2] = [
    ("browser", Cure::Remove, NOT_HERE),
    ("skill_repository", Cure::ByHand, "it is the address in `config/providers.yaml` now"),
];
const NOT_HERE: &str = "this version does not have what it sets; leave it out";

const POLICY_EXAMPLE: &str = "
 - id: ask-before-push
   effect: require_approval          # or allow, deny
   resource: \"exec:git push\"         # tool: class: file: exec: host: mcp:
   team: \"*\"                         # a name, with wildcards
   principal: any                    # role:operator, user:ws:ann, label:untrusted …
   when: []                          # {pointer: /command, glob: \"*--force*\"} or equals
   risk: normal                      # high: whoever caused the task does not decide
   note: pushes are seen by everyone
   expires_at: 2027-01-31T12:00:00Z";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Setting for Tls {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        field.section(|tls| {
            if tls.field("cert").is_some() != tls.field("key").is_some() {
                tls.reject("`cert` and `key` belong together; give both or none");
            }
            let mut path = |key| tls.maybe(key, |field| PathBuf::read(&field, &()));
            let (cert, key) = (path("cert"), path("key"));
            Some(Self { cert: cert?, key: key? })
        })
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

impl Store {
    /// Other versions have a choice, so a file that names the only one here is right.
    fn accept_backend(self, store: &mut Section<'_>) -> Self {
        store.maybe("backend", |field| {
            field.parse(|text| match text {
                "sled" => Ok(()),
                _ => Err("this version keeps its data in sled: expected `sled`"),
            })
        });
        self
    }
}

impl Engines {
    /// The program of a command-line agent, if it is named.
    pub fn binary(&self, sdk: Sdk) -> Option<&Path> {
        match sdk {
            Sdk::Native => None,
            Sdk::Acp => self.acp.command.first().map(Path::new),
            Sdk::Claude => self.claude.binary.as_deref(),
            Sdk::Codex => self.codex.binary.as_deref(),
            Sdk::Pi => self.pi.binary.as_deref(),
        }
    }
}

impl Limits {
    pub fn tree(&self) -> tree::Limits {
        tree::Limits { children: self.max_children, teams: self.max_teams }
    }
}

impl Config {
    /// Settings that differ and that a running service does not take up.
    pub fn needs_restart(&self, other: &Self) -> Vec<String> {
        let mut found = Vec::new();
        self.add_restarts(other, "", &mut found);
        found
    }
}

pub(crate) fn read(
    text: &str,
    document: Document,
    home: &Home,
) -> Result<(Config, Vec<Problem>), Problems> {
    let document = document.of(home);
    let config = document.read(text, Config::read);
    document.finish(config)
}

fn read_command(field: &Field<'_>) -> Option<Vec<String>> {
    let command = field.list(|item| item.text())?;
    match command.first() {
        Some(program) if program.contains('/') && !program.starts_with('/') => {
            field.reject("expected the name of a program or its whole path, then its arguments")
        }
        _ => Some(command),
    }
}

pub(super) fn read_tools(field: &Field<'_>) -> Option<Vec<String>> {
    field.list(|item| {
        let pattern = item.parse(|text| tool_groups::check(text).map(|()| text.to_owned()))?;
        if let Some(warning) = tool_groups::warning(&pattern) {
            item.warn(warning);
        }
        Some(pattern)
    })
}
