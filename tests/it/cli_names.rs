//! Commands with a name that is unknown: an error that says which there are, never an empty list.

use serde_json::Value;

use crate::service::Service;

/// Every command that takes the name of a team, with one that is a slip.
const OF_TEAMS: [&str; 31] = [
    "send hello --team reserch",
    "chat --team reserch",
    "teams list --parent reserch",
    "teams show reserch",
    "teams pause reserch",
    "teams capabilities reserch triggers",
    "teams untrusted reserch",
    "teams servers reserch",
    "teams restart-server reserch files",
    "teams bootstrap reserch",
    "teams shutdown reserch --yes",
    "tasks list --team reserch",
    "tasks create reserch look",
    "trigger list --team reserch",
    "trigger show reserch/daily",
    "trigger create reserch daily --every 1h --task look",
    "memory list --team reserch",
    "memory show plan --team reserch",
    "vault list --team reserch",
    "vault audit --team reserch",
    "approvals list --team reserch",
    "approvals grants --team reserch",
    "questions list --team reserch --json",
    "plugin config helper --team reserch",
    "changes list --team reserch",
    "tools list --team reserch",
    "tools show reserch sum",
    "history list --team reserch",
    "search hello --team reserch",
    "logs --team reserch --level error",
    "events --team reserch",
];
/// Others, and the command that lists what there is.
const OF_OTHERS: [(&str, &str); 13] = [
    ("tasks show nowhere", "tasks list"),
    ("topics show nowhere", "topics list"),
    ("token revoke nowhere", "token list"),
    ("trigger run nowhere", "trigger list"),
    ("memory rollback nowhere", "memory list"),
    ("vault delete NOWHERE --system --yes", "vault list"),
    ("approvals approve nowhere", "approvals list"),
    ("questions answer nowhere --text x", "questions list"),
    ("policy remove nowhere", "policy list"),
    ("plugin show nowhere", "plugin list"),
    ("inbox read nowhere", "inbox list"),
    ("jobs show nowhere", "jobs list"),
    ("history export main --topic t-1", "history list"),
];

/// OP-85, OP-87
#[actix::test]
async fn an_unknown_name_is_an_error_that_says_what_there_is() {
    let service = Service::start().await;
    service.make_team("research", "finds out").await;
    let home = service.home().display().to_string();

    for line in OF_TEAMS {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = service.run(&words, "").await;
        let expected = "there is no team `reserch`; did you mean `research`?";
        assert_eq!(ended.code, Some(5), "`{line}`: {ended:?}");
        assert!(ended.stderr.ends_with(&format!("{expected}\n")), "`{line}`: {ended:?}");
        if line.ends_with("--json") {
            let told: Value = serde_json::from_str(&ended.stdout).unwrap();
            assert_eq!(told["error"]["message"], expected);
            assert_eq!(told["error"]["code"], "not_found");
        }
    }
    for (line, list) in OF_OTHERS {
        let words: Vec<&str> = line.split(' ').collect();
        let ended = service.run(&words, "").await;
        let expected = format!("; `hivewright --home {home} {list}` shows those there are\n");
        assert_eq!(ended.code, Some(5), "`{line}`: {ended:?}");
        assert!(ended.stderr.ends_with(&expected), "`{line}`: {ended:?}");
    }

    // A team that is gone has a past.
    let gone = service.run(&["teams", "shutdown", "research", "--yes"], "").await;
    let past = service.run(&["tasks", "list", "--team", "research"], "").await;
    let far = service.run(&["teams", "servers", "nothing-like-it"], "").await;
    assert_eq!((gone.code, past.code), (Some(0), Some(0)), "{gone:?} {past:?}");
    assert!(past.stdout.contains("research  bootstrap"), "{past:?}");
    assert!(far.stderr.ends_with("no team `nothing-like-it`; there are `main`\n"), "{far:?}");
}
