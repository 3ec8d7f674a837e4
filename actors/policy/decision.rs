//! Policy decision: the rules first, then what the class of a tool asks for by itself.

use super::{
    By, Decision, Request, Visibility,
    caution::{Caution, Kind, Risk, SELF_FILE, SELF_FOLDERS},
    resource::{Mode, Resource, Touch},
    rule::{Effect, Rule},
};
use crate::{clock::Timestamp, tool};

/// All rules that are in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    rules: Vec<Rule>,
}

impl Policy {
    /// Some rule is about files, so that it matters where they really are.
    pub fn is_about_files(&self) -> bool {
        let about = |rule: &Rule| matches!(rule.resource, Resource::File(_));
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
            return Decision::Ask(by(rule), rule_caution(rule, caution(request)));
        }
        if let Some(rule) = fitting(Effect::Allow).next() {
            return Decision::Allow(by(rule));
        }
        if self.rules.iter().any(|rule| rule.lists(request)) {
            return Decision::Deny(By::NoMatchingRule);
        }
        match caution(request) {
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
    pub fn visibility(
        &self,
        team: &str,
        tool: &str,
        classes: &[&str],
        effect: tool::Effect,
        now: Timestamp,
    ) -> Visibility {
        let always = |wanted: Effect| {
            classes.iter().all(|class| self.always(wanted, team, tool, class, now).is_some())
        };
        let cautious = || classes.iter().all(|class| standing_caution(class, effect).is_some());
        if always(Effect::Deny) {
            Visibility::Hidden
        } else if always(Effect::RequireApproval) || (cautious() && !always(Effect::Allow)) {
            Visibility::Asks
        } else {
            Visibility::Open
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

/// Why a call asks a person although no rule says so; none: it may run.
fn caution(request: &Request<'_>) -> Option<Caution> {
    let Request { class, effect, .. } = *request;
    if request.subject.untrusted
        && let Some(caution) = untrusted(request)
    {
        return Some(caution);
    }
    if let Some(own) = &request.caution {
        return Some(own.clone());
    }
    standing_caution(class, effect)
}

/// The same for whatever the call says, in a turn that is trusted.
fn standing_caution(class: &str, effect: tool::Effect) -> Option<Caution> {
    let ask = |kind, why: &str| Some(Caution::new(kind, Risk::Normal, why));
    match class {
        "org.shutdown_team" => ask(Kind::Shutdown, "a team and all its data end"),
        "org.propose_change" => ask(Kind::SelfChange, "what the team is changes"),
        "trust" if effect != tool::Effect::Pure => ask(Kind::Tool, "who is trusted changes"),
        _ => None,
    }
}

/// A turn that has read what a stranger wrote does less without asking.
fn untrusted(request: &Request<'_>) -> Option<Caution> {
    let Request { class, effect, .. } = *request;
    let changes = effect != tool::Effect::Pure;
    let ask = |kind, risk, what: &str| {
        let why = format!("{what}, and this turn has read untrusted content");
        Some(Caution::new(kind, risk, why))
    };
    match class {
        "net.write" => ask(Kind::Tool, Risk::Normal, "it sends data out"),
        "plugin" | "mcp" if effect == tool::Effect::Irreversible => {
            ask(Kind::Tool, Risk::Normal, "it cannot be undone")
        }
        "org.spawn_team" => ask(Kind::Spawn, Risk::High, "a new team is made"),
        "org.shutdown_team" => ask(Kind::Shutdown, Risk::High, "a team and all its data end"),
        "org.update_team" => ask(Kind::Config, Risk::High, "a team's settings change"),
        "org.control_team" => ask(Kind::Config, Risk::Normal, "a team is stopped or started"),
        "trust" | "plugin.register" if changes => {
            ask(Kind::SelfChange, Risk::Normal, "what the team is changes")
        }
        // It could answer with it, in a form that nobody recognises.
        "exec" if request.uses_secret => {
            ask(Kind::Tool, Risk::Normal, "a command is given a secret")
        }
        // What is saved in such a turn waits for a review; what is deleted is out of prompts at once.
        "memory" if request.tool == "memory_delete" => {
            ask(Kind::SelfChange, Risk::Normal, "something remembered is deleted")
        }
        // A test changes nothing of the trigger, and its run is believed as far as this turn.
        "trigger.test_trigger" => None,
        _ if class.starts_with("trigger.") && changes => {
            ask(Kind::SelfChange, Risk::Normal, "a trigger changes")
        }
        _ if request.touches.iter().any(is_self_change) => {
            ask(Kind::SelfChange, Risk::Normal, "what the team is changes")
        }
        _ => None,
    }
}

fn is_self_change(touch: &Touch) -> bool {
    let Touch::File { inside: Some(inside), mode: Mode::Write | Mode::Both, .. } = touch else {
        return false;
    };
    let first = inside.split('/').next().unwrap_or_default();
    SELF_FOLDERS.contains(&first) || first == SELF_FILE
}
