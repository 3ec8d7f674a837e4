//! Judge: the operator's rules over one call, and what a person is told who decides on it.

use std::{collections::BTreeMap, path::Path};

use hivewright_actors::{
    ids::{TeamKey, TeamName},
    policy::{
        By, Decision, Request, Subject,
        caution::{Caution, Kind, Risk},
        resource::Touch,
    },
    text::sentence,
    tool::{Asking, ToolFault, Verdict},
};
use serde_json::Value;

use super::{about::About, error::ToolError, grant::Grant, reach::Reach, secrets};
use crate::{
    sandbox::workspace::WorkspaceError,
    scrub::json,
    vault::{
        expand::{BEGIN, keys_in},
        scope::Scope,
    },
};

/// What a tool says of a call, before rules do.
pub(super) struct Sight {
    pub(super) key: String,
    pub(super) about: About,
    pub(super) reaches: Vec<Reach>,
    /// The team that it speaks to, where its arguments do not say which.
    pub(super) recipient: Option<TeamName>,
    /// What the tool itself has against it …
    pub(super) caution: Option<Caution>,
    /// … and what in a turn that has read what strangers wrote.
    pub(super) caution_if_untrusted: Option<Caution>,
}

impl Sight {
    /// A call that reaches for this, and against which its tool has nothing.
    pub(super) fn new(key: &str, about: About, reaches: Vec<Reach>) -> Self {
        let (recipient, caution, caution_if_untrusted) = (None, None, None);
        Self { key: key.to_owned(), about, reaches, recipient, caution, caution_if_untrusted }
    }

    /// The host that it goes to, if it goes to one.
    pub(super) fn host(&self) -> Option<&str> {
        self.reaches.iter().find_map(Reach::host)
    }

    /// Whoever is asked about the call is asked about this host.
    fn names_host(&self, host: &str) -> bool {
        self.reaches.iter().any(|reach| reach.host() == Some(host))
    }
}

/// A decision, with what it was made from.
pub struct Judgement {
    pub decision: Decision,
    pub class: &'static str,
    /// The rules that fit, by id.
    pub fitting: Vec<String>,
}

/// A call before the rules.
pub(super) struct Case<'a> {
    pub(super) sight: &'a Sight,
    pub(super) args: &'a Value,
    pub(super) subject: &'a Subject,
    pub(super) grant: &'a Grant,
}

impl Case<'_> {
    /// What the rules say to the call.
    pub(super) fn judge(&self) -> Judgement {
        let settle = self.subject.untrusted || self.grant.rules.now().is_about_files();
        self.judge_touches(&self.touches(settle))
    }

    fn touches(&self, settle: bool) -> Vec<Touch> {
        let reaches = self.sight.reaches.iter();
        reaches.flat_map(|reach| reach.touches(&self.grant.workspace, settle)).collect()
    }

    fn judge_touches(&self, touches: &[Touch]) -> Judgement {
        let Self { sight, args, subject, grant } = *self;
        let Sight { key, about, caution, caution_if_untrusted, .. } = sight;
        let policy = grant.rules.now();
        let request = Request {
            team: grant.team.as_str(),
            tool: key,
            class: about.class,
            effect: about.effect,
            args,
            touches,
            uses_secret: json::texts(args).iter().any(|text| text.contains(BEGIN)),
            subject,
            caution: self
                .secrets_at_risk()
                .or_else(|| caution_if_untrusted.clone().filter(|_| subject.untrusted))
                .or_else(|| caution.clone()),
            now: grant.rules.time(),
        };
        Judgement {
            decision: policy.decide(&request),
            class: about.class,
            fitting: policy.fitting(&request).into_iter().map(|rule| rule.id.clone()).collect(),
        }
    }

    /// Whether the call may run, for the turn that wants to make it, and the rule that says so.
    pub(super) fn verdict(&self, caller: &TeamKey) -> Result<(Verdict, Option<String>), ToolError> {
        let new_host = self.secrets_to_new_host(caller);
        let decision = match (self.judge().decision, new_host) {
            // Nobody is asked: putting the secret in is refused, which the vault writes down.
            (Decision::Allow(_) | Decision::Ask(..), Some(_)) if self.subject.untrusted => {
                return Ok((Verdict::Allow, None));
            }
            // Who lets a tool run has not said where secrets may go.
            (Decision::Allow(by), Some(caution)) => Decision::Ask(by, caution),
            (Decision::Ask(by, also), Some(caution)) => {
                let why = format!("{}; {}", caution.why, also.why);
                Decision::Ask(by, Caution::new(caution.kind, also.risk, why))
            }
            (decision, _) => decision,
        };
        match decision {
            Decision::Allow(by) => Ok((Verdict::Allow, rule_id(&by))),
            Decision::Deny(by) => Err(denied(&self.sight.key, &by)),
            Decision::Ask(by, caution) => {
                // Whoever decides sees the path: it must be that of the place.
                if let Some(error) = self.led_elsewhere() {
                    return Err(error.into());
                }
                let asking = self.asking(&by, caution, caller);
                let rule = asking.rule.clone();
                Ok((Verdict::Ask(asking), Some(rule)))
            }
        }
    }

    /// Why nobody is asked about the call: a link leads to another place than they would be shown.
    fn led_elsewhere(&self) -> Option<WorkspaceError> {
        for reach in &self.sight.reaches {
            if let (Some(path), Some(real)) = (reach.path(), reach.elsewhere(&self.grant.workspace))
            {
                return Some(elsewhere(path, &real, self.grant));
            }
        }
        let path = self.sight.reaches.iter().find_map(Reach::path)?;
        // The link may be gone again by now: whatever asks must ask by its name alone.
        match self.judge_touches(&self.touches(false)).decision {
            Decision::Ask(..) => None,
            _ => Some(WorkspaceError::Unsettled(path.to_owned())),
        }
    }

    fn asking(&self, by: &By, caution: Caution, caller: &TeamKey) -> Asking {
        let Self { sight, args, grant, .. } = *self;
        // A tool may have more to show than a sentence, whoever asks.
        let more = |caution: &Caution| Some(caution.why.split_once(":\n")?.1.to_owned());
        let diff = more(&caution).or_else(|| more(sight.caution.as_ref()?));
        let summary = caution.why.split(":\n").next().unwrap_or_default();
        // A value in the clear becomes a reference before anything is written down.
        let shown = secrets::clean(args, grant);
        let class = sight.about.class;
        Asking {
            secrets: versions(shown.as_ref().unwrap_or(args), caller, grant),
            kind: caution.kind.as_str().to_owned(),
            summary: sentence(summary),
            rule: rule_id(by).unwrap_or_else(|| format!("default of {class}")),
            high_risk: caution.risk == Risk::High,
            shown,
            diff,
            schema: String::new(),
            cwd: (class == "exec").then(|| grant.workspace.path().display().to_string()),
        }
    }

    /// A secret goes to a host that its entry does not name.
    fn secrets_to_new_host(&self, caller: &TeamKey) -> Option<Caution> {
        let Self { sight, args, grant, .. } = *self;
        let host = sight.host()?;
        let (scope, vault) = (Scope::Team(caller.clone()), grant.secrets.vault());
        let keys = secrets::referred(&sight.about, args);
        let mut keys = keys.into_iter().filter(|key| !vault.may_send(&scope, key, host));
        let first = keys.next()?;
        let keys = keys.fold(first, |keys, key| format!("{keys}, {key}"));
        let why = format!("secret {keys} goes to {host}, where it was not sent before");
        Some(Caution::new(Kind::SecretHost, Risk::Normal, why))
    }

    /// A turn that has read what a stranger wrote asks before it speaks to a team that has secrets.
    fn secrets_at_risk(&self) -> Option<Caution> {
        let Self { sight, args, subject, grant } = *self;
        if !subject.untrusted || !sight.about.speaks_to_teams {
            return None;
        }
        let one = args["team"].as_str().or(args["target"].as_str());
        let several = args["teams"].as_array().into_iter().flatten();
        let names = one.into_iter().chain(several.filter_map(Value::as_str));
        let names = names.chain(sight.recipient.as_ref().map(TeamName::as_str));
        let mut names = names.filter(|name| *name != grant.team.as_str());
        let vault = grant.secrets.vault();
        let name = names.find(|name| !vault.secrets_of_team(&TeamName::from(*name)).is_empty())?;
        let why = format!("team {name} has secrets, and this turn has read untrusted content");
        Some(Caution::new(Kind::Tool, Risk::Normal, why))
    }
}

/// A call that was let through by its arguments, and is judged again by what it really opens.
pub(super) struct Opening {
    sight: Sight,
    args: Value,
    subject: Subject,
    grant: Grant,
}

impl Opening {
    fn case(&self) -> Case<'_> {
        let Self { sight, args, subject, grant } = self;
        Case { sight, args, subject, grant }
    }

    /// None if the call opens no files and goes to no host.
    pub(super) fn of(sight: Sight, args: &Value, subject: Subject, grant: &Grant) -> Option<Self> {
        let opens = |reach: &Reach| reach.path().or(reach.host()).is_some();
        sight.reaches.iter().any(opens).then_some(())?;
        Some(Self { sight, args: args.clone(), subject, grant: grant.clone() })
    }

    /// Whether the call may use this place, which it holds open.
    ///
    /// What asks a person was asked about the path in the arguments: any other place is refused.
    pub(super) fn admit(&self, place: &Path) -> Result<(), WorkspaceError> {
        let Self { sight, subject, grant, .. } = self;
        if !subject.untrusted && !grant.rules.now().is_about_files() {
            return Ok(());
        }
        let (case, workspace) = (self.case(), &grant.workspace);
        let mut touches = case.touches(false);
        touches.extend(sight.reaches.iter().filter_map(|reach| reach.touch_at(place, workspace)));
        let mut named = sight.reaches.iter().filter_map(Reach::path);
        let is_place = |path| workspace.named_place(path).as_deref() == Some(place);
        match case.judge_touches(&touches).decision {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(by) => Err(WorkspaceError::Denied(denied(&sight.key, &by).message)),
            Decision::Ask(..) if named.clone().any(is_place) => Ok(()),
            Decision::Ask(..) => Err(elsewhere(named.next().unwrap_or_default(), place, grant)),
        }
    }

    /// Whether the call may go to this host. What asks a person was asked about the host in the arguments.
    pub(super) fn admit_host(&self, host: &str) -> Result<(), String> {
        let (case, sight) = (self.case(), &self.sight);
        let mut touches = case.touches(false);
        touches.push(Touch::Host(host.to_owned()));
        match case.judge_touches(&touches).decision {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(by) => Err(denied(&sight.key, &by).message),
            Decision::Ask(..) if sight.names_host(host) => Ok(()),
            Decision::Ask(..) => Err(format!(
                "led on to {host}, which nobody was asked about; call it by that address"
            )),
        }
    }

    /// Its turn has read what strangers wrote, and neither a person nor a rule has let the call run.
    pub(super) fn is_unasked(&self) -> bool {
        let judged = || self.case().judge().decision;
        self.subject.untrusted && matches!(judged(), Decision::Allow(By::Default))
    }

    /// Whether the call may go to this host, which is one of those that its tool was taken with. Whoever agreed to the call
    /// agreed to all of them.
    pub(super) fn admit_declared(&self, host: &str) -> Result<(), String> {
        self.admit_led(host, &self.subject)
    }

    /// Whether what the call opened may ask this host for something, of itself. A rule that asks a person about
    /// the host was not asked. `subject`: on whose behalf it does so now.
    pub(super) fn admit_led(&self, host: &str, subject: &Subject) -> Result<(), String> {
        let (case, sight) = (Case { subject, ..self.case() }, &self.sight);
        let decide = |touches: &[Touch]| case.judge_touches(touches).decision;
        match decide(&[Touch::Host(host.to_owned())]) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(by) => Err(denied(&sight.key, &by).message),
            Decision::Ask(..) if sight.names_host(host) => Ok(()),
            Decision::Ask(..) if matches!(decide(&[]), Decision::Ask(..)) => Ok(()),
            Decision::Ask(..) => {
                Err(format!("nobody was asked about {host}; call it by its own address"))
            }
        }
    }
}

fn elsewhere(path: &str, real: &Path, grant: &Grant) -> WorkspaceError {
    let inside = real.strip_prefix(grant.workspace.real_path());
    WorkspaceError::Elsewhere {
        path: path.to_owned(),
        real: inside.unwrap_or(real).display().to_string(),
    }
}

/// The secrets that a call would use, with their versions now.
fn versions(args: &Value, caller: &TeamKey, grant: &Grant) -> BTreeMap<String, u64> {
    let scope = Scope::Team(caller.clone());
    let vault = grant.secrets.vault();
    let keys = json::texts(args).into_iter().flat_map(keys_in);
    keys.map(|key| {
        let version = vault.version_of(&scope, &key).unwrap_or_default();
        (key, version)
    })
    .collect()
}

/// The result of a call that no person is asked about.
fn denied(key: &str, by: &By) -> ToolError {
    let why = match by {
        By::Rule(id) => format!("denied by the operator's rule `{id}`"),
        By::NoMatchingRule => {
            "denied: the operator's rules list what is allowed, and this is not on the list"
                .to_owned()
        }
        By::Default | By::ToolList => "denied".to_owned(),
    };
    let message = format!("{key}: {why}; do not try another way, go on without it");
    ToolError { rule: rule_id(by), ..ToolError::new(ToolFault::Denied, message) }
}

fn rule_id(by: &By) -> Option<String> {
    match by {
        By::Rule(id) => Some(id.clone()),
        By::NoMatchingRule | By::Default | By::ToolList => None,
    }
}
