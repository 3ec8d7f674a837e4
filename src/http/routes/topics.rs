//! `/api/v1/topics`: conversations of all channels.

use std::{collections::HashMap, time::Duration};

use hivewright_actors::{
    channel::records::ChannelRow,
    channel_type::ChannelType,
    clock::Timestamp,
    frame::TopicState,
    ids::{ChannelId, MAIN, TopicId},
    retention::EraseDeleted,
    router::{
        deleting::{DeleteTopic, NotDeleted},
        managing::{ChangeTopic, NotChanged, TopicPatch},
        records as conversations,
        topics::Topic,
    },
    storage::Storage,
    store::reads::{get, get_readable},
    task::{
        Lane,
        records::{self as tasks, OpenWork},
    },
};

use super::profiles;
use crate::{
    api::{endpoint::*, page::Sort, reply::*, topics::*},
    http::{
        kit::{ask::ask, audit_log, call::*, error::*, json, listing::Gathering, query::Page},
        state::State,
    },
};

/// By what a topic's state is told.
struct Activity {
    /// See [`work`].
    work: HashMap<TopicId, (usize, usize)>,
    now: Timestamp,
    idle_after: Duration,
}

/// How much work each topic has: waiting, running.
pub(super) fn work(open: &[OpenWork]) -> HashMap<TopicId, (usize, usize)> {
    let mut work: HashMap<_, (usize, usize)> = HashMap::new();
    for task in open {
        let Some(topic) = &task.lane.topic else { continue };
        let (queued, running) = work.entry(topic.clone()).or_default();
        if task.lease.is_some() && task.parked.is_none() { *running += 1 } else { *queued += 1 }
    }
    work
}

impl Activity {
    fn new(state: &State, open: &[OpenWork]) -> Self {
        let (now, idle_after) = (state.now(), state.service.topics_idle_after());
        Self { work: work(open), now, idle_after }
    }

    fn state(&self, row: &Topic) -> TopicState {
        row.state(self.now, self.work.contains_key(&row.id), self.idle_after)
    }

    fn shown(&self, channel: ChannelId, channel_type: ChannelType, row: Topic) -> TopicRow {
        let (queued, running) = self.work.get(&row.id).copied().unwrap_or_default();
        let lane = Lane { team: MAIN.into(), topic: Some(row.id.clone()) };
        TopicRow {
            state: self.state(&row),
            channel_type: channel_type.to_string(),
            channel_id: channel,
            name: row.name,
            pinned: row.pinned,
            created_at: json::date(row.created_at),
            last_activity: json::date(row.last_activity),
            queued,
            running: running > 0,
            profile: row.profile,
            session_id: lane.session_id(1),
            id: row.id,
        }
    }
}

/// The types of channels, as they are stored. The topics of a channel stand beside each other, so that one
/// is remembered.
struct ChannelTypes<'a> {
    storage: &'a dyn Storage,
    last: Option<(ChannelId, ChannelType)>,
}

impl ChannelTypes<'_> {
    fn of(&mut self, channel: &ChannelId) -> ChannelType {
        if let Some((last, found)) = &self.last
            && last == channel
        {
            return found.clone();
        }
        // Topics are stored with their channel; one that cannot be read is shown all the same.
        let row = get::<ChannelRow>(self.storage, channel).ok().flatten();
        let found = row.map(|row| row.channel_type).unwrap_or_default();
        self.last = Some((channel.clone(), found.clone()));
        found
    }
}

/// The wanted part of all topics. Holds no more of them than the page.
async fn part(
    state: &State,
    activity: Activity,
    page: Page,
    wanted: impl Fn((&ChannelId, &ChannelType), &Topic, TopicState) -> bool + Send + 'static,
) -> ApiResult<Rows<TopicRow>> {
    let rows = state.read(move |storage| {
        let mut gathering = Gathering::new(&page);
        let mut types = ChannelTypes { storage, last: None };
        conversations::each_topic(storage, &mut |channel, row| {
            let of = (&channel, &types.of(&channel));
            if wanted(of, &row, activity.state(&row)) {
                let value = match page.sort.field {
                    "name" => row.name.clone().into(),
                    "created_at" => row.created_at.0.into(),
                    _ => row.last_activity.0.into(),
                };
                gathering.see_by(value, &format!("{channel}\0{}", row.id));
            }
        })?;
        gathering.rows(&page, |name| {
            let Some((channel, topic)) = name.split_once('\0') else { return Ok(None) };
            let (channel, topic) = (ChannelId::from(channel), TopicId::from(topic));
            let row = get_readable::<Topic>(storage, &(&channel, &topic))?;
            let channel_type = types.of(&channel);
            Ok(row.map(|row| activity.shown(channel, channel_type, row)))
        })
    });
    rows.await
}

/// The open topics with the newest activity.
pub(super) async fn newest(
    state: &State,
    open: &[OpenWork],
    most: usize,
) -> ApiResult<Vec<TopicRow>> {
    let page = Page {
        list: String::new(),
        limit: most,
        offset: 0,
        sort: Sort { field: "last_activity", falling: true },
        after: None,
    };
    let activity = Activity::new(state, open);
    let rows = part(state, activity, page, |_, _, state| state != TopicState::Done);
    Ok(rows.await?.data)
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, TopicFilter>,
) -> ApiResult<Rows<TopicRow>> {
    caller.team(MAIN)?;
    let TopicFilter { channel, state: wanted, words } = query;
    let words = words.map(|words| words.to_lowercase());
    let activity = Activity::new(&state, &state.read(tasks::open_work).await?);
    let rows = part(&state, activity, page, move |(of, channel_type), topic, state| {
        let is_there =
            |channel: &String| of.as_str() == channel || channel_type.to_string() == *channel;
        let is_named = |words: &String| topic.name.to_lowercase().contains(words.as_str());
        channel.as_ref().is_none_or(is_there)
            && words.as_ref().is_none_or(is_named)
            && wanted.is_none_or(|wanted| wanted == state)
    });
    rows.await
}

async fn known(state: &State, id: &str) -> ApiResult<TopicRow> {
    let open = state.read(tasks::open_work).await?;
    let (activity, wanted) = (Activity::new(state, &open), TopicId::from(id));
    let found = state.read(move |storage| {
        let found = conversations::find_topic(storage, &wanted)?;
        let mut types = ChannelTypes { storage, last: None };
        Ok(found.map(|(channel, row)| {
            let channel_type = types.of(&channel);
            activity.shown(channel, channel_type, row)
        }))
    });
    found.await?.ok_or_else(|| ApiError::not_found(format!("there is no topic `{id}`")))
}

pub(super) async fn show(
    Call { state, caller, path, .. }: Call<ById>,
) -> ApiResult<Data<TopicRow>> {
    caller.team(MAIN)?;
    known(&state, &path.id).await.map(Data)
}

pub(super) async fn change(
    Call { state, caller, path: ById { id }, body: wish, .. }: Call<ById, Empty, TopicChange>,
) -> ApiResult<Data<TopicRow>> {
    caller.team(MAIN)?;
    profiles::check(&state, wish.profile.as_deref())?;
    let topic = known(&state, &id).await?;
    let change = ChangeTopic {
        channel: topic.channel_id,
        topic: topic.id,
        change: TopicPatch {
            name: wish.name,
            closed: wish.state.map(|wanted| wanted == WantedState::Done),
            pinned: wish.pinned,
            profile: wish.profile,
            ..TopicPatch::default()
        },
    };
    ask(&state.spine.router, change).await??;
    known(&state, &id).await.map(Data)
}

pub(super) async fn remove(
    Call { state, caller, path: ById { id }, request, .. }: Call<ById>,
) -> ApiResult<Done> {
    caller.team(MAIN)?;
    let topic = known(&state, &id).await?;
    let wish = DeleteTopic {
        channel: topic.channel_id,
        topic: topic.id,
        by: caller.principal.id.clone(),
        from: audit_log::origin(&state, &request),
    };
    ask(&state.spine.router, wish).await??;
    // It is deleted, whatever comes of this: what takes long, or breaks off, is removed later.
    if let Err(error) = ask(&state.spine.retention, EraseDeleted).await {
        tracing::warn!(
            topic = id,
            ?error,
            "a deleted topic is removed from the disk later than asked"
        );
    }
    Ok(Done)
}

impl From<NotDeleted> for ApiError {
    fn from(refusal: NotDeleted) -> Self {
        let message = refusal.to_string();
        match refusal {
            NotDeleted::Unknown => Self::not_found(message),
            NotDeleted::Busy(_) => Self::conflict_as("topic_busy", message),
            NotDeleted::Store => Self::internal(message),
        }
    }
}

impl From<NotChanged> for ApiError {
    fn from(refusal: NotChanged) -> Self {
        let message = refusal.to_string();
        match refusal {
            NotChanged::Unknown => Self::not_found(message),
            NotChanged::BadName => Self::invalid_as("name", "bad_topic_name", message),
            NotChanged::NameTaken => Self::conflict_as("bad_topic_name", message).about("name"),
            NotChanged::Store => Self::internal(message),
        }
    }
}

pub(super) async fn running(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> ApiResult<Data<Option<RunningTurn>>> {
    caller.team(MAIN)?;
    let topic = TopicId::from(id.as_str());
    let boot = state.spine.live.mark().boot;
    let turn = state.spine.live.turn_of(&topic);
    if turn.is_none() {
        known(&state, &id).await?;
    }
    Ok(Data(turn.map(|turn| RunningTurn::new(boot, turn))))
}
