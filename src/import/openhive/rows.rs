//! The rows of an OpenHive database, as they stand there.

use rusqlite::Row;

use super::{
    schema,
    source::{Copy, SourceError},
    tables::{self, Table},
};

/// A row of a table that is read.
pub(super) trait Record: Sized {
    const TABLE: &'static Table;
    /// Rows come in this order.
    const ORDER: &'static str;

    fn read(row: &Row<'_>) -> rusqlite::Result<Self>;
}

impl Copy {
    /// All rows of a table; none if the version has no such table.
    pub(super) fn all<R: Record>(&self) -> Result<Vec<R>, SourceError> {
        let path = &self.original;
        let name = R::TABLE.name;
        let Some(columns) = schema::selection(path, &self.connection, R::TABLE)? else {
            return Ok(Vec::new());
        };
        let read = || -> rusqlite::Result<Vec<R>> {
            let query = format!("SELECT {columns} FROM {name} ORDER BY {}", R::ORDER);
            self.connection.prepare(&query)?.query_map([], R::read)?.collect()
        };
        read().map_err(|error| match error {
            rusqlite::Error::InvalidColumnType(_, column, found) => SourceError::Schema {
                path: path.clone(),
                table: name.to_owned(),
                column: Some(column),
                reason: format!("holds a value of another kind ({found})"),
            },
            error => super::source::damaged(path, Some(name), &error),
        })
    }

    /// How many rows a table has; 0 if there is none.
    pub(super) fn count(&self, table: &str) -> u64 {
        let query = format!("SELECT count(*) FROM \"{table}\"");
        let rows = self.connection.query_row(&query, [], |row| row.get::<_, i64>(0));
        rows.ok().and_then(|rows| rows.try_into().ok()).unwrap_or(0)
    }
}

macro_rules! record {
    ($(#[$doc:meta])* $name:ident: $table:ident by $order:literal {
        $($field:ident: $type:ty = $column:literal),* $(,)?
    }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub(super) struct $name {
            $(pub(super) $field: $type,)*
        }

        impl Record for $name {
            const TABLE: &'static Table = &tables::$table;
            const ORDER: &'static str = $order;

            fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
                Ok(Self { $($field: row.get($column)?,)* })
            }
        }
    };
}

record!(
    /// A team.
    OrgRow: ORG_TREE by "created_at, id" {
        id: String = "id",
        name: String = "name",
        parent: Option<String> = "parent_id",
        status: String = "status",
        created_at: String = "created_at",
        bootstrapped: bool = "bootstrapped",
    }
);

record!(
    /// What a team is for, one word of it.
    KeywordRow: SCOPE_KEYWORDS by "team_id, keyword" {
        team: String = "team_id",
        keyword: String = "keyword",
    }
);

record!(
    /// Work.
    TaskRow: TASK_QUEUE by "created_at, id" {
        id: String = "id",
        team: String = "team_id",
        task: String = "task",
        priority: String = "priority",
        kind: String = "type",
        status: String = "status",
        created_at: String = "created_at",
        correlation: Option<String> = "correlation_id",
        result: Option<String> = "result",
        duration_ms: Option<i64> = "duration_ms",
        options: Option<String> = "options",
        channel: Option<String> = "source_channel_id",
        topic: Option<String> = "topic_id",
    }
);

record!(
    /// What starts work.
    TriggerRow: TRIGGER_CONFIGS by "id" {
        id: i64 = "id",
        team: String = "team",
        name: String = "name",
        kind: String = "type",
        config: String = "config",
        task: String = "task",
        skill: Option<String> = "skill",
        subagent: Option<String> = "subagent",
        state: String = "state",
        max_steps: i64 = "max_steps",
        failure_threshold: i64 = "failure_threshold",
        consecutive_failures: i64 = "consecutive_failures",
        disabled_reason: Option<String> = "disabled_reason",
        channel: Option<String> = "source_channel_id",
        overlap_policy: String = "overlap_policy",
        created_at: String = "created_at",
        updated_at: String = "updated_at",
    }
);

record!(
    /// A thread of conversation.
    TopicRow: TOPICS by "created_at, id" {
        id: String = "id",
        channel: String = "channel_id",
        name: String = "name",
        description: Option<String> = "description",
        state: String = "state",
        created_at: String = "created_at",
        last_activity: String = "last_activity",
    }
);

record!(
    /// Something said in a channel.
    InteractionRow: CHANNEL_INTERACTIONS by "id" {
        id: i64 = "id",
        direction: String = "direction",
        channel_type: String = "channel_type",
        channel: String = "channel_id",
        user: Option<String> = "user_id",
        team: Option<String> = "team_id",
        snippet: Option<String> = "content_snippet",
        length: Option<i64> = "content_length",
        topic: Option<String> = "topic_id",
        decision: Option<String> = "trust_decision",
        created_at: String = "created_at",
    }
);

record!(
    /// A version of something a team remembers.
    MemoryRow: MEMORIES by "id" {
        id: i64 = "id",
        team: String = "team_name",
        key: String = "key",
        content: String = "content",
        kind: String = "type",
        active: bool = "is_active",
        supersedes: Option<i64> = "supersedes_id",
        reason: Option<String> = "supersede_reason",
        updated_by: Option<String> = "updated_by",
        created_at: String = "created_at",
        updated_at: String = "updated_at",
    }
);

record!(
    /// Something a team keeps: a secret, or a note to itself.
    VaultRow: TEAM_VAULT by "id" {
        id: i64 = "id",
        team: String = "team_name",
        key: String = "key",
        value: String = "value",
        secret: Option<bool> = "is_secret",
        created_at: String = "created_at",
        updated_at: String = "updated_at",
    }
);

record!(
    /// A decision of a person on a sender.
    GrantRow: SENDER_TRUST by "id" {
        id: i64 = "id",
        channel_type: String = "channel_type",
        channel: Option<String> = "channel_id",
        sender: String = "sender_id",
        level: String = "trust_level",
        granted_by: String = "granted_by",
        created_at: String = "created_at",
    }
);

record!(
    /// A decision of the gate on a message.
    AuditRow: TRUST_AUDIT_LOG by "id" {
        id: i64 = "id",
        channel_type: String = "channel_type",
        channel: String = "channel_id",
        sender: String = "sender_id",
        decision: String = "decision",
        reason: String = "reason",
        created_at: String = "created_at",
    }
);

record!(
    /// A problem that a team handed up.
    EscalationRow: ESCALATIONS by "created_at, correlation_id" {
        id: String = "correlation_id",
        from: String = "source_team",
        to: String = "target_team",
        task: Option<String> = "task_id",
        status: String = "status",
        created_at: String = "created_at",
    }
);

record!(
    /// A tool that a team wrote.
    PluginRow: PLUGIN_TOOLS by "team_name, tool_name" {
        team: String = "team_name",
        tool: String = "tool_name",
        status: String = "status",
        source_path: String = "source_path",
        source_hash: String = "source_hash",
        created_at: String = "created_at",
        updated_at: String = "updated_at",
    }
);

record!(
    /// A line of the log.
    LogRow: LOG_ENTRIES by "id" {
        id: i64 = "id",
        level: String = "level",
        message: String = "message",
        context: Option<String> = "context",
        duration_ms: Option<i64> = "duration_ms",
        created_at: String = "created_at",
    }
);

/// Everything that is read from a database.
#[derive(Clone, Debug, Default)]
pub(super) struct Tables {
    pub(super) teams: Vec<OrgRow>,
    pub(super) keywords: Vec<KeywordRow>,
    pub(super) tasks: Vec<TaskRow>,
    pub(super) triggers: Vec<TriggerRow>,
    pub(super) topics: Vec<TopicRow>,
    pub(super) interactions: Vec<InteractionRow>,
    pub(super) memories: Vec<MemoryRow>,
    pub(super) vault: Vec<VaultRow>,
    pub(super) grants: Vec<GrantRow>,
    pub(super) audit: Vec<AuditRow>,
    pub(super) escalations: Vec<EscalationRow>,
    pub(super) plugins: Vec<PluginRow>,
    /// None unless they are wanted.
    pub(super) logs: Option<Vec<LogRow>>,
    /// Rows that follow from others, by table.
    pub(super) derived: Vec<(&'static str, u64)>,
    pub(super) log_count: u64,
}

impl Tables {
    /// Reads them all.
    pub(super) fn read(copy: &Copy, with_logs: bool) -> Result<Self, SourceError> {
        let derived = tables::DERIVED.map(|table| (table, copy.count(table)));
        Ok(Self {
            teams: copy.all()?,
            keywords: copy.all()?,
            tasks: copy.all()?,
            triggers: copy.all()?,
            topics: copy.all()?,
            interactions: copy.all()?,
            memories: copy.all()?,
            vault: copy.all()?,
            grants: copy.all()?,
            audit: copy.all()?,
            escalations: copy.all()?,
            plugins: copy.all()?,
            logs: with_logs.then(|| copy.all()).transpose()?,
            derived: derived.into_iter().filter(|(_, rows)| *rows > 0).collect(),
            log_count: copy.count(tables::LOG_ENTRIES.name),
        })
    }
}
