//! Decision commands: approvals and answers by text. Only of those who may decide, and by code alone.

use actix::{ActorFutureExt, AsyncContext, Context, WrapFuture};

use super::{Router, sender::Sender};
use crate::{
    approvals::{
        Decide, List, Reply, card,
        question::{Answer, Question},
        record::{Approval, Choice, Decider, Resolution, Word},
        refusal::{NotAnswered, NotDecided},
    },
    audit::Audit,
    clock::Timestamp,
    excerpt,
    ids::{ChannelId, PrincipalId},
    router::records::Undecided,
    store::records::Writes,
    text::sentence,
};

/// A command about what waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DecisionCommand {
    List,
    Approve(String, Resolution),
    /// By whoever caused it, since nobody else could.
    ApproveAlone(String),
    Deny(String, String),
    Answer(String, String),
    /// Not the whole command: this is how it goes.
    Misspelt(&'static str),
}

const APPROVE: &str = "Say /approve <id>: it lets one call run, once; /approve <id> <n>: as many like it. /approvals lists what waits.";
/// Confirms the short id before it.
const ALONE: &str = "alone";
const DENY: &str = "Say /deny <id> <why>: the team reads why. /approvals lists what waits.";
const ANSWER: &str = "Say /answer <id> <text>. /approvals lists what waits.";
pub(super) const NOT_AUTHORIZED: &str = "Not authorized.";
pub(super) const GONE: &str = "The service is stopping; try again.";
/// Names of attempts in the audit.
pub(super) const DECIDE: &str = "approval.decide";
pub(super) const ANSWER_QUESTION: &str = "question.answer";

/// Reads a command from its word and the rest of the message.
pub(super) fn parse(word: &str, rest: &str) -> Option<DecisionCommand> {
    let (id, more) =
        rest.split_once(char::is_whitespace).map_or((rest, ""), |(id, more)| (id, more.trim()));
    let (id, more) = (id.to_owned(), more.to_owned());
    Some(match word {
        "/approvals" if rest.is_empty() => DecisionCommand::List,
        "/approve" if more == ALONE && !id.is_empty() => DecisionCommand::ApproveAlone(id),
        "/approve" => match uses(&more) {
            Some(resolution) if !id.is_empty() => DecisionCommand::Approve(id, resolution),
            _ => DecisionCommand::Misspelt(APPROVE),
        },
        "/deny" if !more.is_empty() => DecisionCommand::Deny(id, more),
        "/deny" => DecisionCommand::Misspelt(DENY),
        "/answer" if !more.is_empty() => DecisionCommand::Answer(id, more),
        "/answer" => DecisionCommand::Misspelt(ANSWER),
        _ => return None,
    })
}

impl DecisionCommand {
    /// What it tries, and on what, as the audit names them.
    fn attempt(&self) -> (&'static str, &str) {
        match self {
            Self::List | Self::Misspelt(_) => ("approval.list", ""),
            Self::Approve(which, _) | Self::ApproveAlone(which) | Self::Deny(which, _) => {
                (DECIDE, which)
            }
            Self::Answer(which, _) => (ANSWER_QUESTION, which),
        }
    }
}

/// For how many calls an approval is good. For any number only where that is shown before.
fn uses(text: &str) -> Option<Resolution> {
    match text {
        "" => Some(Resolution::Once),
        number => number.parse().ok().map(Resolution::Uses),
    }
}

impl Router {
    /// Carries out a command, and answers it once what it did is stored.
    pub(super) fn decide_by(
        &mut self,
        command: DecisionCommand,
        message: Undecided,
        ctx: &mut Context<Self>,
    ) {
        let Some(conversation) = self.conversations.get(&message.channel) else { return };
        let (by, may_approve) = self.decider(&conversation.sender, &conversation.row.principal);
        if !may_approve {
            let (action, target) = command.attempt();
            let refused = self.refused(action, target, &by, &message.channel);
            return self.respond(&message, NOT_AUTHORIZED.to_owned(), refused, ctx);
        }
        match command {
            DecisionCommand::Misspelt(usage) => {
                self.respond(&message, usage.to_owned(), Writes::new(), ctx);
            }
            DecisionCommand::List => self.list_waiting(message, ctx),
            DecisionCommand::Approve(which, resolution) => {
                let word = word(which, Choice::Approve, by);
                self.decide_on(Word { resolution, confirm: None, ..word }, message, ctx);
            }
            DecisionCommand::ApproveAlone(which) => {
                self.decide_on(word(which, Choice::Approve, by), message, ctx);
            }
            DecisionCommand::Deny(which, note) => {
                // Nothing runs by it: the id in the command is enough.
                let word = Word { note: Some(note), ..word(which, Choice::Deny, by) };
                self.decide_on(word, message, ctx);
            }
            DecisionCommand::Answer(question, text) => {
                let mut message = message;
                let answer = self.to.approvals.send(Reply {
                    question: question.into(),
                    answer: Answer { selected: Vec::new(), text },
                    by,
                    channel: Some(message.channel.clone()),
                });
                ctx.spawn(answer.into_actor(self).map(move |answered, router, ctx| {
                    // The other connections of the channel, and the store, are not told a secret.
                    message.told |= matches!(answered, Ok(Err(NotAnswered::SecretInChat)));
                    let text = answered.map_or_else(|_| GONE.to_owned(), told_of_answer);
                    router.respond(&message, text, Writes::new(), ctx);
                }));
            }
        }
    }

    fn decide_on(&mut self, word: Word, message: Undecided, ctx: &mut Context<Self>) {
        let channel = Some(message.channel.clone());
        let decided = self.to.approvals.send(Decide { word, channel });
        ctx.spawn(decided.into_actor(self).map(move |decided, router, ctx| {
            let text = decided.map_or_else(|_| GONE.to_owned(), told_of_decision);
            router.respond(&message, text, Writes::new(), ctx);
        }));
    }

    fn list_waiting(&mut self, message: Undecided, ctx: &mut Context<Self>) {
        ctx.spawn(self.to.approvals.send(List).into_actor(self).map(move |found, router, ctx| {
            let now = router.to.clock.now();
            let text = match found {
                Ok((approvals, questions)) => listed(&approvals, &questions, now),
                Err(_) => GONE.to_owned(),
            };
            router.respond(&message, text, Writes::new(), ctx);
        }));
    }

    /// Who decides when a sender does, on a channel of this owner, and whether they may.
    pub(super) fn decider(&self, sender: &Sender, owner: &PrincipalId) -> (Decider, bool) {
        let linked = self.linked(sender);
        let may_approve = sender.may_approve || linked.as_ref().is_some_and(|who| who.approve);
        let principal = match linked {
            Some(linked) => linked.principal,
            None if sender.channel_type.is_authenticated() => owner.clone(),
            // A channel of a network is not theirs because they write on it.
            None => PrincipalId::from(format!("{}:{}", sender.channel_type, sender.id)),
        };
        let sender = Some((sender.channel_type.to_string(), sender.id.clone()));
        (Decider { sender, ..Decider::new(principal) }, may_approve)
    }

    /// What somebody tried who may not.
    pub(super) fn refused(
        &self,
        action: &str,
        target: &str,
        by: &Decider,
        channel: &ChannelId,
    ) -> Writes {
        let target = excerpt::line(target, 64);
        let outcome = "refused: scope `approve` is missing";
        let (now, from) = (self.to.clock.now(), channel.as_str());
        tracing::warn!(by = %by.principal, action, channel = from, "somebody without the scope `approve` wanted to decide, and was refused");
        let ids = &self.to.ids;
        Writes::new().put(&Audit::new(ids, now, &by.principal, action, target, from, outcome))
    }
}

/// A word on one call, by someone who typed its id.
fn word(which: String, choice: Choice, by: Decider) -> Word {
    Word {
        confirm: Some(which.clone()),
        which,
        choice,
        resolution: Resolution::Once,
        digest: None,
        note: None,
        via: by.sender.as_ref().map_or("chat", |(kind, _)| kind).to_owned(),
        by,
    }
}

pub(super) fn told_of_decision(decided: Result<Approval, NotDecided>) -> String {
    let tool = |approval: &Approval| {
        let tool = approval.tool.as_deref();
        tool.unwrap_or(approval.kind.as_str()).to_owned()
    };
    match decided {
        Ok(approval) => match approval.votes.last().map(|vote| vote.choice) {
            Some(Choice::Deny) => format!("Denied: {}.", tool(&approval)),
            _ => format!("Approved: {}.", tool(&approval)),
        },
        Err(NotDecided::AlreadyResolved(approval)) => format!(
            "It is {} already, by {}.",
            approval.status.as_str(),
            approval.resolved_by.as_deref().unwrap_or("nobody"),
        ),
        Err(NotDecided::NotFound) => {
            "Nothing with that id waits. /approvals lists what does.".to_owned()
        }
        Err(NotDecided::Unconfirmed(short_id)) => format!(
            "You caused this, its risk is high, and nobody else could decide. Say /approve {short_id} {ALONE}."
        ),
        Err(refusal) => sentence(&refusal.to_string()),
    }
}

pub(super) fn told_of_answer(answered: Result<Question, NotAnswered>) -> String {
    match answered {
        Ok(question) => format!("Answered; {} goes on with it.", question.team.name),
        Err(NotAnswered::AlreadyAnswered(question)) => format!(
            "It is answered already, by {}.",
            question.by.as_deref().unwrap_or("nobody")
        ),
        Err(NotAnswered::SecretInChat) => {
            "It asks for a secret, which must not stand in a conversation: take another one, and answer with `hivewright questions answer` or in the page."
                .to_owned()
        }
        Err(refusal) => sentence(&refusal.to_string()),
    }
}

fn listed(approvals: &[Approval], questions: &[Question], now: Timestamp) -> String {
    if approvals.is_empty() && questions.is_empty() {
        return "Nothing waits for a decision or an answer.".to_owned();
    }
    let approvals = approvals.iter().map(|approval| card::line(approval, now));
    let questions = questions.iter().map(|question| {
        format!("{}: {} asks: {}", question.id, question.team.name, question.question)
    });
    approvals.chain(questions).collect::<Vec<_>>().join("\n")
}
