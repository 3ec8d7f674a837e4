//! A world: the disk, the clock and the scripts that one or more processes share.

use std::{
    cell::Cell,
    collections::HashMap,
    num::NonZeroUsize,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use actix::{Arbiter, ArbiterHandle};
use futures_util::future::BoxFuture;

use super::{
    client::Client,
    clock::ManualClock,
    disk::{Crash, Disk, MemoryStorage},
    engine::{Play, Script, Scripted},
    entropy::Sequence,
    folders::NoFolders,
    tools::{Office, Tools},
    triggers::Outside,
};
use crate::{
    approvals::ports::{Deciders, SecretSink, SecretText},
    briefing::{Assignment, Brief, BriefError, Briefing, Clean, Price, QueueMode},
    budget::{Day, Days, Ledger, Line},
    channel_type::ChannelType,
    classifier::{Classifier, Purpose},
    clock::{Clock, Timestamp},
    engine::{Block, JoinedWords, Message, StepRequest},
    identities::Owner,
    ids::Ids,
    live::Publisher,
    meter::Unmetered,
    org::{record::TeamRecord, tree::Tree, view::OrgView},
    queue::schedule::Limits,
    router::{self, Open, rate::Rate, resolve, sender::Sender, trust::Policy},
    spine::{ANSWERS_WITHIN, Ports, Spine, Threads, recover, recover_spending},
    storage::StorageError,
    store::{Store, StoreParts, records::digest, redact::Redaction},
    task::{Label, outcome::Code},
};

thread_local! {
    static PAUSED: Cell<bool> = const { Cell::new(false) };
}

/// The only one who ever had a name.
pub(crate) fn owner(name: &str) -> Owner {
    Owner { principal: name.into(), grant: name.into(), since: Timestamp::default() }
}

/// All of a test happens on one day.
pub(crate) struct OneDay;

impl Days for OneDay {
    fn day_of(&self, _: Timestamp) -> Day {
        Day { number: 1, ends_at: Timestamp(2_000_000_000) }
    }
}

/// A vault that takes nothing.
struct NoVault;

impl SecretSink for NoVault {
    fn keep(
        &self,
        _: crate::ids::TeamKey,
        _: String,
        _: SecretText,
        _: &crate::approvals::record::Decider,
    ) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async { Err("there is no vault".to_owned()) })
    }
}

/// What a classifier answers, and after which time.
type Opinion = Arc<dyn Fn(&str) -> (Duration, Option<String>) + Send + Sync>;

#[derive(Clone)]
struct Opinions(Opinion);

impl Classifier for Opinions {
    fn ask(&self, _: Purpose, question: String) -> BoxFuture<'static, Option<String>> {
        let (pause, answer) = (self.0)(&question);
        Box::pin(async move {
            tokio::time::sleep(pause).await;
            answer
        })
    }
}

type Errors = Arc<Mutex<HashMap<&'static str, &'static str>>>;

/// All that a team is told before a turn.
#[derive(Clone)]
struct Briefs {
    engine: Scripted,
    tools: Tools,
    queue_mode: QueueMode,
    budget: Line,
    room: u64,
    errors: Errors,
    takes: Arc<Mutex<Duration>>,
    clean: Clean,
    label: Label,
}

impl Briefing for Briefs {
    fn brief(&self, assignment: Assignment) -> BoxFuture<'static, Result<Brief, BriefError>> {
        let this = self.clone();
        Box::pin(async move {
            let takes = *this.takes.lock().unwrap();
            tokio::time::sleep(takes).await;
            let error = this.errors.lock().unwrap();
            let of_team = error.get(assignment.lane.team.as_str());
            if let Some(message) = of_team.or_else(|| error.get("*")) {
                return Err(BriefError { code: Code::ConfigError, message: (*message).to_owned() });
            }
            Ok(Brief {
                sdk: "native".to_owned(),
                system: Arc::default(),
                tools: Arc::new(this.tools),
                label: this.label,
                engine: Arc::new(this.engine),
                provider: "offline".to_owned(),
                model: "scripted".to_owned(),
                prompt_hash: String::new(),
                toolset_hash: String::new(),
                max_steps: 10,
                turn_timeout: Duration::from_secs(30 * 60),
                idle_timeout: Duration::from_secs(5 * 60),
                conversation_idle: Some(Duration::from_secs(6 * 60 * 60)),
                thinking: assignment.options.thinking,
                queue_mode: this.queue_mode,
                budget: this.budget,
                price: Price { max_output: 100, ..Price::default() },
                room: this.room,
                clean: this.clean,
                files: assignment.handed.files,
            })
        })
    }
}

pub(crate) struct World {
    pub(crate) disk: Disk,
    pub(crate) tools: Tools,
    pub(crate) asked: Arc<Mutex<Vec<Vec<Message>>>>,
    /// What each step was shown of the turns before.
    pub(crate) earlier: Arc<Mutex<Vec<Vec<Message>>>>,
    pub(crate) failures: Arc<AtomicUsize>,
    pub(crate) limits: Limits,
    pub(crate) settings: router::Settings,
    pub(crate) queue_mode: QueueMode,
    pub(crate) budget: Line,
    /// How much a model reads at once.
    pub(crate) room: u64,
    /// What is wrong with the files of teams; `*` is all of them.
    pub(crate) brief_errors: Errors,
    pub(crate) opinion: Opinion,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) outside: Outside,
    /// Where teams run; on none, where the test does.
    pub(crate) arbiters: Vec<ArbiterHandle>,
    pub(crate) answers_within: Duration,
    /// How long turns are prepared.
    pub(crate) briefing_takes: Arc<Mutex<Duration>>,
    /// What earlier turns are cleaned with.
    pub(crate) clean: Clean,
    /// What the store takes out of records.
    pub(crate) redaction: Option<Redaction>,
    /// How far words of its tools may be believed.
    pub(crate) label: Label,
    script: Script,
    ids: Ids,
    connections: Cell<u64>,
}

impl World {
    /// A world on paused time whose model plays a script.
    pub(crate) fn new(script: impl Fn(&StepRequest) -> Vec<Play> + Send + Sync + 'static) -> Self {
        // Time can be paused but once: a test may make several worlds, one after another.
        if !PAUSED.replace(true) {
            tokio::time::pause();
        }
        Self {
            disk: Disk::default(),
            tools: Tools::default(),
            asked: Arc::default(),
            earlier: Arc::default(),
            clean: Arc::new(|_: &str| None),
            redaction: None,
            label: Label::Trusted,
            failures: Arc::default(),
            limits: Limits::default(),
            settings: router::Settings {
                topics: resolve::Settings {
                    max_active: NonZeroUsize::new(5).unwrap(),
                    idle_after: Duration::from_secs(30 * 60),
                },
                ask_model: false,
                titles: false,
                discord_rate: Rate { per_minute: 30, burst: 10 },
                rate: Rate { per_minute: 0, burst: 0 },
                trust: Policy::None,
                channels_kept: Duration::from_secs(7 * 24 * 60 * 60),
            },
            queue_mode: QueueMode::Queue,
            budget: Arc::from([]),
            room: 100_000,
            brief_errors: Errors::default(),
            opinion: Arc::new(|_| (Duration::ZERO, None)),
            clock: Arc::new(ManualClock::running(Timestamp(1_000_000_000))),
            outside: Outside::default(),
            arbiters: Vec::new(),
            answers_within: ANSWERS_WITHIN,
            briefing_takes: Arc::default(),
            script: Arc::new(script),
            ids: Ids::new(Arc::new(Sequence::scattered())),
            connections: Cell::new(0),
        }
    }

    /// A process of this world.
    pub(crate) fn start(&self) -> Spine {
        self.start_on(self.disk.mount(None))
    }

    /// A process that loses the disk at some commit.
    pub(crate) fn start_doomed(&self, crash: Crash) -> Spine {
        self.start_on(self.disk.mount(Some(crash)))
    }

    pub(crate) fn start_on(&self, storage: Arc<MemoryStorage>) -> Spine {
        let briefs = Briefs {
            engine: Scripted {
                script: self.script.clone(),
                asked: self.asked.clone(),
                earlier: self.earlier.clone(),
            },
            tools: self.tools.clone(),
            queue_mode: self.queue_mode,
            budget: self.budget.clone(),
            room: self.room,
            errors: self.brief_errors.clone(),
            takes: self.briefing_takes.clone(),
            clean: self.clean.clone(),
            label: self.label,
        };
        let failures = self.failures.clone();
        let recovered = recover(&*storage).unwrap();
        let ledger = Ledger::default();
        let day = OneDay.day_of(self.clock.now());
        let tree = Tree::new([TeamRecord::main(Timestamp::default())]);
        recover_spending(&*storage, &ledger, day, &tree).unwrap();
        let on_failure = Box::new(move |_: &StorageError| {
            failures.fetch_add(1, Ordering::Relaxed);
        });
        let live = Publisher::new(1, self.clock.clone());
        let parts = StoreParts {
            on_failure,
            live: Some(live.clone()),
            redaction: self.redaction.clone(),
            ..StoreParts::of(storage)
        };
        let store = Store::start(&Arbiter::current(), parts);
        let (spine, contexts) = Spine::new(store, OrgView::default(), live);
        let ports = Ports {
            deciders: Deciders::new(|_, _| true),
            briefing: Arc::new(briefs),
            classifier: Arc::new(Opinions(self.opinion.clone())),
            clock: self.clock.clone(),
            ids: self.ids.clone(),
            on_hindrance: Arc::new(|_| ()),
            grants: Default::default(),
            ledger,
            days: Arc::new(OneDay),
            secrets: Arc::new(NoVault),
            digester: |bytes| format!("{:016x}", digest(&String::from_utf8_lossy(bytes))),
            approvals_last: Duration::from_secs(24 * 60 * 60),
            shown_in: Vec::new(),
            meter: Arc::new(Unmetered),
            folders: Arc::new(NoFolders),
            belongings: Arc::new([]),
            triggers: self.outside.ports(),
            retention: Arc::new(self.outside.keeps.clone()),
        };
        let threads = Threads { teams: self.arbiters.clone(), answers_within: self.answers_within };
        contexts.start(&spine, ports, threads, self.limits, self.settings.clone(), recovered);
        *self.tools.office.lock().unwrap() = Some(Office {
            queue: spine.queue.clone(),
            ids: self.ids.clone(),
            store: spine.store.clone(),
        });
        spine
    }

    pub(crate) fn connect(&self, spine: &Spine) -> Client {
        self.connect_as("someone", spine)
    }

    pub(crate) fn connect_as(&self, principal: &str, spine: &Spine) -> Client {
        self.connect_by(Sender::of(&principal.into(), ChannelType::Ws), spine)
    }

    pub(crate) fn connect_by(&self, sender: Sender, spine: &Spine) -> Client {
        self.connect_of(owner(&sender.id), sender, spine)
    }

    /// A connection whose channel is of somebody.
    pub(crate) fn connect_of(&self, owner: Owner, sender: Sender, spine: &Spine) -> Client {
        self.connections.set(self.connections.get() + 1);
        let channel = self.ids.websocket_channel();
        let socket = Arc::new(crate::channel::socket::Socket::new(self.connections.get()));
        spine.router.do_send(Open {
            channel: channel.clone(),
            owner,
            sender,
            socket: socket.clone(),
        });
        Client { spine: spine.clone(), channel, socket, last_seq: Cell::new(0) }
    }

    /// The words that the newest step was shown of the turns before it, oldest first.
    pub(crate) fn shown_before(&self) -> Vec<String> {
        let earlier = self.earlier.lock().unwrap();
        earlier.last().unwrap().iter().filter_map(words_of).collect()
    }

    /// The calls that ran, in order.
    pub(crate) fn runs(&self) -> Vec<String> {
        let runs = self.tools.runs.lock().unwrap();
        runs.iter().map(|run| run.id.clone()).collect()
    }
}

/// What is said in a message, if it is words alone.
fn words_of(message: &Message) -> Option<String> {
    match message {
        Message::User(text) | Message::Joined(JoinedWords { text, .. }) => Some(text.clone()),
        Message::Assistant(blocks) => match &blocks[..] {
            [Block::Text { text }] => Some(text.clone()),
            _ => None,
        },
        Message::Files(_) | Message::ToolResults(_) => None,
    }
}
