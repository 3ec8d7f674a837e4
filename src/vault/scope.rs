//! Scopes: whose a vault entry is.

use std::fmt;

use hivewright_actors::ids::TeamKey;

/// No name of a team holds the colon.
const ASIDE: &str = "aside:";

/// Whose an entry is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The service's own: keys of model providers, tokens of channels. No tool can name it.
    System,
    /// One life of a team's.
    Team(TeamKey),
    /// A team's that is not made yet, and that this one asked for.
    Escrow(TeamKey),
}

impl Scope {
    /// Part of stored keys, and of what seals a value.
    pub fn tag(&self) -> String {
        match self {
            Self::System => "system".to_owned(),
            Self::Team(team) => team.to_string(),
            Self::Escrow(team) => format!("{ASIDE}{team}"),
        }
    }

    pub fn of_tag(tag: &str) -> Option<Self> {
        if tag == "system" {
            return Some(Self::System);
        }
        match tag.strip_prefix(ASIDE) {
            Some(team) => TeamKey::parse(team).map(Self::Escrow),
            None => TeamKey::parse(tag).map(Self::Team),
        }
    }

    /// The team whose it is, or that asked for it.
    pub fn team(&self) -> Option<&TeamKey> {
        match self {
            Self::System => None,
            Self::Team(team) | Self::Escrow(team) => Some(team),
        }
    }

    /// As a command names it.
    pub(super) fn flag(&self) -> String {
        match self.team() {
            None => "--system".to_owned(),
            Some(team) => format!("--team {}", team.name),
        }
    }
}

/// `system`, `team:<name>` or `aside:<name>`.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Team(team) => write!(f, "team:{}", team.name),
            Self::Escrow(team) => write!(f, "{ASIDE}{}", team.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_leads_back_to_its_scope() {
        let scopes = [
            Scope::System,
            Scope::Escrow(TeamKey { name: "main".into(), generation: 1 }),
            Scope::Team(TeamKey { name: "system".into(), generation: 12 }),
        ];

        for scope in scopes {
            assert_eq!(Scope::of_tag(&scope.tag()), Some(scope));
        }
        assert_eq!(Scope::of_tag("team"), None);
        assert_eq!(Scope::of_tag("team~x"), None);
    }
}
