//! Message to another team than the main one, and the wait for its answer.

use hivewright_actors::{
    ids::ChannelId,
    live::event::Kind,
    task::outcome::{Code, Ending},
};

use super::{
    channel_state::message_id,
    client::Service,
    context::Context,
    events::{Follower, Step},
    failure::Failure,
};
use crate::api::{
    endpoint::{ById, Empty},
    events::EventFilter,
    messages::{MessageFilter, MessageReply, MessageRow, NewMessage, SEND_MESSAGE, SHOW_MESSAGE},
};

/// Words for a team, which may be said again after a break: they are heard once.
#[derive(Clone, Debug)]
pub(super) struct TeamMessage {
    pub(super) team: String,
    content: String,
    files: Vec<String>,
    key: String,
}

impl TeamMessage {
    pub(super) fn new(team: &str, content: String, files: Vec<String>) -> Result<Self, Failure> {
        let key = message_id()?.to_string();
        Ok(Self { team: team.to_owned(), content, files, key })
    }

    /// Says it. The channel, the caller's own if none is named, hears what becomes of it.
    pub(super) async fn say(
        &self,
        channel: Option<&ChannelId>,
        service: &Service,
    ) -> Result<MessageRow, Failure> {
        let words = NewMessage {
            content: self.content.clone(),
            team: Some(self.team.clone()),
            files: self.files.clone(),
            channel_id: channel.map(ToString::to_string),
            ..NewMessage::default()
        };
        service.give_once(&SEND_MESSAGE, &words, &self.key).await?.data()
    }
}

/// Says something to a team, and waits for the answer. `seen` is told what it became.
pub(super) async fn ask(
    team: &str,
    content: &str,
    seen: impl FnOnce(&MessageRow),
    context: &Context,
) -> Result<MessageReply, Failure> {
    let filter =
        EventFilter { team: Some(team.to_owned()), ..EventFilter::of([Kind::TaskChanged]) };
    // Opened before anything is said, so that the end is not missed.
    let mut follower = Follower::open(context, filter).await?;
    let message = TeamMessage::new(team, content.to_owned(), Vec::new())?;
    let row = message.say(None, follower.service()).await?;
    seen(&row);
    let MessageRow { message_id, channel_id, task_id, .. } = row;
    let id = task_id.map(|task| task.to_string()).unwrap_or_default();
    let message = ById { id: message_id.to_string() };
    // It is known in the channel where it was said.
    let said_in = MessageFilter { channel: channel_id.map(|channel| channel.to_string()) };
    loop {
        match follower.next().await? {
            Step::Event { data, .. } if data["task_id"] != id => continue,
            Step::Event { .. } | Step::Begin => {}
        }
        let read = async |service: &Service| {
            service.call(&SHOW_MESSAGE, &message, &said_in, &Empty {}).await
        };
        let answer = follower.read(read).await?;
        if let Some(reply) = answer.data()?.reply {
            return Ok(reply);
        }
    }
}

/// A message that ended badly.
pub(super) fn unanswered(text: &str, status: Ending, code: Option<Code>) -> Failure {
    let code = code.map_or(status.as_str(), |code| code.as_str());
    Failure::failed(format!("{text} ({code})"))
}
