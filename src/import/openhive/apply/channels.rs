//! Topics, what was said, who is trusted, and what was handed up.

use std::collections::BTreeSet;

use hivewright_actors::{
    admission::{Decision as Verdict, Reason},
    briefing::{Line, Speaker},
    channel::records::ChannelRow,
    channel_type::ChannelType,
    excerpt,
    ids::{ChannelId, TopicId},
    interactions::{Interaction, SNIPPET, Said},
    notice::{Notice, NoticeKind},
    router::{
        audit::AuditRow,
        grants::{Grantee, Level, SenderGrant},
        topics::Topic,
    },
    store::records::Writes,
    task::Label,
};

use super::{
    super::{
        moment::moment,
        plan::{Marked, Plan},
        rows::EscalationRow,
        topics::{self, Saying, Thread},
        trust::{Decision, Grant},
    },
    ApplyError, Work,
};
use crate::http::auth::registry::OPERATOR;

/// So many rows of a log are committed at once.
const SLICE: usize = 1_000;

impl Work<'_> {
    /// Topics, with the channels they are of: the operator may resume those of WebSockets.
    pub(super) fn topics(&mut self, threads: &[Marked<Thread>]) -> Result<(), ApplyError> {
        let mut channels = Writes::new();
        let ids: BTreeSet<&str> =
            threads.iter().map(|thread| thread.thing.channel.as_str()).collect();
        for id in ids {
            let channel = ChannelId::from(id);
            let row = ChannelRow {
                principal: OPERATOR.into(),
                grant: Some(OPERATOR.into()),
                last_seen: self.site.now,
                channel_type: channel.channel_type().parse().unwrap_or_default(),
                begins_anew: false,
            };
            channels = channels.put_at(&channel, &row);
        }
        self.commit(channels, 0)?;
        self.table(threads, |writes, thread| {
            let topic = Topic {
                id: thread.id.as_str().into(),
                name: thread.name.clone(),
                created_at: thread.created_at,
                last_activity: thread.last_activity,
                closed: thread.closed,
                recent: Default::default(),
            };
            let writes = writes.put_at(&topic.key(&thread.channel.as_str().into()), &topic);
            (writes, thread.id.clone())
        })
    }

    pub(super) fn sayings(
        &mut self,
        sayings: &[Marked<Saying>],
        plan: &Plan,
    ) -> Result<(), ApplyError> {
        for slice in sayings.chunks(SLICE) {
            self.table(slice, |writes, saying| {
                let name = format!("import-{:020}", saying.number);
                let speaker = match &saying.speaker {
                    topics::Speaker::Person(id) => Speaker::Person(id.clone()),
                    topics::Speaker::Team(team) => Speaker::Team(called(plan, team)),
                };
                let row = Interaction {
                    channel: saying.channel.as_str().into(),
                    channel_type: None,
                    topic: saying.topic.as_deref().map(TopicId::from),
                    task: None,
                    at: saying.at,
                    duration_ms: None,
                    said: vec![Said {
                        line: Line {
                            at: saying.at,
                            speaker,
                            text: excerpt::split(&saying.text, SNIPPET).0.to_owned(),
                            // The operator brings it over, like the memory.
                            label: Label::Trusted,
                        },
                        length: saying.length,
                    }],
                    trust_decision: None,
                };
                (writes.put_at(&row.key_named(&name), &row), name)
            })?;
        }
        Ok(())
    }

    pub(super) fn grants(&mut self, grants: &[Marked<Grant>]) -> Result<(), ApplyError> {
        let now = self.site.now;
        let ids = self.site.ids.clone();
        self.table(grants, |writes, grant| {
            let grant = SenderGrant {
                id: format!("grant-{:016x}", ids.bits()),
                grantee: Grantee {
                    channel_type: channel_type(&grant.channel_type),
                    sender: grant.sender.clone(),
                    channel: grant.channel.as_deref().map(ChannelId::from),
                },
                level: if grant.trusted { Level::Trusted } else { Level::Denied },
                granted_by: format!("import:{}", grant.granted_by),
                at: grant.at.unwrap_or(now),
            };
            let id = grant.id.clone();
            (writes.put(&grant), id)
        })
    }

    pub(super) fn decisions(&mut self, decisions: &[Marked<Decision>]) -> Result<(), ApplyError> {
        let now = self.site.now;
        for slice in decisions.chunks(SLICE) {
            let ids = self.site.ids.clone();
            self.table(slice, |writes, decision| {
                let row = AuditRow {
                    id: format!("import-{:016x}", ids.bits()),
                    at: decision.at.unwrap_or(now),
                    channel_type: channel_type(&decision.channel_type),
                    channel: decision.channel.as_str().into(),
                    sender: decision.sender.clone(),
                    asserted_by: None,
                    listener: None,
                    decision: Verdict { allowed: decision.allowed, reason: reason(decision) },
                };
                let id = row.id.clone();
                (writes.put(&row), id)
            })?;
        }
        Ok(())
    }

    pub(super) fn escalations(
        &mut self,
        rows: &[Marked<EscalationRow>],
        plan: &Plan,
    ) -> Result<(), ApplyError> {
        let now = self.site.now;
        let ids = self.site.ids.clone();
        self.table(rows, |writes, row| {
            let (from, to) = (called(plan, &row.from), called(plan, &row.to));
            let notice = Notice {
                id: ids.notice(),
                kind: NoticeKind::Escalation,
                team: Some(from.as_str().into()),
                text: format!(
                    "In OpenHive `{from}` escalated something to `{to}` that was never answered \
                     (`{}`). Its text was not kept there; ask the team what it was about.",
                    row.id
                ),
                refs: row.task.iter().cloned().collect(),
                at: moment(&row.created_at).unwrap_or(now),
                read: false,
            };
            let id = notice.id.to_string();
            (writes.put(&notice), id)
        })
    }
}

/// What a team of the source is called here.
fn called(plan: &Plan, former: &str) -> String {
    let mut teams = plan.teams.iter();
    let team = teams.find(|team| team.place.former == former);
    team.map_or(former, |team| &team.place.name).to_owned()
}

/// The plan has only types that there are.
fn channel_type(name: &str) -> ChannelType {
    name.parse().unwrap_or_default()
}

/// The rule that decided, or the most general one that could have.
fn reason(decision: &Decision) -> Reason {
    let named = serde_json::from_value(decision.reason.as_str().into());
    named.unwrap_or(if decision.allowed {
        Reason::DefaultPolicyAllow
    } else {
        Reason::DefaultPolicyDeny
    })
}
