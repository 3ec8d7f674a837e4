//! Policies: the operator's rules, and what they say to a call.

use clap::Args;
use hivewright_actors::{
    policy::{
        caution::{Kind, Risk},
        resource::{Mode, Resource},
        rule::{Condition, Effect, Rule, Who, every_team},
    },
    words,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    endpoint::*,
    flags,
    reply::*,
    scope::Scope::*,
    when::{Moment, date},
};
use crate::policy::RuleSource;

pub const LIST_RULES: Endpoint<Rows<RuleRow>> =
    get("/api/v1/policies", Admin, "Lists the rules over what teams may do.")
        .sorted(&["id", "team", "resource"]);

pub const ADD_RULE: Endpoint<Created<RuleRow>, Empty, Empty, NewRule> =
    post("/api/v1/policies", Admin, "Adds a rule.")
        .refuses(&[409])
        .recorded()
        .example(r#"{"resource": "tool:bash", "effect": "require_approval", "team": "main"}"#);

pub const EXPLAIN_CALL: Endpoint<Data<Explained>, Empty, Empty, ExplainCall> = post(
    "/api/v1/policies/explain",
    Read,
    "Says what the rules would decide on a call, without making it.",
)
.example(r#"{"team": "main", "tool": "read", "args": {"path": "notes.md"}}"#);

pub const REMOVE_RULE: Endpoint<Done, ById> =
    delete("/api/v1/policies/{id}", Admin, "Removes a rule that was added here.")
        .refuses(&[409])
        .recorded();

row! {
    /// A rule as answers show it.
    #[schemars(rename = "Rule")]
    pub struct RuleRow from (rule, source): (Rule, RuleSource) {
        pub id: String = rule.id,
        pub source: RuleSource = source,
        pub note: String = rule.note,
        pub team: String = rule.team,
        pub resource: Resource = rule.resource,
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mode: Option<Mode> = rule.mode,
        pub principal: Who = rule.principal,
        pub when: Vec<Condition> = rule.when,
        pub effect: Effect = rule.effect,
        pub risk: Risk = rule.risk,
        pub expires_at: Option<Moment> = rule.expires_at.and_then(date),
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct NewRule {
    /// What it says.
    #[arg(value_parser = flags::words::<Effect>())]
    pub effect: Effect,
    /// `tool:`, `class:`, `file:`, `exec:`, `host:` or `mcp:` and a name or pattern.
    pub resource: Resource,
    /// The teams it is for, with wildcards.
    #[arg(long)]
    pub team: Option<String>,
    /// For files: what is done with them.
    #[arg(long, value_parser = flags::words::<Mode>())]
    pub mode: Option<Mode>,
    /// On whose behalf: `any`, `role:<role>`, `user:<channel type>:<id>` or `label:untrusted`.
    #[arg(long)]
    pub principal: Option<Who>,
    /// Only where an argument fits: a JSON pointer, `=` and a pattern; may be repeated.
    #[arg(long, value_name = "POINTER=PATTERN", value_parser = condition)]
    #[schemars(description = "All of them have to hold.")]
    #[serde(default)]
    pub when: Vec<Condition>,
    /// How much harm a mistake does; with `high`, whoever caused the task does not decide.
    #[arg(long, value_parser = flags::words::<Risk>())]
    pub risk: Option<Risk>,
    /// What it is for.
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub note: String,
    /// When it ends, such as 2026-01-31T12:00:00Z.
    #[arg(long = "expires", value_name = "DATE")]
    pub expires_at: Option<Moment>,
    /// Its name, instead of one that is made up.
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub id: String,
    #[arg(skip)]
    pub quorum: Option<u64>,
}

impl NewRule {
    /// The rule that is meant.
    pub fn rule(self) -> Rule {
        Rule {
            id: self.id,
            note: self.note,
            expires_at: self.expires_at.map(|end| end.0),
            team: self.team.unwrap_or_else(every_team),
            resource: self.resource,
            mode: self.mode,
            principal: self.principal.unwrap_or_default(),
            when: self.when,
            effect: self.effect,
            quorum: self.quorum,
            risk: self.risk.unwrap_or_default(),
        }
    }
}

/// Reads `<pointer>=<pattern>`.
fn condition(text: &str) -> Result<Condition, String> {
    let expected = "a JSON pointer and a pattern, such as `/command=git push*`";
    let (pointer, pattern) = flags::pair(text, "/", expected)?;
    Ok(Condition { pointer: pointer.to_owned(), equals: None, glob: Some(pattern.to_owned()) })
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct ExplainCall {
    /// The team that would call.
    pub team: String,
    /// The tool.
    pub tool: String,
    /// Its arguments, as JSON.
    #[arg(value_name = "JSON", default_value = "{}", value_parser = str::parse::<Value>)]
    #[serde(default)]
    pub args: Value,
    /// On whose behalf: `any`, `role:<role>`, `user:<channel type>:<id>` or `label:untrusted`.
    #[arg(long)]
    pub principal: Option<Who>,
}

words! {
    /// What decided on a call where no rule did.
    pub enum PolicyReason {
        NoMatchingRule = "no_matching_rule",
        Default = "default",
        ToolList = "allowed_tools",
    }
}

/// What the rules say to a call.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    pub decision: Effect,
    /// The rule that made it.
    pub rule: Option<String>,
    /// Where there is none.
    pub reason: Option<PolicyReason>,
    pub class: String,
    /// Why a person is asked.
    pub why: Option<String>,
    pub kind: Option<Kind>,
    pub risk: Option<Risk>,
    /// All rules that fit.
    pub fitting: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hivewright_actors::clock::Timestamp;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_is_a_pointer_and_a_pattern() {
        let found = condition("/a/b=x=*").unwrap();

        assert_eq!((found.pointer.as_str(), found.glob.as_deref()), ("/a/b", Some("x=*")));
        assert!(condition("a=b").is_err() && condition("/a").is_err());
    }

    /// PL-66
    #[test]
    fn the_end_of_a_rule_is_read_where_it_is_written() {
        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            rule: NewRule,
        }
        let typed = |end| Line::try_parse_from(["add", "deny", "tool:bash", "--expires", end]);

        let rule = typed("2023-11-14T23:13:20+01:00").unwrap().rule.rule();
        let refusal = typed("soon").unwrap_err().to_string();

        assert_eq!(rule.expires_at, Some(Timestamp(1_700_000_000_000)));
        assert!(refusal.contains("expected a date such as 2026-01-31T12:00:00Z"), "{refusal}");
    }

    #[test]
    fn a_call_to_explain_is_typed_with_its_arguments_as_json() {
        #[derive(Debug, Parser)]
        struct Line {
            #[command(flatten)]
            call: ExplainCall,
        }
        let typed =
            |args: &[&str]| Line::try_parse_from([&["explain", "main", "bash"][..], args].concat());
        let untrusted = ["{\"command\": \"ls\"}", "--principal", "label:untrusted"];

        let sent = json!({
            "team": "main", "tool": "bash", "args": {"command": "ls"}, "principal": "label:untrusted",
        });
        assert_eq!(json!(typed(&untrusted).unwrap().call), sent);
        assert_eq!(typed(&[]).unwrap().call.args, json!({}));
        for (args, expected) in [(&["{"][..], "JSON"), (&["{}", "--principal", "me"][..], "`any`")]
        {
            let refusal = typed(args).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}");
        }
    }
}
