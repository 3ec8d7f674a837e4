//! `/api/v1/messages`: words to a team, and what became of them.

use std::time::Duration;

use actix_web::{http::StatusCode, web};
use hivewright_actors::{
    channel::records::ChannelRow,
    channel_type::ChannelType,
    frame::{BranchPoint, ErrorBody},
    ids::{ChannelId, MAIN, MessageId, TaskId, TeamKey},
    journal::{first_of_turn, records::Branch},
    live::{
        event::{Data as Details, Kind as Told},
        watch::{Filter, Watch},
    },
    org::record::TeamState,
    queue::{Placement, placement::FindPlacement, refusal::Refusal},
    router::{
        Accepted,
        gate::SILENT,
        posted_messages::{Fork, PostMessage, TopicChoice},
        records::MessageRow as StoredMessage,
        topics::Topic,
    },
    store::{reads::get, records::Writes},
    task::{Task, TaskState, outcome::Ending, records as tasks},
};
use tokio::time::Instant;

use super::{
    profiles,
    tasks::giving::{check_words, source_channel},
    teams::known_team,
};
use crate::{
    api::{endpoint::*, messages::*, reply::*, scope::Scope},
    files,
    http::{
        auth::authenticator::Principal,
        kit::{
            ask::{ANSWER_TIMEOUT, ask},
            call::*,
            error::*,
            middleware,
        },
        state::State,
    },
};

/// A team that has not decided by then what it does with a message lets it wait.
const PLACED_WITHIN: Duration = Duration::from_millis(500);

/// A message as it stands with its task.
fn row(message: MessageId, channel: ChannelId, task: Option<&Task>) -> MessageRow {
    let reply = task.and_then(|task| {
        let outcome = task.outcome.as_ref()?;
        let text = if outcome.text.is_empty() {
            outcome.message.clone().unwrap_or_default()
        } else {
            outcome.text.clone()
        };
        Some(MessageReply { text, status: outcome.ending, code: outcome.code })
    });
    MessageRow {
        message_id: message,
        channel_id: Some(channel),
        task_id: task.map(|task| task.id.clone()),
        topic_id: task.and_then(|task| task.lane.topic.clone()),
        state: task.map_or(TaskState::Accepted, Task::state),
        placement: None,
        wait_reason: None,
        reply,
    }
}

fn placed(row: MessageRow, placement: Option<Placement>) -> MessageRow {
    let wait_reason = match placement {
        Some(Placement::Waiting(reason)) => Some(reason),
        _ => None,
    };
    MessageRow { placement: placement.map(MessagePlacement::from), wait_reason, ..row }
}

/// The channel of whoever speaks over REST. A former version named it after the token's name, which
/// may be another's by now: such a channel is gone on with by the token that opened it only.
async fn own_channel(state: &State, principal: &Principal) -> ApiResult<ChannelId> {
    let owner = principal.owner();
    let own = ChannelId::from(format!("api:{}", owner.grant));
    if principal.is_operator() {
        return Ok(own);
    }
    let former = ChannelId::from(format!("api:{}", owner.principal));
    let of = former.clone();
    let row = state.read(move |storage| get::<ChannelRow>(storage, &of)).await?;
    if row.is_some_and(|row| row.belongs_to(&owner)) { Ok(former) } else { Ok(own) }
}

/// Of a task that the queue has no more: it has had its turn.
fn begun(task: &Task) -> Option<Placement> {
    (task.attempts > 0).then_some(Placement::Started)
}

/// A channel that the caller named.
fn named(field: &str, id: &str) -> ApiResult<ChannelId> {
    let reason = "expected 1 to 128 printable characters (384 bytes)";
    ChannelId::named(id).ok_or_else(|| ApiError::invalid_field(field, reason))
}

/// Where a task stood when that was decided. None is one that is no longer open.
async fn placement(state: &State, id: &TaskId) -> ApiResult<Option<Placement>> {
    let asked = state.spine.queue.send(FindPlacement { task: id.clone() });
    match tokio::time::timeout(PLACED_WITHIN, asked).await {
        Ok(placed) => Ok(placed?),
        Err(_late) => Ok(Some(Placement::NextTurn)),
    }
}

/// What a message is said to is named once.
fn check_target(words: &NewMessage) -> ApiResult<()> {
    if words.topic_id.is_some() && words.topic.is_some() {
        let reason = "name the topic by `topic_id` or by `topic`, not by both";
        return Err(ApiError::invalid_field("topic", reason));
    }
    let has_topic = words.topic_id.is_some() || words.topic.is_some();
    if words.instead_of.is_some() && (has_topic || words.team.is_some()) {
        let reason = "the topic follows from the message that it stands for";
        return Err(ApiError::invalid_field("instead_of", reason));
    }
    Ok(())
}

pub(super) async fn send(
    Call { state, caller, request, body: words, .. }: Call<Empty, Empty, NewMessage>,
) -> ApiResult<Progress<MessageRow>> {
    caller.team(words.team.as_deref().unwrap_or(MAIN))?;
    let upgrade = state.access.speaker(&request)?;
    if state.service.is_draining() {
        return Err(ApiError::draining());
    }
    check_target(&words)?;
    let files = state.file_store.named(&upgrade.principal.owner(), &words.files).await;
    let files = files.map_err(|error| ApiError::from(error).about("files"))?;
    let content = files::words(words.content, &files);
    check_words("content", &content)?;
    let until = Instant::now() + Duration::from_secs(words.wait_s);
    let waits = words.wait_s > 0;
    let notify = source_channel(&state, &upgrade.principal, &request).await?;
    // Opened before anything is said, so that nothing is missed.
    let mut fate = Fate::new(&state);
    profiles::check(&state, words.profile.as_deref())?;
    let profile = words.profile.filter(|profile| !profile.is_empty());
    let by_name = |name| {
        if words.untitled { TopicChoice::Words(name, profile) } else { TopicChoice::Name(name) }
    };
    let topic = words.topic_id.map(TopicChoice::Id).or(words.topic.map(by_name));
    let team = other_team(&state, &caller, words.team.as_deref(), topic.is_some())?;
    let message = state.org().ids.message();
    let own = match upgrade.channel_type {
        ChannelType::Cli => "cli".into(),
        _ => own_channel(&state, &upgrade.principal).await?,
    };
    let channel = match &words.channel_id {
        Some(id) => named("channel_id", id)?,
        None => own.clone(),
    };
    let topic = match words.instead_of {
        Some(message) => {
            Some(TopicChoice::Branch(fork(&state, channel.clone(), message).await?.into()))
        }
        None => topic,
    };
    let mut sender = upgrade.sender();
    if sender.channel_type == ChannelType::Ws {
        sender.channel_type = ChannelType::Api;
    }
    let say = PostMessage {
        may_open: channel == own,
        channel: channel.clone(),
        owner: upgrade.principal.owner(),
        sender,
        content: state.secrets.scrub_known(content.trim()),
        team,
        topic,
        id: message.clone(),
        notify,
        files,
    };
    let said = ask(&state.spine.router, say).await?.map_err(refused)?;
    let Accepted { task, reply, .. } = said;
    let Some(task) = task else {
        let reply = reply.map(|text| MessageReply { text, status: Ending::Done, code: None });
        let row = MessageRow { state: TaskState::Done, reply, ..row(message, channel, None) };
        return Ok(Progress { data: row, is_done: true });
    };
    let placement = placement(&state, &task).await?;
    let task = match placement {
        Some(_) => tokio::select! {
            known = fate.of(&task, waits, until) => known?,
            // Nobody waits for the end: the place of this request is for others.
            () = middleware::left(&request) => fate.of(&task, false, until).await?,
        },
        None => fate.ended(&task).await?,
    };
    let mut row = placed(row(message, channel, Some(&task)), placement.or(begun(&task)));
    // The end is told to those who waited for it; others hear that it was taken in.
    row.reply = row.reply.filter(|_| waits);
    let is_done = row.reply.is_some();
    Ok(Progress { data: row, is_done })
}

/// Where the topic of a message is left by one that stands for it.
async fn fork(state: &State, channel: ChannelId, message: String) -> ApiResult<Fork> {
    let (made_at, message_id) = (state.now(), MessageId::from(message));
    let found = state.read(move |storage| {
        let row = get::<StoredMessage>(storage, &(&channel, &message_id))?;
        let Some(task) = row.and_then(|row| row.task) else { return Ok(None) };
        let Some(task) = tasks::find(storage, &task)? else { return Ok(None) };
        let (session, before) = (task.lane_key().session_id(), first_of_turn(storage, &task)?);
        let Some((topic_id, before)) = task.lane.topic.zip(before) else { return Ok(None) };
        // The first message of a branch stands for the same as the new one.
        let branch = get::<Branch>(storage, &session)?.filter(|branch| branch.before == before);
        let topic = get::<Topic>(storage, &(&channel, &topic_id))?;
        let point = topic.and_then(|topic| topic.branch).zip(branch);
        if let Some((point, journal)) = point {
            let fork = Fork {
                point: BranchPoint { made_at, ..point },
                journal: Branch { at: made_at, ..journal },
            };
            return Ok(Some(fork));
        }
        let at = task.created_at;
        Ok(Some(Fork {
            point: BranchPoint { topic_id, message_id, at, made_at },
            journal: Branch { of: session, before, at: made_at },
        }))
    });
    let none = "no turn began with that message: say it anew";
    found.await?.ok_or_else(|| ApiError::conflict_as("no_turn", none).about("instead_of"))
}

/// Another team than the main one that words are for, which only operators may talk to.
fn other_team(
    state: &State,
    caller: &Caller,
    team: Option<&str>,
    has_topic: bool,
) -> ApiResult<Option<TeamKey>> {
    let Some(name) = team.filter(|name| *name != MAIN) else {
        return Ok(None);
    };
    if !caller.principal.may(Scope::Operate) {
        return Err(ApiError::forbidden(Scope::Operate));
    }
    if has_topic {
        let reason = "only the main team works in topics";
        return Err(ApiError::invalid_field("topic", reason));
    }
    let key = known_team(state, caller, name)?;
    match state.org().view.now().get(name) {
        Some(team) if team.state == TeamState::Draining => Err(Refusal::TeamDraining.into()),
        _ => Ok(Some(key)),
    }
}

/// Follows a task by what is told of it.
struct Fate {
    watch: Watch,
    state: web::Data<State>,
}

impl Fate {
    fn new(state: &web::Data<State>) -> Self {
        let filter = Filter { kinds: vec![Told::TaskChanged], ..Filter::default() };
        Self { watch: state.spine.live.watch(None, filter), state: state.clone() }
    }

    /// The task once it is stored, or once it has ended if that is waited for.
    async fn of(&mut self, id: &TaskId, waits: bool, until: Instant) -> ApiResult<Task> {
        let stored_by = Instant::now() + ANSWER_TIMEOUT;
        loop {
            let found = self.find(id).await?;
            let is_over = |task: &Task| task.outcome.is_some();
            let limit = match &found {
                Some(task) if !waits || is_over(task) || Instant::now() >= until => {
                    return Ok(task.clone());
                }
                Some(_) => until,
                // It may be stored yet, so that this is no refusal.
                None if Instant::now() >= stored_by => {
                    return Err(ApiError::internal("a message was not stored in time"));
                }
                None => stored_by,
            };
            // Out of time is seen above.
            let _late = tokio::time::timeout_at(limit, self.news_of(id)).await;
        }
    }

    /// A task that the queue does not have any more; or never had, if it was full.
    async fn ended(&self, id: &TaskId) -> ApiResult<Task> {
        // Behind whatever is on its way to the store.
        self.state.spine.store.commit(Writes::new()).await?;
        let full = || ApiError::queue_full("too much waits already; try again later");
        self.find(id).await?.ok_or_else(full)
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

    async fn find(&self, id: &TaskId) -> ApiResult<Option<Task>> {
        let id = id.clone();
        self.state.read(move |storage| tasks::find(storage, &id)).await
    }
}

fn refused(error: ErrorBody) -> ApiError {
    let message = error.error;
    match error.code.as_str() {
        "rate_limited" => ApiError::rate_limited(message),
        "not_authorized" | SILENT => {
            ApiError::new(StatusCode::FORBIDDEN, "not_authorized", message)
        }
        "unknown_topic" | "bad_topic_id" => ApiError::not_found(message).about("topic_id"),
        "topic_done" => ApiError::conflict_as("topic_done", message).about("topic_id"),
        "too_many_topics" => ApiError::conflict_as("too_many_topics", message),
        "bad_topic_name" => ApiError::invalid_as("topic", "bad_topic_name", message),
        "unknown_channel" => ApiError::not_found(message).about("channel_id"),
        "draining" => ApiError::draining(),
        "internal" => ApiError::internal(message),
        "disk_full" => ApiError::disk_full(),
        "topic_queue_full" | "team_queue_full" | "queue_full" => ApiError::queue_full(message),
        _ => ApiError::conflict(message),
    }
}

pub(super) async fn show(
    Call { state, caller, path, query, .. }: Call<ById, MessageFilter>,
) -> ApiResult<Data<MessageRow>> {
    let channel = match query.channel {
        Some(id) => named("channel", &id)?,
        None => own_channel(&state, &caller.principal).await?,
    };
    let message = MessageId::from(path.id);
    let (at, of) = (channel.clone(), message.clone());
    let found = state.read(move |storage| {
        let Some(row) = get::<StoredMessage>(storage, &(&at, &of))? else {
            // Messages to other teams bear the name of their task.
            let id = TaskId::from(of.as_str());
            let task = tasks::find(storage, &id)?;
            return Ok(task.map(Some));
        };
        match &row.task {
            Some(task) => Ok(Some(tasks::find(storage, task)?)),
            None => Ok(Some(None)),
        }
    });
    let is_reached = |task: &Option<Task>| {
        caller.reaches(task.as_ref().map_or(MAIN, |task| task.lane.team.as_str()))
    };
    let found = found.await?.filter(is_reached);
    let task = found.ok_or_else(|| ApiError::not_found("there is no such message"))?;
    let placement = match &task {
        Some(task) if task.outcome.is_none() => placement(&state, &task.id).await?,
        _ => None,
    };
    Ok(Data(placed(row(message, channel, task.as_ref()), placement)))
}
