//! `/api/v1/inbox`: what the operator should know, until it was read.

use std::{collections::HashMap, ops::ControlFlow};

use hivewright_actors::{
    ids::NoticeId,
    notice::{Brief, Gathered, Name, Notice, gather, groups},
    storage::Order,
    store::{
        reads::{Range, get},
        records::Writes,
    },
};

use super::{
    State,
    call::Call,
    caller::Caller,
    error::ApiError,
    json,
    listing::Gathering,
    routes::{Resource, on},
};
use crate::api::{
    endpoint::{ById, Empty},
    inbox::{LIST_NOTICES, NoticeFilter, NoticeRow, READ_ALL_NOTICES, READ_NOTICE},
    reply::{Done, Rows},
};

/// Notices that are marked in one commit.
const AT_ONCE: usize = 500;

pub(super) fn resources() -> Vec<Resource> {
    vec![on(&LIST_NOTICES, list), on(&READ_ALL_NOTICES, read_all), on(&READ_NOTICE, read_one)]
}

fn row(gathered: Gathered) -> NoticeRow {
    NoticeRow {
        id: gathered.first.id,
        kind: gathered.first.kind,
        team: gathered.first.team.map(|team| team.to_string()),
        text: gathered.first.text,
        count: gathered.ids.len(),
        links: gathered.first.refs,
        at: json::date(gathered.first.at),
        last_at: json::date(gathered.last_at),
        read: gathered.read,
    }
}

async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, NoticeFilter>,
) -> Result<Rows<NoticeRow>, ApiError> {
    let NoticeFilter { unread, kind } = query;
    let seen = Seen::by(&caller);
    let rows = state.spine.store.read(move |storage| {
        let wanted =
            |notice: &Notice| seen.holds(notice) && kind.is_none_or(|wanted| notice.kind == wanted);
        let mut briefs = Vec::new();
        Range::<Notice>::all().for_each(storage, &mut |notice| {
            if wanted(&notice) {
                briefs.push(Brief::from(&notice));
            }
        })?;
        let mut gathering = Gathering::new(&page);
        groups(briefs, &mut |group| {
            if !(unread && group.read) {
                let at = match page.sort.field {
                    "at" => group.at,
                    _ => group.last_at,
                };
                gathering.see(at, &group.name());
            }
        });
        // The words are read for the page alone.
        let mut members: HashMap<String, Vec<Notice>> = HashMap::new();
        let places = gathering.rows(&page, |name| {
            members.insert(name.to_owned(), Vec::new());
            Ok(Some(name.to_owned()))
        })?;
        let shown: Vec<Name> = members.keys().filter_map(|name| Name::parse(name)).collect();
        Range::<Notice>::all().for_each(storage, &mut |notice| {
            if let Some(name) = shown.iter().find(|name| name.holds(&notice))
                && wanted(&notice)
                && let Some(members) = members.get_mut(&name.to_string())
            {
                members.push(notice);
            }
        })?;
        let data = places.data.iter().filter_map(|name| {
            let mut notices = members.remove(name)?;
            notices.sort_by_key(|notice| notice.at);
            gather(notices).pop().map(row)
        });
        Ok(Rows { data: data.collect(), total: places.total, next_cursor: places.next_cursor })
    });
    rows.await.map_err(ApiError::internal)
}

async fn read_one(Call { state, caller, path, .. }: Call<ById>) -> Result<Done, ApiError> {
    let (seen, id) = (Seen::by(&caller), NoticeId::from(path.id));
    let meant = state.spine.store.read(move |storage| {
        let Some(meant) = get::<Notice>(storage, &id)?.filter(|notice| seen.holds(notice)) else {
            return Ok(None);
        };
        let mut equal = Vec::new();
        Range::<Notice>::all().for_each(storage, &mut |notice| {
            if notice.says_the_same(&meant) {
                equal.push(notice);
            }
        })?;
        equal.sort_by_key(|notice| notice.at);
        let mut groups = gather(equal).into_iter();
        Ok(groups.find(|group| group.ids.contains(&id)))
    });
    let meant = meant.await.map_err(ApiError::internal)?;
    let meant = meant.ok_or_else(|| ApiError::not_found("there is no such notice"))?;
    mark(&state, meant.ids).await?;
    Ok(Done)
}

async fn read_all(Call { state, caller, .. }: Call) -> Result<Done, ApiError> {
    let seen = Seen::by(&caller);
    // What comes from now on has not been seen by anyone.
    let now = state.access.auth.now();
    let mut after = None;
    loop {
        let (seen, from) = (seen.clone(), after);
        let some = state.spine.store.read(move |storage| {
            let mut unread = Vec::new();
            let range = match &from {
                Some(id) => Range::<Notice>::all().after(id),
                None => Range::all(),
            };
            range.each(storage, Order::Rising, &mut |notice| {
                if !notice.read && notice.at <= now && seen.holds(&notice) {
                    unread.push(notice.id);
                }
                if unread.len() < AT_ONCE {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            })?;
            Ok(unread)
        });
        let some = some.await.map_err(ApiError::internal)?;
        let is_last = some.len() < AT_ONCE;
        after = some.last().cloned();
        mark(&state, some).await?;
        if is_last {
            return Ok(Done);
        }
    }
}

/// What a caller may see: notices of their teams, and of no team if they have all.
#[derive(Clone)]
struct Seen(Option<Vec<String>>);

impl Seen {
    fn by(caller: &Caller) -> Self {
        Self(caller.principal.teams().map(<[String]>::to_vec))
    }

    fn holds(&self, notice: &Notice) -> bool {
        let Some(teams) = &self.0 else { return true };
        let team = notice.team.as_ref();
        team.is_some_and(|team| teams.iter().any(|name| name == team.as_str()))
    }
}

/// Notes that some were read.
async fn mark(state: &State, ids: Vec<NoticeId>) -> Result<(), ApiError> {
    let writes = state.spine.store.read(move |storage| {
        let mut writes = Writes::new();
        for id in &ids {
            if let Some(notice) = get::<Notice>(storage, id)?.filter(|notice| !notice.read) {
                writes = writes.put(&Notice { read: true, ..notice });
            }
        }
        Ok(writes)
    });
    let writes = writes.await.map_err(ApiError::internal)?;
    let committed = state.spine.store.commit(writes).await;
    committed.map(drop).map_err(ApiError::internal)
}
