//! `/api/v1/messages`: words to a team, and what became of them.

use std::time::Duration;

use actix_web::{Either, HttpRequest, http::StatusCode, web};
use hivewright_actors::{
    channel_type::ChannelType,
    event::ErrorBody,
    ids::{ChannelId, MAIN, MessageId, TaskId, TopicId},
    live::{
        event::{Data as Details, Kind as Told},
        watch::{Filter, Watch},
    },
    router::saying::{self, Say, Wanted},
    store::reads,
    task::{Kind, Options, Priority, Task},
};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{
    State,
    access::Upgrade,
    approvals::{PATIENCE, ask},
    arguments::{Caller, Chat, Json, Read},
    auth::scope::Scope,
    error::ApiError,
    operation::{Field, Operation},
    reply::{Accepted, Clean, Data},
    routes::{Resource, at},
    tasks::giving::{self, LONGEST, Work},
    teams::parts,
};

/// Nobody waits longer for an answer, in seconds.
const LONGEST_WAIT: u64 = 300;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        at("/api/v1/messages").post(
            Operation::new("Says something to a team.")
                .description(
                    "Answers once it is stored; with `wait_s` once there is a reply, if that comes in \
                     time. A `topic` is made if there is none of that name. Another team than the main \
                     one needs the scope `operate` too. `X-Source-Channel` names another channel that hears of \
                     the work; the answer stays here.",
                )
                .refuses(&[404, 409])
                .example(r#"{"content": "How are you?", "topic": "small talk", "wait_s": 20}"#),
            send,
        ),
        at("/api/v1/messages/{id}").get(
            Operation::new("Says what became of a message.").query(
                const {
                    &[Field::text(
                        "channel",
                        "Where it was said, unless that was here.",
                    )]
                },
            ),
            show,
        ),
    ]
}

#[derive(Deserialize, ToSchema)]
#[schema(as = NewMessage)]
struct Words {
    #[schema(min_length = 1, max_length = 100_000)]
    content: String,
    /// Without one it is the main team.
    team: Option<String>,
    topic_id: Option<String>,
    /// The name of a topic, instead of its id.
    topic: Option<String>,
    /// Where it is said; without one it is the channel of the caller.
    channel_id: Option<String>,
    /// How long to wait for the reply, in seconds.
    #[serde(default)]
    #[schema(maximum = 300)]
    wait_s: u64,
}

/// A message that has its reply, or one that goes on.
type Sent = Either<Clean<Data<Row>>, Clean<Accepted<Row>>>;

/// A message as answers show it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Message)]
struct Row {
    #[schema(value_type = String)]
    message_id: MessageId,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    channel_id: Option<ChannelId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    task_id: Option<TaskId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    topic_id: Option<TopicId>,
    state: String,
    /// Whether it started a turn, waits for one, or waits for something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    placement: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<Reply>,
}

/// The answer to a message.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = MessageReply)]
struct Reply {
    text: String,
    status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
}

impl Row {
    fn new(message: MessageId, channel: Option<ChannelId>, task: Option<&Task>) -> Self {
        let reply = task.and_then(|task| {
            let outcome = task.outcome.as_ref()?;
            let text = match outcome.text.is_empty() {
                true => outcome.message.clone().unwrap_or_default(),
                false => outcome.text.clone(),
            };
            Some(Reply {
                text,
                status: outcome.ending.as_str().to_owned(),
                code: outcome.code.map(|code| code.as_str()),
            })
        });
        let state = task.map_or("accepted", Task::state);
        Self {
            message_id: message,
            channel_id: channel,
            task_id: task.map(|task| task.id.clone()),
            topic_id: task.and_then(|task| task.lane.topic.clone()),
            placement: match state {
                "running" => Some("started"),
                "accepted" => Some("next_turn"),
                "waiting" => Some("waiting"),
                _ => None,
            },
            state: state.to_owned(),
            reply,
        }
    }
}

/// The channel of whoever speaks over REST.
fn own_channel(upgrade: &Upgrade) -> ChannelId {
    match upgrade.channel_type {
        ChannelType::Cli => "cli".into(),
        _ => format!("api:{}", upgrade.principal.id()).into(),
    }
}

async fn send(
    state: web::Data<State>,
    caller: Caller<Chat>,
    request: HttpRequest,
    Json(words): Json<Words>,
) -> Result<Sent, ApiError> {
    caller.team(words.team.as_deref().unwrap_or(MAIN))?;
    let upgrade = state.access.upgrade(&request)?;
    if state.service.is_draining() {
        return Err(ApiError::draining());
    }
    if words.content.trim().is_empty() || words.content.chars().count() > LONGEST {
        let reason = format!("expected 1 to {LONGEST} characters");
        return Err(ApiError::invalid_field("content", reason));
    }
    if words.wait_s > LONGEST_WAIT {
        let reason = format!("expected a whole number from 0 to {LONGEST_WAIT}");
        return Err(ApiError::invalid_field("wait_s", reason));
    }
    if words.topic_id.is_some() && words.topic.is_some() {
        let reason = "name the topic by `topic_id` or by `topic`, not by both";
        return Err(ApiError::invalid_field("topic", reason));
    }
    let until = Instant::now() + Duration::from_secs(words.wait_s);
    let waits = words.wait_s > 0;
    let notify = giving::source_channel(&state, &upgrade.principal, &request).await?;
    // Opened before anything is said, so that nothing is missed.
    let mut fate = Fate::new(&state);
    if words.team.as_deref().is_some_and(|team| team != MAIN) {
        return to_team(&state, &upgrade, words, notify, &mut fate, until).await;
    }
    let message = parts(&state)?.ids.message();
    let own = own_channel(&upgrade);
    let channel = words.channel_id.map_or(own, ChannelId::from);
    let mut sender = upgrade.sender();
    if sender.channel_type == ChannelType::Ws {
        sender.channel_type = ChannelType::Api;
    }
    let topic = words.topic_id.map(Wanted::Id);
    let said = state.spine.router.send(Say {
        channel: channel.clone(),
        principal: upgrade.principal.id().clone(),
        sender,
        content: state.secrets.scrub_known(words.content.trim()),
        topic: topic.or(words.topic.map(Wanted::Name)),
        id: message.clone(),
        notify,
    });
    let accepted = ask(said.timeout(PATIENCE).await)?.map_err(refused)?;
    let saying::Accepted { task, reply, .. } = accepted;
    let Some(task) = task else {
        let row = Row {
            state: "done".to_owned(),
            placement: None,
            reply: reply.map(|text| Reply {
                text,
                status: "done".to_owned(),
                code: None,
            }),
            ..Row::new(message, Some(channel), None)
        };
        return Ok(Either::Left(Clean::new(&state.secrets, Data(row))));
    };
    let task = fate.of(&task, waits, until).await?;
    let row = Row::new(message, Some(channel), Some(&task));
    Ok(answer(&state, row, waits))
}

/// Words for another team than the main one, which only operators have.
async fn to_team(
    state: &web::Data<State>,
    upgrade: &Upgrade,
    words: Words,
    notify: Option<ChannelId>,
    fate: &mut Fate,
    until: Instant,
) -> Result<Sent, ApiError> {
    if !upgrade.principal.may(Scope::Operate) {
        return Err(ApiError::forbidden(Scope::Operate));
    }
    if words.topic_id.is_some() || words.topic.is_some() {
        let reason = "only the main team works in topics";
        return Err(ApiError::invalid_field("topic", reason));
    }
    let work = Work {
        team: words.team.unwrap_or_default().into(),
        kind: Kind::Message,
        body: state.secrets.scrub_known(words.content.trim()),
        priority: Priority::Normal,
        deadline: None,
        options: Options::default(),
        source: notify,
    };
    let id = giving::give(state, &upgrade.principal, work, "content").await?;
    let task = fate.of(&id, words.wait_s > 0, until).await?;
    let message = MessageId::from(id.as_str());
    let row = Row::new(message, None, Some(&task));
    Ok(answer(state, row, words.wait_s > 0))
}

/// The end is told to those who waited for it; others hear that it was taken in.
fn answer(state: &State, mut row: Row, waits: bool) -> Sent {
    row.reply = row.reply.filter(|_| waits);
    match row.reply.is_some() {
        true => Either::Left(Clean::new(&state.secrets, Data(row))),
        false => Either::Right(Clean::new(&state.secrets, Accepted(row))),
    }
}

/// Follows a task by what is told of it.
struct Fate {
    watch: Watch,
    state: web::Data<State>,
}

impl Fate {
    fn new(state: &web::Data<State>) -> Self {
        let filter = Filter {
            kinds: vec![Told::TaskChanged],
            ..Filter::default()
        };
        Self {
            watch: state.spine.live.watch(None, filter),
            state: state.clone(),
        }
    }

    /// The task once it is stored, or once it has ended if that is waited for.
    async fn of(&mut self, id: &TaskId, waits: bool, until: Instant) -> Result<Task, ApiError> {
        let stored_by = Instant::now() + PATIENCE;
        loop {
            let found = self.find(id).await?;
            let is_over = |task: &Task| task.outcome.is_some();
            let limit = match &found {
                Some(task) if !waits || is_over(task) || Instant::now() >= until => {
                    return Ok(task.clone());
                }
                Some(_) => until,
                None if Instant::now() >= stored_by => {
                    return Err(ApiError::new(
                        StatusCode::SERVICE_UNAVAILABLE,
                        "queue_full",
                        "too much waits already; try again later",
                    ));
                }
                None => stored_by,
            };
            // Out of time is seen above.
            let _late = tokio::time::timeout_at(limit, self.news_of(id)).await;
        }
    }

    /// Waits until something is told of the task, or may have been.
    async fn news_of(&mut self, id: &TaskId) {
        while let Some(batch) = self.watch.next().await {
            let of_task = |data: &Details| matches!(data, Details::Task(task) if task.id == *id);
            let told = batch.events.iter().any(|told| of_task(&told.event.data));
            if told || batch.before.is_some() || batch.after.is_some() {
                return;
            }
        }
        // The service stops.
        std::future::pending().await
    }

    async fn find(&self, id: &TaskId) -> Result<Option<Task>, ApiError> {
        let id = id.clone();
        let found = self
            .state
            .spine
            .store
            .read(move |storage| reads::task(storage, &id));
        found.await.map_err(ApiError::internal)
    }
}

fn refused(error: ErrorBody) -> ApiError {
    let message = error.error;
    let conflict = |code| ApiError::new(StatusCode::CONFLICT, code, message.clone());
    match error.code.as_str() {
        "rate_limited" => ApiError::rate_limited(message),
        "not_authorized" => ApiError::new(StatusCode::FORBIDDEN, "not_authorized", message),
        "unknown_topic" | "bad_topic_id" => ApiError::not_found(message).about("topic_id"),
        "topic_done" => conflict("topic_done").about("topic_id"),
        "too_many_topics" => conflict("too_many_topics"),
        "bad_topic_name" => ApiError::invalid_as("topic", "bad_topic_name", message),
        "unknown_channel" => ApiError::not_found(message).about("channel_id"),
        "draining" => ApiError::draining(),
        "topic_queue_full" | "team_queue_full" | "queue_full" => {
            ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "queue_full", message)
        }
        _ => ApiError::conflict(message),
    }
}

async fn show(
    state: web::Data<State>,
    caller: Caller<Read>,
    id: web::Path<String>,
) -> Result<Clean<Data<Row>>, ApiError> {
    let own = format!("api:{}", caller.principal.id());
    let channel = ChannelId::from(caller.query.text("channel").unwrap_or(&own));
    let message = MessageId::from(id.as_str());
    let (at, of) = (channel.clone(), message.clone());
    let found = state.spine.store.read(move |storage| {
        let Some(row) = reads::message(storage, &at, &of)? else {
            // Messages to other teams bear the name of their task.
            let id = TaskId::from(of.as_str());
            let task = reads::task(storage, &id)?;
            return Ok(task.map(Some));
        };
        match &row.task {
            Some(task) => Ok(Some(reads::task(storage, task)?)),
            None => Ok(Some(None)),
        }
    });
    let found = found.await.map_err(ApiError::internal)?;
    let is_reached = |task: &Option<Task>| {
        let team = task.as_ref().map_or(MAIN, |task| task.lane.team.as_str());
        caller.reaches(team)
    };
    let task = found
        .filter(is_reached)
        .ok_or_else(|| ApiError::not_found("there is no such message"))?;
    let row = Row::new(message, Some(channel), task.as_ref());
    Ok(Clean::new(&state.secrets, Data(row)))
}
