//! `hivewright approvals`: calls that wait for a person.

use clap::{Args, Subcommand};
use hivewright_actors::approvals::record::Choice;
use serde_json::{Value, json};

use super::{
    Context,
    ask::confirm,
    failure::Failure,
    grants,
    screen::{Screen, printable},
    service::{Answer, Service},
    table::{columns, date},
};
use crate::api::{
    approvals::{
        ApprovalDecision, ApprovalFilter, ApprovalRow, ApprovalUses, DECIDE, LIST_APPROVALS,
        SHOW_APPROVAL,
    },
    endpoint::{ById, Empty},
    flags::Limit,
    grants::GrantFilter,
};

/// See and decide what teams may not do on their own
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright approvals list\n  \
    hivewright approvals approve kxqzvt\n  \
    hivewright approvals deny kxqzvt \"not before the release\"")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with approvals.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List what waits for a decision, oldest first
    #[command(after_help = "Examples:\n  \
        hivewright approvals list --json\n  \
        hivewright approvals list --status denied --team web-shop")]
    List {
        #[command(flatten)]
        filter: ApprovalFilter,
        #[command(flatten)]
        limit: Limit,
    },
    /// Show one whole, with its arguments and its digest
    #[command(after_help = "Example:\n  hivewright approvals show kxqzvt")]
    Show {
        /// Its id or its six letters
        id: String,
    },
    /// Let a call run
    #[command(after_help = "Examples:\n  \
        hivewright approvals approve kxqzvt --yes\n  \
        hivewright approvals approve kxqzvt --uses 10\n  \
        hivewright approvals approve kxqzvt --uses always")]
    Approve {
        /// Its id or its six letters
        id: String,
        /// Let equal calls run, too: so many within a day (up to 100), or `always`
        #[arg(long)]
        uses: Option<ApprovalUses>,
        /// A word for the record
        #[arg(long)]
        note: Option<String>,
        /// Its six letters again, if you caused it, its risk is high and nobody else could decide
        #[arg(long, value_name = "SHORT_ID")]
        confirm: Option<String>,
    },
    /// Keep a call from running; the team reads why
    #[command(
        after_help = "Example:\n  hivewright approvals deny kxqzvt \"not before the release\""
    )]
    Deny {
        /// Its id or its six letters
        id: String,
        /// Why, for the team
        note: String,
    },
    /// List calls that need no decision any more
    #[command(after_help = "Example:\n  hivewright approvals grants --team web-shop")]
    Grants(GrantFilter),
    /// Take a grant back: the next such call asks again
    #[command(after_help = "Example:\n  hivewright approvals revoke grant-0f3k --yes")]
    Revoke {
        /// The id of the grant
        id: String,
    },
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List { filter, limit } => {
            screen.rows(&service.rows(&LIST_APPROVALS, &filter, &limit).await?)
        }
        Action::Show { id } => screen.answer(&look(&service, id).await?, |row| shown(&row)),
        Action::Approve { id, uses, note, confirm: typed } => {
            let found = look(&service, id).await?.data()?;
            let (grant, question) = match uses {
                None => (String::new(), "Approve this, once?".to_owned()),
                Some(uses) => {
                    let uses = match uses {
                        ApprovalUses::Number(number) => format!("{number} times"),
                        ApprovalUses::Word(_) => "always".to_owned(),
                    };
                    (granted(&found), format!("Approve this, and equal calls {uses}?"))
                }
            };
            confirm(context, &(shown(&found) + &grant), &question)?;
            decide(&service, found, Choice::Approve, (uses, note, typed), screen).await
        }
        Action::Deny { id, note } => {
            let found = look(&service, id).await?.data()?;
            // Nothing runs by it: that they named it is enough.
            let named = Some(found.short_id.clone());
            decide(&service, found, Choice::Deny, (None, Some(note), named), screen).await
        }
        Action::Grants(filter) => grants::list(&service, context, &filter).await,
        Action::Revoke { id } => grants::revoke(&service, context, &id).await,
    }
}

async fn look(service: &Service, id: String) -> Result<Answer<ApprovalRow>, Failure> {
    service.at(&SHOW_APPROVAL, &ById { id }).await
}

/// The grant that would be given, as it would be kept.
fn granted(found: &ApprovalRow) -> String {
    let text = match &found.grant {
        None => "none can be given for this call".to_owned(),
        Some(grant) => pretty(&json!(grant)),
    };
    printable(&format!("grant\n{text}\n"))
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Sends back the digest of what was looked at: if it is something else by now, nothing happens.
async fn decide(
    service: &Service,
    found: ApprovalRow,
    decision: Choice,
    (uses, note, confirm): (Option<ApprovalUses>, Option<String>, Option<String>),
    screen: Screen,
) -> Result<(), Failure> {
    let word = ApprovalDecision { decision, digest: found.digest, uses, note, confirm };
    let path = ById { id: found.id };
    let answer = service.call(&DECIDE, &path, &Empty {}, &word).await?;
    let row = answer.data()?;
    let alone = if row.alone { ", alone" } else { "" };
    screen.done(&answer, &format!("{} is {}{alone}", row.short_id, row.status))
}

columns!(ApprovalRow {
    "ID" => |row| row.short_id.clone(),
    "STATUS" => |row| row.status.to_string(),
    "TEAM" => |row| row.team.clone(),
    "TOOL" => |row| row.tool.clone().unwrap_or_else(|| row.kind.to_string()),
    "DIGEST" => |row| row.digest.chars().take(8).collect(),
    "UNTIL" => |row| date(&row.expires_at),
    "WHY" => |row| row.summary.lines().next().unwrap_or_default().to_owned(),
});

fn shown(row: &ApprovalRow) -> String {
    let arguments = pretty(&row.arguments);
    let mut lines = vec![
        format!("id         {} ({})", row.short_id, row.id),
        format!("status     {}, execution {}", row.status, row.execution),
        format!("team       {}", row.team),
        format!("tool       {} ({})", row.tool.as_deref().unwrap_or("-"), row.kind),
        format!("why        {}", row.summary),
        format!("rule       {}", row.rule.as_deref().unwrap_or("-")),
        format!("risk       {}, {} content", row.risk, row.label),
        format!("caused by  {}", json!(row.requester)),
        format!("asked      {}", date(&row.created_at)),
        format!("until      {}", date(&row.expires_at)),
        format!("digest     {}", row.digest),
    ];
    if let Some(by) = &row.resolved_by {
        let alone = if row.alone { ", alone" } else { "" };
        lines.push(format!("decided    by {by}{alone}"));
    }
    if let Some(note) = &row.note {
        lines.push(format!("note       {note}"));
    }
    lines.push(format!("arguments\n{arguments}"));
    if let Some(diff) = &row.diff {
        lines.push(format!("change\n{diff}"));
    }
    printable(&(lines.join("\n") + "\n"))
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::cli::table;

    fn row() -> Value {
        json!({
            "id": "apr-1", "short_id": "kxqzvt", "kind": "tool", "team": "main", "tool": "bash",
            "arguments": {"command": "rm -r build"}, "summary": "It deletes files.", "diff": null,
            "rule": "config-1", "risk": "normal", "label": "trusted",
            "requester": {"kind": "system"}, "digest": "0123456789abcdef", "status": "pending",
            "resolved_by": null, "note": null, "created_at": "2026-11-14T23:46:40.000Z",
            "expires_at": "2026-11-15T23:46:40.000Z", "execution": "none",
            "generation": 1, "session": null, "turn": null, "task_id": null, "cwd": null,
            "secrets": [], "lineage": null, "resolution": null, "votes": [], "resolved_via": null,
            "alone": false, "time_left_ms": null, "resolved_at": null, "grant": null,
        })
    }

    /// OP-84, PL-85
    #[test]
    fn what_waits_is_listed_in_columns_and_shown_whole() {
        let rows: Vec<ApprovalRow> = serde_json::from_value(json!([row()])).unwrap();

        let (list, one) = (table::rows(&rows), shown(&rows[0]));

        assert_eq!(
            list,
            "ID      STATUS   TEAM  TOOL  DIGEST    UNTIL                 WHY\n\
             kxqzvt  pending  main  bash  01234567  2026-11-15 23:46 UTC  It deletes files.\n"
        );
        assert!(one.contains("digest     0123456789abcdef\n"), "{one}");
        assert!(one.contains("\"command\": \"rm -r build\""), "{one}");
    }
}
