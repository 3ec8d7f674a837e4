//! Words for another team than the main one: what they became is read once it has ended.

use std::cell::RefCell;

use hivewright_actors::{
    live::event::Kind,
    task::{Code, Ending},
};

use super::{
    Context,
    answer::Answer,
    delegated::Delegated,
    events::{Follower, Step},
    failure::Failure,
    service::Service,
};
use crate::api::{
    endpoint::{ById, Empty},
    events::EventFilter,
    messages::{MessageFilter, MessageReply, MessageRow, NewMessage, SEND_MESSAGE, SHOW_MESSAGE},
};

/// Says something to a team, and prints the answer and what came of it further.
pub(super) async fn run(
    team: &str,
    content: &str,
    files: Vec<String>,
    follows: bool,
    task: &RefCell<Option<String>>,
    context: &Context,
) -> Result<(), Failure> {
    let remember = |row: &MessageRow| {
        if let (Some(id), None) = (&row.task_id, &*task.borrow()) {
            context.screen.remark(&format!("· {id} of `{team}`"));
        }
        *task.borrow_mut() = row.task_id.as_ref().map(ToString::to_string);
    };
    let (answer, reply) = ask(team, content, files, remember, context).await?;
    let told = tell(&answer, reply, context);
    if !follows {
        return told;
    }
    let mut delegated = Delegated::new(context);
    let root = task.borrow().clone();
    delegated.below(root.unwrap_or_default());
    told.and(delegated.finish(None).await)
}

/// Says something to a team, and waits for the answer. `seen` is told what becomes of it meanwhile.
pub(super) async fn ask(
    team: &str,
    content: &str,
    files: Vec<String>,
    mut seen: impl FnMut(&MessageRow),
    context: &Context,
) -> Result<(Answer<MessageRow>, MessageReply), Failure> {
    let filter =
        EventFilter { team: Some(team.to_owned()), ..EventFilter::of([Kind::TaskChanged]) };
    // Opened before anything is said, so that the end is not missed.
    let mut follower = Follower::open(context, filter).await?;
    let words = NewMessage {
        content: content.to_owned(),
        team: Some(team.to_owned()),
        files,
        ..NewMessage::default()
    };
    let said = follower.service().give(&SEND_MESSAGE, &words).await?;
    let row = said.data()?;
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
        let row = answer.data()?;
        seen(&row);
        if let Some(reply) = row.reply {
            return Ok((answer, reply));
        }
    }
}

fn tell(
    answer: &Answer<MessageRow>,
    MessageReply { text, status, code }: MessageReply,
    context: &Context,
) -> Result<(), Failure> {
    let screen = context.screen;
    if status != Ending::Done {
        return Err(unanswered(&text, status, code));
    }
    answer.show(screen, |_| screen.harmless(&text) + "\n")
}

/// A message that ended badly.
pub(super) fn unanswered(text: &str, status: Ending, code: Option<Code>) -> Failure {
    let code = code.map_or(status.as_str(), |code| code.as_str());
    Failure::failed(format!("{text} ({code})"))
}
