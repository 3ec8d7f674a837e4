//! `init` for a person at a real terminal: a model is chosen, tried and written, or nothing is.

use std::fs;

use crate::{
    canaries::{files_with, forms},
    fake_model::{FakeModel, KEY, Reply},
    service::Service,
    terminal::Terminal,
};

const LEFT: &str = "\x1b[D";
const INTERRUPT: &str = "\x03";

fn init(home: &Service) -> Terminal {
    let mut terminal = Terminal::start(&home.command(&["init"]), 120);
    terminal.shows("Name [offline]: ");
    terminal
}

/// OP-73, OP-75: what is wrong is asked again, a line is edited, the model answers before it is written, and its
/// key is in the vault and in no file in the clear.
#[actix::test]
async fn a_model_is_chosen_tried_and_written() {
    let model = FakeModel::start();
    model.say([Reply::text("large and ready"), Reply::text("small and ready")]);
    let home = Service::prepare();
    let mut terminal = init(&home);

    terminal.press("gpt\r");
    terminal.shows("`gpt` is none of `anthropic`, `openai`, `offline`");
    terminal.shows("Name [offline]: ");
    // A letter is missing at first.
    terminal.press(&format!("opnai{}e\r", LEFT.repeat(3)));
    terminal.shows("Address of the API");
    terminal.press(&format!("{}/v1\r", model.url()));
    terminal.shows("Key, which is not shown");
    terminal.press("short\r");
    terminal.shows("at least 8 characters");
    terminal.shows("Key, which is not shown");
    terminal.press(&format!("{KEY}\r"));
    let shown = terminal.shows("its models: large-one, small-one");
    terminal.shows("answered: large and ready");
    terminal.shows("Model [");
    terminal.press("small-one\r");
    terminal.shows("`small-one` answered: small and ready");
    terminal.shows("Model [small-one]: ");
    terminal.press("\r");
    terminal.shows("providers.yaml");
    let ended = terminal.end();

    assert_eq!(ended, Some(0));
    assert!(!shown.contains(KEY) && terminal.is_as_before());
    let written = fs::read_to_string(home.path("data/config/providers.yaml")).unwrap();
    assert!(written.contains("api_key: ${vault:model-default}"), "{written}");
    assert_eq!(model.requests().last().unwrap().body["model"], "small-one");
    let checked = home.run(&["config", "check"], "").await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let home = home.started().await;
    model.say([Reply::text("at work")]);
    let answered = home.run(&["send", "hello"], "").await;
    assert_eq!(answered.stdout, "at work\n", "{answered:?}");
    let checked = home.run(&["config", "check"], "").await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    assert_eq!(files_with(&forms(KEY), home.home()), [""; 0]);
}

/// OP-75: a service that runs already keeps the key, and uses it from the next message on. A key that is refused can be
/// typed again.
#[actix::test]
async fn a_model_is_chosen_while_the_demo_answers() {
    let model = FakeModel::start();
    model.say([Reply::status(404, "there is no such model"), Reply::text("ready")]);
    let home = Service::start().await;
    let mut terminal = init(&home);

    terminal.press("openai\r");
    terminal.shows("Address of the API");
    terminal.press(&format!("{}/v1\r", model.url()));
    terminal.shows("Key, which is not shown");
    terminal.press("mistyped-key\r");
    terminal.shows("did not answer: the provider does not take the key (401)");
    terminal.shows("`key` for another key");
    terminal.press("key\r");
    terminal.shows("Key, which is not shown");
    terminal.press(&format!("{KEY}\r"));
    // The usual model of the vendor is none of this server's.
    terminal.shows("Type a model to try [large-one], `key` for another key");
    terminal.shows("Model: ");
    terminal.press("\r");
    terminal.shows("`large-one` answered: ready");
    terminal.shows("Model [large-one]: ");
    terminal.press("\r");
    terminal.shows("the running service takes it over");
    let ended = terminal.end();
    model.say([Reply::text("at work")]);
    let answered = home.run(&["send", "hello"], "").await;
    model.say([Reply::text("well")]);
    let looked = home.run(&["doctor", "--deep"], "").await;

    assert_eq!(ended, Some(0));
    assert_eq!(answered.stdout, "at work\n", "{answered:?}");
    assert!(looked.stdout.contains("`default` answers"), "{looked:?}");
    assert!(!looked.stdout.contains("error  settings"), "{looked:?}");
    assert_eq!(files_with(&forms(KEY), home.home()), [""; 0]);
}

/// OP-75: who breaks it off leaves nothing behind, wherever that is.
#[actix::test]
async fn an_init_that_is_broken_off_writes_nothing() {
    for steps in [&[][..], &[("openai\r", "Address of the API")], &[("anthropic\r", "Key, which")]]
    {
        let home = Service::prepare();
        let mut terminal = init(&home);
        for (keys, question) in steps {
            terminal.press(keys);
            terminal.shows(question);
        }

        terminal.press(INTERRUPT);
        let ended = terminal.end();

        assert_eq!(ended, Some(130), "{steps:?}");
        assert!(terminal.is_as_before());
        assert!(!home.path("data").exists() && !home.path("run").exists(), "{steps:?}");
    }
}
