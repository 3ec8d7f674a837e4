//! Trust: decisions of people on senders, and decisions of the gate on messages.

use hivewright_actors::{
    admission::{Decision, Reason},
    channel_type::ChannelType,
    clock::Timestamp,
    ids::{ChannelId, Ids},
    router::{
        audit,
        grants::{Grantee, SenderGrant, is_plain},
    },
    store::records::Writes,
};

use super::{
    moment::moment,
    plan::{Artifact, Planner, Refusal},
    report::Kind,
    schema::row,
    settings::bare_channel,
};

/// A decision of a person on a sender.
pub(super) const KIND: Kind = Kind::listed("trust");
/// Decisions of the trust gate.
pub(super) const AUDIT: Kind = Kind::counted("audit");

row! {
    /// A decision of a person on a sender.
    GrantRow in "sender_trust" by "id" known by id {
        id: i64,
        channel_type: String,
        channel: Option<String> as "channel_id",
        sender: String as "sender_id",
        level: String as "trust_level",
        granted_by: String,
        created_at: String,
    }
}

row! {
    /// A decision of the gate on a message.
    AuditRow in "trust_audit_log" by "id" known by id {
        id: i64,
        channel_type: String,
        channel: String as "channel_id",
        sender: String as "sender_id",
        decision: String,
        reason: String,
        created_at: String,
    }
}

pub(super) fn plan(planner: &mut Planner<'_>) {
    let (tables, ids, now) = (&planner.found.tables, planner.ids, planner.target.now);
    for row in tables.of::<GrantRow>() {
        let channel = row.channel.as_deref().unwrap_or("all channels");
        let name = format!("{} {}, {channel}", row.channel_type, row.sender);
        let conversion = grant(row, ids, now).map_err(Refusal::from).map(|grant| {
            let kind = &grant.grantee.channel_type;
            let is_renamed = kind.to_string() != row.channel_type;
            let change = is_renamed.then(|| format!("`{}` is `{kind}` here", row.channel_type));
            let made = Artifact::row(&grant.id, Writes::new().put(&grant));
            (made, change.into_iter().collect())
        });
        planner.take(KIND, None, name, row.mark(), conversion);
    }
    for row in tables.of::<AuditRow>() {
        let conversion = decision(row, ids, now).map_err(Refusal::from);
        let conversion = conversion.map(|row| {
            let made = Artifact::row(&row.id, Writes::new().put(&row));
            (made, Vec::new())
        });
        planner.take(AUDIT, None, &row.channel, row.mark(), conversion);
    }
}

/// The type of a channel as it is called here. Discord is the one whose type OpenHive does not tell.
fn channel_type(former: &str) -> Result<ChannelType, String> {
    match former {
        "ws" => Ok(ChannelType::Ws),
        "discord" | "other" => Ok(ChannelType::Discord),
        "cli" => Ok(ChannelType::Cli),
        "api" => Ok(ChannelType::Api),
        _ => Err(format!(
            "there is no channel of the type `{former}`; there are `ws`, `discord`, `cli` and `api`"
        )),
    }
}

/// A grant, or why it cannot be one.
fn grant(row: &GrantRow, ids: &Ids, now: Timestamp) -> Result<SenderGrant, String> {
    let channel_type = channel_type(&row.channel_type)?;
    let level = row.level.parse();
    let level = level
        .map_err(|_| format!("its level `{}` is neither `trusted` nor `denied`", row.level))?;
    if !is_plain(&row.sender) {
        return Err("its sender is not 1 to 128 printable characters".into());
    }
    let channel = row.channel.as_deref().filter(|id| !id.is_empty());
    Ok(SenderGrant {
        id: format!("grant-{:016x}", ids.bits()),
        grantee: Grantee {
            channel_type,
            sender: row.sender.clone(),
            channel: channel.map(|id| ChannelId::from(bare_channel(id))),
        },
        level,
        granted_by: format!("import:{}", row.granted_by),
        at: moment(&row.created_at).unwrap_or(now),
    })
}

/// A decision, or why it cannot be kept.
fn decision(row: &AuditRow, ids: &Ids, now: Timestamp) -> Result<audit::AuditRow, String> {
    let channel_type = channel_type(&row.channel_type)?;
    // Without a rule that is known here, the most general one that could have decided.
    let (allowed, general) = match row.decision.as_str() {
        "allowed" | "allow" => (true, Reason::DefaultPolicyAllow),
        "denied" | "deny" => (false, Reason::DefaultPolicyDeny),
        other => return Err(format!("its decision `{other}` is not known")),
    };
    let reason = serde_json::from_value(row.reason.as_str().into()).unwrap_or(general);
    Ok(audit::AuditRow {
        id: format!("import-{:016x}", ids.bits()),
        at: moment(&row.created_at).unwrap_or(now),
        channel_type,
        channel: bare_channel(&row.channel).into(),
        sender: row.sender.clone(),
        asserted_by: None,
        listener: None,
        decision: Decision { allowed, reason },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hivewright_actors::router::grants::Level;

    use super::*;
    use crate::system::Randomness;

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

    fn converted(row: &GrantRow) -> Result<SenderGrant, String> {
        grant(row, &Ids::new(Arc::new(Randomness)), Timestamp(1))
    }

    /// OR-29, CH-110
    #[test]
    fn a_grant_without_a_channel_holds_for_all_and_other_is_discord() {
        let found = converted(&row("other", None, "trusted")).unwrap();
        let denied = converted(&row("discord", Some("discord:7"), "denied")).unwrap();

        assert_eq!(found.grantee.channel_type, ChannelType::Discord);
        assert_eq!(found.grantee.channel, None);
        assert_eq!((found.level, denied.level), (Level::Trusted, Level::Denied));
        assert_eq!(denied.grantee.channel, Some("7".into()));
    }

    #[test]
    fn a_grant_that_says_nothing_here_is_refused() {
        assert!(converted(&row("smtp", None, "trusted")).unwrap_err().contains("`smtp`"));
        assert!(converted(&row("ws", None, "friend")).unwrap_err().contains("`friend`"));
    }
}
