//! The browser: whether one is installed for teams that want its tools.

use crate::{
    api::doctor::Finding,
    browser::program::Installed,
    settings::{home::Home, load},
};

const ID: &str = "browser";
const INSTALL: &str = "install Chromium (`apt install chromium`), and start the service again";

/// Looks for one, and for teams that name its tools. Blocks.
pub fn check(home: &Home) -> Finding {
    let names = load::team_names(home).into_iter();
    let wanting = names.filter(|name| {
        let read = load::read_team(home, name);
        read.is_ok_and(|team| team.allowed_tools.iter().any(|tool| tool.contains("browser")))
    });
    found(Installed::find(), &wanting.collect::<Vec<_>>())
}

fn found(installed: Option<Installed>, wanting: &[String]) -> Finding {
    match (installed, wanting) {
        (Some(installed), _) => {
            Finding::ok(ID, format!("{}, in our sandbox", installed.path().display()))
        }
        (None, []) => Finding::ok(ID, "none is installed, and no team names its tools"),
        (None, teams) => {
            let message =
                format!("none is installed, so its tools are missing for {}", teams.join(", "));
            Finding::warn(ID, message, INSTALL)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// TO-86
    #[test]
    fn a_missing_browser_is_told_to_whoever_needs_one() {
        let quiet = found(None, &[]);
        let missing = found(None, &["main".to_owned()]);

        assert_eq!(quiet, Finding::ok(ID, "none is installed, and no team names its tools"));
        let message = "none is installed, so its tools are missing for main";
        assert_eq!(missing, Finding::warn(ID, message, INSTALL));
    }
}
