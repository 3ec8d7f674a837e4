//! `hivewright trust`: who is let in or kept out by name, and why someone was.

use clap::Subcommand;

use crate::{
    api::{endpoint::ById, trust::*},
    cli::{
        answer::{Answer, Listing},
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, date},
    },
};

/// Let senders in or keep them out, and see who was
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright trust add discord:80351110224678912\n  \
    hivewright trust audit --decision denied --since 24h")]
pub(super) enum Action {
    /// List the senders who are let in or kept out by name
    #[command(after_help = "Example:\n  hivewright trust list --json")]
    List(TrustFilter),
    /// Let a sender in, or keep them out, from the next message on
    #[command(after_help = "Examples:\n  \
        hivewright trust add discord:80351110224678912 --channel 123456789\n  \
        hivewright trust add ws:ci --level denied")]
    Add(NewTrustGrant),
    /// Take a grant back, from the next message on
    #[command(aliases = ["delete", "remove", "rm"], after_help = "Examples:\n  \
        hivewright trust revoke discord:80351110224678912\n  \
        hivewright trust revoke grant-61c8864680b583eb")]
    Revoke {
        /// The sender, or the id of the grant
        #[arg(value_name = "TYPE:SENDER|ID")]
        which: String,
        /// The grant for this channel alone
        #[arg(long, value_name = "ID")]
        channel: Option<String>,
    },
    /// Show what was decided on messages, newest first
    #[command(after_help = "Example:\n  hivewright trust audit --decision denied --since 24h")]
    Audit(Listing<TrustDecisionFilter>),
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List(filter) => rows(&service, &filter).await?.table(screen),
        Action::Add(new) => service.give(&GRANT_TRUST, &new).await?.tell(screen, |row| {
            let TrustGrant { channel_type, sender_id, trust_level, .. } = row;
            format!("{channel_type}:{sender_id} is {trust_level} from the next message on")
        }),
        Action::Revoke { which, channel } => {
            let path = ById { id: find(&service, &which, channel.as_deref()).await? };
            service.at(&REVOKE_TRUST, &path).await?;
            Answer::naming("revoked", &path.id).tell(screen, |_| format!("revoked {}", path.id))
        }
        Action::Audit(list) => service.list(&LIST_TRUST_DECISIONS, &list).await?.table(screen),
    }
}

/// It is the id of a row, and not `<type>:<sender>`.
pub(super) fn is_id(which: &str) -> bool {
    !which.contains(':')
}

async fn rows(service: &Service, filter: &TrustFilter) -> Result<Answer<Vec<TrustGrant>>, Failure> {
    service.all(&LIST_TRUST, filter).await
}

/// The id of a grant that is named by its sender.
async fn find(service: &Service, which: &str, channel: Option<&str>) -> Result<String, Failure> {
    if is_id(which) {
        return Ok(which.to_owned());
    }
    let Sender { channel_type, sender_id } = which.parse::<Sender>().map_err(Failure::usage)?;
    let filter = TrustFilter { channel_type: Some(channel_type), trust_level: None };
    let bare = channel.map(|channel| channel.strip_prefix("discord:").unwrap_or(channel));
    let is_meant = |row: &TrustGrant| {
        let own = row.channel_id.as_deref();
        row.sender_id == sender_id && (own == channel || own == bare)
    };
    let row =
        rows(service, &filter).await?.data()?.into_iter().find(is_meant).ok_or_else(|| {
            Failure::not_found(format!(
                "there is no grant for `{which}`; `hivewright trust list` shows those there are"
            ))
        })?;
    Ok(row.id)
}

columns!(TrustGrant {
    "ID" => |row| row.id.clone(),
    "SENDER" => |row| format!("{}:{}", row.channel_type, row.sender_id),
    "CHANNEL" => |row| row.channel_id.clone().unwrap_or_else(|| "all".to_owned()),
    "LEVEL" => |row| row.trust_level.to_string(),
    "BY" => |row| row.granted_by.clone(),
    "SINCE" => |row| date(&row.granted_at),
});

columns!(TrustDecision {
    "TIME" => |row| date(&row.time),
    "DECISION" => |row| row.decision.to_string(),
    "REASON" => |row| row.reason.clone(),
    "SENDER" => |row| {
        let claim = row.asserted_by.as_ref().map(|by| format!(" (says {by})"));
        format!("{}:{}{}", row.channel_type, row.sender, claim.unwrap_or_default())
    },
    "CHANNEL" => |row| row.channel_id.clone(),
});

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// OP-84
    #[test]
    fn grants_and_decisions_are_listed_in_columns() {
        let grants: Vec<TrustGrant> = serde_json::from_value(json!([{
            "id": "grant-1", "channel_type": "discord", "sender_id": "42", "channel_id": null,
            "trust_level": "trusted", "granted_by": "operator",
            "granted_at": "2026-11-14T23:46:40.000Z",
        }]))
        .unwrap();
        let decisions: Vec<TrustDecision> = serde_json::from_value(json!([{
            "id": "x", "time": "2026-11-14T23:46:40.000Z", "channel_type": "ws",
            "channel_id": "ws:1", "sender": "bob", "asserted_by": "bridge",
            "decision": "denied", "reason": "grant_denied",
        }]))
        .unwrap();

        let expected = "\
ID       SENDER      CHANNEL  LEVEL    BY        SINCE
grant-1  discord:42  all      trusted  operator  2026-11-14 23:46 UTC
";
        assert_eq!(table::rows(&grants), expected);
        let expected = "\
TIME                  DECISION  REASON        SENDER                CHANNEL
2026-11-14 23:46 UTC  denied    grant_denied  ws:bob (says bridge)  ws:1
";
        assert_eq!(table::rows(&decisions), expected);
    }
}
