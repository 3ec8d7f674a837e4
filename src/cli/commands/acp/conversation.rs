//! A conversation of an editor with the main team, over a chat connection of its own.

use agent_client_protocol_schema::{SessionId, StopReason};
use hivewright_actors::{
    frame::{Body, NotificationKind},
    ids::{MAIN, TopicId},
};
use serde_json::Value;
use tokio::{sync::mpsc, task::spawn_local};

use super::{
    decisions::Decisions,
    editor::{Editor, Order},
    thoughts::Thoughts,
    updates::{remark, replay, thought, updates, words},
};
use crate::{
    api::{
        endpoint::ById,
        me::{ConversationItem, LIST_OWN_MESSAGES, SaidFilter},
    },
    cli::{
        channel_state::{Incoming, Words, message_id},
        client::Service,
        commands::send::forgotten,
        connection::{Connection, Event},
        context::Context,
        earlier::{self, Earlier},
        failure::Failure,
        message_tracker::{Heard, MessageTracker},
        transcript::{Transcript, complaint},
    },
};

/// Something that was said, until it has ended.
struct Said {
    /// The request of the editor, which waits.
    request: Value,
    exchange: MessageTracker,
    transcript: Transcript,
    /// It is to be stopped as soon as it is known where it runs.
    stops: bool,
}

pub(super) struct Conversation {
    id: SessionId,
    editor: Editor,
    context: Context,
    connection: Connection,
    thoughts: Thoughts,
    /// Where the first words went: the others follow there.
    topic: Option<TopicId>,
    open: Vec<Said>,
}

impl Conversation {
    /// Connects, answers the request of the editor, and talks until one of both is gone. The name of its channel, which
    /// outlives the connection, is that of the session.
    pub(super) async fn begin(request: Value, editor: Editor, context: Context) {
        let (connection, thoughts) =
            tokio::join!(Connection::open(&context, None), Thoughts::open(&context, MAIN));
        let unnamed = || Failure::failed("the service names no channel");
        let opened = connection.and_then(|connection| {
            let channel = connection.channel.as_ref().ok_or_else(unnamed)?;
            Ok((SessionId::new(channel.as_str()), connection))
        });
        let (id, connection) = match opened {
            Ok(opened) => opened,
            Err(failure) => return editor.failed(request, &failure),
        };
        let orders = editor.opened(request, &id);
        let talk =
            Self { id, editor, context, connection, thoughts, topic: None, open: Vec::new() };
        talk.run(orders).await;
    }

    /// The same with an earlier conversation, which the editor is shown first.
    pub(super) async fn load(id: SessionId, request: Value, editor: Editor, context: Context) {
        let (found, thoughts) = tokio::join!(find(&id, &context), Thoughts::open(&context, MAIN));
        let (earlier, said, connection) = match found {
            Ok(found) => found,
            Err(failure) => return editor.failed(request, &failure),
        };
        for update in said.into_iter().rev().flat_map(replay) {
            editor.update(&id, update);
        }
        let orders = editor.loaded(request, &id);
        let topic = Some(earlier.topic).filter(|_| earlier.is_open);
        let talk = Self { id, editor, context, connection, thoughts, topic, open: Vec::new() };
        talk.run(orders).await;
    }

    async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Order>) {
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Prompt { id, text }) => self.say(id, text),
                    Some(Order::Cancel) => self.stop(),
                    None => return,
                },
                event = self.connection.next() => match event {
                    Ok(event) => self.happened(event),
                    Err(failure) => return self.give_up(&failure, |_| true),
                },
                piece = self.thoughts.next() => self.editor.update(&self.id, thought(&piece)),
            }
        }
    }

    fn say(&mut self, request: Value, content: String) {
        if !self.open.is_empty() {
            return self.editor.busy(request);
        }
        let id = match message_id() {
            Ok(id) => id,
            Err(failure) => return self.editor.failed(request, &failure),
        };
        let topic = self.topic.as_ref().map(ToString::to_string);
        let words = Words { id, content, topic, files: Vec::new() };
        self.open.push(Said {
            request,
            exchange: MessageTracker::new(words.id.clone()),
            transcript: Transcript::default(),
            stops: false,
        });
        self.thoughts.expect();
        self.connection.say(words);
    }

    fn stop(&mut self) {
        for said in &mut self.open {
            said.stops = true;
            said.exchange.open_topics().for_each(|topic| self.connection.cancel(topic.clone()));
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Frame(frame, _) => self.heard(&frame),
            Event::Renewed => self.give_up(&forgotten(), MessageTracker::is_accepted),
            Event::Lost => self.remark("connection lost; trying again"),
            Event::Back => self.remark("connected again"),
        }
    }

    fn heard(&mut self, frame: &Incoming) {
        for place in 0..self.open.len() {
            let said = &mut self.open[place];
            let Some(heard) = said.exchange.take(frame) else { continue };
            if let (Heard::Accepted(_), Some(task)) = (&heard, said.exchange.task()) {
                for piece in self.thoughts.of(task.as_str()) {
                    self.editor.update(&self.id, thought(&piece));
                }
            }
            for update in updates(&heard, &mut said.transcript) {
                self.editor.update(&self.id, update);
            }
            if let (Heard::Accepted(_), Some(topic)) = (&heard, &frame.topic_id) {
                self.topic.get_or_insert_with(|| topic.clone());
                if said.stops {
                    self.connection.cancel(topic.clone());
                }
            }
            if said.exchange.is_over() {
                let Said { request, .. } = self.open.remove(place);
                self.end(request, &heard);
            }
            return;
        }
        self.beside(frame);
    }

    fn end(&self, request: Value, heard: &Heard<'_>) {
        match heard {
            Heard::Error(error) => self.editor.failed(request, &Failure::failed(complaint(error))),
            Heard::Forgotten(_) => self.editor.failed(request, &forgotten()),
            Heard::Answer(response) if response.status == "cancelled" => {
                self.editor.ended(request, StopReason::Cancelled);
            }
            _ => self.editor.ended(request, StopReason::EndTurn),
        }
    }

    /// Shows what is about nothing that was said here.
    fn beside(&mut self, frame: &Incoming) {
        let notification = match &frame.body {
            Body::Notification(notification) => notification,
            Body::Error(error) => return self.remark(&complaint(error)),
            // The answer to something that was said before the conversation was opened again.
            Body::Response(response) => {
                return self.editor.update(&self.id, words(&format!("{}\n", response.content)));
            }
            _ => return,
        };
        let is_open = matches!(notification.status.as_str(), "pending" | "open");
        let is_question = notification.kind == NotificationKind::Question;
        let (Some(id), true) = (&notification.ref_id, is_open) else {
            return match notification.kind {
                NotificationKind::Approval | NotificationKind::Question => {
                    self.remark(&notification.content);
                }
                // The end of work that was begun here.
                _ => self.editor.update(&self.id, words(&format!("{}\n", notification.content))),
            };
        };
        let desk = Decisions {
            session: self.id.clone(),
            editor: self.editor.clone(),
            context: self.context.clone(),
            id: id.clone(),
            card: notification.content.clone(),
        };
        if is_question {
            spawn_local(desk.question());
        } else {
            spawn_local(desk.approval());
        }
    }

    fn give_up(&mut self, failure: &Failure, is_lost: impl Fn(&MessageTracker) -> bool) {
        let (lost, kept) = std::mem::take(&mut self.open)
            .into_iter()
            .partition::<Vec<_>, _>(|said| is_lost(&said.exchange));
        self.open = kept;
        for Said { request, .. } in lost {
            self.editor.failed(request, failure);
        }
    }

    fn remark(&self, text: &str) {
        self.editor.update(&self.id, remark(text));
    }
}

/// An earlier conversation: what was said in it, newest first, and a connection that goes on with it.
async fn find(
    id: &SessionId,
    context: &Context,
) -> Result<(Earlier, Vec<ConversationItem>, Connection), Failure> {
    let channel = id.to_string();
    let found = earlier::first(context, |one| one.channel.as_str() == channel).await?;
    let earlier = found.ok_or_else(|| {
        Failure::not_found(format!("none of your conversations is the session `{id}`"))
    })?;
    let path = ById { id: earlier.topic.to_string() };
    let said =
        Service::find(context)?.all_rows(&LIST_OWN_MESSAGES, &path, &SaidFilter::default()).await?;
    let connection = Connection::open(context, Some(&earlier)).await?;
    Ok((earlier, said.data()?, connection))
}
