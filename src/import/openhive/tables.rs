//! The tables of an OpenHive database, as its versions have laid them out.

/// A table that is read.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Every version that has the table has these columns.
    pub(super) columns: &'static [&'static str],
    /// Columns that came later, with what a row without them means.
    pub(super) later: &'static [(&'static str, &'static str)],
    /// Columns of other times that stand for another: the older name, the present one.
    pub(super) former: &'static [(&'static str, &'static str)],
    /// Every version has the table.
    pub(super) always: bool,
}

pub(super) const ORG_TREE: Table = Table {
    name: "org_tree",
    columns: &["id", "name", "parent_id", "status", "created_at"],
    later: &[("bootstrapped", "0")],
    former: &[],
    always: true,
};

pub(super) const SCOPE_KEYWORDS: Table = Table {
    name: "scope_keywords",
    columns: &["team_id", "keyword"],
    later: &[],
    former: &[],
    always: true,
};

pub(super) const TASK_QUEUE: Table = Table {
    name: "task_queue",
    columns: &["id", "team_id", "task", "priority", "status", "created_at", "correlation_id"],
    later: &[
        ("type", "'delegate'"),
        ("result", "NULL"),
        ("duration_ms", "NULL"),
        ("options", "NULL"),
        ("source_channel_id", "NULL"),
        ("topic_id", "NULL"),
    ],
    former: &[],
    always: true,
};

pub(super) const TRIGGER_CONFIGS: Table = Table {
    name: "trigger_configs",
    columns: &[
        "id",
        "team",
        "name",
        "type",
        "config",
        "task",
        "state",
        "failure_threshold",
        "consecutive_failures",
        "disabled_reason",
        "created_at",
        "updated_at",
    ],
    later: &[
        ("skill", "NULL"),
        ("subagent", "NULL"),
        ("max_steps", "100"),
        ("source_channel_id", "NULL"),
        ("overlap_policy", "'skip-then-replace'"),
        ("overlap_count", "0"),
        ("active_task_id", "NULL"),
    ],
    former: &[("max_turns", "max_steps")],
    always: false,
};

pub(super) const TOPICS: Table = Table {
    name: "topics",
    columns: &["id", "channel_id", "name", "description", "state", "created_at", "last_activity"],
    later: &[],
    former: &[],
    always: false,
};

pub(super) const CHANNEL_INTERACTIONS: Table = Table {
    name: "channel_interactions",
    columns: &[
        "id",
        "direction",
        "channel_type",
        "channel_id",
        "user_id",
        "team_id",
        "content_snippet",
        "content_length",
        "duration_ms",
        "created_at",
    ],
    later: &[("topic_id", "NULL"), ("trust_decision", "NULL")],
    former: &[],
    always: false,
};

pub(super) const MEMORIES: Table = Table {
    name: "memories",
    columns: &[
        "id",
        "team_name",
        "key",
        "content",
        "type",
        "is_active",
        "supersedes_id",
        "supersede_reason",
        "updated_by",
        "created_at",
        "updated_at",
    ],
    later: &[],
    former: &[],
    always: false,
};

pub(super) const TEAM_VAULT: Table = Table {
    name: "team_vault",
    columns: &[
        "id",
        "team_name",
        "key",
        "value",
        "is_secret",
        "updated_by",
        "created_at",
        "updated_at",
    ],
    later: &[],
    former: &[],
    always: false,
};

pub(super) const SENDER_TRUST: Table = Table {
    name: "sender_trust",
    columns: &[
        "id",
        "channel_type",
        "channel_id",
        "sender_id",
        "trust_level",
        "granted_by",
        "created_at",
    ],
    later: &[],
    former: &[],
    always: false,
};

pub(super) const TRUST_AUDIT_LOG: Table = Table {
    name: "trust_audit_log",
    columns: &["id", "channel_type", "channel_id", "sender_id", "decision", "reason", "created_at"],
    later: &[],
    former: &[],
    always: false,
};

pub(super) const ESCALATIONS: Table = Table {
    name: "escalation_correlations",
    columns: &["correlation_id", "source_team", "target_team", "task_id", "status", "created_at"],
    later: &[],
    former: &[],
    always: false,
};

pub(super) const PLUGIN_TOOLS: Table = Table {
    name: "plugin_tools",
    columns: &[
        "team_name",
        "tool_name",
        "status",
        "source_path",
        "source_hash",
        "verification",
        "created_at",
        "updated_at",
    ],
    later: &[
        ("verified_at", "NULL"),
        ("deprecated_at", "NULL"),
        ("deprecated_reason", "NULL"),
        ("deprecated_by", "NULL"),
        ("removed_at", "NULL"),
        ("removed_by", "NULL"),
    ],
    former: &[],
    always: false,
};

pub(super) const LOG_ENTRIES: Table = Table {
    name: "log_entries",
    columns: &["id", "level", "message", "context", "created_at"],
    later: &[("duration_ms", "NULL")],
    former: &[],
    always: false,
};

pub(super) const TABLES: [&Table; 13] = [
    &ORG_TREE,
    &SCOPE_KEYWORDS,
    &TASK_QUEUE,
    &TRIGGER_CONFIGS,
    &TOPICS,
    &CHANNEL_INTERACTIONS,
    &MEMORIES,
    &TEAM_VAULT,
    &SENDER_TRUST,
    &TRUST_AUDIT_LOG,
    &ESCALATIONS,
    &PLUGIN_TOOLS,
    &LOG_ENTRIES,
];

/// Tables whose content follows from others, or is of no use any more.
pub(super) const DERIVED: [&str; 4] =
    ["trigger_dedup", "memory_chunks", "embedding_cache", "team_status"];
