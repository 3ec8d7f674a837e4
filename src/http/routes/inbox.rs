//! `/api/v1/inbox`: what the operator should know, until it was read.

use std::{collections::HashMap, ops::ControlFlow};

use hivewright_actors::{
    ids::NoticeId,
    notice::{Brief, Name, Notice, gather, groups},
    storage::Order,
    store::{
        reads::{Range, get},
        records::Writes,
    },
};

use crate::{
    api::{endpoint::*, inbox::*, reply::*},
    http::{
        kit::{call::*, error::*, listing::Gathering},
        state::State,
    },
};

/// Notices that are marked in one commit.
const AT_ONCE: usize = 500;

pub(super) async fn list(
    Call { state, caller, query, page, .. }: Call<Empty, NoticeFilter>,
) -> ApiResult<Rows<NoticeRow>> {
    let NoticeFilter { unread, kind } = query;
    let is_seen = seen(&caller);
    let rows = state.read(move |storage| {
        let wanted =
            |notice: &Notice| is_seen(notice) && kind.is_none_or(|wanted| notice.kind == wanted);
        let mut briefs = Vec::new();
        Range::<Notice>::all().for_each(storage, &mut |notice| {
            if wanted(&notice) {
                briefs.push(Brief::from(&notice));
            }
        })?;
        let mut gathering = Gathering::new(&page);
        groups(briefs, &mut |group| {
            if !(unread && group.read) {
                let at = if page.sort.field == "at" { group.at } else { group.last_at };
                gathering.see(at, &group.name());
            }
        });
        // The words are read for the page alone.
        gathering.rows_of(&page, |found| {
            let shown: Vec<Name> = found.keys().filter_map(|name| Name::parse(name)).collect();
            let mut members: HashMap<String, Vec<Notice>> = HashMap::new();
            Range::<Notice>::all().for_each(storage, &mut |notice| {
                if let Some(name) = shown.iter().find(|name| name.holds(&notice))
                    && wanted(&notice)
                {
                    members.entry(name.to_string()).or_default().push(notice);
                }
            })?;
            for (name, mut notices) in members {
                notices.sort_by_key(|notice| notice.at);
                found.insert(name, gather(notices).pop().map(NoticeRow::from));
            }
            Ok(())
        })
    });
    rows.await
}

pub(super) async fn read_one(Call { state, caller, path, .. }: Call<ById>) -> ApiResult<Done> {
    let (is_seen, id) = (seen(&caller), NoticeId::from(path.id));
    let meant = state.read(move |storage| {
        let Some(meant) = get::<Notice>(storage, &id)?.filter(is_seen) else {
            return Ok(None);
        };
        let mut equal = Vec::new();
        Range::<Notice>::all().for_each(storage, &mut |notice| {
            if notice.says_the_same(&meant) {
                equal.push(notice);
            }
        })?;
        equal.sort_by_key(|notice| notice.at);
        Ok(gather(equal).into_iter().find(|group| group.ids.contains(&id)))
    });
    let meant = meant.await?.ok_or_else(|| ApiError::not_found("there is no such notice"))?;
    mark(&state, meant.ids).await?;
    Ok(Done)
}

pub(super) async fn read_all(Call { state, caller, .. }: Call) -> ApiResult<Done> {
    let is_seen = seen(&caller);
    // What comes from now on has not been seen by anyone.
    let now = state.now();
    let mut after = None;
    loop {
        let (is_seen, from) = (is_seen.clone(), after);
        let some = state.read(move |storage| {
            let mut unread = Vec::new();
            let range =
                from.as_ref().map_or_else(Range::all, |id| Range::<Notice>::all().after(id));
            range.each(storage, Order::Rising, &mut |notice| {
                if !notice.read && notice.at <= now && is_seen(&notice) {
                    unread.push(notice.id);
                }
                let is_full = unread.len() == AT_ONCE;
                if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            Ok(unread)
        });
        let some = some.await?;
        let is_last = some.len() < AT_ONCE;
        after = some.last().cloned();
        mark(&state, some).await?;
        if is_last {
            return Ok(Done);
        }
    }
}

/// What a caller may see: notices of their teams, and of no team if they have all.
fn seen(caller: &Caller) -> impl Fn(&Notice) -> bool + Clone + Send + 'static + use<> {
    let sees = caller.sight();
    move |notice| sees(notice.team.as_ref().map(|team| team.as_str()))
}

/// Notes that some were read.
async fn mark(state: &State, ids: Vec<NoticeId>) -> ApiResult<()> {
    let writes = state.read(move |storage| {
        let mut writes = Writes::new();
        for id in &ids {
            if let Some(notice) = get::<Notice>(storage, id)?.filter(|notice| !notice.read) {
                writes = writes.put(&Notice { read: true, ..notice });
            }
        }
        Ok(writes)
    });
    state.spine.store.commit(writes.await?).await?;
    Ok(())
}
