//! `hivewright config`: the settings files, with and without a service.

use clap::Subcommand;
use serde_json::json;

use super::doctor;
use crate::{
    api::{
        config::{SHOW_CONFIG, Settings},
        endpoint::Empty,
        flags::words,
    },
    cli::{
        answer::Answer,
        client::Service,
        context::Context,
        failure::{Exit, Failure},
        screen::{Tone, complain},
        table::{self, columns},
    },
    settings::{
        document::is_within,
        effective::{self, Setting, SettingSource},
        load::{self, ServiceFile},
    },
    text::{counted, plain},
};

mod edit;
mod migrate;

/// Check, show and change the settings
#[derive(Debug, PartialEq, Subcommand)]
#[command(
    after_help = "Examples:\n  hivewright config check\n  hivewright config show server\n  hivewright config set server.port 9000\n  hivewright config edit\n  hivewright config migrate --dry-run"
)]
pub(super) enum Action {
    /// Read all settings files and say what is wrong in them, with file, line and field
    #[command(after_help = "Examples:\n  \
        hivewright config check\n  \
        hivewright config check --json && systemctl reload hivewright")]
    Check,
    /// Show each setting with its value and where that comes from; references stay references
    #[command(after_help = "Examples:\n  \
        hivewright config show\n  \
        hivewright config show server.port\n  \
        hivewright config show --changed --json")]
    #[command(alias = "get")]
    Show {
        /// Only this one, or all below it, such as `server`
        field: Option<String>,
        /// Only what a file says otherwise than the default
        #[arg(long)]
        changed: bool,
    },
    /// Change one setting; the file is put in place if nothing is wrong with it
    #[command(after_help = "Examples:\n  \
        hivewright config set server.port 9000\n  \
        hivewright config set profiles.default.model llama3\n  \
        hivewright config set server.trusted_proxies '[127.0.0.1/32]'")]
    Set {
        /// Which, such as `server.port`; `hivewright config show` lists them
        key: String,
        /// What it is to be: YAML in one line, or a text
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Change a settings file in your editor (VISUAL, EDITOR); it is put in place if nothing is wrong with it
    #[command(after_help = "Examples:\n  \
        hivewright config edit\n  \
        EDITOR=nano hivewright config edit providers")]
    Edit {
        /// Which file
        #[arg(default_value = "config", value_parser = words::<ServiceFile>())]
        file: ServiceFile,
    },
    /// Bring settings that an earlier version wrote to their present form; comments stay, and the old files are kept
    ///
    /// Shows what changes, and asks. What only you can decide is listed with its place (exit code 9).
    #[command(after_help = "Examples:\n  \
        hivewright config migrate --dry-run\n  \
        hivewright config migrate --yes --json")]
    Migrate {
        /// Only show what would change
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) async fn run(action: Action, context: &Context) -> Result<(), Failure> {
    match action {
        Action::Check => check(context).await,
        Action::Set { key, value } => edit::set(key, value, context).await,
        Action::Edit { file } => edit::run(file, context).await,
        Action::Migrate { dry_run } => migrate::run(dry_run, context).await,
        Action::Show { field, changed } => show(field.as_deref(), changed, context).await,
    }
}

/// A service tells its own settings; without one those are meant that it would start with.
async fn show(field: Option<&str>, changed: bool, context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let mut settings = match Service::if_running(context)? {
        Some(service) => service.at(&SHOW_CONFIG, &Empty {}).await?.data()?,
        None => {
            let environment = doctor::environment(context).await;
            let report = load::check(&context.home, &environment);
            Settings {
                fields: effective::fields(&context.home, &environment),
                problems: report.problems.0.clone(),
                warnings: report.warnings.clone(),
            }
        }
    };
    settings.fields.retain(|row| field.is_none_or(|field| is_within(&row.path, field)));
    if let (Some(field), true) = (field, settings.fields.is_empty()) {
        let message = format!("there is no setting `{field}`; `hivewright config show` shows all");
        return Err(Failure::not_found(message));
    }
    let is_changed = |row: &Setting| {
        row.source == SettingSource::File && !effective::is_default(row, &context.home)
    };
    settings.fields.retain(|row| !changed || is_changed(row));
    if !settings.problems.is_empty() {
        let check = context.command("config check");
        screen.remark(&format!("there are faults in the files: {check} names them"));
    }
    Answer::<Settings>::new(json!({ "data": settings }))
        .show(screen, |settings| table::rows(&settings.fields))
}

columns!(Setting {
    "FIELD" => |row| row.path.clone(),
    "VALUE" => |row| plain(&row.value),
    "FROM" => |row| match row.line {
        Some(line) if row.source == SettingSource::File => format!("{}.yaml:{line}", row.file),
        _ => row.source.to_string(),
    },
});

async fn check(context: &Context) -> Result<(), Failure> {
    let screen = context.screen;
    let report = load::check(&context.home, &doctor::environment(context).await);
    let (problems, warnings) = (&report.problems.0, &report.warnings);
    if screen.json {
        let document = json!({"data": {
            "problems": problems,
            "warnings": warnings,
        }});
        screen.document(&document)?;
    } else {
        for problem in problems {
            let mark = screen.paint(Tone::Bad, "error");
            screen.say(&format!("{mark} {problem}"));
        }
        for warning in warnings {
            let mark = screen.paint(Tone::Doubtful, "warn ");
            screen.say(&format!("{mark} {warning}"));
        }
    }
    if problems.is_empty() {
        if !screen.json && !screen.quiet && warnings.is_empty() {
            let place = context.home.data().display();
            complain(&format!("no fault in {place} and the teams' files"));
        }
        return Ok(());
    }
    let many = counted(problems.len(), "fault");
    let message = format!(
        "{many} in the settings; a running service keeps what it had before, or does without what cannot be used"
    );
    Err(screen.failure(Exit::FoundErrors, message))
}
