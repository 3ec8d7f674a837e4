//! Intake of a message, step by step: known already? a command? which topic? then a task.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{
    Accepted, Router,
    choice::{self, Candidate, Choice},
    commands,
    conversation::{Destination, Incoming},
    main_lane,
    rate::{Bucket, too_fast},
    refusal::Refusal,
    resolve::{Resolution, Resolve},
    topics::Topics,
};
use crate::{
    channel::{Deliver, Said},
    classifier::Purpose,
    conversation_log::ConversationEntry,
    file::records::FileRow,
    frame::ErrorBody,
    ids::{ChannelId, TeamKey, TopicId},
    queue::Enqueue,
    room::DISK_FULL,
    router::records::{ReadMark, Undecided},
    scheduler::index::Heard,
    store::records::Writes,
    task::{Kind, Label, Lane, Options, Source, Task, TopicRef, records as tasks},
};

impl Router {
    pub(super) fn receive(
        &mut self,
        channel: &ChannelId,
        incoming: Incoming,
        ctx: &mut Context<Self>,
    ) {
        let Incoming { content, topic, id, notify, team, files } = incoming;
        let now = self.to.clock.now();
        let Some(conversation) = self.conversations.get(channel) else { return };
        let (sender, speaking) = (conversation.sender.clone(), conversation.speaking);
        let rate = self.settings.rate_of(&sender.channel_type);
        let bucket = self.buckets.entry(sender.key()).or_insert_with(|| Bucket::new(rate, now));
        if let Err(pause) = bucket.take(now) {
            return self.refuse(channel, too_fast("messages", pause).about(id));
        }
        let admitted = self.admit(channel, &sender, &content, id.as_ref(), ctx);
        let Some((admission, label, cause)) = admitted else { return };
        // What came from somebody unknown stays so, whoever hands it on.
        let label = files.iter().map(|row| row.label).fold(label, Label::max);
        let (content, topic, anew) = match commands::begins_anew(&content) {
            Some(words) if team.is_none() => (words.to_owned(), None, true),
            _ => (content, topic, false),
        };
        let (content, steers) = match commands::steers(&content) {
            Some(words) if !anew => (words.to_owned(), true),
            _ => (content, false),
        };
        let message = Undecided {
            channel: channel.clone(),
            named: id.is_some(),
            id: id.unwrap_or_else(|| self.to.ids.message()),
            sender: sender.id,
            content,
            topic,
            at: now,
            acked: false,
            told: false,
            admission: Some(admission),
            label,
            cause: Some(cause),
            notify,
            team: team.as_ref().map(|team| team.name.clone()),
            steers,
            files,
        };
        let conversation = self.conversations.get(channel);
        let known = conversation.and_then(|found| found.known.get(&message.id).cloned());
        if let Some(known) = known {
            return self.repeated(&message, known, ctx);
        }
        if let Some(connection) = speaking {
            let (channel, message) = (channel.clone(), message.id.clone());
            self.to.channel.do_send(Said { channel, connection, message });
        }
        if let Some(command) = commands::parse(&message.content).filter(|_| !anew && !steers) {
            return self.obey(command, message, ctx);
        }
        if self.to.store.room().is_full() {
            let id = message.named.then_some(message.id);
            return self.refuse(channel, ErrorBody::refusal("disk_full", DISK_FULL).about(id));
        }
        if let Some(team) = team {
            return self.enqueue(message, Destination::Team(team), Kind::Chat, Writes::new());
        }
        self.find_topic_of(message, anew, ctx);
    }

    /// A message that is to have a topic: a new one if its sender wants that, else the one that it
    /// belongs to, at once or after those before it.
    fn find_topic_of(&mut self, mut message: Undecided, anew: bool, ctx: &mut Context<Self>) {
        let Some(conversation) = self.conversations.get(&message.channel) else { return };
        let row = &conversation.row;
        let is_there = message.topic.is_none() || message.topic == row.begins_anew_in;
        let anew = anew || (row.begins_anew && is_there);
        if message.steers
            && let Ok(topic) = self.find_topic(&message.channel, message.topic.as_deref())
        {
            return self.become_task(message, Resolution::Existing(topic.id), Writes::new(), ctx);
        }
        if anew {
            message.topic = None;
            return self.begin_anew(message, ctx);
        }
        if conversation.deciding.is_empty() {
            let resolution = self.resolve(&message);
            self.resolved(message, resolution, ctx);
        } else {
            // Not yet: the message is stored before its turn comes.
            self.set_aside(message, ctx);
        }
    }

    fn begin_anew(&mut self, message: Undecided, ctx: &mut Context<Self>) {
        let new = Some(Choice::New { name: None });
        let resolution = self.with_request(&message, |topics, request| topics.choose(new, request));
        let mut writes = Writes::new();
        // Once, also if there is no room for one more: else nothing could be said here before there is.
        if let Some(conversation) = self.conversations.get_mut(&message.channel)
            && std::mem::take(&mut conversation.row.begins_anew)
        {
            conversation.row.begins_anew_in = None;
            writes = writes.put_at(&message.channel, &conversation.row);
        }
        if matches!(resolution, Resolution::New { .. }) {
            return self.become_task(message, resolution, writes, ctx);
        }
        self.commit(writes, ctx);
        self.resolved(message, resolution, ctx);
    }

    fn resolved(&mut self, message: Undecided, resolution: Resolution, ctx: &mut Context<Self>) {
        match resolution {
            Resolution::Refused(refusal) => {
                self.commit(self.let_triggers_hear(&message, &refusal), ctx);
                let error = ErrorBody::from(&refusal).about(message.id);
                self.refuse(&message.channel, error);
            }
            resolution @ (Resolution::Existing(_) | Resolution::New { .. }) => {
                self.become_task(message, resolution, Writes::new(), ctx);
            }
            // Code can't tell: the message is stored before a model is asked.
            Resolution::Ambiguous { .. } => self.set_aside(message, ctx),
        }
    }

    fn resolve(&self, message: &Undecided) -> Resolution {
        match self.with_request(message, |topics, request| topics.resolve(request)) {
            Resolution::Ambiguous { fallback, .. } if !self.settings.ask_model => *fallback,
            resolution => resolution,
        }
    }

    fn with_request<T>(
        &self,
        message: &Undecided,
        ask: impl FnOnce(&Topics, &Resolve<'_>) -> T,
    ) -> T {
        self.with_topics(&message.channel, &message.content, message.topic.as_deref(), ask)
    }

    /// Why a topic cannot be meant that a channel does not have, with those that it has.
    pub(super) fn unknown_topic(&self, channel: &ChannelId, topic: &TopicId) -> ErrorBody {
        let resolution = self.with_topics(channel, "", Some(topic.as_str()), Topics::resolve);
        match &resolution {
            Resolution::Refused(refusal) => refusal.into(),
            _ => ErrorBody::refusal("unknown_topic", "this channel has no such topic"),
        }
    }

    fn with_topics<T>(
        &self,
        channel: &ChannelId,
        content: &str,
        explicit: Option<&str>,
        ask: impl FnOnce(&Topics, &Resolve<'_>) -> T,
    ) -> T {
        let empty = Topics::default();
        let conversation = self.conversations.get(channel);
        let open_work =
            |topic: &TopicId| conversation.is_some_and(|found| found.has_open_work(topic));
        let request = Resolve {
            content,
            explicit,
            now: self.to.clock.now(),
            settings: self.settings.topics,
            open_work: &open_work,
        };
        ask(conversation.map_or(&empty, |found| &found.topics), &request)
    }

    /// Stores a message whose topic takes time.
    fn set_aside(&mut self, mut message: Undecided, ctx: &mut Context<Self>) {
        let writes = self.accept(&message, None);
        message.told = true;
        let committed = self.to.store.commit(writes.put(&message));
        self.expect_ack(&message, ctx);
        let channel = message.channel.clone();
        if let Some(conversation) = self.conversations.get_mut(&channel) {
            conversation.deciding.push_back(message);
        }
        ctx.spawn(committed.into_actor(self).map(move |result, router, ctx| {
            if let Ok(frames) = result {
                router.to.channel.do_send(Deliver { frames });
                router.decide(&channel, ctx);
            }
        }));
    }

    /// Finds the topics of the messages that wait for one, in their order.
    pub(super) fn decide(&mut self, channel: &ChannelId, ctx: &mut Context<Self>) {
        while let Some(conversation) = self.conversations.get(channel)
            && !conversation.asking
            && let Some(first) = conversation.deciding.front()
        {
            match self.resolve(first) {
                Resolution::Ambiguous { candidates, .. } => {
                    return self.ask(channel, candidates, ctx);
                }
                resolution => self.decided(channel, resolution, ctx),
            }
        }
    }

    /// Asks a model about the first message that waits.
    fn ask(&mut self, channel: &ChannelId, candidates: Vec<Candidate>, ctx: &mut Context<Self>) {
        let Some(conversation) = self.conversations.get_mut(channel) else { return };
        let Some(first) = conversation.deciding.front() else { return };
        conversation.asking = true;
        let question = choice::question(&candidates, &first.content, self.to.clock.now());
        let classifier = self.to.classifier.clone();
        // On a task of its own: a panic in there costs an opinion, not the router.
        let answer =
            crate::spawn::local(async move { classifier.ask(Purpose::Topics, question).await });
        let channel = channel.clone();
        ctx.spawn(answer.into_actor(self).map(move |answer, router, ctx| {
            let answer = answer.ok().flatten();
            let choice = answer.and_then(|answer| choice::parse_choice(&answer, &candidates));
            let conversation = router.conversations.get(&channel);
            let Some(first) = conversation.and_then(|found| found.deciding.front()) else { return };
            let resolution =
                router.with_request(first, |topics, request| topics.choose(choice, request));
            router.decided(&channel, resolution, ctx);
            router.decide(&channel, ctx);
        }));
    }

    /// The topic of the first waiting message is known.
    fn decided(&mut self, channel: &ChannelId, resolution: Resolution, ctx: &mut Context<Self>) {
        let Some(conversation) = self.conversations.get_mut(channel) else { return };
        conversation.asking = false;
        let Some(message) = conversation.deciding.pop_front() else { return };
        let writes = Writes::new().delete::<Undecided>(&(channel, &message.id));
        match resolution {
            Resolution::Refused(refusal) => {
                let writes = writes.and(self.let_triggers_hear(&message, &refusal));
                let error = ErrorBody::from(&refusal).about(message.id.clone());
                self.end_unheard(channel, &message.id, error, writes, ctx);
            }
            resolution => self.become_task(message, resolution, writes, ctx),
        }
    }

    /// The message becomes a task of its topic, in the commit that stores both.
    fn become_task(
        &mut self,
        message: Undecided,
        resolution: Resolution,
        writes: Writes,
        ctx: &mut Context<Self>,
    ) {
        let now = self.to.clock.now();
        let channel = &message.channel;
        let Some(conversation) = self.conversations.get_mut(channel) else { return };
        let topic = match resolution {
            Resolution::New { name, titled } => {
                let fresh = self.to.ids.topic();
                let topic = conversation.topics.open(fresh, name, &message.content, now);
                topic.untitled = !titled;
                Some(&*topic)
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
        let is_new = !conversation.stored_topics.contains_key(&topic.id);
        let due = conversation.is_topic_due(&topic);
        let writes = if due { writes.put_at(&topic.key(channel), &topic) } else { writes };
        // Of a new one nothing was read. Topics of former versions have no mark, and count as read.
        let writes = if is_new {
            let (place, mark) = (topic.id.to_string(), ReadMark::default());
            conversation.read.insert(place.clone(), mark.0);
            writes.put_at(&(channel.clone(), place), &mark)
        } else {
            writes
        };
        let topic = TopicRef { id: topic.id, name: topic.name };
        self.enqueue(message, Destination::Topic(topic), Kind::Chat, writes);
    }

    /// Stores a message as work of a lane.
    pub(super) fn enqueue(
        &mut self,
        message: Undecided,
        to: Destination,
        kind: Kind,
        writes: Writes,
    ) {
        let (lane, generation, topic) = match to {
            Destination::Topic(topic) => (main_lane(topic.id.clone()), 1, Some(topic)),
            Destination::Team(TeamKey { name, generation }) => {
                (Lane { team: name, topic: None }, generation, None)
            }
        };
        let (id, content) = (self.to.ids.task(), message.content.clone());
        let mut task = Task {
            kind,
            generation,
            source: Some(Source {
                channel: message.channel.clone(),
                message: Some(message.id.clone()),
                topic: topic.clone(),
                notify: message.notify.clone(),
            }),
            acked: message.acked,
            label: message.label,
            cause: message.cause.clone(),
            admission: message.admission.clone(),
            files: message.files.iter().map(|row| row.file.clone()).collect(),
            options: Options { steers: message.steers, ..Options::default() },
            ..Task::new(id, lane, content, message.sender.clone(), message.at)
        };
        let conversation = self.conversations.get_mut(&message.channel);
        if let (Some(conversation), Some(topic)) = (conversation, &topic) {
            conversation.count(&topic.id, 1, 0);
            let known = conversation.topics.get(topic.id.as_str());
            task.options.thinking = known.and_then(|topic| topic.thinking);
            task.options.profile = known.and_then(|topic| topic.profile.clone());
        }
        let overheard = self.overheard(&message, topic.as_ref()).filter(|_| kind == Kind::Chat);
        let accepted = self.accept(&message, Some(&task));
        let named = message.files.iter().map(|row| {
            let (channel, team) = (&message.channel, &task.lane.team);
            row.clone().named(channel, team, message.label, message.at)
        });
        let named: Vec<FileRow> = named.collect();
        let writes = writes.and(accepted).put_all(&named).put_all(&overheard);
        let writes = writes.tell_all(tasks::heard(&task));
        let writes = match ConversationEntry::key_of(&task) {
            Some(key) => writes.put_at(&key, &ConversationEntry::Message),
            None => writes,
        };
        let accepted = Accepted {
            message: message.id.clone(),
            task: Some(task.id.clone()),
            topic: topic.map(|topic| topic.id),
            reply: None,
            duplicate: false,
        };
        self.to.queue.do_send(Enqueue { task, writes });
        // After it: whoever asks the queue about the task finds it there.
        self.settle(&message.channel, &message.id, Ok(accepted));
        if let Some(heard) = overheard {
            self.to.triggers.do_send(heard);
        }
    }

    /// A message as triggers hear it, if it concerns one.
    fn overheard(&self, message: &Undecided, topic: Option<&TopicRef>) -> Option<Heard> {
        if !self.to.message_triggers.is_open() {
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
        self.to.message_triggers.concerns(&heard).then_some(heard)
    }

    /// What is left of a message that finds no topic. Triggers hear every message that was let in and is well
    /// formed, also one that no topic has room for. Sent again under its id, it does not fire them a
    /// second time.
    fn let_triggers_hear(&self, message: &Undecided, refusal: &Refusal) -> Writes {
        let has_no_room = matches!(refusal, Refusal::TooManyTopics { .. });
        let heard = self.overheard(message, None).filter(|_| has_no_room);
        let writes = Writes::new().put_all(&heard).and(self.audited(message));
        if let Some(heard) = heard {
            self.to.triggers.do_send(heard);
        }
        writes
    }
}
