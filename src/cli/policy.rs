//! `hivewright policy`: what teams may do, must not, or must ask for.

use clap::{Args, Subcommand};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Context,
    approvals::safe,
    failure::{Exit, Failure},
    service::{Service, data},
    table::{moment, table},
};

/// See and change the rules for what teams do
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  \
    hivewright policy add require_approval tool:bash --team web-shop --note \"until it is tested\"\n  \
    hivewright policy explain main bash '{\"command\": \"git push\"}'")]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Action,
}

/// What to do with rules.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(super) enum Action {
    /// List all rules, those of the settings first
    #[command(after_help = "Example:\n  hivewright policy list --json")]
    List,
    /// Add a rule, from the next call of any tool on
    #[command(after_help = "Examples:\n  \
        hivewright policy add deny class:exec --team 'web-*'\n  \
        hivewright policy add allow host:*.example.com --principal role:user\n  \
        hivewright policy add require_approval tool:bash --when /command='git push*'")]
    Add {
        /// allow, deny or require_approval
        effect: String,
        /// `tool:`, `class:`, `file:`, `exec:`, `host:` or `mcp:` and a name or pattern
        resource: String,
        /// The teams it is for, with wildcards
        #[arg(long)]
        team: Option<String>,
        /// For files: r, w or rw
        #[arg(long)]
        mode: Option<String>,
        /// any, role:<role>, user:<channel type>:<id> or label:untrusted
        #[arg(long)]
        principal: Option<String>,
        /// Only where an argument fits: a JSON pointer, `=` and a pattern; may be repeated
        #[arg(long, value_name = "POINTER=PATTERN", value_parser = condition)]
        when: Vec<(String, String)>,
        /// normal, or high: whoever caused the task does not decide
        #[arg(long)]
        risk: Option<String>,
        /// What it is for
        #[arg(long, default_value = "")]
        note: String,
        /// Until a date such as 2026-01-31T12:00:00Z
        #[arg(long)]
        expires_at: Option<String>,
        /// Its name, instead of one that is made up
        #[arg(long, default_value = "")]
        id: String,
    },
    /// Remove a rule that was added
    #[command(after_help = "Example:\n  hivewright policy rm rule-61c88646")]
    Rm {
        /// Its id
        id: String,
    },
    /// Say what the rules make of a call, and which rule does
    #[command(after_help = "Example:\n  \
        hivewright policy explain main bash '{\"command\": \"git push\"}' --principal label:untrusted")]
    Explain {
        /// The team that would call
        team: String,
        /// The tool
        tool: String,
        /// Its arguments, as JSON
        #[arg(default_value = "{}")]
        args: String,
        /// On whose behalf: role:<role>, user:<channel type>:<id> or label:untrusted
        #[arg(long)]
        principal: Option<String>,
    },
}

/// Reads `<pointer>=<pattern>`.
fn condition(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((pointer, pattern)) if pointer.starts_with('/') => {
            Ok((pointer.to_owned(), pattern.to_owned()))
        }
        _ => Err("expected a JSON pointer and a pattern, such as `/command=git push*`".to_owned()),
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match arguments.action {
        Action::List => {
            let answer = service.list("/api/v1/policies").await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.write(&listed(&answer)?);
        }
        Action::Add {
            effect,
            resource,
            team,
            mode,
            principal,
            when,
            risk,
            note,
            expires_at,
            id,
        } => {
            let when: Vec<_> = when
                .into_iter()
                .map(|(pointer, glob)| json!({"pointer": pointer, "glob": glob}))
                .collect();
            let wish = json!({
                "id": id, "effect": effect, "resource": resource, "team": team, "mode": mode,
                "principal": principal, "when": when, "risk": risk, "note": note,
                "expires_at": expires_at,
            });
            let answer = service.post("/api/v1/policies", &wish).await?;
            if screen.json {
                return screen.document(&answer);
            }
            let id = answer["data"]["id"].as_str().unwrap_or_default();
            screen.remark(&format!("added {id}; it counts from the next call on"));
        }
        Action::Rm { id } => {
            let path = format!("/api/v1/policies/{}", safe(&id)?);
            service.act(Method::DELETE, &path).await?;
            if screen.json {
                return screen.document(&json!({"data": {"removed": id}}));
            }
            screen.remark(&format!("removed {id}"));
        }
        Action::Explain { team, tool, args, principal } => {
            let args: Value = serde_json::from_str(&args).map_err(|error| {
                Failure::new(Exit::Usage, format!("the arguments are not JSON: {error}"))
            })?;
            let call = json!({"team": team, "tool": tool, "args": args, "principal": principal});
            let answer = service.post("/api/v1/policies/explain", &call).await?;
            if screen.json {
                return screen.document(&answer);
            }
            screen.say(&explained(&answer["data"]));
        }
    }
    Ok(())
}

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    source: String,
    team: String,
    resource: String,
    mode: Option<String>,
    principal: String,
    when: Vec<Value>,
    effect: String,
    note: String,
    expires_at: Option<String>,
}

fn listed(answer: &Value) -> Result<String, Failure> {
    let rows: Vec<Row> = data(answer)?;
    let rows = rows.into_iter().map(|row| {
        let mode = row.mode.map(|mode| format!(" ({mode})"));
        let when = match row.when.len() {
            0 => String::new(),
            count => format!(" if {count} condition(s)"),
        };
        [
            row.id,
            row.source,
            row.effect,
            format!("{}{}{when}", row.resource, mode.unwrap_or_default()),
            row.team,
            row.principal,
            row.expires_at.as_deref().map_or("never".to_owned(), moment),
            row.note,
        ]
    });
    Ok(table(["ID", "FROM", "EFFECT", "RESOURCE", "TEAM", "PRINCIPAL", "EXPIRES", "NOTE"], rows))
}

fn explained(answer: &Value) -> String {
    let text = |field: &str| answer[field].as_str();
    let decision = text("decision").unwrap_or("-");
    let because = match (text("rule"), text("reason")) {
        (Some(rule), _) => format!("rule {rule}"),
        (None, Some("no_matching_rule")) => {
            "the rules list what is allowed, and this is not on the list".to_owned()
        }
        (None, _) => format!("the default of class {}", text("class").unwrap_or("-")),
    };
    match text("why") {
        Some(why) => format!("{decision}: {because} ({why})"),
        None => format!("{decision}: {because}"),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_condition_is_a_pointer_and_a_pattern() {
        let found = condition("/a/b=x=*").unwrap();

        assert_eq!(found, ("/a/b".to_owned(), "x=*".to_owned()));
        assert!(condition("a=b").is_err() && condition("/a").is_err());
    }

    /// OP-84
    #[test]
    fn rules_are_listed_and_decisions_explained() {
        let answer = json!({"data": [{
            "id": "config-1", "source": "settings", "team": "*", "resource": "file:docs",
            "mode": "w", "principal": "any", "when": [{"pointer": "/a", "glob": "*"}],
            "effect": "deny", "note": "why", "expires_at": null,
        }]});

        let list = listed(&answer).unwrap();

        assert!(
            list.ends_with(
                "config-1  settings  deny    file:docs (w) if 1 condition(s)  *     any        never    why\n"
            ),
            "{list}"
        );
        let by_rule = json!({"decision": "deny", "rule": "r1", "class": "exec"});
        let by_class = json!({
            "decision": "require_approval", "reason": "default", "class": "trust", "why": "so",
        });
        assert_eq!(explained(&by_rule), "deny: rule r1");
        assert_eq!(explained(&by_class), "require_approval: the default of class trust (so)");
    }
}
