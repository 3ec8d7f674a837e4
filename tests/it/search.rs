//! Search in all history: what is found, by whom, and what no one finds any more.

use serde_json::{Value, json};

use crate::service::{Service, http, until};

async fn search(service: &Service, query: &[(&str, &str)]) -> Value {
    found_by(service, &service.token(), query).await.1
}

async fn found_by(service: &Service, token: &str, query: &[(&str, &str)]) -> (u16, Value) {
    let character = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02x}"),
    };
    let percent = |text: &str| text.bytes().map(character).collect::<String>();
    let fields: Vec<String> =
        query.iter().map(|(name, value)| format!("{name}={}", percent(value))).collect();
    let url = format!("{}/api/v1/search?{}", service.url(), fields.join("&"));
    let answer = http().get(url).bearer_auth(token).send().await.unwrap();
    (answer.status().as_u16(), answer.json().await.unwrap())
}

fn parts(answer: &Value) -> Vec<&str> {
    let rows = answer["data"].as_array().expect("rows");
    rows.iter().map(|row| row["part"].as_str().unwrap()).collect()
}

/// The words that are marked in the first hit.
fn marked(answer: &Value) -> Vec<String> {
    let hit = &answer["data"][0];
    let text: Vec<char> = hit["excerpt"].as_str().unwrap().chars().collect();
    let place = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    let marks = hit["marks"].as_array().unwrap().iter();
    marks.map(|mark| text[place(&mark["start"])..place(&mark["end"])].iter().collect()).collect()
}

#[actix::test]
async fn what_was_asked_done_and_answered_is_found_at_once() {
    let service = Service::start_working().await;
    let words = "#call bash {\"command\": \"echo quagga zebra\"}\n#reply The Okapi is hère.";
    assert_eq!(service.run(&["send", words], "").await.code, Some(0));

    let answered = search(&service, &[("q", "\"okapi is\" her*")]).await;
    let steps = search(&service, &[("q", "quagga"), ("sort", "at")]).await;
    let nothing = search(&service, &[("q", "okapi quokka")]).await;
    let page = search(&service, &[("q", "quagga"), ("limit", "1")]).await;
    let cursor = page["next_cursor"].as_str().expect("there are more");
    let next = search(&service, &[("q", "quagga"), ("limit", "1"), ("cursor", cursor)]).await;
    let shown = service.run(&["search", "okapi", "--team", "main", "--since", "1h"], "").await;
    let document = service.run(&["search", "okapi", "--json"], "").await;

    // The message of the demo says what it replies.
    assert_eq!(parts(&answered), ["asked"], "{answered}");
    assert_eq!(marked(&answered), ["Okapi is", "hère"], "{answered}");
    assert_eq!(answered["incomplete"], Value::Null, "{answered}");
    let task = &answered["data"][0]["task_id"];
    let (status, _) =
        service.api("GET", &format!("/api/v1/tasks/{}", task.as_str().unwrap()), None).await;
    assert_eq!(status, 200);
    assert!(parts(&steps).contains(&"asked"), "{steps}");
    let step = steps["data"].as_array().unwrap().iter().find(|row| !row["seq"].is_null());
    let step = step.expect("a step");
    let (session, seq) = (step["session_id"].as_str().unwrap(), step["seq"].as_u64().unwrap());
    let path = format!("/api/v1/sessions/{session}/history?view=full&after={}", seq - 1);
    let (_, transcript) = service.api("GET", &path, None).await;
    assert!(transcript["data"][0].to_string().contains("quagga"), "{transcript}");
    assert_eq!((&nothing["total"], parts(&nothing)), (&json!(0), vec![]));
    assert_eq!(page["total"], steps["total"]);
    assert_ne!(page["data"][0], next["data"][0]);
    assert!(shown.stdout.starts_with("WHERE "), "{shown:?}");
    assert!(shown.stdout.contains("Okapi"), "{shown:?}");
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(document["total"], 1);
}

/// Whatever is typed is words, or refused with a reason.
#[actix::test]
async fn nothing_that_is_typed_breaks_a_search() {
    let service = Service::start().await;
    assert_eq!(service.run(&["send", "#reply x"], "").await.code, Some(0));
    let long = "x".repeat(10_000);

    for (text, expected) in [
        ("\"", 400),
        ("*", 400),
        ("🐝", 400),
        ("", 400),
        (&*long, 400),
        ("AND", 200),
        ("NEAR(", 200),
        ("x NEAR(y, 2", 200),
        ("-x", 200),
        ("col:x", 200),
        ("a\0b", 200),
        ("x 🐝 \"", 200),
        ("x' OR 1=1 --", 200),
        ("{words}:^x", 200),
    ] {
        let (status, answer) = found_by(&service, &service.token(), &[("q", text)]).await;
        assert_eq!(status, expected, "{}: {answer}", text.get(..20).unwrap_or(text));
    }
}

/// The same teams as in lists of tasks: what is out of reach is not counted either.
#[actix::test]
async fn a_token_finds_what_its_teams_said() {
    let service = Service::start().await;
    service.make_team("ops", "works").await;
    assert_eq!(service.run(&["send", "#reply quagga of main"], "").await.code, Some(0));
    let given = ["tasks", "create", "ops", "#reply quagga of ops", "--watch"];
    assert_eq!(service.run(&given, "").await.code, Some(0));
    let token = async |name: &str, more: Value| {
        let mut wish = json!({"name": name, "scopes": ["read"]});
        wish.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let (status, made) = service.api("POST", "/api/v1/tokens", Some(wish)).await;
        assert_eq!(status, 201, "{made}");
        made["data"]["token"].as_str().unwrap().to_owned()
    };
    let (all, ops) = (token("all", json!({})).await, token("ops", json!({"teams": ["ops"]})).await);
    let chat = token("chat", json!({"scopes": ["chat"]})).await;

    let of_all = found_by(&service, &all, &[("q", "quagga")]).await.1;
    let of_ops = found_by(&service, &ops, &[("q", "quagga")]).await.1;
    let of_main = found_by(&service, &ops, &[("q", "quagga"), ("team", "main")]).await.1;

    assert_eq!(of_all["total"], 2, "{of_all}");
    assert_eq!((&of_ops["total"], &of_ops["data"][0]["team"]), (&json!(1), &json!("ops")));
    assert!(!of_ops.to_string().contains("of main"), "{of_ops}");
    assert_eq!((&of_main["total"], &of_main["data"]), (&json!(0), &json!([])));
    assert_eq!(found_by(&service, &chat, &[("q", "quagga")]).await.0, 403);
}

/// CH-91: a topic is deleted with its branch. The service is killed as soon as that is told, and ends it after the start.
#[actix::test]
async fn what_was_said_in_a_deleted_topic_is_found_nowhere() {
    let mut service = Service::start_working().await;
    let mut client = service.connect().await;
    let said = "#call bash {\"command\": \"echo quagga zebra\"}\n#reply The okapi is here.";
    client.say("m1", said).await;
    let topic = client.end_of("m1").await["topic_id"].as_str().unwrap().to_owned();
    let other = client.open_topic("quarterly invoices for gnus").await;
    assert_ne!(other, topic);
    let channel = client.channel.clone().unwrap();
    let branch = json!({
        "content": "#reply Another quagga.", "channel_id": channel, "instead_of": "m1", "wait_s": 60,
    });
    let (status, branch) = service.api("POST", "/api/v1/messages", Some(branch)).await;
    assert_eq!(status, 200, "{branch}");
    let branch = branch["data"]["topic_id"].as_str().unwrap().to_owned();
    assert_ne!(branch, topic);
    assert!(search(&service, &[("q", "quagga")]).await["total"].as_u64() > Some(2));
    let path = format!("/api/v1/topics/{topic}");
    client.say_in(&topic, "slow", "#say Slowly.\n#wait 30000\n#reply Late.").await;
    client.until(|frame| frame["type"] == "ack").await;
    let (busy, refusal) = service.api("DELETE", &path, None).await;
    client.send(json!({"type": "cancel", "topic_id": topic})).await;
    client.end_of("slow").await;
    service.until(&path, |row| row["running"] == false).await;
    let spent = service.api("GET", "/api/v1/usage", None).await.1;

    let request = http().delete(format!("{}{path}", service.url())).bearer_auth(service.token());
    let asked = actix::spawn(request.send());
    let told = client.until(|frame| frame["deleted"].is_array()).await;
    service.kill();
    // It may have been answered.
    drop(asked.await);
    service.launch().await;

    assert_eq!((busy, &refusal["error"]["code"]), (409, &json!("topic_busy")), "{refusal}");
    assert_eq!(told["deleted"], json!([topic, branch]));
    for topic in [&topic, &branch] {
        let messages = format!("/api/v1/me/topics/{topic}/messages");
        for path in [format!("/api/v1/topics/{topic}"), messages] {
            assert_eq!(service.api("GET", &path, None).await.0, 404, "{path}");
        }
    }
    until("the words are gone", async || {
        let found = search(&service, &[("q", "quagga")]).await["total"] == 0;
        let sessions = service.run(&["history", "export"], "").await.stdout;
        found && !sessions.contains("quagga") && !transcripts(&service).contains("quagga")
    })
    .await;
    assert_eq!(search(&service, &[("q", "okapi")]).await["total"], 0);
    assert_ne!(search(&service, &[("q", "gnus")]).await["total"], 0, "another topic");
    assert_eq!(service.api("GET", "/api/v1/usage", None).await.1["data"], spent["data"]);
    let audit = service.run(&["audit", "--action", "topics.delete"], "").await.stdout;
    assert!(audit.contains(&topic) && audit.contains("operator"), "{audit}");
    let mut again = service.connect().await;
    again.resume(&channel, client.last_seq).await;
    again.say("m1", said).await;
    again.say_in(&other, "m9", "#reply Later.").await;
    again.end_of("m9").await;
    assert_eq!(search(&service, &[("q", "quagga")]).await["total"], 0, "nothing is done twice");
    let gone = service.run(&["--yes", "topics", "delete", &other], "").await;
    assert!(gone.stderr.contains("is deleted"), "{gone:?}");
    assert_eq!(search(&service, &[("q", "gnus")]).await["total"], 0);
}

fn transcripts(service: &Service) -> String {
    let files = std::fs::read_dir(service.path("run/history")).unwrap();
    files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap_or_default()).collect()
}

/// MV-52: what was said before it became a secret.
#[actix::test]
async fn a_value_that_became_a_secret_is_not_found_any_more() {
    const VALUE: &str = "quaggahunter2zebra";
    let service = Service::start_working().await;
    let words = format!("#call bash {{\"command\": \"echo {VALUE}\"}}\n#reply it is {VALUE} okapi");
    assert_eq!(service.run(&["send", &words], "").await.code, Some(0));
    let before = search(&service, &[("q", VALUE)]).await;
    assert!(before["total"].as_u64() > Some(1), "{before}");

    let set = ["--yes", "vault", "set", "PW", "--team", "main"];
    assert_eq!(service.run(&set, VALUE).await.code, Some(0));

    for query in [VALUE, "quaggahunter*", "q*"] {
        let after = search(&service, &[("q", query)]).await;
        assert_eq!(after["total"], 0, "{query}: {after}");
    }
    let others = search(&service, &[("q", "okapi")]).await;
    assert_eq!(others["total"], 1, "{others}");
    assert!(!others.to_string().contains("hunter2"), "{others}");
}
