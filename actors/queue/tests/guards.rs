//! What a turn may make other teams do: the guards of the queue, asked the way that tools ask.

use super::*;
use crate::{
    doubles::disk,
    inbox,
    queue::{
        causes::{Giver, Runaway},
        refusal::Refusal,
        submit::{Overlap, Submission, Submit},
    },
    room::Space,
    store::reads::{Range, scan, scan_keyed},
    task::{Task, WaitReason},
};

/// Work for a team that has one lane.
fn for_team(name: &str, team: &str) -> Task {
    let lane = Lane { team: team.into(), topic: None };
    Task { lane, kind: Kind::Delegate, deadline_at: Timestamp(100_000_000), ..task(name, "none") }
}

/// The same, made by the turn of another task.
fn made_by(above: &Task, name: &str, team: &str) -> Task {
    Task {
        lineage: Some(above.lineage_below()),
        reply_to: Some(above.lane.clone()),
        ..for_team(name, team)
    }
}

fn submit(above: &Task, task: Task, step: u32, words: &str, overlap: Option<Overlap>) -> Submit {
    Submit {
        task,
        writes: Writes::new(),
        overlap,
        giver: Some(Giver { task: above.id.clone(), step, words: words.to_owned() }),
    }
}

impl Setting {
    /// The turn of the main team that gives work to others.
    async fn root(&self) -> Task {
        self.enqueue("task-0", "t-1");
        self.settle().await;
        task("task-0", "t-1")
    }

    /// A team does what it was given, before the next is asked.
    async fn asks(&self, above: &Task, n: u32, words: &str) -> Result<Submission, Refusal> {
        let id = format!("task-0-{n}");
        let task = made_by(above, &id, "child");
        let asked = submit(above, task, n, words, None);
        let answer = self.queue.send(asked).await.unwrap();
        self.ends(&id).await;
        answer
    }

    async fn ends(&self, id: &str) {
        self.queue.do_send(Finished {
            task: id.into(),
            ending: Ending::Done,
            ran: Duration::ZERO,
            follow_up: None,
            told: Vec::new(),
        });
        self.settle().await;
    }

    async fn causes(&self) -> usize {
        self.settle().await;
        let causes = self.store.read(|storage| scan_keyed::<CauseCounts>(storage, Range::all()));
        causes.await.unwrap().len()
    }
}

/// OR-88: though each question has its answer before the next is asked.
#[actix::test]
async fn the_same_question_a_third_time_is_a_loop() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;

    let first = setting.asks(&root, 1, "Status?").await;
    let second = setting.asks(&root, 2, "status ?").await;
    let third = setting.asks(&root, 3, "STATUS?").await;

    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert!(matches!(third, Err(Refusal::Runaway(Runaway::Loop(_)))), "{third:?}");
    let notices = setting.store.read(disk::notices).await.unwrap();
    assert_eq!(notices.len(), 1);
}

/// SC-15, OR-87: though at no time more than one of them is open.
#[actix::test]
async fn one_turn_leads_to_two_hundred_tasks_one_after_another() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;

    for n in 0..200 {
        let answer = setting.asks(&root, n, &format!("question {n}")).await;
        assert!(answer.is_ok(), "{n}: {answer:?}");
    }
    let more = setting.asks(&root, 200, "one more").await;

    assert!(matches!(more, Err(Refusal::Runaway(Runaway::Fanout(_)))), "{more:?}");
}

/// OR-88: what a cause led to is forgotten with its last task, the first one included.
#[actix::test]
async fn a_cause_is_forgotten_when_its_first_task_has_ended_too() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;

    setting.asks(&root, 1, "Status?").await.unwrap();
    assert_eq!(setting.causes().await, 1);
    setting.ends("task-0").await;

    assert_eq!(setting.causes().await, 0);
}

impl Setting {
    /// A turn gives the child team a task, with words of its own.
    async fn gives(&self, above: &Task, id: &str, overlap: Overlap) -> Result<Submission, Refusal> {
        let task = made_by(above, id, "child");
        let asked = submit(above, task, 1, id, Some(overlap));
        let answer = self.queue.send(asked).await.unwrap();
        self.settle().await;
        answer
    }

    async fn open(&self) -> Vec<String> {
        let open = self.store.read(|storage| scan::<Task>(storage, Range::all())).await.unwrap();
        open.iter().map(|task| task.id.to_string()).collect()
    }

    fn stops(&self) -> usize {
        self.heard.0.lock().unwrap().stops
    }

    fn ended(&self) -> Vec<TaskId> {
        self.heard.0.lock().unwrap().ended.clone()
    }
}

/// OR-65: what waits ends at once, what runs is stopped, and the new task comes after them.
#[actix::test]
async fn replace_cancels_what_the_same_lane_gave_before() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;
    setting.gives(&root, "runs", Overlap::Allow).await.unwrap();
    setting.gives(&root, "waits", Overlap::Allow).await.unwrap();

    let answer = setting.gives(&root, "new", Overlap::Replace).await.unwrap();

    let Submission::Enqueued { in_flight } = answer else { unreachable!("{answer:?}") };
    assert_eq!(in_flight.len(), 2);
    assert_eq!((setting.stops(), setting.ended()), (1, vec!["waits".into()]));
    let leased = |setting: &Setting| {
        let leases = setting.leases();
        leases.iter().any(|(task, _)| task.as_str() == "new")
    };
    assert!(!leased(&setting));
    setting.ends("runs").await;
    assert!(leased(&setting));
}

/// OR-65: work of others is not the caller's to end.
#[actix::test]
async fn replace_leaves_other_work_alone() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;
    setting.gives(&root, "own", Overlap::Allow).await.unwrap();
    setting.queue.do_send(Enqueue { task: for_team("other", "child"), writes: Writes::new() });
    setting.settle().await;

    let answer = setting.gives(&root, "new", Overlap::Replace).await.unwrap();

    let Submission::NeedsConfirmation { in_flight, reason } = answer else {
        unreachable!("{answer:?}")
    };
    assert_eq!((in_flight.len(), reason), (2, Some("replace_targets_other_work")));
    assert_eq!((setting.stops(), setting.ended()), (0, Vec::new()));
    assert_eq!(setting.open().await, ["other", "own", "task-0"]);
}

/// OR-46: what is refused replaces nothing, whatever it is refused for.
#[actix::test]
async fn a_refusal_loses_no_work() {
    let setting = set_up(Limits { waiting_for_team: 1, ..Limits::default() });
    let root = setting.root().await;
    setting.gives(&root, "runs", Overlap::Allow).await.unwrap();
    let said_twice =
        |id: &str, overlap| submit(&root, made_by(&root, id, "child"), 2, "runs", overlap);

    setting.queue.send(said_twice("waits", None)).await.unwrap().unwrap();
    let full = setting.gives(&root, "new", Overlap::Replace).await;
    assert!(matches!(full, Err(Refusal::QueueFull(_))), "{full:?}");
    setting.ends("runs").await;
    let again = said_twice("again", Some(Overlap::Replace));
    let again = setting.queue.send(again).await.unwrap();
    setting.settle().await;

    assert!(matches!(again, Err(Refusal::Runaway(Runaway::Loop(_)))), "{again:?}");
    assert_eq!((setting.stops(), setting.ended()), (0, vec!["runs".into()]));
    assert!(setting.open().await.contains(&"waits".to_owned()));
}

/// SC-115: a turn goes on, and the work that it would give is refused while the disk has no room.
#[actix::test]
async fn without_room_no_new_task_is_stored() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;

    setting.store.room().set(Space::Full);
    let refused = setting.gives(&root, "first", Overlap::Allow).await;
    setting.store.room().set(Space::Enough);
    let taken = setting.gives(&root, "second", Overlap::Allow).await;

    assert_eq!(refused, Err(Refusal::DiskFull));
    assert!(matches!(taken, Ok(Submission::Enqueued { .. })), "{taken:?}");
    assert!(!setting.open().await.contains(&"first".to_owned()));
}

/// OR-65: stale is what runs without a sign in its journal, not what has waited for long.
#[actix::test]
async fn a_task_is_stale_ten_minutes_after_its_last_sign_of_life() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;
    setting.gives(&root, "first", Overlap::Allow).await.unwrap();
    setting.gives(&root, "second", Overlap::Allow).await.unwrap();
    let minutes = |minutes: u64| {
        let now = 1_000 + minutes * 60_000;
        setting.clock.set(Timestamp(now));
        now
    };
    let stale = async || {
        let team = Some("child".into());
        let open = setting.queue.send(crate::queue::submit::OpenTasks { team });
        let open = open.await.unwrap();
        open.iter().map(|open| open.stale).collect::<Vec<_>>()
    };
    let sign = async |seq, now| {
        let event = crate::history::HistoryEvent {
            seq,
            turn: "turn-1".into(),
            timestamp: Timestamp(now),
            fact: crate::history::Fact::AssistantText { text: "Looking.".to_owned(), step: 1 },
            redacted: false,
        };
        let lane = for_team("first", "child").lane;
        let writes = Writes::new().events(&lane, 1, &[event]);
        setting.store.commit(writes).await.unwrap();
    };

    let now = minutes(9);
    sign(1, now).await;
    minutes(11);
    assert_eq!(stale().await, [false, false]);
    minutes(20);
    assert_eq!(stale().await, [true, false]);

    // It waited for twenty minutes, and has only just begun.
    setting.ends("first").await;
    assert_eq!(stale().await, [false]);
}

/// OR-84, OR-30: no team begins a turn for what a former one of its name asked.
#[actix::test]
async fn a_result_for_a_team_that_is_gone_goes_to_the_operator() {
    let setting = set_up(Limits::default());
    setting.queue.do_send(Enqueue {
        task: Task {
            kind: Kind::Result,
            body: "Answer: go left.".to_owned(),
            ..for_team("task-1-end", "child")
        },
        writes: Writes::new(),
    });
    let counts = setting.settle().await;

    assert_eq!(setting.leases(), []);
    assert_eq!(counts.ended, [("child".into(), Kind::Result, Ending::Cancelled, 1)]);
    let notices = setting.store.read(disk::notices).await.unwrap();
    let [notice] = notices.as_slice() else { unreachable!("{notices:?}") };
    assert_eq!(notice.kind, crate::notice::NoticeKind::Orphan);
    assert!(notice.text.contains("go left"), "{}", notice.text);
}

/// EN-117: whoever waits for work of a team learns what becomes of it, once each time, without a turn for it.
#[actix::test]
async fn those_who_wait_for_a_team_find_news_of_it_in_their_inbox() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;
    for n in 1..3 {
        let task = made_by(&root, &format!("task-0-{n}"), "child");
        let asked = submit(&root, task, n, &format!("work {n}"), None);
        setting.queue.send(asked).await.unwrap().unwrap();
    }
    let pause = |paused| parking::SetState { team: "child".into(), paused, draining: false };

    for paused in [true, true, false] {
        setting.queue.do_send(pause(paused));
    }
    for uncounted in [true, false] {
        setting.queue.do_send(Orphaned { team: "child".into(), pause: Duration::ZERO, uncounted });
    }
    for _ in 0..2 {
        let (reason, note) = (WaitReason::Login, "no key".to_owned());
        setting.queue.do_send(parking::Hindered { team: "child".into(), reason, note });
    }
    setting.settle().await;

    let lane = root.lane.clone();
    let events = setting.store.read(move |storage| inbox::waiting(storage, &lane, 1));
    let texts: Vec<String> =
        events.await.unwrap().into_iter().map(|(_, event)| event.text).collect();
    let expected = ["team_paused", "team_resumed", "team_crashed", "needs_login"].map(|event| {
        format!(
            "[system] {{\"event\":\"{event}\",\"task_ids\":[\"task-0-1\",\"task-0-2\"],\"team\":\"child\"}}"
        )
    });
    assert_eq!(texts, expected);
    assert_eq!(setting.store.read(disk::notices).await.unwrap().len(), 1);
}
