//! The way in: what people write and press on Discord, for the router.

use std::{collections::HashMap, sync::Arc, time::Duration};

use hivewright_actors::{
    approvals::question::Question,
    channel_type::ChannelType,
    file::records::FileRow,
    frame::ErrorBody,
    ids::{ChannelId, MessageId, PrincipalId, QuestionId},
    router::{
        card_buttons::{Button, Press, Told},
        gate::{SILENT, WouldAdmit},
        posted_messages::PostMessage,
        sender::Sender,
    },
    store::reads::get,
    text::sentence,
};
use parking_lot::Mutex;
use serenity::model::{
    application::ComponentInteraction,
    channel::{Attachment, Message, MessageType},
    id::{self, UserId},
};
use tokio::time::Instant;

use super::{
    Bot,
    attachments::{self, Taken},
    cards::{self, Pressed},
    post::Post,
};
use crate::{files, logging::throttle::Throttle, settings::channels::Discord as Settings};

/// A sender is told of one refusal in this time.
const REFUSED_ONCE_IN: Duration = Duration::from_secs(60);
/// So many senders are remembered for it.
const MOST_REFUSED: usize = 10_000;
const GONE: &str = "The service is stopping; try again.";

/// A message of a person, as it goes in.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    pub(super) channel: id::ChannelId,
    pub(super) message: id::MessageId,
    pub(super) author: UserId,
    pub(super) content: String,
    files: Vec<Attachment>,
}

impl Incoming {
    /// The message, if it is for us. Of those that are asked for Discord does not tell the server, so that it is said
    /// here whether it is of one.
    pub(super) fn read(message: Message, is_of_server: bool, settings: &Settings) -> Option<Self> {
        let is_watched = if is_of_server {
            settings.watches(message.channel_id.get())
        } else {
            settings.direct_messages
        };
        let is_said = matches!(message.kind, MessageType::Regular | MessageType::InlineReply);
        if message.author.bot || message.webhook_id.is_some() || !is_watched || !is_said {
            return None;
        }
        let content = message.content.replace('\0', "").trim().to_owned();
        let files = message.attachments;
        (!content.is_empty() || !files.is_empty()).then_some(Self {
            channel: message.channel_id,
            message: message.id,
            author: message.author.id,
            content,
            files,
        })
    }

    /// It is read by code, and does not wait for what was said before it.
    pub(super) fn is_command(&self) -> bool {
        self.content.starts_with('/')
    }
}

/// Who was told of a refusal lately.
#[derive(Default)]
pub(super) struct Refusals(Mutex<HashMap<UserId, Instant>>);

impl Refusals {
    /// Whether somebody may be told of one now.
    fn is_due(&self, user: UserId) -> bool {
        let now = Instant::now();
        let is_recent = |at: &Instant| now.duration_since(*at) < REFUSED_ONCE_IN;
        let mut told = self.0.lock();
        if told.len() >= MOST_REFUSED {
            told.retain(|_, at| is_recent(at));
        }
        if told.get(&user).is_some_and(is_recent) {
            return false;
        }
        told.insert(user, now);
        true
    }
}

fn sender(user: UserId) -> Sender {
    Sender::of(&PrincipalId::from(user.to_string()), ChannelType::Discord)
}

/// A message with its files here, ready to be said.
pub(super) struct Ready {
    channel: ChannelId,
    message: id::MessageId,
    author: UserId,
    content: String,
    files: Vec<FileRow>,
}

/// What became of a message.
pub(super) enum Said {
    /// It was taken in, or refused and its author told.
    Settled,
    /// It may be said again after this time: its author has sent too many.
    Later(Duration),
    /// The service is stopping, and may read it when it runs again.
    Gone,
}

/// Says a message to the router, and tells its author if it is refused.
pub(super) async fn say(bot: Arc<Bot>, post: Arc<Post>, incoming: Incoming) -> Said {
    let Some(ready) = prepare(&bot, &post, incoming).await else {
        return Said::Settled;
    };
    ready.say(&bot, &post, false).await
}

/// Takes in the files of a message; none if the message was said already.
pub(super) async fn prepare(bot: &Bot, post: &Post, incoming: Incoming) -> Option<Ready> {
    let Incoming { channel, message, author, content, files } = incoming;
    if !post.asked.insert(MessageId::from(message.to_string())) {
        return None;
    }
    let channel = ChannelId::from(channel.to_string());
    let mut taken = Taken::default();
    if !files.is_empty() {
        let asked = WouldAdmit { channel: channel.clone(), sender: sender(author) };
        // Nothing is fetched for somebody who is kept out.
        if bot.router.send(asked).await.unwrap_or(false) {
            taken = attachments::take(bot, author, &files).await;
        }
    }
    let content = files::words(content, &taken.files);
    let mut lines = vec![bot.secrets.everything().scrub_known(&content).into_owned()];
    lines.retain(|words| !words.is_empty());
    lines.extend(taken.lines);
    if lines.is_empty() {
        // Of somebody who is kept out, who is told so.
        lines.push("[files]".to_owned());
    }
    Some(Ready { channel, message, author, content: lines.join("\n"), files: taken.files })
}

impl Ready {
    /// Says it. Whoever can wait is told if it is only too early.
    pub(super) async fn say(&self, bot: &Bot, post: &Post, can_wait: bool) -> Said {
        let said = bot.router.send(PostMessage {
            channel: self.channel.clone(),
            may_open: true,
            owner: bot.owner.clone(),
            sender: sender(self.author),
            content: self.content.clone(),
            team: None,
            topic: None,
            files: self.files.clone(),
            id: MessageId::from(self.message.to_string()),
            notify: None,
        });
        match said.await {
            // One that was missed may have been done before; its ack tells.
            Ok(Ok(_)) if can_wait => {}
            Ok(Ok(accepted)) => accepted.task.iter().for_each(|task| post.typing.begin(task)),
            Ok(Err(error)) => {
                let pause = error.retry_after_ms.map(Duration::from_millis);
                if let Some(pause) = pause.filter(|_| can_wait) {
                    return Said::Later(pause);
                }
                if let Some(text) = refusal(&error)
                    && bot.refusals.is_due(self.author)
                {
                    post.refuse(self.message, &text).await;
                }
            }
            Err(error) => {
                tracing::warn!(channel = %self.channel, %error, "a message of Discord was not taken in, since the router does not answer");
                return Said::Gone;
            }
        }
        Said::Settled
    }
}

/// Tells the author of a message that it is not taken in: too many of its channel wait.
pub(super) async fn refuse_full(bot: Arc<Bot>, post: Arc<Post>, incoming: Incoming) {
    static TOLD: Throttle = Throttle::new();
    if let Some(times) = TOLD.due() {
        tracing::warn!(channel = %incoming.channel, times, "a message is refused, since too many of its channel wait; its author is told");
    }
    if bot.refusals.is_due(incoming.author) {
        post.refuse(incoming.message, "Too many messages wait here; send it again later.").await;
    }
}

/// What the author of a message is told of its refusal; none if nothing.
pub(super) fn refusal(error: &ErrorBody) -> Option<String> {
    match error.code.as_str() {
        // Known under another text: it was changed meanwhile, and the first one counts.
        SILENT | "message_id_conflict" => None,
        _ => Some(sentence(&error.error)),
    }
}

/// Brings a press to the router, and tells whoever pressed what came of it.
pub(super) async fn press(bot: Arc<Bot>, press: Box<ComponentInteraction>) {
    let Some(told) = pressed(&bot, &press).await else {
        return;
    };
    let text = bot.secrets.everything().scrub(&told.text).into_owned();
    if let Err(error) = bot.rest.answer(press.id, &press.token, &text).await {
        tracing::warn!(%error, "whoever pressed a button is not told what came of it");
    }
    if told.is_settled
        && let Err(error) = bot.rest.settle(press.channel_id, press.message.id).await
    {
        tracing::debug!(%error, "buttons stay below a card that is settled");
    }
}

async fn pressed(bot: &Bot, press: &ComponentInteraction) -> Option<Told> {
    let button = match Pressed::read(&press.data)? {
        Pressed::Decision(button) => button,
        Pressed::Options { question, places } => {
            let id = QuestionId::from(question);
            let of = id.clone();
            let read = bot.store.read(move |storage| get::<Question>(storage, &of));
            let question = read.await.ok().flatten();
            let selected = question.and_then(|question| cards::chosen(&question, &places))?;
            Button::Answer { question: id, selected }
        }
    };
    let pressed = bot.router.send(Press {
        channel: ChannelId::from(press.channel_id.to_string()),
        owner: bot.owner.principal.clone(),
        sender: sender(press.user.id),
        button,
    });
    let gone = |_| Told { text: GONE.to_owned(), is_settled: false };
    Some(pressed.await.unwrap_or_else(gone))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn message(change: Value) -> Message {
        let mut message = json!({
            "id": "11", "channel_id": "22", "guild_id": "33", "content": "Hello",
            "author": {"id": "44", "username": "ann", "discriminator": "0", "avatar": null},
            "timestamp": "2026-01-01T00:00:00.000000+00:00", "edited_timestamp": null, "tts": false,
            "mention_everyone": false, "mentions": [], "mention_roles": [], "attachments": [],
            "embeds": [], "pinned": false, "type": 0,
        });
        for (key, value) in change.as_object().unwrap() {
            message[key] = value.clone();
        }
        serde_json::from_value(message).unwrap()
    }

    fn read(change: Value, settings: &Settings) -> Option<String> {
        let message = message(change);
        let is_of_server = message.guild_id.is_some();
        Incoming::read(message, is_of_server, settings).map(|incoming| incoming.content)
    }

    /// CH-94
    #[test]
    fn only_words_of_people_in_watched_channels_come_in() {
        let all = Settings::default();
        let watching =
            Settings { watched_channels: vec!["21".parse().unwrap()], ..Settings::default() };
        let private = Settings { direct_messages: true, ..watching.clone() };
        let bot =
            json!({"author": {"id": "5", "username": "b", "discriminator": "1", "bot": true}});

        assert_eq!(read(json!({}), &all).as_deref(), Some("Hello"));
        assert_eq!(read(json!({"type": 19}), &all).as_deref(), Some("Hello"));
        for ignored in [
            bot,
            json!({"webhook_id": "9"}),
            json!({"content": " \n\u{0} "}),
            json!({"type": 7}),
            json!({"guild_id": null}),
        ] {
            assert_eq!(read(ignored.clone(), &all), None, "{ignored}");
        }
        assert_eq!(read(json!({}), &watching), None);
        assert_eq!(read(json!({"channel_id": "21"}), &watching).as_deref(), Some("Hello"));
        assert_eq!(read(json!({"guild_id": null}), &private).as_deref(), Some("Hello"));
    }

    /// CH-105
    #[tokio::test(start_paused = true)]
    async fn a_sender_is_told_of_one_refusal_a_minute() {
        let refusals = Refusals::default();
        let (ann, bob) = (UserId::new(1), UserId::new(2));

        let first = [ann, ann, bob].map(|user| refusals.is_due(user));
        tokio::time::advance(REFUSED_ONCE_IN).await;

        assert_eq!(first, [true, false, true]);
        assert!(refusals.is_due(ann));
    }

    /// CH-117
    #[test]
    fn whoever_is_kept_out_by_name_hears_nothing() {
        let said = ErrorBody::refusal("not_authorized", "Not authorized.");
        let silent = ErrorBody::refusal(SILENT, "Not authorized.");

        assert_eq!(refusal(&said).as_deref(), Some("Not authorized."));
        assert_eq!(refusal(&silent), None);
    }
}
