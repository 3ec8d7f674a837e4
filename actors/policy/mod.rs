//! Policy: whether a call may run, must not, or asks a person. Pure: no clock, no store.

use serde_json::Value;

use crate::{
    clock::Timestamp,
    task::{Label, cause::Cause},
    tool, words,
};

pub mod caution;
pub mod class;
pub mod command;
pub mod decision;
pub mod resource;
pub mod rule;
#[cfg(test)]
mod tests;

use caution::Caution;
use resource::Touch;

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
#[derive(Clone, Debug, PartialEq, Eq)]
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
pub enum Visibility {
    /// It may be called.
    Open,
    /// Every call asks a person.
    Asks,
    /// No call would be allowed.
    Hidden,
}
