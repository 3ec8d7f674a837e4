//! Skills and subagents of a team, from the outside: loaded, called, stopped, and found again after a crash.

use serde_json::{Value, json};

use crate::{
    service::{Service, until},
    web_server::{WebServer, response},
};

const TEAM: &str = r#"
max_steps: 20
allowed_tools: ["@files", "@shell", "@skills", "@subagents"]
"#;

const LOOK: &str = "---
name: look
description: Looks around.
---
1. Open both eyes.
";

const FILL_FORM: &str = "---
name: Form Filling
description: Fills in a form. Use it when: somebody has a form.
license: Complete terms in LICENSE.txt
allowed-tools: Read, Bash(sh:*)
---
Read `references/fields.md`, then run `scripts/fill.sh NAME`.
";

const OWL: &str = "---
name: owl
description: Sees at night.
---
## Boundaries
Stay in the tree.
";

fn home() -> Service {
    Service::prepare()
        .with_file("run/teams/main/config.yaml", TEAM)
        .with_file("run/teams/main/skills/look/SKILL.md", LOOK)
        .with_file("run/teams/main/subagents/owl.md", OWL)
}

/// A script that hands a script to the subagent, and shows what came back.
fn hand(script: &str) -> String {
    let task = json!({ "task": script });
    format!("#call agent__owl {task}\n#reply {{result}}")
}

/// The answer as JSON.
fn answer(end: &Value) -> Value {
    let content = end["content"].as_str().unwrap_or_default();
    serde_json::from_str(content).unwrap_or_else(|_| panic!("not JSON: {end}"))
}

async fn running(service: &Service) -> u64 {
    let (_, overview) = service.api("GET", "/api/v1/overview", None).await;
    overview["data"]["tasks"]["running"].as_u64().unwrap()
}

/// TO-107, SE-70, SE-74
#[actix::test]
async fn a_skill_is_loaded_by_name() {
    let service = home().started().await;
    let mut client = service.connect().await;

    let loaded = client.ask("#call use_skill {\"skill_name\":\"look\"}\n#reply {result}").await;
    let unknown = client.ask("#call use_skill {\"skill_name\":\"fly\"}\n#reply {result}").await;

    let loaded = answer(&loaded);
    assert_eq!(loaded["body"], "1. Open both eyes.");
    assert_eq!(loaded["folder"], "skills/look");
    let unknown = answer(&unknown);
    assert_eq!(unknown["error"], "not_found");
    let message = unknown["message"].as_str().unwrap();
    assert!(message.contains("`look`, `write-skill`"), "{message}");
}

/// SE-70, SE-73: a folder in the form that other agents use, put where the operator's skills are, works as it is, with its
/// files; and no team changes it.
#[actix::test]
async fn a_folder_of_the_operator_is_read_and_run_by_every_team_and_changed_by_none() {
    let service = home()
        .with_file("data/skills/fill-form/SKILL.md", FILL_FORM)
        .with_file("data/skills/fill-form/references/fields.md", "The name comes first.\n")
        .with_file("data/skills/fill-form/scripts/fill.sh", "echo \"filled in for $1\"\n")
        .started()
        .await;
    let mut client = service.connect().await;

    let loaded =
        client.ask("#call use_skill {\"skill_name\":\"fill-form\"}\n#reply {result}").await;
    let loaded = answer(&loaded);
    let folder = loaded["folder"].as_str().unwrap();
    let read = json!({ "file_path": format!("{folder}/references/fields.md") });
    let run = json!({ "command": format!("sh {folder}/scripts/fill.sh Ada") });
    let spoil = json!({ "command": format!("echo gone > {folder}/SKILL.md") });
    let write = json!({ "file_path": format!("{folder}/SKILL.md"), "content": "gone" });
    let calls =
        format!("#call read {read}\n#call bash {run}\n#call bash {spoil}\n#call write {write}");
    let end = client
        .ask(&format!("{calls}\n#reply {{result:1}}|{{result:2}}|{{result:3}}|{{result:4}}"))
        .await;

    assert_eq!(loaded["body"], "Read `references/fields.md`, then run `scripts/fill.sh NAME`.");
    let told = end["content"].as_str().unwrap();
    let told: Vec<&str> = told.split('|').collect();
    assert!(told[0].contains("The name comes first."), "{told:?}");
    assert!(told[1].contains("filled in for Ada"), "{told:?}");
    assert!(told[2].contains("Read-only file system"), "{told:?}");
    assert!(told[3].contains("read-only folder"), "{told:?}");
    let skill = service.path("data/skills/fill-form/SKILL.md");
    assert_eq!(std::fs::read_to_string(skill).unwrap(), FILL_FORM);
}

/// TO-106, SC-42: a team finds a skill in a repository, reads it, and has it as its own from the next turn on, once a person
/// has seen what it says; without that it has none.
#[actix::test]
async fn a_skill_of_a_repository_is_adopted_once_a_person_agrees() {
    let results = json!({"results": [{"name": "fill-form", "description": "Fills in forms.",
        "match_score": 0.9, "source": "/fill-form/SKILL.md"}]});
    let server = WebServer::start(move |request| {
        let body =
            if request.starts_with("POST ") { results.to_string() } else { FILL_FORM.to_owned() };
        Some(response("200 OK\r\nContent-Type: text/plain", &body))
    })
    .await;
    let team = format!(
        "max_steps: 20\nallowed_tools: [\"@files\", \"@skills\", \"@web\"]\negress: {{allow_private: [\"{}\"]}}\n",
        server.address
    );
    let providers = format!("skill_repository: \"{}\"\n", server.url("/v1/search"));
    let service = home()
        .with_file("run/teams/main/config.yaml", &team)
        .with_file("data/config/providers.yaml", &providers)
        .started()
        .await;
    let mut client = service.connect().await;
    let [search, fetch, write] = [
        json!({"query": "fill in forms"}),
        json!({"url": server.url("/fill-form/SKILL.md")}),
        json!({"file_path": "skills/fill-form/SKILL.md", "content": FILL_FORM}),
    ];
    let adopt = format!(
        "#call search_skill_repository {search}\n#then\n#call web_fetch {fetch}\n#then\n#call write {write}\n\
         #reply {{result:1}}|{{result}}"
    );
    let load = "#call use_skill {\"skill_name\":\"fill-form\"}\n#reply {result}";

    let mut ends = Vec::new();
    for (id, decision) in [("m1", "deny"), ("m2", "approve")] {
        client.say(id, &adopt).await;
        let one = |list: &Value| list.as_array().is_some_and(|list| list.len() == 1);
        let held = service.until("/api/v1/approvals?status=pending", one).await[0].take();
        assert_eq!(held["kind"], "self_change", "{held}");
        assert!(held.to_string().contains("Use it when: somebody has a form."), "{held}");
        let path = format!("/api/v1/approvals/{}", held["id"].as_str().unwrap());
        let word = json!({"decision": decision, "digest": held["digest"]});
        let (status, decided) = service.api("POST", &path, Some(word)).await;
        assert_eq!(status, 200, "{decided}");
        let end = client.end_of(id).await;
        let loaded = client.ask(load).await;
        ends.push((end["content"].as_str().unwrap().to_owned(), answer(&loaded)));
    }

    let [(denied, missing), (adopted, loaded)] = &ends[..] else { panic!("{ends:?}") };
    assert!(denied.contains("/fill-form/SKILL.md") && !denied.contains("Wrote"), "{denied}");
    assert_eq!(missing["error"], "not_found");
    assert!(adopted.contains("Wrote"), "{adopted}");
    assert_eq!(loaded["folder"], "skills/fill-form", "{loaded}");
    assert!(loaded["body"].as_str().unwrap().starts_with("Read `references/fields.md`"));
}

/// SE-82, TO-45: without the right there is neither tool.
#[actix::test]
async fn what_is_not_allowed_is_not_there() {
    let service = home()
        .with_file("run/teams/main/config.yaml", "allowed_tools: [\"@files\"]\n")
        .started()
        .await;
    let mut client = service.connect().await;

    let end = client
        .ask("#call use_skill {\"skill_name\":\"look\"}\n#call agent__owl {\"task\":\"x\"}\n#reply {result:1}, {result:2}")
        .await;

    let refused = "tool not available to this team";
    assert_eq!(end["content"], format!("{refused}, {refused}"));
}

/// TO-55, SE-73: a team writes a skill with its own tools, and a bad one is named in the log.
#[actix::test]
async fn a_team_writes_a_skill_and_loads_it_in_its_next_turn() {
    let service = home()
        .with_file("run/teams/main/skills/bad/SKILL.md", "---\nname: bad\n---\n")
        .started()
        .await;
    let mut client = service.connect().await;
    let file = json!({
        "file_path": "skills/sing.md",
        "content": "# Skill: sing\n\n## Purpose\nSings.\n",
    });

    let written = client.ask(&format!("#call write {file}")).await;
    let loaded = client.ask("#call use_skill {\"skill_name\":\"sing\"}\n#reply {result}").await;

    assert_eq!(written["status"], "done", "{written}");
    let body = answer(&loaded)["body"].clone();
    assert!(body.as_str().unwrap().starts_with("# Skill: sing"), "{body}");
    let log = service.log();
    assert!(log.contains("skills/bad/SKILL.md:2:1: (file): needs a `description`"), "{log}");
}

/// TO-108, SE-80, SE-81
#[actix::test]
async fn subagents_work_side_by_side_and_report_only_their_last_words() {
    let service = home().with_file("run/teams/main/note.txt", "It is dark.\n").started().await;
    let mut client = service.connect().await;
    let look = "#say I look.\n#call read {\"file_path\":\"note.txt\"}\n#reply I saw: {result}";
    let nest =
        "#call agent__owl {\"task\":\"x\"}\n#call spawn_team {}\n#reply {result:1}; {result:2}";
    let calls = [look, nest].map(|task| format!("#call agent__owl {}", json!({ "task": task })));

    let end =
        client.ask(&format!("{}\n#reply [{{result:1}}, {{result:2}}]", calls.join("\n"))).await;

    let answers = answer(&end);
    assert_eq!(answers[0]["subagent"], "owl");
    assert_eq!(answers[0]["steps"], 2);
    let text = answers[0]["text"].as_str().unwrap();
    assert!(text.starts_with("I saw:") && text.contains("It is dark."), "{text}");
    let refused = "tool not available to this team";
    assert_eq!(answers[1]["text"], format!("{refused}; {refused}"));
}

/// TO-108: how the session of a subagent ended, if not well.
#[actix::test]
async fn a_subagent_that_takes_too_many_steps_is_an_error_with_its_code() {
    let service = home()
        .with_file(
            "run/teams/main/subagents/owl.md",
            "---\ndescription: Sees.\nmax_steps: 1\n---\n",
        )
        .started()
        .await;
    let mut client = service.connect().await;

    let end = client.ask(&hand("#call glob {\"pattern\":\"*\"}")).await;

    let answer = answer(&end);
    assert_eq!(answer["success"], false);
    assert_eq!(answer["error"], "step_limit");
    assert_eq!(answer["outcome"], "failed");
}

/// SE-81, SE-132: who stops the caller stops the subagent.
#[actix::test]
async fn a_stop_ends_the_session_of_the_subagent_too() {
    let service = home().started().await;
    let mut client = service.connect().await;
    let topic = client.open_topic("owls in the garden").await;
    let hang = format!("#call bash {}", json!({ "command": "touch began; sleep 500" }));
    client.say_in(&topic, "hang", &hand(&hang)).await;
    until("it began", async || service.path("run/teams/main/began").exists()).await;
    let before = running(&service).await;

    client.say_in(&topic, "stop", "/stop").await;
    let end = client.end_of("hang").await;

    // The caller and the session of its subagent.
    assert_eq!(before, 2);
    assert_eq!(end["status"], "cancelled", "{end}");
    until("nothing runs any more", async || running(&service).await == 0).await;
    let after = client.ask(&hand("#reply awake")).await;
    assert_eq!(answer(&after)["text"], "awake");
}

/// TO-108, SE-144: after a crash the session of a subagent goes on, and nothing is done twice.
#[actix::test]
async fn a_killed_service_finds_the_session_of_a_subagent_again() {
    let mut service = home().started().await;
    let mut client = service.connect().await;
    let effect = json!({ "command": "echo once >> effects" });
    let script = format!("#call bash {effect}\n#then\n#wait 1500\n#reply did it");
    client.say("m", &hand(&script)).await;
    let effects = service.path("run/teams/main/effects");
    until("it took effect", async || effects.exists()).await;
    let (channel, last_seq) = (client.channel.clone().unwrap(), client.last_seq);

    service.kill();
    service.launch().await;
    let mut client = service.connect().await;
    client.resume(&channel, last_seq).await;
    let end = client.end_of("m").await;

    assert_eq!(answer(&end)["text"], "did it");
    assert_eq!(std::fs::read_to_string(effects).unwrap(), "once\n");
}
