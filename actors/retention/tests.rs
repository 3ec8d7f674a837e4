//! Tests of retention: what goes, what stays, and when.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use super::{
    Done, EraseDeleted, WHOLE, last, look_at_all,
    pass::{Pass, Removed},
    terms::Terms,
};
use crate::{
    admission::{Admission, Reason},
    approvals::{
        question::{Question, QuestionStatus},
        record::{Approval, Status},
    },
    audit::Audit,
    budget::{
        self, Spent, SpentRow, Tally,
        records::{self as spending, DayKey, PurposeCalls, Raised, TaskCalls, Warned},
    },
    channel_type::ChannelType,
    clock::{Clock, Timestamp},
    conversation_log::ConversationEntry,
    doubles::{
        asked,
        disk::{Crash, Disk},
        engine::Play,
        triggers::{Chain, Fleeting, Keeps},
        world::World,
    },
    frame::{Notification, NotificationKind},
    history::{Fact, HistoryEvent},
    ids::{TaskId, TeamKey, TopicId, TriggerId, TurnId},
    inbox::InboxEvent,
    journal::records::{Began, Piece},
    notice::{Notice, NoticeKind},
    org::record::{TeamRecord, TeamState},
    quarantine::quarantined,
    router::{deleting::DeletedTopic, topics::Topic},
    scheduler::{
        alarm::Drain,
        records::{Payload, removed},
        run::{Cause, Decision, Notified, Run},
        trigger::{
            Trigger,
            config::{Config, Schedule},
            definition::Definition,
        },
    },
    spine::{self, Spine},
    storage::Storage,
    store::{
        keys::{Life, key_of, printable},
        reads::{Range, scan, scan_keyed},
        records::{Record, Writes},
    },
    task::{
        Ancestor, Kind, Label, Lane, Lineage, Source, Task, TopicRef,
        outcome::{Ending, Outcome},
        records::{FinishedTask, LaneKey},
    },
    tool::{Effect, records::Answer},
    usage::Usage,
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Long ago enough, and not at the beginning of time.
const NOW: Timestamp = Timestamp(2_000 * 86_400_000);

fn ago(days: u32) -> Timestamp {
    NOW - DAY * days
}

fn lane(team: &str, topic: Option<&str>) -> Lane {
    Lane { team: team.into(), topic: topic.map(Into::into) }
}

fn open_task(id: &str, lane: Lane, at: Timestamp) -> Task {
    Task {
        kind: Kind::Delegate,
        ..Task::new(id.into(), lane, "work".to_owned(), "ann".to_owned(), at)
    }
}

fn ended(id: &str, lane: Lane, at: Timestamp) -> Task {
    Task {
        outcome: Some(Outcome { text: "done".to_owned(), ..Outcome::new(Ending::Done, at) }),
        ..open_task(id, lane, at)
    }
}

/// A turn of a task as three rows of its lane's journal, from this number on; with the answer to a call.
fn turn(task: &Task, first: u64, at: Timestamp) -> Writes {
    let turn: TurnId = format!("turn-{}", task.id).into();
    let event =
        |seq, fact| HistoryEvent { seq, turn: turn.clone(), timestamp: at, fact, redacted: false };
    let start = Fact::TurnStart {
        task_ids: vec![task.id.clone()],
        team: task.lane.team.clone(),
        topic: task.lane.topic.clone(),
        source_channel: None,
        attempt: 1,
        redelivered: false,
        sdk: String::new(),
        provider: String::new(),
        model: String::new(),
        prompt_hash: String::new(),
        toolset_hash: String::new(),
        cause: None,
        root: None,
        idle: None,
    };
    let call = Fact::ToolCall {
        id: "c1".into(),
        name: "delegate_task".to_owned(),
        args: serde_json::json!({}),
        step: 1,
        effect: Effect::Idempotent,
        idempotency_key: format!("{turn}:1:0"),
    };
    let end = Fact::TurnEnd {
        outcome: Ending::Done,
        code: None,
        message: None,
        text: "done".to_owned(),
        steps: 1,
        usage: Usage::default(),
        duration_ms: 1,
    };
    [start, call, end]
        .into_iter()
        .zip(first..)
        .fold(Writes::new(), |writes, (fact, seq)| {
            writes.events(&task.lane, task.generation, &[event(seq, fact)])
        })
        .put_at(&format!("{turn}:1:0"), &Answer(&"given"))
}

fn write(disk: &Disk, writes: Writes) {
    disk.mount(None).commit(&writes.batch().unwrap()).unwrap();
}

/// A pass over what is due.
fn new_pass() -> Pass {
    Pass::new(Arc::new(Keeps::default()), Terms::default(), NOW)
}

/// A pass over everything.
fn whole_pass() -> Pass {
    Pass::whole(Arc::new(Keeps::default()), Terms::default(), NOW)
}

/// Makes a pass whose slices look at so many records.
fn make_in_slices(disk: &Disk, mut pass: Pass, records: usize) -> (Removed, usize) {
    let mounted = disk.mount(None);
    let mut slices = 0;
    loop {
        let mut seen = 0;
        let slice = pass.slice(&*mounted, &mut || {
            seen += 1;
            seen >= records
        });
        let slice = slice.unwrap();
        slices += 1;
        mounted.commit(&slice.writes.batch().unwrap()).unwrap();
        if slice.last {
            return (pass.removed(), slices);
        }
    }
}

fn pass(disk: &Disk) -> Removed {
    make_in_slices(disk, new_pass(), usize::MAX).0
}

/// A store with old and young rows of every kind.
fn full_store() -> Disk {
    let disk = Disk::default();
    let news = lane("news", None);
    let (old, young) =
        (ended("task-old", news.clone(), ago(91)), ended("task-young", news.clone(), ago(80)));
    let mut writes = Writes::new()
        .put(&TeamRecord { name: "news".into(), ..TeamRecord::main(ago(400)) })
        .put(&FinishedTask::of(&old))
        .and(turn(&old, 1, ago(91)))
        .put(&FinishedTask::of(&young))
        .and(turn(&young, 4, ago(80)))
        .put_at(&"x".to_owned(), &Fleeting(1));
    for (id, days) in [("old", 366), ("young", 350)] {
        writes = writes.put(&Audit {
            id: id.to_owned(),
            at: ago(days),
            actor: "operator".into(),
            action: "approval.decide".to_owned(),
            target: "apr-1".to_owned(),
            from: "api".to_owned(),
            outcome: "ok".to_owned(),
            call: None,
        });
    }
    for (number, days) in [(1, 91), (2, 80)] {
        let event = InboxEvent {
            id: number.to_string(),
            text: "done".to_owned(),
            label: Label::Trusted,
            at: ago(days),
            audience: None,
        };
        writes = writes.put_at(&(LaneKey::new(&news, 1), number), &event);
    }
    for (id, days, read) in [("n-old", 91, true), ("n-unread", 91, false), ("n-new", 80, true)] {
        writes = writes.put(&notice(id, days, read));
    }
    for days in [93, 80] {
        let day = ago(days).date()[..10].replace('-', "").parse().unwrap();
        writes = writes.put_at(&(DayKey(day), "task-1".into()), &TaskCalls(Tally::default()));
    }
    let trigger: TriggerId = "trg-1".into();
    writes = writes.put(&Trigger::new(
        trigger,
        TeamKey::first("news"),
        Definition::new("scan", Config::Schedule(Schedule::cron("0")), "scan"),
        "main",
        ago(300),
    ));
    for number in 0..60 {
        let run = run(number);
        writes = writes.put(&run).put_at(&run.id, &Payload("body".to_owned()));
    }
    write(&disk, writes);
    disk
}

fn run(number: u32) -> Run {
    let at = ago(200) + Duration::from_secs(60) * number;
    Run {
        id: format!("run-{number}").into(),
        trigger: "trg-1".into(),
        team: TeamKey::first("news"),
        cause: Cause::Schedule,
        due_at: at,
        fired_at: at,
        decision: Decision::SkippedOverlap,
        key: number.to_string(),
        count: None,
        task_id: None,
        replaces: None,
        outcome: None,
        reason: None,
        duration_ms: None,
        tokens: 0,
        cost_usd: None,
        notified: Notified::Nobody,
        cursors: BTreeMap::new(),
        payload_bytes: Some(1),
    }
}

/// The keys of all that may be removed.
fn keys(disk: &Disk) -> BTreeSet<String> {
    let kinds = [
        "audit/",
        "call/",
        "done/",
        "edge/fleeting",
        "edge/run",
        "end/",
        "hist/",
        "inbox/",
        "notice/",
        "trust/",
        "use-task/",
    ];
    kinds.iter().flat_map(|kind| disk.keys(kind)).collect()
}

/// OR-97, TR-44, CH-120
#[test]
fn what_is_old_goes_and_what_is_young_stays() {
    let disk = full_store();

    let removed = pass(&disk);

    let expected = Removed {
        tasks: 1,
        journal: 3,
        runs: 10,
        inbox: 2,
        asked: 0,
        audit: 1,
        usage: 1,
        edges: 1,
    };
    assert_eq!(removed, expected);
    assert_eq!(disk.keys("done"), ["done/task-young"]);
    assert_eq!(disk.keys("end/").len(), 1);
    assert_eq!(disk.keys("call"), ["call/turn-task-young:1:0"]);
    assert_eq!(disk.keys("hist").len(), 3);
    assert_eq!(disk.keys("inbox").len(), 1);
    assert_eq!(disk.keys("use-task").len(), 1);
    assert_eq!(disk.keys("notice"), ["notice/n-new", "notice/n-unread"]);
    assert_eq!(disk.keys("edge/run/").len(), 50);
    assert_eq!(disk.keys("edge/run.payload").len(), 50);
    assert_eq!(disk.keys("edge/fleeting").len(), 0);
    assert_eq!(pass(&disk), Removed::default());
}

/// OR-97, TR-44: nobody looks at the last runs of a trigger that was deleted.
#[test]
fn old_runs_of_a_deleted_trigger_go() {
    let disk = full_store();
    let young = Run { fired_at: ago(80), ..run(61) };
    write(&disk, Writes::new().put(&young));
    let trigger = scan::<Trigger>(&*disk.mount(None), Range::all()).unwrap().remove(0);
    write(&disk, removed(&trigger));

    let removed = pass(&disk);

    assert_eq!(removed.runs, 60);
    assert_eq!(disk.keys("edge/run/").len(), 1);
}

/// OR-97: what was spent and used on a day has an end too.
#[test]
fn old_days_of_usage_go() {
    let disk = Disk::default();
    let day = |days| {
        let date = ago(days).date()[..10].replace('-', "");
        DayKey(date.parse().unwrap())
    };
    let of_team = |days| (day(days), Life(TeamKey::first("news")));
    let writes = [93, 80].into_iter().fold(Writes::new(), |writes, days| {
        let row = SpentRow { own: Spent::default(), above: None };
        writes
            .put_at(&of_team(days), &row)
            .put_at(&of_team(days), &Raised(1))
            .put_at(&(day(days), "news".into()), &Warned(true))
    });
    let writes = [368, 93].into_iter().fold(writes, |writes, days| {
        let (DayKey(number), ends_at) = (day(days), Timestamp(0));
        let caller = budget::Caller {
            team: TeamKey::first("news"),
            profile: "default".to_owned(),
            model: "model".to_owned(),
        };
        let of_day = budget::Day { number, ends_at };
        let calls = spending::calls(of_day, &caller, &Tally::default(), &Spent::default());
        let purpose = (day(days), "titles".to_owned());
        writes.and(calls).put_at(&purpose, &PurposeCalls::default())
    });
    write(&disk, writes);

    assert_eq!(pass(&disk).usage, 5);
    let left = ["spend", "raise", "warned", "use", "use-for"];
    assert_eq!(left.map(|kind| disk.keys(&format!("{kind}/")).len()), [1; 5]);
}

/// OR-97, SC-112: a damaged record of a task keeps the journal of its turn, and nothing else.
#[test]
fn a_damaged_task_does_not_stop_the_pass() {
    let disk = full_store();
    let mounted = disk.mount(None);
    mounted.tear(key_of(FinishedTask::KIND, &TaskId::from("task-young")));
    let mut pass = new_pass();

    let mut last = false;
    while !last {
        let slice = pass.slice(&*mounted, &mut || false).unwrap();
        mounted.commit(&slice.writes.batch().unwrap()).unwrap();
        last = slice.last;
    }

    assert_eq!((pass.removed().tasks, pass.removed().runs), (1, 10));
    assert_eq!(disk.keys("hist").len(), 3);
}

/// CH-120: that somebody was let in is known for as long as audits are kept, also if their task is not.
#[test]
fn a_task_that_goes_leaves_the_decision_of_the_trust_gate() {
    for (days, left) in [(100, 1), (366, 0)] {
        let disk = Disk::default();
        let mut task = ended("task-said", lane("main", Some("t-1")), ago(days));
        task.source =
            Some(Source { channel: "ws:1".into(), message: None, topic: None, notify: None });
        task.admission = Some(Admission {
            channel_type: ChannelType::Ws,
            asserted_by: None,
            listener: None,
            reason: Reason::CliBypass,
        });
        write(&disk, Writes::new().put(&FinishedTask::of(&task)));

        pass(&disk);

        assert_eq!(disk.keys("done").len(), 0);
        assert_eq!(disk.keys("trust/audit").len(), left);
    }
}

/// A message in a topic of the main team, answered at once.
fn said(id: &str, topic: &str, at: Timestamp) -> Task {
    let source = Source {
        channel: "ws:1".into(),
        message: Some(format!("m-{id}").into()),
        topic: Some(TopicRef { id: topic.into(), name: topic.to_owned() }),
        notify: None,
    };
    Task { source: Some(source), ..ended(id, lane("main", Some(topic)), at) }
}

fn logged(task: &Task) -> Writes {
    let key = ConversationEntry::key_of(task).unwrap();
    Writes::new().put(&FinishedTask::of(task)).put_at(&key, &ConversationEntry::Message)
}

fn told(topic: &str, at: Timestamp) -> Writes {
    let told = Notification::new(NotificationKind::Task, "ops".into(), "so".to_owned(), "");
    let key = (topic.to_owned(), at, "ops".to_owned());
    Writes::new().put_at(&key, &ConversationEntry::Notification(told))
}

/// What the log of conversations tells of, in its order: tasks, and teams that told something.
fn log(disk: &Disk) -> Vec<String> {
    let entries = scan_keyed::<ConversationEntry>(&*disk.mount(None), Range::all()).unwrap();
    entries.into_iter().map(|((_, _, id), _)| id).collect()
}

/// CH-92: what was said in a topic is kept as long as its task, and what was told for as long.
#[test]
fn an_entry_of_a_conversation_goes_with_its_task() {
    let disk = Disk::default();
    let (old, young) = (said("task-old", "t-1", ago(91)), said("task-young", "t-1", ago(80)));
    write(&disk, logged(&old).and(logged(&young)));
    write(&disk, told("t-1", ago(92)).and(told("t-1", ago(79))));
    // One that is still needed keeps its words.
    let root = said("task-root", "t-1", ago(100));
    let ancestor = Ancestor { task: root.id.clone(), team: "main".into() };
    let mut open = open_task("task-open", lane("news", None), ago(2));
    open.lineage = Some(Lineage { root: root.id.clone(), path: vec![ancestor] });
    write(&disk, logged(&root).put(&open));

    let removed = pass(&disk);

    assert_eq!((removed.tasks, removed.inbox), (1, 1));
    assert_eq!(log(&disk), ["task-root", "task-young", "ops"]);
    assert_eq!(disk.keys("done"), ["done/task-root", "done/task-young"]);
}

/// CH-160: a former version kept no log, and its conversations are shown all the same while their topics are there.
#[test]
fn messages_of_a_former_version_get_their_entries_once() {
    let disk = Disk::default();
    let topic = Topic::new("t-1".into(), "billing".to_owned(), ago(80));
    let tasks = [
        said("task-1", "t-1", ago(80)),
        said("task-2", "t-1", ago(70)),
        said("task-gone", "t-9", ago(70)),
        said("task-old", "t-1", ago(91)),
        ended("task-other", lane("main", Some("t-1")), ago(70)),
    ];
    let writes = Writes::new().put_at(&topic.key(&"ws:1".into()), &topic);
    write(&disk, tasks.iter().map(FinishedTask::of).fold(writes, |writes, task| writes.put(&task)));

    make_in_slices(&disk, whole_pass(), usize::MAX);
    let first = log(&disk);
    let keys = disk.keys("");
    make_in_slices(&disk, whole_pass(), usize::MAX);

    assert_eq!(first, ["task-1", "task-2"]);
    assert_eq!(disk.keys(""), keys);
}

/// OR-97: the slices change nothing about what is removed.
#[test]
fn slices_of_any_size_remove_the_same() {
    let whole = full_store();
    pass(&whole);

    for records in [1, 2, 3, 7] {
        for pass in [new_pass(), whole_pass()] {
            let disk = full_store();
            let (removed, slices) = make_in_slices(&disk, pass, records);

            assert!(slices > 60 / records, "{slices}");
            assert_eq!(removed.tasks + removed.journal + removed.runs, 14);
            assert_eq!(keys(&disk), keys(&whole), "{records}");
        }
    }
}

/// OR-97, SC-117: of tasks, journals, runs and what teams told, a pass looks at what it removes, however much is kept. What
/// is little, such as topics, notices, approvals and questions, it looks through.
#[test]
fn a_pass_looks_at_those_tasks_journals_and_runs_that_are_due() {
    let looks = |kept: u32| {
        let disk = full_store();
        for number in 0..kept {
            let message = said(&format!("task-said-{number}"), "t-1", ago(10));
            let session = lane("news", Some(&format!("agent:turn-{number}:1:0")));
            let agent = ended(&format!("task-agent-{number}"), session, ago(10));
            let fired_at = ago(10) + Duration::from_secs(1) * number;
            let writes = logged(&message)
                .and(turn(&message, 1 + 3 * u64::from(number), ago(10)))
                .put(&FinishedTask::of(&agent))
                .and(turn(&agent, 1, ago(10)))
                .and(told("t-1", fired_at))
                .put(&Run { fired_at, ..run(1_000 + number) });
            write(&disk, writes);
        }
        let (mounted, mut pass, mut looks) = (disk.mount(None), new_pass(), 0);
        loop {
            let slice = pass.slice(&*mounted, &mut || {
                looks += 1;
                false
            });
            let slice = slice.unwrap();
            mounted.commit(&slice.writes.batch().unwrap()).unwrap();
            if slice.last {
                assert_eq!((pass.removed().tasks, pass.removed().journal), (1, 3));
                return looks;
            }
        }
    };

    assert_eq!(looks(60), looks(200));
}

/// OR-97: no commit of a slice is large, however much is old.
#[test]
fn a_slice_removes_a_bounded_number_of_records() {
    let disk = Disk::default();
    let tasks = (0..1_000).map(|n| ended(&format!("task-{n}"), lane("news", None), ago(100)));
    write(&disk, tasks.fold(Writes::new(), |writes, task| writes.put(&FinishedTask::of(&task))));
    let mounted = disk.mount(None);
    let mut pass = new_pass();
    let mut largest = 0;

    loop {
        let slice = pass.slice(&*mounted, &mut || false).unwrap();
        let batch = slice.writes.batch().unwrap();
        largest = largest.max(batch.changes.len());
        mounted.commit(&batch).unwrap();
        if slice.last {
            break;
        }
    }

    assert!(largest <= 202, "{largest}");
    assert_eq!(disk.keys("done").len() + disk.keys("end/").len(), 0);
}

/// OR-97: a row still needed by an open task stays, with its journal.
#[test]
fn what_an_open_task_comes_of_stays() {
    let disk = Disk::default();
    let (root, parent) = (
        ended("task-root", lane("main", Some("t-1")), ago(100)),
        ended("task-parent", lane("news", None), ago(99)),
    );
    let stranger = ended("task-stranger", lane("news", None), ago(99));
    let mut open = open_task("task-open", lane("press", None), ago(1));
    open.lineage = Some(Lineage {
        root: root.id.clone(),
        path: vec![Ancestor { task: parent.id.clone(), team: "news".into() }],
    });
    let writes = Writes::new()
        .put(&FinishedTask::of(&root))
        .and(turn(&root, 1, ago(100)))
        .put(&FinishedTask::of(&stranger))
        .and(turn(&stranger, 1, ago(99)))
        .put(&FinishedTask::of(&parent))
        .and(turn(&parent, 4, ago(99)))
        .put(&open);
    write(&disk, writes);

    let removed = pass(&disk);

    assert_eq!((removed.tasks, removed.journal), (1, 3));
    assert_eq!(disk.keys("done"), ["done/task-parent", "done/task-root"]);
    assert_eq!(disk.keys("call"), ["call/turn-task-parent:1:0", "call/turn-task-root:1:0"]);
}

/// OR-97: what an open approval is about stays; a decided one holds nothing back.
#[test]
fn what_an_open_approval_is_about_stays() {
    for pending in [true, false] {
        let disk = Disk::default();
        let task = ended("task-asked", lane("news", None), ago(100));
        let mut approval = asked::approval(&task, NOW);
        if !pending {
            approval.status = Status::Denied;
        }
        write(&disk, Writes::new().put(&FinishedTask::of(&task)).put(&approval));

        pass(&disk);

        assert_eq!(disk.keys("done").len(), usize::from(pending));
        assert_eq!(disk.keys("apr/").len(), 1);
    }
}

fn question(id: &str, task: &Task, status: QuestionStatus, at: Timestamp) -> Question {
    let answered_at = (status == QuestionStatus::Answered).then_some(at);
    Question { status, answered_at, ..asked::question(id, task, at) }
}

/// OR-97: what was decided and answered goes as ended tasks do; what waits stays, and so does what is of work that is kept.
#[test]
fn approvals_and_questions_that_are_over_go() {
    let disk = Disk::default();
    let task = ended("task-asked", lane("news", None), ago(100));
    let open = open_task("task-open", lane("news", None), ago(100));
    let waiting = ended("task-waiting", lane("news", None), ago(100));
    let approval = |id: &str, short: &str, of: &Task, status, days| Approval {
        id: id.into(),
        short_id: short.to_owned(),
        status,
        created_at: ago(days),
        expires_at: ago(days) + DAY,
        resolved_at: (status != Status::Pending).then(|| ago(days)),
        ..asked::approval(of, NOW)
    };
    for (id, short, of, status, days) in [
        ("apr-old", "oldold", &task, Status::Denied, 91),
        ("apr-former", "thrice", &task, Status::Expired, 92),
        ("apr-now", "thrice", &task, Status::Denied, 80),
        ("apr-open", "openop", &waiting, Status::Pending, 91),
        ("apr-needed", "needed", &open, Status::Approved, 91),
    ] {
        write(&disk, Writes::new().put(&approval(id, short, of, Status::Pending, days)));
        write(&disk, Writes::new().put(&approval(id, short, of, status, days)));
    }
    for (id, of, status, days) in [
        ("qst-old", &task, QuestionStatus::Answered, 91),
        ("qst-expired", &task, QuestionStatus::Expired, 92),
        ("qst-now", &task, QuestionStatus::Answered, 80),
        ("qst-open", &task, QuestionStatus::Open, 91),
        ("qst-needed", &open, QuestionStatus::Answered, 91),
    ] {
        write(&disk, Writes::new().put(&question(id, of, status, ago(days))));
    }
    write(&disk, Writes::new().put(&open));

    let removed = pass(&disk);

    assert_eq!(removed.asked, 4);
    assert_eq!(disk.keys("apr/"), ["apr/apr-needed", "apr/apr-now", "apr/apr-open"]);
    let short = ["needed", "openop", "thrice"].map(|id| format!("apr-short/{id}"));
    assert_eq!(disk.keys("apr-short/"), short);
    assert_eq!(disk.keys("qst/"), ["qst/qst-needed", "qst/qst-now", "qst/qst-open"]);
}

fn notice(id: &str, days: u32, read: bool) -> Notice {
    let (kind, text) = (NoticeKind::Report, String::new());
    Notice { id: id.into(), kind, team: None, text, refs: Vec::new(), at: ago(days), read }
}

/// OP-39: a notice that nobody reads goes with the lines of audits.
#[test]
fn notices_that_nobody_read_have_an_end() {
    let disk = Disk::default();
    for (id, days) in [("n-old", 366), ("n-young", 364)] {
        write(&disk, Writes::new().put(&notice(id, days, false)));
    }

    pass(&disk);

    assert_eq!(disk.keys("notice"), ["notice/n-young"]);
}

/// OP-39: also where lines of audits are kept for less long than tasks.
#[test]
fn notices_that_nobody_read_stay_as_long_as_those_that_were_read() {
    let disk = Disk::default();
    for (id, days, read) in [("n-old", 91, false), ("n-read", 80, true), ("n-unread", 80, false)] {
        write(&disk, Writes::new().put(&notice(id, days, read)));
    }
    let terms = Terms { audit: 30 * DAY, ..Terms::default() };

    let pass = Pass::new(Arc::new(Keeps::default()), terms, NOW);
    make_in_slices(&disk, pass, usize::MAX);

    assert_eq!(disk.keys("notice"), ["notice/n-read", "notice/n-unread"]);
}

/// OR-97: nothing is left of the sessions of a team that is gone, also where its tasks went before it.
#[test]
fn the_journal_of_a_team_that_is_gone_goes_to_its_last_row() {
    let disk = Disk::default();
    let gone =
        TeamRecord { name: "gone".into(), state: TeamState::Removed, ..TeamRecord::main(ago(400)) };
    let task = ended("task-gone", lane("gone", None), ago(100));
    let session = task.lane_key().session_id();
    let writes = turn(&task, 1, ago(100)).put(&gone).put_at(&session, &Began(ago(100)));
    write(&disk, writes);

    pass(&disk);

    assert_eq!(disk.keys("hist").len() + disk.keys("call").len() + disk.keys("began").len(), 0);
}

/// OR-97: a session of which the journal was written a moment after its task had ended goes with the task.
#[test]
fn a_journal_that_is_a_little_younger_than_its_task_goes_with_it() {
    let disk = Disk::default();
    let session = lane("news", Some("agent:turn-1:1:0"));
    let task = ended("task-1", session, ago(90) - Duration::from_secs(1));
    write(&disk, turn(&task, 1, ago(90)).put(&FinishedTask::of(&task)));

    pass(&disk);

    let rows = scan::<Piece<'_>>(&*disk.mount(None), Range::all()).unwrap();
    assert_eq!((disk.keys("done").len(), rows), (0, Vec::new()));
}

/// OR-97, EN-51: what was imported or brought back has no task to go with, and is kept as long as what has.
#[test]
fn a_journal_without_tasks_stays_until_its_own_time() {
    let disk = Disk::default();
    let session = |name: &str| lane("news", Some(&format!("agent:{name}:1:0")));
    for (name, at) in [("old", ago(91)), ("young", ago(90) + Duration::from_secs(60 * 60))] {
        let task = ended(&format!("task-{name}"), session(name), at);
        write(&disk, turn(&task, 1, at));
    }

    let removed = make_in_slices(&disk, whole_pass(), usize::MAX).0;

    assert_eq!(removed.journal, 3);
    assert_eq!(disk.keys("hist").len(), 3);
    assert_eq!(disk.keys("call"), ["call/turn-task-young:1:0"]);
}

/// OR-97, MV-06: memory is read for ever, and tells by which task it was written.
#[test]
fn what_a_memory_tells_of_stays() {
    let disk = Disk::default();
    let task = ended("task-told", lane("news", None), ago(100));
    let writes = Writes::new()
        .put(&FinishedTask::of(&task))
        .and(turn(&task, 1, ago(100)))
        .put_at(&"m1".to_owned(), &Chain(task.id.clone()));
    write(&disk, writes);

    pass(&disk);

    assert_eq!(disk.keys("done"), ["done/task-told"]);
    assert_eq!(disk.keys("hist").len(), 3);
}

/// OR-97: closed sessions go whole; where somebody may go on, the numbers of events go on too.
#[test]
fn the_newest_row_of_a_lane_stays_while_the_lane_may_go_on() {
    let disk = Disk::default();
    let lanes = [
        lane("main", Some("t-known")),
        lane("main", Some("t-gone")),
        lane("news", None),
        lane("news", Some("agent:turn-1:1:0")),
        lane("gone", None),
    ];
    let topic = Topic::new("t-known".into(), "known".to_owned(), ago(100));
    let writes = Writes::new()
        .put(&TeamRecord { name: "news".into(), ..TeamRecord::main(ago(400)) })
        .put_at(&topic.key(&"ws:1".into()), &topic);
    let writes = lanes.into_iter().enumerate().fold(writes, |writes, (n, lane)| {
        let task = ended(&format!("task-{n}"), lane, ago(100));
        writes.put(&FinishedTask::of(&task)).and(turn(&task, 1, ago(100)))
    });
    write(&disk, writes);

    pass(&disk);

    let number = format!("{}.", "/".repeat(7));
    let left = ["main/t-known", "news/main"].map(|lane| format!("hist/{lane}/{number}"));
    assert_eq!(disk.keys("hist"), left);
}

/// A world shortly before [`NOW`], on the disk of [`full_store`].
fn world() -> World {
    let mut world = World::new(|_| vec![Play::Say("done"), Play::Answer]);
    // A world begins on the twelfth day.
    world.clock.advance(1_988 * DAY);
    world.disk = full_store();
    world
}

/// Waits until the scheduler has done it as often.
async fn done(world: &World, since: Option<Timestamp>) -> Timestamp {
    for _ in 0..20_000 {
        let found = last(&*world.disk.mount(None)).unwrap();
        if let Some(found) = found
            && since.is_none_or(|since| found.at > since)
        {
            return found.at;
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    panic!("it was not done");
}

fn minute_of_day(at: Timestamp) -> u32 {
    u32::try_from(at.0 / 60_000 % (24 * 60)).unwrap()
}

/// OR-97: at the same moment of each day, without anyone asking.
#[actix::test]
async fn it_is_done_once_a_day() {
    let world = world();
    let _spine: Spine = world.start();

    let first = done(&world, None).await;
    let second = done(&world, Some(first)).await;
    let third = done(&world, Some(second)).await;

    assert_eq!(minute_of_day(second), super::MINUTE_OF_DAY);
    assert_eq!(minute_of_day(third), super::MINUTE_OF_DAY);
    let day = |at: Timestamp| at.0 / 86_400_000;
    assert_eq!(day(third), day(second) + 1);
    assert_eq!(world.disk.keys("done"), ["done/task-young"]);
    let emptied = world.outside.keeps.emptied.lock().unwrap().clone();
    assert_eq!(emptied.last(), Some(&(third - 7 * DAY)));
}

/// OR-97: a night in which the service did not run is made up for soon after its start.
#[actix::test]
async fn a_missed_night_is_made_up_for() {
    let world = world();
    let spine = world.start();
    let first = done(&world, None).await;
    spine.scheduler.send(Drain).await.unwrap();
    spine.retention.send(Drain).await.unwrap();
    world.clock.advance(3 * DAY);
    let began = world.clock.now();

    let _again = world.start();
    let second = done(&world, Some(first)).await;

    assert!(second.since(began) <= 2 * super::START_DELAY);
}

/// OR-97: settings that cannot be read remove nothing.
#[actix::test]
async fn without_settings_nothing_is_removed() {
    let world = world();
    let before = keys(&world.disk);
    *world.outside.keeps.terms.lock().unwrap() = Err("config.yaml is wrong".to_owned());
    let _spine = world.start();

    tokio::time::sleep(2 * DAY).await;

    assert_eq!(keys(&world.disk), before);
}

/// OR-97: a kill at any commit leaves a store that everything can be read from, and the next time
/// removes the rest.
#[actix::test]
async fn a_kill_in_the_middle_leaves_a_consistent_store() {
    let whole = full_store();
    pass(&whole);
    let crashes = (0..8).flat_map(|n| [Crash::Before(n), Crash::After(n)]);

    for crash in crashes {
        let world = world();
        let doomed = world.start_doomed(crash);
        tokio::time::sleep(DAY / 2).await;
        drop(doomed);

        let mounted = world.disk.mount(None);
        let recovered = spine::recover(&*mounted).unwrap();
        assert_eq!(recovered.tasks, []);
        for task in world.disk.keys("done/") {
            let id = task.trim_start_matches("done/");
            let index = world.disk.keys("end/");
            assert!(index.iter().any(|key| key.ends_with(id)), "{crash:?} {task}");
            let answer = format!("call/turn-{id}:1:0");
            assert_eq!(world.disk.keys(&answer).len(), 1, "{crash:?} {task}");
        }
        let _again = world.start();
        done(&world, None).await;
        assert_eq!(world.disk.keys("done"), whole.keys("done"), "{crash:?}");
        assert_eq!(world.disk.keys("hist"), whole.keys("hist"), "{crash:?}");
    }
}

/// OR-97: what a pass has left that looks at what is due and was broken off, the next one finds.
#[actix::test]
async fn what_a_broken_pass_left_is_found_by_the_next() {
    let whole = full_store();
    pass(&whole);

    for crash in (0..8).map(Crash::After) {
        let world = world();
        let before = Done { at: ago(2), removed: Removed::default() };
        write(&world.disk, Writes::new().put_at(&WHOLE.to_owned(), &before));
        let doomed = world.start_doomed(crash);
        tokio::time::sleep(DAY / 2).await;
        drop(doomed);

        let _again = world.start();
        done(&world, None).await;

        for kind in ["done", "hist", "call", "end/"] {
            assert_eq!(world.disk.keys(kind), whole.keys(kind), "{crash:?}");
        }
    }
}

/// OR-97, EN-51: a journal that has no task to go with is looked at once it was imported.
#[actix::test]
async fn an_import_has_the_next_pass_look_at_all() {
    let session = lane("news", Some("agent:turn-1:1:0"));
    let imported = turn(&ended("task-imported", session, ago(100)), 1, ago(100));
    let left = async |writes: Writes| {
        let world = world();
        let before = Done { at: ago(2), removed: Removed::default() };
        write(&world.disk, Writes::new().put_at(&WHOLE.to_owned(), &before));
        write(&world.disk, writes);
        let _spine = world.start();
        done(&world, None).await;
        world.disk.keys("call/turn-task-imported").len()
    };

    assert_eq!(left(imported.clone()).await, 1);
    assert_eq!(left(imported.and(look_at_all())).await, 0);
}

/// OR-97: a message that comes while it is done is answered as ever.
#[actix::test]
async fn work_goes_on_meanwhile() {
    let world = world();
    let spine = world.start();
    let client = world.connect(&spine);

    tokio::time::sleep(Duration::from_secs(59 * 60 + 59)).await;
    for n in 0..50 {
        let id = format!("m{n}");
        client.say(&id, "hello");
        let heard = client.hear_end_of(&id).await;
        assert_eq!(heard.last().unwrap(), &format!("done {id}: done"));
    }

    done(&world, None).await;
}

/// CH-91, EN-48: that a topic was deleted is known until its transcript is gone too; its records do not wait for that.
#[actix::test]
async fn a_transcript_that_stays_keeps_the_deletion_open() {
    let world = World::new(|_| vec![Play::Answer]);
    let deleted = DeletedTopic { channel: "ws:1".into(), created_at: ago(2) };
    let topics = ["t-1", "t-2"].map(TopicId::from);
    let task = said("task-1", "t-1", ago(1));
    let marks = topics.iter().fold(logged(&task), |writes, id| writes.put_at(id, &deleted));
    write(&world.disk, marks);
    let keeps = world.outside.keeps.clone();
    *keeps.transcripts.lock().unwrap() =
        ["main:t-1", "main:t-2", "main:t-3"].map(str::to_owned).to_vec();
    *keeps.stuck.lock().unwrap() = Some("no such luck".to_owned());
    let spine = world.start();

    let stuck = spine.retention.send(EraseDeleted).await.unwrap();
    let (marks, said) = (world.disk.keys("deleted/"), log(&world.disk));
    *keeps.stuck.lock().unwrap() = None;
    spine.retention.send(EraseDeleted).await.unwrap().unwrap();

    assert_eq!(stuck.unwrap_err().to_string(), "a transcript cannot be removed: no such luck");
    assert_eq!(marks, ["deleted/t-1", "deleted/t-2"]);
    assert_eq!(said, Vec::<String>::new());
    assert_eq!(world.disk.keys("deleted/"), Vec::<String>::new());
    assert_eq!(*keeps.transcripts.lock().unwrap(), ["main:t-3"]);
}

/// CH-91: what was put aside of a damaged record goes with the topic that it was of, and so do the words that a notice
/// shows of it; others stay.
#[actix::test]
async fn copies_of_damaged_records_go_with_their_topic() {
    let world = World::new(|_| vec![Play::Answer]);
    let records = ["t-1", "t-2"].map(|topic| {
        write(&world.disk, logged(&said(&format!("task-{topic}"), topic, ago(1))));
        let entries = Range::<ConversationEntry>::under(&(&topic.to_owned(),));
        entries.keys(&*world.disk.mount(None)).unwrap().remove(0)
    });
    for record in &records {
        world.disk.mount(None).put(record.clone(), Some(b"{\"text\": \"hush".to_vec()));
    }
    let shows = |notices: &[Notice]| -> Vec<bool> {
        notices.iter().map(|notice| notice.text.contains("hush")).collect()
    };
    let spine = world.start();
    let storage = world.disk.mount(None);
    let found = async |words: Vec<bool>| {
        for _ in 0..20_000 {
            let mut notices = scan::<Notice>(&*storage, Range::all()).unwrap();
            notices.sort_by_key(|notice| notice.refs.clone());
            if shows(&notices) == words {
                let rows = quarantined(&*storage).unwrap().into_iter();
                return rows.map(|row| row.record).collect::<Vec<_>>();
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("the notices are others");
    };
    spine.store.read(|storage| scan::<ConversationEntry>(storage, Range::all())).await.unwrap();
    let before: Vec<String> = found(vec![true, true]).await;

    let deleted = DeletedTopic { channel: "ws:1".into(), created_at: ago(2) };
    let mark = Writes::new().put_at(&TopicId::from("t-1"), &deleted);
    spine.store.commit(mark).await.unwrap();
    spine.retention.send(EraseDeleted).await.unwrap().unwrap();

    assert_eq!(before.len(), 2, "{before:?}");
    let after: Vec<String> = found(vec![false, true]).await;
    assert_eq!(after, [printable(&records[1])]);
    assert!(!world.disk.keys("").contains(&printable(&records[0])));
}
