//! `hivewright audit`: who did what to the service.

use clap::Args;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Context,
    failure::Failure,
    service::{Service, data, given},
    table::{moment, table},
};

/// List who did what to the service, newest first
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright audit --since 24h\n  \
    hivewright audit --actor ci --action tasks.cancel\n  \
    hivewright audit --team ops --tool bash --decision deny")]
pub(super) struct Arguments {
    /// Only what they did: the name of a token, or `operator`
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Only this, such as tokens.create, or all of a kind, such as tokens
    #[arg(long)]
    action: Option<String>,
    /// Only tool calls of this team
    #[arg(long)]
    team: Option<String>,
    /// Only calls of this tool
    #[arg(long)]
    tool: Option<String>,
    /// Only tool calls on which this was decided: allow, approve, deny, approval_denied,
    /// approval_expired, refuse
    #[arg(long)]
    decision: Option<String>,
    /// Only up to a date, or up to so long ago
    #[arg(long)]
    until: Option<String>,
    /// Only since a date such as 2026-01-31T12:00:00Z, or since so long ago, such as 24h
    #[arg(long)]
    since: Option<String>,
    /// How many, 1 to 200
    #[arg(long, default_value_t = 50)]
    limit: u32,
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let fields = [
        ("actor", arguments.actor),
        ("action", arguments.action),
        ("team", arguments.team),
        ("tool", arguments.tool),
        ("decision", arguments.decision),
        ("until", arguments.until),
        ("since", arguments.since),
        ("limit", Some(arguments.limit.to_string())),
    ];
    let answer = service.search("/api/v1/audit", given(fields)).await?;
    if context.screen.json {
        return context.screen.document(&answer);
    }
    context.screen.write(&listed(&answer)?);
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Row {
    at: Option<String>,
    actor: String,
    action: String,
    target: String,
    from: String,
    outcome: String,
    #[serde(default)]
    call: Option<Call>,
}

#[derive(Debug, Deserialize)]
struct Call {
    decision: String,
    rule: Option<String>,
    arguments: String,
}

impl Row {
    /// What was done to what: of a tool call, with the beginning of its arguments.
    fn of(&self) -> String {
        match &self.call {
            Some(call) => format!("{} {}", self.target, call.arguments),
            None => self.target.clone(),
        }
    }

    fn end(&self) -> String {
        let Some(call) = &self.call else {
            return self.outcome.clone();
        };
        match &call.rule {
            Some(rule) => format!("{} by {rule}, {}", call.decision, self.outcome),
            None => format!("{}, {}", call.decision, self.outcome),
        }
    }
}

fn listed(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let (of, end) = (row.of(), row.end());
        [
            row.at.as_deref().map(moment).unwrap_or_default(),
            row.actor,
            row.action,
            of,
            row.from,
            end,
        ]
    });
    Ok(table(["AT", "WHO", "WHAT", "OF", "FROM", "OUTCOME"], rows))
}
