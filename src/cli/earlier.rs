//! Earlier conversations of the person: which one to go on with.

use clap::Args;
use hivewright_actors::{
    frame::TopicState,
    ids::{ChannelId, TopicId},
};

use super::{
    answer::Answer,
    client::Service,
    context::Context,
    failure::{Exit, Failure},
    table::{self, beginning, moment},
};
use crate::api::{
    endpoint::{ById, Empty},
    me::*,
    page::MOST_ROWS,
    when::Moment,
};

/// Among so many of the last things that were said and told the last messages are looked for.
const LOOKED_AT: usize = 20;
/// The same in a list, which shows one.
const FEW: usize = 3;
/// So many characters of a message are shown in a list.
const SHOWN: usize = 60;

// A doc comment here would become that of every command that has it.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub(super) struct Which {
    /// Go on with the newest conversation, wherever it was held
    #[arg(long = "continue", short = 'c')]
    pub(super) newest: bool,
    /// Go on with a topic, by its id; `hivewright topics list` has them
    #[arg(long, value_name = "ID", conflicts_with = "newest")]
    pub(super) topic: Option<String>,
}

/// A conversation that goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Earlier {
    pub(super) channel: ChannelId,
    /// What the channel told up to this number is in the store.
    pub(super) seq: u64,
    pub(super) topic: TopicId,
    pub(super) name: String,
    /// Something can be said in it.
    pub(super) is_open: bool,
    last_activity: Moment,
}

impl Which {
    /// The conversation that is meant; none if a new one is to begin.
    pub(super) async fn find(&self, context: &Context) -> Result<Option<Earlier>, Failure> {
        let found = match &self.topic {
            Some(id) => match first(context, |one| one.topic.as_str() == id).await? {
                Some(archived) if !archived.is_open => {
                    let reopen = context.command(&format!("topics reopen {id}"));
                    let message = format!("topic `{id}` is archived; {reopen} opens it again");
                    return Err(Failure::new(Exit::Conflict, message));
                }
                found => found,
            },
            None if self.newest => first(context, |one| one.is_open).await?,
            None => return Ok(None),
        };
        found.map(Some).ok_or_else(|| {
            let topics = context.command("topics list");
            Failure::not_found(match &self.topic {
                Some(id) => {
                    format!("none of your conversations has a topic `{id}`; {topics} lists them")
                }
                None => {
                    "there is no conversation to go on with; leave `--continue` out to begin one"
                        .to_owned()
                }
            })
        })
    }
}

/// The newest conversation that fits. Most people mean one of the first page.
pub(super) async fn first(
    context: &Context,
    fits: impl Fn(&Earlier) -> bool,
) -> Result<Option<Earlier>, Failure> {
    let service = Service::find(context)?;
    let mut cursor = None;
    loop {
        let (found, next) = page(&service, cursor).await?;
        if let Some(found) = found.into_iter().find(|earlier| fits(earlier)) {
            return Ok(Some(found));
        }
        match next {
            None => return Ok(None),
            next => cursor = next,
        }
    }
}

/// The newest conversations, each channel's together.
pub(super) async fn newest(context: &Context) -> Result<Vec<Earlier>, Failure> {
    let mut found = page(&Service::find(context)?, None).await?.0;
    found.retain(|earlier| earlier.is_open);
    found.sort_by_key(|earlier| std::cmp::Reverse(earlier.last_activity));
    Ok(found)
}

async fn page(
    service: &Service,
    cursor: Option<String>,
) -> Result<(Vec<Earlier>, Option<String>), Failure> {
    let filter = OwnChannelFilter::default();
    let answer = service.page(&LIST_OWN_CHANNELS, &Empty {}, &filter, MOST_ROWS, cursor).await?;
    let next = answer.document["next_cursor"].as_str().map(str::to_owned);
    let of_channel = |OwnChannel { id, seq, topics, .. }: OwnChannel| {
        topics.into_iter().map(move |OwnTopic { id: topic, name, last_activity, state, .. }| {
            let is_open = state != TopicState::Done;
            Earlier { channel: id.clone(), seq, topic, name, is_open, last_activity }
        })
    };
    Ok((answer.data()?.into_iter().flat_map(of_channel).collect(), next))
}

/// Conversations to choose from, each with its number, how much was said in it, and what last.
pub(super) async fn numbered(those: &[Earlier], context: &Context) -> Result<String, Failure> {
    let service = Service::find(context)?;
    let mut rows = Vec::new();
    for (place, earlier) in those.iter().enumerate() {
        let answer = said(earlier, FEW, &service).await?;
        let many = answer.document["total"].to_string();
        let last = messages(answer.data()?).next().map(|message| beginning(&message.text, SHOWN));
        let (number, moment) = ((place + 1).to_string(), moment(earlier.last_activity));
        rows.push([number, moment, many, earlier.name.clone(), last.unwrap_or_default()]);
    }
    Ok(table::table(["", "LAST", "MESSAGES", "NAME", "LAST MESSAGE"], rows))
}

/// The newest things that were said and told in it.
async fn said(
    earlier: &Earlier,
    many: usize,
    service: &Service,
) -> Result<Answer<Vec<ConversationItem>>, Failure> {
    let path = ById { id: earlier.topic.to_string() };
    service.page(&LIST_OWN_MESSAGES, &path, &SaidFilter::default(), many, None).await
}

fn messages(items: Vec<ConversationItem>) -> impl Iterator<Item = ConversationMessage> {
    items.into_iter().filter_map(|item| match item {
        ConversationItem::Message(message) => Some(message),
        ConversationItem::Notification(_) => None,
    })
}

/// The last messages of it, oldest first, and all that have not ended.
pub(super) async fn last_messages(
    earlier: &Earlier,
    many: usize,
    context: &Context,
) -> Result<Vec<ConversationMessage>, Failure> {
    let answer = said(earlier, LOOKED_AT, &Service::find(context)?).await?;
    let newest = messages(answer.data()?).enumerate();
    let shown = newest.filter(|(place, message)| *place < many || message.state.is_open());
    let mut shown: Vec<_> = shown.map(|(_, message)| message).collect();
    shown.reverse();
    Ok(shown)
}

/// What was answered so far.
pub(super) fn answer(message: &ConversationMessage) -> String {
    let answer = message.blocks.iter().filter_map(|block| match block {
        ConversationBlock::Text { text } => Some(text.as_str()),
        _ => None,
    });
    answer.collect::<Vec<_>>().join("\n\n")
}
