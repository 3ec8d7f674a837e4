//! Ids: one type for each kind of thing, so that a topic can't be passed where a task is meant.
#![warn(missing_docs)]

use std::{
    borrow::Borrow,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::{Deserialize, Serialize};

/// The longest id that someone outside may give, in characters …
const LONGEST_NAMED: usize = 128;
/// … and in bytes: a key of the store may hold two of them, and has a bound.
const MOST_BYTES: usize = 3 * LONGEST_NAMED;

fn is_fit(text: &str) -> bool {
    (1..=MOST_BYTES).contains(&text.len())
        && text.chars().count() <= LONGEST_NAMED
        && !text.chars().any(char::is_control)
}

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(
            Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
        )]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// An id that someone outside gave: 1 to 128 characters in at most 384 bytes, and none that controls.
            pub fn named(text: &str) -> Option<Self> {
                is_fit(text).then(|| text.into())
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    )*};
}

ids! {
    /// A team. `main` is the one that people talk to.
    TeamName;
    /// One place of conversation: a WebSocket channel, later a Discord channel.
    ChannelId;
    /// A thread of conversation within a channel.
    TopicId;
    /// A message of a person, unique in its channel.
    MessageId;
    /// A unit of durable work.
    TaskId;
    /// One grant of a task to one incarnation of a team. A result under an old lease is refused.
    LeaseId;
    /// The work on one leased task, from `turn_start` to `turn_end`.
    TurnId;
    /// A tool call, as the model named it.
    CallId;
    /// Who is authenticated at the other end of a connection.
    PrincipalId;
    /// A credential: not secret, and never used again for another.
    CredentialId;
    /// What somebody is let in by, for all time: a name may be given again, this is not.
    GrantId;
    /// A plugin, by the key of its manifest.
    PluginKey;
    /// A held call, and the decision on it.
    ApprovalId;
    /// A question to the operator.
    QuestionId;
    /// Something that starts work without a person typing.
    TriggerId;
    /// One firing of a trigger.
    RunId;
    /// One version of something a team remembers.
    MemoryId;
    /// Something the operator should know.
    NoticeId;
    /// A file that was handed over.
    FileId;
}

impl TurnId {
    /// The turn that begins under a lease: the row of the leased task names it.
    pub fn of(lease: &LeaseId) -> Self {
        format!("turn-{lease}").into()
    }
}

/// One life of a team. A team that is made anew under an old name has another generation, and so
/// inherits no row.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct TeamKey {
    /// Its name.
    pub name: TeamName,
    /// How often the name was given, from 1.
    pub generation: u32,
}

impl TeamKey {
    /// The first team of a name.
    pub fn first(name: impl Into<TeamName>) -> Self {
        Self { name: name.into(), generation: 1 }
    }

    /// The team of a text as it displays itself.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, generation) = text.rsplit_once('~')?;
        Some(Self { name: name.into(), generation: generation.parse().ok()? })
    }
}

impl fmt::Display for TeamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}~{}", self.name, self.generation)
    }
}

impl ChannelId {
    /// The kind of place that the channel of a former version is, which was not stored with it: what stands
    /// before the colon; a bare number is of Discord.
    pub fn channel_type(&self) -> &str {
        match self.0.split_once(':') {
            Some((kind, _)) => kind,
            None if self.0.bytes().all(|byte| byte.is_ascii_digit()) => "discord",
            None => &self.0,
        }
    }
}

/// The team that people talk to.
pub const MAIN: &str = "main";

/// Where unguessable numbers come from. The edges give the system's source, tests a counted one.
pub trait Entropy: Send + Sync + 'static {
    /// Sixty-four fresh random bits.
    fn bits(&self) -> u64;

    /// A random number from 0 to 1: the jitter of pauses.
    fn fraction(&self) -> f64 {
        self.bits() as f64 / u64::MAX as f64
    }
}

/// Makes the ids of things that are born here.
#[derive(Clone)]
pub struct Ids {
    entropy: Arc<dyn Entropy>,
    /// The last task's number. Tasks of one process are numbered from a random start: rows that are
    /// written one after the other then stand beside each other.
    last_task: Arc<AtomicU64>,
    /// The newest place in the order of acceptance.
    arrivals: Arc<AtomicU64>,
}

impl Ids {
    /// Ids from this source.
    pub fn new(entropy: Arc<dyn Entropy>) -> Self {
        Self {
            last_task: Arc::new(AtomicU64::new(entropy.bits())),
            arrivals: Arc::default(),
            entropy,
        }
    }

    /// A new topic.
    pub fn topic(&self) -> TopicId {
        format!("t-{:016x}", self.entropy.bits()).into()
    }

    /// A new task.
    pub fn task(&self) -> TaskId {
        let number = self.last_task.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        format!("task-{number:016x}").into()
    }

    /// The next place in the order of acceptance.
    pub fn arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// The places up to this one are taken.
    pub fn arrived(&self, newest: u64) {
        self.arrivals.fetch_max(newest, Ordering::Relaxed);
    }

    /// A new lease.
    pub fn lease(&self) -> LeaseId {
        format!("{:016x}", self.entropy.bits()).into()
    }

    /// A new WebSocket channel.
    pub fn websocket_channel(&self) -> ChannelId {
        format!("ws:{:016x}{:016x}", self.entropy.bits(), self.entropy.bits()).into()
    }

    /// A new approval.
    pub fn approval(&self) -> ApprovalId {
        self.named("apr").into()
    }

    /// A new question.
    pub fn question(&self) -> QuestionId {
        self.named("qst").into()
    }

    /// A new trigger.
    pub fn trigger(&self) -> TriggerId {
        self.named("trg").into()
    }

    /// A new firing of a trigger.
    pub fn run(&self) -> RunId {
        self.named("run").into()
    }

    /// A new version of a memory.
    pub fn memory(&self) -> MemoryId {
        self.named("mem").into()
    }

    /// A new notice.
    pub fn notice(&self) -> NoticeId {
        self.named("n").into()
    }

    /// A new file. Nobody guesses it.
    pub fn file(&self) -> FileId {
        format!("{}{:016x}", self.named("file"), self.entropy.bits()).into()
    }

    /// Sixty-four fresh random bits, for what is made of them elsewhere.
    pub fn bits(&self) -> u64 {
        self.entropy.bits()
    }

    fn named(&self, prefix: &str) -> String {
        format!("{prefix}-{:016x}", self.entropy.bits())
    }

    /// An id for a message whose sender gave none.
    pub fn message(&self) -> MessageId {
        format!("m-{:016x}", self.entropy.bits()).into()
    }
}
