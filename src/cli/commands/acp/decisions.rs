//! Decisions: what waits for a person is put before the one at the editor.

use agent_client_protocol_schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionRequest, SessionId, SessionUpdate,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields,
};
use hivewright_actors::approvals::{question::AnswerKind, record::Choice};

use super::{editor::Editor, updates::words};
use crate::{
    api::{
        approvals::{ApprovalDecision, ApprovalRow, DECIDE, SHOW_APPROVAL},
        endpoint::ById,
        questions::{ANSWER_QUESTION, QuestionAnswer, SHOW_QUESTION},
    },
    cli::{client::Service, context::Context, failure::Failure},
};

const APPROVE: &str = "approve";
const DENY: &str = "deny";

/// Something that waits for a person.
pub(super) struct Decisions {
    pub(super) session: SessionId,
    pub(super) editor: Editor,
    pub(super) context: Context,
    /// The approval or question.
    pub(super) id: String,
    /// How it looks in a chat, with the words that decide it there.
    pub(super) card: String,
}

impl Decisions {
    /// Asks for a decision on a call. Whoever may not decide here is shown it.
    pub(super) async fn approval(self) {
        if let Err(failure) = self.decide().await {
            self.show(&format!("{}\n\n{failure}\n", self.card));
        }
    }

    /// Asks a question. Other words than its options are said in the next prompt.
    pub(super) async fn question(self) {
        match self.answer().await {
            Ok(true) => {}
            Ok(false) => self.show(&format!("{}\n", self.card)),
            Err(failure) => self.show(&format!("{}\n\n{failure}\n", self.card)),
        }
    }

    async fn decide(&self) -> Result<(), Failure> {
        let service = Service::find(&self.context)?;
        let path = ById { id: self.id.clone() };
        let found: ApprovalRow = service.at(&SHOW_APPROVAL, &path).await?.data()?;
        let fields = ToolCallUpdateFields::new()
            .title(format!("{} of {}: {}", found.what(), found.team, found.summary))
            .status(ToolCallStatus::Pending)
            .raw_input(found.arguments.clone())
            .content(vec![self.card.clone().into()]);
        let options = vec![
            PermissionOption::new(APPROVE, "Approve, once", PermissionOptionKind::AllowOnce),
            PermissionOption::new(DENY, "Deny", PermissionOptionKind::RejectOnce),
        ];
        let (decision, note, confirm) = match self.choose(fields, options).await.as_deref() {
            Some(APPROVE) => (Choice::Approve, None, None),
            // Nothing runs by it, so nothing more is asked.
            Some(DENY) => (Choice::Deny, Some("denied in an editor"), Some(found.short_id)),
            _ => return Ok(()),
        };
        let (digest, note) = (found.digest, note.map(str::to_owned));
        let word = ApprovalDecision { decision, digest, uses: None, note, confirm };
        let decided = service.send(&DECIDE, &path, &word).await;
        let status = match (&decided, decision) {
            (Ok(_), Choice::Approve) => ToolCallStatus::Completed,
            _ => ToolCallStatus::Failed,
        };
        self.mark(status);
        decided.map(drop)
    }

    /// Whether a choice has answered it.
    async fn answer(&self) -> Result<bool, Failure> {
        let service = Service::find(&self.context)?;
        let path = ById { id: self.id.clone() };
        let found = service.at(&SHOW_QUESTION, &path).await?.data()?;
        if found.kind == AnswerKind::Secret || found.options.is_empty() {
            return Ok(false);
        }
        let fields = ToolCallUpdateFields::new()
            .title(found.question.clone())
            .status(ToolCallStatus::Pending);
        let option = |(place, option): (usize, &String)| {
            PermissionOption::new(place.to_string(), option, PermissionOptionKind::AllowOnce)
        };
        let mut options: Vec<_> = found.options.iter().enumerate().map(option).collect();
        let otherwise = PermissionOptionKind::RejectOnce;
        options.push(PermissionOption::new(DENY, "Answer in words", otherwise));
        let chosen = self.choose(fields, options).await;
        let place = chosen.and_then(|place| place.parse::<usize>().ok());
        let Some(option) = place.and_then(|place| found.options.get(place)) else {
            return Ok(false);
        };
        let answer = QuestionAnswer { selected: vec![option.clone()], text: String::new() };
        let answered = service.send(&ANSWER_QUESTION, &path, &answer).await;
        self.mark(if answered.is_ok() {
            ToolCallStatus::Completed
        } else {
            ToolCallStatus::Failed
        });
        answered.map(|_| true)
    }

    async fn choose(
        &self,
        fields: ToolCallUpdateFields,
        options: Vec<PermissionOption>,
    ) -> Option<String> {
        let call = ToolCallUpdate::new(self.id.clone(), fields);
        let request = RequestPermissionRequest::new(self.session.clone(), call, options);
        self.editor.choose(&request).await
    }

    fn mark(&self, status: ToolCallStatus) {
        let fields = ToolCallUpdateFields::new().status(status);
        let update = ToolCallUpdate::new(self.id.clone(), fields);
        self.editor.update(&self.session, SessionUpdate::ToolCallUpdate(update));
    }

    fn show(&self, text: &str) {
        self.editor.update(&self.session, words(text));
    }
}
