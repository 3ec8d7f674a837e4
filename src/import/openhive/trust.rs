//! Who was trusted, and what the gate decided.

use hivewright_actors::clock::Timestamp;

use super::{
    moment::moment,
    rows::{AuditRow, GrantRow},
    settings::bare_channel,
};

/// A decision on a sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) channel_type: String,
    /// None is every channel of the type.
    pub(super) channel: Option<String>,
    pub(super) sender: String,
    /// Otherwise denied.
    pub(super) trusted: bool,
    pub(super) granted_by: String,
    pub(super) at: Option<Timestamp>,
    pub(super) changes: Vec<String>,
}

/// A decision of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) channel_type: String,
    pub(super) channel: String,
    pub(super) sender: String,
    pub(super) allowed: bool,
    pub(super) reason: String,
    pub(super) at: Option<Timestamp>,
}

/// The type of a channel as it is called here. Discord is the one whose type OpenHive does not tell.
pub(super) fn channel_type(former: &str) -> Result<&str, String> {
    match former {
        "ws" | "discord" | "cli" | "api" => Ok(former),
        "other" => Ok("discord"),
        _ => Err(format!(
            "there is no channel of the type `{former}`; there are `ws`, `discord`, `cli` and `api`"
        )),
    }
}

/// A grant, or why it cannot be one.
pub(super) fn grant(row: &GrantRow) -> Result<Grant, String> {
    let kind = channel_type(&row.channel_type)?;
    let trusted = match row.level.as_str() {
        "trusted" => true,
        "denied" => false,
        level => {
            return Err(format!("its level `{level}` is neither `trusted` nor `denied`"));
        }
    };
    let printable = |c: char| !c.is_control() && !c.is_whitespace();
    if !(1..=128).contains(&row.sender.chars().count()) || !row.sender.chars().all(printable) {
        return Err("its sender is not 1 to 128 printable characters".into());
    }
    let channel = row.channel.as_deref().filter(|id| !id.is_empty());
    let mut changes = Vec::new();
    if kind != row.channel_type {
        changes.push(format!("`{}` is `{kind}` here", row.channel_type));
    }
    Ok(Grant {
        channel_type: kind.to_owned(),
        channel: channel.map(|id| bare_channel(id).to_owned()),
        sender: row.sender.clone(),
        trusted,
        granted_by: row.granted_by.clone(),
        at: moment(&row.created_at),
        changes,
    })
}

/// A decision, or why it cannot be kept.
pub(super) fn decision(row: &AuditRow) -> Result<Decision, String> {
    Ok(Decision {
        channel_type: channel_type(&row.channel_type)?.to_owned(),
        channel: bare_channel(&row.channel).to_owned(),
        sender: row.sender.clone(),
        allowed: match row.decision.as_str() {
            "allowed" | "allow" => true,
            "denied" | "deny" => false,
            other => return Err(format!("its decision `{other}` is not known")),
        },
        reason: row.reason.clone(),
        at: moment(&row.created_at),
    })
}

#[cfg(test)]
mod tests {

    use super::*;

    fn row(kind: &str, channel: Option<&str>, level: &str) -> GrantRow {
        GrantRow {
            id: 1,
            channel_type: kind.into(),
            channel: channel.map(str::to_owned),
            sender: "42".into(),
            level: level.into(),
            granted_by: "admin".into(),
            created_at: "2026-01-01T00:00:00.000Z".into(),
        }
    }

    /// OR-29, CH-110
    #[test]
    fn a_grant_without_a_channel_holds_for_all_and_other_is_discord() {
        let found = grant(&row("other", None, "trusted")).unwrap();
        let denied = grant(&row("discord", Some("discord:7"), "denied")).unwrap();

        assert_eq!((found.channel_type.as_str(), found.channel), ("discord", None));
        assert!(found.trusted && !denied.trusted);
        assert_eq!(denied.channel.as_deref(), Some("7"));
    }

    #[test]
    fn a_grant_that_says_nothing_here_is_refused() {
        assert!(grant(&row("smtp", None, "trusted")).unwrap_err().contains("`smtp`"));
        assert!(grant(&row("ws", None, "friend")).unwrap_err().contains("`friend`"));
    }
}
