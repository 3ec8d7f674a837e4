//! Tables of an OpenHive database, of whichever version, and the rows that are read from them.

use rusqlite::Row;

/// A table that is read, as its versions have laid it out.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) name: &'static str,
    pub(super) order: &'static str,
    pub(super) columns: &'static [Column],
    /// Columns of every version that say nothing here.
    pub(super) unread: &'static [&'static str],
    /// The same, of some versions.
    pub(super) unread_later: &'static [&'static str],
}

#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// What older versions call it.
    pub(super) former: Option<&'static str>,
    /// What a row of a version without the column means. Without a default every version has it.
    pub(super) default: Option<&'static str>,
}

/// Tables that every version has.
pub(super) const ALWAYS: [&str; 3] = ["org_tree", "scope_keywords", "task_queue"];

/// Tables whose content follows from others, or is of no use any more.
pub(super) const DERIVED: [&str; 4] =
    ["trigger_dedup", "memory_chunks", "embedding_cache", "team_status"];

/// A row of a table that is read.
pub(super) trait Record: Sized {
    const TABLE: Table;

    fn read(row: &Row<'_>) -> rusqlite::Result<Self>;
}

/// What a thing of the source is known by, so that it is taken once.
///
/// Two installations may use the same numbers, so the moment it was made is part of it.
pub(super) fn mark(table: &str, id: impl std::fmt::Display, made: &str) -> String {
    // No key holds a zero byte.
    format!("openhive/{table}/{id}@{made}").replace('\0', "?")
}

/// Declares the row of a table: `field: Type as "column" or "former_name" = "default"`. A column is
/// called like its field unless it says otherwise. `known by` names the field that tells rows apart.
macro_rules! row {
    ($(#[$doc:meta])* $row:ident in $table:literal by $order:literal $(known by $id:ident)? {
        $($field:ident: $type:ty
            $(as $column:literal $(or $former:literal)?)? $(= $default:literal)?),* $(,)?
    } $(unread [$($unread:literal),*])? $(later [$($later:literal),*])?) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(super) struct $row {
            $(pub(super) $field: $type,)*
        }

        $(impl $row {
            /// What it is known by, so that it is taken once.
            pub(super) fn mark(&self) -> String {
                mark($table, &self.$id, &self.created_at)
            }
        })?

        impl Record for $row {
            const TABLE: Table = Table {
                name: $table,
                order: $order,
                columns: &[$(Column {
                    name: [$($column,)? stringify!($field)][0],
                    former: [$($(Some($former),)?)? None][0],
                    default: [$(Some($default),)? None][0],
                },)*],
                unread: &[$($($unread),*)?],
                unread_later: &[$($($later),*)?],
            };

            fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($field: row.get([$($column,)? stringify!($field)][0])?,)* })
            }
        }
    };
}

row! {
    OrgRow in "org_tree" by "created_at, id" known by id {
        id: String,
        parent: Option<String> as "parent_id",
        status: String,
        created_at: String,
        bootstrapped: bool = "0",
    } unread ["name"]
}

row! {
    /// What a team is for, one word of it.
    KeywordRow in "scope_keywords" by "team_id, keyword" {
        team: String as "team_id",
        keyword: String,
    }
}

row! {
    TaskRow in "task_queue" by "created_at, id" known by id {
        id: String,
        team: String as "team_id",
        task: String,
        priority: String,
        kind: String as "type" = "'delegate'",
        status: String,
        created_at: String,
        result: Option<String> = "NULL",
        duration_ms: Option<i64> = "NULL",
        options: Option<String> = "NULL",
        channel: Option<String> as "source_channel_id" = "NULL",
        topic: Option<String> as "topic_id" = "NULL",
    } unread ["correlation_id"]
}

row! {
    TriggerRow in "trigger_configs" by "id" known by id {
        id: i64,
        team: String,
        name: String,
        kind: String as "type",
        config: String,
        task: String,
        skill: Option<String> = "NULL",
        subagent: Option<String> = "NULL",
        state: String,
        max_steps: i64 as "max_steps" or "max_turns" = "100",
        failure_threshold: i64,
        consecutive_failures: i64,
        disabled_reason: Option<String>,
        channel: Option<String> as "source_channel_id" = "NULL",
        overlap_policy: String = "'skip-then-replace'",
        created_at: String,
        updated_at: String,
    }
    later ["overlap_count", "active_task_id"]
}

row! {
    /// A thread of conversation.
    TopicRow in "topics" by "created_at, id" known by id {
        id: String,
        channel: String as "channel_id",
        name: String,
        description: Option<String>,
        state: String,
        created_at: String,
        last_activity: String,
    }
}

row! {
    /// Something said in a channel.
    InteractionRow in "channel_interactions" by "id" known by id {
        id: i64,
        direction: String,
        channel: String as "channel_id",
        user: Option<String> as "user_id",
        team: Option<String> as "team_id",
        snippet: Option<String> as "content_snippet",
        length: Option<i64> as "content_length",
        topic: Option<String> as "topic_id" = "NULL",
        decision: Option<String> as "trust_decision" = "NULL",
        created_at: String,
    } unread ["channel_type", "duration_ms"]
}

row! {
    /// A version of something a team remembers.
    MemoryRow in "memories" by "id" known by id {
        id: i64,
        team: String as "team_name",
        key: String,
        content: String,
        kind: String as "type",
        active: bool as "is_active",
        supersedes: Option<i64> as "supersedes_id",
        reason: Option<String> as "supersede_reason",
        updated_by: Option<String>,
        created_at: String,
        updated_at: String,
    }
}

row! {
    /// Something a team keeps: a secret, or a note to itself.
    VaultRow in "team_vault" by "id" known by id {
        id: i64,
        team: String as "team_name",
        key: String,
        value: String,
        secret: Option<bool> as "is_secret",
        created_at: String,
        updated_at: String,
    } unread ["updated_by"]
}

impl VaultRow {
    /// A journal of the learning and reflection cycles, which is no secret and no setting.
    pub(super) fn is_journal(&self) -> bool {
        self.key.starts_with("learning:") || self.key.starts_with("reflection:")
    }
}

row! {
    /// A decision of a person on a sender.
    GrantRow in "sender_trust" by "id" known by id {
        id: i64,
        channel_type: String,
        channel: Option<String> as "channel_id",
        sender: String as "sender_id",
        level: String as "trust_level",
        granted_by: String,
        created_at: String,
    }
}

row! {
    /// A decision of the gate on a message.
    AuditRow in "trust_audit_log" by "id" known by id {
        id: i64,
        channel_type: String,
        channel: String as "channel_id",
        sender: String as "sender_id",
        decision: String,
        reason: String,
        created_at: String,
    }
}

row! {
    /// A problem that a team handed up.
    EscalationRow in "escalation_correlations" by "created_at, correlation_id" known by id {
        id: String as "correlation_id",
        from: String as "source_team",
        to: String as "target_team",
        task: Option<String> as "task_id",
        status: String,
        created_at: String,
    }
}

row! {
    /// A tool that a team wrote.
    PluginRow in "plugin_tools" by "team_name, tool_name" {
        team: String as "team_name",
        tool: String as "tool_name",
        status: String,
        source_hash: String,
        created_at: String,
    }
    unread ["source_path", "verification", "updated_at"]
    later [
        "verified_at", "deprecated_at", "deprecated_reason", "deprecated_by", "removed_at",
        "removed_by"
    ]
}

row! {
    /// A line of the log.
    LogRow in "log_entries" by "id" known by id {
        id: i64,
        level: String,
        message: String,
        context: Option<String>,
        duration_ms: Option<i64> = "NULL",
        created_at: String,
    }
}
