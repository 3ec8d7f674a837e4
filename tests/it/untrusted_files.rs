//! Files that commands of untrusted turns write, and what reading them means.

use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use hivewright::taint::seen::{self, Seen};
use hivewright_actors::{task::Label, tool::ToolReply};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    sandbox::{World, worlds},
    service::{Client, Service, WORKS_ITSELF, until},
};

async fn stranger(world: &World, command: &str) -> ToolReply {
    let args = json!({ "command": command });
    world.use_tool(Label::Untrusted, "bash", args, CancellationToken::new()).await
}

/// Whether a trusted turn that reads a file is not believed any more.
async fn reading(world: &World, path: &str) -> bool {
    let args = json!({ "file_path": path });
    let reply = world.use_tool(Label::Trusted, "read", args, CancellationToken::new()).await;
    assert_eq!(reply.fault, None, "{reply:?}");
    reply.taints
}

async fn writing(world: &World, path: &str, content: &str) {
    let args = json!({ "file_path": path, "content": content });
    let reply = world.use_tool(Label::Trusted, "write", args, CancellationToken::new()).await;
    assert_eq!(reply.fault, None, "{reply:?}");
    // The kernel's clock for files has ticks: what changes within the same one as a command begins is in doubt.
    let written = Seen::path(&world.path("teams/alpha").join(path)).unwrap();
    while seen::now() <= written.changed {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// SC-20, MV-13: what a command of an untrusted turn made, changed, moved or copied labels the turn that reads it,
/// by a tool or by a command, until a trusted turn writes it anew.
#[tokio::test]
async fn what_an_untrusted_command_changed_labels_whoever_reads_it() {
    for world in worlds().await {
        writing(&world, "notes/ours.md", "ours\n").await;
        writing(&world, "notes/list.md", "ours\n").await;

        let planted = "echo planted > notes/new.md; echo planted >> notes/list.md; cp notes/new.md notes/copy.md; \
                       mkdir -p notes/deep && mv notes/copy.md notes/deep/moved.md; \
                       touch -d '2001-01-01' notes/new.md notes/list.md";
        let reply = stranger(&world, planted).await;
        assert!(reply.content.starts_with("exit_code: 0"), "{reply:?}");

        for path in ["notes/new.md", "notes/list.md", "notes/deep/moved.md"] {
            assert!(reading(&world, path).await, "{path}");
        }
        assert!(!reading(&world, "notes/ours.md").await);
        assert!(!world.bash("cat notes/ours.md").await.taints);
        assert!(world.bash("cat notes/new.md").await.taints);

        writing(&world, "notes/new.md", "ours again\n").await;
        assert!(!reading(&world, "notes/new.md").await);
    }
}

/// SC-20, MV-13: a trusted command that reads a labelled file labels its turn, and what it writes.
#[tokio::test]
async fn what_a_command_makes_of_a_labelled_file_is_labelled_too() {
    for world in worlds().await {
        stranger(&world, "echo planted > notes/new.md").await;

        let copied = world
            .bash("cp notes/new.md notes/copy.md && touch -a -d '2001-01-01' notes/new.md")
            .await;
        let beside = world.bash("echo ours > notes/beside.md").await;

        assert!(copied.taints, "{copied:?}");
        assert!(!beside.taints, "{beside:?}");
        assert!(reading(&world, "notes/copy.md").await);
        assert!(!reading(&world, "notes/beside.md").await);
    }
}

/// SC-20: nobody has to wait for the command's end: what it has written so far counts.
#[tokio::test]
async fn what_an_untrusted_command_writes_counts_while_it_runs() {
    for world in worlds().await {
        writing(&world, "notes/ours.md", "ours\n").await;
        let cancel = CancellationToken::new();
        let args =
            json!({ "command": "echo planted > notes/new.md; touch notes/ready; sleep 600" });
        let running = world.use_tool(Label::Untrusted, "bash", args, cancel.clone());
        let looked = async {
            let ready = world.path("teams/alpha/notes/ready");
            until("the command wrote", async || ready.exists()).await;
            let looked =
                (reading(&world, "notes/new.md").await, reading(&world, "notes/ours.md").await);
            cancel.cancel();
            looked
        };

        let (_, looked) = tokio::join!(running, looked);

        assert_eq!(looked, (true, false));
        assert!(reading(&world, "notes/new.md").await);
    }
}

/// SC-42: no command makes a second name for a file that tells the team what it is, so none can be changed by one.
#[tokio::test]
async fn a_command_makes_no_hard_link_to_a_rule() {
    for world in worlds().await {
        let rule = world.path("teams/alpha/team-rules/house.md");
        fs::create_dir(rule.parent().unwrap()).unwrap();
        fs::write(&rule, "Be kind.\n").unwrap();

        let linked = world
            .bash("ln team-rules/house.md notes/hard; ln config.yaml notes/config; ls notes/hard notes/config")
            .await;
        let changed = world.bash("echo 'Be quick.' >> team-rules/house.md").await;

        assert!(!linked.content.starts_with("exit_code: 0"), "{linked:?}");
        let links = [&rule, &world.path("teams/alpha/config.yaml")]
            .map(|path| fs::metadata(path).unwrap().nlink());
        assert_eq!(links, [1, 1]);
        assert!(changed.content.starts_with("exit_code: 0"), "{changed:?}");
    }
}

/// SC-42: a rule that an untrusted command changed by a second name, made before it began, is labelled, also when the
/// name is gone again.
#[tokio::test]
async fn a_rule_that_was_changed_by_a_second_name_is_labelled() {
    for world in worlds().await {
        let rule = world.path("teams/alpha/team-rules/house.md");
        fs::create_dir(rule.parent().unwrap()).unwrap();
        fs::write(&rule, "Be kind.\n").unwrap();
        fs::hard_link(&rule, world.path("teams/alpha/notes/hard")).unwrap();

        stranger(&world, "echo planted >> notes/hard; rm notes/hard").await;

        assert!(fs::read_to_string(&rule).unwrap().contains("planted"));
        assert!(reading(&world, "team-rules/house.md").await);
    }
}

/// TO-55: the audit says which turn changed what governs its team, and by what class of paths.
#[actix::test]
async fn a_change_of_what_governs_a_team_is_in_the_audit() {
    let service = Service::start_working().await;
    let mut operator = service.connect().await;
    let rule = json!({ "file_path": "team-rules/new.md", "content": "Be brief." });

    let end = operator.ask(&format!("#call write {rule}\n#reply done")).await;
    let (_, audit) = service.api("GET", "/api/v1/audit?limit=50", None).await;

    assert_eq!(end["type"], "response", "{end}");
    let rows = audit["data"].as_array().unwrap();
    let row = rows.iter().find(|row| row["action"] == "file.write").unwrap();
    assert_eq!(
        [&row["actor"], &row["target"], &row["outcome"]],
        ["team:main", "main: team-rules/new.md", "own-team-rules"]
    );
}

/// SC-42, SC-20: a file that is replaced while a command runs loses the mount that kept it from that command. What the
/// command then writes into it is not read: the operator is told, looks at it and accepts it, or not.
#[actix::test]
async fn a_config_that_an_untrusted_command_reached_is_not_read_until_it_is_accepted() {
    let channels = "ws: {enabled: true}\ntrust: {channels: {ws: {policy: allow}}}\n";
    let service = Service::prepare()
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .with_file("data/config/channels.yaml", channels)
        .started()
        .await;
    let wish = json!({ "name": "mallory", "scopes": ["chat"] });
    let (_, made) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
    let key = made["data"]["token"].as_str().unwrap();
    let mut mallory = Client::connect(&service.url(), key).await;
    let (config, ready) =
        (service.path("run/teams/main/config.yaml"), service.path("run/teams/main/ready"));
    let command = "touch ready; for i in $(seq 1 20000); do (echo '# planted' >> config.yaml) 2>/dev/null; \
                   grep -q planted config.yaml && break; sleep 0.002; done";
    let script = format!("#call bash {}\n#reply done", json!({ "command": command }));

    mallory.send(json!({ "content": script })).await;
    until("the command runs", async || ready.exists()).await;
    service.write("run/new.yaml", WORKS_ITSELF);
    fs::rename(service.path("run/new.yaml"), &config).unwrap();
    mallory.terminal().await;
    assert!(fs::read_to_string(&config).unwrap().contains("planted"));
    let mut operator = service.connect().await;
    let refused = operator.ask("#reply hello").await;
    let listed = service.run(&["teams", "untrusted", "main"], "").await;
    let accepted = service.run(&["teams", "accept", "main", "config.yaml"], "").await;
    let again = operator.ask("#reply hello again").await;
    let (_, audit) = service.api("GET", "/api/v1/audit?limit=50", None).await;

    assert_eq!(refused["type"], "error", "{refused}");
    assert!(refused["error"].as_str().unwrap().contains("accept"), "{refused}");
    assert!(listed.stdout.contains("config.yaml"), "{listed:?}");
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert_eq!(again["type"], "response", "{again}");
    let rows = audit["data"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["action"] == "file.accept"), "{audit}");
}

/// SC-42: a rule with a second name is not read, and the operator is told.
#[actix::test]
async fn the_operator_is_told_of_a_rule_with_a_second_name() {
    let rule = "run/teams/main/team-rules/house.md";
    let service = Service::prepare().with_file(rule, "Be kind.\n").started().await;
    fs::hard_link(service.path(rule), service.path("run/second.md")).unwrap();

    service.connect().await.ask("Good morning").await;

    let told = |inbox: &Value| inbox.to_string().contains("house.md: has more than one hard link");
    service.until("/api/v1/inbox", told).await;
}
