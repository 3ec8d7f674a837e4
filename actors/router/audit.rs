//! Audit: what the trust gate decided, about whom, and why.

use serde::{Deserialize, Serialize};

use crate::{
    admission::{Admission, Decision},
    channel_type::ChannelType,
    clock::Timestamp,
    ids::{ChannelId, PrincipalId},
    task::Task,
};

/// One decision of the trust gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    pub id: String,
    pub at: Timestamp,
    pub channel_type: ChannelType,
    pub channel: ChannelId,
    pub sender: String,
    /// Who claims that, without proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asserted_by: Option<PrincipalId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    #[serde(flatten)]
    pub decision: Decision,
}

impl AuditRow {
    /// The row of something that was let in.
    pub(super) fn admitted(
        id: String,
        at: Timestamp,
        channel: ChannelId,
        sender: String,
        admission: Admission,
    ) -> Self {
        let Admission { channel_type, reason, asserted_by, listener } = admission;
        let decision = Decision { allowed: true, reason };
        Self { id, at, channel_type, channel, sender, asserted_by, listener, decision }
    }

    /// The row that a task stands for, if it came past the gate.
    pub fn of_task(task: &Task) -> Option<Self> {
        let (admission, source) = (task.admission.clone()?, task.source.as_ref()?);
        let (id, sender) = (task.id.to_string(), task.from.clone());
        Some(Self::admitted(id, task.created_at, source.channel.clone(), sender, admission))
    }
}
