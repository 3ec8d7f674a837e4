//! `config/channels.yaml`: how people reach the teams.

use std::{fmt, net::IpAddr, num::NonZeroU64, str::FromStr, time::Duration};

use hivewright_actors::{ids::ChannelId, router::trust::Policy, words};

use serde_json::Value as Json;

use super::{
    declare::settings,
    document::{Counts, Declaration, Document},
    field::Field,
    problem::{Problem, Problems},
    reader::{Group, Section},
    references::Environment,
    secret::Secret,
    setting::{SHORTEST, Setting, choices, read_api_url},
    trust,
};

settings! {
    /// How people reach the teams. A change counts within a second; a file with a fault in it is refused, and
    /// what it said before still counts.
    ///
    /// Once this file is there, a channel is open only if it is named here; without it the WebSocket is open
    /// to this machine alone.
    pub struct Channels {
        ws: WebSocket,
        /// A bot that people talk to on Discord. Without a token nothing of it is started.
        discord: Discord,
        limits: Limits,
        topics: Topics,
        /// Who is let in. Without this section it is everyone with a token, and nobody else. The first rule
        /// that matches decides: sender_denylist, grants (`hivewright trust`), sender_allowlist,
        /// channel_overrides, policy, default_policy. Whoever only a policy lets in is not believed: what
        /// they say cannot be remembered unreviewed.
        #[example(TRUST_EXAMPLE)]
        trust: Policy = Policy::None,
    }

    /// A bot on Discord. Without a token nothing of it is started.
    #[check(Discord::without_unknown_token)]
    pub struct Discord {
        /// What authenticates the bot. ${env:NAME} is a variable, ${file:PATH} a file, relative to the data dir,
        /// ${vault:KEY} what `hivewright vault set KEY --system` has set. Absent: the variable
        /// DISCORD_BOT_TOKEN, if there is one.
        #[example("${vault:discord.token}")]
        token: Option<Secret> = None,
        /// Ids of the channels that the bot listens to; none is all that it sees.
        #[example("['123456789012345678']")]
        watched_channels: Vec<Snowflake> = Vec::new(),
        /// Ids of channels where every approval and every question of a team is shown, besides the place that its work comes from.
        operator_channels: Vec<Snowflake> = Vec::new(),
        /// Whether the bot also listens to direct messages.
        direct_messages: bool = false,
        /// Where Discord's API is. Another address is for tests, and for proxies that speak for it.
        #[read(read_api_url)]
        api_url: String = "https://discord.com".to_owned(),
        /// Why the bot is not started, though the file wants it: a reference leads nowhere.
        #[skip = "found while reading"]
        disabled: Option<Problem> = None,
    }

    /// How much may come in.
    pub struct Limits {
        rate: Rates,
    }

    /// How many messages each sender may send, by type of channel.
    pub struct Rates {
        /// What one sender may send over WebSockets.
        ws: Rate,
        /// What one sender may send on Discord.
        discord: DiscordRate,
    }

    /// A token bucket.
    #[derive(Copy, Eq)]
    pub struct Rate {
        /// Messages a minute, in the long run; 0 is no limit.
        #[range(0..=1_000_000)]
        per_minute: u32 = 3000,
        /// Messages at once.
        #[range(1..=1_000_000)]
        burst: u32 = 1000,
    }

    /// A token bucket.
    #[derive(Copy, Eq)]
    pub struct DiscordRate {
        /// Messages a minute, in the long run; 0 is no limit.
        #[range(0..=1_000_000)]
        per_minute: u32 = 30,
        /// Messages at once.
        #[range(1..=1_000_000)]
        burst: u32 = 10,
    }

    /// How conversations are kept apart.
    #[check(Topics::without_unknown_model)]
    pub struct Topics {
        /// Active topics of one channel.
        #[range(1..=1_000)]
        max_active: usize = 5,
        /// A topic without work for this long is idle.
        #[range(SHORTEST..=Duration::from_secs(7 * 24 * 60 * 60))]
        idle_after: Duration = Duration::from_secs(30 * 60),
        /// Whether a model chooses the topic where words alone don't decide.
        model: TopicModel = TopicModel::Ambiguous,
        /// Whether a model makes a title for a topic after its first answer, in one short call. Otherwise, and in the
        /// demo, its first words name it.
        titles: bool = true,
        /// The profile of the model that is asked about topics; otherwise the main team's.
        #[example("default")]
        profile: Option<String> = None,
        /// Why no model is asked, though the file wants one: a reference leads nowhere.
        #[skip = "found while reading"]
        disabled: Option<Problem> = None,
    }
}

words! {
    /// When a model chooses the topic of a message.
    pub enum TopicModel {
        /// If words alone don't decide.
        Ambiguous = "ambiguous",
        Never = "never",
    }
}

choices!(TopicModel);

const TRUST_EXAMPLE: &str = "
  default_policy: deny
  channels:
    ws: {policy: allow}
    discord:
      policy: deny
      sender_allowlist: ['80351110224678912']
      sender_denylist: []
      channel_overrides:
        '123456789': {policy: allow}";

impl Channels {
    /// What holds while the file is wrong: only the operator's command line gets in.
    pub fn closed() -> Self {
        Self { ws: WebSocket::Off, trust: Policy::Unusable, ..Self::default() }
    }

    /// What is not in use because a reference leads nowhere.
    pub fn disabled(&self) -> impl Iterator<Item = &Problem> {
        self.topics.disabled.iter().chain(&self.discord.disabled)
    }
}

/// The variable that holds the bot's token where the file names none.
const TOKEN_VARIABLE: &str = "DISCORD_BOT_TOKEN";

impl Discord {
    /// Which token is meant is not known: the bot is not started, and everything else counts.
    fn without_unknown_token(self, section: &mut Section<'_>) -> Self {
        match section.take_unresolved() {
            Some(problem) => Self { token: None, disabled: Some(problem), ..self },
            None => self,
        }
    }

    /// The same with the token of the environment, if the file names none.
    pub(crate) fn or_from(mut self, environment: &Environment) -> Self {
        if self.token.is_none() && self.disabled.is_none() {
            self.token = environment.get(TOKEN_VARIABLE).map(Secret::new);
        }
        self
    }

    /// Where operators are, as channels are stored.
    pub(crate) fn operator_places(&self) -> Vec<ChannelId> {
        self.operator_channels.iter().map(|id| id.to_string().into()).collect()
    }

    pub fn watches(&self, channel: u64) -> bool {
        let watched = &self.watched_channels;
        watched.is_empty() || watched.iter().any(|id| id.get() == channel)
    }
}

/// An id that Discord gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snowflake(NonZeroU64);

impl Snowflake {
    pub fn get(self) -> u64 {
        self.0.get()
    }
}

/// With or without the type of the channel before it.
impl FromStr for Snowflake {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim().strip_prefix("discord:").unwrap_or(text.trim());
        let number = digits.parse().map_err(|_| "expected an id of Discord: up to 20 digits")?;
        Ok(Self(number))
    }
}

impl fmt::Display for Snowflake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A file may write it as a number, without quotes.
impl Setting for Snowflake {
    type Bounds = ();

    fn read(field: &Field<'_>, (): &()) -> Option<Self> {
        let text = match field.json()? {
            Json::Number(number) => number.to_string(),
            Json::String(text) => text,
            _ => String::new(),
        };
        text.parse().map_or_else(|reason: &str| field.reject(reason), Some)
    }

    fn shown(&self) -> Json {
        Json::String(self.to_string())
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
    pub fn admits(self, client: Option<IpAddr>) -> bool {
        match self {
            Self::Off => false,
            Self::Loopback => client.is_some_and(|client| client.to_canonical().is_loopback()),
            Self::On => true,
        }
    }
}

/// Once there is a file, it must name the channel.
impl Group for WebSocket {
    fn read(section: &mut Section<'_>) -> Self {
        let enabled = Declaration {
            key: "enabled",
            about: "Whether the WebSocket is open to whoever reaches the server.",
            example: None,
            counts: Counts::AtOnce,
        };
        let read = |field: Field<'_>| field.boolean();
        if section.setting(enabled, false, String::new, read) { Self::On } else { Self::Off }
    }
}

impl Topics {
    /// Which model is meant is not known: none is asked, and everything else counts.
    fn without_unknown_model(self, section: &mut Section<'_>) -> Self {
        match section.take_unresolved() {
            Some(problem) => Self { model: TopicModel::Never, disabled: Some(problem), ..self },
            None => self,
        }
    }
}

/// The file, as far as it can be used.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Read {
    pub(crate) channels: Channels,
    /// What is wrong with who is let in, so that nobody is.
    pub(crate) distrust: Problems,
    pub(crate) warnings: Vec<Problem>,
}

impl Read {
    /// The same, if nothing at all is wrong with who is let in.
    pub(crate) fn whole(self) -> Result<Self, Problems> {
        if self.distrust.0.is_empty() { Ok(self) } else { Err(self.distrust) }
    }

    /// What works and should not stay, unless something is disabled.
    pub(crate) fn in_use(self) -> Result<Vec<Problem>, Problems> {
        match self.channels.disabled().next() {
            Some(problem) => Err(problem.clone().into()),
            None => Ok(self.warnings),
        }
    }
}

/// Reads the file. That it is there at all means that WebSockets must be named in it.
pub(crate) fn read(text: &str, document: Document) -> Result<Read, Problems> {
    let mut channels = document.read(text, Channels::read);
    let (warnings, distrust) = document.finish_but(trust::KEY)?;
    if !distrust.0.is_empty() {
        channels.trust = Policy::Unusable;
    }
    Ok(Read { channels, distrust, warnings })
}
