//! Approval: a held call, what exactly is decided on, and the one decision.

use std::collections::BTreeMap;

use actix::Message;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::canonical::canonical;
use crate::{
    budget::Request,
    channel_type::ChannelType,
    clock::Timestamp,
    ids::{ApprovalId, PrincipalId, TaskId, TeamKey, TurnId},
    policy::caution::{Kind, Risk},
    task::{Label, Lane, Lineage, Source, cause::Cause},
    words,
};

/// The form of what is digested. Another form gives other digests.
const VERSION: u32 = 1;

/// Makes the digest of some bytes, in hexadecimal: SHA-256, from the edges.
pub type Digester = fn(&[u8]) -> String;

/// A held call, as it is stored. It is kept as long as ended tasks are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    pub id: ApprovalId,
    /// Six letters for people, unique among those that wait.
    pub short_id: String,
    pub kind: Kind,
    /// The team that would do it.
    pub team: TeamKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<Lane>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    /// The call that waits: the same for every try of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    pub requester: Cause,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its final arguments, without secrets.
    pub arguments: Value,
    /// Something was taken out of the arguments for showing them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub scrubbed: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The secrets it would use, with their versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, u64>,
    /// Stands for the form of the tool.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub schema: String,
    /// What would happen, in one sentence.
    pub summary: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    pub risk: Risk,
    /// How far what its turn has read may be believed.
    pub label: Label,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lineage: Option<Lineage>,
    /// Where it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Stands for everything that is decided on.
    pub digest: String,
    /// Makes the digest one of its kind.
    pub nonce: String,
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolution: Option<Resolution>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub votes: Vec<Vote>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_via: Option<String>,
    /// Whoever caused it decided, since nobody else could.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub created_at: Timestamp,
    pub expires_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Timestamp>,
    pub execution: Execution,
}

words! {
    /// What became of an approval. Only the first is not final.
    #[schemars(rename = "ApprovalStatus")]
    pub enum Status {
        /// Nobody has decided.
        Pending = "pending",
        /// It may run, once.
        Approved = "approved",
        /// It must not.
        Denied = "denied",
        /// Nobody decided in time: it must not.
        Expired = "expired",
        /// The work ended without it.
        Cancelled = "cancelled",
    }
}

/// For what an approval is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// One execution of exactly this.
    Once,
    /// So many of them.
    Uses(u32),
    /// Any number.
    Always,
}

words! {
    /// What became of an approved call.
    #[derive(Default)]
    pub enum Execution {
        /// It has not begun.
        #[default]
        None = "none",
        /// It has begun.
        Running = "running",
        /// It ended well.
        Done = "done",
        /// It did not.
        Failed = "failed",
        /// The process stopped under it.
        Unknown = "unknown",
    }
}

words! {
    /// What somebody decides.
    pub enum Choice {
        /// It may run.
        Approve = "approve",
        /// It must not.
        Deny = "deny",
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    pub by: String,
    pub choice: Choice,
    pub digest: String,
    pub at: Timestamp,
}

/// Somebody who may decide: the edges have seen their credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decider {
    pub principal: PrincipalId,
    /// Which credential, if it is one of several.
    pub credential: Option<String>,
    /// The person in a channel: its type and their id there.
    pub sender: Option<(String, String)>,
    /// Where they decide from, as the audit says it, if that is no conversation.
    pub from: Option<String>,
}

impl Decider {
    pub fn new(principal: impl Into<PrincipalId>) -> Self {
        Self { principal: principal.into(), credential: None, sender: None, from: None }
    }

    /// They are who caused the work.
    pub(super) fn is(&self, cause: &Cause) -> bool {
        match cause {
            Cause::System => false,
            Cause::Operator { name } => self.principal.as_str() == name,
            Cause::Sender { channel_type, id, principal, .. } => {
                let in_channel = self
                    .sender
                    .as_ref()
                    .is_some_and(|(kind, sender)| kind == channel_type && sender == id);
                // On these ways a sender is the holder of a token, unless it claims another name.
                let by_token = ChannelType::is_authenticated_name(channel_type);
                let known = [Some(id).filter(|_| by_token), principal.as_ref()];
                in_channel || known.contains(&Some(&self.principal.to_string()))
            }
        }
    }
}

/// Somebody's word on an approval.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// The approval: its id or its short id.
    pub which: String,
    pub choice: Choice,
    /// For what it is good, if they approve.
    pub resolution: Resolution,
    /// The digest that they saw, if the way they decide on shows it.
    pub digest: Option<String>,
    pub note: Option<String>,
    /// The short id, typed by somebody who means to decide alone.
    pub confirm: Option<String>,
    pub by: Decider,
    pub via: String,
}

/// A call that is about to run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intended<'a> {
    pub(crate) team: &'a TeamKey,
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Value,
    pub(crate) cwd: Option<&'a str>,
    /// The secrets it uses, with their versions now.
    pub(crate) secrets: &'a BTreeMap<String, u64>,
}

/// Why a call must not run although somebody was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotPermitted {
    #[error("it is not approved")]
    NotApproved,
    #[error("the approval was used already")]
    Used,
    #[error("digest_mismatch: it is not what was approved")]
    DigestMismatch,
}

impl Approval {
    /// What whoever decides should mind.
    pub fn warnings(&self) -> impl Iterator<Item = &'static str> + use<> {
        let high =
            "High risk: whoever caused the task does not decide this, unless nobody else could.";
        let high = (self.risk == Risk::High).then_some(high);
        let untrusted =
            (self.label == Label::Untrusted).then_some("The turn has read untrusted content.");
        high.into_iter().chain(untrusted)
    }

    /// The digest of what is decided on, with these arguments.
    fn digest_of(&self, digester: Digester, intended: Intended<'_>) -> String {
        let bound = json!({
            "v": VERSION,
            "kind": self.kind,
            "team": intended.team.name,
            "generation": intended.team.generation,
            "tool": intended.tool,
            "args": intended.arguments,
            "cwd": intended.cwd,
            "secrets": intended.secrets,
            "requester": self.requester,
            "expires_at": self.expires_at,
            "nonce": self.nonce,
        });
        digester(canonical(&bound).as_bytes())
    }

    fn intended<'a>(&'a self, arguments: &'a Value) -> Intended<'a> {
        Intended {
            team: &self.team,
            tool: self.tool.as_deref().unwrap_or_default(),
            arguments,
            cwd: self.cwd.as_deref(),
            secrets: &self.secrets,
        }
    }

    /// The same, bound to arguments: for a record in the making.
    pub(super) fn bind(&mut self, digester: Digester, arguments: &Value) {
        self.digest = self.digest_of(digester, self.intended(arguments));
    }

    /// The row is as it was written, as far as it shows what was bound.
    pub(super) fn is_intact(&self, digester: Digester) -> bool {
        self.scrubbed || self.digest == self.digest_of(digester, self.intended(&self.arguments))
    }

    /// Whether a call may run by this approval: it is what was approved to the last byte, and has not
    /// begun.
    pub(crate) fn permits(
        &self,
        digester: Digester,
        intended: Intended<'_>,
    ) -> Result<(), NotPermitted> {
        self.covers(digester, intended)?;
        if self.execution == Execution::None { Ok(()) } else { Err(NotPermitted::Used) }
    }

    /// Whether a call is what was approved to the last byte, begun or not. To be asked immediately
    /// before it runs.
    pub(crate) fn covers(
        &self,
        digester: Digester,
        intended: Intended<'_>,
    ) -> Result<(), NotPermitted> {
        let vote = self.votes.last();
        let (Status::Approved, Some(vote)) = (self.status, vote) else {
            return Err(NotPermitted::NotApproved);
        };
        let digest = self.digest_of(digester, intended);
        if vote.choice != Choice::Approve || vote.digest != digest || self.digest != digest {
            return Err(NotPermitted::DigestMismatch);
        }
        Ok(())
    }

    /// What it asks for, if that is money.
    pub fn budget_request(&self) -> Option<Request> {
        match self.kind {
            Kind::Budget => serde_json::from_value(self.arguments.clone()).ok(),
            _ => None,
        }
    }

    /// Nobody has decided, and there is still time.
    pub fn is_pending(&self, now: Timestamp) -> bool {
        self.status == Status::Pending && now < self.expires_at
    }

    /// What the model reads of a call that must not run: `denied by <who>: <note>`.
    pub fn denial(&self) -> String {
        match self.status {
            Status::Expired => "denied by nobody: no decision in time".to_owned(),
            Status::Cancelled => "cancelled: the work it was asked for has ended".to_owned(),
            _ => {
                let who = self.resolved_by.as_deref().unwrap_or("the operator");
                match self.note.as_deref() {
                    Some(note) if !note.is_empty() => format!("denied by {who}: {note}"),
                    _ => format!("denied by {who}"),
                }
            }
        }
    }

    /// Its risk is high, and they caused it: somebody else decides, if there is anybody.
    pub(super) fn needs_another(&self, decider: &Decider) -> bool {
        self.risk == Risk::High && decider.is(&self.requester)
    }

    /// The decision. It is the caller's to see that there was none.
    pub(super) fn decide(&mut self, word: &Word, now: Timestamp) {
        let Word { choice, by, .. } = word;
        let choice = *choice;
        self.alone = self.needs_another(by);
        self.votes.push(Vote {
            by: by.principal.to_string(),
            choice,
            digest: self.digest.clone(),
            at: now,
        });
        self.resolution = (choice == Choice::Approve).then_some(word.resolution);
        self.note = word.note.clone().filter(|note| !note.is_empty());
        let status = match choice {
            Choice::Approve => Status::Approved,
            Choice::Deny => Status::Denied,
        };
        self.end(status, Some((by.principal.as_str(), &word.via)), now);
    }

    /// It ends, by somebody or by itself.
    pub(super) fn end(&mut self, status: Status, by: Option<(&str, &str)>, now: Timestamp) {
        self.status = status;
        self.resolved_at = Some(now);
        self.resolved_by = by.map(|(who, _)| who.to_owned());
        self.resolved_via = by.map(|(_, via)| via.to_owned());
    }
}

/// Fact: an approval has its end. It is stored.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct Resolved(pub Approval);
