//! Who may spend how much.

use super::*;
use crate::{
    doubles::disk::Disk, org::tree::Tree, spine::recover_spending, storage::Storage,
    store::records::Writes,
};

const DAY: Day = Day { number: 20_261_115, ends_at: Timestamp(1_000) };
const NEXT: Day = Day { number: 20_261_116, ends_at: Timestamp(2_000) };

fn line(caps: &[(&str, Caps)]) -> Line {
    caps.iter().map(|(team, caps)| ((*team).into(), *caps)).collect()
}

fn tokens(tokens: u64) -> Caps {
    Caps { tokens_per_day: Some(tokens), ..Caps::default() }
}

fn cost(tokens: u64) -> Spent {
    Spent { tokens, usd: tokens as f64 / 100.0 }
}

fn above(team: &str, task: &str) -> Ancestor {
    Ancestor { task: task.into(), team: team.into() }
}

fn request(task: Option<&str>) -> Request {
    Request {
        team: "main".into(),
        generation: 1,
        day: DAY.number,
        task: task.map(Into::into),
        spent: String::new(),
        waiting: "task-1".into(),
    }
}

fn per_task(usd: f64) -> Caps {
    Caps { usd_per_task: Some(usd), ..Caps::default() }
}

/// SE-141: what does not fit is not made, and what was set aside counts.
#[test]
fn a_call_is_refused_when_what_is_under_way_leaves_no_room() {
    let ledger = Ledger::default();
    let line = line(&[("main", tokens(100))]);

    let first = ledger.reserve(&line, &[], cost(60), DAY).unwrap();
    let second = ledger.reserve(&line, &[], cost(60), DAY);

    let overdrawn = second.unwrap_err();
    assert_eq!(overdrawn.team, "main".into());
    assert_eq!(overdrawn.until, Some(DAY.ends_at));
    ledger.settle(first, cost(10));
    assert!(ledger.reserve(&line, &[], cost(60), DAY).is_ok());
}

/// SE-140, SE-143: money is capped by day as tokens are, until the day ends or an operator allows more.
#[test]
fn a_call_beyond_the_money_of_the_day_is_refused_until_more_is_allowed() {
    let ledger = Ledger::default();
    let caps = Caps { usd_per_day: Some(1.0), ..Caps::default() };
    let line = line(&[("main", caps)]);
    let call = Spent { usd: 0.6, tokens: 1 };

    let _first = ledger.reserve(&line, &[], call, DAY).unwrap();
    let second = ledger.reserve(&line, &[], call, DAY).unwrap_err();
    ledger.raise(&request(None), DAY);
    let raised = ledger.reserve(&line, &[], call, DAY);
    let next_day = ledger.reserve(&line, &[], call, NEXT);

    assert_eq!((second.team, second.until, second.task), ("main".into(), Some(DAY.ends_at), None));
    assert_eq!(second.what, "0.60 of 1.00 USD today");
    assert!(raised.is_ok());
    assert!(next_day.is_ok());
}

/// OR-47, SE-140: the children together cannot outspend the root.
#[test]
fn children_draw_on_the_budget_of_the_root() {
    let ledger = Ledger::default();
    let root = ("main", tokens(100));
    let left = line(&[("left", tokens(90)), root]);
    let right = line(&[("right", Caps::default()), root]);

    let one = ledger.reserve(&left, &[], cost(80), DAY).unwrap();
    ledger.settle(one, cost(80));
    let other = ledger.reserve(&right, &[], cost(30), DAY).unwrap_err();

    assert_eq!(other.team, "main".into());
    assert_eq!(ledger.drawn(&"main".into(), DAY), cost(80));
    assert_eq!(ledger.drawn(&"right".into(), DAY), Spent::default());
}

/// SE-140, SE-143: the next day begins with nothing spent.
#[test]
fn a_new_day_opens_the_budget_again() {
    let ledger = Ledger::default();
    let line = line(&[("main", tokens(100))]);
    let spent = ledger.reserve(&line, &[], cost(100), DAY).unwrap();
    ledger.settle(spent, cost(100));

    assert!(ledger.reserve(&line, &[], cost(1), DAY).is_err());
    assert!(ledger.reserve(&line, &[], cost(1), NEXT).is_ok());
}

/// SE-143: the operator agrees, and is asked once a day.
#[test]
fn an_operator_who_agrees_allows_the_cap_once_more() {
    let ledger = Ledger::default();
    let line = line(&[("main", tokens(100))]);
    let spent = ledger.reserve(&line, &[], cost(100), DAY).unwrap();
    ledger.settle(spent, cost(100));

    assert!(ledger.asks(&"main".into(), None, DAY));
    assert!(!ledger.asks(&"main".into(), None, DAY));
    ledger.raise(&request(None), DAY);

    let more = ledger.reserve(&line, &[], cost(100), DAY).unwrap();
    ledger.settle(more, cost(100));
    assert!(ledger.reserve(&line, &[], cost(1), DAY).is_err());
    assert!(ledger.asks(&"main".into(), None, DAY));
}

/// SE-140: a task with all it led to.
#[test]
fn a_task_and_all_it_led_to_share_one_cap() {
    let ledger = Ledger::default();
    let caps = Caps { usd_per_task: Some(1.0), ..Caps::default() };
    let main = line(&[("main", caps)]);
    let child = line(&[("child", Caps::default()), ("main", caps)]);
    let below = [above("main", "task-1"), above("child", "task-2")];

    let spent = ledger.reserve(&child, &below, cost(80), DAY).unwrap();
    ledger.settle(spent, cost(80));

    assert!(ledger.reserve(&main, &[above("main", "task-1")], cost(30), DAY).is_err());
    assert!(ledger.reserve(&main, &[above("main", "task-9")], cost(30), DAY).is_ok());
}

/// SE-139: what was spent before a restart still counts.
#[test]
fn what_was_noted_before_counts_for_all_above() {
    let ledger = Ledger::default();
    ledger.recover(Some(&"child".into()), &["main".into()], cost(90), DAY);

    let line = line(&[("main", tokens(100))]);
    assert!(ledger.reserve(&line, &[], cost(20), DAY).is_err());
    assert!(ledger.reserve(&line, &[], cost(10), DAY).is_ok());
}

/// SE-140: what a task of another team cost in all is no matter of this team's cap.
#[test]
fn two_tasks_of_one_parent_have_a_cap_each() {
    let ledger = Ledger::default();
    let child = line(&[("child", per_task(0.5)), ("main", Caps::default())]);
    let of = |task: &str| [above("main", "root"), above("child", task)];

    let first = ledger.reserve(&child, &of("one"), cost(40), DAY).unwrap();
    ledger.settle(first, cost(40));

    let again = ledger.reserve(&child, &of("one"), cost(40), DAY);
    assert_eq!(again.unwrap_err().task, Some("one".into()));
    assert!(ledger.reserve(&child, &of("two"), cost(40), DAY).is_ok());
}

/// SE-141: a turn that was put away or died has nothing under way.
#[test]
fn what_nobody_settles_is_given_back() {
    let ledger = Ledger::default();
    let line = line(&[("child", tokens(100)), ("main", tokens(100))]);

    drop(ledger.reserve(&line, &[], cost(90), DAY).unwrap());

    assert_eq!(ledger.drawn(&"main".into(), DAY), Spent::default());
    assert!(ledger.reserve(&line, &[], cost(90), DAY).is_ok());
}

/// SE-143: an operator who agrees for a task agrees whatever the day is.
#[test]
fn the_cap_of_a_task_is_allowed_again_also_after_midnight() {
    let ledger = Ledger::default();
    let line = line(&[("main", per_task(1.0))]);
    let task = [above("main", "task-1")];
    let spent = ledger.reserve(&line, &task, cost(100), DAY).unwrap();
    ledger.settle(spent, cost(100));
    assert!(ledger.asks(&"main".into(), Some(&"task-1".into()), DAY));
    assert!(!ledger.asks(&"main".into(), Some(&"task-1".into()), NEXT));

    ledger.raise(&request(Some("task-1")), NEXT);

    assert!(ledger.reserve(&line, &task, cost(100), NEXT).is_ok());
    let other = [above("main", "task-2")];
    assert!(ledger.reserve(&line, &other, cost(101), NEXT).is_err());
}

/// OR-30: a team of the same name begins anew; those above it do not.
#[test]
fn a_team_that_is_made_again_has_spent_nothing() {
    let ledger = Ledger::default();
    let line = line(&[("child", tokens(100)), ("main", tokens(150))]);
    let spent = ledger.reserve(&line, &[], cost(100), DAY).unwrap();
    ledger.settle(spent, cost(100));

    ledger.forget(&"child".into());

    assert!(ledger.reserve(&line, &[], cost(60), DAY).is_err());
    assert!(ledger.reserve(&line, &[], cost(50), DAY).is_ok());
}

mod recovered {
    use super::*;
    use crate::{
        budget::records::{DayKey, Raised},
        doubles::disk::Disk,
        ids::TeamKey,
        org::{record::TeamRecord, tree::Tree},
        spine::recover_spending,
        storage::{Batch, Storage},
        store::{keys::Life, records::Writes},
    };

    fn of_day(name: &str, generation: u32) -> (DayKey, Life) {
        (DayKey(DAY.number), Life(TeamKey { name: name.into(), generation }))
    }

    fn tree(generation: u32) -> Tree {
        let main = TeamRecord::main(Timestamp(0));
        let child = TeamRecord {
            name: "child".into(),
            parent: Some("main".into()),
            generation,
            ..main.clone()
        };
        Tree::new([main, child])
    }

    /// OR-47, OR-30: a team that is gone has spent for those above, and not for its successor.
    #[test]
    fn what_a_team_spent_that_is_gone_counts_for_those_above() {
        let disk = Disk::default().mount(None);
        let line = line(&[("child", tokens(100)), ("main", tokens(100))]);
        let row = SpentRow::new(cost(80), &line);
        let writes = Writes::new()
            .put_at(&of_day("child", 1), &row)
            .put_at(&of_day("child", 1), &Raised(3))
            .put_at(&of_day("child", 2), &SpentRow::new(cost(5), &line));
        disk.commit(&writes.batch().unwrap()).unwrap();
        let ledger = Ledger::default();

        recover_spending(&*disk, &ledger, DAY, &tree(2)).unwrap();

        assert_eq!(ledger.drawn(&"main".into(), DAY).tokens, 85);
        assert_eq!(ledger.drawn(&"child".into(), DAY).tokens, 5);
    }

    /// OR-30, OR-47: the same of calls that were counted without a budget, and beside one.
    #[test]
    fn calls_of_a_team_that_is_gone_are_not_those_of_its_successor() {
        let disk = Disk::default().mount(None);
        let line = line(&[("child", tokens(100)), ("main", tokens(100))]);
        let calls = |team: &str, generation, tokens| {
            let team = TeamKey { name: team.into(), generation };
            let tally = Tally::of(&used(tokens, 0, 0, 0, 0.0), 1);
            records::calls(DAY, &Caller { team, ..caller("child") }, &tally, &Spent::default())
        };
        let writes = calls("child", 1, 80)
            .and(calls("gone", 1, 7))
            .and(calls("child", 2, 6))
            .put_at(&of_day("child", 2), &SpentRow::new(cost(5), &line));
        disk.commit(&writes.batch().unwrap()).unwrap();
        let ledger = Ledger::default();

        recover_spending(&*disk, &ledger, DAY, &tree(2)).unwrap();

        assert_eq!(ledger.drawn(&"child".into(), DAY).tokens, 6);
        assert_eq!(ledger.drawn(&"main".into(), DAY).tokens, 6);
        assert_eq!(ledger.drawn(&"gone".into(), DAY).tokens, 0);
    }

    /// Rows of old name neither a life nor the teams above.
    #[test]
    fn rows_of_old_are_read() {
        let disk = Disk::default().mount(None);
        let row =
            Writes::new().put_at(&of_day("child", 1), &SpentRow { own: cost(80), above: None });
        let Batch { changes, .. } = row.batch().unwrap();
        assert!(
            changes
                .iter()
                .all(|(_, value)| !String::from_utf8_lossy(value.as_ref().unwrap())
                    .contains("above"))
        );
        disk.commit(&Batch::from(changes)).unwrap();
        let ledger = Ledger::default();

        recover_spending(&*disk, &ledger, DAY, &tree(1)).unwrap();

        assert_eq!(ledger.drawn(&"main".into(), DAY), cost(80));
        assert_eq!(ledger.drawn(&"child".into(), DAY), cost(80));
    }
}

/// SC-15, SE-141: a thousand children that call at the same time, each call dearer than it was thought to
/// be. None spends more than one call beyond its own cap, and all together no more than one call each
/// beyond that of the root; then nothing more is made.
#[test]
fn a_thousand_children_overspend_by_one_call_each_at_most() {
    const CHILDREN: usize = 1_000;
    const THOUGHT: u64 = 10;
    const DEAR: u64 = 15;
    let ledger = Ledger::default();
    let root = ("main", tokens(20_000));
    let names: Vec<_> = (0..CHILDREN).map(|number| format!("child-{number}")).collect();
    let line_of = |name: &str| line(&[(name, tokens(25)), root]);

    std::thread::scope(|scope| {
        for names in names.chunks(CHILDREN / 8) {
            let (ledger, line_of) = (&ledger, &line_of);
            scope.spawn(move || {
                // All of these have a call under way before the first of them ends. A cap that holds ends it
                // after two rounds.
                for _ in 0..10 {
                    let begun = names.iter().map(|name| {
                        let line = line_of(name);
                        ledger.reserve(&line, &[], cost(THOUGHT), DAY)
                    });
                    let begun: Vec<_> = begun.flatten().collect();
                    if begun.is_empty() {
                        return;
                    }
                    for call in begun {
                        ledger.settle(call, cost(DEAR));
                    }
                }
            });
        }
    });

    let drawn = |name: &str| ledger.drawn(&name.into(), DAY).tokens;
    let most = names.iter().map(|name| drawn(name)).max().unwrap_or_default();
    assert!((DEAR..=25 + DEAR).contains(&most), "{most}");
    let all = drawn("main");
    let beyond = CHILDREN as u64 * (DEAR - THOUGHT);
    assert!((20_000 - THOUGHT..=20_000 + beyond).contains(&all), "{all}");
    assert_eq!(all, names.iter().map(|name| drawn(name)).sum::<u64>());
    for name in &names {
        assert!(ledger.reserve(&line_of(name), &[], cost(THOUGHT), DAY).is_err());
    }
}

fn used(input: u64, output: u64, cache_read: u64, cache_write: u64, usd: f64) -> Usage {
    Usage { input, output, cache_read, cache_write, cost_usd: Some(usd), ..Usage::default() }
}

fn caller(team: &str) -> Caller {
    Caller { team: TeamKey::first(team), profile: "default".to_owned(), model: "model".to_owned() }
}

/// SE-139: every kind of token is counted, once, and all of them together are what was spent.
#[test]
fn calls_add_up_by_each_kind_of_token_and_by_money() {
    let ledger = Ledger::default();

    let first = ledger.count(&caller("main"), &used(1, 20, 300, 4_000, 0.25), DAY);
    let second = ledger.count(&caller("main"), &used(2, 30, 400, 5_000, 0.5), DAY);

    let sum =
        Tally { input: 3, output: 50, cache_read: 700, cache_write: 9_000, requests: 2, usd: 0.75 };
    assert_eq!(first.unwrap().1, Spent { usd: 0.25, tokens: 4_321 });
    let (tally, spent) = second.unwrap();
    assert_eq!(tally, sum);
    assert_eq!(spent, Spent { usd: 0.75, tokens: 9_753 });
    assert_eq!(Spent::of(&used(1, 20, 300, 4_000, 0.25)), Spent { usd: 0.25, tokens: 4_321 });
}

/// SE-139: what is read from the cache, of all that is read; written tokens are no matter of it.
#[test]
fn the_cached_share_is_of_what_was_read() {
    let tally = Tally::of(&used(10, 1_000, 30, 20, 0.0), 1);

    assert_eq!(tally.cached_share(), 0.5);
    assert_eq!(Tally::default().cached_share(), 0.0);
}

/// SE-140
#[test]
fn a_day_is_told_as_a_date() {
    assert_eq!(DAY.date(), "2026-11-15");
}

/// SE-140: one cap is enough.
#[test]
fn caps_are_open_while_none_is_set() {
    assert!(Caps::default().is_open());
    assert!(!per_task(1.0).is_open());
}

/// SE-139: what a former process counted goes on, until the day is over.
#[test]
fn calls_of_a_former_process_go_on() {
    let ledger = Ledger::default();
    let before = Tally::of(&used(100, 10, 0, 0, 1.0), 7);
    ledger.recover_calls(caller("main"), before, DAY);

    let today = ledger.count(&caller("main"), &used(1, 1, 0, 0, 0.0), DAY);
    let tomorrow = ledger.count(&caller("main"), &used(1, 1, 0, 0, 0.0), NEXT);

    let (today, tomorrow) = (today.unwrap().0, tomorrow.unwrap().0);
    assert_eq!((today.input, today.requests), (101, 8));
    assert_eq!((tomorrow.input, tomorrow.requests), (1, 1));
    let yesterday = ledger.count(&caller("main"), &used(1, 1, 0, 0, 0.0), DAY);
    assert_eq!(yesterday, None);
}

/// SE-140: a team whose budget is nearly spent is told of once a day, also over a restart.
#[test]
fn a_warning_of_a_former_process_is_not_told_again() {
    let spend = |ledger: &Ledger, day| {
        let line = line(&[("main", tokens(100))]);
        let call = ledger.reserve(&line, &[], cost(90), day).unwrap();
        ledger.settle(call, cost(90)).near.len()
    };
    let (fresh, told) = (Ledger::default(), Ledger::default());
    told.recover_warning(&"main".into(), DAY);

    assert_eq!(spend(&fresh, DAY), 1);
    assert_eq!(spend(&told, DAY), 0);
    assert_eq!(spend(&told, NEXT), 1);
}

/// SE-139, OR-47: a former process noted what a team itself has spent; those above have only drawn on it.
#[test]
fn what_was_noted_before_is_the_own_cost_of_one_team_alone() {
    let ledger = Ledger::default();
    ledger.recover(Some(&"child".into()), &["main".into()], cost(90), DAY);

    let own = |team: &str| {
        let line = line(&[(team, Caps::default())]);
        let call = ledger.reserve(&line, &[], cost(1), DAY).unwrap();
        ledger.settle(call, cost(1)).team.unwrap().tokens
    };
    assert_eq!((own("child"), own("main")), (91, 1));
}

/// SE-143: what an operator allowed counts for that day, also after a restart.
#[test]
fn what_a_former_process_was_allowed_still_counts() {
    let ledger = Ledger::default();
    ledger.recover_raise(&"main".into(), 2, DAY);
    let line = line(&[("main", tokens(100))]);

    assert!(ledger.reserve(&line, &[], cost(301), DAY).is_err());
    assert!(ledger.reserve(&line, &[], cost(300), DAY).is_ok());
    assert!(ledger.reserve(&line, &[], cost(101), NEXT).is_err());
}

/// SE-143: a yes that comes after midnight, or for a task, is none for the new day's caps.
#[test]
fn a_yes_counts_for_the_day_or_the_task_it_is_about() {
    let ledger = Ledger::default();

    assert_eq!(ledger.raise(&request(None), DAY), 1);
    assert_eq!(ledger.raise(&request(Some("task-1")), DAY), 1);
    assert_eq!(ledger.raise(&request(None), NEXT), 0);
}

/// OR-30, SE-143: what was asked for a team that is gone is asked again for its successor, and for no other.
#[test]
fn forgetting_a_team_forgets_what_was_asked_for_it_alone() {
    let ledger = Ledger::default();
    ledger.asks(&"main".into(), None, DAY);
    ledger.asks(&"other".into(), None, DAY);

    ledger.forget(&"main".into());

    assert!(ledger.asks(&"main".into(), None, DAY));
    assert!(!ledger.asks(&"other".into(), None, DAY));
}

/// SE-140: the costs of tasks are kept where a cap is for tasks, and where something was paid.
#[test]
fn costs_of_tasks_are_kept_while_a_cap_needs_them() {
    let ledger = Ledger::default();
    let capped = line(&[("child", Caps::default()), ("main", per_task(5.0))]);
    let open = line(&[("child", Caps::default()), ("main", tokens(1_000))]);
    let pay = |line: &Line, root: &str, amount| {
        let tasks = [above("main", root), above("child", "task-2")];
        let call = ledger.reserve(line, &tasks, cost(10), DAY).unwrap();
        ledger.settle(call, amount).task
    };

    assert_eq!(pay(&open, "open", cost(10)), None);
    assert_eq!(pay(&capped, "free", Spent::default()), None);
    let kept = Cost { tasks: vec!["paid".into(), "task-2".into()], spent: cost(10) };
    assert_eq!(pay(&capped, "paid", cost(10)), Some(kept));
    assert_eq!(ledger.roots(), ["paid".into()]);
    assert_eq!(ledger.forget_task(&"paid".into()), ["task-2".into()]);
    assert_eq!(ledger.roots(), []);
}

/// SE-141: one that settles after midnight has cost nothing of the new day.
#[test]
fn a_call_that_ends_after_midnight_belongs_to_the_day_before() {
    let ledger = Ledger::default();
    let line = line(&[("main", tokens(100))]);
    let late = ledger.reserve(&line, &[], cost(50), DAY).unwrap();
    let early = ledger.reserve(&line, &[], cost(10), NEXT).unwrap();

    let settled = ledger.settle(late, cost(99));

    assert_eq!(settled, Settled::default());
    assert_eq!(ledger.drawn(&"main".into(), NEXT), cost(10));
    drop(early);
    assert_eq!(ledger.drawn(&"main".into(), NEXT).tokens, 0);
}

/// Requests of before teams had lives are of the first.
#[test]
fn a_request_of_old_is_of_the_first_life() {
    let request =
        serde_json::json!({"team": "main", "day": 20_261_115, "spent": "", "waiting": "task-1"});

    let request: Request = serde_json::from_value(request).unwrap();

    assert_eq!(request.generation, 1);
}

/// SE-140: what a task and those it came of cost before a restart still counts, and is added to.
#[test]
fn the_cost_of_a_task_outlives_the_process() {
    let ledger = Ledger::default();
    let capped = line(&[("child", Caps::default()), ("main", per_task(1.0))]);
    let tasks = [above("main", "root"), above("child", "task-2")];
    let noted = Cost { tasks: vec!["root".into(), "task-2".into()], spent: cost(70) };
    ledger.recover_task(&noted);

    let dear = ledger.reserve(&capped, &tasks, cost(31), DAY);
    let call = ledger.reserve(&capped, &tasks, cost(20), DAY).unwrap();
    let settled = ledger.settle(call, cost(20));

    assert_eq!(dear.unwrap_err().what, "0.70 of 1.00 USD for one task");
    assert_eq!(settled.task.unwrap().spent.tokens, 90);
}

/// SE-143: a question that nobody answered is asked again.
#[test]
fn what_nobody_decided_may_be_asked_for_again() {
    let ledger = Ledger::default();
    ledger.asks(&"main".into(), None, DAY);

    ledger.unask(&request(None));

    assert!(ledger.asks(&"main".into(), None, DAY));
}

/// SE-140: a warning comes when four fifths are spent, of what the operator allows today.
#[test]
fn a_budget_is_nearly_spent_at_four_fifths() {
    let warned = |caps: Caps, raised: u32, spent: Spent| {
        let ledger = Ledger::default();
        ledger.recover_raise(&"main".into(), raised, DAY);
        let line = line(&[("main", caps)]);
        let call = ledger.reserve(&line, &[], spent, DAY).unwrap();
        let settled = ledger.settle(call, spent);
        settled.near.into_iter().next().map(|near| near.what)
    };
    let money = Caps { usd_per_day: Some(1.0), ..Caps::default() };
    let usd = |usd| Spent { usd, tokens: 0 };

    assert_eq!(warned(money, 0, usd(0.79)), None);
    assert_eq!(warned(money, 0, usd(0.8)).as_deref(), Some("0.80 of 1.00 USD today"));
    assert_eq!(warned(money, 1, usd(1.5)), None);
    assert_eq!(warned(money, 1, usd(1.75)).as_deref(), Some("1.75 of 2.00 USD today"));
    assert_eq!(warned(tokens(100), 0, cost(79)), None);
    assert_eq!(warned(tokens(100), 1, cost(160)).as_deref(), Some("160 of 200 tokens today"));
}

/// SE-140: the same for a task, by the cap of the team whose task it is.
#[test]
fn the_cap_of_a_task_is_nearly_spent_at_four_fifths() {
    let warned = |raised: bool, tasks: &[Ancestor], usd: f64| {
        let ledger = Ledger::default();
        if raised {
            ledger.raise(&request(Some("task-1")), DAY);
        }
        let spent = Spent { usd, tokens: 0 };
        let line = line(&[("main", per_task(1.0))]);
        let call = ledger.reserve(&line, tasks, spent, DAY).unwrap();
        let settled = ledger.settle(call, spent);
        settled.near.into_iter().next().map(|near| near.what)
    };
    let own = [above("main", "task-1")];

    assert_eq!(warned(false, &own, 0.79), None);
    assert_eq!(warned(false, &own, 0.8).as_deref(), Some("0.80 of 1.00 USD for one task"));
    assert_eq!(warned(true, &own, 1.5), None);
    assert_eq!(warned(true, &own, 1.75).as_deref(), Some("1.75 of 2.00 USD for one task"));
    assert_eq!(warned(false, &[above("other", "task-1")], 0.9), None);
}

/// SE-140: all of a cap can be spent.
#[test]
fn a_call_may_take_all_that_is_left() {
    let ledger = Ledger::default();
    let caps = Caps { usd_per_day: Some(1.0), ..Caps::default() };
    let line = line(&[("main", caps)]);

    assert!(ledger.reserve(&line, &[], Spent { usd: 1.0, tokens: 0 }, DAY).is_ok());
}

/// Decisions are many and kept: a start reads those of work that has cost something, and else only what waits.
#[test]
fn a_start_without_open_work_reads_no_decisions() {
    let storage = Disk::default().mount(None);
    storage.fail_scans(Some(b"apr\0"));
    let recover = |storage: &dyn Storage| {
        recover_spending(storage, &Ledger::default(), DAY, &Tree::new(Vec::new()))
    };

    let without = recover(&*storage);
    let cost = Cost { tasks: vec!["task-1".into()], spent: cost(1) };
    storage.commit(&Writes::new().put(&cost).batch().unwrap()).unwrap();
    let with = recover(&*storage);

    assert!(without.is_ok() && with.is_err(), "{without:?} {with:?}");
}
