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
        approvals::{ApprovalFilter, ApprovalRow, LIST_APPROVALS, SHOW_APPROVAL},
        endpoint::ById,
        questions::*,
    },
    cli::{
        channel_state::Incoming,
        client::Service,
        context::Context,
        delegated::found,
        editor::known::{Reply, Waiting},
        failure::Failure,
        table::first_line,
        transcript::{Print, complaint},
    },
};

/// So many characters tell what something is about that waits.
const ABOUT: usize = 60;
/// So many characters of what a call would do are shown.
const SHOWN: usize = 1000;
/// So many are shown one by one when a chat begins.
const FEW: usize = 3;

impl Chat<'_> {
    /// A word that decides what waits. It decides what its hint said, and nothing that came since.
    pub(super) async fn decides(&mut self, line: &str, aim: Option<&str>) -> Result<bool, Failure> {
        let Source::Editor(editor) = &mut self.source else { return Ok(false) };
        let mut aim = aim.map(str::to_owned);
        let elsewhere = editor.known().unknown_question(line);
        if let Some(id) = elsewhere
            && let Some(row) = found(self.context, &SHOW_QUESTION, &ById { id }).await
            && row.status == QuestionStatus::Open
        {
            aim = Some(row.id.clone());
            editor.known().waiting.push(of_question(row));
        }
        if editor.known().tells_secret(line) {
            let how = match editor.known().unclear(line) {
                Some(names) => format!("several wait, so write /answer and one of {names}"),
                None => "/answer alone asks for a secret, and shows nothing of it".to_owned(),
            };
            self.remark(&format!("· nothing was answered: {how}"));
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
                editor.ask_secret(format!("{} (not shown) ", waiting.about));
                self.asked = Some(waiting.id);
                return Ok(true);
            }
            Reply::Answer(words) => {
                let Some(answer) = waiting.meant(&words) else {
                    let options = waiting.numbered();
                    self.remark(&format!(
                        "· there is no option {words}, so nothing was answered: {options}"
                    ));
                    return Ok(true);
                };
                format!("/answer {id} {answer}")
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
            service.send(&ANSWER_QUESTION, &ById { id }, &answer).await
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

    /// Says that something waits, and how it is decided here.
    async fn offer(&mut self, id: &str, notification: &Notification) {
        let Source::Editor(_) = self.source else {
            return self.paper.urge(&notification.content);
        };
        let is_question = notification.kind == NotificationKind::Question;
        let path = ById { id: id.to_owned() };
        let mut said = notification.content.clone();
        let waiting = if is_question {
            let row = found(self.context, &SHOW_QUESTION, &path).await;
            // Other channels have no way to ask for a secret.
            if let Some(row) = row.as_ref().filter(|row| row.kind == AnswerKind::Secret) {
                said = asked(row);
            }
            row.map(of_question)
        } else {
            found(self.context, &SHOW_APPROVAL, &path).await.map(of_approval)
        };
        let waiting = waiting.unwrap_or_else(|| Waiting {
            id: id.to_owned(),
            name: id.to_owned(),
            about: first_line(&notification.content, ABOUT),
            is_question,
            options: Vec::new(),
            is_secret: false,
        });
        self.paper.urge(&said);
        self.expect(waiting);
    }

    /// Shows what has waited since before, to whoever may decide on it.
    pub(super) async fn catch_up(&mut self) {
        let Source::Editor(editor) = &self.source else { return };
        let Ok(service) = Service::find(self.context) else { return };
        let pending = ApprovalFilter { status: Some(Status::Pending), ..ApprovalFilter::default() };
        let approvals = service.rows(&LIST_APPROVALS, &pending).await;
        let open =
            QuestionFilter { status: Some(QuestionStatus::Open), ..QuestionFilter::default() };
        let questions = service.rows(&LIST_QUESTIONS, &open).await;
        let approvals = approvals.and_then(|rows| rows.data()).unwrap_or_default();
        let questions = questions.and_then(|rows| rows.data()).unwrap_or_default();
        let approvals =
            approvals.into_iter().map(|row| (asked_for(&row, self.context), of_approval(row)));
        let questions = questions.into_iter().map(|row| (asked(&row), of_question(row)));
        let those: Vec<(String, Waiting)> = approvals.chain(questions).collect();
        if those.len() > FEW {
            let many = those.len();
            editor.known().waiting.extend(those.into_iter().map(|(_, waiting)| waiting));
            return self.remark(&format!(
                "· {many} wait for a decision or an answer: /approvals lists them"
            ));
        }
        for (said, waiting) in those {
            self.paper.urge(&said);
            self.expect(waiting);
        }
    }

    /// Says how something that waits is decided here.
    fn expect(&mut self, waiting: Waiting) {
        let Source::Editor(editor) = &self.source else { return };
        let numbers = waiting.numbered();
        let mut known = editor.known();
        known.waiting.retain(|other| other.id != waiting.id);
        // Of several each is named.
        let is_alone = known.waiting.iter().all(|other| other.is_question != waiting.is_question);
        let name = if is_alone { String::new() } else { format!(" {}", waiting.name) };
        let how = match (waiting.is_question, waiting.is_secret) {
            (false, _) if is_alone => "· y approves it once, n or n <why> denies it".to_owned(),
            (false, _) => format!("· y{name} approves it once, n{name} denies it"),
            (true, true) => format!("· /answer{name} asks for it, and shows nothing of it"),
            (true, false) if numbers.is_empty() => format!("· /answer{name} <words> answers it"),
            (true, false) => format!("· /answer{name} <words or number> answers it: {numbers}"),
        };
        known.waiting.push(waiting);
        drop(known);
        self.paper.urge(&how);
    }
}

fn asked(row: &QuestionRow) -> String {
    let what = if row.kind == AnswerKind::Secret { "asks for a secret" } else { "asks" };
    format!("[{}] {what}: {}", row.team, row.question)
}

/// What a person needs to decide, of a call that has waited.
fn asked_for(row: &ApprovalRow, context: &Context) -> String {
    let whole = context.command(&format!("approvals show {}", row.short_id));
    let cut = |text: &str| excerpt::excerpt(text, SHOWN, &whole);
    let what = match &row.diff {
        Some(diff) => cut(diff),
        None => format!("Arguments: {}", cut(&row.arguments.to_string())),
    };
    format!("[{}] wants to use {}. {}\n{what}", row.team, row.what(), row.summary)
}

fn of_question(row: QuestionRow) -> Waiting {
    Waiting {
        name: row.id.clone(),
        id: row.id,
        about: first_line(&row.question, ABOUT),
        is_question: true,
        options: row.options,
        is_secret: row.kind == AnswerKind::Secret,
    }
}

fn of_approval(row: ApprovalRow) -> Waiting {
    Waiting {
        about: first_line(&format!("{}. {}", row.what(), row.summary), ABOUT),
        id: row.id,
        name: row.short_id,
        is_question: false,
        options: Vec::new(),
        is_secret: false,
    }
}
