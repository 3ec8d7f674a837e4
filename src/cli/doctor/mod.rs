//! `hivewright doctor`: looks at everything that could be wrong, and says what to do.

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::{
    Context,
    failure::{Exit, Failure},
    screen::{Screen, Tone},
};

mod machine;
mod models;
mod service;
mod settings;
mod store;
mod vault;

/// Check settings, store, models, sandbox and machine; each finding says what to do
#[derive(Debug, PartialEq, Args)]
#[command(after_help = "Examples:\n  hivewright doctor\n  hivewright doctor --deep --json")]
pub(super) struct Arguments {
    /// Also ask each model one real question, and read every record of the store
    #[arg(long)]
    pub(super) deep: bool,
}

/// How good a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warn,
    Error,
}

/// What was found at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    /// What was looked at.
    id: &'static str,
    state: State,
    message: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Finding {
    fn ok(id: &'static str, message: impl Into<String>) -> Self {
        Self {
            id,
            state: State::Ok,
            message: message.into(),
            fix: None,
        }
    }

    fn warn(id: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            id,
            state: State::Warn,
            message: message.into(),
            fix: Some(fix.into()),
        }
    }

    fn error(id: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            state: State::Error,
            ..Self::warn(id, message, fix)
        }
    }

    fn render(&self, screen: Screen) -> String {
        let state = match self.state {
            State::Ok => screen.paint(Tone::Good, "ok   "),
            State::Warn => screen.paint(Tone::Doubtful, "warn "),
            State::Error => screen.paint(Tone::Bad, "error"),
        };
        let line = format!("{state}  {:<9}  {}", self.id, self.message);
        match &self.fix {
            Some(fix) => format!("{line}\n{:18}→ {fix}", ""),
            None => line,
        }
    }
}

pub(super) async fn run(arguments: Arguments, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let mut all = Vec::new();
    let mut add = |findings: Vec<Finding>| {
        if !screen.json {
            for finding in &findings {
                screen.say(&finding.render(screen));
            }
        }
        all.extend(findings);
    };
    let running = service::find(context).await;
    let looked = vault::check(context, &running).await;
    let settings = settings::check(context, &looked.environment);
    add(settings.findings);
    add(machine::modes(context));
    add(service::check(&running, settings.config.as_ref()));
    add(store::check(context, &running, arguments.deep).await);
    add(looked.findings);
    add(models::check(settings.providers, arguments.deep).await);
    add(machine::sandbox(context, settings.config.as_ref()).await);
    add(machine::disk(context));
    add(machine::clock(context));
    conclude(&all, screen)
}

fn conclude(findings: &[Finding], screen: Screen) -> Result<(), Failure> {
    let count = |state| {
        let found = findings.iter().filter(|finding| finding.state == state);
        found.count()
    };
    let (errors, warnings) = (count(State::Error), count(State::Warn));
    if screen.json {
        screen.document(&json!({"data": findings, "total": findings.len()}))?;
    } else {
        screen.remark(&format!("{errors} errors, {warnings} warnings"));
    }
    match errors {
        0 => Ok(()),
        _ => Err(Failure::new(Exit::FoundErrors, "")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OP-76
    #[test]
    fn a_finding_says_what_to_do() {
        let finding = Finding::error("disk", "100 MiB free", "delete something");

        assert_eq!(
            finding.render(Screen::PLAIN),
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

        assert_eq!(
            conclude(std::slice::from_ref(&warning), Screen::PLAIN),
            Ok(())
        );
        let found = Err(Failure::new(Exit::FoundErrors, ""));
        assert_eq!(conclude(&[warning, error], Screen::PLAIN), found);
    }
}
