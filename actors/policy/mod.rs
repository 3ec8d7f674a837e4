//! Policy: whether a call may run, must not, or asks a person. Pure: no clock, no store.

use serde::Serialize;
use serde_json::Value;

use crate::{
    clock::Timestamp,
    task::{Label, cause::Cause},
    tool, words,
};

pub mod caution;
pub mod class;
pub mod command;
pub mod resource;
pub mod rule;
#[cfg(test)]
mod tests;

use caution::{Caution, Kind, Risk};
use resource::Touch;
use rule::{Effect, Rule};

words! {
    /// What somebody is to us.
    pub enum Role {
        /// Runs this installation.
        Operator = "operator",
        /// Is known.
        User = "user",
        /// Was let in by a policy and is not known.
        Guest = "guest",
        /// Nobody: a trigger or Hivewright itself.
        System = "system",
    }
}

/// On whose behalf a call is made. It comes from the stored task, never from a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub role: Role,
    /// `<channel type>:<id>`, if it is a person.
    pub user: Option<String>,
    /// The turn has read what a stranger wrote.
    pub untrusted: bool,
}

impl Subject {
    /// Whoever is behind a turn, and what it has read.
    pub fn of(cause: &Cause, label: Label) -> Self {
        let (role, user) = match cause {
            Cause::System => (Role::System, None),
            Cause::Operator { name } => (Role::Operator, Some(format!("operator:{name}"))),
            Cause::Sender { channel_type, id, guest, .. } => {
                let role = if *guest { Role::Guest } else { Role::User };
                (role, Some(format!("{channel_type}:{id}")))
            }
        };
        Self { role, user, untrusted: label == Label::Untrusted }
    }
}

/// A call, as rules see it.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub team: &'a str,
    /// The tool's key.
    pub tool: &'a str,
    /// The tool's class for these arguments.
    pub class: &'a str,
    pub effect: tool::Effect,
    /// The final arguments.
    pub args: &'a Value,
    pub touches: &'a [Touch],
    /// A reference to a secret stands in the arguments.
    pub uses_secret: bool,
    pub subject: &'a Subject,
    /// What the tool itself has against these arguments.
    pub caution: Option<Caution>,
    pub now: Timestamp,
}

impl<'a> Request<'a> {
    fn classes(&self) -> Vec<&'a str> {
        let mut classes = vec![self.class];
        if self.uses_secret {
            classes.push(class::SECRET_USE);
        }
        classes
    }
}

/// What made a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Rule(String),
    /// There is a list of what is allowed, and this is not on it.
    NoMatchingRule,
    /// No rule: what is thought of the tool's class.
    Default,
    /// The team's `allowed_tools` leave the tool out.
    ToolList,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Allow(By),
    Deny(By),
    /// A person decides.
    Ask(By, Caution),
}

/// What there is to say of a tool before it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// It may be called.
    Open,
    /// Every call asks a person.
    Asks,
    /// No call would be allowed.
    Hidden,
}

/// All rules that are in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    rules: Vec<Rule>,
}

impl Policy {
    /// Some rule is about files, so that it matters where they really are.
    pub fn is_about_files(&self) -> bool {
        let about = |rule: &Rule| matches!(rule.resource, resource::Resource::File(_));
        self.rules.iter().any(about)
    }

    /// A policy of these rules. Their order means nothing.
    pub fn new(rules: Vec<Rule>) -> Self {
        Self { rules }
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    pub fn next_expiry(&self, now: Timestamp) -> Option<Timestamp> {
        let ends = self.rules.iter().filter_map(|rule| rule.expires_at);
        ends.filter(|end| now < *end).min()
    }

    /// Whether a call may run: denied by any rule, else asked for by any, else allowed by any; if
    /// none fits, a list of what is allowed is a list, and without one the class decides.
    pub fn decide(&self, request: &Request<'_>) -> Decision {
        let fitting = |effect: Effect| {
            self.rules.iter().filter(move |rule| rule.effect == effect && rule.fits(request))
        };
        let by = |rule: &Rule| By::Rule(rule.id.clone());
        if let Some(rule) = fitting(Effect::Deny).next() {
            return Decision::Deny(by(rule));
        }
        let riskiest = fitting(Effect::RequireApproval)
            .reduce(|most, rule| if rule.risk > most.risk { rule } else { most });
        if let Some(rule) = riskiest {
            return Decision::Ask(by(rule), rule_caution(rule, caution::caution(request)));
        }
        if let Some(rule) = fitting(Effect::Allow).next() {
            return Decision::Allow(by(rule));
        }
        if self.rules.iter().any(|rule| rule.lists(request)) {
            return Decision::Deny(By::NoMatchingRule);
        }
        match caution::caution(request) {
            Some(caution) => Decision::Ask(By::Default, caution),
            None => Decision::Allow(By::Default),
        }
    }

    /// The rules that fit a call, for whoever wants to know why.
    pub fn fitting(&self, request: &Request<'_>) -> Vec<&Rule> {
        self.rules.iter().filter(|rule| rule.fits(request)).collect()
    }

    /// The rule that forbids a tool of this class to a team, whatever it is called with.
    pub fn forbidding(&self, team: &str, tool: &str, class: &str, now: Timestamp) -> Option<&str> {
        self.always(Effect::Deny, team, tool, class, now).map(|rule| rule.id.as_str())
    }

    /// The first rule of this effect that holds for a tool of this class, whatever it is called with.
    fn always(
        &self,
        effect: Effect,
        team: &str,
        tool: &str,
        class: &str,
        now: Timestamp,
    ) -> Option<&Rule> {
        self.rules.iter().find(|rule| {
            rule.effect == effect
                && rule.is_unconditional()
                && rule.concerns(team, now)
                && rule.resource.names_tool(tool, &[class])
        })
    }

    /// What there is to say of a tool whatever it is called with. `classes` are all that it can have.
    pub fn standing(
        &self,
        team: &str,
        tool: &str,
        classes: &[&str],
        effect: tool::Effect,
        now: Timestamp,
    ) -> Standing {
        let always = |wanted: Effect| {
            classes.iter().all(|class| self.always(wanted, team, tool, class, now).is_some())
        };
        let cautious = || classes.iter().all(|class| caution::standing(class, effect).is_some());
        if always(Effect::Deny) {
            Standing::Hidden
        } else if always(Effect::RequireApproval) || (cautious() && !always(Effect::Allow)) {
            Standing::Asks
        } else {
            Standing::Open
        }
    }
}

/// A rule asks; if the class would have asked as well, its kind and its risk count too.
fn rule_caution(rule: &Rule, default: Option<Caution>) -> Caution {
    let why = if rule.note.is_empty() {
        format!("policy `{}` asks for approval", rule.id)
    } else {
        format!("policy `{}` asks for approval: {}", rule.id, rule.note)
    };
    let (kind, risk) = default.map_or((Kind::Tool, Risk::Normal), |found| (found.kind, found.risk));
    Caution::new(kind, risk.max(rule.risk), why)
}
