//! `hivewright approvals`: calls that wait for a person.

use std::collections::BTreeSet;

use clap::Subcommand;
use hivewright_actors::{approvals::record::Choice, live::event::Kind};
use serde_json::{Value, json};

use crate::{
    api::{
        approvals::*,
        endpoint::{ById, OfTeam},
        events::EventFilter,
        grants::*,
    },
    cli::{
        answer::{Answer, Listing},
        client::Service,
        context::Context,
        events::{Follower, until_stopped},
        failure::Failure,
        prompt::confirm,
        screen::{Screen, printable},
        table::{self, columns, date, exact},
        watch::Watched,
    },
};

/// See and decide what teams may not do on their own
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright approvals list\n  \
    hivewright approvals approve kxqzvt\n  \
    hivewright approvals deny kxqzvt \"not before the release\"")]
pub(super) enum Action {
    /// List what waits for a decision, oldest first
    #[command(after_help = "Examples:\n  \
        hivewright approvals list --json\n  \
        hivewright approvals list --status denied --team web-shop")]
    List(Watched<Listing<ApprovalFilter>>),
    /// Show what waits, and what comes to wait, until Ctrl-C
    #[command(after_help = "Examples:\n  \
        hivewright approvals watch\n  \
        hivewright approvals watch --team web-shop --json")]
    Watch(ApprovalFilter),
    /// Show an approval whole, with its arguments and its digest
    #[command(after_help = "Example:\n  hivewright approvals show kxqzvt")]
    Show {
        /// The id of the approval, or its six letters
        id: String,
    },
    /// Let a call run
    #[command(after_help = "Examples:\n  \
        hivewright approvals approve kxqzvt --yes\n  \
        hivewright approvals approve kxqzvt --uses 10\n  \
        hivewright approvals approve kxqzvt --uses always")]
    Approve {
        /// The id of the approval, or its six letters
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
        /// The id of the approval, or its six letters
        id: String,
        /// Why, for the team
        note: String,
    },
    /// List calls that need no decision any more
    #[command(after_help = "Example:\n  hivewright approvals grants --team web-shop")]
    Grants(OfTeam),
    /// Take a grant back: the next such call asks again
    #[command(after_help = "Example:\n  hivewright approvals revoke grant-0f3k --yes")]
    Revoke {
        /// The id of the grant
        id: String,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List(list) => list.show(&LIST_APPROVALS, context).await,
        Action::Watch(filter) => until_stopped(watch(&filter, context)).await,
        Action::Show { id } => look(&service, id).await?.show(screen, |row| shown(&row)),
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
            let (decision, digest) = (Choice::Approve, found.digest);
            let word = ApprovalDecision { decision, digest, uses, note, confirm: typed };
            decide(&service, found.id, word, screen).await
        }
        Action::Deny { id, note } => {
            let found = look(&service, id).await?.data()?;
            let word = ApprovalDecision {
                decision: Choice::Deny,
                digest: found.digest,
                uses: None,
                note: Some(note),
                // Nothing runs by it: that they named it is enough.
                confirm: Some(found.short_id),
            };
            decide(&service, found.id, word, screen).await
        }
        Action::Grants(filter) => service.all(&LIST_GRANTS, &filter).await?.table(screen),
        Action::Revoke { id } => revoke(&service, context, id).await,
    }
}

/// Shows each that fits once, when it is there.
async fn watch(filter: &ApprovalFilter, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let mut follower = Follower::open(context, EventFilter::of([Kind::ApprovalChanged])).await?;
    let mut known = BTreeSet::new();
    loop {
        follower.next().await?;
        let read = async |service: &Service| service.all(&LIST_APPROVALS, filter).await;
        let answer = follower.read(read).await?;
        let documents = answer.document["data"].as_array().cloned().unwrap_or_default();
        let rows = answer.data()?;
        let present: BTreeSet<String> = rows.iter().map(|row| row.id.clone()).collect();
        for (row, document) in rows.iter().zip(documents) {
            let line = match (known.contains(&row.id), screen.json) {
                (true, _) => continue,
                (false, true) => document.to_string(),
                (false, false) => watched(row),
            };
            if !screen.follow(&line) {
                return Ok(());
            }
        }
        known = present;
    }
}

fn watched(row: &ApprovalRow) -> String {
    let why = row.summary.lines().next().unwrap_or_default();
    let at = row.created_at.map(exact).unwrap_or_default();
    printable(&format!("{at}  {}  {}  {}  {why}", row.short_id, row.team, row.what()))
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
    id: String,
    word: ApprovalDecision,
    screen: Screen,
) -> Result<(), Failure> {
    let answer = service.send(&DECIDE, &ById { id }, &word).await?;
    answer.tell(screen, |row| {
        let note = kept_note(&row, word.note.as_deref());
        format!("{} is {}{}{note}", row.short_id, row.status, alone(&row))
    })
}

/// What was decided before in the same way stays, with its note.
fn kept_note(row: &ApprovalRow, given: Option<&str>) -> String {
    match (&row.note, given) {
        (kept, Some(given)) if kept.as_deref() != Some(given) => match kept {
            Some(kept) => format!("; its note stays \"{}\"", printable(kept)),
            None => "; it stays without a note".to_owned(),
        },
        _ => String::new(),
    }
}

fn alone(row: &ApprovalRow) -> &'static str {
    if row.alone { ", alone" } else { "" }
}

async fn revoke(service: &Service, context: &Context, id: String) -> Result<(), Failure> {
    let grants = service.all(&LIST_GRANTS, &OfTeam::default()).await?.document;
    let mut rows = grants["data"].as_array().into_iter().flatten();
    let Some(found) = rows.find(|row| row["id"] == *id) else {
        let message = format!(
            "there is no grant `{id}`; `hivewright approvals grants` shows those there are"
        );
        return Err(Failure::not_found(message));
    };
    let answer: Answer<Vec<GrantRow>> = Answer::new(json!({ "data": [found] }));
    confirm(context, &table::rows(&answer.data()?), "Take this back?")?;
    service.at(&REVOKE_GRANT, &ById { id }).await?;
    answer.tell(context.screen, |_| "The next such call asks again.".to_owned())
}

columns!(ApprovalRow {
    "ID" => |row| row.short_id.clone(),
    "STATUS" => |row| row.status.to_string(),
    "TEAM" => |row| row.team.clone(),
    "TOOL" => |row| row.what().to_owned(),
    "DIGEST" => |row| row.digest.chars().take(8).collect(),
    "UNTIL" => |row| date(&row.expires_at),
    "WHY" => |row| row.summary.lines().next().unwrap_or_default().to_owned(),
});

columns!(GrantRow {
    "ID" => |row| row.id.clone(),
    "TEAM" => |row| row.covers.team.clone(),
    "TOOL" => |row| row.covers.tool.clone(),
    "LEFT" => |row| row.uses_left.map_or("any".to_owned(), |left| left.to_string()),
    "UNTIL" => |row| date(&row.expires_at),
    "BY" => |row| row.granted_by.clone(),
    "ARGUMENTS" => |row| row.covers.arguments.to_string(),
});

fn shown(row: &ApprovalRow) -> String {
    let mut lines = vec![
        ("id", format!("{} ({})", row.short_id, row.id)),
        ("status", format!("{}, execution {}", row.status, row.execution)),
        ("team", row.team.clone()),
        ("tool", format!("{} ({})", row.tool.as_deref().unwrap_or("-"), row.kind)),
        ("why", row.summary.clone()),
        ("rule", row.rule.clone().unwrap_or_else(|| "-".to_owned())),
        ("risk", format!("{}, {} content", row.risk, row.label)),
        ("caused by", row.requester.to_string()),
        ("asked", date(&row.created_at)),
        ("until", date(&row.expires_at)),
        ("digest", row.digest.clone()),
    ];
    if let Some(by) = &row.resolved_by {
        lines.push(("decided", format!("by {by}{}", alone(row))));
    }
    lines.extend(row.note.iter().map(|note| ("note", note.clone())));
    let mut text = table::fields(11, lines) + &format!("arguments\n{}\n", pretty(&row.arguments));
    if let Some(diff) = &row.diff {
        text += &format!("change\n{diff}\n");
    }
    printable(&text)
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

    /// OP-79: who decides a second time with other words is told that they do not count.
    #[test]
    fn a_note_that_does_not_count_is_no_secret() {
        let mut denied = row();
        denied["note"] = json!("not today");
        let denied: ApprovalRow = serde_json::from_value(denied).unwrap();

        assert_eq!(kept_note(&denied, Some("not today")), "");
        assert_eq!(kept_note(&denied, None), "");
        assert_eq!(kept_note(&denied, Some("never")), "; its note stays \"not today\"");
    }

    /// OP-79, PL-83
    #[test]
    fn grants_are_listed_with_what_is_left_of_them() {
        let grant = json!({
            "id": "grant-1", "team": "main", "tool": "bash", "arguments": {"command": "make"},
            "granted_by": "operator", "expires_at": "2026-11-15T23:46:40.000Z", "uses_left": 3,
            "generation": 1, "cwd": null, "secrets": [], "untrusted": false, "approval": "apr-1",
            "created_at": null,
        });
        let mut always = grant.clone();
        always["uses_left"] = Value::Null;
        always["expires_at"] = Value::Null;

        let rows: Vec<GrantRow> = serde_json::from_value(json!([grant, always])).unwrap();

        assert_eq!(
            table::rows(&rows),
            "ID       TEAM  TOOL  LEFT  UNTIL                 BY        ARGUMENTS\n\
             grant-1  main  bash  3     2026-11-15 23:46 UTC  operator  {\"command\":\"make\"}\n\
             grant-1  main  bash  any                         operator  {\"command\":\"make\"}\n"
        );
    }
}
