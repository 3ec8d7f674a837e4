//! `hivewright approvals`: calls that wait for a person.

use clap::{Args, Subcommand};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    ask::confirm,
    failure::{Exit, Failure},
    grants,
    screen::{Screen, printable},
    service::{Service, data, given},
    table::{moment, table},
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
        /// Those with another end: approved, denied, expired, cancelled
        #[arg(long, default_value = "pending")]
        status: String,
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
        /// Only of this kind, such as tool, spawn or shutdown
        #[arg(long)]
        kind: Option<String>,
        /// How many, 1 to 200
        #[arg(long, default_value_t = 50)]
        limit: u32,
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
        #[arg(long, value_parser = uses)]
        uses: Option<Value>,
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
    Grants {
        /// Only of this team
        #[arg(long)]
        team: Option<String>,
    },
    /// Take a grant back: the next such call asks again
    #[command(after_help = "Example:\n  hivewright approvals revoke grant-0f3k --yes")]
    Revoke {
        /// The id of the grant
        id: String,
    },
}

/// How often calls that equal an approved one may run.
fn uses(text: &str) -> Result<Value, String> {
    match text.parse::<u32>() {
        _ if text == "always" => Ok(json!("always")),
        Ok(count @ 1..=100) => Ok(json!(count)),
        _ => Err("expected a number from 1 to 100, or `always`".to_owned()),
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List { status, team, kind, limit } => {
            let fields = [
                ("status", Some(status)),
                ("team", team),
                ("kind", kind),
                ("limit", Some(limit.to_string())),
            ];
            let answer = service.search("/api/v1/approvals", given(fields)).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&listed(&answer)?);
            Ok(())
        }
        Action::Show { id } => {
            let answer = look(&service, &id).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&shown(&answer)?);
            Ok(())
        }
        Action::Approve { id, uses, note, confirm: typed } => {
            let found = look(&service, &id).await?;
            let (grant, question) = match &uses {
                None => (String::new(), "Approve this, once?".to_owned()),
                Some(uses) => {
                    let uses = uses.as_str().map_or(format!("{uses} times"), str::to_owned);
                    let question = format!("Approve this, and equal calls {uses}?");
                    (granted(&found), question)
                }
            };
            confirm(context, &(shown(&found)? + &grant), &question)?;
            let word = json!({"decision": "approve", "uses": uses, "note": note, "confirm": typed});
            decide(&service, &found, word, screen).await
        }
        Action::Deny { id, note } => {
            let found = look(&service, &id).await?;
            // Nothing runs by it: that they named it is enough.
            let named = &found["data"]["short_id"];
            let word = json!({"decision": "deny", "note": note, "confirm": named});
            decide(&service, &found, word, screen).await
        }
        Action::Grants { team } => grants::list(&service, context, team).await,
        Action::Revoke { id } => grants::revoke(&service, context, &id).await,
    }
}

async fn look(service: &Service, id: &str) -> Result<Value, Failure> {
    service.get(&format!("/api/v1/approvals/{}", safe(id)?)).await
}

/// The grant that would be given, as it would be kept.
fn granted(found: &Value) -> String {
    let grant = &found["data"]["grant"];
    let text = if grant.is_null() {
        "none can be given for this call".to_owned()
    } else {
        serde_json::to_string_pretty(grant).unwrap_or_default()
    };
    printable(&format!("grant\n{text}\n"))
}

/// Sends back the digest of what was looked at: if it is something else by now, nothing happens.
async fn decide(
    service: &Service,
    found: &Value,
    mut word: Value,
    screen: Screen,
) -> Result<(), Failure> {
    let row = read(found)?;
    word["digest"] = row.digest.into();
    let path = format!("/api/v1/approvals/{}", row.id);
    let answer = service.post(&path, &word).await?;
    if screen.json {
        return screen.document(&answer);
    }
    let row = read(&answer)?;
    let alone = if row.alone { ", alone" } else { "" };
    screen.remark(&format!("{} is {}{alone}", row.short_id, row.status));
    Ok(())
}

/// An id that can stand in a path.
pub(super) fn safe(id: &str) -> Result<&str, Failure> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if !id.is_empty() && id.bytes().all(plain) {
        Ok(id)
    } else {
        Err(Failure::new(Exit::Usage, format!("`{id}` is no id")))
    }
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    short_id: String,
    kind: String,
    team: String,
    tool: Option<String>,
    arguments: Value,
    summary: String,
    diff: Option<String>,
    rule: Option<String>,
    risk: String,
    label: String,
    requester: Value,
    digest: String,
    status: String,
    resolved_by: Option<String>,
    #[serde(default)]
    alone: bool,
    note: Option<String>,
    created_at: Option<String>,
    expires_at: Option<String>,
    execution: String,
}

fn read(answer: &Value) -> Result<Row, Failure> {
    data(answer)
}

fn listed(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        [
            row.short_id,
            row.status,
            row.team,
            row.tool.unwrap_or(row.kind),
            row.digest.chars().take(8).collect(),
            row.expires_at.as_deref().map(moment).unwrap_or_default(),
            row.summary.lines().next().unwrap_or_default().to_owned(),
        ]
    });
    Ok(table(["ID", "STATUS", "TEAM", "TOOL", "DIGEST", "UNTIL", "WHY"], rows))
}

fn shown(answer: &Value) -> Result<String, Failure> {
    let row = read(answer)?;
    let arguments = serde_json::to_string_pretty(&row.arguments).unwrap_or_default();
    let date = |date: &Option<String>| date.as_deref().map(moment).unwrap_or_default();
    let mut lines = vec![
        format!("id         {} ({})", row.short_id, row.id),
        format!("status     {}, execution {}", row.status, row.execution),
        format!("team       {}", row.team),
        format!("tool       {} ({})", row.tool.as_deref().unwrap_or("-"), row.kind),
        format!("why        {}", row.summary),
        format!("rule       {}", row.rule.as_deref().unwrap_or("-")),
        format!("risk       {}, {} content", row.risk, row.label),
        format!("caused by  {}", row.requester),
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
    Ok(printable(&(lines.join("\n") + "\n")))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn row() -> Value {
        json!({
            "id": "apr-1", "short_id": "kxqzvt", "kind": "tool", "team": "main", "tool": "bash",
            "arguments": {"command": "rm -r build"}, "summary": "It deletes files.", "diff": null,
            "rule": "config-1", "risk": "normal", "label": "trusted",
            "requester": {"kind": "system"}, "digest": "0123456789abcdef", "status": "pending",
            "resolved_by": null, "note": null, "created_at": "2026-11-14T23:46:40.000Z",
            "expires_at": "2026-11-15T23:46:40.000Z", "execution": "none",
        })
    }

    /// OP-84, PL-85
    #[test]
    fn what_waits_is_listed_in_columns_and_shown_whole() {
        let list = listed(&json!({"data": [row()]})).unwrap();
        let one = shown(&json!({"data": row()})).unwrap();

        assert_eq!(
            list,
            "ID      STATUS   TEAM  TOOL  DIGEST    UNTIL                 WHY\n\
             kxqzvt  pending  main  bash  01234567  2026-11-15 23:46 UTC  It deletes files.\n"
        );
        assert!(one.contains("digest     0123456789abcdef\n"), "{one}");
        assert!(one.contains("\"command\": \"rm -r build\""), "{one}");
    }

    #[test]
    fn an_id_cannot_lead_to_another_path() {
        assert!(safe("apr-0f").is_ok());
        for id in ["", "a/b", "..%2f", "a?b", "a b"] {
            assert!(safe(id).is_err(), "{id}");
        }
    }
}
