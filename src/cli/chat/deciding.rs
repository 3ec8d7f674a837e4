//! What waits for the person in a chat, and how they decide on it.

use hivewright_actors::{
    approvals::{
        question::{AnswerKind, QuestionStatus},
        record::Status,
    },
    excerpt,
    frame::{Body, Notification, NotificationKind},
};
use zeroize::Zeroizing;

use super::{Chat, Source};
use crate::{
    api::{
        approvals::SHOW_APPROVAL,
        endpoint::{ById, Empty},
        questions::{ANSWER_QUESTION, QuestionAnswer, SHOW_QUESTION},
    },
    cli::{
        delegated::found,
        editor::known::{Reply, Waiting},
        failure::Failure,
        line::Incoming,
        service::Service,
        transcript::{Print, complaint},
    },
};

/// So many characters tell what something is about that waits.
const ABOUT: usize = 60;

impl Chat<'_> {
    /// A word that decides what waits. It decides what its hint said, and nothing that came since.
    pub(super) async fn decides(&mut self, line: &str, aim: Option<&str>) -> Result<bool, Failure> {
        let Source::Editor(editor) = &mut self.source else { return Ok(false) };
        if editor.known().tells_secret(line) {
            self.remark(
                "· nothing was answered: /answer alone asks for a secret, and shows nothing of it",
            );
            return Ok(true);
        }
        let found = editor.known().reply(line).map(|(waiting, reply)| (waiting.clone(), reply));
        let (waiting, reply) = match (found, aim) {
            (Some((waiting, reply)), Some(aim)) if waiting.id == aim => (waiting, reply),
            (None, None) => {
                let Some(names) = editor.known().unclear(line) else { return Ok(false) };
                let word = line.split_whitespace().next().unwrap_or_default();
                self.remark(&format!(
                    "· several wait, so nothing was decided: write {word} and one of {names}"
                ));
                return Ok(true);
            }
            _ => {
                self.remark(
                    "· something else waits by now, so nothing was decided: /approvals lists it",
                );
                return Ok(true);
            }
        };
        let id = &waiting.id;
        let command = match reply {
            Reply::Approve => format!("/approve {id}"),
            Reply::Deny(why) => format!("/deny {id} {why}"),
            Reply::Answer(_) if waiting.is_secret => {
                editor.ask_secret(format!("{}: ", waiting.about));
                self.asked = Some(waiting.id);
                return Ok(true);
            }
            Reply::Answer(words) => {
                let place = words.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                let option = place.and_then(|place| waiting.options.get(place));
                format!("/answer {id} {}", option.unwrap_or(&words))
            }
        };
        self.say(command).await?;
        Ok(true)
    }

    pub(super) async fn answer_secret(&mut self, secret: Option<Zeroizing<String>>) {
        let Some(id) = self.asked.take() else { return };
        let Some(secret) = secret else { return self.remark("· nothing was answered") };
        let answer = QuestionAnswer { selected: Vec::new(), text: secret.to_string() };
        let told = async {
            let service = Service::find(self.context)?;
            service.call(&ANSWER_QUESTION, &ById { id }, &Empty {}, &answer).await
        };
        match told.await {
            Ok(_) => self.remark("· it is in the vault"),
            Err(failure) => self.print(Print::Error(failure.to_string())),
        }
    }

    /// Shows what is about no open message.
    pub(super) async fn beside(&mut self, frame: &Incoming) {
        match &frame.body {
            Body::Notification(notification) => match &notification.ref_id {
                Some(id) if matches!(notification.status.as_str(), "pending" | "open") => {
                    self.waiting.insert(id.clone());
                    self.paper.urge(&notification.content);
                    self.offer(id, notification).await;
                }
                id => {
                    if let Some(id) = id {
                        self.forget(id);
                    }
                    self.tell(notification);
                }
            },
            // What is wrong with messages of other connections is told there.
            Body::Error(error) if error.message_id.is_none() => self.remark(&complaint(error)),
            _ => {}
        }
    }

    /// Forgets what waits no more: the answer to a command does not say what it decided.
    pub(super) async fn forget_decided(&mut self) {
        let Source::Editor(editor) = &self.source else { return };
        let waiting = editor.known().waiting.clone();
        for Waiting { id, is_question, .. } in waiting {
            let path = ById { id: id.clone() };
            let waits = if is_question {
                let row = found(self.context, &SHOW_QUESTION, &path).await;
                row.map(|row| row.status == QuestionStatus::Open)
            } else {
                let row = found(self.context, &SHOW_APPROVAL, &path).await;
                row.map(|row| row.status == Status::Pending)
            };
            if waits == Some(false) {
                self.forget(&id);
            }
        }
    }

    fn forget(&mut self, id: &str) {
        self.waiting.remove(id);
        if let Source::Editor(editor) = &self.source {
            editor.known().waiting.retain(|waiting| waiting.id != *id);
        }
    }

    /// Says how something that waits is decided here.
    async fn offer(&mut self, id: &str, notification: &Notification) {
        let Source::Editor(editor) = &self.source else { return };
        let is_question = notification.kind == NotificationKind::Question;
        let path = ById { id: id.to_owned() };
        let (row, short) = if is_question {
            (found(self.context, &SHOW_QUESTION, &path).await, None)
        } else {
            (None, found(self.context, &SHOW_APPROVAL, &path).await.map(|row| row.short_id))
        };
        let words = row.as_ref().map_or(notification.content.as_str(), |row| &row.question);
        let about = excerpt::line(words.lines().next().unwrap_or_default(), ABOUT);
        let is_secret = row.as_ref().is_some_and(|row| row.kind == AnswerKind::Secret);
        let options = row.map(|row| row.options).unwrap_or_default();
        let numbers =
            options.iter().enumerate().map(|(place, option)| format!("{} {option}", place + 1));
        let numbers = numbers.collect::<Vec<_>>().join(", ");
        let how = match (is_question, is_secret) {
            (false, _) => "· y approves it once, n or n <why> denies it".to_owned(),
            (true, true) => "· /answer asks for it, and shows nothing of it".to_owned(),
            (true, false) if numbers.is_empty() => "· /answer <words> answers it".to_owned(),
            (true, false) => format!("· /answer <words or number> answers it: {numbers}"),
        };
        let (id, name) = (id.to_owned(), short.unwrap_or_else(|| id.to_owned()));
        let waiting = Waiting { id, name, about, is_question, options, is_secret };
        editor.known().waiting.push(waiting);
        self.paper.urge(&how);
    }
}
