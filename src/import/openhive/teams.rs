//! A team's file, as it is written here.

use std::collections::BTreeMap;

use super::{
    report::{Item, Kind},
    yaml::Yaml,
};
use crate::{
    settings::{references::escaped, secret::Secret},
    tools::registry,
};

/// What the main team gets for `*`: it passes work on.
const ROOT_TOOLS: [&str; 5] = ["@org", "@triggers", "@trust", "@memory", "@vault"];

/// What every other team gets for `*`.
const TEAM_TOOLS: [&str; 8] =
    ["@files", "@shell", "@org", "@triggers", "@memory", "@vault", "@skills", "@subagents"];

const LONGEST_DESCRIPTION: usize = 500;
const MOST_STEPS: u64 = 500;
/// The steps of a team that says nothing about them.
const FORMER_STEPS: u64 = 50;

/// A team's file that has become one of ours.
#[derive(Clone, Debug, Default)]
pub(super) struct TeamFile {
    pub(super) tree: Vec<(String, Yaml)>,
    /// What moves to the team's vault.
    pub(super) secrets: Vec<(String, Secret)>,
    /// What the team is for, as far as the file says it.
    pub(super) scope: Vec<String>,
    pub(super) changes: Vec<String>,
    pub(super) items: Vec<Item>,
}

/// How files of teams are converted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wishes<'a> {
    /// What profiles are called now.
    pub(super) profiles: &'a BTreeMap<String, String>,
    /// `*` stays.
    pub(super) keep_wildcard: bool,
}

/// Converts the file of the team that is called `name` here.
pub(super) fn convert(name: &str, root: bool, tree: Yaml, wishes: Wishes<'_>) -> TeamFile {
    let mut file = TeamFile::default();
    let mut steps = None;
    file.put("name", Yaml::text(name));
    for (key, value) in tree.into_entries() {
        match (key.as_str(), value.as_text()) {
            ("name", _) => {}
            ("parent", _) => file.change("`parent` is in the tree of teams"),
            ("description", Some(text)) => {
                let text = file.description(text);
                // What looks like a reference is meant as it stands.
                file.put("description", Yaml::text(escaped(&text)));
            }
            ("allowed_tools", _) => {
                let tools = value.items().iter().filter_map(Yaml::as_text);
                let tools = file.tools(tools, root, wishes.keep_wildcard);
                file.put("allowed_tools", Yaml::texts(tools));
            }
            ("provider_profile", Some(profile)) => {
                let now = wishes.profiles.get(profile).map_or(profile, |now| now);
                file.put("provider_profile", Yaml::text(now));
            }
            ("maxSteps" | "maxTurns", Some(text)) => steps = Some((key.clone(), text.to_owned())),
            ("credentials", _) => file.credentials(value),
            ("browser", _) => file.browser(value),
            ("rate_limit_buckets", _) => file.put("rate_limit_buckets", value),
            ("scope", _) => file.scope(&value),
            _ if matches!(value, Yaml::Null) => {}
            (key, _) => file.leave(name, key),
        }
    }
    file.steps(steps);
    file
}

impl TeamFile {
    fn put(&mut self, key: &str, value: Yaml) {
        self.tree.push((key.to_owned(), value));
    }

    fn change(&mut self, change: impl Into<String>) {
        self.changes.push(change.into());
    }

    fn leave(&mut self, team: &str, key: &str) {
        let name = format!("config.yaml: {key}");
        let item = Item::left(Kind::Settings, name, "nothing here corresponds to it");
        self.items.push(item.of(team));
    }

    fn description(&mut self, text: &str) -> String {
        if text.chars().count() > LONGEST_DESCRIPTION {
            self.change("`description` is cut to 500 characters");
        }
        text.chars().take(LONGEST_DESCRIPTION).collect()
    }

    fn tools<'a>(
        &mut self,
        tools: impl Iterator<Item = &'a str>,
        root: bool,
        keep_wildcard: bool,
    ) -> Vec<String> {
        let mut found: Vec<String> = Vec::new();
        let mut lowered = false;
        for tool in tools {
            let lower = tool.to_lowercase();
            if tool == "*" && !keep_wildcard {
                let list: &[&str] = if root { &ROOT_TOOLS } else { &TEAM_TOOLS };
                found.extend(list.iter().map(|tool| (*tool).to_owned()));
                self.change(format!(
                    "`*` in `allowed_tools` becomes {}; `--keep-wildcard` keeps it",
                    list.join(" ")
                ));
            } else if tool != lower && registry::built_in().any(|built_in| built_in == lower) {
                lowered = true;
                found.push(lower);
            } else {
                found.push(tool.to_owned());
            }
        }
        if lowered {
            self.change("names of built-in tools are in lower case");
        }
        found
    }

    fn steps(&mut self, said: Option<(String, String)>) {
        let (key, steps) = match said {
            Some((key, text)) => {
                let steps = text.parse::<f64>().unwrap_or(FORMER_STEPS as f64);
                (Some(key), steps.max(1.0) as u64)
            }
            None => (None, FORMER_STEPS),
        };
        if let Some(key) = key {
            self.change(format!("`{key}` becomes `max_steps`"));
        }
        if steps > MOST_STEPS {
            self.change(format!("`max_steps` is 500, the most there is, not {steps}"));
        }
        self.put("max_steps", Yaml::number(steps.min(MOST_STEPS)));
    }

    fn credentials(&mut self, value: Yaml) {
        let before = self.secrets.len();
        for (key, value) in value.into_entries() {
            if let Some(value) = value.as_text() {
                self.secrets.push((key, Secret::new(value.to_owned())));
            }
        }
        if self.secrets.len() > before {
            self.change("`credentials` move to the team's vault");
        }
    }

    fn browser(&mut self, value: Yaml) {
        let domains: Vec<_> = value
            .get("allowed_domains")
            .map(Yaml::items)
            .into_iter()
            .flatten()
            .filter_map(Yaml::as_text)
            .collect();
        if !domains.is_empty() {
            self.put("egress", Yaml::map([("allowed_domains", Yaml::texts(domains))]));
            self.change("`browser.allowed_domains` becomes `egress.allowed_domains`, which holds for all tools that reach out");
        }
        if value.get("timeout_ms").is_some() {
            self.change("`browser.timeout_ms` is dropped");
        }
    }

    fn scope(&mut self, value: &Yaml) {
        let accepts = value.get("accepts").map(Yaml::items).unwrap_or_default();
        let words = accepts.iter().filter_map(Yaml::as_text);
        self.scope = words.map(str::to_owned).collect();
        self.change("`scope` is in the tree of teams");
    }
}

#[cfg(test)]
mod tests {

    use super::{super::yaml::parse, *};

    fn file(text: &str, root: bool, keep_wildcard: bool) -> TeamFile {
        let profiles = BTreeMap::from([("My GPT".to_owned(), "my-gpt".to_owned())]);
        let wishes = Wishes { profiles: &profiles, keep_wildcard };
        convert("research", root, parse(text, "test").unwrap(), wishes)
    }

    fn tree(text: &str) -> Yaml {
        parse(text, "test").unwrap()
    }

    /// OR-29
    #[test]
    fn a_file_says_the_same_in_other_words() {
        let found = file(
            "name: research\nparent: main\ndescription: Finds things\nprovider_profile: My GPT\n\
             maxSteps: 900\nallowed_tools: [Read, Bash, spawn_team, \"browser_*\"]\n\
             credentials: {GITHUB_TOKEN: ghp_0123456789}\n\
             browser: {allowed_domains: [example.org], timeout_ms: 500}\n\
             rate_limit_buckets: {\"api.example.org\": {rps: 2, burst: 4}}\n\
             max_concurrent_daily_ops: 5\n",
            false,
            false,
        );

        assert_eq!(
            Yaml::Map(found.tree),
            tree(
                "name: \"research\"\ndescription: \"Finds things\"\nprovider_profile: \"my-gpt\"\n\
                 allowed_tools: [\"read\", \"bash\", \"spawn_team\", \"browser_*\"]\n\
                 egress: {allowed_domains: [\"example.org\"]}\n\
                 rate_limit_buckets: {\"api.example.org\": {rps: 2, burst: 4}}\nmax_steps: 500\n"
            )
        );
        assert_eq!(found.secrets[0].0, "GITHUB_TOKEN");
        assert_eq!(found.secrets[0].1.expose(), "ghp_0123456789");
        assert!(!found.changes.join(" ").contains("ghp_"));
        let left: Vec<_> = found.items.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(left, ["config.yaml: max_concurrent_daily_ops"]);
    }

    /// OR-19, OR-29
    #[test]
    fn a_wildcard_becomes_the_default_of_the_team_unless_it_is_to_stay() {
        let text = "name: research\nallowed_tools: [\"*\"]\n";
        let tools = |root, keep| {
            let found = Yaml::Map(file(text, root, keep).tree);
            let tools = found.get("allowed_tools").unwrap().items().to_vec();
            tools.iter().map(|tool| tool.as_text().unwrap().to_owned()).collect::<Vec<_>>()
        };

        assert_eq!(tools(false, false), TEAM_TOOLS);
        assert_eq!(tools(true, false), ROOT_TOOLS);
        assert_eq!(tools(false, true), ["*"]);
    }

    #[test]
    fn the_default_that_was_is_written_out() {
        let found = file("name: research\nprovider_profile: default\n", false, false);

        assert_eq!(
            Yaml::Map(found.tree),
            tree("name: \"research\"\nprovider_profile: \"default\"\nmax_steps: 50\n")
        );
        assert_eq!(found.changes, Vec::<String>::new());
    }
}
