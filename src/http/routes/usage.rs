//! `/api/v1/usage`: what model calls have come to.

use std::collections::{BTreeMap, HashMap};

use actix_web::{HttpResponse, http::header, web, web::Bytes};
use futures_util::{Stream, StreamExt, stream};
use hivewright_actors::{
    blocking,
    budget::{
        Caps, Day, Days, Tally,
        query::{UsageQuery, UsageRank},
        records as spending,
    },
    clock::Timestamp,
    ids::TaskId,
    storage::{Storage, StorageError},
};

use crate::{
    api::{endpoint::*, page::PageQuery, reply::*, usage::*, when::OnDay},
    http::{
        kit::{
            call::*,
            csv,
            error::*,
            listing::{self, Gathering},
            query::Page,
            revocation::until_ended,
        },
        state::State,
    },
};

/// An export reads so many rows at a time.
const PIECE: usize = 2_000;

fn row(key: String, tally: Tally) -> UsageRow {
    UsageRow { key, tally, cached_share: tally.cached_share() }
}

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, UsageFilter>,
) -> ApiResult<Rows<UsageRow>> {
    rows(&state, &caller, query, page).await
}

/// An export under way.
struct Export {
    state: web::Data<State>,
    caller: Caller,
    filter: UsageFilter,
    /// What is read next.
    page: Page,
}

pub(super) async fn export(
    Call { state, caller, query: filter, .. }: Call<Empty, UsageFilter>,
) -> ApiResult<HttpResponse> {
    let list = &LIST_USAGE;
    let usual = (list.usual_sort)(&filter).unwrap_or(list.sorts[0]);
    let page = Page::new(list.path, &PageQuery::default(), list.sorts, usual)?;
    let file = format!("usage-by-{}.csv", filter.group);
    let principal = caller.principal.clone();
    let export = Export { state, caller, filter, page: Page { limit: PIECE, ..page } };
    let head = csv::head(&row(String::new(), Tally::default()))?;
    // What is refused is refused before the answer begins.
    let (first, rest) = export.next().await?;
    let start = stream::iter([Ok(Bytes::from(head)), Ok(Bytes::from(first))]);
    Ok(HttpResponse::Ok()
        .insert_header((header::CONTENT_TYPE, format!("{CSV}; charset=utf-8; header=present")))
        .insert_header((header::CONTENT_DISPOSITION, format!("attachment; filename=\"{file}\"")))
        .streaming(until_ended(&principal, start.chain(chunks(rest)))))
}

fn chunks(export: Option<Export>) -> impl Stream<Item = Result<Bytes, actix_web::Error>> {
    stream::try_unfold(export, |export| async move {
        let Some(export) = export else { return Ok(None) };
        let (lines, rest) = export.next().await?;
        Ok(Some((Bytes::from(lines), rest)))
    })
}

impl Export {
    /// The next rows as lines, and what is left.
    async fn next(self) -> ApiResult<(String, Option<Self>)> {
        let found = rows(&self.state, &self.caller, self.filter.clone(), self.page.clone()).await?;
        let lines = found.data.iter().map(csv::row).collect::<Result<String, _>>()?;
        let behind = found.next_cursor.map(|cursor| self.page.behind(&cursor)).transpose()?;
        Ok((lines, behind.map(|page| Self { page, ..self })))
    }
}

async fn rows(
    state: &web::Data<State>,
    caller: &Caller,
    filter: UsageFilter,
    page: Page,
) -> ApiResult<Rows<UsageRow>> {
    let UsageFilter { group, from, to } = filter;
    let number = |day: OnDay| day.from(state.now(), &*state.days);
    let (first, last) = (from.map_or(0, number), to.map_or(u32::MAX, number));
    if group == UsageGroup::Task {
        // Whose a task was is not counted.
        caller.all_teams()?;
        let wanted = UsageQuery {
            days: (first, last),
            moments: moments(&*state.days, first, last),
            rank: match page.sort.field {
                "key" => UsageRank::Task,
                "requests" => UsageRank::Requests,
                _ => UsageRank::Usd,
            },
        };
        return state.read(move |storage| of_tasks(storage, &wanted, &page)).await;
    }
    if group == UsageGroup::Purpose {
        caller.all_teams()?;
        let rows = state.read(move |storage| by_purpose(storage, first, last)).await?;
        return listing::page(rows, &page, |row| row.key.clone());
    }
    let reaches = caller.reach();
    let tallies = state.read(move |storage| {
        let mut tallies: HashMap<String, Tally> = HashMap::new();
        spending::each_call(storage, first, last, &mut |day, caller, tally| {
            if !reaches(caller.team.name.as_str()) {
                return;
            }
            let key = match group {
                UsageGroup::Team => caller.team.name.to_string(),
                UsageGroup::Profile => caller.profile,
                UsageGroup::Model => caller.model,
                UsageGroup::Day | UsageGroup::Task | UsageGroup::Purpose => date(day),
            };
            *tallies.entry(key).or_default() += tally;
        })?;
        Ok(tallies)
    });
    let rows = tallies.await?.into_iter().map(|(key, tally)| row(key, tally));
    listing::page(rows, &page, |row| row.key.clone())
}

/// What calls beside the work of teams have come to, and what is left for turns.
fn by_purpose(storage: &dyn Storage, first: u32, last: u32) -> Result<Vec<UsageRow>, StorageError> {
    let (mut turns, mut others) = (Tally::default(), BTreeMap::<String, Tally>::new());
    spending::each_call(storage, first, last, &mut |_, _, tally| turns += tally)?;
    spending::each_purpose(storage, first, last, &mut |purpose, tally| {
        turns -= tally;
        *others.entry(purpose).or_default() += tally;
    })?;
    let all = std::iter::once(("turns".to_owned(), turns)).chain(others);
    Ok(all.map(|(key, tally)| row(key, tally)).collect())
}

/// What each task has come to. There may be very many, most of them in the archive, which is asked for the page alone.
fn of_tasks(
    storage: &dyn Storage,
    wanted: &UsageQuery,
    page: &Page,
) -> Result<Rows<UsageRow>, StorageError> {
    let value = |rank: f64, task: &TaskId| match wanted.rank {
        UsageRank::Task => task.as_str().into(),
        UsageRank::Usd | UsageRank::Requests => rank.into(),
    };
    let mut gathering = Gathering::new(page);
    let known = spending::each_task_calls(storage, wanted, &mut |place, task, tally| {
        gathering.see_by(value(wanted.rank.of(tally), task), &format!("{task}\0{place}"));
    })?;
    if let Some(tiers) = storage.tiers() {
        let window = gathering.window(|place| {
            let (task, _) = place.id.split_once('\0')?;
            Some((place.value.as_f64().unwrap_or_default(), task.into()))
        });
        let part = tiers.lists().usage(wanted, &window, &known)?;
        gathering.see_part(part, |(rank, task)| {
            (value(rank, &task), format!("{task}\0{}", spending::AT_END))
        });
    }
    gathering.rows(page, |id| {
        let Some((task, place)) = id.split_once('\0') else {
            return Ok(None);
        };
        let tally = spending::task_calls_at(storage, place, task)?;
        Ok(tally.map(|tally| row(task.to_owned(), tally)))
    })
}

/// The first moment of the first of some days, and the last moment of the last.
fn moments(days: &dyn Days, first: u32, last: u32) -> (Timestamp, Timestamp) {
    // Behind this year there are no dates.
    const END: u64 = 253_370_764_800_000;
    let begins = |day: u32| {
        let (mut before, mut reached) = (0, END);
        while before < reached {
            let middle = before.midpoint(reached);
            if days.day_of(Timestamp(middle)).number < day {
                before = middle + 1;
            } else {
                reached = middle;
            }
        }
        before
    };
    let until = last.checked_add(1).map_or(END, begins);
    (Timestamp(begins(first)), Timestamp(until.saturating_sub(1)))
}

fn date(number: u32) -> String {
    Day { number, ends_at: Timestamp::default() }.date()
}

pub(super) async fn list_budgets(
    Call { state, caller, page, .. }: Call,
) -> ApiResult<Rows<BudgetRow>> {
    let files = state.clone();
    let budgets = blocking::run(move || {
        let (org, tree) = (files.org(), files.org().view.now());
        let budgets = tree.iter().map(|team| BudgetRow {
            team: team.name.clone(),
            caps: org.live.team_now(&team.name).map_or_else(|_| Caps::default(), |it| it.budgets),
            spent: (org.spent)(&team.name),
        });
        budgets.collect::<Vec<_>>()
    });
    let budgets = budgets.await?.into_iter();
    let reached = budgets.filter(|budget| caller.reaches(budget.team.as_str()));
    listing::page(reached, &page, |budget| budget.team.to_string())
}
