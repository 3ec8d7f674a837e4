//! Approval requests: what a turn that needs a person asks for, made ready to be stored.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;

use super::{
    card,
    record::{Approval, Digester, Execution, Status},
};
use crate::{
    channel::records::OutboxWrites,
    clock::{Timestamp, millis},
    frame::Frame,
    ids::{ChannelId, Ids, TeamKey, TurnId},
    policy::caution::{Kind, Risk},
    store::records::Writes,
    task::{Label, Source, cause::Cause},
    tool::{Asking, Caller},
};

/// Letters that make no words by themselves.
const LETTERS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";
/// How many of them a person types.
const SHORT_ID_LENGTH: usize = 6;
/// A turn whose request ran out has this long to say so before its task runs out as well.
const EXPIRY_MARGIN: Duration = Duration::from_secs(60);

/// Makes approval requests. Cheap to clone.
#[derive(Clone)]
pub struct RequestBuilder {
    ids: Ids,
    digester: Digester,
    /// How long requests wait, in milliseconds.
    ttl: Arc<AtomicU64>,
    /// Where operators are: what waits for a person is shown there too.
    operators: Arc<Mutex<Arc<[ChannelId]>>>,
    /// Short ids in use.
    taken: Arc<Mutex<HashSet<String>>>,
}

/// A call that a person must decide on.
#[derive(Clone, Copy, Debug)]
pub struct CallRequest<'a> {
    pub caller: &'a Caller,
    pub turn: &'a TurnId,
    /// How far what the turn has read may be believed.
    pub label: Label,
    /// The call: the same for every try of it.
    pub call: &'a str,
    pub tool: &'a str,
    pub arguments: &'a Value,
    pub asking: &'a Asking,
}

/// Something that a person must decide on, whoever asks.
#[derive(Clone, Debug)]
pub struct Proposal {
    pub kind: Kind,
    pub team: TeamKey,
    pub requester: Cause,
    pub arguments: Value,
    /// What would happen, in one sentence.
    pub summary: String,
    pub diff: Option<String>,
}

impl RequestBuilder {
    pub fn new(ids: Ids, digester: Digester, ttl: Duration) -> Self {
        Self {
            ids,
            digester,
            ttl: Arc::new(millis(ttl).into()),
            operators: Arc::default(),
            taken: Arc::default(),
        }
    }

    pub(super) fn set_ttl(&self, ttl: Duration) {
        self.ttl.store(millis(ttl), Ordering::Relaxed);
    }

    /// What waits for a person is shown in these channels too from now on.
    pub(crate) fn show_in(&self, channels: Vec<ChannelId>) {
        *self.operators.lock() = channels.into();
    }

    fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl.load(Ordering::Relaxed))
    }

    pub fn digester(&self) -> Digester {
        self.digester
    }

    /// A request, bound to what exactly is asked for. It counts once it is stored: see
    /// [`RequestBuilder::opening`].
    pub fn request(&self, request: CallRequest<'_>, now: Timestamp) -> Approval {
        let CallRequest { caller, asking, .. } = request;
        let shown = asking.shown.as_ref();
        let approval = Approval {
            lane: Some(caller.lane.clone()),
            turn: Some(request.turn.clone()),
            task: Some(caller.task.clone()),
            call: Some(request.call.to_owned()),
            tool: Some(request.tool.to_owned()),
            scrubbed: shown.is_some_and(|shown| shown != request.arguments),
            cwd: asking.cwd.clone(),
            secrets: asking.secrets.clone(),
            schema: asking.schema.clone(),
            rule: (!asking.rule.is_empty()).then(|| asking.rule.clone()),
            risk: if asking.high_risk { Risk::High } else { Risk::Normal },
            label: request.label,
            lineage: Some(caller.lineage.clone()),
            source: caller.source.clone(),
            ..self.blank(
                Proposal {
                    kind: asking.kind.parse().unwrap_or(Kind::Tool),
                    team: caller.team.clone(),
                    requester: caller.cause.clone(),
                    arguments: shown.unwrap_or(request.arguments).clone(),
                    summary: asking.summary.clone(),
                    diff: asking.diff.clone(),
                },
                now,
                self.expiry(caller, now),
            )
        };
        self.bound(approval, request.arguments)
    }

    /// The same of something that no turn waits for.
    pub(super) fn proposal(&self, proposal: Proposal, now: Timestamp) -> Approval {
        let arguments = proposal.arguments.clone();
        self.bound(self.blank(proposal, now, now + self.ttl()), &arguments)
    }

    fn blank(&self, proposal: Proposal, now: Timestamp, expires_at: Timestamp) -> Approval {
        let Proposal { kind, team, requester, arguments, summary, diff } = proposal;
        Approval {
            id: self.ids.approval(),
            short_id: self.short_id(),
            kind,
            team,
            lane: None,
            turn: None,
            task: None,
            call: None,
            requester,
            tool: None,
            arguments,
            scrubbed: false,
            cwd: None,
            secrets: BTreeMap::new(),
            schema: String::new(),
            summary,
            diff,
            rule: None,
            risk: Risk::Normal,
            label: Label::Trusted,
            lineage: None,
            source: None,
            digest: String::new(),
            nonce: format!("{:016x}{:016x}", self.ids.bits(), self.ids.bits()),
            status: Status::Pending,
            resolution: None,
            votes: Vec::new(),
            resolved_by: None,
            resolved_via: None,
            alone: false,
            note: None,
            created_at: now,
            expires_at,
            resolved_at: None,
            execution: Execution::None,
        }
    }

    fn bound(&self, mut approval: Approval, arguments: &Value) -> Approval {
        approval.bind(self.digester, arguments);
        approval
    }

    /// Before the task itself runs out, so that its turn can still tell what became of it.
    fn expiry(&self, caller: &Caller, now: Timestamp) -> Timestamp {
        (caller.deadline_at - EXPIRY_MARGIN).max(now + Duration::from_secs(1)).min(now + self.ttl())
    }

    /// What makes a request count: its row, and the card that shows it.
    pub fn opening(&self, approval: &Approval) -> Writes {
        let writes = Writes::new().put(approval);
        self.shown(writes, approval.source.as_ref(), None, card::approval(approval))
    }

    /// Adds a card where the work comes from and where operators are, except in one channel.
    pub(super) fn shown(
        &self,
        writes: Writes,
        source: Option<&Source>,
        except: Option<&ChannelId>,
        card: Frame,
    ) -> Writes {
        let source = source.map(|source| &source.channel);
        let operators = self.operators.lock().clone();
        let elsewhere = operators.iter().filter(|channel| source != Some(*channel));
        let writes = elsewhere.filter(|channel| except != Some(*channel)).fold(
            writes,
            // The topic is one of another channel.
            |writes, channel| writes.frame(channel, Frame { topic: None, ..card.clone() }),
        );
        match source.filter(|channel| except != Some(*channel)) {
            Some(channel) => writes.frame(channel, card),
            None => writes,
        }
    }

    fn short_id(&self) -> String {
        let mut taken = self.taken.lock();
        loop {
            let mut bits = self.ids.bits();
            let letters = (0..SHORT_ID_LENGTH).map(|_| {
                let letter = LETTERS[(bits % LETTERS.len() as u64) as usize];
                bits /= LETTERS.len() as u64;
                char::from(letter)
            });
            let short: String = letters.collect();
            if taken.insert(short.clone()) {
                return short;
            }
        }
    }

    /// A short id is in use already.
    pub(super) fn take(&self, short: &str) {
        self.taken.lock().insert(short.to_owned());
    }

    /// A short id can be given again.
    pub(super) fn release(&self, short: &str) {
        self.taken.lock().remove(short);
    }
}
