//! `chat` for a person at a real terminal: keys, paste, decisions in place, Ctrl-C, another size.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::{
    canaries,
    service::{Service, WORKS_ITSELF},
    terminal::Terminal,
};

const LEFT: &str = "\x1b[D";
const UP: &str = "\x1b[A";
const ENTER: &str = "\r";
const TAB: &str = "\t";
const INTERRUPT: &str = "\x03";
const END: &str = "\x04";

fn chat(service: &Service, arguments: &[&str]) -> Terminal {
    let words = [&["chat"], arguments].concat();
    let mut terminal = Terminal::start(&service.command(&words), 80);
    terminal.shows("> ");
    terminal
}

/// OP-78: a line is edited, several are pasted as one message, the conversation stays in its topic and
/// goes on another time, with the lines that were entered before.
#[actix::test]
async fn a_person_writes_pastes_and_goes_on_another_day() {
    let service = Service::start().await;
    let mut first = chat(&service, &[]);

    // A letter is missing at first. The answer has no marks, other than the line that was entered.
    first.press("#reply **tw** wrds");
    first.press(&LEFT.repeat(3));
    first.press("o");
    first.press(ENTER);
    first.shows("· topic: ");
    first.shows("tw words\n");
    first.press("\x1b[200~one\ntwo\nthree\x1b[201~");
    first.press(ENTER);
    first.shows("You said: one");
    first.press("/nonsense");
    first.press(ENTER);
    first.shows("There is no command /nonsense,");
    first.press("/exi");
    first.press(TAB);
    first.shows("/exit");
    first.press(ENTER);
    let left = first.end();
    let is_mended = first.is_as_before();
    let mode = service.path("run/chat-history").metadata().unwrap().permissions().mode();

    let mut second = chat(&service, &["--continue"]);
    second.shows("You said: one");
    second.press(&UP.repeat(2));
    second.press(ENTER);
    second.shows("There is no command /nonsense,");
    second.press("#reply **fo**ur");
    second.press(ENTER);
    second.shows("four\n");
    second.press(END);
    // Who knows what they do types on, and is heard between two prompts as well.
    let ends = (0..8).map(|_| {
        let mut hasty = chat(&service, &[]);
        hasty.press("/nonsense");
        hasty.press(ENTER);
        hasty.press(END);
        hasty.end()
    });
    assert_eq!(ends.collect::<Vec<_>>(), [Some(0); 8]);

    // Conversations are told apart by what was said in them.
    let mut third = Terminal::start(&service.command(&["chat", "--resume"]), 120);
    third.shows("MESSAGES  NAME");
    third.shows("  3 ");
    third.shows("  #reply **fo**ur\n");
    third.shows("which number? ");
    third.press("1");
    third.press(ENTER);
    third.shows("four\n");
    third.shows("> ");
    third.press(END);

    // Who is asked which one may leave.
    let mut undecided = Terminal::start(&service.command(&["chat", "--resume"]), 120);
    undecided.shows("which number? ");
    undecided.press(INTERRUPT);
    assert_ne!(undecided.end(), Some(0));

    // What was a moment ago is told so, at a terminal.
    let mut list = Terminal::start(&service.command(&["topics", "list"]), 200);
    list.shows(" min ago");

    assert_eq!((left, second.end(), is_mended), (Some(0), Some(0), true));
    assert_eq!(third.end(), Some(0));
    assert_eq!(mode & 0o777, 0o600);
    let (_, topics) = service.api("GET", "/api/v1/topics", None).await;
    assert_eq!(topics["data"].as_array().unwrap().len(), 1, "{topics}");
    let path = format!("/api/v1/me/topics/{}/messages", topics["data"][0]["id"].as_str().unwrap());
    let (_, said) = service.api("GET", &path, None).await;
    let said: Vec<_> = said["data"].as_array().unwrap().iter().map(|item| &item["text"]).collect();
    assert_eq!(said, ["#reply **fo**ur", "one\ntwo\nthree", "#reply **tw** words"]);
}

/// OP-78: who leaves while a turn runs and comes back is told what came of it.
#[actix::test]
async fn a_chat_that_goes_on_hears_the_answer_that_is_still_to_come() {
    let service = Service::start().await;
    let mut first = chat(&service, &[]);
    first.press("\x1b[200~#wait 4000\n#reply **la**te\x1b[201~");
    first.press(ENTER);
    first.shows("· topic: ");
    first.press(END);
    first.shows("what was accepted goes on");
    let left = first.end();

    let mut second = chat(&service, &["--continue"]);
    second.shows("late\n");
    second.press(END);

    assert_eq!((left, second.end()), (Some(0), Some(0)));
    assert!(!second.has_shown("goes on"), "nothing was left to go on");
}

/// OP-81: what a restore takes the place of may be as it should be.
#[actix::test]
async fn a_store_that_can_be_opened_is_set_aside_only_if_the_person_means_it() {
    let mut service = Service::start().await;
    let backup = service.run(&["backup"], "").await;
    service.kill();

    let mut doubtful = Terminal::start(&service.command(&["restore", "--newest"]), 120);
    doubtful.shows("The store can be opened.");
    doubtful.press("no");
    doubtful.press(ENTER);
    let kept = doubtful.end();
    let mut certain = Terminal::start(&service.command(&["restore", "--newest", "--yes"]), 120);
    certain.shows("restored ");

    assert_eq!((backup.code, kept, certain.end()), (Some(0), Some(130), Some(0)));
}

/// OP-78, CH-84: what waits is decided with a key; a message joins the turn that runs; Ctrl-C stops the turn and then leaves; lines are as long as
/// the terminal is wide, also when that changes.
#[actix::test]
async fn a_person_decides_in_place_stops_a_turn_and_leaves() {
    let config = "policy: [{id: ask, effect: require_approval, resource: 'tool:write'}]\n";
    let service = Service::prepare()
        .with_file("data/config/config.yaml", config)
        .with_file("run/teams/main/config.yaml", WORKS_ITSELF)
        .started()
        .await;
    let mut terminal = chat(&service, &[]);

    terminal.press("#call write {\"file_path\": \"x\", \"content\": \"y\"}");
    terminal.press(ENTER);
    terminal.shows("y approves it once");
    assert!(!service.path("run/teams/main/x").exists());
    terminal.press("y");
    terminal.shows("(approves ");
    terminal.press(ENTER);
    terminal.shows("Used write (ok");
    assert!(service.path("run/teams/main/x").exists());
    // What was decided waits no more, so that the next needs no name either.
    terminal.press("#call write {\"file_path\": \"z\", \"content\": \"y\"}");
    terminal.press(ENTER);
    terminal.shows("y approves it once");
    terminal.press("n not today");
    terminal.shows("(denies ");
    terminal.press(ENTER);
    terminal.shows("Used write (denied");
    terminal.resize(40);
    terminal.press(&format!("#reply {}", "words and ".repeat(8)));
    terminal.press(ENTER);
    let row = "> words and words and words and words and\n";
    terminal.shows(row);
    terminal.shows(row);
    terminal.press("#call bash {\"command\": \"while [ ! -e go ]; do sleep 0.05; done\"}");
    terminal.press(ENTER);
    terminal.shows("Using bash");
    // One message waits for its turn, and one behind it is added to the turn that runs.
    terminal.press("#reply **la**ter");
    terminal.press(ENTER);
    terminal.shows("Queued behind 1 message");
    terminal.press("/steer #reply **soo**ner");
    terminal.press(ENTER);
    let running = |tasks: &Value| tasks.as_array().is_some_and(|rows| rows.len() == 2);
    service.until("/api/v1/tasks?state=running", running).await;
    service.write("run/teams/main/go", "");
    terminal.shows("sooner\n");
    // Both messages have the same answer, which is shown once.
    assert!(!terminal.shows("later\n").contains("sooner\n"));
    terminal.press("#wait 60000");
    terminal.press(ENTER);
    // It is queued while the turn runs.
    terminal.press("#reply **be**hind");
    terminal.press(ENTER);
    terminal.shows("Queued behind 1 message");
    terminal.press(INTERRUPT);
    terminal.shows("· stopped");
    terminal.shows("behind\n");
    terminal.press(INTERRUPT);

    assert_eq!(terminal.end(), Some(130));
    assert!(terminal.is_as_before());
}

/// OP-78, CH-84: a message joins the turn of another team, too, and the answer of both is shown once. A team that
/// there is not is told at once, and words for one that is there outlast a crash of the service.
#[actix::test]
async fn a_person_steers_another_team() {
    let mut service = Service::start().await;
    service.make_team("research", "finds out").await;
    let nowhere = service.run(&["chat", "--team", "nowhere"], "").await;
    let mut terminal = chat(&service, &["--team", "research"]);
    let running = async |many: usize| {
        let fits = |tasks: &Value| tasks.as_array().is_some_and(|rows| rows.len() == many);
        service.until("/api/v1/tasks?state=running", fits).await
    };

    terminal.press("#call bash {\"command\": \"while [ ! -e go ]; do sleep 0.05; done\"}");
    terminal.press(ENTER);
    terminal.shows("· team: research");
    terminal.shows("Using bash");
    terminal.press("/steer #reply **soo**ner");
    terminal.press(ENTER);
    running(2).await;
    service.write("run/teams/research/go", "");
    terminal.shows("sooner\n");
    terminal.press("#reply **la**ter");
    terminal.press(ENTER);
    let between = terminal.shows("later\n");
    terminal.press("/team nowhere");
    terminal.press(ENTER);
    terminal.shows("there is no team `nowhere`");
    terminal.press("/help");
    terminal.press(ENTER);
    terminal.shows("/exit leaves");
    terminal.shows("/steer <message>");
    // What is said while the service is away is kept, as it is for the main team.
    service.kill();
    terminal.shows("connection lost");
    terminal.press("#reply **ba**ck");
    terminal.press(ENTER);
    service.launch().await;
    terminal.shows("connected again");
    terminal.shows("back\n");
    terminal.press(END);

    assert!(!between.contains("sooner\n"), "{between}");
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(nowhere.code, Some(5), "{nowhere:?}");
}

/// PL-88, MV-66: a secret that a team asks for is typed where nothing shows it, in a chat and beside one. What is
/// written into a line by mistake is neither kept nor told on.
#[actix::test]
async fn a_secret_that_a_team_asks_for_is_seen_nowhere() {
    let mut service = Service::start().await;
    let ask = |key: &str| {
        let question = json!({"question": format!("The {key}?"), "kind": "secret", "key": key});
        format!("#call ask_operator {question}")
    };
    let mut terminal = chat(&service, &[]);

    terminal.press(&ask("FIRST_KEY"));
    terminal.press(ENTER);
    terminal.shows("[main] asks for a secret: The FIRST_KEY?");
    terminal.shows("/answer asks for it");
    terminal.press("/answer ");
    terminal.shows("(answers ");
    terminal.press("canary-on-the-line");
    terminal.press(ENTER);
    terminal.shows("nothing was answered");
    terminal.press("/answer");
    terminal.press(ENTER);
    terminal.shows("The FIRST_KEY? (not shown) ");
    terminal.press("canary-unseen-1");
    terminal.press(ENTER);
    terminal.shows("it is in the vault");
    terminal.shows("${vault:FIRST_KEY}");
    terminal.press(&ask("SECOND_KEY"));
    terminal.press(ENTER);
    terminal.shows("asks for a secret: The SECOND_KEY?");
    terminal.shows("Done.");
    terminal.press(END);
    let first = terminal.end();
    let open = |rows: &Value| rows.as_array().is_some_and(|rows| rows.len() == 1);
    let open = service.until("/api/v1/questions?status=open", open).await;
    let id = open[0]["id"].as_str().unwrap().to_owned();
    // A chat that begins later knows what waits; one that is shared tells nobody.
    let mut later = Terminal::start(&service.command(&["chat", "--continue"]), 80);
    later.shows("[main] asks for a secret: The SECOND_KEY?");
    later.press(&format!("/answer {id} canary-on-the-line"));
    later.press(ENTER);
    later.shows("nothing was answered");
    later.press(END);
    let later_ended = later.end();
    let mut client = service.connect().await;
    client.say("m1", &format!("/answer {id} canary-on-the-line")).await;
    let refused = client.end_of("m1").await;
    let mut beside = Terminal::start(&service.command(&["questions", "answer", &id]), 80);
    beside.shows("Secret: ");
    beside.press("canary-unseen-2");
    beside.press(ENTER);
    beside.shows(&format!("answered {id}"));

    assert_eq!((first, later_ended, beside.end()), (Some(0), Some(0), Some(0)));
    assert!(refused["content"].as_str().unwrap().contains("must not stand"), "{refused}");
    for screen in [&terminal, &later, &beside] {
        assert!(!screen.has_shown("canary-unseen"));
        assert!(screen.is_as_before());
    }
    for key in ["FIRST_KEY", "SECOND_KEY"] {
        let shown = service.run(&["vault", "show", key, "--team", "main"], "").await;
        assert_eq!(shown.code, Some(0), "{shown:?}");
    }
    service.signal("TERM");
    service.ended().await;
    let canaries = ["canary-unseen-1", "canary-unseen-2", "canary-on-the-line"];
    let forms: Vec<_> = canaries.into_iter().flat_map(canaries::forms).collect();
    assert_eq!(canaries::files_with(&forms, service.home()), Vec::<String>::new());
    let holds = |bytes: &[u8]| {
        canaries
            .iter()
            .any(|canary| bytes.windows(canary.len()).any(|part| part == canary.as_bytes()))
    };
    assert_eq!(canaries::records(&service, holds), Vec::<String>::new());
}
