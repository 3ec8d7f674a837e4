//! The steps of a message: known already? a command? which topic? then a task.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{
    Arrival, Known, Router,
    audit::AuditRow,
    choice::{self, Candidate, Choice},
    commands,
    envelope::{Destination, Envelope},
    full_error, main_lane,
    rate::Bucket,
    refusal::Refusal,
    resolve::{Resolution, Resolve},
    saying::Accepted,
};
use crate::{
    channel::{
        Deliver, Said, outbox,
        records::{self as outboxes, OutboxWrites},
    },
    clock::millis,
    closing,
    event::{Ack, Body, ErrorBody, Frame, Progress, ProgressKind},
    ids::{ChannelId, MessageId, TeamKey, TopicId},
    queue::{ACK_AFTER, Enqueue, schedule::Full},
    room::DISK_FULL,
    router::records::{MessageRow, Undecided},
    scheduler::views::Heard,
    storage::{Storage, StorageError},
    store::records::{Writes, digest},
    task::{Kind, Lane, Source, Task, TopicRef, records as tasks},
};

impl Router {
    /// A message comes in.
    pub(super) fn receive(
        &mut self,
        channel: &ChannelId,
        content: String,
        topic: Option<String>,
        Envelope { id, notify, team }: Envelope,
        ctx: &mut Context<Self>,
    ) {
        let now = self.to.clock.now();
        let Some(conversation) = self.conversations.get(channel) else {
            return;
        };
        let (sender, speaking) = (conversation.sender.clone(), conversation.speaking);
        let rate = self.settings.rate;
        let bucket = self.buckets.entry(sender.key()).or_insert_with(|| Bucket::new(rate, now));
        if let Err(pause) = bucket.take(now) {
            let refusal = ErrorBody {
                message_id: id,
                retry_after_ms: Some(millis(pause)),
                ..ErrorBody::refusal("rate_limited", "too many messages; slow down")
            };
            return self.refuse(channel, refusal);
        }
        let Some(passed) = self.admit(channel, &sender, &content, id.as_ref(), ctx) else {
            return;
        };
        let known = id.as_ref().and_then(|id| {
            let conversation = self.conversations.get(channel)?;
            conversation.known.get(id).cloned()
        });
        let named = id.is_some();
        let anew = commands::begins_anew(&content).filter(|_| team.is_none());
        let anew = anew.map(str::to_owned);
        let (content, topic, anew) = match anew {
            Some(words) => (words, None, true),
            None => (content, topic, false),
        };
        let message = Undecided {
            channel: channel.clone(),
            id: id.unwrap_or_else(|| self.to.ids.message()),
            sender: sender.id,
            content,
            topic,
            at: now,
            acked: false,
            told: false,
            named,
            admission: Some(passed.admission),
            label: passed.label,
            cause: Some(passed.cause),
            notify,
        };
        if let Some(known) = known {
            return self.repeated(channel, &message, known, ctx);
        }
        if let Some(connection) = speaking {
            self.to.channel.do_send(Said {
                channel: channel.clone(),
                connection,
                message: message.id.clone(),
            });
        }
        if let Some(command) = commands::parse(&message.content).filter(|_| !anew) {
            return self.obey(command, message, ctx);
        }
        if self.to.store.room().is_full() {
            let refusal = ErrorBody {
                message_id: named.then(|| message.id.clone()),
                ..ErrorBody::refusal("disk_full", DISK_FULL)
            };
            return self.refuse(channel, refusal);
        }
        if let Some(team) = team {
            let to = Destination::Team(team);
            return self.enqueue(channel, message, to, Kind::Chat, Writes::new());
        }
        let mut arrival = Arrival { message, asked: false };
        let conversation = self.conversations.get(channel);
        let anew = anew || conversation.is_some_and(|found| found.row.begins_anew);
        if anew {
            arrival.message.topic = None;
        }
        if anew {
            self.begin_anew(channel, arrival, ctx)
        } else {
            self.arrive(channel, arrival, ctx)
        }
    }

    /// A message whose sender wants a new topic for it.
    fn begin_anew(&mut self, channel: &ChannelId, arrival: Arrival, ctx: &mut Context<Self>) {
        let new = Some(Choice::New { name: None });
        let resolution =
            self.with_request(channel, &arrival, |topics, request| topics.choose(new, request));
        if let (Resolution::New { .. }, Some(conversation)) =
            (&resolution, self.conversations.get_mut(channel))
            && std::mem::take(&mut conversation.row.begins_anew)
        {
            let writes = Writes::new().put_at(channel, &conversation.row);
            return self.become_task(channel, arrival, resolution, writes, ctx);
        }
        self.resolved(channel, arrival, resolution, ctx);
    }

    /// A message that is not known: its topic is found at once, or after those before it.
    fn arrive(&mut self, channel: &ChannelId, arrival: Arrival, ctx: &mut Context<Self>) {
        let waits = self
            .conversations
            .get(channel)
            .is_some_and(|conversation| !conversation.deciding.is_empty());
        if waits {
            // Not yet: the message is stored before its turn comes.
            self.set_aside(channel, arrival, ctx);
        } else {
            let resolution = self.resolve(channel, &arrival);
            self.resolved(channel, arrival, resolution, ctx);
        }
    }

    fn resolved(
        &mut self,
        channel: &ChannelId,
        arrival: Arrival,
        resolution: Resolution,
        ctx: &mut Context<Self>,
    ) {
        match resolution {
            Resolution::Refused(refusal) => {
                let writes = self.let_triggers_hear(&arrival.message, &refusal);
                self.commit(writes.and(self.audited(&arrival.message)), ctx);
                let error =
                    ErrorBody { message_id: Some(arrival.message.id), ..ErrorBody::from(&refusal) };
                self.refuse(channel, error);
            }
            resolution @ (Resolution::Existing(_) | Resolution::New { .. }) => {
                self.become_task(channel, arrival, resolution, Writes::new(), ctx);
            }
            // Code can't tell: the message is stored before a model is asked.
            Resolution::Ambiguous { .. } => self.set_aside(channel, arrival, ctx),
        }
    }

    fn resolve(&self, channel: &ChannelId, arrival: &Arrival) -> Resolution {
        let resolution =
            self.with_request(channel, arrival, |topics, request| topics.resolve(request));
        match resolution {
            Resolution::Ambiguous { fallback, .. } if !self.settings.ask_model => *fallback,
            resolution => resolution,
        }
    }

    fn with_request<T>(
        &self,
        channel: &ChannelId,
        arrival: &Arrival,
        ask: impl FnOnce(&super::Topics, &Resolve<'_>) -> T,
    ) -> T {
        let empty = super::Topics::default();
        let conversation = self.conversations.get(channel);
        let open_work =
            |topic: &TopicId| conversation.is_some_and(|found| found.has_open_work(topic));
        let request = Resolve {
            content: &arrival.message.content,
            explicit: arrival.message.topic.as_deref(),
            now: self.to.clock.now(),
            settings: self.settings.topics,
            open_work: &open_work,
        };
        ask(conversation.map_or(&empty, |found| &found.topics), &request)
    }

    /// Stores a message whose topic takes time.
    fn set_aside(&mut self, channel: &ChannelId, mut arrival: Arrival, ctx: &mut Context<Self>) {
        let writes = self.accept(channel, &arrival.message, None);
        arrival.message.told = true;
        let writes = writes.put(&arrival.message);
        let message = arrival.message.clone();
        if let Some(conversation) = self.conversations.get_mut(channel) {
            conversation.deciding.push_back(arrival);
        }
        let committed = self.to.store.commit(writes);
        let named = channel.clone();
        ctx.spawn(committed.into_actor(self).map(move |result, router, ctx| {
            if let Ok(frames) = result {
                router.to.channel.do_send(Deliver { frames });
                router.decide(&named, ctx);
            }
        }));
        self.expect_ack(message, ctx);
    }

    /// Messages of a former process that still have no topic are told that they are not forgotten.
    pub(super) fn expect_acks(&mut self, channel: &ChannelId, ctx: &mut Context<Self>) {
        let waiting: Vec<Undecided> = self
            .conversations
            .get(channel)
            .into_iter()
            .flat_map(|conversation| &conversation.deciding)
            .map(|arrival| arrival.message.clone())
            .filter(|message| !message.acked)
            .collect();
        for message in waiting {
            self.expect_ack(message, ctx);
        }
    }

    fn expect_ack(&self, message: Undecided, ctx: &mut Context<Self>) {
        let pause = (message.at + ACK_AFTER).since(self.to.clock.now());
        ctx.run_later(pause, move |router, ctx| {
            router.acknowledge(&message.channel, &message.id, ctx);
        });
    }

    /// Finds the topic of the first message that waits for one.
    pub(super) fn decide(&mut self, channel: &ChannelId, ctx: &mut Context<Self>) {
        while let Some(first) =
            self.conversations.get(channel).and_then(|conversation| conversation.deciding.front())
        {
            if first.asked {
                return;
            }
            let first = first.clone();
            match self.resolve(channel, &first) {
                Resolution::Ambiguous { candidates, .. } => {
                    return self.ask(channel, &first, candidates, ctx);
                }
                resolution => self.decided(channel, resolution, ctx),
            }
        }
    }

    fn ask(
        &mut self,
        channel: &ChannelId,
        arrival: &Arrival,
        candidates: Vec<Candidate>,
        ctx: &mut Context<Self>,
    ) {
        if let Some(first) = self
            .conversations
            .get_mut(channel)
            .and_then(|conversation| conversation.deciding.front_mut())
        {
            first.asked = true;
        }
        let question = choice::question(&candidates, &arrival.message.content, self.to.clock.now());
        let classifier = self.to.classifier.clone();
        // On a task of its own: a panic in there costs an opinion, not the router.
        let answer = actix::spawn(async move { classifier.ask(question).await });
        let channel = channel.clone();
        ctx.spawn(answer.into_actor(self).map(move |answer, router, ctx| {
            let choice =
                answer.ok().flatten().and_then(|answer| choice::parse_choice(&answer, &candidates));
            let Some(first) = router
                .conversations
                .get(&channel)
                .and_then(|conversation| conversation.deciding.front())
                .cloned()
            else {
                return;
            };
            let resolution = router
                .with_request(&channel, &first, |topics, request| topics.choose(choice, request));
            router.decided(&channel, resolution, ctx);
            router.decide(&channel, ctx);
        }));
    }

    /// The topic of the first waiting message is known.
    fn decided(&mut self, channel: &ChannelId, resolution: Resolution, ctx: &mut Context<Self>) {
        let Some(arrival) = self
            .conversations
            .get_mut(channel)
            .and_then(|conversation| conversation.deciding.pop_front())
        else {
            return;
        };
        let id = arrival.message.id.clone();
        let writes = Writes::new().delete::<Undecided>(&(channel, &id));
        match resolution {
            Resolution::Refused(refusal) => {
                let writes = writes
                    .and(self.let_triggers_hear(&arrival.message, &refusal))
                    .and(self.audited(&arrival.message));
                let error = ErrorBody { message_id: Some(id.clone()), ..ErrorBody::from(&refusal) };
                self.end_unheard(channel, &id, error, writes, ctx);
            }
            resolution => self.become_task(channel, arrival, resolution, writes, ctx),
        }
    }

    /// The message becomes a task of its topic, in the commit that stores both.
    fn become_task(
        &mut self,
        channel: &ChannelId,
        arrival: Arrival,
        resolution: Resolution,
        writes: Writes,
        ctx: &mut Context<Self>,
    ) {
        let now = self.to.clock.now();
        let message = arrival.message;
        let Some(conversation) = self.conversations.get_mut(channel) else {
            return;
        };
        let topic = match resolution {
            Resolution::New { name } => {
                let fresh = self.to.ids.topic();
                Some(conversation.topics.open(fresh, name, &message.content, now))
            }
            Resolution::Existing(id) => {
                // It may have been named by words that have become a secret since.
                if let Some(topic) = conversation.topics.get(id.as_str())
                    && let Some(name) = self.to.store.without_secrets(&topic.name)
                {
                    conversation.topics.rename(&id, &name);
                }
                conversation.topics.record(&id, &message.content, now)
            }
            Resolution::Ambiguous { .. } | Resolution::Refused(_) => None,
        };
        let Some(topic) = topic.cloned() else {
            let error = ErrorBody::refusal("topic_done", "that topic has just been closed");
            let writes = writes.and(self.audited(&message));
            return self.end_unheard(channel, &message.id, error, writes, ctx);
        };
        let mut writes = writes;
        if conversation.is_topic_due(&topic) {
            writes = writes.put_at(&topic.key(channel), &topic);
        }
        let topic = TopicRef { id: topic.id, name: topic.name };
        self.enqueue(channel, message, Destination::Topic(topic), Kind::Chat, writes);
    }

    /// Stores a message as work of a lane.
    pub(super) fn enqueue(
        &mut self,
        channel: &ChannelId,
        message: Undecided,
        to: Destination,
        kind: Kind,
        writes: Writes,
    ) {
        let (lane, generation, topic) = match to {
            Destination::Topic(topic) => (main_lane(topic.id.clone()), 1, Some(topic)),
            Destination::Team(TeamKey { name, generation }) => {
                let lane = Lane { team: name, topic: None };
                (lane, generation, None)
            }
        };
        let task = Task {
            kind,
            generation,
            source: Some(Source {
                channel: channel.clone(),
                message: Some(message.id.clone()),
                topic: topic.clone(),
                notify: message.notify.clone(),
            }),
            acked: message.acked,
            label: message.label,
            cause: message.cause.clone(),
            admission: message.admission.clone(),
            ..Task::new(
                self.to.ids.task(),
                lane,
                message.content.clone(),
                message.sender.clone(),
                message.at,
            )
        };
        if let (Some(conversation), Some(topic)) = (self.conversations.get_mut(channel), &topic) {
            conversation.count(&topic.id, 1, 0);
        }
        let mut writes = writes.and(self.accept(channel, &message, Some(&task)));
        let overheard = self.overheard(&message, topic.as_ref()).filter(|_| kind == Kind::Chat);
        if let Some(heard) = &overheard {
            writes = writes.put(heard);
        }
        if let Some(event) = tasks::heard(&task) {
            writes = writes.tell(event);
        }
        let accepted = Accepted {
            message: message.id.clone(),
            task: Some(task.id.clone()),
            topic: topic.map(|topic| topic.id),
            reply: None,
        };
        self.to.queue.do_send(Enqueue { task, writes });
        // After it: whoever asks the queue about the task finds it there.
        self.settle(channel, &message.id, Ok(accepted));
        if let Some(heard) = overheard {
            self.to.triggers.do_send(heard);
        }
    }

    /// A message as triggers hear it, if it concerns one.
    fn overheard(&self, message: &Undecided, topic: Option<&TopicRef>) -> Option<Heard> {
        if !self.to.ears.is_open() {
            return None;
        }
        let heard = Heard {
            channel: message.channel.clone(),
            message: message.id.clone(),
            sender: message.sender.clone(),
            content: message.content.clone(),
            label: message.label,
            topic: topic.cloned(),
            at: message.at,
        };
        self.to.ears.concerns(&heard).then_some(heard)
    }

    /// Triggers hear every message that was let in and is well formed, also one that no topic has room
    /// for. Sent again under its id, it does not fire them a second time.
    fn let_triggers_hear(&self, message: &Undecided, refusal: &Refusal) -> Writes {
        let has_no_room = matches!(refusal, Refusal::TooManyTopics { .. });
        let heard = self.overheard(message, None).filter(|_| has_no_room);
        match heard {
            Some(heard) => {
                let writes = Writes::new().put(&heard);
                self.to.triggers.do_send(heard);
                writes
            }
            None => Writes::new(),
        }
    }

    /// What makes a message known, and its channel if this is its first.
    fn accept(&mut self, channel: &ChannelId, message: &Undecided, task: Option<&Task>) -> Writes {
        let mut writes = Writes::new();
        let Some(conversation) = self.conversations.get_mut(channel) else {
            return writes;
        };
        if !conversation.stored {
            conversation.stored = true;
            writes = writes.put_at(channel, &conversation.row);
        }
        if conversation.is_shared() && !message.told {
            writes = writes.frame(channel, user_message(message));
        }
        // Nobody can send a message again whose name we made.
        if !message.named {
            return writes;
        }
        let row = MessageRow {
            digest: digest(&message.content),
            at: message.at,
            task: task.map(|task| task.id.clone()),
        };
        let known = Known { digest: row.digest, at: row.at, task: row.task.clone() };
        conversation.known.insert(message.id.clone(), known);
        writes.put_at(&(channel.clone(), message.id.clone()), &row)
    }

    /// A message with a null topic is acknowledged while its topic is being found out.
    fn acknowledge(&mut self, channel: &ChannelId, id: &MessageId, ctx: &mut Context<Self>) {
        let now = self.to.clock.now();
        let Some(arrival) = self.conversations.get_mut(channel).and_then(|conversation| {
            conversation.deciding.iter_mut().find(|arrival| arrival.message.id == *id)
        }) else {
            return;
        };
        arrival.message.acked = true;
        let ack = Ack {
            content: closing::WORKING.to_owned(),
            message_id: id.clone(),
            task_id: None,
            generated: false,
            position: 0,
            duplicate: None,
            status: None,
            response_seq: None,
        };
        let frame = Frame { topic: None, ts: now, body: Body::Ack(ack) };
        let writes = Writes::new().put(&arrival.message).frame(channel, frame);
        self.commit(writes, ctx);
    }

    /// The queue has no room for a message: that is its end, and it may be sent again.
    pub(super) fn queue_refused(&mut self, task: &Task, full: Full, ctx: &mut Context<Self>) {
        let Some(source) = &task.source else {
            return;
        };
        if let Some(id) = &source.message {
            let error = full_error(full, Some(id.clone()));
            let mut writes = Writes::new().delete::<Undecided>(&(&source.channel, id));
            if let Some(row) = AuditRow::of_task(task) {
                writes = writes.put(&row);
            }
            // What was to be stored with the task is not: the channel may have been part of it.
            if let Some(conversation) = self.conversations.get(&source.channel) {
                writes = writes.put_at(&source.channel, &conversation.row);
            }
            self.end_unheard(&source.channel, id, error, writes, ctx);
        }
    }

    /// A message ends without having been work. It may be sent again.
    fn end_unheard(
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

    /// A message that is known is not run again: its sender hears what became of it.
    fn repeated(
        &mut self,
        channel: &ChannelId,
        message: &Undecided,
        known: Known,
        ctx: &mut Context<Self>,
    ) {
        let id = &message.id;
        self.commit(self.audited(message), ctx);
        if known.digest != digest(&message.content) {
            let error = ErrorBody {
                message_id: Some(id.clone()),
                ..ErrorBody::refusal(
                    "message_id_conflict",
                    "another message was sent under this `message_id`",
                )
            };
            return self.refuse(channel, error);
        }
        let undecided = self.conversations.get(channel).is_some_and(|conversation| {
            conversation.deciding.iter().any(|arrival| arrival.message.id == *id)
        });
        let store = self.to.store.clone();
        let (named, message) = (channel.clone(), id.clone());
        let read = async move {
            store.read(move |storage| fate(storage, &named, &message, &known, undecided)).await
        };
        let (channel, id) = (channel.clone(), id.clone());
        ctx.spawn(read.into_actor(self).map(move |found, router, _| {
            let (status, response_seq, task) = match found {
                Ok(found) => found,
                Err(error) => {
                    tracing::error!(%channel, %error, "message cannot be looked up");
                    return;
                }
            };
            let accepted = Accepted {
                message: id.clone(),
                task: task.as_ref().map(|task| task.id.clone()),
                topic: task.as_ref().and_then(|task| task.lane.topic.clone()),
                reply: None,
            };
            router.settle(&channel, &id, Ok(accepted));
            let ack = Ack {
                content: "This message is known already.".to_owned(),
                message_id: id,
                task_id: task.as_ref().map(|task| task.id.clone()),
                generated: false,
                position: 0,
                duplicate: Some(true),
                status: Some(status.to_owned()),
                response_seq,
            };
            let topic = task.and_then(|task| task.source).and_then(|source| source.topic);
            router.tell(&channel, topic, Body::Ack(ack));
        }));
    }

    /// A command has been carried out: one response, no ack.
    pub(super) fn respond(
        &mut self,
        message: &Undecided,
        content: String,
        writes: Writes,
        ctx: &mut Context<Self>,
    ) {
        let accepted = Accepted {
            message: message.id.clone(),
            task: None,
            topic: None,
            reply: Some(content.clone()),
        };
        self.settle(&message.channel, &message.id, Ok(accepted));
        let response = crate::event::Response {
            content,
            message_id: message.id.clone(),
            task_id: None,
            status: "done".to_owned(),
            joined_task_id: None,
            truncated: false,
            usage: None,
        };
        let frame = Frame { topic: None, ts: self.to.clock.now(), body: Body::Response(response) };
        let channel = message.channel.clone();
        let writes = self
            .accept(&channel, message, None)
            .and(self.audited(message))
            .and(writes)
            .frame(&channel, frame);
        let committed = self.to.store.commit(writes);
        ctx.spawn(committed.into_actor(self).map(|result, router, _| {
            if let Ok(frames) = result {
                router.to.channel.do_send(Deliver { frames });
            }
        }));
    }
}

/// A message, for the other connections of its channel.
fn user_message(message: &Undecided) -> Frame {
    Frame {
        topic: None,
        ts: message.at,
        body: Body::Progress(Progress {
            message_id: Some(message.id.clone()),
            ..Progress::new(ProgressKind::UserMessage, message.content.clone())
        }),
    }
}

/// What became of a message: its status, the number of the frame that ended it, its task.
fn fate(
    storage: &dyn Storage,
    channel: &ChannelId,
    message: &MessageId,
    known: &Known,
    undecided: bool,
) -> Result<(&'static str, Option<u64>, Option<Task>), StorageError> {
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
    let finished = !matches!(status, "queued" | "running");
    let response_seq = if finished {
        outboxes::outbox(storage, channel)?
            .into_iter()
            .rev()
            .find(|row| match &row.frame.body {
                Body::Response(response) => response.message_id == *message,
                Body::Error(error) => error.message_id.as_ref() == Some(message),
                _ => false,
            })
            .map(|row| outbox::seq(row.ordinal))
    } else {
        None
    };
    Ok((status, response_seq, task))
}
