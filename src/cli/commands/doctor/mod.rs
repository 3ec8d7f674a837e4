//! `hivewright doctor`: looks at everything that could be wrong, and says what to do.

use clap::Args;
use serde_json::json;

use crate::{
    api::doctor::{Examination, Finding, FindingState},
    cli::{
        context::Context,
        failure::{Exit, Failure},
        progress::Gauge,
        screen::{Screen, Tone},
    },
    doctor::{browser, engines, machine, models, settings},
    engines::installed::Installations,
    settings::references::Environment,
    text::counted,
};

mod service;
mod store;
mod vault;

use service::Running;

/// Check settings, store, models, sandbox and machine; each finding says what to do
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  hivewright doctor\n  hivewright doctor --deep --json")]
pub(super) struct Arguments {
    /// Also ask each model one real question, and read every record of the store
    #[arg(long)]
    pub(super) deep: bool,
}

fn render(finding: &Finding, screen: Screen) -> String {
    let state = match finding.state {
        FindingState::Ok => screen.paint(Tone::Good, "ok   "),
        FindingState::Warn => screen.paint(Tone::Doubtful, "warn "),
        FindingState::Error => screen.paint(Tone::Bad, "error"),
    };
    let line = format!("{state}  {:<9}  {}", finding.id, finding.message);
    match &finding.fix {
        Some(fix) => format!("{line}\n{:18}→ {fix}", ""),
        None => line,
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let mut all = Vec::new();
    let mut add = |findings: Vec<Finding>| {
        let led = |finding: Finding| Finding {
            message: context.led(&finding.message),
            fix: finding.fix.as_deref().map(|fix| context.led(fix)),
            ..finding
        };
        let findings: Vec<Finding> = findings.into_iter().map(led).collect();
        if !screen.json {
            for finding in &findings {
                screen.say(&render(finding, screen));
            }
        }
        all.extend(findings);
    };
    let running = service::find(context).await;
    let (vault, environment) = vault::check(context, &running).await;
    let settings = settings::check(&context.home, &environment);
    add(settings.findings);
    add(machine::modes(&context.home));
    add(service::check(&running, settings.config.as_ref()));
    add(service::teams(&running, context).await);
    add(store::check(context, &running, arguments.deep).await);
    add(vec![vault]);
    let agents = settings.config.as_ref().map(|config| config.engines.clone());
    let agents = agents.unwrap_or_default();
    let found = Installations::default();
    let engines = engines::look(&found, &context.home, &agents, settings.providers.as_ref());
    let gauge = Gauge::new(screen, "doctor");
    let asked = |done, total| gauge.set(done, total, "models");
    add(match running {
        Running::Ready { .. } if arguments.deep => gauge.over(asked_by_service(context)).await,
        _ => gauge.over(models::check(settings.providers, arguments.deep, &asked)).await,
    });
    drop(gauge);
    add(engines::findings(&engines, &agents));
    add(vec![browser::check(&context.home)]);
    add(machine::sandbox(&context.home, settings.config.as_ref()).await);
    add(machine::disk(&context.home));
    add(machine::clock(&context.home));
    conclude(&all, screen)
}

/// The running service asks the models: it has the keys that are in the vault.
async fn asked_by_service(context: &Context) -> Vec<Finding> {
    let deep = Examination { deep: true, store: false };
    service::examined(models::ID, deep, context).await.unwrap_or_else(|failure| {
        // They are not asked once more from here: it costs money, and may lack their keys.
        let message = format!("the running service did not say whether they answer: {failure}");
        vec![Finding::warn(models::ID, message, "see its log, or send the main team a message")]
    })
}

/// The environment with the secrets that settings may refer to, of a service that runs or is stopped.
pub(super) async fn environment(context: &Context) -> Environment {
    let running = service::find(context).await;
    vault::check(context, &running).await.1
}

fn conclude(findings: &[Finding], screen: Screen) -> Result<(), Failure> {
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (errors, warnings) = (count(FindingState::Error), count(FindingState::Warn));
    if screen.json {
        screen.document(&json!({"data": findings, "total": findings.len()}))?;
    } else {
        screen.remark(&format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")));
    }
    if errors == 0 { Ok(()) } else { Err(Failure::new(Exit::FoundErrors, "")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-76
    #[test]
    fn a_finding_says_what_to_do() {
        let finding = Finding::error("disk", "100 MiB free", "delete something");

        assert_eq!(
            render(&finding, Screen::PLAIN),
            "error  disk       100 MiB free\n                  → delete something"
        );
        assert_eq!(
            json!([finding, Finding::ok("clock", "fine")]),
            json!([
                {"id": "disk", "state": "error", "message": "100 MiB free", "fix": "delete something"},
                {"id": "clock", "state": "ok", "message": "fine"},
            ])
        );
    }

    /// OP-85
    #[test]
    fn only_errors_count_as_found() {
        let warning = Finding::warn("disk", "little left", "delete something");
        let error = Finding::error("disk", "none left", "delete something");

        assert_eq!(conclude(std::slice::from_ref(&warning), Screen::PLAIN), Ok(()));
        let found = Err(Failure::new(Exit::FoundErrors, ""));
        assert_eq!(conclude(&[warning, error], Screen::PLAIN), found);
    }
}
