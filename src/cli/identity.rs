//! `hivewright identity`: senders of channels who are principals.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    failure::{Exit, Failure},
    service::{Service, data},
    table::{moment, table},
    trust::{Sender, sender},
};

/// Say which senders may decide on approvals in a chat
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright identity link discord:80351110224678912 alice\n  \
    hivewright identity list")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with links.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// Make a sender the holder of a token, for chatting and approving
    #[command(after_help = "Example:\n  hivewright identity link discord:80351110224678912 alice")]
    Link {
        /// The type of the channel and the sender, such as `discord:80351110224678912`
        #[arg(value_name = "TYPE:SENDER", value_parser = sender)]
        sender: Sender,
        /// The name of the token
        token: String,
    },
    /// List the senders who are linked
    #[command(after_help = "Example:\n  hivewright identity list --json")]
    List,
    /// End a link at once
    #[command(after_help = "Example:\n  hivewright identity unlink discord:80351110224678912")]
    Unlink {
        /// The sender, or the id of the link
        #[arg(value_name = "TYPE:SENDER|ID")]
        which: String,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::Link { sender, token } => {
            let Sender { channel_type, id } = sender;
            let wish = json!({"channel_type": channel_type, "sender_id": id, "token": token});
            let answer = service.post("/api/v1/identities", &wish).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.remark(&format!("{channel_type}:{id} is {token} from now on"));
        }
        Action::List => {
            let answer = service.list("/api/v1/identities").await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&links(&answer)?);
        }
        Action::Unlink { which } => {
            let id = find(&service, &which).await?;
            let path = format!("/api/v1/identities/{id}");
            service.act(Method::DELETE, &path).await?;
            if screen.json {
                return screen.document(&json!({"data": {"unlinked": id}}));
            }
            screen.remark(&format!("unlinked {which}"));
        }
    }
    Ok(())
}

/// The id of a link that is named by its sender.
async fn find(service: &Service, which: &str) -> Result<String, Failure> {
    let Ok(sender) = sender(which) else {
        return Ok(which.to_owned());
    };
    let rows = read(&service.list("/api/v1/identities").await?)?;
    let mut found = rows
        .into_iter()
        .filter(|row| row.channel_type == sender.channel_type && row.sender_id == sender.id);
    let row = found.next().ok_or_else(|| {
        let message = format!("`{which}` is not linked; `hivewright identity list` shows who is");
        Failure::new(Exit::NotFound, message)
    })?;
    Ok(row.id)
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    channel_type: String,
    sender_id: String,
    token: String,
    live: bool,
    linked_by: String,
    linked_at: Option<String>,
}

fn read(answer: &Value) -> Result<Vec<Row>, Failure> {
    data(answer)
}

fn links(answer: &Value) -> Result<String, Failure> {
    let rows = read(answer)?.into_iter().map(|row| {
        let state = if row.live { "good" } else { "token ended" };
        [
            row.id,
            format!("{}:{}", row.channel_type, row.sender_id),
            row.token,
            state.to_owned(),
            row.linked_by,
            row.linked_at.as_deref().map(moment).unwrap_or_default(),
        ]
    });
    Ok(table(["ID", "SENDER", "TOKEN", "STATE", "BY", "SINCE"], rows))
}

#[cfg(test)]
mod tests {

    use super::*;

    /// OP-79, OP-84
    #[test]
    fn links_are_listed_in_columns() {
        let answer = json!({"data": [{
            "id": "identity-1", "channel_type": "discord", "sender_id": "42", "token": "alice",
            "live": false, "linked_by": "operator", "linked_at": null,
        }]});

        let expected = "\
ID          SENDER      TOKEN  STATE        BY        SINCE
identity-1  discord:42  alice  token ended  operator
";
        assert_eq!(links(&answer).unwrap(), expected);
    }
}
