//! Pending requests: approvals and questions that wait for a person, and the rules of deciding. No clock, no store.

use std::collections::{BTreeMap, VecDeque};

use super::{
    question::{Answer, AnswerKind, Question, QuestionStatus},
    record::{Approval, Choice, Decider, Digester, Status, Word},
    refusal::{NotAnswered, NotDecided},
};
use crate::{
    clock::Timestamp,
    ids::{ApprovalId, QuestionId, TaskId, TeamKey},
};

/// So many decisions are remembered without looking into the store.
const MAX_REMEMBERED: usize = 256;

/// What waits for a person.
#[derive(Debug, Default)]
pub(super) struct PendingRequests {
    approvals: BTreeMap<ApprovalId, Approval>,
    questions: BTreeMap<QuestionId, Question>,
    /// The latest decisions, newest last.
    decided: VecDeque<Approval>,
}

impl PendingRequests {
    pub(super) fn open(&mut self, approval: Approval) {
        if approval.status == Status::Pending {
            self.approvals.insert(approval.id.clone(), approval);
        }
    }

    pub(super) fn ask(&mut self, question: Question) {
        if question.status == QuestionStatus::Open {
            self.questions.insert(question.id.clone(), question);
        }
    }

    /// It is waiting or was decided on lately.
    pub(super) fn knows(&self, id: &ApprovalId) -> bool {
        self.approvals.contains_key(id) || self.decided.iter().any(|known| known.id == *id)
    }

    /// What waits for a decision, and what for an answer, oldest first.
    pub(super) fn waiting(&self) -> (Vec<Approval>, Vec<Question>) {
        let mut approvals: Vec<_> = self.approvals.values().cloned().collect();
        approvals.sort_by_key(|approval| approval.created_at);
        let mut questions: Vec<_> = self.questions.values().cloned().collect();
        questions.sort_by_key(|question| question.created_at);
        (approvals, questions)
    }

    pub(super) fn question(&self, id: &QuestionId) -> Option<&Question> {
        self.questions.get(id)
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let approvals = self.approvals.values().map(|approval| approval.expires_at);
        approvals.chain(self.questions.values().map(|question| question.expires_at)).min()
    }

    /// Takes out what has run out.
    pub(super) fn expire(&mut self, now: Timestamp) -> (Vec<Approval>, Vec<Question>) {
        let approvals = self.end(Status::Expired, now, |approval| approval.expires_at <= now);
        (approvals, self.close(QuestionStatus::Expired, |question| question.expires_at <= now))
    }

    /// The work of a task is over: nobody needs to decide on its calls.
    pub(super) fn cancel_task(&mut self, task: &TaskId, now: Timestamp) -> Vec<Approval> {
        self.end(Status::Cancelled, now, |approval| approval.task.as_ref() == Some(task))
    }

    /// Whoever asked takes it back.
    pub(super) fn cancel(&mut self, id: &ApprovalId, now: Timestamp) -> Vec<Approval> {
        self.end(Status::Cancelled, now, |approval| approval.id == *id)
    }

    /// A team is gone: nobody needs to decide on its calls or to answer it.
    pub(super) fn cancel_team(
        &mut self,
        team: &TeamKey,
        now: Timestamp,
    ) -> (Vec<Approval>, Vec<Question>) {
        let approvals = self.end(Status::Cancelled, now, |approval| approval.team == *team);
        (approvals, self.close(QuestionStatus::Cancelled, |question| question.team == *team))
    }

    fn end(
        &mut self,
        status: Status,
        now: Timestamp,
        which: impl Fn(&Approval) -> bool,
    ) -> Vec<Approval> {
        let taken = self.approvals.extract_if(.., |_, approval| which(approval));
        let mut ended: Vec<Approval> = taken.map(|(_, approval)| approval).collect();
        for approval in &mut ended {
            approval.end(status, None, now);
            self.remember(approval.clone());
        }
        ended
    }

    fn close(
        &mut self,
        status: QuestionStatus,
        which: impl Fn(&Question) -> bool,
    ) -> Vec<Question> {
        let taken = self.questions.extract_if(.., |_, question| which(question));
        taken.map(|(_, question)| Question { status, ..question }).collect()
    }

    fn remember(&mut self, approval: Approval) {
        self.decided.push_back(approval);
        if self.decided.len() > MAX_REMEMBERED {
            self.decided.pop_front();
        }
    }

    /// The first word decides. None: it does not wait, and may be in the store.
    pub(super) fn decide(
        &mut self,
        word: &Word,
        digester: Digester,
        is_alone: &dyn Fn(&Approval) -> bool,
        now: Timestamp,
    ) -> Option<Result<Decided, NotDecided>> {
        let meant = |approval: &&Approval| {
            approval.id.as_str() == word.which || approval.short_id == word.which
        };
        let Some(approval) = self.approvals.values().find(meant) else {
            return Some(repeated(self.decided.iter().rev().find(meant)?, word));
        };
        if let Err(refusal) = admit(approval, word, digester, is_alone) {
            return Some(Err(refusal));
        }
        let id = approval.id.clone();
        let mut approval = self.approvals.remove(&id)?;
        approval.decide(word, now);
        self.remember(approval.clone());
        Some(Ok(Decided::New(approval)))
    }

    /// The first answer counts.
    pub(super) fn answer(
        &mut self,
        id: &QuestionId,
        answer: Answer,
        by: &Decider,
        now: Timestamp,
    ) -> Option<Question> {
        let mut question = self.questions.remove(id)?;
        question.status = QuestionStatus::Answered;
        question.by = Some(by.principal.to_string());
        question.answered_at = Some(now);
        // A secret is in the vault, and nowhere else.
        question.answer = (question.kind == AnswerKind::Text).then_some(answer);
        Some(question)
    }
}

/// A decision that counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Decided {
    /// Made just now, and not yet stored.
    New(Approval),
    /// Made before, by the same person.
    Again(Approval),
}

/// What somebody hears of an approval that was decided on before.
pub(super) fn repeated(approval: &Approval, word: &Word) -> Result<Decided, NotDecided> {
    let same = approval.votes.last().is_some_and(|vote| {
        let digest = word.digest.as_ref();
        vote.by == word.by.principal.as_str()
            && vote.choice == word.choice
            && approval.resolution.is_none_or(|resolution| resolution == word.resolution)
            && digest.is_none_or(|digest| *digest == vote.digest)
    });
    match approval.status {
        Status::Expired => Err(NotDecided::Expired(Box::new(approval.clone()))),
        _ if same => Ok(Decided::Again(approval.clone())),
        _ => Err(NotDecided::AlreadyResolved(Box::new(approval.clone()))),
    }
}

fn admit(
    approval: &Approval,
    word: &Word,
    digester: Digester,
    is_alone: &dyn Fn(&Approval) -> bool,
) -> Result<(), NotDecided> {
    let other = |digest: &String| *digest != approval.digest;
    if word.digest.as_ref().is_some_and(other) || !approval.is_intact(digester) {
        return Err(NotDecided::DigestMismatch);
    }
    if approval.needs_another(&word.by) {
        if !is_alone(approval) {
            return Err(NotDecided::NotAllowed);
        }
        if word.confirm.as_ref() != Some(&approval.short_id) {
            return Err(NotDecided::Unconfirmed(approval.short_id.clone()));
        }
    }
    match word.choice {
        Choice::Approve => Ok(word.resolution.suits(approval)?),
        Choice::Deny => Ok(()),
    }
}

/// Why a question that is not open takes no answer.
pub(super) fn closed(question: Question) -> NotAnswered {
    match question.status {
        QuestionStatus::Expired => NotAnswered::Expired,
        QuestionStatus::Cancelled => NotAnswered::Cancelled,
        QuestionStatus::Answered => NotAnswered::AlreadyAnswered(Box::new(question)),
        // An answer to it is on its way.
        QuestionStatus::Open => NotAnswered::Busy,
    }
}
