//! Card buttons: decisions and answers by a press of a button, on networks that have them.

use actix::{ActorFutureExt, Context, Handler, Message, ResponseActFuture, WrapFuture, fut};

use super::{
    Router,
    decision_commands::{
        ANSWER_QUESTION, DECIDE, GONE, NOT_AUTHORIZED, told_of_answer, told_of_decision,
    },
    sender::Sender,
};
use crate::{
    approvals::{
        Decide, Reply,
        question::Answer,
        record::{Choice, Resolution, Word},
        refusal::{NotAnswered, NotDecided},
    },
    ids::{ApprovalId, ChannelId, PrincipalId, QuestionId},
    store::records::Writes,
};

/// Somebody presses a button of a card. It passes the trust gate, and counts only from those who may decide.
#[derive(Clone, Debug, Message)]
#[rtype(result = "Told")]
pub struct Press {
    /// Where the card is.
    pub channel: ChannelId,
    pub owner: PrincipalId,
    pub sender: Sender,
    pub button: Button,
}

/// A button, with what the person saw beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Button {
    /// A word on a call that waits.
    Decide {
        approval: ApprovalId,
        /// The digest of the call that was shown.
        digest: String,
        choice: Choice,
    },
    /// Options of a question.
    Answer { question: QuestionId, selected: Vec<String> },
}

/// What whoever pressed is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub text: String,
    /// Nothing waits for a press any more.
    pub is_settled: bool,
}

impl Told {
    fn refused(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_settled: false }
    }
}

impl Handler<Press> for Router {
    type Result = ResponseActFuture<Self, Told>;

    fn handle(&mut self, press: Press, ctx: &mut Context<Self>) -> Self::Result {
        let Press { channel, owner, sender, button } = press;
        let told = |told| -> Self::Result { Box::pin(fut::ready(told)) };
        if self.take_control(&sender).is_err() {
            return told(Told::refused("Too many presses; slow down."));
        }
        let decision = self.judge(&channel, &sender);
        let row = self.row(&channel, &sender, decision);
        self.commit(Writes::new().put(&row), ctx);
        let (by, may_approve) = self.decider(&sender, &owner);
        if !decision.allowed || !may_approve {
            let (action, target) = match &button {
                Button::Decide { approval, .. } => (DECIDE, approval.as_str()),
                Button::Answer { question, .. } => (ANSWER_QUESTION, question.as_str()),
            };
            let refused = self.refused(action, target, &by, &channel);
            self.commit(refused, ctx);
            return told(Told::refused(NOT_AUTHORIZED));
        }
        match button {
            Button::Decide { approval, digest, choice } => {
                let word = Word {
                    which: approval.to_string(),
                    choice,
                    resolution: Resolution::Once,
                    digest: Some(digest),
                    note: None,
                    // A press is no typed word: who would decide alone has to type it.
                    confirm: None,
                    via: sender.channel_type.to_string(),
                    by,
                };
                let decided = self.to.approvals.send(Decide { word, channel: Some(channel) });
                Box::pin(decided.into_actor(self).map(|decided, _, _| {
                    let Ok(decided) = decided else { return Told::refused(GONE) };
                    let is_settled = matches!(
                        decided,
                        Ok(_)
                            | Err(NotDecided::AlreadyResolved(_)
                                | NotDecided::Expired(_)
                                | NotDecided::NotFound)
                    );
                    Told { text: told_of_decision(decided), is_settled }
                }))
            }
            Button::Answer { question, selected } => {
                let answer = Answer { selected, text: String::new() };
                let reply = Reply { question, answer, by, channel: Some(channel) };
                let answered = self.to.approvals.send(reply);
                Box::pin(answered.into_actor(self).map(|answered, _, _| {
                    let Ok(answered) = answered else { return Told::refused(GONE) };
                    let is_settled = matches!(
                        answered,
                        Ok(_)
                            | Err(NotAnswered::AlreadyAnswered(_)
                                | NotAnswered::Expired
                                | NotAnswered::Cancelled
                                | NotAnswered::NotFound)
                    );
                    Told { text: told_of_answer(answered), is_settled }
                }))
            }
        }
    }
}
