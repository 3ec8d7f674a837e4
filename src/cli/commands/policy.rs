//! `hivewright policy`: what teams may do, must not, or must ask for.

use clap::Subcommand;

use crate::{
    api::{
        endpoint::{ById, Empty},
        policies::*,
    },
    cli::{
        answer::Answer,
        client::Service,
        context::Context,
        failure::Failure,
        table::{columns, or_never},
    },
    text::counted,
};

/// See and change policy rules: what teams may do, may not do, or ask about first
#[derive(Debug, PartialEq, Subcommand)]
#[command(after_help = "Examples:\n  \
    hivewright policy add require_approval tool:bash --team web-shop --note \"until it is tested\"\n  \
    hivewright policy explain main bash '{\"command\": \"git push\"}'")]
pub(super) enum Action {
    /// List all policy rules, those of the settings first
    #[command(after_help = "Example:\n  hivewright policy list --json")]
    List,
    /// Add a policy rule, from the next call of any tool on
    #[command(after_help = "Examples:\n  \
        hivewright policy add deny class:exec --team 'web-*'\n  \
        hivewright policy add allow host:*.example.com --principal role:user\n  \
        hivewright policy add require_approval tool:bash --when /command='git push*'")]
    Add(NewRule),
    /// Remove a policy rule that was added
    #[command(aliases = ["rm", "delete"], after_help = "Example:\n  hivewright policy remove rule-61c88646")]
    Remove {
        /// The id of the rule
        id: String,
    },
    /// Say whether a call would be allowed, denied or held, and by which rule
    #[command(after_help = "Example:\n  \
        hivewright policy explain main bash '{\"command\": \"git push\"}' --principal label:untrusted")]
    Explain(ExplainCall),
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    let service = Service::find(context)?;
    let screen = context.screen;
    match action {
        Action::List => service.all(&LIST_RULES, &Empty {}).await?.table(screen),
        Action::Add(new) => service
            .give(&ADD_RULE, &new)
            .await?
            .tell(screen, |rule| format!("added {}; it counts from the next call on", rule.id)),
        Action::Remove { id } => {
            let path = ById { id };
            service.at(&REMOVE_RULE, &path).await?;
            Answer::naming("removed", &path.id).tell(screen, |_| format!("removed {}", path.id))
        }
        Action::Explain(call) => {
            let answer = service.give(&EXPLAIN_CALL, &call).await?;
            answer.show(screen, |answer| explained(&answer) + "\n")
        }
    }
}

columns!(RuleRow {
    "ID" => |row| row.id.clone(),
    "FROM" => |row| row.source.to_string(),
    "EFFECT" => |row| row.effect.to_string(),
    "RESOURCE" => resource,
    "TEAM" => |row| row.team.clone(),
    "PRINCIPAL" => |row| row.principal.to_string(),
    "EXPIRES" => |row| or_never(&row.expires_at),
    "NOTE" => |row| row.note.clone(),
});

fn resource(row: &RuleRow) -> String {
    let mode = row.mode.as_ref().map(|mode| format!(" ({mode})")).unwrap_or_default();
    match row.when.len() {
        0 => format!("{}{mode}", row.resource),
        many => format!("{}{mode} if {}", row.resource, counted(many, "condition")),
    }
}

fn explained(answer: &Explained) -> String {
    let because = match (&answer.rule, answer.reason) {
        (Some(rule), _) => format!("rule {rule}"),
        (None, Some(PolicyReason::NoMatchingRule)) => {
            "the rules list what is allowed, and this is not on the list".to_owned()
        }
        (None, Some(PolicyReason::ToolList)) => {
            "the team's `allowed_tools` leave it out".to_owned()
        }
        (None, Some(PolicyReason::Default) | None) => {
            format!("the default of class {}", answer.class)
        }
    };
    match &answer.why {
        Some(why) => format!("{}: {because} ({why})", answer.decision),
        None => format!("{}: {because}", answer.decision),
    }
}

#[cfg(test)]
mod tests {

    use serde_json::{Value, json};

    use super::*;
    use crate::cli::table;

    /// OP-84
    #[test]
    fn rules_are_listed_and_decisions_explained() {
        let rows: Vec<RuleRow> = serde_json::from_value(json!([{
            "id": "config-1", "source": "settings", "team": "*", "resource": "file:docs",
            "mode": "w", "principal": "any", "when": [{"pointer": "/a", "glob": "*"}],
            "effect": "deny", "note": "why", "expires_at": null, "risk": "normal",
        }]))
        .unwrap();

        let list = table::rows(&rows);

        assert!(
            list.ends_with(
                "config-1  settings  deny    file:docs (w) if 1 condition  *     any        never    why\n"
            ),
            "{list}"
        );
        let read = |answer: Value| explained(&serde_json::from_value(answer).unwrap());
        let by_rule = json!({"decision": "deny", "rule": "r1", "class": "exec", "fitting": []});
        let by_class = json!({
            "decision": "require_approval", "reason": "default", "class": "trust", "why": "so",
            "fitting": [],
        });
        let by_list = json!({
            "decision": "deny", "reason": "allowed_tools", "class": "exec", "fitting": [],
        });
        assert_eq!(read(by_rule), "deny: rule r1");
        assert_eq!(read(by_list), "deny: the team's `allowed_tools` leave it out");
        assert_eq!(read(by_class), "require_approval: the default of class trust (so)");
    }
}
