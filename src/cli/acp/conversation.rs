//! A conversation of an editor with the main team, over a chat connection of its own.

use agent_client_protocol_schema::{SessionId, StopReason};
use hivewright_actors::{
    frame::{Body, NotificationKind},
    ids::TopicId,
};
use serde_json::Value;
use tokio::{sync::mpsc, task::spawn_local};

use super::{
    decisions::Decisions,
    editor::{Editor, Order},
    updates::{thought, updates, words},
};
use crate::cli::{
    Context,
    exchange::{Exchange, Heard},
    failure::Failure,
    line::{Incoming, Words},
    link::{Event, Link},
    send::{forgotten, message_id},
    transcript::{Transcript, complaint},
};

/// Something that was said, until it has ended.
struct Said {
    /// The request of the editor, which waits.
    request: Value,
    exchange: Exchange,
    transcript: Transcript,
    /// It is to be stopped as soon as it is known where it runs.
    stops: bool,
}

pub(super) struct Conversation {
    id: SessionId,
    editor: Editor,
    context: Context,
    link: Link,
    /// Where the first words went: the others follow there.
    topic: Option<TopicId>,
    open: Vec<Said>,
}

impl Conversation {
    /// Connects, answers the request of the editor, and talks until one of both is gone.
    pub(super) async fn begin(
        id: SessionId,
        request: Value,
        mut orders: mpsc::UnboundedReceiver<Order>,
        editor: Editor,
        context: Context,
    ) {
        let link = match Link::open(&context, None).await {
            Ok(link) => link,
            Err(failure) => return editor.failed(request, &failure),
        };
        editor.opened(request, &id);
        let mut talk = Self { id, editor, context, link, topic: None, open: Vec::new() };
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Prompt { id, text }) => talk.say(id, text),
                    Some(Order::Cancel) => talk.stop(),
                    None => return,
                },
                event = talk.link.next() => match event {
                    Ok(event) => talk.happened(event),
                    Err(failure) => return talk.give_up(&failure, |_| true),
                },
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
            exchange: Exchange::new(&words),
            transcript: Transcript::default(),
            stops: false,
        });
        self.link.say(words);
    }

    fn stop(&mut self) {
        for said in &mut self.open {
            said.stops = true;
            said.exchange.open_topics().for_each(|topic| self.link.cancel(topic.clone()));
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Frame(frame, _) => self.heard(&frame),
            Event::Renewed => self.give_up(&forgotten(), Exchange::is_accepted),
            Event::Lost => self.remark("connection lost; trying again"),
            Event::Back => self.remark("connected again"),
        }
    }

    fn heard(&mut self, frame: &Incoming) {
        for place in 0..self.open.len() {
            let said = &mut self.open[place];
            let Some(heard) = said.exchange.take(frame) else { continue };
            for update in updates(&heard, &mut said.transcript) {
                self.editor.update(&self.id, update);
            }
            if let (Heard::Accepted(_), Some(topic)) = (&heard, &frame.topic_id) {
                self.topic.get_or_insert_with(|| topic.clone());
                if said.stops {
                    self.link.cancel(topic.clone());
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

    fn give_up(&mut self, failure: &Failure, is_lost: impl Fn(&Exchange) -> bool) {
        let (lost, kept) = std::mem::take(&mut self.open)
            .into_iter()
            .partition::<Vec<_>, _>(|said| is_lost(&said.exchange));
        self.open = kept;
        for Said { request, .. } in lost {
            self.editor.failed(request, failure);
        }
    }

    fn remark(&self, text: &str) {
        self.editor.update(&self.id, thought(text));
    }
}
