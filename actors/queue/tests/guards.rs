//! What a turn may make other teams do: the guards of the queue, asked the way that tools ask.

use super::*;
use crate::queue::{
    causes::{Giver, Runaway},
    submit::{Overlap, Refusal, Submission, Submit},
};

/// Work for a team that has one lane.
fn for_team(name: &str, team: &str) -> Task {
    let lane = Lane {
        team: team.into(),
        topic: None,
    };
    Task {
        lane,
        kind: Kind::Delegate,
        ..task(name, "none")
    }
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
        giver: Some(Giver {
            task: above.id.clone(),
            step,
            words: words.to_owned(),
        }),
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
        let causes = self.store.read(reads::causes::<CauseCounts>);
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
    assert!(
        matches!(third, Err(Refusal::Runaway(Runaway::Loop(_)))),
        "{third:?}"
    );
    let notices = setting.store.read(reads::notices).await.unwrap();
    assert_eq!(notices.len(), 1);
}

/// OR-87: though at no time more than one of them is open.
#[actix::test]
async fn one_turn_leads_to_two_hundred_tasks_one_after_another() {
    let setting = set_up(Limits::default());
    let root = setting.root().await;

    for n in 0..200 {
        let answer = setting.asks(&root, n, &format!("question {n}")).await;
        assert!(answer.is_ok(), "{n}: {answer:?}");
    }
    let more = setting.asks(&root, 200, "one more").await;

    assert!(
        matches!(more, Err(Refusal::Runaway(Runaway::Fanout(_)))),
        "{more:?}"
    );
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
