//! What is shown of the vault. No value of a secret is ever among it.

use serde::Deserialize;
use serde_json::Value;

use super::Action;
use crate::cli::{
    Context,
    failure::Failure,
    service::data,
    table::{moment, table},
};

#[derive(Debug, Deserialize)]
struct Row {
    scope: String,
    key: String,
    secret: bool,
    tools: Vec<String>,
    hosts: Vec<String>,
    note: String,
    version: u64,
    updated_by: String,
    updated_at: Option<String>,
    last_used_at: Option<String>,
    value: Option<String>,
    value_base64: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Act {
    at: Option<String>,
    scope: String,
    key: Option<String>,
    action: String,
    actor: Value,
    tool: Option<String>,
    outcome: String,
}

pub(super) fn show(action: &Action, document: &Value, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    match action {
        Action::List { .. } => {
            let rows: Vec<Row> = data(document)?;
            screen.write(&listed(&rows));
            let total = document["total"].as_u64().unwrap_or_default();
            if total > rows.len() as u64 {
                screen.remark(&format!("{} of {total}; `--prefix` narrows them down", rows.len()));
            }
        }
        Action::Show { .. } => screen.write(&screen.harmless(&described(&data(document)?))),
        Action::Set { key, of, .. } => {
            let version = &document["data"]["version"];
            let reference = if of.system {
                format!("`${{vault:{key}}}` in settings files stands for it")
            } else {
                format!("its tools know it as `${{vault:{key}}}`")
            };
            screen.remark(&format!("{key} is set (version {version}); {reference}"));
        }
        Action::Delete { key, .. } => screen.remark(&format!("deleted {key}")),
        Action::RotateMaster { forget_old: true } => {
            let forgotten = document["data"]["forgotten"] == true;
            screen.remark(if forgotten {
                "the replaced master key is removed; \
                 backups from before the rotation cannot be used any more"
            } else {
                "there is no replaced master key"
            });
        }
        Action::RotateMaster { forget_old: false } => {
            let file = context.home.secrets().join("master.key");
            let file = file.display();
            screen.remark(&format!(
                "the master key in {file} is another one now; keep a copy of it in a safe place\n\
                 the old one is in {file}.old; {} removes it, once no backup needs it",
                context.command("vault rotate-master --forget-old")
            ));
        }
        Action::Audit { .. } => screen.write(&acts(data(document)?)),
    }
    Ok(())
}

fn listed(rows: &[Row]) -> String {
    let rows = rows.iter().map(|row| {
        [
            row.scope.clone(),
            row.key.clone(),
            if row.secret { "secret" } else { "public" }.to_owned(),
            row.tools.join(","),
            row.hosts.join(","),
            used(row),
            row.note.clone(),
        ]
    });
    let heading = ["SCOPE", "KEY", "KIND", "TOOLS", "HOSTS", "LAST USED", "NOTE"];
    table(heading, rows)
}

fn used(row: &Row) -> String {
    row.last_used_at.as_deref().map_or("never".to_owned(), moment)
}

fn described(row: &Row) -> String {
    let value = match (row.secret, &row.value, &row.value_base64) {
        (true, _, _) => "not shown: it is a secret".to_owned(),
        (false, Some(text), _) => text.clone(),
        (false, None, Some(base64)) => format!("base64: {base64}"),
        (false, None, None) => String::new(),
    };
    let changed = row.updated_at.as_deref().map(moment).unwrap_or_default();
    let lines = [
        ("key", row.key.clone()),
        ("scope", row.scope.clone()),
        ("value", value),
        ("tools", row.tools.join(", ")),
        ("hosts", row.hosts.join(", ")),
        ("note", row.note.clone()),
        ("version", row.version.to_string()),
        ("changed", format!("{changed} by {}", row.updated_by)),
        ("last used", used(row)),
    ];
    let lines = lines.iter().map(|(name, text)| format!("{name:<9}  {text}"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

fn acts(rows: Vec<Act>) -> String {
    let rows = rows.into_iter().map(|row| {
        let actor = match row.actor["kind"].as_str() {
            Some("team") => {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let (team, task) = (text(&row.actor["team"]["name"]), text(&row.actor["task"]));
                format!("team:{team} {task}")
            }
            Some("operator") => {
                let name = row.actor["name"].as_str().unwrap_or_default();
                format!("operator:{name}")
            }
            _ => "system".to_owned(),
        };
        [
            row.at.as_deref().map(moment).unwrap_or_default(),
            row.action,
            row.scope,
            row.key.unwrap_or_default(),
            actor,
            row.tool.unwrap_or_default(),
            row.outcome,
        ]
    });
    let heading = ["WHEN", "WHAT", "SCOPE", "KEY", "WHO", "TOOL", "OUTCOME"];
    table(heading, rows)
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;

    /// MV-62
    #[test]
    fn what_is_shown_of_a_secret_is_not_its_value() {
        let row = json!({"data": {
            "scope": "team:ops", "key": "TOKEN", "secret": true, "tools": ["bash"], "hosts": [],
            "note": "forge", "version": 2, "updated_by": "operator:ann",
            "created_at": "2026-11-14T23:46:40.000Z", "updated_at": "2026-11-14T23:46:40.000Z",
            "last_used_at": null,
        }});

        let shown = described(&data(&row).unwrap());
        let listed = listed(&[data(&row).unwrap()]);

        assert_eq!(
            shown,
            "key        TOKEN\nscope      team:ops\nvalue      not shown: it is a secret\n\
             tools      bash\nhosts\nnote       forge\nversion    2\n\
             changed    2026-11-14 23:46 UTC by operator:ann\nlast used  never\n"
        );
        assert_eq!(
            listed,
            "SCOPE     KEY    KIND    TOOLS  HOSTS  LAST USED  NOTE\n\
             team:ops  TOKEN  secret  bash          never      forge\n"
        );
    }

    /// MV-65
    #[test]
    fn the_audit_names_who_did_it() {
        let rows = json!({"data": [
            {"at": "2026-11-14T23:46:40.000Z", "scope": "team:ops", "key": "TOKEN", "action": "expand",
             "actor": {"kind": "team", "team": {"name": "ops", "generation": 1}, "task": "task-1"},
             "tool": "bash", "host": null, "outcome": "ok"},
            {"at": "2026-11-14T23:46:40.000Z", "scope": "*", "key": null, "action": "list",
             "actor": {"kind": "operator", "name": "ann", "token": "t-1"},
             "tool": null, "host": null, "outcome": "ok"},
        ]});

        let shown = acts(data(&rows).unwrap());

        assert_eq!(
            shown,
            "WHEN                  WHAT    SCOPE     KEY    WHO              TOOL  OUTCOME\n\
             2026-11-14 23:46 UTC  expand  team:ops  TOKEN  team:ops task-1  bash  ok\n\
             2026-11-14 23:46 UTC  list    *                operator:ann           ok\n"
        );
    }
}
