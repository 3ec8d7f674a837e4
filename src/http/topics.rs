//! `/api/v1/topics`: conversations of all channels.

use std::{cmp::Reverse, collections::HashMap};

use actix_web::{http::StatusCode, web};
use hivewright_actors::{
    event::TopicState,
    ids::{ChannelId, MAIN, TopicId},
    router::{
        managing::{ChangeTopic, NotChanged},
        topics::Topic as Row,
    },
    store::reads::{self, OpenWork},
    task::Lane,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    State,
    approvals::{PATIENCE, ask, words},
    arguments::{Caller, Json, Operate, Read},
    error::ApiError,
    json, listing,
    operation::{Field, Operation},
    reply::{Clean, Data, Maybe, Rows},
    routes::{Resource, at},
    snapshot::Running,
};
use crate::vocabulary;

/// No list holds more than these, those with the newest activity.
const MOST: usize = 10_200;

const STATES: [(&str, TopicState); 3] = [
    ("active", TopicState::Active),
    ("idle", TopicState::Idle),
    ("done", TopicState::Done),
];

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/topics").get(
            Operation::new("Lists conversations of all channels.")
                .query(
                    const {
                        &[
                            Field::text(
                                "channel",
                                "Only of this channel, or of channels of this type.",
                            ),
                            Field::word("state", || words(&STATES), "Only in this state."),
                            Field::text("q", "Only with this in the name."),
                        ]
                    },
                )
                .pages(&["-last_activity", "-created_at", "name"]),
            list,
        ),
        at("/api/v1/topics/{id}/live").get(
            Operation::new("Shows the turn under way in a topic; null if there is none."),
            running,
        ),
        at("/api/v1/topics/{id}")
            .get(Operation::new("Shows a topic."), show)
            .patch(
                Operation::new("Renames a topic, closes it, or opens it again.")
                    .refuses(&[409])
                    .example(r#"{"name": "billing", "state": "done"}"#),
                change,
            ),
    ]
}

/// A topic as answers show it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(super) struct Topic {
    #[schema(value_type = String)]
    id: TopicId,
    #[schema(value_type = String)]
    channel_id: ChannelId,
    channel_type: String,
    name: String,
    #[schema(schema_with = vocabulary::of::<TopicState>)]
    state: TopicState,
    created_at: Option<String>,
    last_activity: Option<String>,
    /// Messages that wait in it.
    queued: usize,
    /// A turn runs in it.
    running: bool,
    session_id: String,
}

/// How much work each topic has: waiting, running.
type Work = HashMap<TopicId, (usize, usize)>;

fn work(open: &[OpenWork]) -> Work {
    let mut counts = Work::new();
    for task in open {
        if let Some(topic) = &task.lane.topic {
            let (queued, running) = counts.entry(topic.clone()).or_default();
            match task.lease.is_some() && task.parked.is_none() {
                true => *running += 1,
                false => *queued += 1,
            }
        }
    }
    counts
}

fn shown(state: &State, channel: ChannelId, row: Row, work: &Work) -> Topic {
    let (queued, running) = work.get(&row.id).copied().unwrap_or_default();
    let now = state.access.auth.now();
    let idle_after = state.service.topics_idle_after();
    let lane = Lane {
        team: MAIN.into(),
        topic: Some(row.id.clone()),
    };
    Topic {
        state: row.state(now, queued + running > 0, idle_after),
        channel_type: channel.channel_type().to_owned(),
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

/// All topics, newest activity first, as far as they are wanted.
async fn find(
    state: &web::Data<State>,
    open: &[OpenWork],
    wanted: impl Fn(&ChannelId, &Row) -> bool + Send + 'static,
) -> Result<Vec<Topic>, ApiError> {
    let rows = state.spine.store.read(move |storage| {
        let mut rows: Vec<(ChannelId, Row)> = Vec::new();
        reads::topics(storage, &mut |channel, topic| {
            if wanted(&channel, &topic) {
                rows.push((channel, topic));
                if rows.len() >= 2 * MOST {
                    keep_newest(&mut rows);
                }
            }
        })?;
        keep_newest(&mut rows);
        Ok(rows)
    });
    let work = work(open);
    let rows = rows.await.map_err(ApiError::internal)?.into_iter();
    Ok(rows
        .map(|(channel, row)| shown(state, channel, row, &work))
        .collect())
}

fn keep_newest(rows: &mut Vec<(ChannelId, Row)>) {
    rows.sort_by_key(|(_, topic)| Reverse(topic.last_activity));
    rows.truncate(MOST);
}

/// The open topics with the newest activity.
pub(super) async fn newest(
    state: &web::Data<State>,
    open: &[OpenWork],
    most: usize,
) -> Result<Vec<Topic>, ApiError> {
    let mut topics = find(state, open, |_, topic| !topic.closed).await?;
    topics.retain(|topic| topic.state != TopicState::Done);
    topics.truncate(most);
    Ok(topics)
}

async fn open_work(state: &State) -> Result<Vec<OpenWork>, ApiError> {
    let open = state.spine.store.read(reads::open_work).await;
    open.map_err(ApiError::internal)
}

/// Only the main team works in topics.
fn admit<R>(caller: &Caller<R>) -> Result<(), ApiError> {
    caller.team(MAIN)
}

async fn list(state: web::Data<State>, caller: Caller<Read>) -> Result<Rows<Topic>, ApiError> {
    admit(&caller)?;
    let query = &caller.query;
    let standing = query.word("state", &STATES);
    let channel = query.text("channel").map(str::to_owned);
    let words = query.text("q").map(str::to_lowercase);
    let page = query.page()?;
    let open = open_work(&state).await?;
    let mut topics = find(&state, &open, move |of, topic| {
        let is_there =
            |channel: &String| of.as_str() == channel || of.channel_type() == channel.as_str();
        let is_named = |words: &String| topic.name.to_lowercase().contains(words.as_str());
        channel.as_ref().is_none_or(is_there) && words.as_ref().is_none_or(is_named)
    })
    .await?;
    topics.retain(|topic| standing.is_none_or(|state| topic.state == state));
    listing::page(topics, &page, |topic| topic.id.to_string())
}

/// A topic by its id.
async fn known(state: &web::Data<State>, id: &str) -> Result<Topic, ApiError> {
    let open = open_work(state).await?;
    let wanted = TopicId::from(id);
    let mut found = find(state, &open, move |_, topic| topic.id == wanted).await?;
    found
        .pop()
        .ok_or_else(|| ApiError::not_found(format!("there is no topic `{id}`")))
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Data<Topic>, ApiError> {
    admit(&caller)?;
    known(&state, &id).await.map(Data)
}

/// The states that a topic can be given.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq, ToSchema)]
#[schema(as = TopicWish)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Active,
    Done,
}

#[derive(Deserialize, ToSchema)]
#[schema(as = TopicChange)]
struct Change {
    name: Option<String>,
    /// `done` closes it, `active` opens it again.
    state: Option<Wanted>,
}

async fn change(
    state: web::Data<State>,
    caller: Caller<Operate>,
    id: web::Path<String>,
    Json(wish): Json<Change>,
) -> Result<Data<Topic>, ApiError> {
    admit(&caller)?;
    let topic = known(&state, &id).await?;
    let change = ChangeTopic {
        channel: topic.channel_id,
        topic: topic.id,
        name: wish.name,
        closed: wish.state.map(|wanted| wanted == Wanted::Done),
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
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Clean<Maybe<Running>>, ApiError> {
    admit(&caller)?;
    let topic = TopicId::from(id.as_str());
    let boot = state.spine.live.mark().boot;
    let turn = state.spine.live.turn_of(&topic);
    if turn.is_none() {
        known(&state, &id).await?;
    }
    let turn = turn.map(|turn| Running::new(boot, turn));
    Ok(Clean::new(&state.secrets, Maybe(turn)))
}
