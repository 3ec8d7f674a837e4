//! Verification of a tool that a team wrote: what it must be before anybody calls it, in order.

use std::sync::{Arc, LazyLock};

use hivewright_actors::{clock::millis, ids::TeamName, tool::Effect};
use regex::Regex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Declared, files::LARGEST, scan};
use crate::{
    mcp::definition,
    plugins::{
        host::{
            engine::{Fault, Stop},
            process::{CPU, Call, Done, HostError, Hosts, Offline},
            wire::{CallLimits, Offer, Outcome},
        },
        written::{Check, Verification},
    },
    scrub::Scrubber,
    settings::network::HostPattern,
};

/// Names that are not given: models know what they do.
const RESERVED: [&str; 6] = ["read", "write", "edit", "glob", "grep", "bash"];
/// The most characters of a description.
const LONGEST_DESCRIPTION: usize = 1_024;
const LONGEST_NAME: usize = 32;
const USUAL_MS: u64 = 30_000;
const LONGEST_MS: u64 = 60_000;
/// How long a module may take to load.
const LOAD_MS: u64 = 5_000;
/// The most hosts that a tool names.
const MOST_HOSTS: usize = 20;

/// A tool that is to be verified.
pub(super) struct Candidate<'a> {
    pub(super) name: &'a str,
    pub(super) source: &'a str,
    pub(super) scrubber: &'a Scrubber,
}

/// A check that failed, with what there is to say.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) check: &'static str,
    pub(super) message: String,
}

impl Refusal {
    fn new(check: &'static str, message: impl Into<String>) -> Self {
        Self { check, message: message.into() }
    }
}

/// What is wrong with the name of a tool.
pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    if !begins_well || name.len() > LONGEST_NAME || !name.bytes().all(good) {
        let message =
            "a name has 1 to 32 lower-case letters, digits and `_`, and begins with a letter";
        return Err(Refusal::new("name", message));
    }
    if RESERVED.contains(&name) {
        return Err(Refusal::new("name", format!("`{name}` is reserved")));
    }
    Ok(())
}

impl Candidate<'_> {
    /// What can be seen without running anything. What parses is known only to the host, and asked before.
    pub(super) fn look(&self) -> Result<Vec<String>, Refusal> {
        check_name(self.name)?;
        if self.source.len() > LARGEST {
            let message = format!("the source has {} bytes; at most 64 KiB", self.source.len());
            return Err(Refusal::new("size", message));
        }
        let tokens = scan::tokens(self.source);
        if let Some(message) = scan::forbidden(&tokens) {
            return Err(Refusal::new("forbidden", message));
        }
        self.check_secrets()?;
        let hosts = scan::hosts(&tokens).map_err(|message| Refusal::new("exports", message))?;
        let checked = hosts.iter().map(|host| {
            let known = host.parse::<HostPattern>();
            known.map(|pattern| pattern.to_string()).map_err(|expected| {
                Refusal::new("exports", format!("`hosts`: `{host}`: {expected}"))
            })
        });
        let hosts: Vec<_> = checked.collect::<Result<_, _>>()?;
        if hosts.len() > MOST_HOSTS {
            let message = format!("`hosts`: at most {MOST_HOSTS}");
            return Err(Refusal::new("exports", message));
        }
        Ok(hosts)
    }

    fn check_secrets(&self) -> Result<(), Refusal> {
        let suspect =
            self.source.lines().position(|line| is_key(line) || self.scrubber.knows(line));
        let line = match suspect {
            Some(line) => format!("line {}: ", line + 1),
            // The value of a secret may have several lines.
            None if self.scrubber.knows(self.source) => String::new(),
            None => return Ok(()),
        };
        let message = format!(
            "{line}this looks like a secret; use a vault reference such as `${{vault:KEY}}` in the headers or the body \
             of a `fetch`"
        );
        Err(Refusal::new("secrets", message))
    }

    /// All checks. What passed is in the verification, whatever the end.
    pub(super) async fn verify(
        &self,
        team: &TeamName,
        hosts: &Hosts,
        sample: Option<&Value>,
        cancel: &CancellationToken,
        verification: &mut Verification,
    ) -> Result<Declared, Refusal> {
        let mut passed = |check: &str| verification.checks.push(Check::passed(check));
        check_name(self.name)?;
        passed("name");
        let source: Arc<str> = self.source.into();
        if source.len() > LARGEST {
            self.look()?;
        }
        let run = |input: Option<Value>, time_ms: u64| {
            let cpu_ms = millis(CPU);
            let limits = CallLimits { time_ms, cpu_ms, fetches: 0 };
            let call = Call { source: Arc::clone(&source), input, limits };
            hosts.call(team, call, Arc::new(Offline), cancel.child_token())
        };
        let looked = run(None, LOAD_MS).await.map_err(|error| unchecked("loads", &error))?;
        if let Outcome::Unreadable(fault) = &looked.outcome {
            return Err(Refusal::new("parses", format!("{fault}{}", hint(self.source))));
        }
        passed("parses");
        let named = self.look()?;
        passed("forbidden");
        passed("secrets");
        let offer = match looked.outcome {
            Outcome::Offers(offer) => *offer,
            Outcome::Failed(fault) => {
                let message =
                    format!("it does not load: {}{}", told(&fault, LOAD_MS), hint(self.source));
                return Err(Refusal::new("loads", message));
            }
            Outcome::Returned(_) | Outcome::Unreadable(_) => {
                return Err(Refusal::new("loads", "the host did not say what it offers"));
            }
        };
        let declared =
            declared(offer, &named).map_err(|message| Refusal::new("exports", message))?;
        passed("exports");
        passed("loads");
        if let Some(sample) = sample {
            let Done { outcome, console } = run(Some(sample.clone()), declared.timeout_ms)
                .await
                .map_err(|error| unchecked("sample", &error))?;
            if let Outcome::Failed(fault) = outcome {
                let fault = told(&fault, declared.timeout_ms);
                let console =
                    if console.is_empty() { console } else { format!("\nconsole:\n{console}") };
                let message = format!(
                    "`execute` failed with the sample: {fault} (there is no network while it is checked){console}"
                );
                return Err(Refusal::new("sample", message));
            }
            passed("sample");
        }
        Ok(declared)
    }
}

fn unchecked(check: &'static str, error: &HostError) -> Refusal {
    Refusal::new(check, format!("it could not be checked: {error}"))
}

/// A fault in words for a model.
pub(super) fn told(fault: &Fault, time_ms: u64) -> String {
    match fault.stop {
        Some(Stop::Time) => format!("timed out after {time_ms} ms"),
        Some(Stop::Cpu) => format!("used more than {} s of CPU time", CPU.as_secs()),
        Some(Stop::Idle) => fault.message.clone(),
        None => fault.to_string(),
    }
}

/// What keys of AWS, model providers, GitHub and GitLab look like, and private keys.
static KEYS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let shapes = [
        r"\bAKIA[0-9A-Z]{16}\b",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\bgh[pousr]_[A-Za-z0-9]{30,}",
        r"\bgithub_pat_[A-Za-z0-9_]{22,}",
        r"\bglpat-[A-Za-z0-9_-]{20,}",
        r"-----BEGIN [A-Z ]*PRIVATE KEY",
    ];
    Regex::new(&shapes.join("|")).ok()
});

fn is_key(line: &str) -> bool {
    KEYS.as_ref().is_some_and(|keys| keys.is_match(line))
}

/// What may be meant by a source that is no module of JavaScript.
fn hint(source: &str) -> &'static str {
    let has = |words: &[&str]| words.iter().any(|word| source.contains(word));
    if has(&["module.exports", "exports.", "require("]) {
        "; this looks like CommonJS: write `export const description = …`, `export function execute(input) { … }`"
    } else if has(&[
        "interface ",
        ": string",
        ": number",
        ": any",
        ": unknown",
        " as const",
        "Promise<",
        ": boolean",
    ]) {
        "; this looks like TypeScript: leave the types out"
    } else {
        ""
    }
}

/// What a module says of itself, if that can be used. `named` are the hosts as they are written.
fn declared(offer: Offer, named: &[String]) -> Result<Declared, String> {
    let Offer { types, description, input_schema, effect, hosts, timeout_ms } = offer;
    for (name, wanted) in
        [("description", "string"), ("inputSchema", "object"), ("execute", "function")]
    {
        match types.get(name).map(String::as_str) {
            Some(found) if found == wanted => {}
            Some(found) => return Err(format!("`{name}` is a {found}; export a {wanted}")),
            None if types.contains_key("default") => {
                return Err(format!(
                    "`{name}` is missing: export it by its name, not as part of a default export"
                ));
            }
            None => return Err(format!("`{name}` is missing: `export` a {wanted} of that name")),
        }
    }
    let description = description.as_str().unwrap_or_default().trim().to_owned();
    if description.is_empty() || description.chars().count() > LONGEST_DESCRIPTION {
        return Err(format!("`description` has 1 to {LONGEST_DESCRIPTION} characters"));
    }
    let Value::Object(schema) = input_schema else {
        return Err("`inputSchema` is no JSON Schema of an object".to_owned());
    };
    let input_schema = definition::object(schema).map_err(|why| format!("`inputSchema`: {why}"))?;
    let effect = match &effect {
        Value::Null => Effect::Irreversible,
        effect => serde_json::from_value(effect.clone()).map_err(|_| {
            format!("`effect` is {effect}; it is \"pure\", \"idempotent\" or \"irreversible\"")
        })?,
    };
    let told: Vec<String> = match hosts {
        Value::Null => Vec::new(),
        hosts => {
            serde_json::from_value(hosts).map_err(|_| "`hosts` is no array of texts".to_owned())?
        }
    };
    let told = told.iter().map(|host| host.parse().map(|host: HostPattern| host.to_string()));
    if told.collect::<Result<Vec<_>, _>>().ok().as_deref() != Some(named) {
        return Err("`hosts` is written as `export const hosts = [\"api.example.org\"]`, and stays as it is written".to_owned());
    }
    let timeout_ms = match &timeout_ms {
        Value::Null => USUAL_MS,
        timeout => timeout
            .as_f64()
            .filter(|ms| (1.0..=LONGEST_MS as f64).contains(ms))
            .map(|ms| ms as u64)
            .ok_or_else(|| {
                format!("`timeoutMs` is {timeout}; it is a number up to {LONGEST_MS}")
            })?,
    };
    Ok(Declared { description, input_schema, effect, hosts: named.to_vec(), timeout_ms })
}

/// A verification as answers show it.
pub(super) fn shown(verification: &Verification) -> Value {
    json!({ "ok": verification.ok, "checks": verification.checks })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TO-115: what looks like a key, or is a value of the vault, however it is written.
    #[test]
    fn a_source_with_a_secret_is_refused_with_its_line() {
        let scrubber = Scrubber::new(["tulips-in-the-garden", "two lines\nof one secret"]);
        let refusal = |source: &str| {
            let refused = Candidate { name: "a", source, scrubber: &scrubber }.look().err();
            refused.map(|refusal| (refusal.check, refusal.message))
        };

        for (source, line) in [
            ("const a = 1;\nconst key = 'tulips-in-the-garden';", "line 2: this looks"),
            ("const key = 'dHVsaXBzLWluLXRoZS1nYXJkZW4=';", "line 1: this looks"),
            ("const key = `two lines\nof one secret`;", "this looks"),
            ("const key = 'AKIAIOSFODNN7EXAMPLF';", "line 1: this looks"),
        ] {
            let (check, message) = refusal(source).unwrap_or_else(|| panic!("{source} is taken"));
            assert!(check == "secrets" && message.starts_with(line), "{source}: {message}");
        }
        assert_eq!(refusal("const key = '${vault:KEY}';"), None);
    }
}
