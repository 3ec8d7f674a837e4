//! Files of teams, as they are written here.

use std::collections::BTreeMap;

use super::{file_draft::FileDraft, yaml::Yaml};
use crate::{
    settings::{
        config::TEAM_TOOLS,
        home::TEAM_FILE,
        references::escaped,
        secret::Secret,
        team::{LONGEST_DESCRIPTION, MAIN_TOOLS, STEPS},
    },
    tools::REGISTRY,
};

/// The steps of a team that says nothing about them.
const FORMER_STEPS: u64 = 50;

/// A team's file, and what it says the team is for.
#[derive(Clone, Debug, Default)]
pub(super) struct TeamFile {
    pub(super) draft: FileDraft,
    pub(super) scope: Vec<String>,
}

/// Converts the file of the team that is called `name` here. `profiles` are the names of profiles here by
/// their former ones.
pub(super) fn convert(
    name: &str,
    is_main: bool,
    tree: Yaml,
    profiles: &BTreeMap<String, String>,
    keep_wildcard: bool,
) -> TeamFile {
    let mut file = FileDraft::new(TEAM_FILE);
    let (mut scope, mut steps) = (Vec::new(), None);
    file.put("name", Yaml::text(name));
    for (key, value) in tree.into_entries() {
        match (key.as_str(), value.as_text()) {
            ("name", _) => {}
            ("parent", _) => file.change("`parent` is in the tree of teams"),
            ("description", Some(text)) => {
                let text = description(text, &mut file);
                // What looks like a reference is meant as it stands.
                file.put("description", Yaml::text(escaped(&text)));
            }
            ("allowed_tools", _) => {
                let tools = tools(texts(Some(&value)), is_main, keep_wildcard, &mut file);
                file.put("allowed_tools", Yaml::texts(tools));
            }
            ("provider_profile", Some(profile)) => {
                let now = profiles.get(profile).map_or(profile, |now| now);
                file.put("provider_profile", Yaml::text(now));
            }
            ("maxSteps" | "maxTurns", Some(text)) => steps = Some((key.clone(), text.to_owned())),
            ("credentials", _) => credentials(value, &mut file),
            ("browser", _) => browser(&value, &mut file),
            ("rate_limit_buckets", _) => file.put("rate_limit_buckets", value),
            ("scope", _) => {
                scope = texts(value.get("accepts")).map(str::to_owned).collect();
                file.change("`scope` is in the tree of teams");
            }
            _ if value == Yaml::Null => {}
            (key, _) => file.unknown(key),
        }
    }
    max_steps(steps, &mut file);
    TeamFile { draft: file, scope }
}

fn texts(list: Option<&Yaml>) -> impl Iterator<Item = &str> {
    list.map(Yaml::items).unwrap_or_default().iter().filter_map(Yaml::as_text)
}

fn description(text: &str, file: &mut FileDraft) -> String {
    if text.chars().count() > LONGEST_DESCRIPTION {
        file.change(format!("`description` is cut to {LONGEST_DESCRIPTION} characters"));
    }
    text.chars().take(LONGEST_DESCRIPTION).collect()
}

fn tools<'a>(
    tools: impl Iterator<Item = &'a str>,
    is_main: bool,
    keep_wildcard: bool,
    file: &mut FileDraft,
) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut lowered = false;
    for tool in tools {
        let lower = tool.to_lowercase();
        if tool == "*" && !keep_wildcard {
            let list: &[&str] = if is_main { &MAIN_TOOLS } else { &TEAM_TOOLS };
            found.extend(list.iter().map(|tool| (*tool).to_owned()));
            file.change(format!(
                "`*` in `allowed_tools` becomes {}; `--keep-wildcard` keeps it",
                list.join(" ")
            ));
        } else if tool != lower && REGISTRY.built_in().any(|built_in| built_in == lower) {
            lowered = true;
            found.push(lower);
        } else {
            found.push(tool.to_owned());
        }
    }
    if lowered {
        file.change("names of built-in tools are in lower case");
    }
    found
}

fn max_steps(said: Option<(String, String)>, file: &mut FileDraft) {
    let mut steps = FORMER_STEPS;
    if let Some((key, text)) = said {
        steps = text.parse::<f64>().unwrap_or(FORMER_STEPS as f64).max(1.0) as u64;
        file.change(format!("`{key}` becomes `max_steps`"));
    }
    let most = *STEPS.end();
    if steps > most {
        file.change(format!("`max_steps` is {most}, the most there is, not {steps}"));
    }
    file.put("max_steps", Yaml::Plain(steps.min(most).to_string()));
}

fn credentials(value: Yaml, file: &mut FileDraft) {
    for (key, value) in value.into_entries() {
        if let Some(value) = value.as_text() {
            file.secrets.push((key, Secret::new(value.to_owned())));
        }
    }
    if !file.secrets.is_empty() {
        file.change("`credentials` move to the team's vault");
    }
}

fn browser(value: &Yaml, file: &mut FileDraft) {
    let domains: Vec<_> = texts(value.get("allowed_domains")).collect();
    if !domains.is_empty() {
        file.put("egress", Yaml::map([("allowed_domains", Yaml::texts(domains))]));
        file.change("`browser.allowed_domains` becomes `egress.allowed_domains`, which holds for all tools that reach out");
    }
    if value.get("timeout_ms").is_some() {
        file.change("`browser.timeout_ms` is dropped");
    }
}

#[cfg(test)]
mod tests {

    use super::{super::yaml::parse, *};

    fn file(text: &str, root: bool, keep_wildcard: bool) -> FileDraft {
        let profiles = BTreeMap::from([("My GPT".to_owned(), "my-gpt".to_owned())]);
        convert("research", root, parse(text, "test").unwrap(), &profiles, keep_wildcard).draft
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
            Yaml::Map(found.entries),
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
            let found = Yaml::Map(file(text, root, keep).entries);
            let tools = found.get("allowed_tools").unwrap().items().to_vec();
            tools.iter().map(|tool| tool.as_text().unwrap().to_owned()).collect::<Vec<_>>()
        };

        assert_eq!(tools(false, false), TEAM_TOOLS);
        assert_eq!(tools(true, false), MAIN_TOOLS);
        assert_eq!(tools(false, true), ["*"]);
    }

    #[test]
    fn the_default_that_was_is_written_out() {
        let found = file("name: research\nprovider_profile: default\n", false, false);

        assert_eq!(
            Yaml::Map(found.entries),
            tree("name: \"research\"\nprovider_profile: \"default\"\nmax_steps: 50\n")
        );
        assert_eq!(found.changes, Vec::<String>::new());
    }
}
