//! Channel types: the kinds of doors that messages come in by. The adapter states it, nobody guesses it.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{
    excerpt,
    text::{Text, is_slug},
};

/// What the type of a channel plugin begins with.
const PLUGIN: &str = "plugin.";
pub const LONGEST_PLUGIN_KEY: usize = 40;

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChannelType {
    #[default]
    Ws,
    Discord,
    /// The command line of the operator.
    Cli,
    /// Messages over REST.
    Api,
    /// A channel plugin, by its key.
    Plugin(Arc<str>),
}

impl ChannelType {
    /// Whoever comes in by this door has shown a credential of this service.
    pub fn is_authenticated(&self) -> bool {
        matches!(self, Self::Ws | Self::Cli | Self::Api)
    }

    /// The same of the door with this name.
    pub fn is_authenticated_name(name: &str) -> bool {
        name.parse().is_ok_and(|door: Self| door.is_authenticated())
    }
}

/// A name that is not a channel type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown channel type `{0}`; there are `ws`, `discord`, `cli`, `api` and `plugin.<key>` for channel plugins"
)]
pub struct UnknownChannelType(pub String);

crate::text!(ChannelType);

impl Text for ChannelType {
    const FORMAT: &'static str = "channel-type";
    const PATTERN: &'static str = r"^(ws|discord|cli|api|plugin\.[a-z][a-z0-9-]+)$";
    const EXAMPLES: &'static [&'static str] = &["discord", "ws", "plugin.irc"];
}

impl fmt::Display for ChannelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ws => f.write_str("ws"),
            Self::Discord => f.write_str("discord"),
            Self::Cli => f.write_str("cli"),
            Self::Api => f.write_str("api"),
            Self::Plugin(key) => write!(f, "{PLUGIN}{key}"),
        }
    }
}

impl FromStr for ChannelType {
    type Err = UnknownChannelType;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "ws" => Ok(Self::Ws),
            "discord" => Ok(Self::Discord),
            "cli" => Ok(Self::Cli),
            "api" => Ok(Self::Api),
            _ => match name.strip_prefix(PLUGIN) {
                Some(key) if is_plugin_key(key) => Ok(Self::Plugin(key.into())),
                // It may be shown: no more of it than a name has.
                _ => Err(UnknownChannelType(excerpt::line(name, 64))),
            },
        }
    }
}

/// Whether a text can be the key of a plugin: a slug of 2 to 40 characters, a letter first.
pub fn is_plugin_key(key: &str) -> bool {
    let begins = key.starts_with(|first: char| first.is_ascii_lowercase());
    begins && key.len() >= 2 && is_slug(key, LONGEST_PLUGIN_KEY)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CH-02
    #[test]
    fn a_type_reads_back_as_it_is_written() {
        for name in ["ws", "discord", "cli", "api", "plugin.irc", "plugin.my-2nd"] {
            let read: ChannelType = name.parse().unwrap();

            assert_eq!(read.to_string(), name);
            assert_eq!(serde_json::to_value(&read).unwrap(), name);
            assert_eq!(serde_json::from_value::<ChannelType>(name.into()).unwrap(), read);
        }
    }

    /// CH-02
    #[test]
    fn any_other_name_is_refused_with_those_there_are() {
        for name in
            ["", "WS", "slack", "plugin.", "plugin.x", "plugin.A", "plugin.a--b", "plugin.a.b"]
        {
            let error = name.parse::<ChannelType>().unwrap_err().to_string();

            assert!(error.contains(&format!("`{name}`")), "{error}");
            assert!(error.contains("`ws`, `discord`, `cli`, `api` and `plugin.<key>`"), "{error}");
        }
    }
}
