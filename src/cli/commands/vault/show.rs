//! What is shown of the vault. No value of a secret is ever among it.

use crate::{
    api::vault::{VaultAct, VaultEntry, VaultRotated, VaultSet},
    cli::{
        context::Context,
        table::{columns, date, or_never},
    },
    vault::audit::Actor,
};

columns!(VaultEntry {
    "SCOPE" => |entry| entry.scope.clone(),
    "KEY" => |entry| entry.key.clone(),
    "KIND" => |entry| if entry.secret { "secret" } else { "public" }.to_owned(),
    "TOOLS" => |entry| entry.tools.join(","),
    "HOSTS" => |entry| entry.hosts.join(","),
    "LAST USED" => |entry| or_never(&entry.last_used_at),
    "NOTE" => |entry| entry.note.clone(),
});

columns!(VaultAct {
    "WHEN" => |act| date(&act.at),
    "WHAT" => |act| act.action.to_string(),
    "SCOPE" => |act| act.scope.clone(),
    "KEY" => |act| act.key.clone().unwrap_or_default(),
    "WHO" => |act| match &act.actor {
        Actor::Team { team, task } => format!("team:{} {task}", team.name),
        Actor::Operator { name, .. } => format!("operator:{name}"),
        Actor::System => "system".to_owned(),
    },
    "TOOL" => |act| act.tool.clone().unwrap_or_default(),
    "OUTCOME" => |act| act.outcome.clone(),
});

pub(super) fn set(VaultSet { scope, key, version, .. }: VaultSet) -> String {
    let reference = if scope == "system" {
        format!("`${{vault:{key}}}` in settings files stands for it")
    } else {
        format!("its tools know it as `${{vault:{key}}}`")
    };
    format!("{key} is set (version {version}); {reference}")
}

pub(super) fn rotated(rotated: &VaultRotated, context: &Context) -> String {
    match rotated.forgotten {
        Some(true) => "the replaced master key is removed; \
             backups from before the rotation cannot be used any more"
            .to_owned(),
        Some(false) => "there is no replaced master key".to_owned(),
        None => {
            let file = context.home.secrets().join("master.key");
            let file = file.display();
            format!(
                "the master key in {file} is another one now; keep a copy of it in a safe place\n\
                 the old one is in {file}.old; {} removes it, once no backup needs it",
                context.command("vault rotate-master --forget-old")
            )
        }
    }
}

pub(super) fn described(entry: &VaultEntry) -> String {
    let value = match (entry.secret, &entry.value, &entry.value_base64) {
        (true, _, _) => "not shown: it is a secret".to_owned(),
        (false, Some(text), _) => text.clone(),
        (false, None, Some(base64)) => format!("base64: {base64}"),
        (false, None, None) => String::new(),
    };
    let lines = [
        ("key", entry.key.clone()),
        ("scope", entry.scope.clone()),
        ("value", value),
        ("tools", entry.tools.join(", ")),
        ("hosts", entry.hosts.join(", ")),
        ("note", entry.note.clone()),
        ("version", entry.version.to_string()),
        ("changed", format!("{} by {}", date(&entry.updated_at), entry.updated_by)),
        ("last used", or_never(&entry.last_used_at)),
    ];
    let lines = lines.iter().map(|(name, text)| format!("{name:<9}  {text}"));
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::cli::table;

    /// MV-62
    #[test]
    fn what_is_shown_of_a_secret_is_not_its_value() {
        let entry = json!({
            "scope": "team:ops", "key": "TOKEN", "secret": true, "tools": ["bash"], "hosts": [],
            "note": "forge", "version": 2, "updated_by": "operator:ann",
            "created_at": "2026-11-14T23:46:40.000Z", "updated_at": "2026-11-14T23:46:40.000Z",
            "last_used_at": null,
        });
        let entry: VaultEntry = serde_json::from_value(entry).unwrap();

        let shown = described(&entry);
        let listed = table::rows(&[entry]);

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
        let rows = json!([
            {"at": "2026-11-14T23:46:40.000Z", "scope": "team:ops", "key": "TOKEN", "action": "expand",
             "actor": {"kind": "team", "team": {"name": "ops", "generation": 1}, "task": "task-1"},
             "tool": "bash", "host": null, "outcome": "ok"},
            {"at": "2026-11-14T23:46:40.000Z", "scope": "*", "key": null, "action": "list",
             "actor": {"kind": "operator", "name": "ann", "token": "t-1"},
             "tool": null, "host": null, "outcome": "ok"},
        ]);
        let rows: Vec<VaultAct> = serde_json::from_value(rows).unwrap();

        let shown = table::rows(&rows);

        assert_eq!(
            shown,
            "WHEN                  WHAT    SCOPE     KEY    WHO              TOOL  OUTCOME\n\
             2026-11-14 23:46 UTC  expand  team:ops  TOKEN  team:ops task-1  bash  ok\n\
             2026-11-14 23:46 UTC  list    *                operator:ann           ok\n"
        );
    }
}
