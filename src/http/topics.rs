//! `/api/v1/topics`: conversations of all channels.

use std::{collections::HashMap, time::Duration};

use actix_web::{http::StatusCode, web};
use hivewright_actors::{
    channel::records::ChannelRow,
    channel_type::ChannelType,
    clock::Timestamp,
    frame::TopicState,
    ids::{ChannelId, MAIN, TopicId},
    router::{
        managing::{ChangeTopic, NotChanged},
        records as conversations,
        topics::Topic,
    },
    storage::Storage,
    store::reads::get,
    task::{
        Lane,
        records::{self as tasks, OpenWork},
    },
};

use super::{
    State,
    approvals::{PATIENCE, ask},
    call::Call,
    caller::Caller,
    error::ApiError,
    json,
    listing::Gathering,
    query::Page,
    reply::Clean,
    routes::{Resource, on},
};
use crate::api::{
    endpoint::{ById, Empty},
    page::Sort,
    reply::{Data, Rows},
    topics::{
        CHANGE_TOPIC, LIST_TOPICS, RunningTurn, SHOW_RUNNING_TURN, SHOW_TOPIC, TopicChange,
        TopicFilter, TopicRow, WantedState,
    },
};

pub(super) fn resources() -> Vec<Resource> {
    vec![
        on(&LIST_TOPICS, list),
        on(&SHOW_RUNNING_TURN, running),
        on(&SHOW_TOPIC, show).on(&CHANGE_TOPIC, change),
    ]
}

/// How much work each topic has: waiting, running.
type Work = HashMap<TopicId, (usize, usize)>;

fn work(open: &[OpenWork]) -> Work {
    let mut counts = Work::new();
    for task in open {
        if let Some(topic) = &task.lane.topic {
            let (queued, running) = counts.entry(topic.clone()).or_default();
            if task.lease.is_some() && task.parked.is_none() { *running += 1 } else { *queued += 1 }
        }
    }
    counts
}

/// By what a topic's state is told.
#[derive(Clone)]
struct Standing {
    work: Work,
    now: Timestamp,
    idle_after: Duration,
}

impl Standing {
    fn new(state: &State, open: &[OpenWork]) -> Self {
        Self {
            work: work(open),
            now: state.access.auth.now(),
            idle_after: state.service.topics_idle_after(),
        }
    }

    fn state(&self, row: &Topic) -> TopicState {
        let busy = self.work.contains_key(&row.id);
        row.state(self.now, busy, self.idle_after)
    }

    fn shown(&self, channel: ChannelId, channel_type: ChannelType, row: Topic) -> TopicRow {
        let (queued, running) = self.work.get(&row.id).copied().unwrap_or_default();
        let lane = Lane { team: MAIN.into(), topic: Some(row.id.clone()) };
        TopicRow {
            state: self.state(&row),
            channel_type: channel_type.to_string(),
            channel_id: channel,
            name: row.name,
            created_at: json::date(row.created_at),
            last_activity: json::date(row.last_activity),
            queued,
            running: running > 0,
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
    standing: Standing,
    page: Page,
    wanted: impl Fn((&ChannelId, &ChannelType), &Topic, TopicState) -> bool + Send + 'static,
) -> Result<Rows<TopicRow>, ApiError> {
    let rows = state.spine.store.read(move |storage| {
        let name = |channel: &ChannelId, row: &Topic| format!("{channel}\0{}", row.id);
        let mut gathering = Gathering::new(&page);
        let mut types = ChannelTypes { storage, last: None };
        conversations::each_topic(storage, &mut |channel, row| {
            let of = (&channel, &types.of(&channel));
            if wanted(of, &row, standing.state(&row)) {
                let value = match page.sort.field {
                    "name" => row.name.clone().into(),
                    "created_at" => row.created_at.0.into(),
                    _ => row.last_activity.0.into(),
                };
                gathering.see_by(value, &name(&channel, &row));
            }
        })?;
        let mut found: HashMap<String, Option<TopicRow>> = HashMap::new();
        let places = gathering.rows(&page, |id| {
            found.insert(id.to_owned(), None);
            Ok(Some(id.to_owned()))
        })?;
        conversations::each_topic(storage, &mut |channel, row| {
            if let Some(place) = found.get_mut(&name(&channel, &row)) {
                let channel_type = types.of(&channel);
                *place = Some(standing.shown(channel, channel_type, row));
            }
        })?;
        let data = places.data.iter().filter_map(|id| found.remove(id)?);
        Ok(Rows { data: data.collect(), total: places.total, next_cursor: places.next_cursor })
    });
    rows.await.map_err(ApiError::internal)
}

/// The open topics with the newest activity.
pub(super) async fn newest(
    state: &web::Data<State>,
    open: &[OpenWork],
    most: usize,
) -> Result<Vec<TopicRow>, ApiError> {
    let page = Page {
        list: String::new(),
        limit: most,
        offset: 0,
        sort: Sort { field: "last_activity", falling: true },
        after: None,
    };
    let standing = Standing::new(state, open);
    let rows = part(state, standing, page, |_, _, state| state != TopicState::Done);
    let rows = rows.await?;
    Ok(rows.data)
}

async fn open_work(state: &State) -> Result<Vec<OpenWork>, ApiError> {
    let open = state.spine.store.read(tasks::open_work).await;
    open.map_err(ApiError::internal)
}

/// Only the main team works in topics.
fn admit(caller: &Caller) -> Result<(), ApiError> {
    caller.team(MAIN)
}

async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, TopicFilter>,
) -> Result<Rows<TopicRow>, ApiError> {
    admit(&caller)?;
    let TopicFilter { channel, state: standing, words } = query;
    let words = words.map(|words| words.to_lowercase());
    let open = open_work(&state).await?;
    let by = Standing::new(&state, &open);
    let rows = part(&state, by, page, move |(of, channel_type), topic, state| {
        let is_there =
            |channel: &String| of.as_str() == channel || channel_type.to_string() == *channel;
        let is_named = |words: &String| topic.name.to_lowercase().contains(words.as_str());
        channel.as_ref().is_none_or(is_there)
            && words.as_ref().is_none_or(is_named)
            && standing.is_none_or(|wanted| wanted == state)
    });
    rows.await
}

async fn known(state: &web::Data<State>, id: &str) -> Result<TopicRow, ApiError> {
    let open = open_work(state).await?;
    let (standing, wanted) = (Standing::new(state, &open), TopicId::from(id));
    let found = state.spine.store.read(move |storage| {
        let mut found = None;
        let mut types = ChannelTypes { storage, last: None };
        conversations::each_topic(storage, &mut |channel, row| {
            if row.id == wanted {
                let channel_type = types.of(&channel);
                found = Some(standing.shown(channel, channel_type, row));
            }
        })?;
        Ok(found)
    });
    let found = found.await.map_err(ApiError::internal)?;
    found.ok_or_else(|| ApiError::not_found(format!("there is no topic `{id}`")))
}

async fn show(Call { state, caller, path, .. }: Call<ById>) -> Result<Data<TopicRow>, ApiError> {
    admit(&caller)?;
    known(&state, &path.id).await.map(Data)
}

async fn change(
    Call { state, caller, path: ById { id }, body: wish, .. }: Call<ById, Empty, TopicChange>,
) -> Result<Data<TopicRow>, ApiError> {
    admit(&caller)?;
    let topic = known(&state, &id).await?;
    let change = ChangeTopic {
        channel: topic.channel_id,
        topic: topic.id,
        name: wish.name,
        closed: wish.state.map(|wanted| wanted == WantedState::Done),
    };
    let changed = state.spine.router.send(change).timeout(PATIENCE).await;
    ask(changed)?.map_err(|refusal| refused(&refusal))?;
    known(&state, &id).await.map(Data)
}

fn refused(refusal: &NotChanged) -> ApiError {
    let message = refusal.to_string();
    match refusal {
        NotChanged::Unknown => ApiError::not_found(message),
        NotChanged::BadName => ApiError::invalid_as("name", "bad_topic_name", message),
        NotChanged::NameTaken => {
            ApiError::new(StatusCode::CONFLICT, "bad_topic_name", message).about("name")
        }
        NotChanged::TooMany(_) => {
            ApiError::new(StatusCode::CONFLICT, "too_many_topics", message).about("state")
        }
        NotChanged::Store => ApiError::internal(message),
    }
}

async fn running(
    Call { state, caller, path: ById { id }, .. }: Call<ById>,
) -> Result<Clean<Data<Option<RunningTurn>>>, ApiError> {
    admit(&caller)?;
    let topic = TopicId::from(id.as_str());
    let boot = state.spine.live.mark().boot;
    let turn = state.spine.live.turn_of(&topic);
    if turn.is_none() {
        known(&state, &id).await?;
    }
    let turn = turn.map(|turn| RunningTurn::new(boot, turn));
    Ok(Clean::new(&state.secrets, Data(turn)))
}
