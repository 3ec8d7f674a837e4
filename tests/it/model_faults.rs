//! What becomes of a step when the model API misbehaves, on both wire formats.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use hivewright::{
    engines::{Engines, ModelChoice, native::retry::RetryPolicy},
    providers::client,
    settings::{
        providers::{Pricing, Profile, Provider},
        secret::Secret,
    },
};
use hivewright_actors::{
    doubles::entropy::Sequence,
    engine::{
        Block, EngineEvent, EngineFailure, Message, StepReply, StepRequest, SystemPrompt, Unbooked,
    },
    shared_list::SharedList,
    task::outcome::Code,
    tool::{
        Args, ToolCall,
        specs::{ToolSpec, ToolSpecs},
    },
    usage::Usage,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::fake_model::{FakeModel, KEY, Part, Received, Reply, Vendor};

const BOTH: [Vendor; 2] = [Vendor::Anthropic, Vendor::OpenAi];
/// No test may take longer, whatever the model does.
const BOUND: Duration = Duration::from_secs(30);
const RETRIES: usize = 4;

fn engines() -> Engines {
    Engines::new(
        client::build().unwrap(),
        RetryPolicy {
            retry_after_cap: Duration::from_millis(40),
            // No pause between two tries.
            entropy: Arc::new(Sequence::constant(0)),
            ..RetryPolicy::default()
        },
    )
}

fn profile(vendor: Vendor, url: &str) -> Profile {
    let provider = match vendor {
        Vendor::Anthropic => Provider::Anthropic,
        Vendor::OpenAi => Provider::OpenAi,
    };
    Profile {
        api_url: Some(url.to_owned()),
        api_key: Some(Secret::new(KEY.to_owned())),
        model: "m".to_owned(),
        response_timeout: BOUND,
        pricing: Some(Pricing { input: 1.0, output: 2.0, cache_read: 0.0, cache_write: 0.0 }),
        ..Profile::new("default", provider)
    }
}

fn request() -> StepRequest {
    StepRequest {
        team: "main".into(),
        turn: "turn-1".into(),
        step: 1,
        task: None,
        system: Arc::new(SystemPrompt {
            shared: "shared".into(),
            team: "team".into(),
            turn: "turn".into(),
        }),
        tools: Arc::new(ToolSpecs::from_iter([ToolSpec {
            name: "read".into(),
            description: "reads".into(),
            schema: json!({"type": "object"}),
        }])),
        earlier: SharedList::default(),
        messages: Arc::new(vec![Message::User("hello".into())]),
        thinking: None,
        unbooked: Unbooked::default(),
        cancel: CancellationToken::new(),
    }
}

/// What came of a step.
#[derive(Debug)]
struct Outcome {
    result: Result<StepReply, EngineFailure>,
    events: Vec<EngineEvent>,
    took: Duration,
}

impl Outcome {
    fn failure(self) -> (Code, String) {
        let failure = self.result.unwrap_err();
        (failure.code, failure.message)
    }

    fn blocks(self) -> Vec<Block> {
        self.result.unwrap().blocks
    }

    fn count(&self, wanted: fn(&EngineEvent) -> bool) -> usize {
        self.events.iter().filter(|event| wanted(event)).count()
    }

    /// All events but those that only count money.
    fn said(&self) -> Vec<&EngineEvent> {
        let counts = |event: &&EngineEvent| !matches!(event, EngineEvent::Spent(_));
        self.events.iter().filter(counts).collect()
    }

    /// SE-139: what calls without an answer have cost.
    fn lost(&self) -> Usage {
        self.events.iter().fold(Usage::default(), |mut lost, event| {
            if let EngineEvent::Spent(paid) = event {
                lost += paid.usage;
            }
            lost
        })
    }

    fn retries(&self) -> usize {
        self.count(|event| matches!(event, EngineEvent::Retry(_)))
    }
}

async fn run(engines: &Engines, profiles: Vec<Profile>, request: StepRequest) -> Outcome {
    let choice = ModelChoice { profile: profiles[0].name.clone(), model: None };
    let profiles: HashMap<String, Arc<Profile>> =
        profiles.into_iter().map(|profile| (profile.name.clone(), Arc::new(profile))).collect();
    let engine = engines.native(&profiles, &choice).unwrap();
    let events = Arc::new(Mutex::new(Vec::new()));
    let ear = Arc::clone(&events);
    let sink = Arc::new(move |event| ear.lock().unwrap().push(event));
    let begin = Instant::now();
    let result = tokio::time::timeout(BOUND, engine.run(request, sink))
        .await
        .expect("a step ends in bounded time");
    Outcome { result, events: events.lock().unwrap().clone(), took: begin.elapsed() }
}

/// Runs a step against a script.
async fn play<const N: usize>(vendor: Vendor, script: [Reply; N]) -> (Outcome, Vec<Received>) {
    let model = FakeModel::start();
    model.say(script);
    let outcome = run(&engines(), vec![profile(vendor, model.url())], request()).await;
    (outcome, model.requests())
}

/// Events with words of the same kind as one: how many of them come at once is up to the network.
fn joined(events: Vec<EngineEvent>) -> Vec<EngineEvent> {
    let mut joined: Vec<EngineEvent> = Vec::new();
    for event in events {
        let event = match joined.last_mut() {
            Some(last) => last.join(event),
            None => Some(event),
        };
        joined.extend(event);
    }
    joined
}

fn text(text: &str) -> Block {
    Block::Text { text: text.into() }
}

fn hello() -> Reply {
    Reply::text("Hello there")
}

/// SE-115, SE-116, SE-139
#[actix::test]
async fn a_good_answer_arrives_whole_and_in_pieces() {
    for vendor in BOTH {
        let parts = vec![
            Part::Thinking("let me see".into()),
            Part::Text("Hello there".into()),
            Part::Call("call-1".into(), "read".into(), r#"{"path": "a b"}"#.into()),
        ];

        let (outcome, requests) = play(vendor, [Reply::Blocks(parts)]).await;

        let (stop_reason, path, block) = match vendor {
            Vendor::Anthropic => (
                "tool_use",
                "/v1/messages",
                Some(
                    json!({"type": "thinking", "thinking": "let me see", "signature": "c2lnbmVk"}),
                ),
            ),
            Vendor::OpenAi => ("tool_calls", "/v1/chat/completions", None),
        };
        assert_eq!(
            outcome.result,
            Ok(StepReply {
                blocks: vec![
                    Block::Thinking { text: "let me see".into(), block },
                    text("Hello there"),
                    Block::Call(ToolCall {
                        id: "call-1".into(),
                        name: "read".into(),
                        args: Args::Json(json!({"path": "a b"})),
                    }),
                ],
                usage: Usage {
                    input: 11,
                    output: 7,
                    cost_usd: Some(25.0 / 1_000_000.0),
                    ..Usage::default()
                },
                stop_reason: stop_reason.into(),
                truncated: false,
                profile: "default".into(),
                model: "m".into(),
            })
        );
        let expected = [
            EngineEvent::Thinking("let me see".into()),
            EngineEvent::Text("Hello there".into()),
            EngineEvent::TextEnd,
        ];
        assert_eq!(joined(outcome.events), expected);
        assert_eq!(requests.len(), 1);
        assert_eq!(requests[0].path, path);
    }
}

/// CH-81: some servers keep the stream open behind their last event.
#[actix::test]
async fn an_answer_does_not_wait_for_the_end_of_the_connection() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.otherwise(Reply::Open("Hello there".into()));
        let engines = engines();

        let mut took = Vec::new();
        for _ in 0..10 {
            let outcome = run(&engines, vec![profile(vendor, model.url())], request()).await;
            took.push(outcome.took);
            assert_eq!(outcome.blocks(), [text("Hello there")]);
        }

        // The machine may be busy; one that waited would do so each time.
        let quickest = took.into_iter().min().unwrap();
        assert!(quickest < Duration::from_millis(40), "{vendor:?}: {quickest:?}");
    }
}

#[actix::test]
async fn a_connection_that_was_read_to_its_end_is_used_again() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.otherwise(hello());
        let engines = engines();

        for _ in 0..10 {
            run(&engines, vec![profile(vendor, model.url())], request()).await.result.unwrap();
        }

        let peers: HashSet<_> = model.requests().iter().map(|received| received.peer).collect();
        assert!(peers.len() < 10, "{vendor:?}: {peers:?}");
    }
}

/// SE-127
#[actix::test]
async fn a_400_is_final_and_told_in_the_providers_words() {
    for vendor in BOTH {
        let (outcome, requests) = play(vendor, [Reply::status(400, "model: no such model")]).await;

        assert_eq!(
            outcome.failure(),
            (
                Code::ProviderError,
                "profile `default`: the provider rejects the request (400): model: no such model"
                    .into()
            )
        );
        assert_eq!(requests.len(), 1);
    }
}

#[actix::test]
async fn a_conversation_that_is_too_long_is_told_apart() {
    let said = "prompt is too long: 9 tokens > 8 maximum";
    for vendor in BOTH {
        let (outcome, _) = play(vendor, [Reply::status(400, said)]).await;

        assert_eq!(outcome.failure().0, Code::ContextOverflow);
    }
}

/// SE-126, SE-136: without a retry, and without the key that the server repeats.
#[actix::test]
async fn a_401_is_final_and_does_not_show_the_key() {
    for vendor in BOTH {
        let (outcome, requests) =
            play(vendor, [Reply::status(401, &format!("bad key {KEY}"))]).await;

        assert_eq!(
            outcome.failure(),
            (
                Code::ProviderAuth,
                "profile `default`: the provider does not take the key (401): bad key [REDACTED]"
                    .into()
            )
        );
        assert_eq!(requests.len(), 1);
    }
}

/// SE-126
#[actix::test]
async fn a_wrong_or_missing_key_is_an_authentication_failure() {
    for vendor in BOTH {
        let model = FakeModel::start();
        for key in [Some("wrong"), None] {
            let profile = Profile {
                api_key: key.map(|key| Secret::new(key.into())),
                ..profile(vendor, model.url())
            };

            let outcome = run(&engines(), vec![profile], request()).await;

            assert_eq!(outcome.failure().0, Code::ProviderAuth);
        }
    }
}

/// SE-124
#[actix::test]
async fn a_429_is_retried_after_the_pause_the_server_asks_for() {
    for vendor in BOTH {
        let later = vec![("retry-after", "30".to_owned())];
        let limited = Reply::Status(429, later, "slow down".into());

        let (outcome, requests) = play(vendor, [limited, hello()]).await;

        assert_eq!(requests.len(), 2);
        // Capped by the policy of these tests; without the header there would be no pause.
        assert!(outcome.took >= Duration::from_millis(40));
        assert_eq!(
            outcome.events[0],
            EngineEvent::Retry(
                "profile `default`: the provider wants fewer requests (429): slow down".into()
            )
        );
        assert_eq!(outcome.blocks(), [text("Hello there")]);
    }
}

/// SE-124
#[actix::test]
async fn passing_statuses_are_retried_until_the_retries_are_used_up() {
    let statuses = [
        (408, Code::Network),
        (409, Code::Overloaded),
        (429, Code::RateLimited),
        (500, Code::Overloaded),
        (503, Code::Overloaded),
        (529, Code::Overloaded),
    ];
    for vendor in BOTH {
        for (status, code) in statuses {
            let model = FakeModel::start();
            model.otherwise(Reply::status(status, "not now"));

            let outcome = run(&engines(), vec![profile(vendor, model.url())], request()).await;

            assert_eq!(outcome.retries(), RETRIES);
            assert_eq!(model.requests().len(), RETRIES + 1);
            let (actual, message) = outcome.failure();
            assert_eq!(actual, code);
            assert!(
                message.starts_with("profile `default`, tried 5 times: the provider ")
                    && message.ends_with(&format!("({status}): not now")),
                "{message}"
            );
        }
    }
}

/// SE-129: what the server asks for is known when its retries are used up.
#[actix::test]
async fn the_pause_a_server_asks_for_is_passed_on() {
    for vendor in BOTH {
        let model = FakeModel::start();
        let later = vec![("retry-after", "1800".to_owned())];
        model.otherwise(Reply::Status(429, later, "slow down".into()));

        let outcome = run(&engines(), vec![profile(vendor, model.url())], request()).await;

        let failure = outcome.result.unwrap_err();
        assert_eq!(failure.code, Code::RateLimited);
        assert_eq!(failure.retry_after, Some(Duration::from_secs(1_800)));
    }
}

/// EN-99: a limit that one turn met holds for all who ask the profile, until it ends; another profile answers meanwhile.
#[actix::test]
async fn a_rate_limit_holds_for_everyone_on_the_profile() {
    let (headers, longest) = (vec![("retry-after", "1800".to_owned())], 1_800);
    let (model, other) = (FakeModel::start(), FakeModel::start());
    model.otherwise(Reply::Status(429, headers, "slow down".into()));
    other.otherwise(hello());
    let limited = || profile(Vendor::Anthropic, model.url());
    let engines = engines();
    run(&engines, vec![limited()], request()).await;
    let asked = model.requests().len();

    let outcome = run(&engines, vec![limited()], request()).await;
    let spare = Profile { name: "spare".into(), ..profile(Vendor::Anthropic, other.url()) };
    let first = Profile { fallbacks: vec!["spare".into()], ..limited() };
    let spared = run(&engines, vec![first, spare], request()).await;

    let failure = outcome.result.unwrap_err();
    let rest = failure.retry_after.unwrap();
    assert_eq!((failure.code, model.requests().len()), (Code::RateLimited, asked));
    assert!(rest > Duration::from_secs(200), "{rest:?}");
    assert!(rest <= Duration::from_secs(longest), "{rest:?}");
    assert_eq!(spared.blocks(), [text("Hello there")]);
}

/// SE-124
#[actix::test]
async fn a_passing_status_does_not_spoil_the_answer() {
    for vendor in BOTH {
        for status in [500, 529] {
            let (outcome, _) = play(vendor, [Reply::status(status, "oops"), hello()]).await;

            assert_eq!(outcome.blocks(), [text("Hello there")]);
        }
    }
}

/// SE-107, SE-124
#[actix::test]
async fn a_slow_first_byte_is_not_waited_for() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.say([Reply::SlowFirstByte(BOUND, "late".into())]);
        model.otherwise(hello());
        let impatient = Profile {
            response_timeout: Duration::from_millis(300),
            ..profile(vendor, model.url())
        };

        let outcome = run(&engines(), vec![impatient], request()).await;

        assert_eq!(
            outcome.events[0],
            EngineEvent::Retry("profile `default`: nothing came for 0.3 s".into())
        );
        assert_eq!(outcome.blocks(), [text("Hello there")]);
    }
}

/// SE-107
#[actix::test]
async fn a_slow_answer_within_the_limit_is_waited_for() {
    for vendor in BOTH {
        let slow = Reply::SlowFirstByte(Duration::from_millis(50), "late".into());

        let (outcome, requests) = play(vendor, [slow]).await;

        assert_eq!(requests.len(), 1);
        assert_eq!(outcome.blocks(), [text("late")]);
    }
}

/// SE-125, SE-139
#[actix::test]
async fn a_stream_that_is_cut_starts_again_and_is_taken_back() {
    for vendor in BOTH {
        let (outcome, _) = play(vendor, [Reply::CutMidway("Hel".into()), hello()]).await;

        let said = outcome.said();
        assert_eq!(said[..2], [&EngineEvent::Text("Hel".into()), &EngineEvent::Reset]);
        assert_eq!(outcome.retries(), 1);
        let lost = outcome.lost();
        let reply = outcome.result.unwrap();
        assert_eq!(reply.blocks, [text("Hello there")]);
        // Anthropic reports figures before it breaks, and they count.
        let (input, output) = match vendor {
            Vendor::Anthropic => (22, 8),
            Vendor::OpenAi => (11, 7),
        };
        let (all_input, all_output) =
            (reply.usage.input + lost.input, reply.usage.output + lost.output);
        assert_eq!((all_input, all_output), (input, output));
    }
}

/// SE-124
#[actix::test]
async fn streams_that_are_always_cut_end_as_a_network_failure() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.otherwise(Reply::CutMidway("Hel".into()));

        let outcome = run(&engines(), vec![profile(vendor, model.url())], request()).await;

        // What the last try said stays.
        assert_eq!(outcome.count(|event| *event == EngineEvent::Reset), RETRIES);
        assert_eq!(outcome.said().last(), Some(&&EngineEvent::Text("Hel".into())));
        // SE-20, SE-129: an answer that breaks each time is not waited for without end.
        assert!(outcome.result.as_ref().is_err_and(|failure| failure.answered));
        let (code, message) = outcome.failure();
        assert_eq!(code, Code::Network);
        assert!(message.contains("the answer broke off"), "{message}");
    }
}

/// SE-107, SE-124
#[actix::test]
async fn streams_that_stall_end_as_stalled() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.otherwise(Reply::Stall("Hel".into()));
        let impatient = Profile {
            response_timeout: Duration::from_millis(100),
            ..profile(vendor, model.url())
        };

        let outcome = run(&engines(), vec![impatient], request()).await;

        assert_eq!(
            outcome.failure(),
            (Code::Stalled, "profile `default`, tried 5 times: nothing came for 0.1 s".into())
        );
    }
}

/// SE-124
#[actix::test]
async fn malformed_events_are_retried_and_then_a_network_failure() {
    for vendor in BOTH {
        let (outcome, _) = play(vendor, [Reply::MalformedSse, hello()]).await;
        assert_eq!(outcome.blocks(), [text("Hello there")]);

        let model = FakeModel::start();
        model.otherwise(Reply::MalformedSse);
        let outcome = run(&engines(), vec![profile(vendor, model.url())], request()).await;
        let (code, message) = outcome.failure();
        assert_eq!(code, Code::Network);
        assert!(message.contains("the answer cannot be read"), "{message}");
    }
}

/// SE-86
#[actix::test]
async fn arguments_that_are_not_json_are_passed_on_with_the_position() {
    for vendor in BOTH {
        let reply = Reply::invalid_tool_json("read", r#"{"path": oops}"#);

        let (outcome, requests) = play(vendor, [reply]).await;

        assert_eq!(requests.len(), 1);
        assert_eq!(
            outcome.blocks(),
            [Block::Call(ToolCall {
                id: "call-1".into(),
                name: "read".into(),
                args: Args::Unreadable {
                    unreadable: r#"{"path": oops}"#.into(),
                    reason: "expected value at line 1 column 10".into(),
                },
            })]
        );
    }
}

/// SE-86
#[actix::test]
async fn a_call_of_an_unknown_tool_is_passed_on() {
    for vendor in BOTH {
        let (outcome, _) = play(vendor, [Reply::call("no_such_tool", json!({}))]).await;

        assert_eq!(
            outcome.blocks(),
            [Block::Call(ToolCall {
                id: "call-1".into(),
                name: "no_such_tool".into(),
                args: Args::Json(json!({})),
            })]
        );
    }
}

/// SE-89: the turn, not the engine, knows which tools ran and says so.
#[actix::test]
async fn an_empty_answer_is_passed_on_as_empty() {
    for vendor in BOTH {
        let (outcome, requests) = play(vendor, [Reply::empty()]).await;

        assert_eq!(requests.len(), 1);
        assert_eq!(outcome.blocks(), []);
    }
}

/// SC-78
#[actix::test]
async fn an_answer_without_end_is_cut_off() {
    let (outcome, requests) = play(Vendor::Anthropic, [Reply::Endless]).await;

    assert_eq!(requests.len(), 1);
    assert_eq!(
        outcome.failure(),
        (Code::ProviderError, "profile `default`: the answer is larger than 64 MiB".into())
    );
}

/// SE-117
#[actix::test]
async fn an_error_inside_the_stream_counts_like_a_status() {
    for (vendor, passing) in
        [(Vendor::Anthropic, "overloaded_error"), (Vendor::OpenAi, "server_error")]
    {
        let (outcome, _) = play(vendor, [Reply::ErrorEvent(passing, "busy".into()), hello()]).await;
        assert_eq!(outcome.count(|event| *event == EngineEvent::Reset), 1);
        assert_eq!(outcome.blocks(), [text("Hello there")]);

        let lasting = Reply::ErrorEvent("invalid_request_error", "no".into());
        let (outcome, _) = play(vendor, [lasting]).await;
        assert_eq!(outcome.failure().0, Code::ProviderError);
    }
}

/// SE-115
#[actix::test]
async fn a_refusal_is_final() {
    for vendor in BOTH {
        let (outcome, requests) = play(vendor, [Reply::Refusal]).await;

        assert_eq!(requests.len(), 1);
        assert_eq!(
            outcome.failure(),
            (Code::ProviderRefused, "profile `default`: the model declined to answer".into())
        );
    }
}

/// SE-115
#[actix::test]
async fn a_model_that_pauses_is_asked_to_go_on() {
    let script = [Reply::Pause("One".into()), Reply::text("two")];

    let (outcome, requests) = play(Vendor::Anthropic, script).await;

    assert_eq!(
        requests[1].body["messages"][1],
        json!({"role": "assistant", "content": [
            {"type": "text", "text": "One", "cache_control": {"type": "ephemeral"}},
        ]})
    );
    let reply = outcome.result.unwrap();
    assert_eq!(reply.blocks, [text("One"), text("two")]);
    assert_eq!((reply.usage.input, reply.usage.output), (22, 14));
}

/// SE-116
#[actix::test]
async fn an_answer_in_one_piece_is_taken_where_proxies_send_it() {
    let (outcome, _) = play(Vendor::OpenAi, [Reply::Whole("Hello".into())]).await;

    assert_eq!(outcome.blocks(), [text("Hello")]);
}

/// SE-117: on one more try, and then for that profile.
#[actix::test]
async fn a_refused_optional_field_is_left_out_from_then_on() {
    for (vendor, field) in
        [(Vendor::Anthropic, "cache_control"), (Vendor::OpenAi, "stream_options")]
    {
        let model = FakeModel::start();
        let engines = engines();
        model.say([Reply::status(400, &format!("{field}: unknown field")), hello(), hello()]);

        for _ in 0..2 {
            let profile = profile(vendor, model.url());
            let outcome = run(&engines, vec![profile], request()).await;
            assert_eq!(outcome.blocks(), [text("Hello there")]);
        }

        let sent: Vec<bool> = model
            .requests()
            .iter()
            .map(|request| request.body.to_string().contains(field))
            .collect();
        assert_eq!(sent, [true, false, false]);
    }
}

/// SE-128
#[actix::test]
async fn a_fallback_takes_over_with_the_same_conversation() {
    let (first, second) = (FakeModel::start(), FakeModel::start());
    first.otherwise(Reply::status(529, "busy"));
    second.say([hello()]);
    let profiles = vec![
        Profile { fallbacks: vec!["spare".into()], ..profile(Vendor::Anthropic, first.url()) },
        Profile {
            name: "spare".into(),
            model: "other".into(),
            ..profile(Vendor::OpenAi, second.url())
        },
    ];

    let outcome = run(&engines(), profiles, request()).await;

    let notice = "profile `spare` takes over: profile `default`, tried 5 times: the provider has a problem (529): busy";
    assert!(outcome.events.contains(&EngineEvent::Fallback(notice.into())));
    assert_eq!(second.requests()[0].body["messages"][1]["content"], "hello");
    let reply = outcome.result.unwrap();
    assert_eq!((reply.profile, reply.model), ("spare".into(), "other".into()));
}

/// SE-126, SE-127
#[actix::test]
async fn a_refused_key_falls_back_and_a_rejected_request_does_not() {
    for (status, answered) in [(403, true), (400, false)] {
        let (first, second) = (FakeModel::start(), FakeModel::start());
        first.otherwise(Reply::status(status, "no"));
        second.otherwise(hello());
        let profiles = vec![
            Profile { fallbacks: vec!["spare".into()], ..profile(Vendor::Anthropic, first.url()) },
            Profile { name: "spare".into(), ..profile(Vendor::Anthropic, second.url()) },
        ];

        let outcome = run(&engines(), profiles, request()).await;

        assert_eq!(outcome.result.is_ok(), answered, "{status}");
        assert_eq!(second.requests().len(), usize::from(answered));
    }
}

/// SE-124
#[actix::test]
async fn a_server_that_is_not_there_is_a_network_failure() {
    let gone = FakeModel::start().url().to_owned();
    for vendor in BOTH {
        let outcome = run(&engines(), vec![profile(vendor, &gone)], request()).await;

        assert_eq!(outcome.retries(), RETRIES);
        assert!(outcome.result.as_ref().is_err_and(|failure| !failure.answered));
        let (code, message) = outcome.failure();
        assert_eq!(code, Code::Network);
        assert!(message.contains("no connection"), "{message}");
    }
}

/// SE-132: the request is dropped at once.
#[actix::test]
async fn a_cancelled_step_ends_at_once() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.otherwise(Reply::Stall("Hel".into()));
        let request = request();
        let cancel = request.cancel.clone();
        let engines = engines();
        let running = run(&engines, vec![profile(vendor, model.url())], request);
        let stopping = async {
            while model.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };

        let (outcome, ()) = tokio::join!(running, stopping);

        assert!(outcome.took < BOUND);
        assert_eq!(outcome.failure().0, Code::Cancelled);
    }
}

/// SE-136: the model repeats the key, which arrives in several pieces.
#[actix::test]
async fn the_key_never_leaves_in_pieces_or_blocks() {
    for vendor in BOTH {
        let (outcome, _) = play(vendor, [Reply::text(&format!("it is {KEY} ok"))]).await;

        let said: String = outcome
            .events
            .iter()
            .filter_map(|event| match event {
                EngineEvent::Text(piece) => Some(piece.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(said, "it is [REDACTED] ok");
        assert_eq!(outcome.blocks(), [text("it is [REDACTED] ok")]);
    }
}

/// SE-31: over the wire too.
#[actix::test]
async fn the_same_step_is_sent_as_the_same_bytes() {
    for vendor in BOTH {
        let model = FakeModel::start();
        model.otherwise(hello());

        for _ in 0..2 {
            run(&engines(), vec![profile(vendor, model.url())], request()).await;
        }

        let requests = model.requests();
        assert_eq!(requests[0].bytes, requests[1].bytes);
    }
}
