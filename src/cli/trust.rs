//! `hivewright trust`: who is let in or kept out by name, and why someone was.

use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    failure::{Exit, Failure},
    service::{Service, data},
    table::{moment, table},
};

/// Let senders in or keep them out, and see who was
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright trust add discord:80351110224678912\n  \
    hivewright trust audit --decision denied --since 24h")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do about trust.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List the senders who are let in or kept out by name
    #[command(after_help = "Example:\n  hivewright trust list --json")]
    List,
    /// Let a sender in, or keep them out, from the next message on
    #[command(after_help = "Examples:\n  \
        hivewright trust add discord:80351110224678912 --channel 123456789\n  \
        hivewright trust add ws:ci --level denied")]
    Add {
        /// The type of the channel and the sender, such as `discord:80351110224678912`
        #[arg(value_name = "TYPE:SENDER", value_parser = sender)]
        sender: Sender,
        /// Only in this channel
        #[arg(long, value_name = "ID")]
        channel: Option<String>,
        /// Let in or kept out
        #[arg(long, default_value = "trusted")]
        level: Level,
    },
    /// Take a grant back, from the next message on
    #[command(after_help = "Examples:\n  \
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
    Audit {
        /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h
        #[arg(long)]
        since: Option<String>,
        /// Only those let in, or only those kept out
        #[arg(long)]
        decision: Option<Decision>,
        /// Only of this sender
        #[arg(long)]
        sender: Option<String>,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
    },
}

/// A sender on a type of channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) channel_type: String,
    pub(super) id: String,
}

/// Reads `<type>:<sender>`.
pub(super) fn sender(text: &str) -> Result<Sender, String> {
    match text.split_once(':') {
        Some((channel_type, id)) if !channel_type.is_empty() && !id.is_empty() => {
            Ok(Sender { channel_type: channel_type.to_owned(), id: id.to_owned() })
        }
        _ => {
            Err("expected a channel type and a sender, such as `discord:80351110224678912`"
                .to_owned())
        }
    }
}

/// What a grant says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Level {
    /// Let in.
    Trusted,
    /// Kept out.
    Denied,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Decision {
    /// Let in.
    Allowed,
    /// Kept out.
    Denied,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List => {
            let answer = service.list("/api/v1/trust").await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&grants(&answer)?);
        }
        Action::Add { sender, channel, level } => {
            let level = match level {
                Level::Trusted => "trusted",
                Level::Denied => "denied",
            };
            let wish = json!({
                "channel_type": sender.channel_type,
                "sender_id": sender.id,
                "channel_id": channel,
                "trust_level": level,
            });
            let answer = service.post("/api/v1/trust", &wish).await?;
            if screen.json {
                return screen.document(&answer);
            }
            let Sender { channel_type, id } = sender;
            screen.remark(&format!("{channel_type}:{id} is {level} from the next message on"));
        }
        Action::Revoke { which, channel } => {
            let id = find(&service, &which, channel.as_deref()).await?;
            let path = format!("/api/v1/trust/{id}");
            service.act(Method::DELETE, &path).await?;
            if screen.json {
                return screen.document(&json!({"data": {"revoked": id}}));
            }
            screen.remark(&format!("revoked {id}"));
        }
        Action::Audit { since, decision, sender, limit } => {
            let decision = decision.map(|decision| match decision {
                Decision::Allowed => "allowed".to_owned(),
                Decision::Denied => "denied".to_owned(),
            });
            let query = [
                ("since", since),
                ("decision", decision),
                ("sender", sender),
                ("limit", Some(limit.to_string())),
            ];
            let fields = query.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let answer = service.search("/api/v1/trust/audit", fields).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&decisions(&answer)?);
        }
    }
    Ok(())
}

/// The id of a grant that is named by its sender.
async fn find(service: &Service, which: &str, channel: Option<&str>) -> Result<String, Failure> {
    let Ok(sender) = sender(which) else {
        return Ok(which.to_owned());
    };
    let fields = [("channel_type", sender.channel_type.clone()), ("limit", "200".to_owned())];
    let mut offset = 0;
    loop {
        let page = fields.clone().into_iter().chain([("offset", offset.to_string())]);
        let answer = service.search("/api/v1/trust", page).await?;
        let rows: Vec<Grant> = data(&answer)?;
        let bare = channel.map(|channel| channel.strip_prefix("discord:").unwrap_or(channel));
        let is_meant = |row: &&Grant| {
            let own = row.channel_id.as_deref();
            row.sender_id == sender.id && (own == channel || own == bare)
        };
        if let Some(row) = rows.iter().find(is_meant) {
            return Ok(row.id.clone());
        }
        if rows.is_empty() {
            let message = format!(
                "there is no grant for `{which}`; `hivewright trust list` shows those there are"
            );
            return Err(Failure::new(Exit::NotFound, message));
        }
        offset += rows.len();
    }
}

#[derive(Debug, Deserialize)]
struct Grant {
    id: String,
    channel_type: String,
    sender_id: String,
    channel_id: Option<String>,
    trust_level: String,
    granted_by: String,
    granted_at: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Decided {
    time: Option<String>,
    channel_type: String,
    channel_id: String,
    sender: String,
    asserted_by: Option<String>,
    decision: String,
    reason: String,
}

fn grants(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Grant> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        [
            row.id,
            format!("{}:{}", row.channel_type, row.sender_id),
            row.channel_id.unwrap_or_else(|| "all".to_owned()),
            row.trust_level,
            row.granted_by,
            row.granted_at.as_deref().map(moment).unwrap_or_default(),
        ]
    });
    Ok(table(["ID", "SENDER", "CHANNEL", "LEVEL", "BY", "SINCE"], rows))
}

fn decisions(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Decided> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let claim = row.asserted_by.map(|by| format!(" (says {by})"));
        [
            row.time.as_deref().map(moment).unwrap_or_default(),
            row.decision,
            row.reason,
            format!("{}:{}{}", row.channel_type, row.sender, claim.unwrap_or_default()),
            row.channel_id,
        ]
    });
    Ok(table(["TIME", "DECISION", "REASON", "SENDER", "CHANNEL"], rows))
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_sender_is_named_with_its_type() {
        let found = sender("ws:a:b").unwrap();

        assert_eq!((found.channel_type.as_str(), found.id.as_str()), ("ws", "a:b"));
        for text in ["", "ws", "ws:", ":a"] {
            assert!(sender(text).is_err(), "{text}");
        }
    }

    /// OP-84
    #[test]
    fn grants_and_decisions_are_listed_in_columns() {
        let answer = json!({"data": [{
            "id": "grant-1", "channel_type": "discord", "sender_id": "42", "channel_id": null,
            "trust_level": "trusted", "granted_by": "operator",
            "granted_at": "2026-11-14T23:46:40.000Z",
        }]});
        let audit = json!({"data": [{
            "id": "x", "time": "2026-11-14T23:46:40.000Z", "channel_type": "ws",
            "channel_id": "ws:1", "sender": "bob", "asserted_by": "bridge",
            "decision": "denied", "reason": "grant_denied",
        }]});

        let expected = "\
ID       SENDER      CHANNEL  LEVEL    BY        SINCE
grant-1  discord:42  all      trusted  operator  2026-11-14 23:46 UTC
";
        assert_eq!(grants(&answer).unwrap(), expected);
        let expected = "\
TIME                  DECISION  REASON        SENDER                CHANNEL
2026-11-14 23:46 UTC  denied    grant_denied  ws:bob (says bridge)  ws:1
";
        assert_eq!(decisions(&audit).unwrap(), expected);
    }
}
