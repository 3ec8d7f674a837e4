//! Causes: who is behind a task.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::channel_type::ChannelType;

/// Who is behind a task. Work that comes of other work keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Cause {
    /// Hivewright itself: a trigger, a setting.
    System,
    /// An operator or a program with a token.
    Operator {
        /// The token's name.
        name: String,
    },
    /// A person in a channel.
    Sender {
        /// The channel's type.
        channel_type: String,
        /// Who.
        id: String,
        /// A policy let them in, and nobody named them.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        guest: bool,
        /// The principal that they are linked to, or that claims they wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        principal: Option<String>,
    },
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("Hivewright itself"),
            Self::Operator { name } => f.write_str(name),
            Self::Sender { channel_type, id, guest, principal } => {
                write!(f, "{} ({channel_type}", principal.as_ref().unwrap_or(id))?;
                f.write_str(if *guest { ", a guest)" } else { ")" })
            }
        }
    }
}

impl Cause {
    /// A person whom nothing else is known of.
    pub fn sender(channel_type: impl Into<String>, id: impl Into<String>) -> Self {
        Self::Sender {
            channel_type: channel_type.into(),
            id: id.into(),
            guest: false,
            principal: None,
        }
    }

    /// Who it is, whatever is known of them now, and by whichever authenticated door they came in.
    pub fn identity(&self) -> Self {
        match self.at_one_door() {
            Self::Sender { channel_type, id, .. } => Self::sender(channel_type, id),
            other => other,
        }
    }

    /// The same with one name for all doors at which a credential is shown: its holder is the same person at each.
    fn at_one_door(&self) -> Self {
        let mut cause = self.clone();
        if let Self::Sender { channel_type, .. } = &mut cause
            && ChannelType::is_authenticated_name(channel_type)
        {
            *channel_type = ChannelType::Ws.to_string();
        }
        cause
    }

    /// Both are the same person, with the same rights.
    pub fn acts_as(&self, other: &Self) -> bool {
        self.at_one_door() == other.at_one_door()
    }

    /// Whose share of a team's time work counts as.
    pub fn person(&self) -> String {
        match self {
            Self::System => "system".to_owned(),
            Self::Operator { name: person } | Self::Sender { principal: Some(person), .. } => {
                person.clone()
            }
            Self::Sender { channel_type, id, .. } => format!("{channel_type}/{id}"),
        }
    }
}
