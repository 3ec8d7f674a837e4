//! `hivewright identity`: senders of channels who are principals.

use super::trust::is_id;
use crate::{
    api::{
        endpoint::{ById, Empty},
        identities::{IdentityRow, LINK_IDENTITY, LIST_IDENTITIES, NewIdentity, UNLINK_IDENTITY},
        trust::Sender,
    },
    cli::{
        answer::Answer,
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, date},
    },
};
use clap::Subcommand;

/// Say which senders may decide on approvals in a chat
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright identity link discord:80351110224678912 alice\n  \
    hivewright identity list")]
pub(super) enum Action {
    /// Make a sender the holder of a token, for chatting and approving
    #[command(after_help = "Example:\n  hivewright identity link discord:80351110224678912 alice")]
    Link(NewIdentity),
    /// List the senders who are linked
    #[command(after_help = "Example:\n  hivewright identity list --json")]
    List,
    /// End a link at once
    #[command(aliases = ["delete", "remove", "rm"], after_help = "Example:\n  hivewright identity unlink discord:80351110224678912")]
    Unlink {
        /// The sender, or the id of the link
        #[arg(value_name = "TYPE:SENDER|ID")]
        which: String,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::Link(new) => {
            let linked = service.give(&LINK_IDENTITY, &new).await?;
            linked.tell(screen, |_| format!("{} is {} from now on", new.sender, new.token))
        }
        Action::List => rows(&service).await?.table(screen),
        Action::Unlink { which } => {
            let path = ById { id: find(&service, &which).await? };
            service.at(&UNLINK_IDENTITY, &path).await?;
            Answer::naming("unlinked", path.id).tell(screen, |_| format!("unlinked {which}"))
        }
    }
}

async fn rows(service: &Service) -> Result<Answer<Vec<IdentityRow>>, Failure> {
    service.all(&LIST_IDENTITIES, &Empty {}).await
}

/// The id of a link that is named by its sender.
async fn find(service: &Service, which: &str) -> Result<String, Failure> {
    if is_id(which) {
        return Ok(which.to_owned());
    }
    let Sender { channel_type, sender_id } = which.parse::<Sender>().map_err(Failure::usage)?;
    let rows = rows(service).await?.data()?;
    let is_meant =
        |row: &IdentityRow| row.channel_type == channel_type && row.sender_id == sender_id;
    let row = rows.into_iter().find(is_meant).ok_or_else(|| {
        let shows = "`hivewright identity list` shows who is";
        Failure::not_found(format!("`{which}` is not linked; {shows}"))
    })?;
    Ok(row.id)
}

columns!(IdentityRow {
    "ID" => |row| row.id.clone(),
    "SENDER" => |row| format!("{}:{}", row.channel_type, row.sender_id),
    "TOKEN" => |row| row.token.clone(),
    "STATE" => |row| if row.live { "good" } else { "token ended" }.to_owned(),
    "BY" => |row| row.linked_by.clone(),
    "SINCE" => |row| date(&row.linked_at),
});

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// OP-79, OP-84
    #[test]
    fn links_are_listed_in_columns() {
        let rows: Vec<IdentityRow> = serde_json::from_value(json!([{
            "id": "identity-1", "channel_type": "discord", "sender_id": "42", "token": "alice",
            "live": false, "linked_by": "operator", "linked_at": null,
        }]))
        .unwrap();

        let expected = "\
ID          SENDER      TOKEN  STATE        BY        SINCE
identity-1  discord:42  alice  token ended  operator
";
        assert_eq!(table::rows(&rows), expected);
    }
}
