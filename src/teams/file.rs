//! The file of a team that code makes, with words in it that a model may have chosen.

use hivewright_actors::{budget::Caps, ids::TeamName};

use serde_json::json;

use crate::{
    api::teams::NewTeam,
    settings::{
        config::{Defaults, Sdk},
        erase::rewrite,
        plugins::{PluginSwitch, Plugins},
        references::escaped,
    },
};

impl NewTeam {
    /// The file of the team, as it is written, and as a person is shown it who decides on the team. It
    /// says what was asked for; everything else is the default.
    pub fn file(&self, name: &TeamName, usual: &Defaults) -> String {
        let tools = self.allowed_tools.as_deref().unwrap_or(&usual.allowed_tools);
        let tools: Vec<_> = tools.iter().map(|tool| quoted(tool)).collect();
        let mut text = format!(
            "# What this team is and may do. Only the operator writes this file; a change counts from\n\
             # the next turn.\nname: {name}\ndescription: {}\n",
            quoted(&self.description)
        );
        if let Some(profile) = &self.provider_profile {
            text += &format!("provider_profile: {}\n", quoted(profile));
        }
        let sdk = self.sdk.unwrap_or(usual.sdk);
        if sdk != Sdk::Native {
            text += &format!("sdk: {sdk}\n");
        }
        text += &format!("allowed_tools: [{}]\n", tools.join(", "));
        let Caps { usd_per_day, tokens_per_day, usd_per_task } = self.budgets.unwrap_or_default();
        let caps: Vec<String> = [
            usd_per_day.map(|cap| format!("  usd_per_day: {cap}\n")),
            tokens_per_day.map(|cap| format!("  tokens_per_day: {cap}\n")),
            usd_per_task.map(|cap| format!("  usd_per_task: {cap}\n")),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !caps.is_empty() {
            text += "budgets:\n";
            text += &caps.concat();
        }
        text
    }
}

/// Text in quotes that YAML takes for nothing else, and that refers to nothing.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in escaped(text).chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\u{2028}' | '\u{2029}' | '\u{feff}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            control if control.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// The text of a team's file with another description. Comments and everything else stay; what cannot be changed stays too.
pub fn redescribed(text: &str, description: &str) -> String {
    rewrite(text, "description", &quoted(description)).unwrap_or_else(|_| text.to_owned())
}

/// The text of a team's file in which the entry of a plugin says what `plugins` says of it. Comments and everything
/// else stay; what cannot be changed stays too.
pub fn with_plugin(text: &str, plugins: &Plugins, key: &str) -> String {
    let changed = plugins.0.get(key).and_then(|PluginSwitch { enabled, config }| {
        // JSON is YAML.
        let entry = json!({"enabled": enabled, "config": config}).to_string();
        rewrite(text, &format!("plugins.{key}"), &entry).ok()
    });
    changed.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {

    use proptest::prelude::*;

    use super::*;
    use crate::settings::{load::read_team, team::Team, tests::place};

    fn read(text: &str) -> Team {
        let place = place();
        place.write(&place.home.team_file("scouts"), text);
        read_team(&place.home, "scouts").unwrap()
    }

    fn defaults() -> Defaults {
        Defaults { allowed_tools: Vec::new(), ..Defaults::default() }
    }

    /// OR-20, OR-60
    #[test]
    fn a_made_file_says_what_was_asked_for() {
        let wish = NewTeam {
            description: "Looks \"around\":\n# and back ${env:HOME} ${vault:KEY}\t".to_owned(),
            provider_profile: Some("cheap".to_owned()),
            sdk: Some(Sdk::Codex),
            allowed_tools: Some(["@files", "!bash", "*"].map(str::to_owned).to_vec()),
            budgets: Some(Caps {
                usd_per_day: Some(2.5),
                tokens_per_day: Some(1_000),
                usd_per_task: None,
            }),
            ..NewTeam::default()
        };

        let team = read(&wish.file(&"scouts".into(), &defaults()));

        assert_eq!(
            team,
            Team {
                description: wish.description,
                provider_profile: "cheap".to_owned(),
                sdk: Sdk::Codex,
                allowed_tools: wish.allowed_tools.unwrap(),
                budgets: wish.budgets.unwrap(),
                ..Team::new("scouts")
            }
        );
    }

    #[test]
    fn a_file_with_nothing_special_is_a_team_with_defaults() {
        let team = read(&NewTeam::default().file(&"scouts".into(), &defaults()));

        assert_eq!(team, Team::new("scouts"));
    }

    /// OR-50: only the description changes.
    #[test]
    fn another_description_leaves_the_rest_as_it_was() {
        let rest = "# mine\nmax_steps: 7\nallowed_tools:\n  - '@files'\n";
        for old in [
            "",
            "description: old\n",
            "description: \"old\"  # said once\n",
            "description: >\n  old\n\n  and long\n",
            "description:\n  old\n",
        ] {
            for text in [format!("{old}{rest}"), format!("{rest}{old}")] {
                let new = redescribed(&text, "new: ${env:X}");

                let team = read(&new);
                assert_eq!(team.description, "new: ${env:X}", "{text}");
                assert_eq!((team.max_steps, team.allowed_tools.len()), (7, 1), "{text}");
                assert!(new.contains("# mine"), "{new}");
                assert!(!new.contains("old"), "{new}");
            }
        }
    }

    /// PL-14: only the entry of the plugin changes, however the file is written.
    #[test]
    fn a_plugin_is_switched_without_touching_the_rest() {
        let rest = "# mine\nmax_steps: 7 # seven\n";
        let switch =
            |enabled| PluginSwitch { enabled, config: json!({"tools": {"t": "${vault:K}: # x"}}) };
        for old in [
            "",
            "plugins:\n",
            "plugins: ~\n",
            "plugins: null # none yet\n",
            "plugins: {other: {enabled: true}}\n",
            "plugins:\n    # about the other\n    other:\n        enabled: true\n    weather:\n        enabled: false\n        config:\n            tools: {t: 1}\n\n",
            "plugins: # all\n  weather: {enabled: false}\n  other: {enabled: true} # kept\n",
        ] {
            for text in [format!("{old}{rest}"), format!("{rest}{old}")] {
                let mut team = read(&text);
                team.plugins.0.insert("weather".to_owned(), switch(true));

                let new = with_plugin(&text, &team.plugins, "weather");

                assert_eq!(read(&new), team, "{text}\n-- became\n{new}");
                assert!(new.contains("# mine") && new.contains("# seven"), "{new}");
                for comment in ["# about the other", "# kept"] {
                    assert_eq!(text.contains(comment), new.contains(comment), "{new}");
                }
                team.plugins.0.insert("weather".to_owned(), switch(false));
                assert_eq!(read(&with_plugin(&new, &team.plugins, "weather")), team, "{new}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// OR-20: whatever words a model chooses, they stay words.
        #[test]
        fn any_text_survives_as_a_description(text in "\\PC{0,40}|[\\x00-\\x7f]{0,40}|[${}a-z:\"\\\\#\\n]{0,40}") {
            let wish = NewTeam { description: text.clone(), ..NewTeam::default() };
            prop_assert_eq!(read(&wish.file(&"scouts".into(), &defaults())).description, text.clone());
            let changed = redescribed(&NewTeam::default().file(&"scouts".into(), &defaults()), &text);
            prop_assert_eq!(read(&changed).description, text);
        }
    }
}
