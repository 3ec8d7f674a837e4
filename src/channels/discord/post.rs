//! Posts: the way out of one Discord channel, in order and each part once.

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::BoxFuture};
use hivewright_actors::{
    approvals::{
        question::{Question, QuestionStatus},
        record::Status,
        records as approvals,
    },
    channel::{
        adapter::Delivery,
        network::{Cursor, Network},
        outbound::Outbound,
        outbox,
        records::DeliveryMark,
    },
    clock::Clock,
    file::FileRef,
    frame::{Body, Notification, NotificationKind, ProgressKind},
    ids::{ChannelId, QuestionId, TaskId},
    store::reads::get,
};
use parking_lot::Mutex;
use serenity::{
    builder::{CreateAllowedMentions, CreateMessage},
    model::{
        channel::{MessageFlags, MessageReference, MessageReferenceKind, Nonce},
        id,
    },
};
use tokio::time::Instant;

use super::{
    Bot,
    cards::{self, Card},
    chunks,
    recent::Recent,
    rest::RestError,
    speech::{Saying, Speech},
    typing::Typing,
    uploads::Attached,
};
use crate::system::{WallClock, sha256};

/// The longest pause after failures of the network.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Discord takes a nonce of at most 25 characters.
const NONCE: usize = 25;
/// A text of more messages than this is its first one and a file.
const MOST_CHUNKS: usize = 10;
const WHOLE_TEXT: &str = "response.md";

/// The way out of one channel.
pub(super) struct Post {
    bot: Arc<Bot>,
    id: id::ChannelId,
    cursor: Cursor,
    pub(super) typing: Typing,
    /// Messages whose refusal whoever took them in tells.
    pub(super) asked: Recent,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    speech: Speech,
    /// The frame that is being posted.
    plan: Option<Plan>,
}

/// What is to be posted for a frame, and how far that is.
#[derive(Clone)]
struct Plan {
    seq: u64,
    parts: Vec<Part>,
    posted: usize,
    /// What holds when all of it is there.
    after: DeliveryMark,
}

#[derive(Clone)]
struct Part {
    message: CreateMessage,
    attached: Option<Attached>,
}

impl Post {
    pub(super) fn new(bot: Arc<Bot>, id: id::ChannelId) -> Self {
        let (store, hub) = (bot.store.clone(), bot.channel.clone());
        Self {
            typing: Typing::start(bot.clone(), id),
            cursor: Cursor::new(ChannelId::from(id.to_string()), store, hub),
            bot,
            id,
            asked: Recent::default(),
            state: Mutex::default(),
        }
    }

    fn channel(&self) -> &ChannelId {
        self.cursor.channel()
    }

    /// Tells somebody what is wrong with a message of theirs, if that can be told at all.
    pub(super) async fn refuse(&self, message: id::MessageId, text: &str) {
        let nonce = nonce(&[self.channel().as_str(), "refusal", &message.to_string()]);
        self.try_to_say(text, Some(message), nonce).await;
    }

    /// Tells a channel something about itself, if that can be told at all.
    pub(super) async fn tell(&self, what: &str, text: &str) {
        let now = WallClock.now().0.to_string();
        let nonce = nonce(&[self.channel().as_str(), what, &now]);
        self.try_to_say(text, None, nonce).await;
    }

    async fn try_to_say(&self, text: &str, answers: Option<id::MessageId>, nonce: String) {
        let text = self.clean(text);
        for chunk in chunks::split(&text).into_iter().take(1) {
            let draft = self.draft(chunk, answers).nonce(Nonce::String(nonce.clone()));
            if let Err(error) = self.bot.rest.post(self.id, &draft, None).await {
                tracing::debug!(channel = %self.channel(), %error, "a word of the bot is not told");
            }
        }
    }

    /// A text without what must not be seen.
    fn clean(&self, text: &str) -> String {
        self.bot.secrets.everything().scrub_known(text).into_owned()
    }

    /// A message that mentions nobody and shows no preview.
    fn draft(&self, text: String, answers: Option<id::MessageId>) -> CreateMessage {
        let mentions = CreateAllowedMentions::new().replied_user(false);
        let draft = CreateMessage::new()
            .content(text)
            .allowed_mentions(mentions)
            .flags(MessageFlags::SUPPRESS_EMBEDS)
            .enforce_nonce(true);
        match answers {
            Some(message) => draft.reference_message(
                MessageReference::new(MessageReferenceKind::Default, self.id)
                    .message_id(message)
                    .fail_if_not_exists(false),
            ),
            None => draft,
        }
    }

    async fn deliver(&self, frame: &Outbound) -> Delivery {
        self.show_work(frame);
        if self.is_told_otherwise(frame) {
            return Delivery::Delivered(None);
        }
        let known = self.state.lock().plan.clone().filter(|plan| plan.seq == frame.seq);
        let mut plan = match known {
            Some(plan) => plan,
            None => match self.plan(frame).await {
                Some(plan) => plan,
                None => return Delivery::Delivered(None),
            },
        };
        if frame.frame.ts + outbox::MOST_AGE < WallClock.now() {
            self.pass(frame.seq).await;
            return Delivery::Undeliverable("Discord could not be reached for a day".to_owned());
        }
        let mut last = None;
        while let Some(part) = plan.parts.get(plan.posted) {
            match self.put(part).await {
                Ok(id) => last = id,
                Err(RestError::Never(reason)) => {
                    self.pass(frame.seq).await;
                    return Delivery::Undeliverable(reason);
                }
                Err(error) => return Delivery::RetryAfter(self.pause(&error)),
            }
            plan.posted += 1;
            self.keep(&plan).await;
        }
        Delivery::Delivered(last.map(|id| id.to_string()))
    }

    /// Posts a part. A file that cannot be posted is spoken of in its place.
    async fn put(&self, part: &Part) -> Result<Option<id::MessageId>, RestError> {
        let rest = &self.bot.rest;
        let Part { message, attached } = part;
        let Some(attached) = attached else {
            return rest.post(self.id, message, None).await;
        };
        let reason = match attached.read(&self.bot).await {
            Ok(upload) => match rest.post(self.id, message, Some(upload)).await {
                Err(RestError::Never(reason)) => reason,
                posted => return posted,
            },
            Err(reason) => reason,
        };
        let apology = self.clean(&attached.apology(&reason));
        rest.post(self.id, &message.clone().content(apology), None).await
    }

    /// Notes how far a frame is.
    async fn keep(&self, plan: &Plan) {
        let is_over = plan.posted == plan.parts.len();
        self.state.lock().plan = (!is_over).then(|| plan.clone());
        let so_far =
            || DeliveryMark { partly: Some((plan.seq, plan.posted)), ..self.cursor.mark() };
        self.cursor.keep(if is_over { plan.after.clone() } else { so_far() }).await;
    }

    /// A frame will never be there; the operator is told.
    async fn pass(&self, seq: u64) {
        self.state.lock().plan = None;
        self.cursor.pass(seq).await;
    }

    /// What a frame makes to be posted; none if that is nothing.
    async fn plan(&self, frame: &Outbound) -> Option<Plan> {
        let mut after = self.cursor.mark();
        let saying = self.state.lock().speech.take(frame, &mut after, Instant::now());
        after.seq = after.seq.max(frame.seq);
        let Some(saying) = saying else {
            self.cursor.set(after);
            return None;
        };
        let partly = after.partly.take();
        let (card, answers, files) = match saying {
            Saying::Text { text, answers, files } => {
                (Card { text, rows: Vec::new() }, answers, files)
            }
            Saying::Card { kind, id, text } => (self.card(kind, id, text).await, None, Vec::new()),
        };
        let answers = answers.and_then(|message| message.as_str().parse().ok());
        let parts = self.parts(frame.seq, card, answers, files);
        let posted = partly.filter(|(seq, _)| *seq == frame.seq).map_or(0, |(_, parts)| parts);
        if posted >= parts.len() {
            self.cursor.set(after);
            return None;
        }
        let plan = Plan { seq: frame.seq, parts, posted, after };
        self.state.lock().plan = Some(plan.clone());
        Some(plan)
    }

    fn parts(
        &self,
        seq: u64,
        card: Card,
        answers: Option<id::MessageId>,
        files: Vec<FileRef>,
    ) -> Vec<Part> {
        let text = self.clean(&card.text);
        let mut chunks = chunks::split(&text);
        let mut attached: Vec<Attached> = files.into_iter().map(Attached::File).collect();
        if chunks.len() > MOST_CHUNKS && card.rows.is_empty() {
            chunks.truncate(1);
            attached.insert(0, Attached::Text { name: WHOLE_TEXT, text });
        }
        let last = chunks.len().saturating_sub(1);
        let words = chunks.into_iter().map(|chunk| (chunk, None));
        let attached = attached.into_iter().map(|attached| (String::new(), Some(attached)));
        let part = |(place, (text, attached)): (usize, (String, Option<Attached>))| {
            let nonce = nonce(&[self.channel().as_str(), &seq.to_string(), &format!("{place}")]);
            let mut message = self.draft(text, answers).nonce(Nonce::String(nonce));
            if place == last && attached.is_none() && !card.rows.is_empty() {
                message = message.components(card.rows.clone());
            }
            Part { message, attached }
        };
        words.chain(attached).enumerate().map(part).collect()
    }

    /// A card as it is stored now; one that waits no more is told in words.
    async fn card(&self, kind: NotificationKind, id: String, text: String) -> Card {
        let words = text.clone();
        let read = self.bot.store.read(move |storage| match kind {
            NotificationKind::Approval => {
                let approval = approvals::called(storage, &id)?;
                let waiting = approval.filter(|found| found.status == Status::Pending);
                Ok(waiting.map(|approval| cards::approval(&approval)))
            }
            _ => {
                let question = get::<Question>(storage, &QuestionId::from(id))?;
                let waiting = question.filter(|found| found.status == QuestionStatus::Open);
                Ok(waiting.map(|question| cards::question(&question, text)))
            }
        });
        let card = read.await.unwrap_or_else(|error| {
            tracing::error!(channel = %self.channel(), %error, "an approval or question cannot be read; it is posted without buttons");
            None
        });
        card.unwrap_or(Card { text: words, rows: Vec::new() })
    }

    /// How long a message waits that could not be posted.
    fn pause(&self, error: &RestError) -> Duration {
        match error {
            RestError::Later(Some(pause), _) => *pause,
            RestError::Unauthorized => LONGEST_PAUSE,
            RestError::Later(None, _) | RestError::Never(_) => {
                tracing::debug!(channel = %self.channel(), %error, "a message could not be posted, and is tried again");
                self.cursor.pause(LONGEST_PAUSE)
            }
        }
    }

    /// Shows or hides the typing indicator.
    fn show_work(&self, frame: &Outbound) {
        let (task, show): (_, fn(&Typing, &TaskId)) = match &frame.frame.body {
            Body::Ack(ack) if ack.duplicate.is_none() => (&ack.task_id, Typing::begin),
            Body::Progress(progress) if progress.waits => (&progress.task_id, Typing::pause),
            // Any other note says nothing of whether it works.
            Body::Progress(progress) if progress.kind != ProgressKind::Note => {
                (&progress.task_id, Typing::begin)
            }
            Body::Response(response) => (&response.task_id, Typing::end),
            Body::Error(error) => (&error.task_id, Typing::end),
            Body::Notification(Notification {
                kind: NotificationKind::Approval | NotificationKind::Question,
                task_id,
                ..
            }) => (task_id, Typing::pause),
            Body::Ack(_) | Body::Progress(_) | Body::Notification(_) | Body::TopicList { .. } => {
                return;
            }
        };
        if let Some(task) = task {
            show(&self.typing, task);
        }
    }

    /// A refusal that whoever took the message in tells already.
    fn is_told_otherwise(&self, frame: &Outbound) -> bool {
        match &frame.frame.body {
            Body::Error(error) => {
                let message = error.message_id.as_ref();
                error.task_id.is_none() && message.is_some_and(|id| self.asked.contains(id))
            }
            _ => false,
        }
    }
}

/// Tells one part of a frame from all others, over restarts.
fn nonce(parts: &[&str]) -> String {
    let mut nonce = sha256(parts.join("\n").as_bytes());
    nonce.truncate(NONCE);
    nonce
}

impl Network for Post {
    fn cursor(&self) -> &Cursor {
        &self.cursor
    }

    fn post(self: Arc<Self>, frame: Arc<Outbound>) -> BoxFuture<'static, Delivery> {
        async move { self.deliver(&frame).await }.boxed()
    }

    fn connected(&self) {
        self.state.lock().plan = None;
    }
}
