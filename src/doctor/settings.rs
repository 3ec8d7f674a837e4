//! The settings files, with everything that is wrong in them.

use crate::{
    api::doctor::Finding,
    settings::{
        config::Config,
        home::Home,
        load::{self, read_providers},
        migrate,
        problem::Problem,
        providers::Providers,
        references::Environment,
        zone::Zone,
    },
    text::counted,
};

const ID: &str = "settings";

/// What the settings say, as far as they can be read.
pub struct Settings {
    /// What is to be said of them.
    pub findings: Vec<Finding>,
    pub config: Option<Config>,
    pub providers: Option<Providers>,
}

/// Looks at all of them. Blocks.
pub fn check(home: &Home, environment: &Environment) -> Settings {
    let report = load::check(home, environment);
    let mut findings: Vec<_> = report.problems.0.iter().map(error).collect();
    findings.extend(report.warnings.iter().map(|warning| {
        let fix = format!("edit {} at line {}", warning.file, warning.line);
        Finding::warn(ID, warning.to_string(), fix)
    }));
    findings.extend(outdated(migrate::plan(home).steps.len()));
    let config = load::load_config(home, environment);
    let config = config.ok().map(|(config, _)| config);
    if config.as_ref().is_none_or(|config| config.timezone.is_none())
        && let Some(fault) = Zone::of_machine(environment).1
    {
        findings.push(Finding::warn(ID, fault, "give a name such as `Europe/Berlin`"));
    }
    if let Some(config) = &config
        && let Err(exposed) = config.server.check_exposure()
    {
        let fix = format!("edit {}", home.config_file().display());
        findings.push(Finding::error(ID, exposed.to_string(), fix));
    }
    if findings.is_empty() {
        let files = [home.config_file(), home.providers_file(), home.channels_file()];
        findings.push(match files.iter().filter(|file| file.exists()).count() {
            0 => Finding::warn(
                ID,
                format!("no settings in {}; defaults are used", home.data().display()),
                "`hivewright init` writes examples",
            ),
            _ => Finding::ok(ID, format!("no fault in {}", home.data().display())),
        });
    }
    Settings { findings, config, providers: read_providers(home, environment).0.ok() }
}

/// Files are the operator's, so a start does not rewrite them.
fn outdated(settings: usize) -> Option<Finding> {
    let message = format!("{} in the form of an earlier version", counted(settings, "setting"));
    let fix = "`hivewright config migrate` shows what would change, and changes it";
    (settings > 0).then(|| Finding::warn(ID, message, fix))
}

fn error(problem: &Problem) -> Finding {
    let fix = format!("edit {} at line {}", problem.file, problem.line);
    Finding::error(ID, problem.to_string(), fix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::place;

    /// OP-91, OP-128: it names the command that brings files up to date, and says nothing once they are.
    #[test]
    fn settings_of_an_earlier_version_are_told_with_the_command() {
        let place = place();
        let file = place.home.team_file("main");
        let told = |text: &str| {
            place.write(&file, text);
            let found = check(&place.home, &place.environment).findings;
            let is_told = |finding: &&Finding| {
                finding.fix.as_ref().is_some_and(|fix| fix.contains("config migrate"))
            };
            found.iter().find(is_told).map(|finding| finding.message.clone())
        };

        let before = told("maxSteps: 9\n");

        assert_eq!(before.as_deref(), Some("1 setting in the form of an earlier version"));
        assert_eq!(told("max_steps: 9\n"), None);
    }

    /// OR-08: a variable that is not understood is told, unless the file says what counts.
    #[test]
    fn a_wrong_time_zone_of_the_machine_is_told() {
        let place = place();
        let nowhere = Environment::fixed([("TZ", "Europe/Berlim")]);
        let told = || {
            let found = check(&place.home, &nowhere).findings;
            let told = found.iter().map(|finding| format!("{finding:?}"));
            told.filter(|told| told.contains("TZ")).count()
        };

        assert_eq!(told(), 1);
        place.write(&place.home.config_file(), "timezone: Europe/Berlin\n");
        assert_eq!(told(), 0);
    }
}
