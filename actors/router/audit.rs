//! Audit: what the trust gate decided, about whom, and why.

use serde::{Deserialize, Serialize};

use crate::{
    admission::{Admission, Decision},
    channel_type::ChannelType,
    clock::Timestamp,
    ids::{ChannelId, PrincipalId, TaskId},
    task::{Source, Task},
};

/// One decision of the trust gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Its name.
    pub id: String,
    /// When.
    pub at: Timestamp,
    /// The type of the channel.
    pub channel_type: ChannelType,
    /// The channel.
    pub channel: ChannelId,
    /// Who wrote.
    pub sender: String,
    /// Who claims that, without proof.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asserted_by: Option<PrincipalId>,
    /// The listener that the connection came in on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener: Option<String>,
    /// What was decided.
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

    /// The row that a task stands for.
    pub fn of_task(task: &Task) -> Option<Self> {
        Trace {
            id: task.id.clone(),
            from: task.from.clone(),
            source: task.source.clone(),
            created_at: task.created_at,
            admission: task.admission.clone(),
        }
        .into_row()
    }
}

/// As much of a stored task as an audit row needs.
#[derive(Debug, Deserialize)]
pub(crate) struct Trace {
    id: TaskId,
    from: String,
    source: Option<Source>,
    created_at: Timestamp,
    #[serde(default)]
    admission: Option<Admission>,
}

impl Trace {
    /// The row, if the task came past the gate.
    pub(crate) fn into_row(self) -> Option<AuditRow> {
        let (admission, channel) = (self.admission?, self.source?.channel);
        let id = self.id.to_string();
        Some(AuditRow::admitted(id, self.created_at, channel, self.from, admission))
    }
}
