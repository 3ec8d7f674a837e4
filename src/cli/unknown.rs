//! Unknown names: what is said of them beside the service's refusal.

/// Which command lists what, by its name in paths.
const LISTS: [(&str, &str); 20] = [
    ("approvals", "approvals list"),
    ("changes", "changes list"),
    ("grants", "approvals grants"),
    ("identities", "identity list"),
    ("inbox", "inbox list"),
    ("jobs", "jobs list"),
    ("mcp", "teams servers"),
    ("memories", "memory list"),
    ("plugin-tools", "tools list"),
    ("plugins", "plugin list"),
    ("policies", "policy list"),
    ("questions", "questions list"),
    ("sessions", "history list"),
    ("tasks", "tasks list"),
    ("teams", "teams list"),
    ("tokens", "token list"),
    ("topics", "topics list"),
    ("triggers", "trigger list"),
    ("trust", "trust list"),
    ("vault", "vault list"),
];

/// The words of the command that lists what a path names last; none if it names nothing.
pub(super) fn list_of(path: &str) -> Option<&'static str> {
    // A team that is not there is told otherwise, so it is the session.
    if path.ends_with("/history") {
        return list_of("sessions/{id}");
    }
    let (before, _) = path.rsplit_once('{')?;
    let mut parts = before.rsplit('/').filter(|part| !part.is_empty() && !part.starts_with('{'));
    let what = parts.next()?;
    LISTS.iter().find(|(name, _)| *name == what).map(|(_, command)| *command)
}

/// The team that rows were filtered by.
pub(super) fn team_in(filter: &[(String, String)]) -> Option<&str> {
    filter.iter().find_map(|(name, value)| match name.as_str() {
        "team" | "parent" => Some(value.as_str()),
        "scope" => value.strip_prefix("team:"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_the_list_of_what_it_names() {
        for (path, command) in [
            ("/api/v1/tasks/{id}/cancel", Some("tasks list")),
            ("/api/v1/teams/{team}/plugins/{key}/restart", Some("plugin list")),
            ("/api/v1/mcp/{team}/{server}/restart", Some("teams servers")),
            ("/api/v1/teams/{name}/history", Some("history list")),
            ("/api/v1/tasks", None),
        ] {
            assert_eq!(list_of(path), command, "{path}");
        }
    }
}
