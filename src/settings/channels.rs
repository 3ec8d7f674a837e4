//! `config/channels.yaml`: how people reach the teams.

use std::{net::IpAddr, time::Duration};

use hivewright_actors::router::trust::Policy;

use serde_json::{Value as Json, json};

use super::{
    config::SHORTEST,
    problem::{Problem, Problems},
    reader::{Document, Section},
    shown::{Shown, word_of},
    trust,
};

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Channels {
    /// Who may open a WebSocket.
    pub ws: WebSocket,
    /// How much may come in.
    pub limits: Limits,
    /// How conversations are kept apart.
    pub topics: Topics,
    /// Who is let in.
    pub trust: Policy,
}

impl Channels {
    /// What holds while the file is wrong: only the operator's command line gets in.
    pub fn closed() -> Self {
        Self { ws: WebSocket::Off, trust: Policy::Unusable, ..Self::default() }
    }
}

/// Who may open a WebSocket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WebSocket {
    /// Nobody: the file does not name it.
    Off,
    /// Clients on this machine: there is no file.
    #[default]
    Loopback,
    /// Whoever reaches the server.
    On,
}

impl WebSocket {
    /// Whether a client at this address may open one.
    pub fn admits(self, client: Option<IpAddr>) -> bool {
        match self {
            Self::Off => false,
            Self::Loopback => client.is_some_and(|client| client.to_canonical().is_loopback()),
            Self::On => true,
        }
    }
}

/// How much may come in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Limits {
    /// By type of channel.
    pub rate: Rates,
}

/// How many messages each sender may send, by type of channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Over WebSockets.
    pub ws: Rate,
}

impl Default for Rates {
    fn default() -> Self {
        Self { ws: Rate { per_minute: 3000, burst: 1000 } }
    }
}

/// A token bucket. A rate of 0 is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Messages a minute, in the long run.
    pub per_minute: u32,
    /// Messages at once.
    pub burst: u32,
}

/// How conversations are kept apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Topics {
    /// Active topics of one channel.
    pub max_active: usize,
    /// A topic without work for this long is idle.
    pub idle_after: Duration,
    /// When a model chooses the topic.
    pub model: TopicModel,
    /// The profile of that model; none is the main team's.
    pub profile: Option<String>,
    /// Why no model is asked, though the file wants one: a reference leads nowhere.
    pub disabled: Option<Problem>,
}

/// When a model chooses the topic of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TopicModel {
    /// If words alone don't decide.
    #[default]
    Ambiguous,
    /// Not at all.
    Never,
}

const TOPIC_MODELS: [(&str, TopicModel); 2] =
    [("ambiguous", TopicModel::Ambiguous), ("never", TopicModel::Never)];

impl Shown for TopicModel {
    fn shown(&self) -> Json {
        word_of(&TOPIC_MODELS, self)
    }
}

impl Default for Topics {
    fn default() -> Self {
        Self {
            max_active: 5,
            idle_after: Duration::from_secs(30 * 60),
            model: TopicModel::default(),
            profile: None,
            disabled: None,
        }
    }
}

/// The longest time after which a topic is idle.
const LONGEST_IDLE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The file, as far as it can be used.
#[derive(Debug, Default)]
pub(crate) struct Read {
    /// What it says.
    pub(crate) channels: Channels,
    /// What is wrong with who is let in, so that nobody is.
    pub(crate) distrust: Problems,
    /// What works and should not stay.
    pub(crate) warnings: Vec<Problem>,
}

impl Read {
    /// What works and should not stay, unless something is disabled.
    pub(crate) fn in_use(self) -> Result<Vec<Problem>, Problems> {
        match self.channels.topics.disabled {
            Some(problem) => Err(Problems(vec![problem])),
            None => Ok(self.warnings),
        }
    }
}

/// What counts where the file says nothing, or where there is none.
pub(super) fn defaults(text: Option<&str>) -> Vec<(String, Json)> {
    let document = Document::plain("");
    document.read(text.unwrap_or_default(), |root| read_root(root, &document));
    let mut defaults = document.into_defaults();
    if text.is_none() {
        for (path, value) in &mut defaults {
            if path == "ws.enabled" {
                *value = json!("on this machine only");
            }
        }
    }
    defaults
}

/// Reads the file. That it is there at all means that WebSockets must be named in it.
pub(crate) fn read(text: &str, document: Document) -> Result<Read, Problems> {
    let mut channels = document.read(text, |root| read_root(root, &document));
    let (warnings, distrust) = document.finish_but(trust::KEY)?;
    if !distrust.0.is_empty() {
        channels.trust = Policy::Unusable;
    }
    Ok(Read { channels, distrust, warnings })
}

fn read_root(root: &mut Section<'_>, document: &Document) -> Channels {
    Channels {
        ws: root.section("ws", |ws| {
            if ws.setting("enabled", false, |field| field.boolean()) {
                WebSocket::On
            } else {
                WebSocket::Off
            }
        }),
        limits: root.section("limits", |limits| Limits {
            rate: limits.section("rate", |rate| Rates {
                ws: rate.section("ws", |ws| read_rate(ws, Rates::default().ws)),
            }),
        }),
        topics: root.section("topics", |topics| {
            let default = Topics::default();
            let mut found = Topics {
                max_active: topics
                    .setting("max_active", default.max_active, |field| field.integer(1..=1_000)),
                idle_after: topics.setting("idle_after", default.idle_after, |field| {
                    field.duration(SHORTEST..=LONGEST_IDLE)
                }),
                model: topics.setting("model", default.model, |field| field.choice(&TOPIC_MODELS)),
                profile: topics.maybe("profile", |field| field.text()),
                disabled: None,
            };
            // Which model is meant is not known: none is asked, and everything else counts.
            if let Some(problem) = document.take_unresolved().into_iter().next() {
                found.model = TopicModel::Never;
                found.disabled = Some(problem);
            }
            found
        }),
        trust: trust::read(root),
    }
}

fn read_rate(section: &mut Section<'_>, default: Rate) -> Rate {
    Rate {
        per_minute: section
            .setting("per_minute", default.per_minute, |field| field.integer(0..=1_000_000)),
        burst: section.setting("burst", default.burst, |field| field.integer(1..=1_000_000)),
    }
}
