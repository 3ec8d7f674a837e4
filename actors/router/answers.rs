//! Answers of the router about messages: acks, refusals, responses to commands, what became of a repeat.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Accepted, Router, audit::AuditRow, main_lane};
use crate::{
    channel::{
        outbox,
        records::{self as outboxes, OutboxWrites},
    },
    clock::Timestamp,
    excerpt,
    frame::{Ack, Body, ErrorBody, FRAME_TEXT, Frame, Progress, ProgressKind, Response},
    ids::{ChannelId, MessageId, TopicId},
    journal::records::Branch,
    queue::{ACK_AFTER, schedule::Full},
    router::records::{MessageRow, Undecided},
    storage::{Storage, StorageError},
    store::records::{Writes, digest},
    task::{
        Task, TopicRef, ending,
        outcome::Ending,
        records::{self as tasks, LaneKey},
    },
};

impl Router {
    /// Tells whoever sent something that nothing was accepted: the request that waits for it, or the connection that
    /// it came over. The others of the channel never heard of it.
    pub(super) fn refuse(&mut self, channel: &ChannelId, error: ErrorBody) {
        if let Some(id) = &error.message_id
            && self.settle(channel, id, Err(error.clone()))
        {
            return;
        }
        self.answer(channel, self.speaking(channel), None, Body::Error(error));
    }

    /// What makes a message known, and its channel if this is its first.
    pub(super) fn accept(&mut self, message: &Undecided, task: Option<&Task>) -> Writes {
        let mut writes = Writes::new();
        let channel = &message.channel;
        let Some(conversation) = self.conversations.get_mut(channel) else { return writes };
        if !conversation.stored {
            conversation.stored = true;
            writes = writes.put_at(channel, &conversation.row);
        }
        if conversation.is_shared() && !message.told {
            let source = task.and_then(|task| task.source.as_ref());
            let named = || {
                let topic = conversation.topics.get(message.topic.as_deref()?)?;
                Some(TopicRef { id: topic.id.clone(), name: topic.name.clone() })
            };
            let topic = source.and_then(|source| source.topic.clone()).or_else(named);
            writes = writes.frame(channel, user_message(message, topic));
        }
        // Nobody can send a message again whose name we made.
        if !message.named {
            return writes;
        }
        let task = task.map(|task| task.id.clone());
        let row = MessageRow { digest: said(message), at: message.at, task };
        conversation.known.insert(message.id.clone(), row.clone());
        writes.put_at(&(channel.clone(), message.id.clone()), &row)
    }

    /// Messages of a former process that still have no topic are told that they are not forgotten.
    pub(super) fn expect_acks(&self, channel: &ChannelId, ctx: &mut Context<Self>) {
        let conversation = self.conversations.get(channel);
        let waiting = conversation.into_iter().flat_map(|found| &found.deciding);
        for message in waiting.filter(|message| !message.acked) {
            self.expect_ack(message, ctx);
        }
    }

    /// A message is acknowledged with a null topic if that takes long to be found out.
    pub(super) fn expect_ack(&self, message: &Undecided, ctx: &mut Context<Self>) {
        let pause = (message.at + ACK_AFTER).since(self.to.clock.now());
        let (channel, id) = (message.channel.clone(), message.id.clone());
        ctx.run_later(pause, move |router, ctx| router.acknowledge(&channel, &id, ctx));
    }

    fn acknowledge(&mut self, channel: &ChannelId, id: &MessageId, ctx: &mut Context<Self>) {
        let now = self.to.clock.now();
        let conversation = self.conversations.get_mut(channel);
        let mut waiting = conversation.into_iter().flat_map(|found| &mut found.deciding);
        let Some(message) = waiting.find(|message| message.id == *id) else { return };
        message.acked = true;
        let accepted_at = Some(message.at);
        let body = Body::Ack(Ack { accepted_at, ..Ack::new(ending::WORKING, id.clone()) });
        let writes =
            Writes::new().put(message).frame(channel, Frame { topic: None, ts: now, body });
        self.commit(writes, ctx);
    }

    /// The queue has no room for a message: that is its end, and it may be sent again.
    pub(super) fn queue_refused(&mut self, task: &Task, full: Full, ctx: &mut Context<Self>) {
        let Some(source) = &task.source else { return };
        if let Some(id) = &source.message {
            // What was to be stored with the task is not: the channel may have been part of it.
            let mut writes = Writes::new()
                .delete::<Undecided>(&(&source.channel, id))
                .put_all(&AuditRow::of_task(task));
            if let Some(conversation) = self.conversations.get(&source.channel) {
                writes = writes.put_at(&source.channel, &conversation.row);
            }
            if let Some(topic) = &source.topic {
                writes = writes.and(self.unsaid(&source.channel, &topic.id, task.created_at));
            }
            // Whoever sent it may have been told which task it is.
            let task_id = Some(task.id.clone());
            let error = ErrorBody { task_id, ..full_error(full).about(id.clone()) };
            self.end_unheard(&source.channel, id, error, writes, ctx);
        }
    }

    /// A message is not said in its topic after all. One that it would have begun is forgotten; of another one the row, which
    /// may have been part of what is not stored.
    fn unsaid(&mut self, channel: &ChannelId, id: &TopicId, said_at: Timestamp) -> Writes {
        let Some(conversation) = self.conversations.get_mut(channel) else { return Writes::new() };
        let Some(topic) = conversation.topics.get(id.as_str()) else { return Writes::new() };
        if topic.created_at >= said_at && !conversation.has_open_work(id) {
            return self.forget_topic(channel, id);
        }
        Writes::new().put_at(&topic.key(channel), topic)
    }

    /// A topic in which nothing was said is gone, as if it had never been opened.
    pub(super) fn forget_topic(&mut self, channel: &ChannelId, id: &TopicId) -> Writes {
        if let Some(conversation) = self.conversations.get_mut(channel) {
            conversation.topics.remove(id);
            conversation.stored_topics.remove(id);
            conversation.read.remove(id.as_str());
        }
        let session = LaneKey::new(&main_lane(id.clone()), 1).session_id();
        Writes::new().delete::<Branch>(&session)
    }

    /// A message ends without having been work. It may be sent again.
    pub(super) fn end_unheard(
        &mut self,
        channel: &ChannelId,
        id: &MessageId,
        error: ErrorBody,
        writes: Writes,
        ctx: &mut Context<Self>,
    ) {
        if let Some(conversation) = self.conversations.get_mut(channel) {
            conversation.known.remove(id);
        }
        self.settle(channel, id, Err(error.clone()));
        let frame = Frame { topic: None, ts: self.to.clock.now(), body: Body::Error(error) };
        let writes = writes.delete::<MessageRow>(&(channel, id)).frame(channel, frame);
        self.commit(writes, ctx);
    }

    /// A message is cancelled before it was work.
    pub(super) fn end_cancelled(
        &mut self,
        message: &Undecided,
        topic: Option<TopicRef>,
        ctx: &mut Context<Self>,
    ) {
        let (channel, id, ts) = (&message.channel, message.id.clone(), self.to.clock.now());
        let error = ErrorBody::refusal("cancelled", "it was cancelled before its turn came");
        self.settle(channel, &id, Err(error.about(id.clone())));
        let mut writes = Writes::new().delete::<Undecided>(&(channel, &id));
        if !message.acked {
            let accepted_at = Some(message.at);
            let body = Body::Ack(Ack { accepted_at, ..Ack::new(ending::WORKING, id.clone()) });
            writes = writes.frame(channel, Frame { topic: topic.clone(), ts, body });
        }
        let body = Body::Response(Response {
            status: Ending::Cancelled.as_str().to_owned(),
            ..Response::new(String::new(), id)
        });
        let writes = writes.frame(channel, Frame { topic, ts, body });
        self.commit_for(channel, writes.and(self.audited(message)), ctx);
    }

    /// A message that is known is not run again: its sender hears what became of it.
    pub(super) fn repeated(
        &mut self,
        message: &Undecided,
        known: MessageRow,
        ctx: &mut Context<Self>,
    ) {
        let (channel, id) = (message.channel.clone(), message.id.clone());
        self.commit(self.audited(message), ctx);
        if known.digest != said(message) {
            let error = "another message was sent under this `message_id`";
            let error = ErrorBody::refusal("message_id_conflict", error);
            return self.refuse_repeat(&channel, self.speaking(&channel), id, error);
        }
        let conversation = self.conversations.get(&channel);
        let undecided =
            conversation.is_some_and(|found| found.deciding.iter().any(|waiting| waiting.id == id));
        let (of, named, asker) = (channel.clone(), id.clone(), self.speaking(&channel));
        let read = self.to.store.read(move |storage| fate(storage, &of, &named, &known, undecided));
        ctx.spawn(read.into_actor(self).map(move |found, router, _| match found {
            Ok(fate) => router.tell_repeated(&channel, asker, id, fate),
            Err(error) => {
                tracing::error!(%channel, %error, "what became of a repeated message cannot be looked up; its sender is told");
                let error = "what became of this message cannot be looked up; send it again";
                let error = ErrorBody::refusal("internal", error);
                router.refuse_repeat(&channel, asker, id, error);
            }
        }));
    }

    /// Tells whoever sent a message again that it is refused.
    fn refuse_repeat(
        &mut self,
        channel: &ChannelId,
        asker: Option<u64>,
        id: MessageId,
        error: ErrorBody,
    ) {
        let error = error.about(id.clone());
        if !self.settle_repeat(channel, &id, Err(error.clone())) {
            self.answer(channel, asker, None, Body::Error(error));
        }
        self.put_away_if_idle(channel);
    }

    fn tell_repeated(
        &mut self,
        channel: &ChannelId,
        asker: Option<u64>,
        id: MessageId,
        fate: Fate,
    ) {
        let Fate { status, response_seq, task } = fate;
        let task_id = task.as_ref().map(|task| task.id.clone());
        let accepted = Accepted {
            message: id.clone(),
            task: task_id.clone(),
            topic: task.as_ref().and_then(|task| task.lane.topic.clone()),
            reply: None,
            duplicate: true,
        };
        self.settle_repeat(channel, &id, Ok(accepted));
        self.put_away_if_idle(channel);
        let ack = Ack {
            task_id,
            duplicate: Some(true),
            status: Some(status.to_owned()),
            response_seq,
            team: task.as_ref().and_then(Task::other_team),
            accepted_at: task.as_ref().map(|task| task.created_at),
            ..Ack::new("This message is known already.", id)
        };
        let topic = task.and_then(|task| task.source).and_then(|source| source.topic);
        self.answer(channel, asker, topic, Body::Ack(ack));
    }

    /// A command has been carried out: one response, no ack.
    pub(super) fn respond(
        &mut self,
        message: &Undecided,
        content: String,
        writes: Writes,
        ctx: &mut Context<Self>,
    ) {
        let channel = &message.channel;
        let reply = Some(content.clone());
        let (message_id, duplicate) = (message.id.clone(), false);
        let accepted = Accepted { message: message_id, task: None, topic: None, reply, duplicate };
        self.settle(channel, &message.id, Ok(accepted));
        let body = Body::Response(Response::new(content, message.id.clone()));
        let frame = Frame { topic: None, ts: self.to.clock.now(), body };
        let accepted = self.accept(message, None).and(self.audited(message));
        self.commit_for(channel, accepted.and(writes).frame(channel, frame), ctx);
    }
}

/// Stands for what a message says, with its files.
fn said(message: &Undecided) -> u64 {
    let mut said = message.content.clone();
    for row in &message.files {
        said.push('\0');
        said.push_str(row.file.id.as_str());
    }
    digest(&said)
}

/// A message, for the other connections of its channel, with its topic if that is known by now.
fn user_message(message: &Undecided, topic: Option<TopicRef>) -> Frame {
    let (content, truncated) =
        excerpt::framed(&message.content, FRAME_TEXT, "the history has the rest");
    let progress = Progress {
        message_id: Some(message.id.clone()),
        team: message.team.clone(),
        files: message.files.iter().map(|row| row.file.clone()).collect(),
        truncated,
        ..Progress::new(ProgressKind::UserMessage, content)
    };
    Frame { topic, ts: message.at, body: Body::Progress(progress) }
}

/// The words of a refusal by the queue.
fn full_error(full: Full) -> ErrorBody {
    match full {
        Full::Topic(waiting) => ErrorBody::refusal(
            "topic_queue_full",
            format!("{waiting} messages wait in this topic already"),
        ),
        Full::Queue(waiting) => {
            let error = format!("{waiting} tasks wait already; try again later");
            ErrorBody::refusal("queue_full", error)
        }
    }
}

/// What became of a message.
struct Fate {
    status: &'static str,
    /// The number of the frame that ended it.
    response_seq: Option<u64>,
    task: Option<Task>,
}

fn fate(
    storage: &dyn Storage,
    channel: &ChannelId,
    message: &MessageId,
    known: &MessageRow,
    undecided: bool,
) -> Result<Fate, StorageError> {
    let task = match &known.task {
        Some(id) => tasks::find(storage, id)?,
        None => None,
    };
    let status = match &task {
        Some(task) => match (&task.outcome, &task.lease) {
            (Some(outcome), _) => outcome.ending.as_str(),
            (None, Some(_)) => "running",
            (None, None) => "queued",
        },
        // Its commit is under way.
        None if undecided || known.task.is_some() => "queued",
        None => "done",
    };
    if matches!(status, "queued" | "running") {
        return Ok(Fate { status, response_seq: None, task });
    }
    let frames = outboxes::outbox(storage, channel)?;
    let last = frames.iter().rev().find(|row| match &row.frame.body {
        Body::Response(response) => response.message_id == *message,
        Body::Error(error) => error.message_id.as_ref() == Some(message),
        _ => false,
    });
    let is_cancelled = last.is_some_and(|row| {
        let cancelled = Ending::Cancelled.as_str();
        matches!(&row.frame.body, Body::Response(response) if response.status == cancelled)
    });
    let status = if is_cancelled { Ending::Cancelled.as_str() } else { status };
    Ok(Fate { status, response_seq: last.map(|row| outbox::seq(row.ordinal)), task })
}
