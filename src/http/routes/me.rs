//! `/api/v1/me`: the caller's own channels, and what was said there.

use std::{ops::ControlFlow, time::Duration};

use hivewright_actors::{
    channel::{
        outbox,
        records::{self as outboxes, ChannelRow},
    },
    clock::Timestamp,
    conversation_log::ConversationEntry,
    frame::{TopicRow, TopicState},
    identities::Owner,
    ids::{ChannelId, MAIN, TaskId, TopicId},
    router::{
        records::{self as conversations, ReadMark},
        topics::{STORE_INTERVAL, Topic, Topics},
    },
    storage::{Order, Storage, StorageError},
    store::reads::{Range, get, get_readable, parse, scan, scan_keyed},
    task::{
        DEADLINE, Kind, Lane, ended,
        query::TaskQuery,
        records::{self as tasks, LaneKey},
    },
};

use super::{teams::known_team, topics};
use crate::{
    api::{endpoint::*, me::*, reply::*, scope::Scope, when::Moment},
    http::kit::{
        call::*,
        error::*,
        listing::{self, Gathering},
        query::Page,
    },
    transcript::conversation::{self, Depth},
};

/// More than this is not counted in one topic.
const MOST_UNREAD: usize = 99;
/// The last answer is looked for among so many of the newest things.
const MOST_LOOKED_AT: usize = 50;
/// A channel is read again if something was told in it meanwhile, so often at most.
const MOST_READS: usize = 4;

/// What the rows of channels are made with.
struct Look<'a> {
    storage: &'a dyn Storage,
    owner: Owner,
    home: Option<ChannelId>,
    now: Timestamp,
    idle_after: Duration,
}

impl Look<'_> {
    /// The channels of the owner.
    fn channels(&self, filter: &OwnChannelFilter) -> Result<Vec<ChannelId>, StorageError> {
        if filter.home == Some(true) {
            return Ok(self.home.iter().cloned().collect());
        }
        let all = scan_keyed::<ChannelRow>(self.storage, Range::all())?.into_iter();
        let own = all.filter(|(_, row)| row.belongs_to(&self.owner)).map(|(id, _)| id);
        Ok(own.filter(|id| filter.home.is_none() || self.home.as_ref() != Some(id)).collect())
    }

    /// The topics of a channel, each with its last activity. Of one that is long over, as it was stored.
    fn topics(&self, channel: &ChannelId) -> Result<Vec<Topic>, StorageError> {
        let mut topics = scan::<Topic>(self.storage, Range::under(&(channel,)))?;
        let stored_by = self.now - STORE_INTERVAL;
        let may_go_on =
            |topic: &Topic| topic.state(stored_by, false, self.idle_after) != TopicState::Done;
        for topic in topics.iter_mut().filter(|topic| may_go_on(topic)) {
            let newest = newest(self.storage, topic.id.as_str())?;
            topic.last_activity = topic.last_activity.max(newest);
        }
        Ok(topics)
    }

    /// When the newest thing was said in a channel that has these topics.
    fn last_activity(&self, id: &ChannelId, topics: &[Topic]) -> Result<Timestamp, StorageError> {
        let told = newest(self.storage, id.as_str())?;
        Ok(topics.iter().map(|topic| topic.last_activity).fold(told, Timestamp::max))
    }

    fn row(&self, id: &str) -> Result<Option<OwnChannel>, StorageError> {
        let id = ChannelId::from(id);
        let Some(row) = get::<ChannelRow>(self.storage, &id)? else {
            return Ok(None);
        };
        let channel = settled(self.storage, &id, |seq| self.channel(&id, &row, seq))?;
        Ok(Some(channel))
    }

    fn channel(
        &self,
        id: &ChannelId,
        row: &ChannelRow,
        seq: u64,
    ) -> Result<OwnChannel, StorageError> {
        let work = topics::work(&tasks::open_work(self.storage)?);
        let all = self.topics(id)?;
        let last_activity = self.last_activity(id, &all)?;
        let all: Topics = all.into_iter().collect();
        let rows = all.rows(self.now, self.idle_after, |topic| {
            let (queued, running) = work.get(topic).copied().unwrap_or_default();
            (queued as u64, running > 0)
        });
        let mut topics = Vec::new();
        for row in rows {
            topics.push(self.topic(id, row)?);
        }
        let told = self.unread(id, id.as_str(), Timestamp::default(), last_activity)?;
        Ok(OwnChannel {
            home: self.home.as_ref() == Some(id),
            channel_type: row.channel_type.to_string(),
            last_activity: Moment(last_activity),
            unread: told + topics.iter().map(|topic| topic.unread).sum::<usize>(),
            seq,
            topics,
            id: id.clone(),
        })
    }

    fn topic(&self, channel: &ChannelId, row: TopicRow) -> Result<OwnTopic, StorageError> {
        // One of a former version has no mark, and counts as read.
        let all = Timestamp(u64::MAX);
        let unread = self.unread(channel, row.id.as_str(), all, row.last_activity)?;
        Ok((row, unread).into())
    }

    /// How much has come in a topic, or in a channel without one, since it was last read.
    fn unread(
        &self,
        channel: &ChannelId,
        place: &str,
        unmarked: Timestamp,
        last_activity: Timestamp,
    ) -> Result<usize, StorageError> {
        let key = (channel.clone(), place.to_owned());
        let mark = get_readable::<ReadMark>(self.storage, &key)?;
        let read = mark.map_or(unmarked, |ReadMark(until)| until);
        if last_activity + STORE_INTERVAL <= read {
            return Ok(0);
        }
        let (place, mut count) = (key.1, 0);
        let range = Range::<ConversationEntry>::under(&(&place,));
        // A message that was sent before may have ended since.
        let range = range.since(&(&place, read - DEADLINE));
        range.try_walk(self.storage, Order::Falling, &mut |key, entry| {
            let came = match (parse::<ConversationEntry>(key), entry) {
                (Some((_, at, _)), Ok(ConversationEntry::Notification(_))) => Some(at),
                (Some((_, _, id)), Ok(ConversationEntry::Message)) => answered(self.storage, &id)?,
                _ => None,
            };
            count += usize::from(came.is_some_and(|at| at > read));
            let is_enough = count == MOST_UNREAD;
            Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(count)
    }
}

/// When a message was answered.
fn answered(storage: &dyn Storage, id: &str) -> Result<Option<Timestamp>, StorageError> {
    let task = tasks::find(storage, &TaskId::from(id))?;
    Ok(task.and_then(|task| task.outcome).map(|outcome| outcome.finished_at))
}

/// When the newest thing was said or answered in a place: the same moments as frames tell.
fn newest(storage: &dyn Storage, place: &str) -> Result<Timestamp, StorageError> {
    let (place, mut seen, mut newest) = (place.to_owned(), 0, Timestamp::default());
    let range = Range::<ConversationEntry>::under(&(&place,));
    range.try_walk(storage, Order::Falling, &mut |key, entry| {
        let Some((_, at, id)) = parse::<ConversationEntry>(key) else {
            return Ok(ControlFlow::Continue(()));
        };
        let ended = match entry {
            Ok(ConversationEntry::Message) => answered(storage, &id)?,
            _ => None,
        };
        seen += 1;
        newest = newest.max(at).max(ended.unwrap_or(at));
        let is_enough = ended.is_some() || seen == MOST_LOOKED_AT;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(newest)
}

fn lane(topic: &TopicId) -> LaneKey {
    LaneKey { lane: Lane { team: MAIN.into(), topic: Some(topic.clone()) }, generation: 1 }
}

pub(super) async fn list_channels(
    Call { state, caller, query, page, .. }: Call<Empty, OwnChannelFilter>,
) -> ApiResult<Rows<OwnChannel>> {
    caller.team(MAIN)?;
    let owner = caller.principal.owner();
    let (now, idle_after) = (state.now(), state.service.topics_idle_after());
    let rows = state.read(move |storage| {
        let home = conversations::home(storage, &owner)?;
        let look = Look { storage, owner, home, now, idle_after };
        let mut gathering = Gathering::new(&page);
        for id in look.channels(&query)? {
            gathering.see(look.last_activity(&id, &look.topics(&id)?)?, id.as_str());
        }
        gathering.rows(&page, |id| look.row(id))
    });
    rows.await
}

/// What is read of a channel, with the newest number of its frames as it was before. Frames and what they tell of are one
/// commit, so if that number is the same afterwards, all that they tell up to it was there, and nothing of later ones.
fn settled<T>(
    storage: &dyn Storage,
    channel: &ChannelId,
    read: impl Fn(u64) -> Result<T, StorageError>,
) -> Result<T, StorageError> {
    let mut reads = 0;
    loop {
        let newest = outboxes::newest_ordinal(storage, channel)?;
        let found = read(outbox::seq(newest))?;
        reads += 1;
        if reads == MOST_READS || outboxes::newest_ordinal(storage, channel)? == newest {
            return Ok(found);
        }
    }
}

/// What was said in one place of a channel, if that is the owner's.
pub(in crate::http) fn said(
    storage: &dyn Storage,
    owner: &Owner,
    channel: &ChannelId,
    topic: Option<&TopicId>,
    before: Option<u64>,
    page: &Page,
    depth: Depth,
) -> Result<Option<Rows<ConversationItem>>, StorageError> {
    let row = get::<ChannelRow>(storage, channel)?;
    if !row.is_some_and(|row| row.belongs_to(owner)) {
        return Ok(None);
    }
    let place = topic.map_or_else(|| channel.to_string(), |topic| topic.to_string());
    // What belongs to no topic holds no messages, so that no journal is looked at.
    let lane = lane(topic.unwrap_or(&TopicId::from(channel.as_str())));
    let rows = settled(storage, channel, |seq| {
        let range = Range::<ConversationEntry>::under(&(&place,));
        let range = match before {
            Some(before) => range.until(&(&place, Timestamp(before))),
            None => range,
        };
        let entries = listing::scan(storage, range, page, |key, entry| {
            Some((parse::<ConversationEntry>(key)?, entry))
        })?;
        let Rows { data, total, next_cursor } = entries;
        let data = conversation::items(storage, &lane, seq, data, depth)?;
        Ok(Rows { data, total, next_cursor })
    });
    rows.map(Some)
}

fn depth(caller: &Caller) -> Depth {
    if caller.principal.may(Scope::Read) { Depth::Transcript } else { Depth::Frames }
}

pub(super) async fn list_messages(
    Call { state, caller, path: ById { id }, query, page, .. }: Call<ById, SaidFilter>,
) -> ApiResult<Rows<ConversationItem>> {
    caller.team(MAIN)?;
    let (owner, depth) = (caller.principal.owner(), depth(&caller));
    let topic = TopicId::from(id.as_str());
    let found =
        state.read(move |storage| match conversations::channel_of(storage, &owner, &topic)? {
            Some(channel) => {
                said(storage, &owner, &channel, Some(&topic), query.before, &page, depth)
            }
            None => Ok(None),
        });
    // Whether there is one of somebody else is nobody's business.
    found.await?.ok_or_else(|| ApiError::not_found(format!("you have no topic `{id}`")))
}

pub(super) async fn list_notifications(
    Call { state, caller, path: ById { id }, page, .. }: Call<ById>,
) -> ApiResult<Rows<ConversationItem>> {
    caller.team(MAIN)?;
    let (owner, depth) = (caller.principal.owner(), depth(&caller));
    let channel = ChannelId::from(id.as_str());
    let found =
        state.read(move |storage| said(storage, &owner, &channel, None, None, &page, depth));
    found.await?.ok_or_else(|| ApiError::not_found(format!("you have no channel `{id}`")))
}

/// The messages of an owner to a team, from all of their channels.
fn said_to(
    storage: &dyn Storage,
    owner: &Owner,
    team: &str,
    seq: u64,
    page: &Page,
    depth: Depth,
) -> Result<Rows<ConversationItem>, StorageError> {
    let wanted = TaskQuery {
        teams: Some(vec![team.into()]),
        kind: Some(Kind::Chat),
        sender: Some(owner.principal.to_string()),
        ..TaskQuery::default()
    };
    let mut gathering = Gathering::new(page);
    gathering.see_tasks(storage, &wanted, |_| {})?;
    let Rows { data, total, next_cursor } = gathering.rows(page, |id| {
        let Some(task) = ended::find_readable(storage, &TaskId::from(id))? else { return Ok(None) };
        let Some(source) = &task.source else { return Ok(None) };
        // The name may have been another's before.
        let row = get::<ChannelRow>(storage, &source.channel)?;
        Ok(row.is_some_and(|row| row.belongs_to(owner)).then_some(task))
    })?;
    let data = conversation::messages(storage, seq, data, depth)?;
    Ok(Rows { data, total, next_cursor })
}

pub(super) async fn list_team_messages(
    Call { state, caller, path: ByName { name }, page, .. }: Call<ByName>,
) -> ApiResult<Rows<ConversationItem>> {
    caller.team(&name)?;
    let (owner, depth) = (caller.principal.owner(), depth(&caller));
    let team = name.clone();
    let rows = state.read(move |storage| {
        let read = |seq| said_to(storage, &owner, &team, seq, &page, depth);
        match conversations::home(storage, &owner)? {
            Some(home) => settled(storage, &home, read),
            None => read(0),
        }
    });
    let rows = rows.await?;
    // One that is gone is known by what was said to it.
    if rows.total == 0 {
        known_team(&state, &caller, &name)?;
    }
    Ok(rows)
}
