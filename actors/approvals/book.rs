//! The book: what waits for a person, and the rules of deciding. No clock, no store.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
const REMEMBERED: usize = 256;

/// Something that waits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Waiting {
    Approval(ApprovalId),
    Question(QuestionId),
}

/// What ran out.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expired {
    Approval(Box<Approval>),
    Question(Box<Question>),
}

/// What waits for a person.
#[derive(Debug, Default)]
pub(super) struct Book {
    approvals: BTreeMap<ApprovalId, Approval>,
    questions: BTreeMap<QuestionId, Question>,
    due: BTreeSet<(Timestamp, Waiting)>,
    /// The latest decisions, newest last.
    decided: VecDeque<Approval>,
}

impl Book {
    pub(super) fn open(&mut self, approval: Approval) {
        if approval.status == Status::Pending {
            let waiting = Waiting::Approval(approval.id.clone());
            self.due.insert((approval.expires_at, waiting));
            self.approvals.insert(approval.id.clone(), approval);
        }
    }

    pub(super) fn ask(&mut self, question: Question) {
        if question.status == QuestionStatus::Open {
            let waiting = Waiting::Question(question.id.clone());
            self.due.insert((question.expires_at, waiting));
            self.questions.insert(question.id.clone(), question);
        }
    }

    /// It is waiting or was decided on lately.
    pub(super) fn knows(&self, id: &ApprovalId) -> bool {
        self.approvals.contains_key(id) || self.decided.iter().any(|known| known.id == *id)
    }

    /// What waits for a decision, oldest first.
    pub(super) fn approvals(&self) -> Vec<Approval> {
        let mut list: Vec<_> = self.approvals.values().cloned().collect();
        list.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        list
    }

    /// What waits for an answer, oldest first.
    pub(super) fn questions(&self) -> Vec<Question> {
        let mut list: Vec<_> = self.questions.values().cloned().collect();
        list.sort_by(|one, other| (one.created_at, &one.id).cmp(&(other.created_at, &other.id)));
        list
    }

    pub(super) fn question(&self, id: &QuestionId) -> Option<&Question> {
        self.questions.get(id)
    }

    /// When the next thing runs out.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Takes out what has run out.
    pub(super) fn expire(&mut self, now: Timestamp) -> Vec<Expired> {
        let mut expired = Vec::new();
        while let Some((at, _)) = self.due.first()
            && *at <= now
            && let Some((_, waiting)) = self.due.pop_first()
        {
            match waiting {
                Waiting::Approval(id) => {
                    let ended = self.end(&id, Status::Expired, now);
                    expired.extend(ended.map(|ended| Expired::Approval(Box::new(ended))));
                }
                Waiting::Question(id) => {
                    if let Some(mut question) = self.questions.remove(&id) {
                        question.status = QuestionStatus::Expired;
                        expired.push(Expired::Question(Box::new(question)));
                    }
                }
            }
        }
        expired
    }

    /// The work of a task is over: nobody needs to decide on its calls.
    pub(super) fn cancel_task(&mut self, task: &TaskId, now: Timestamp) -> Vec<Approval> {
        self.cancel(now, |approval| approval.task.as_ref() == Some(task))
    }

    /// A team is gone: nobody needs to decide on its calls or to answer it.
    pub(super) fn cancel_team(
        &mut self,
        team: &TeamKey,
        now: Timestamp,
    ) -> (Vec<Approval>, Vec<Question>) {
        let approvals = self.cancel(now, |approval| approval.team == *team);
        let asked: Vec<_> = self.questions.extract_if(.., |_, asked| asked.team == *team).collect();
        let questions = asked.into_iter().map(|(_, mut question)| {
            self.forget_question(&question);
            question.status = QuestionStatus::Cancelled;
            question
        });
        (approvals, questions.collect())
    }

    fn cancel(&mut self, now: Timestamp, which: impl Fn(&Approval) -> bool) -> Vec<Approval> {
        let ids: Vec<_> = self
            .approvals
            .values()
            .filter(|approval| which(approval))
            .map(|approval| approval.id.clone())
            .collect();
        ids.iter().filter_map(|id| self.end(id, Status::Cancelled, now)).collect()
    }

    fn end(&mut self, id: &ApprovalId, status: Status, now: Timestamp) -> Option<Approval> {
        let mut approval = self.take(id)?;
        approval.end(status, None, now);
        self.remember(approval.clone());
        Some(approval)
    }

    fn take(&mut self, id: &ApprovalId) -> Option<Approval> {
        let approval = self.approvals.remove(id)?;
        let waiting = Waiting::Approval(approval.id.clone());
        self.due.remove(&(approval.expires_at, waiting));
        Some(approval)
    }

    fn forget_question(&mut self, question: &Question) {
        let waiting = Waiting::Question(question.id.clone());
        self.due.remove(&(question.expires_at, waiting));
    }

    fn remember(&mut self, approval: Approval) {
        self.decided.push_back(approval);
        if self.decided.len() > REMEMBERED {
            self.decided.pop_front();
        }
    }

    /// The first word decides. None: it is not in the book, and may be in the store.
    pub(super) fn decide(
        &mut self,
        word: &Word,
        digester: Digester,
        is_alone: &dyn Fn(&Approval) -> bool,
        now: Timestamp,
    ) -> Option<Result<Said, NotDecided>> {
        let meant = |approval: &&Approval| {
            approval.id.as_str() == word.which || approval.short_id == word.which
        };
        let Some(approval) = self.approvals.values().find(meant) else {
            let known = self.decided.iter().rev().find(meant)?;
            return Some(repeated(known, word));
        };
        if let Err(refusal) = admit(approval, word, digester, is_alone) {
            return Some(Err(refusal));
        }
        let mut approval = self.take(&approval.id.clone())?;
        approval.decide(word, now);
        self.remember(approval.clone());
        Some(Ok(Said::New(approval)))
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
        self.forget_question(&question);
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
pub(super) enum Said {
    /// Made just now, and not yet stored.
    New(Approval),
    /// Made before, by the same person.
    Again(Approval),
}

/// What somebody hears of an approval that was decided on before.
pub(super) fn repeated(approval: &Approval, word: &Word) -> Result<Said, NotDecided> {
    let same = approval.votes.last().is_some_and(|vote| {
        let digest = word.digest.as_ref();
        vote.by == word.by.principal.as_str()
            && vote.choice == word.choice
            && approval.resolution.is_none_or(|resolution| resolution == word.resolution)
            && digest.is_none_or(|digest| *digest == vote.digest)
    });
    match approval.status {
        Status::Expired => Err(NotDecided::Expired(Box::new(approval.clone()))),
        _ if same => Ok(Said::Again(approval.clone())),
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
