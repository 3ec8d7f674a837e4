//! Policies: the operator's rules, and what they say to a call.

use std::{fmt::Display, str::FromStr};

use clap::Args;
use hivewright_actors::policy::{
    caution::{Kind, Risk},
    resource::Mode,
    rule::{Condition, Effect, Invalid, Rule},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    endpoint::*,
    flags::{one_of, pair},
    reply::*,
    scope::Scope::*,
};
use crate::{
    policy::RuleSource,
    time::{self, date},
};

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
        pub resource: String = rule.resource.to_string(),
        #[serde(skip_serializing_if = "Option::is_none")]
        pub mode: Option<String> = rule.mode.map(|mode| mode.to_string()),
        pub principal: String = rule.principal.to_string(),
        pub when: Vec<Condition> = rule.when,
        pub effect: String = rule.effect.to_string(),
        pub risk: Risk = rule.risk,
        pub expires_at: Option<String> = rule.expires_at.and_then(date),
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, Args)]
pub struct NewRule {
    /// What it says.
    #[arg(value_parser = one_of::<Effect>())]
    #[schemars(description = "`allow`, `deny` or `require_approval`.")]
    pub effect: String,
    /// `tool:`, `class:`, `file:`, `exec:`, `host:` or `mcp:` and a name or pattern.
    pub resource: String,
    /// The teams it is for, with wildcards.
    #[arg(long)]
    pub team: Option<String>,
    /// For files: what is done with them.
    #[arg(long, value_parser = one_of::<Mode>())]
    #[schemars(description = "For files: `r`, `w` or `rw`.")]
    pub mode: Option<String>,
    /// On whose behalf: `any`, `role:<role>`, `user:<channel type>:<id>` or `label:untrusted`.
    #[arg(long)]
    pub principal: Option<String>,
    /// Only where an argument fits: a JSON pointer, `=` and a pattern; may be repeated.
    #[arg(long, value_name = "POINTER=PATTERN", value_parser = condition)]
    #[schemars(description = "All of them have to hold.")]
    #[serde(default)]
    pub when: Vec<Condition>,
    /// How much harm a mistake does; with `high`, whoever caused the task does not decide.
    #[arg(long, value_parser = one_of::<Risk>())]
    #[schemars(description = "`normal`, or `high`: whoever caused the task does not decide.")]
    pub risk: Option<String>,
    /// What it is for.
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub note: String,
    /// When it ends, such as 2026-01-31T12:00:00Z.
    #[arg(long = "expires", value_name = "DATE")]
    pub expires_at: Option<String>,
    /// Its name, instead of one that is made up.
    #[arg(long, default_value = "", hide_default_value = true)]
    #[serde(default)]
    pub id: String,
    #[arg(skip)]
    pub quorum: Option<u64>,
}

impl NewRule {
    /// The rule that is meant, if its texts have the right form.
    pub fn rule(self) -> Result<Rule, Invalid> {
        let expires_at = self.expires_at.as_deref().map(time::read).transpose();
        let plain =
            Rule::new(&self.id, read("resource", &self.resource)?, read("effect", &self.effect)?);
        Ok(Rule {
            note: self.note,
            expires_at: expires_at
                .map_err(|error| Invalid::new("expires_at", error.to_string()))?,
            team: self.team.unwrap_or(plain.team),
            mode: self.mode.map(|mode| read("mode", &mode)).transpose()?,
            principal: read("principal", self.principal.as_deref().unwrap_or("any"))?,
            when: self.when,
            quorum: self.quorum,
            risk: self.risk.map_or(Ok(Risk::Normal), |risk| read("risk", &risk))?,
            ..plain
        })
    }
}

fn read<T: FromStr<Err: Display>>(field: &str, text: &str) -> Result<T, Invalid> {
    text.parse().map_err(|error: T::Err| Invalid::new(field, error.to_string()))
}

/// Reads `<pointer>=<pattern>`.
fn condition(text: &str) -> Result<Condition, String> {
    let expected = "a JSON pointer and a pattern, such as `/command=git push*`";
    let (pointer, pattern) = pair(text, "/", expected)?;
    Ok(Condition { pointer: pointer.to_owned(), equals: None, glob: Some(pattern.to_owned()) })
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct ExplainCall {
    pub team: String,
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub args: Value,
    /// On whose behalf; `any` is usual.
    pub principal: Option<String>,
}

/// What the rules say to a call.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    pub decision: String,
    /// The rule that made it.
    pub rule: Option<String>,
    /// Where there is none: `no_matching_rule`, `default`, or `allowed_tools` of the team.
    pub reason: Option<String>,
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
    use super::*;

    #[test]
    fn a_condition_is_a_pointer_and_a_pattern() {
        let found = condition("/a/b=x=*").unwrap();

        assert_eq!((found.pointer.as_str(), found.glob.as_deref()), ("/a/b", Some("x=*")));
        assert!(condition("a=b").is_err() && condition("/a").is_err());
    }
}
